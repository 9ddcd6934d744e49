# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The slow component: from all bandwidth or latency tests of a run, made up here, and from a whole run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import permutations
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.facts import BoundFacts
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution import slow_rails
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome import causes
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer

FLOOR = 0.04
Slow = Callable[[str, str, str], bool]
Line = dict[str, Any]
Place = tuple[str, str, str]


def name_slow(
    nodes: int,
    slow: Slow,
    check: str = "tcp_bandwidth",
    fleet: BoundFacts | None = None,
    local: Mapping[tuple[str, str, str | None], Answer] | None = None,
    rails: int = 2,
) -> dict[Place, Answer]:
    """Return each test's answer, after all were looked at; those that are `slow` were beyond their bound.

    Beside them are the `local` answers to a node's own checks: check, node and rail each.
    """
    asked: list[Line] = []
    answers = []
    for rail in [f"rail{number}" for number in range(rails)]:
        for node, peer in permutations([f"n{number}" for number in range(1, nodes + 1)], 2):
            both_ways = check.endswith("_bi")
            if both_ways and node > peer:
                continue
            answer = Answer("pass", {"bandwidth_gbps": 0.05}, {"bandwidth_gbps": FLOOR})
            if check.endswith("latency"):
                answer = Answer("recorded", {"latency_average_us": 9.0, "latency_p50_us": 2.0})
            answers.append(answer)
            if slow(node, peer, rail):
                _spoil(answers[-1])
            asked.append({"id": f"{node} {peer} {rail}", "check": check, "node": node, "peer": peer})
            asked[-1] |= {"rail": rail}
    for (name, node, rail), answer in (local or {}).items():
        asked.append({"id": f"{name} {node} {rail}", "check": name, "node": node, "peer": None, "rail": rail})
        answers.append(answer)
    outcomes = [answer.outcome for answer in answers]
    slow_rails.name_causes(asked, answers, fleet or BoundFacts())
    assert [answer.outcome for answer in answers] == outcomes
    return {
        (line["node"], line["peer"], line["rail"]): answer
        for line, answer in zip(asked, answers, strict=True)
        if line["peer"]
    }


def _spoil(answer: Answer) -> None:
    if answer.outcome == "pass":
        answer.observed = {"bandwidth_gbps": 0.0096}
        answer.failed("below_floor", "bandwidth_gbps 0.0096, floor 0.04")
    else:
        answer.observed["latency_p50_us"] = 31.0
        answer.failed("stands_apart", "latency_p50_us 31, the median of 12 like tests 2")


@pytest.mark.parametrize("check", ["tcp_bandwidth", "tcp_bandwidth_concurrent", "rdma_bandwidth"])
def test_the_node_whose_rail_is_slow_is_named(check: str) -> None:
    answers = name_slow(4, lambda node, peer, rail: rail == "rail1" and "n1" in (node, peer), check)
    said = {answer.cause["cause"] for answer in answers.values() if answer.outcome == "fail"}
    assert said == {
        "the rail is slower than planned, and slower than the others: n1 rail1: 0.0096 Gbit/s at most, floor "
        "0.04, with n2, n3, n4, while others of this rail pass"
    }
    for place, answer in answers.items():
        wanted = "rail_slow" if place[2] == "rail1" and "n1" in place else None
        assert answer.cause.get("cause_class") == wanted, place
        assert answer.outcome == ("fail" if wanted else "pass")


@pytest.mark.parametrize(("end", "way"), [(0, "to"), (1, "from")])
def test_a_rail_that_is_slow_one_way_is_named_with_the_way(end: int, way: str) -> None:
    answers = name_slow(3, lambda *place: place[2] == "rail0" and place[end] == "n2")
    said = {answer.cause["cause"] for answer in answers.values() if answer.cause}
    assert len(said) == 1
    assert f"n2 rail0: 0.0096 Gbit/s at most, floor 0.04, {way} n1, n3, while" in said.pop()


def test_two_slow_rails_are_both_named_by_the_test_between_them() -> None:
    answers = name_slow(4, lambda node, peer, rail: rail == "rail1" and bool({"n1", "n2"} & {node, peer}))
    between = answers["n1", "n2", "rail1"].cause["cause"]
    assert "n1 rail1" in between
    assert "n2 rail1" in between
    alone = answers["n1", "n3", "rail1"].cause["cause"]
    assert "n2 rail1" not in alone


