# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What was not read is not healthy: silent devices, duplicates, ports without a neighbor, failed commands."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import (
    Duplicate,
    NoAnswer,
    PortKey,
    Problem,
    Source,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean_line
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.judge import judge
from support.fake_subnets import Net, describe

ERRORS = Source("ibnetdiscover.err", 3)


def no_answer(behind: PortKey | None) -> NoAnswer:
    return NoAnswer("0,1,25", behind, "umad (DR path ...) bad status 110; Connection timed out", ERRORS)


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("tells_where", [True, False])
def test_an_adapter_that_does_not_answer_is_not_missing(is_known: bool, tells_where: bool) -> None:
    net = Net()
    expected, previous = net.expected(), net.reading()
    key = net.adapter_key(2, 1)
    leaf = net.peer(key)
    net.remove(key.guid, silent=True)
    net.silent = [no_answer(leaf if tells_where else None)]
    judgement = judge(net.reading(), expected, previous if is_known else None)
    (found,) = judgement.findings
    assert describe(found) == ("no_answer", "unmeasured", "gpu003", "rail1")
    assert "leaf0-1 port 3" in found.text
    assert ERRORS in found.sources
    assert judgement.status == 3


def test_two_of_a_leaf_of_which_one_does_not_answer_are_both_reported() -> None:
    net = Net()
    expected = net.expected()
    leaf = net.peer(net.adapter_key(2, 1))
    net.remove(net.adapter(2, 1), silent=True)
    net.disconnect(net.adapter_key(3, 1))
    net.silent = [no_answer(leaf)]
    judgement = judge(net.reading(), expected)
    assert {(one.cause, one.node) for one in judgement.findings} == {
        ("no_answer", None), ("adapter_missing", "gpu003"), ("adapter_missing", "gpu004"),
    }  # fmt: skip
    assert judgement.status == 1


@pytest.mark.parametrize("is_known", [True, False])
def test_a_leaf_that_does_not_answer_is_one_finding(is_known: bool) -> None:
    net = Net()
    expected, previous = net.expected(), net.reading()
    peers = [key for key in net.remove(net.leaf(1, 1), silent=True) if key.guid in net.devices]
    net.silent = [no_answer(key) for key in peers]
    judgement = judge(net.reading(), expected, previous if is_known else None)
    (found,) = judgement.findings
    assert (found.cause, found.severity) == ("no_answer", "unmeasured")
    assert "leaf1-1" in found.text
    assert set(found.ports) == set(peers)
    assert judgement.status == 3


def test_a_silent_spine_does_not_excuse_a_rail_that_is_missing() -> None:
    net = Net()
    expected = net.expected()
    net.silent = [no_answer(key) for key in net.remove(net.spine(1), silent=True)]
    net.disconnect(net.adapter_key(2, 1))
    judgement = judge(net.reading(), expected)
    assert [(one.cause, one.node) for one in judgement.findings] == [
        ("adapter_missing", "gpu003"), ("no_answer", None),
    ]  # fmt: skip
    assert judgement.status == 1


def test_a_silent_spine_does_not_excuse_a_leaf_that_is_missing() -> None:
    net = Net()
    expected = net.expected()
    net.remove(net.leaf(0, 1))
    net.silent = [no_answer(key) for key in net.remove(net.spine(1), silent=True)]
    judgement = judge(net.reading(), expected)
    assert [one.cause for one in judgement.findings] == ["switch_missing", "no_answer"]


def test_a_node_that_is_off_is_not_behind_another_ones_port() -> None:
    net = Net()
    expected = net.expected()
    leaf = net.peer(net.adapter_key(2, 1))
    net.remove(net.adapter(2, 1), silent=True)
    net.silent = [no_answer(leaf)]
    for rail in range(net.rails):
        net.disconnect(net.adapter_key(3, rail))
    judgement = judge(net.reading(), expected)
    assert [(one.cause, one.node) for one in judgement.findings] == [
        ("adapter_missing", "gpu004"), ("no_answer", "gpu003"),
    ]  # fmt: skip


def test_a_switch_that_answers_by_another_path_is_not_named_but_the_reading_is_incomplete() -> None:
    net = Net()
    net.silent = [no_answer(PortKey(net.leaf(0, 0), 7))]
    judgement = judge(net.reading(), net.expected())
    (found,) = judgement.findings
    assert (found.cause, found.ports, judgement.status) == ("no_answer", (), 3)


