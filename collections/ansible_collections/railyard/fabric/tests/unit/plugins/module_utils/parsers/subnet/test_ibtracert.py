# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Traces of ibtracert: public examples, the simple form, and outputs that end early."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.subnet import ibtracert
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.subnet.ibtracert import Hop
from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import PortKey
from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet_capture import Command

# Lab 8, "An InfiniBand Fabric with ibsim", task 4: the public companion of the NCP-AIN Certification Guide.
# Its text: "leaf -> spine -> leaf"; leaf ports 33 and 34 are uplinks, ports 1 and 2 go to GPU nodes.
LAB = """\
From ca {0x0000000000100002} portnum 1 lid 5-5 "hxa-gpu01 mlx5_0"
[1] -> switch port {0x0000000000200002}[1] lid 4-4 "hxa-su1-leaf-r1"
[33] -> switch port {0x0000000000200000}[1] lid 2-2 "hxa-spine01"
[3] -> switch port {0x0000000000200004}[33] lid 7-7 "hxa-su2-leaf-r1"
[1] -> ca port {0x000000000010000b}[1] lid 12-12 "hxa-gpu03 mlx5_0"
To ca {0x000000000010000a} portnum 1 lid 12-12 "hxa-gpu03 mlx5_0"
"""
# The same in the form of `-n`, by the format strings of dump_endnode and dump_route (rdma-core, ibtracert.c).
SIMPLE = """\
From {0x0000000000100002}[1]
[1] -> {0x0000000000200002}[1]
[33] -> {0x0000000000200000}[1]
[3] -> {0x0000000000200004}[33]
[1] -> {0x000000000010000b}[1]
To {0x000000000010000a}[1]
"""
FAILED = "ibtracert: iberror: failed: Failed to get route information\n"


def trace(stdout, stderr="", rc=0, **more):
    command = Command(("ibtracert",), "ibtracert-5-12.txt", stdout, stderr, rc, 1.0, 0.1)
    found = ibtracert.parse(command._replace(**more))
    assert found is not None
    return found


@pytest.mark.parametrize("text", [LAB, SIMPLE])
def test_a_path_through_a_spine(text):
    found = trace(text)
    assert (found.source_lid, found.target_lid, found.problem) == (5, 12, None)
    assert found.start == PortKey("0x0000000000100002", 1)
    assert found.end == PortKey("0x000000000010000a", 1)
    assert found.hops == (
        Hop(1, "0x0000000000200002", 1),
        Hop(33, "0x0000000000200000", 1),
        Hop(3, "0x0000000000200004", 33),
        Hop(1, "0x000000000010000b", 1),
    )


def test_a_director_switch_of_real_hardware():
    """Lines of a cluster with QDR, in the comments of a public tool that prints the same form."""
    text = (
        'From ca {0x0011750000771234} portnum 1 lid 5-5 "hype1 qib0"\n'
        '[1] -> switch port {0x00066a00ec002eec}[9] lid 17-17 "ibcore1 L109"\n'
        '[27] -> switch port {0x00066a00eb002d14}[11] lid 8-8 "ibcore1 S205A"\n'
        '[3] -> switch port {0x00066a02e8001313}[36] lid 7-7 "ibcore1 L101"\n'
        '[9] -> ca port {0x001175000077a00e}[1] lid 332-332 "hype353 qib0"\n'
        'To ca {0x001175000077a00e} portnum 1 lid 332-332 "hype353 qib0"\n'
    )
    found = trace(text)
    assert found.problem is None
    assert [hop.out for hop in found.hops] == [1, 27, 3, 9]
    assert [hop.number for hop in found.hops] == [9, 11, 36, 1]


@pytest.mark.parametrize("size", range(1, len(SIMPLE.splitlines())))
def test_a_cut_output_is_no_complete_path(size):
    found = trace("\n".join(SIMPLE.splitlines()[:size]) + "\n")
    assert found.problem == "the output is cut"
    assert len(found.hops) == size - 1


def test_what_was_traced_before_the_tool_gave_up_stays():
    # badtbl of find_route: the hop was printed, then the table of the switch has no port for the LID.
    warning = (
        'ibwarn: [4] find_route: Bad forwarding table entry found at: node "a" lid entry 12 is 255 (top 9)\n'
        "ibwarn: [4] get_route: can't find a route from src to dest\n"
    )
    found = trace("".join(SIMPLE.splitlines(True)[:2]) + FAILED, warning, 255)
    assert len(found.hops) == 1
    assert "Bad forwarding table entry" in found.problem
    assert found.end is None


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"stdout": FAILED, "rc": 255}, "exit status 255"),
        ({"stderr": "ibwarn: [9] mad_rpc_open_port2: can't open UMAD port\n", "rc": 255}, "can't open UMAD"),
        ({"rc": None, "timed_out": True, "seconds": 60.0}, "did not end in 60 s"),
        ({"rc": None, "timed_out": True, "seconds": 0.0}, "no time left"),
        ({"stdout": SIMPLE.replace("[33] ->", "[333] ->")}, "line 3 is not understood"),
        ({"stdout": SIMPLE.replace("[33] -> {0x0000000000200000}", "\x1b[33m")}, "line 3 is not understood"),
        ({"stdout": SIMPLE + SIMPLE}, "line 7 is not understood"),
        ({"stdout": SIMPLE, "rc": 255}, "exit status 255"),
        ({"stdout": SIMPLE.replace("[1] ->", "[1] ->", 1) + "To {0x1}[1]\n"}, "line 7 is not understood"),
    ],
)
def test_anything_else_is_a_reason(change, words):
    found = trace(**{"stdout": "", **change})
    assert words in found.problem
    assert "\x1b" not in found.problem


def test_endless_hops_end():
    loop = SIMPLE.splitlines(True)[0] + "[1] -> {0x0000000000200002}[1]\n" * 500
    assert len(trace(loop).hops) == 63


def test_other_files_are_not_traces():
    assert ibtracert.parse(Command((), "sminfo-5.txt", LAB, "", 0, 1.0, 0.0)) is None
