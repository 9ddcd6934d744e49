# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's GPUs by sysfs and nvidia-smi: what is queried, queried again without a field, or not queried."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.bounded import Ended, ToolError
from ansible_collections.railyard.fabric.plugins.module_utils.facts import gpus
from support.nodes.gpu_node import PROPRIETARY_535, GpuNode

FIXTURES = Path(__file__).parents[1] / "parsers/fixtures"
A100 = 0x20B2
UNKNOWN = 'Field "{0}" is not a valid field to query.\n'


@pytest.fixture
def node(tmp_path):
    made = GpuNode(tmp_path)
    folder = made.function("0000:17:00.0", A100)
    (folder / "aer_dev_correctable").write_text("RxErr 3\nBadTLP 0\nTimeout 4\nTOTAL_ERR_COR 7\n")
    made.load("535.183.01", PROPRIETARY_535)
    return made


class Smi:
    """nvidia-smi of a driver that knows only some fields, or that answers something else."""

    def __init__(self, lacks=(), **others):
        self.lacks, self.others, self.asked = lacks, others, []

    def __call__(self, argv):
        self.asked.append(argv[1:])
        what = argv[1].partition("=")[0].lstrip("-")
        answer = self.others.get(what)
        if isinstance(answer, ToolError):
            raise answer
        if answer is not None:
            return Ended(0, answer)
        if not argv[1].startswith("--query"):
            return Ended(0, "")
        fields = argv[1].partition("=")[2].split(",")
        for one in self.lacks:
            if one in fields:
                return Ended(2, UNKNOWN.format(one))
        known = {"pci.bus_id": "00000000:17:00.0", "gpu_bus_id": "00000000:17:00.0", "name": "NVIDIA A100"}
        return Ended(0, f"{', '.join(fields)}\n{', '.join(known.get(one, '0') for one in fields)}\n")


def read(node, smi, **more):
    return gpus.read(node.reader(), smi, **more)


def test_nvidia_smi_is_queried_once_for_each_part(node):
    smi = Smi()
    found = read(node, smi)
    assert [words[0].partition("=")[0] for words in smi.asked] == [
        "--query-gpu", "--query-remapped-rows", "nvlink", "topo",
    ]  # fmt: skip
    [row] = found["rows"]
    assert (row["pci"], row["name"], row["remapped_rows.failure"], row["aer_correctable"]) == (
        "0000:17:00.0", "NVIDIA A100", 0, 7,
    )  # fmt: skip
    assert found["driver"] == "535.183.01"
    few = Smi()
    read(node, few, parts=("rows",))
    assert len(few.asked) == 2


def test_a_field_that_a_driver_lacks_is_left_out_or_queried_by_its_new_name(node):
    old = "clocks_throttle_reasons.hw_thermal_slowdown"
    smi = Smi(lacks=("temperature.gpu.tlimit", old))
    [row] = read(node, smi)["rows"]
    assert "temperature.gpu.tlimit" not in row
    assert row[old] == 0, "rules know one name of it"
    assert "clocks_event_reasons.hw_thermal_slowdown" in smi.asked[2][0]
    everything = Smi(lacks=tuple(smi.asked[0][0].partition("=")[2].split(",")))
    # It lacks what names a GPU, or nearly all; that is no word about the GPUs.
    assert read(node, everything)["errors"]["rows"] == {
        "class": gpus.GARBLED, "message": "nvidia-smi does not know pci.bus_id",
    }  # fmt: skip
    nearly_all = Smi(lacks=everything.lacks[2:])
    assert read(node, nearly_all)["errors"]["rows"]["class"] == gpus.GARBLED


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ToolError("nvidia-smi: not found", absent=True), gpus.ABSENT),
        (ToolError("nvidia-smi: no answer within 10 s"), gpus.SILENT),
    ],
)
def test_what_is_not_there_or_hangs_is_not_queried_again(node, error, kind):
    smi = Smi(**{"query-gpu": error})
    found = read(node, smi)
    assert len(smi.asked) == 1
    assert {part: one["class"] for part, one in found["errors"].items()} == {
        "rows": kind, "nvlink": kind, "nvlink_errors": kind, "topology": kind,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        ("Unable to determine the device handle for GPU0000:17:00.0: Unknown Error\n", gpus.FAILED),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver.\n", gpus.FAILED),
        ("pci.bus_id, name\n00000000:17:00.0\n", gpus.GARBLED),
        ("Segmentation fault\n", gpus.GARBLED),
        ("", gpus.GARBLED),
    ],
)
def test_what_cannot_be_read_is_reported_and_the_rest_is_queried(node, answer, kind):
    found = read(node, Smi(**{"query-gpu": answer}))
    assert (found["rows"], found["errors"]["rows"]["class"]) == ([], kind)
    assert "nvlink" not in found["errors"]


