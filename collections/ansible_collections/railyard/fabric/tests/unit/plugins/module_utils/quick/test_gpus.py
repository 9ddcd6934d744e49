# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's GPUs in a quick look: what the rules say in a line, and what was not declared."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.bounded import Ended, ToolError
from ansible_collections.railyard.fabric.plugins.module_utils.quick import gpus
from ansible_collections.railyard.fabric.plugins.module_utils.quick.found import Found
from support.nodes.gpu_node import PROPRIETARY_535, GpuNode

HEADER = (
    "pci.bus_id, name, ecc.errors.uncorrected.volatile.total, retired_pages.pending, "
    "clocks_throttle_reasons.hw_thermal_slowdown, clocks_throttle_reasons.hw_power_brake_slowdown, "
    "pcie.link.width.current, pcie.link.width.max\n"
)
ROW = "00000000:{0}:00.0, NVIDIA A100-SXM4-80GB, 0, [N/A], Not Active, Not Active, 16, 16\n"
REMAPPED = "gpu_bus_id, remapped_rows.pending, remapped_rows.failure\n"
NO_REMAP = "00000000:{0}:00.0, 0, 0\n"
A100 = 0x20B2
TWO = {"count": 2}


@pytest.fixture
def node(tmp_path):
    made = GpuNode(tmp_path)
    for address in ("0000:17:00.0", "0000:89:00.0"):
        made.function(address, A100)
    made.load("535.183.01", PROPRIETARY_535)
    return made


def smi(rows=None, remapped=None, status=0):
    rows = HEADER + "".join(map(ROW.format, ("17", "89"))) if rows is None else rows
    remapped = REMAPPED + "".join(map(NO_REMAP.format, ("17", "89"))) if remapped is None else remapped

    def ask(argv):
        assert argv[0] == "nvidia-smi"
        if argv[1] in ("nvlink", "topo"):
            return Ended(0, "")
        return Ended(status, rows if argv[1].startswith("--query-gpu=") else remapped)

    return ask


def absent(_argv):
    raise ToolError("nvidia-smi: not found", absent=True)


def hangs(_argv):
    raise ToolError("nvidia-smi: no answer within 10 s")


def look(node, expected, ask, after=0):
    found = Found()
    gpus.look("gpu1", expected, node.reader(), ask, after, found)
    return found


def test_gpus_that_are_all_there_and_well(node):
    assert look(node, TWO, smi()) == Found(good=["2 GPUs"])
    # Their number is not declared: those that are there are looked at all the same.
    assert look(node, None, smi()) == Found(good=["2 GPUs"])


def test_what_a_rule_fails_is_wrong_in_its_words(node):
    rows = (
        HEADER
        + ROW.format("17")
        + "00000000:89:00.0, NVIDIA A100-SXM4-80GB, 2, [N/A], Active, [N/A], 8, 16\n"
    )
    assert look(node, TWO, smi(rows)).wrong == [
        "gpu_memory_bad: 0000:89:00.0: 2 uncorrectable ECC errors since the driver was loaded",
        "gpu_slowed: 0000:89:00.0: slowed down by its temperature",
        "gpu_pcie_narrow: 0000:89:00.0: PCIe runs at 8 lanes, 16 are possible",
    ]
    assert look(node, {"count": 8}, smi()).wrong == ["gpu_missing: 2 NVIDIA GPUs on the PCI bus, 8 expected"]
    assert look(node, {"count": 2, "model": "H100"}, smi()).wrong == [
        "gpu_model_differs: model NVIDIA A100-SXM4-80GB, the inventory's is H100"
    ]


@pytest.mark.parametrize("expected", [TWO, None])
@pytest.mark.parametrize("words", ["[GPU requires reset]", "[GPU is lost]"])
def test_a_gpu_that_needs_a_reset_is_not_good(node, expected, words):
    rows = HEADER + ROW.format("17") + ROW.format("89").rsplit(",", 3)[0] + f", {words}" * 3 + "\n"
    found = look(node, expected, smi(rows))
    assert any(line.startswith("gpu_lost: 0000:89:00.0: ") and words[1:-1] in line for line in found.wrong)
    assert not found.good


def test_xids_since_the_last_look(node):
    node.log(
        "NVRM: Xid (PCI:0000:17:00): 31, pid=7, name=python, Ch 00000008",
        "NVRM: Xid (PCI:0000:89:00): 79, GPU has fallen off the bus.",
        "eth0: link is up",
    )
    first = look(node, TWO, smi())
    assert first.wrong == [
        "gpu_xid: 0000:89:00: XID 79 (restart the node), 1 times, last: GPU has fallen off the bus."
    ]
    assert first.told == ["XID 31 1 times, reported but not judged"]
    assert look(node, TWO, smi(), after=2) == Found(good=["2 GPUs"])


@pytest.mark.parametrize(
    ("expected", "ask", "part"),
    [
        (TWO, absent, "unknown"),
        (None, absent, "told"),
        (TWO, hangs, "unknown"),
        (None, hangs, "unknown"),
        (TWO, smi(HEADER + ROW.format("17")[:60]), "unknown"),
        (TWO, smi(status=9), "unknown"),
        (TWO, smi("Segmentation fault\n", status=139), "unknown"),
        (TWO, smi(remapped="Segmentation fault\n"), "unknown"),
    ],
)
def test_what_does_not_answer_is_never_good(node, expected, ask, part):
    found = look(node, expected, ask)
    assert len(getattr(found, part)) == 1
    assert not found.wrong


def test_a_log_that_cannot_be_read_is_not_known_where_gpus_are_promised(node):
    (node.root / "dev/kmsg").unlink()
    assert look(node, TWO, smi()).unknown == ["xid_unknown: /dev/kmsg: No such file or directory"]
    assert look(node, None, smi()).told == ["xid_unknown: /dev/kmsg: No such file or directory"]


def test_a_driver_that_is_not_loaded_is_wrong_where_gpus_are_expected(tmp_path):
    node = GpuNode(tmp_path)
    node.function("0000:17:00.0", A100)
    assert "driver is not loaded" in look(node, {"count": 1}, smi()).wrong[0]
    assert "driver is not loaded" in look(node, None, smi()).told[0]


def test_a_node_without_gpus(tmp_path):
    nothing = look(GpuNode(tmp_path), None, absent)
    assert nothing == Found()
    # To have looked at nothing is no good.
    assert (nothing.status, nothing.line("gpu1")) == (
        3, "railyard quick: gpu1: UNKNOWN: nothing was checked",
    )  # fmt: skip
    assert look(GpuNode(tmp_path / "other"), {"count": 0}, absent).good == ["no GPU, as expected"]
    assert "0 NVIDIA GPUs" in look(GpuNode(tmp_path / "third"), {"count": 1}, absent).wrong[0]