def test_between_two_nodes_either_may_have_the_slow_rail() -> None:
    answers = name_slow(2, lambda _node, _peer, rail: rail == "rail1")
    said = [answer.cause["cause"] for answer in answers.values() if answer.cause]
    assert len(said) == 2
    assert all("n1 or n2 rail1" in one and "the same nodes pass on rail0" in one for one in said)


def test_a_rail_that_is_slow_for_all_is_named_as_one() -> None:
    answers = name_slow(3, lambda _node, _peer, rail: rail == "rail1")
    assert {answer.cause["cause"] for answer in answers.values() if answer.cause} == {
        "the rail is slow for all of its nodes, and other rails are not: all of n1, n2, n3 rail1: 0.0096 "
        "Gbit/s at most, floor 0.04, between them, while the same nodes pass on rail0"
    }


# The slow component, with how many nodes -> the class of all slow tests: the table of causes.
PATTERNS: dict[str, tuple[int, Slow, str]] = {
    "a rail of a node": (3, lambda node, peer, rail: rail == "rail1" and "n1" in (node, peer), "rail_slow"),
    "a node on all rails": (3, lambda node, peer, _rail: "n1" in (node, peer), "node_slow"),
    "what a node sends": (4, lambda node, _peer, _rail: node == "n1", "node_slow"),
    "a pair": (3, lambda node, peer, rail: rail == "rail0" and {node, peer} == {"n1", "n2"}, "path_slow"),
    "a pair on all rails": (4, lambda node, peer, _rail: {node, peer} == {"n1", "n2"}, "path_slow"),
    "a whole rail": (3, lambda _node, _peer, rail: rail == "rail1", "switch_slow"),
    "a whole rail of a pair": (2, lambda _node, _peer, rail: rail == "rail1", "rail_slow"),
    "all": (4, lambda *_place: True, "stays"),
    "all of a pair": (2, lambda *_place: True, "stays"),
}