@pytest.mark.parametrize(
    ("words", "seen"),
    [
        *((words, words) for words in ("[GPU requires reset]", "[GPU is lost]", "[Unknown Error]")),
        ("[N/A]", None),
        ("[Not Supported]", None),
    ],
)
def test_a_word_for_trouble_is_kept_as_it_was_printed_and_one_for_no_value_is_none(node, words, seen):
    def ask(argv):
        answer = Smi()(argv)
        return Ended(answer.status, answer.text.replace(", 0", f", {words}"))

    [row] = read(node, ask)["rows"]
    assert (row["name"], row["temperature.gpu"], row["power.draw"]) == ("NVIDIA A100", seen, seen)


@pytest.mark.parametrize(
    ("second", "kind"),
    [("Unable to retrieve NVLink information: GPU is lost", gpus.GARBLED), ("NVLink is not supported", None)],
)
def test_a_gpu_without_nvlink_hides_no_trouble_of_another(node, second, kind):
    text = (
        "GPU 0: NVIDIA A100 (UUID: GPU-0)\n\t Link 0: 25 GB/s\n"
        "GPU 1: NVIDIA T4 (UUID: GPU-1)\nNVLink is not supported\n"
        f"GPU 2: NVIDIA A100 (UUID: GPU-2)\n{second}\n"
    )
    found = read(node, Smi(nvlink=text))
    assert found["errors"].get("nvlink", {}).get("class") == kind
    assert [one["active"] for one in found["nvlink"]] == ([] if kind else [1])


def test_nvlinks_of_a_capture_and_their_errors(node):
    text = (FIXTURES / "nvidia-smi-nvlink/two.txt").read_text()
    errors = (
        "GPU 0: Tesla V100-SXM2-16GB (UUID: GPU-00000000-0000-0000-0000-000000000001)\n"
        "\t Link 0: Replay Errors: 2\n\t Link 0: Recovery Errors: 0\n\t Link 0: CRC Errors: 5\n\n"
        "\t Link 1: Replay Errors: 1\n"
    )

    def ask(argv):
        return Ended(0, {"-s": text, "-e": errors}[argv[2]]) if argv[1] == "nvlink" else Smi()(argv)

    assert read(node, ask)["nvlink"] == [
        {"gpu": 0, "active": 2, "inactive": [], "speeds_gbytes_per_s": [25.781],
         "errors": {"replay": 3, "recovery": 0, "crc": 5}},
        {"gpu": 1, "active": 1, "inactive": [1], "speeds_gbytes_per_s": [25.781], "errors": None},
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("GPU 0: NVIDIA L4 (UUID: GPU-0)\n", None),
        ("GPU 0: Tesla V100 (UUID: GPU-1)\n\t Link 0: 25.781 GB/s\n\t Link 1: 25.7", "truncated"),
        ("Killed\n", "ended with 0"),
    ],
)
def test_gpus_without_nvlink_are_no_error_and_a_cut_answer_is(node, answer, said):
    found = read(node, Smi(nvlink=answer))
    assert found["nvlink"] == []
    assert found["errors"].get("nvlink", {}).get("class") == (gpus.GARBLED if said else None)


def test_how_gpus_are_joined_is_that_of_a_capture(node):
    smi = Smi(topo=(FIXTURES / "nvidia-smi-topo/two_gpus.txt").read_text())
    assert read(node, smi)["topology"] == {"GPU0": {"GPU1": "NV18"}, "GPU1": {"GPU0": "NV18"}}