def test_a_request_without_an_answer_is_never_healthy() -> None:
    net = Net()
    net.silent = [no_answer(None)]
    judgement = judge(net.reading(), net.expected())
    assert judgement.status == 3
    assert [one.cause for one in judgement.findings] == ["no_answer"]


def test_a_port_that_is_up_without_a_neighbor_is_a_finding() -> None:
    net = Net()
    expected = net.expected()
    leaf = net.peer(net.adapter_key(2, 1))
    net.remove(net.adapter(2, 1), silent=True)
    (found,) = judge(net.reading(), expected).findings
    assert describe(found) == ("port_no_peer", "fail", "gpu003", "rail1")
    assert found.ports == (leaf,)
    net.devices[leaf.guid].ports[leaf.number].state = "Down"
    net.devices[leaf.guid].ports[leaf.number].physical = "Polling"
    assert [one.cause for one in judge(net.reading(), expected).findings] == ["adapter_missing"]


@pytest.mark.parametrize("knows_ports", [True, False])
def test_a_duplicate_guid_is_named_with_both_ports(knows_ports: bool) -> None:
    net = Net()
    expected = net.expected()
    hidden, seen = net.peer(net.adapter_key(2, 1)), net.peer(net.adapter_key(5, 0))
    net.remove(net.adapter(2, 1), silent=True)
    guid = net.port_guid(net.adapter(5, 0))
    keys = (seen, hidden) if knows_ports else ()
    net.duplicates = [Duplicate(guid, keys, "Duplicate Port", ERRORS)] * 2
    judgement = judge(net.reading(), expected)
    (found,) = judgement.findings
    assert describe(found) == ("guid_duplicate", "fail", "gpu003", "rail1")
    assert {hidden, seen} <= set(found.ports)
    assert guid in found.text
    assert "leaf0-1 port 3" in found.text
    assert "leaf1-0 port 2" in found.text


def test_a_duplicate_whose_name_is_of_the_one_and_link_of_the_other_is_one_finding() -> None:
    # ibsim: gpu003's adapter got the GUID of gpu001's; the tools showed its name at gpu001's port.
    net = Net()
    expected = net.expected()
    hidden = net.peer(net.adapter_key(2, 0))
    net.remove(net.adapter(2, 0), silent=True)
    net.devices[net.adapter(0, 1)].description = "gpu003 mlx5_0"
    net.duplicates = [Duplicate(net.port_guid(net.adapter(0, 1)), (), "Duplicate Port", ERRORS)]
    (found,) = judge(net.reading(), expected).findings
    assert (found.cause, found.node, found.rail) == ("guid_duplicate", "gpu001", "rail1")
    assert hidden in found.ports


@pytest.mark.parametrize(
    ("kind", "cause"),
    [("line", "subnet_damaged"), ("damaged", "subnet_damaged"), ("changed", "subnet_changed"),
     ("denied", "subnet_denied"), ("command", "subnet_unread"), ("missing", "subnet_unread"),
     ("of next year", "subnet_damaged")],
)  # fmt: skip
def test_a_problem_of_the_reading_is_never_healthy(kind: str, cause: str) -> None:
    net = Net()
    net.problems = [Problem(kind, f"line {n} is not understood", Source("iblinkinfo.txt", n)) for n in (4, 9)]
    judgement = judge(net.reading(), net.expected())
    (found,) = judgement.findings
    assert (found.cause, found.severity) == (cause, "unmeasured")
    assert "iblinkinfo.txt" in found.text
    assert "2 in all" in found.text
    assert judgement.status == 3
    net.disconnect(net.adapter_key(0, 0))
    assert judge(net.reading(), Net().expected()).status == 1


def test_the_text_of_a_problem_is_cleaned_and_has_an_end() -> None:
    net = Net()
    net.problems = [Problem("line", "\x1b[2J\nstatus: healthy" + "x" * 9000, Source("iblinkinfo.txt", 1))]
    net.silent = [NoAnswer("\x1b]0;owned\x07" * 99, None, "", ERRORS)]
    for found in judge(net.reading(), net.expected()).findings:
        assert found.text == clean_line(found.text)
        assert "\n" not in found.text
        assert len(found.text) <= 1500


def test_ends_that_disagree_changed_while_they_were_read() -> None:
    net = Net()
    key = net.adapter_key(2, 1)
    leaf = net.peer(key)
    net.devices[leaf.guid].ports[leaf.number].peer = net.adapter_key(3, 1)
    judgement = judge(net.reading(), net.expected())
    assert "subnet_changed" in {one.cause for one in judgement.findings}