@pytest.mark.parametrize("check", ["tcp_bandwidth", "rdma_latency", "tcp_bandwidth_bi", "ping_rtt"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_the_pattern_of_slow_tests_names_rail_node_path_or_switch(pattern: str, check: str) -> None:
    nodes, slow, wanted = PATTERNS[pattern]
    if check == "tcp_bandwidth_bi" and pattern in ("what a node sends", "a whole rail of a pair"):
        return  # both directions are one test: n1 is no sender of its own, and one test is a single one
    if wanted == "stays":
        wanted = "stands_apart" if check == "rdma_latency" else "below_floor"
    for place, answer in name_slow(nodes, slow, check).items():
        assert answer.cause.get("cause_class") == (wanted if slow(*place) else None), place


@pytest.mark.parametrize(("rails", "wanted"), [(1, "rail_slow"), (2, "node_slow"), (3, "rail_slow")])
def test_a_node_is_slow_where_it_is_on_all_of_several_rails(rails: int, wanted: str) -> None:
    answers = name_slow(3, lambda node, peer, rail: "n1" in (node, peer) and rail != "rail2", rails=rails)
    assert answers["n1", "n2", "rail0"].cause["cause_class"] == wanted


def test_a_slow_rail_beside_a_slow_node_is_no_node() -> None:
    answers = name_slow(4, lambda node, peer, rail: "n1" in (node, peer) or (rail, node) == ("rail1", "n2"))
    node, rail = answers["n1", "n3", "rail0"].cause, answers["n2", "n3", "rail1"].cause
    assert (node["cause_class"], rail["cause_class"]) == ("node_slow", "rail_slow")
    said = "n1, all of its rails: 0.0096 Gbit/s at most, floor 0.04, with n2, n3, n4, while others of these"
    assert said in node["cause"]


def test_a_path_is_reported_with_what_was_measured() -> None:
    said = name_slow(3, lambda *place: place == ("n1", "n2", "rail0"), "rdma_latency")[
        "n1", "n2", "rail0"
    ].cause
    assert said["cause"] == (
        "the path between two nodes is slow, and both are fast with others: n1 to n2, rail0: latency_p50_us "
        "31, the median of 12 like tests 2, while both pass with others on this rail"
    )


def test_a_latency_is_identified_by_its_least_number() -> None:
    answers = name_slow(3, lambda node, peer, rail: rail == "rail1" and "n1" in (node, peer), "rdma_latency")
    cause = answers["n2", "n1", "rail1"].cause["cause"]
    assert "n1 rail1: 31 us at least (latency_p50), with n2, n3, while" in cause


def behind(leaves: dict[str, list[int]], rails: tuple[str, ...] = ("rail0", "rail1")) -> BoundFacts:
    """Return facts of nodes behind leaves that are named LEAF-RAIL."""
    return BoundFacts(
        bound={
            f"n{number}": {rail: Bound({"name": rail, "leaf": f"{leaf}-{rail}"}) for rail in rails}
            for leaf, numbers in leaves.items()
            for number in numbers
        }
    )


TWO = behind({"left": [1, 2, 3], "right": [4, 5, 6]})
LEFT = {"n1", "n2", "n3"}


def test_a_leaf_is_named_and_none_of_the_nodes_behind_it() -> None:
    """J10: eight times as many causes as faults, were each of its nodes named."""
    answers = name_slow(6, lambda node, peer, rail: rail == "rail1" and bool(LEFT & {node, peer}), fleet=TWO)
    assert {answer.cause["cause"] for answer in answers.values() if answer.cause} == {
        "a leaf switch is slow for all nodes behind it, and other leaves of its rail are not: leaf "
        "left-rail1 (rail1), to and from all of n1, n2, n3 behind it: 0.0096 Gbit/s at most, floor 0.04, "
        "while others of this rail pass"
    }
    assert {answer.cause["cause_class"] for answer in answers.values() if answer.cause} == {"leaf_slow"}


@pytest.mark.parametrize("nodes", [1, 2])
def test_several_slow_nodes_behind_a_good_leaf_are_each_named(nodes: int) -> None:
    slow = {f"n{number}" for number in range(1, nodes + 1)}
    answers = name_slow(6, lambda node, peer, rail: rail == "rail1" and bool(slow & {node, peer}), fleet=TWO)
    assert {answer.cause["cause_class"] for answer in answers.values() if answer.cause} == {"rail_slow"}
    for node in slow:
        assert f"{node} rail1: " in answers[node, "n6", "rail1"].cause["cause"]


@pytest.mark.parametrize(("place", "way"), [(0, "from"), (1, "to")])
def test_a_leaf_that_is_slow_one_way_is_named_with_the_way(place: int, way: str) -> None:
    answers = name_slow(6, lambda *test: test[2] == "rail0" and test[place] in LEFT, fleet=TWO)
    said = {answer.cause["cause"] for answer in answers.values() if answer.cause}
    assert len(said) == 1
    assert f"leaf left-rail0 (rail0), {way} all of n1, n2, n3 behind it" in said.pop()


@pytest.mark.parametrize(
    ("leaves", "slow", "wanted"),
    [
        # Behind the one leaf of a rail there is no other one to compare with.
        ({"left": [1, 2, 3, 4, 5, 6]}, {"n1", "n2"}, "rail_slow"),
        # A leaf of one node is that node's rail.
        ({"left": [1], "right": [2, 3, 4, 5, 6]}, {"n1"}, "rail_slow"),
        ({"left": [1, 2], "right": [3, 4, 5, 6]}, {"n1", "n2"}, "leaf_slow"),
        ({"left": [1, 2], "middle": [3, 4], "right": [5, 6]}, {"n1", "n2", "n3", "n4"}, "leaf_slow"),
    ],
)
def test_a_leaf_is_compared_with_other_leaves(
    leaves: dict[str, list[int]], slow: set[str], wanted: str
) -> None:
    answers = name_slow(
        6, lambda node, peer, rail: rail == "rail1" and bool(slow & {node, peer}), fleet=behind(leaves)
    )
    assert {answer.cause["cause_class"] for answer in answers.values() if answer.cause} == {wanted}


def test_fewer_slow_nodes_than_leaves_are_the_nodes() -> None:
    leaves = behind({"left": [1, 2], "right": [3, 4, 5, 6]}, ("rail0", "rail1", "rail2"))
    slow = {"n1", "n2"}
    answers = name_slow(6, lambda node, peer, _rail: bool(slow & {node, peer}), fleet=leaves, rails=3)
    assert {answer.cause["cause_class"] for answer in answers.values() if answer.cause} == {"node_slow"}


def test_a_slow_node_behind_another_leaf_than_the_slow_one_is_named_beside_it() -> None:
    slow = {*LEFT, "n6"}
    answers = name_slow(6, lambda node, peer, rail: rail == "rail1" and bool(slow & {node, peer}), fleet=TWO)
    assert answers["n1", "n4", "rail1"].cause["cause_class"] == "leaf_slow"
    assert answers["n4", "n6", "rail1"].cause["cause_class"] == "rail_slow"
    both = answers["n1", "n6", "rail1"].cause["cause"]
    assert "leaf left-rail1" in both
    assert "n6 rail1" in both


def rail_end(**facts: Any) -> Bound:
    device = {"netdev": "ens7", "pci": "0000:3b:00.0", **facts}
    return Bound({"name": "rail1"}, netdev=device)


FIREWALL = "a firewall that drops TCP on n1 or n2: pings pass on this rail"
RAIL1 = PATTERNS["a rail of a node"][1]
NODE1 = PATTERNS["a node on all rails"][1]
SWITCH = PATTERNS["a whole rail"][1]


ITS_CARD, ITSELF = "its card, its cable, its PCIe slot", "the node itself: processors (governor"
LSPCI, ETHTOOL = "see `lspci -vv -s 0000:3b:00.0`.", "see `ethtool -S ens7`."
GOVERNOR = "CPU governor powersave on n1, performance on the others; see `cpupower frequency-info`."
LOW_SLOT = "the card's PCIe link is trained below what card and slot support"
Local = dict[tuple[str, str, str | None], Answer]
SLOT: Local = {("link", "n1", "rail1"): Answer().failed("slot_slow", "x")}
OTHERS_ERRORS: Local = {("link_errors", "n2", "rail1"): Answer().failed("link_errors", "x")}
PAUSED = Answer("pass", {"errors": 0, "ethtool.rx_prio3_pause": 812})
PAUSES: Local = {("link_errors", "n1", "rail1"): PAUSED}
BMC_SILENT: Local = {("bmc", "n1", None): Answer().failed("bmc_silent", "x")}
FEWER_LANES = {"n1": {"pci_link": {"width": 8, "speed_gts": 16.0}}}
MORE_LANES = {"n1": {"pci_link": {"width": 32, "speed_gts": 16.0}, "numa_node": 1}}
OTHER_NUMA = {"n1": {"numa_node": 1}, "n2": {"numa_node": 0}, "n3": {"numa_node": 0}}
SAVES = {"governors": {"n1": "powersave", "n2": "performance", "n3": "performance"}}
PERFORMS = {"governors": {"n1": "performance", "n2": "powersave", "n3": "powersave"}}
# What is known: which tests are slow, other checks, facts of a node or its governor, and what is likely then.
KNOWN: dict[str, tuple[Slow, Local, dict[str, Any], str]] = {
    "nothing": (RAIL1, {}, {}, ITS_CARD),
    "its own check": (RAIL1, SLOT, {}, f"the link state check of n1 rail1: {LOW_SLOT}; {LSPCI}"),
    "another node's check": (RAIL1, OTHERS_ERRORS, {}, ITS_CARD),
    "pauses": (RAIL1, PAUSES, {}, f"pauses: ethtool.rx_prio3_pause of n1 rail1 grew by 812; {ETHTOOL}"),
    "fewer lanes": (RAIL1, {}, FEWER_LANES, f"PCIe lanes 8 on n1, 16 on the others; {LSPCI}"),
    "more lanes, and a NUMA node that others do not tell": (RAIL1, {}, MORE_LANES, ITS_CARD),
    "its NUMA node": (RAIL1, {}, OTHER_NUMA, f"the card's NUMA node 1 on n1, 0 on the others; {LSPCI}"),
    "that it is a node": (NODE1, {}, {}, ITSELF),
    "its governor": (NODE1, BMC_SILENT, SAVES, GOVERNOR),
    "a better governor": (NODE1, {}, PERFORMS, ITSELF),
    "a governor, which slows no rail alone": (RAIL1, {}, SAVES, ITS_CARD),
    "one node's slot, which slows no whole rail": (SWITCH, SLOT, {}, "the rail's switch: rate limits"),
}


@pytest.mark.parametrize("known", KNOWN)
def test_what_the_run_knows_of_a_slow_part_is_named_first(known: str) -> None:
    slow, local, facts, likely = KNOWN[known]
    told_before = {"pci_link": {"width": 16, "speed_gts": 16.0}}
    fleet = BoundFacts(
        bound={node: {"rail1": rail_end(**facts.get(node, told_before))} for node in ("n1", "n2", "n3")},
        governors=facts.get("governors", {}),
    )
    answers = name_slow(3, slow, "tcp_bandwidth", fleet, local)
    assert answers["n1", "n2", "rail1"].cause["next"].startswith(f"Likely {likely}")


@pytest.mark.parametrize(("other", "named"), [("ens7", "ens7"), ("ens9", "NETDEV")])
def test_a_command_names_the_netdev_that_both_nodes_have(other: str, named: str) -> None:
    ends = {"n1": {"rail1": rail_end()}, "n2": {"rail1": rail_end(netdev=other)}}
    answers = name_slow(2, lambda _node, _peer, rail: rail == "rail1", fleet=BoundFacts(bound=ends))
    assert f"see `tc -s qdisc show dev {named}`" in answers["n1", "n2", "rail1"].cause["next"]


@pytest.mark.parametrize(
    ("kind", "seen", "local", "likely"),
    [
        ("rendezvous_timeout", "n2 was not met at 10.0.1.2 on rail0: timed out", "reply_path", FIREWALL),
        (
            "rendezvous_timeout",
            "n2 was not met at 10.0.1.2 on rail0: No route to host",
            "reply_path",
            FIREWALL,
        ),
        # The runner is not there, or too late: no firewall.
        ("rendezvous_timeout", "n2 was not met at 10.0.1.2 on rail0: Connection refused", "reply_path", None),
        ("rendezvous_timeout", "n2 has gone on to round 3 without n1", "reply_path", None),
        ("path_mtu_small", "seen", "mtu", "a switch port between n1 and n2: both have the planned MTU"),
    ],
)
def test_what_other_checks_found_good_leaves_the_rest(
    kind: str, seen: str, local: str, likely: str | None
) -> None:
    test = {"id": "m1", "check": "path_mtu", "node": "n1", "peer": "n2", "rail": "rail0"}
    for outcomes in (("pass", "pass"), ("pass", "unmeasured")):
        answer = Answer(cause=causes.explain(kind, seen, "the row's own fix"))
        asked = [test, *({"id": node, "check": local, "node": node, "peer": None, "rail": "rail0"}
                         for node in ("n1", "n2"))]  # fmt: skip
        slow_rails.name_causes(asked, [answer, *map(Answer, outcomes)], BoundFacts())
        known = outcomes == ("pass", "pass") and likely is not None
        assert answer.cause["next"].startswith(f"Likely {likely}; see `") is known
        assert answer.cause["cause"].endswith(f": {seen}")
        assert answer.cause["next"].endswith("the row's own fix")


def test_one_test_between_two_nodes_keeps_its_cause_and_names_all_that_remain() -> None:
    lone = name_slow(2, lambda *place: place == ("n1", "n2", "rail0"))["n1", "n2", "rail0"]
    assert lone.cause["cause_class"] == "below_floor"
    assert lone.cause["cause"] == (
        "the result is below its floor: bandwidth_gbps 0.0096, floor 0.04; it may be n1 or n2 rail0, or the "
        "path between n1 and n2, while the same nodes pass on rail1"
    )
    assert lone.cause["next"].startswith("Likely what all slow tests have in common")
    lanes = Answer().failed("slot_slow", "x")
    knows = name_slow(
        2, lambda *place: place == ("n1", "n2", "rail0"), local={("link", "n2", "rail0"): lanes}
    )
    assert knows["n1", "n2", "rail0"].cause["cause"] == lone.cause["cause"]
    assert knows["n1", "n2", "rail0"].cause["next"].startswith("Likely the link state check of n2 rail0")
    governors = BoundFacts(governors={"n1": "powersave", "n2": "performance"})
    alike = name_slow(2, lambda *_place: True, fleet=governors)["n2", "n1", "rail1"].cause
    assert alike["cause"] == "the result is below its floor: bandwidth_gbps 0.0096, floor 0.04"
    assert alike["next"].startswith("Likely CPU governor powersave on n1, performance on the others; see `")
    versions = name_slow(2, lambda *_place: True, fleet=BoundFacts(iperf3={"n1": "3.18", "n2": "3.12"}))
    assert len({answer.cause["next"] for answer in versions.values()}) == 1
    sends = name_slow(2, lambda node, _peer, _rail: node == "n1")["n1", "n2", "rail0"]
    assert sends.cause["cause"].endswith("floor 0.04; it may be n1 or n2, all of its rails")