def place(node, path, numa):
    """Put a PCI device where the kernel does: below its ports, and listed by the bus."""
    folder = node.root / "sys/devices" / path
    folder.mkdir(parents=True)
    (folder / "numa_node").write_text(f"{numa}\n")
    listed = node.root / "sys/bus/pci/devices" / folder.name
    listed.parent.mkdir(parents=True, exist_ok=True)
    listed.symlink_to(folder)
    return folder


@pytest.mark.parametrize(
    ("card", "numa", "by", "whose"),
    [
        ("pci0000:15/0000:15:01.0/0000:16:01.0/0000:19:00.0", 0, "switch", ["0000:17:00.0"]),
        ("pci0000:15/0000:15:03.0/0000:19:00.0", 0, "root", ["0000:17:00.0"]),
        ("pci0000:26/0000:26:01.0/0000:19:00.0", 0, "numa_node", ["0000:17:00.0"]),
        ("pci0000:26/0000:26:01.0/0000:19:00.0", 2, "far", ["0000:17:00.0", "0000:89:00.0"]),
        ("pci0000:26/0000:26:01.0/0000:19:00.0", -1, None, []),
    ],
)
def test_the_gpus_nearest_to_a_card(tmp_path, card, numa, by, whose):
    node = GpuNode(tmp_path)
    for path, of in (
        ("pci0000:15/0000:15:01.0/0000:16:00.0/0000:17:00.0", 0),
        ("pci0000:87/0000:87:01.0/0000:89:00.0", 1),
    ):
        folder = place(node, path, of)
        for name, value in (("vendor", "0x10de"), ("device", "0x20b2"), ("class", "0x030200")):
            (folder / name).write_text(f"{value}\n")
    place(node, card, numa)
    found = read(node, Smi(), cards=["0000:19:00.0", "0000:19:00.0", "0000:aa:00.0"])
    assert found["near"] == [{"nic": "0000:19:00.0", "by": by, "gpus": whose}]


@pytest.mark.parametrize(
    ("card", "gpu"),
    [
        # Below the same bridge, behind the port of all three.
        ("pci0000:15/0000:15:01.0/0000:16:02.0/0000:19:00.0", "0000:18:00.0"),
        # All of the port's are as near.
        ("pci0000:15/0000:15:01.0/0000:16:03.0/0000:19:00.0", "0000:17:00.0"),
        ("pci0000:87/0000:87:01.0/0000:19:00.0", "0000:89:00.0"),
        # None in common with any, and the NUMA node of one.
        ("pci0000:26/0000:26:01.0/0000:19:00.0", "0000:89:00.0"),
    ],
)
def test_one_gpu_of_a_card_is_the_one_with_the_most_bridges_in_common(tmp_path, card, gpu):
    node = GpuNode(tmp_path)
    for path in (
        "pci0000:15/0000:15:01.0/0000:16:01.0/0000:17:00.0",
        "pci0000:15/0000:15:01.0/0000:16:02.0/0000:18:00.0",
        "pci0000:87/0000:87:01.0/0000:89:00.0",
    ):
        folder = place(node, path, int("87" in path))
        for name, value in (("vendor", "0x10de"), ("device", "0x20b2"), ("class", "0x030200")):
            (folder / name).write_text(f"{value}\n")
    place(node, card, 1)
    assert gpus.nearest(node.reader(), "0000:19:00.0") == gpu
    assert gpus.nearest(GpuNode(tmp_path / "none").reader(), "0000:19:00.0") is None


def test_nothing_is_queried_from_a_node_without_gpus_or_driver(tmp_path):
    smi = Smi()
    found = read(GpuNode(tmp_path), smi)
    assert (found["pci"], found["xids"], smi.asked) == ([], None, [])
    bare = GpuNode(tmp_path / "bare")
    bare.function("0000:17:00.0", A100)
    assert read(bare, smi)["driver"] is None
    assert smi.asked == []


def test_programs_together_have_so_long(tmp_path, monkeypatch):
    tool = tmp_path / "slow"
    tool.write_text("#!/bin/sh\nexec sleep 30\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    ask = gpus.by_the_clock(0.3)
    with pytest.raises(ToolError, match="no answer within"):
        ask(["slow"])
    with pytest.raises(ToolError, match="no time was left"):
        ask(["slow"])
