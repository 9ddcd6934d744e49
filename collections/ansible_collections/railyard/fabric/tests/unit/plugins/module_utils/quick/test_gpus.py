# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's GPUs in a quick look, on trees built by hand and words as nvidia-smi has them."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.quick import gpus
from ansible_collections.railyard.fabric.plugins.module_utils.quick.bounded import Ended, ToolError
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
        return Ended(status, rows if argv[1].startswith("--query-gpu=") else remapped)

    return ask


def absent(_argv):
    raise ToolError("nvidia-smi: not found", absent=True)


def hangs(_argv):
    raise ToolError("nvidia-smi: no answer within 10 s")


def look(node, expected, ask):
    found = Found()
    gpus.look(expected, node.reader(), ask, found)
    return found


def test_gpus_that_are_all_there_and_well(node):
    assert look(node, 2, smi()) == Found(good=["2 GPUs"])
    # Nobody said how many there are: those that are there are looked at all the same.
    assert look(node, None, smi()) == Found(good=["2 GPUs"])


@pytest.mark.parametrize(
    ("row", "said"),
    [
        ("0, [N/A], Not Active, Not Active, 8, 16", "PCIe runs at 8 lanes, 16 are possible"),
        ("2, [N/A], Not Active, Not Active, 16, 16", "2 uncorrectable ECC errors"),
        ("0, Yes, Not Active, Not Active, 16, 16", "a page waits to be retired"),
        ("0, No, Active, Not Active, 16, 16", "slowed down by its temperature"),
        ("0, No, Not Active, Active, 16, 16", "slowed down by the power brake"),
    ],
)
def test_what_nvidia_smi_calls_bad_is_wrong(node, row, said):
    rows = HEADER + ROW.format("17") + f"00000000:89:00.0, NVIDIA A100-SXM4-80GB, {row}\n"
    [wrong] = look(node, 2, smi(rows)).wrong
    assert wrong.startswith("GPU 0000:89:00.0: ")
    assert said in wrong


@pytest.mark.parametrize(
    ("row", "said"), [("1, 0", "waits to be remapped"), ("No, Yes", "could not be remapped")]
)
def test_rows_that_wait_or_failed_to_be_remapped_are_wrong(node, row, said):
    found = look(node, 2, smi(remapped=REMAPPED + NO_REMAP.format("17") + f"00000000:89:00.0, {row}\n"))
    assert [said in one for one in found.wrong] == [True]


def test_a_gpu_that_fell_off_the_bus_or_out_of_the_driver_is_wrong(node):
    assert "2 NVIDIA GPUs on the PCI bus, 8 expected" in look(node, 8, smi()).wrong[0]
    one = smi(HEADER + ROW.format("17"), REMAPPED + NO_REMAP.format("17"))
    assert look(node, 2, one).wrong == ["GPU 0000:89:00.0: on the PCI bus, but nvidia-smi does not list it"]
    lost = smi("Unable to determine the device handle for GPU 0000:89:00.0: GPU is lost.\n", status=15)
    assert "GPU is lost" in look(node, 2, lost).wrong[0]


def test_a_driver_that_lacks_a_field_is_asked_for_the_others(node):
    asked = []

    def ask(argv):
        asked.append(argv[1])
        if "retired_pages" in argv[1]:
            return Ended(2, 'Field "retired_pages.pending" is not a valid field to query.\n')
        return smi()(argv)

    assert look(node, 2, ask) == Found(good=["2 GPUs"])
    assert ["retired_pages" in one for one in asked] == [True, False, False]


@pytest.mark.parametrize(
    ("expected", "ask", "part"),
    [
        (2, absent, "unknown"),
        (None, absent, "told"),
        (2, hangs, "unknown"),
        (None, hangs, "unknown"),
        (2, smi(HEADER + ROW.format("17")[:60]), "unknown"),
        (2, smi(status=9), "unknown"),
        (2, smi("Segmentation fault\n", status=139), "unknown"),
        (2, smi(remapped="Segmentation fault\n"), "unknown"),
    ],
)
def test_what_does_not_answer_is_never_good(node, expected, ask, part):
    found = look(node, expected, ask)
    assert len(getattr(found, part)) == 1
    assert not found.wrong


def test_a_driver_that_is_not_loaded_is_wrong_where_gpus_are_expected(tmp_path):
    node = GpuNode(tmp_path)
    node.function("0000:17:00.0", A100)
    assert "driver is not loaded" in look(node, 1, smi()).wrong[0]
    assert "driver is not loaded" in look(node, None, smi()).told[0]


def test_a_node_without_gpus(tmp_path):
    nothing = look(GpuNode(tmp_path), None, absent)
    assert nothing == Found()
    # To have looked at nothing is no good.
    assert (nothing.status, nothing.line("gpu1")) == (
        3, "railyard quick: gpu1: UNKNOWN: nothing was looked at",
    )  # fmt: skip
    assert look(GpuNode(tmp_path / "other"), 0, absent).good == ["no GPU, as expected"]
