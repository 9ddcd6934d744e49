# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What follows from what the ports hear: each way to patch cables wrongly, on two nodes and on more."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import cabling
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from support.runs.fake_run import NODES, RUN, FakeRun
from support.runs.patched_hall import EPOCH, RAILS, Hall, Place
from support.runs.spoil import GARBAGE, mutate, paths


def failing(found: Mapping[Place, tuple[str, str | None, str]]) -> dict[Place, str | None]:
    return {place: one[1] for place, one in found.items() if one[0] == "fail"}


@pytest.mark.parametrize(("nodes", "units"), [(2, 1), (3, 1), (4, 1), (24, 1), (8, 2)])
def test_a_hall_that_is_patched_as_planned_passes(nodes: int, units: int) -> None:
    found = Hall(nodes, units).verdicts()
    assert len(found) == 2 * nodes
    assert {one[0] for one in found.values()} == {"pass"}


def test_what_a_switch_says_is_read_though_nothing_proves_it() -> None:
    chart, lines = Hall(2).chart()
    line = {**lines[0], "id": "c00009", "check": "neighbour", "tool": "lldp"}
    row = {**line, "schema": 1, "run": RUN, "host": "gpu1", "end": "client", "status": "measured",
           "proof": "unproven", "error": None, "netdev": RAILS["rail0"][0], "started": EPOCH,
           "address": Hall(2).rail("gpu1", "rail0")["address"].partition("/")[0],
           "cabling": {"count": 1, "neighbours": [{"switch": "leaf9", "chassis": "c", "port": "7"}]},
           }  # fmt: skip
    assert chart.judge(line, {"c00009": [row]}).cause["cause_class"] == "wrong_leaf"


@pytest.mark.parametrize("nodes", [3, 4, 24])
def test_swapped_cables_are_the_swapped_nodes_and_name_both_rails(nodes: int) -> None:
    hall = Hall(nodes)
    hall.patched["gpu2", "rail0"], hall.patched["gpu2", "rail1"] = "rail1/0", "rail0/0"
    found = hall.verdicts()
    assert failing(found) == {("gpu2", "rail0"): "rails_swapped", ("gpu2", "rail1"): "rails_swapped"}
    assert "rail0 and rail1 of gpu2" in found["gpu2", "rail0"][2]
    others = [one for place, one in found.items() if place[0] != "gpu2"]
    # The others are well themselves, and yet not whole: never a pass.
    assert {one[:2] for one in others} == {("unmeasured", "peer_miswired")}
    assert all("gpu2" in one[2] for one in others)


def test_between_two_nodes_no_one_can_tell_whose_cables_are_swapped() -> None:
    hall = Hall(2)
    hall.patched["gpu1", "rail0"], hall.patched["gpu1", "rail1"] = "rail1/0", "rail0/0"
    found = hall.verdicts()
    assert set(failing(found).values()) == {"rails_swapped"}
    assert len(failing(found)) == 4
    for place, (_outcome, _cause, text) in found.items():
        assert "gpu1" in text, place
        assert "gpu2" in text, place
        assert "rail0 and rail1" in text, place


def test_half_of_the_nodes_swapped_is_a_tie_that_names_both_halves() -> None:
    hall = Hall(4)
    for node in ("gpu1", "gpu2"):
        hall.patched[node, "rail0"], hall.patched[node, "rail1"] = "rail1/0", "rail0/0"
    found = hall.verdicts()
    assert len(failing(found)) == 8
    assert "gpu3" in found["gpu1", "rail0"][2]


@pytest.mark.parametrize("nodes", [2, 4])
def test_a_rail_in_another_rails_switch_is_named_alone(nodes: int) -> None:
    hall = Hall(nodes)
    hall.patched["gpu1", "rail0"] = "rail1/0"
    found = hall.verdicts()
    assert failing(found) == {("gpu1", "rail0"): "rail_crossed"}
    assert "rail1" in found["gpu1", "rail0"][2]
    assert {one[0] for place, one in found.items() if place != ("gpu1", "rail0")} == {"unmeasured"}


@pytest.mark.parametrize("nodes", [2, 3, 4, 24])
def test_two_rails_in_one_segment_are_joined(nodes: int) -> None:
    hall = Hall(nodes)
    hall.patched = dict.fromkeys(hall.patched, "one switch")
    found = hall.verdicts()
    assert set(failing(found).values()) == {"rails_joined"}
    assert len(failing(found)) == 2 * nodes


class Wired(Hall):
    """DGX Sparks: both rails of a node are PCI functions of one port, and hear the same wire."""

    def rail(self, node: str, rail: str) -> dict[str, Any]:
        return {**super().rail(node, rail), "shares_wire_with": {"rail0": "rail1", "rail1": "rail0"}[rail]}


@pytest.mark.parametrize("nodes", [2, 4])
def test_two_rails_on_one_wire_hear_each_other_and_pass(nodes: int) -> None:
    hall = Wired(nodes)
    hall.patched = dict.fromkeys(hall.patched, "one switch")
    assert {one[0] for one in hall.verdicts().values()} == {"pass"}
    hall.patched["gpu1", "rail0"] = hall.patched["gpu1", "rail1"] = "somewhere"
    found = hall.verdicts()
    assert "pass" not in {found["gpu1", rail][0] for rail in RAILS}
    assert nodes == 2 or failing(found) == {("gpu1", rail): "rail_isolated" for rail in RAILS}


def test_a_cable_in_another_units_leaf_is_at_the_wrong_leaf() -> None:
    hall = Hall(8, units=2)
    hall.patched["gpu1", "rail0"] = "rail0/1"
    found = hall.verdicts()
    assert failing(found) == {("gpu1", "rail0"): "wrong_leaf"}
    assert found["gpu2", "rail0"][:2] == ("unmeasured", "peer_miswired")
    assert found["gpu2", "rail1"][0] == "pass"


def test_a_cable_that_ends_elsewhere_is_isolated() -> None:
    hall = Hall(4)
    hall.patched["gpu3", "rail1"] = "somewhere"
    found = hall.verdicts()
    assert failing(found) == {("gpu3", "rail1"): "rail_isolated"}
    assert found["gpu1", "rail1"][:2] == ("unmeasured", "peer_miswired")
    assert found["gpu1", "rail0"][0] == "pass"


def test_two_nodes_on_a_cable_of_their_own_are_joined_to_the_wrong_peer() -> None:
    hall = Hall(6)
    hall.patched["gpu1", "rail0"] = hall.patched["gpu4", "rail0"] = "cable"
    found = hall.verdicts()
    assert failing(found) == {("gpu1", "rail0"): "wrong_peer", ("gpu4", "rail0"): "wrong_peer"}
    assert "gpu4" in found["gpu1", "rail0"][2]
    # Of four nodes, two and two: neither is the wrong half, and all say so.
    hall = Hall(4)
    hall.patched["gpu1", "rail0"] = hall.patched["gpu4", "rail0"] = "cable"
    assert len(failing(hall.verdicts())) == 4


def test_one_broken_fibre_of_two_shows_as_one_way() -> None:
    hall = Hall(4)
    hall.deaf.add((("gpu1", "rail0"), ("gpu2", "rail0")))
    found = hall.verdicts()
    assert failing(found) == {("gpu2", "rail0"): "beacon_one_way"}
    assert "gpu1" in found["gpu2", "rail0"][2]
    assert found["gpu1", "rail0"][:2] == ("unmeasured", "peer_miswired")


def test_one_way_between_two_nodes_is_no_pass_either() -> None:
    hall = Hall(2)
    hall.deaf.add((("gpu1", "rail0"), ("gpu2", "rail0")))
    found = hall.verdicts()
    assert found["gpu1", "rail0"][:2] == ("fail", "rail_isolated")
    hall.listened["gpu1", "rail0"] = [1000.0, 1004.9]
    assert hall.verdicts()["gpu1", "rail0"][:2] == ("unmeasured", "peer_miswired")


def test_switches_that_drop_beacons_leave_the_cables_unknown() -> None:
    hall = Hall(4)
    hall.patched = {place: str(place) for place in hall.patched}
    assert {one[:2] for one in hall.verdicts().values()} == {("unmeasured", "beacon_silent")}


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (None, "no_row"),
        (
            {"class": "link_down", "message": "no carrier", "host": "gpu2", "fix": "see it"},
            "link_down",
        ),
    ],
)
def test_a_port_that_did_not_listen_identifies_no_one_else(error: dict[str, Any] | None, cause: str) -> None:
    for nodes in (2, 4):
        hall = Hall(nodes)
        hall.silent["gpu2", "rail0"] = error
        found = hall.verdicts()
        assert failing(found) == {}
        assert found["gpu2", "rail0"][:2] == ("unmeasured", cause)
        assert found["gpu1", "rail0"][:2] == ("unmeasured", "peer_miswired")
        assert found["gpu1", "rail1"][0] == "pass"


def test_a_port_that_came_when_the_others_had_gone_is_not_named_as_the_cause() -> None:
    hall = Hall(4)
    for rail in RAILS:
        hall.listened["gpu4", rail] = [1012.2, 1030.0]
        for other in hall.nodes[:3]:
            hall.deaf |= {(("gpu4", rail), (other, rail)), ((other, rail), ("gpu4", rail))}
    found = hall.verdicts()
    assert failing(found) == {}
    assert "pass" not in {one[0] for one in found.values()}
    hall.listened = {}
    assert set(failing(hall.verdicts())) == {("gpu4", rail) for rail in RAILS}


def test_a_port_that_was_about_to_go_when_another_came_is_not_deaf_to_it() -> None:
    hall = Hall(4)
    # The last to come hears the last beacon of one that goes in that moment and never hears of it.
    hall.listened["gpu1", "rail0"] = [955.0, 1000.1]
    hall.deaf.add((("gpu1", "rail0"), ("gpu4", "rail0")))
    found = hall.verdicts()
    assert failing(found) == {}
    assert found["gpu1", "rail0"][:2] == ("unmeasured", "peer_miswired")
    # A node that is held up is deaf for a while, a broken fibre stays deaf.
    hall.listened["gpu1", "rail0"] = [955.0, 1004.9]
    assert failing(hall.verdicts()) == {}
    hall.listened["gpu1", "rail0"] = [955.0, 1005.1]
    assert failing(hall.verdicts()) == {("gpu4", "rail0"): "beacon_one_way"}


def test_a_row_lists_some_and_counts_all() -> None:
    hall = Hall(15)
    hall.patched["gpu2", "rail0"], hall.patched["gpu2", "rail1"] = "rail1/0", "rail0/0"
    told = hall.report(("gpu2", "rail0"))
    assert told["foreign"][0]["count"] == 14
    text = hall.verdicts()["gpu2", "rail0"][2]
    assert "and 10 more" in text


HEALTHY = FakeRun()
CHECKS = ("cabling", "link_address_owner", "reply_path")
# What a row says beside what is judged.
_ASIDE = {
    "id", "tool_version", "hca", "gid_index", "gid_type", "window_s", "message_bytes", "qps", "started",
    "round", "group", "mtu_bytes", "active_mtu_bytes", "counters", "other_rails", "other_end", "raw",
    "link_errors",
    "metrics", "metrics.listened_s", "cabling.strangers", "cabling.other_rail", "cabling.other_address",
    "cabling.known",
}  # fmt: skip


@pytest.mark.parametrize("check", CHECKS)
def test_no_field_of_a_cables_row_can_be_spoilt_unnoticed(check: str) -> None:
    identity = HEALTHY.ids(check, node=NODES[0], rail="rail0")[0]
    assert HEALTHY.verdict(identity)["outcome"] == "pass"
    original = next(row for row in HEALTHY.results if row["id"] == identity)
    others = [row for row in HEALTHY.results if row["check"] == "cabling" and row["id"] != identity]
    judged = [path for path in paths(original) if path not in _ASIDE]
    for path in (path for path in judged if not path.startswith("cabling.known.")):
        for value in (*GARBAGE, 2, [None], ["x"], [{}], {"rail0": "x"}):
            run = copy.copy(HEALTHY)
            run.asked = [
                line for line in HEALTHY.asked if line["check"] == "cabling" or line["id"] == identity
            ]
            before: Any = original
            for key in path.split("."):
                before = before[key]
            # 1 == True in Python; a reply more or fewer is no less good.
            if value == before or (path.startswith("cabling.replies.") and value == 2):
                continue
            row = copy.deepcopy(original)
            mutate(row, path, value)
            run.results = [*others, row]
            assert run.verdict(identity)["outcome"] != "pass", (path, value)


@pytest.mark.parametrize(
    ("field", "mac", "verdict"),
    [
        # The peer's other port had sent no beacon yet when the question was sent.
        ("other_claimed_by", "02:00:00:00:01:02", ("unmeasured", "peer_miswired")),
        ("claimed_by", "02:00:00:00:01:02", ("fail", "arp_flux")),
        ("claimed_by", "02:00:00:00:00:99", ("fail", "address_in_use")),
        # A port of another node is none of the peer's.
        ("claimed_by", "02:00:00:00:01:01", ("fail", "address_in_use")),
    ],
)
def test_a_port_of_the_peer_is_known_before_it_is_heard(
    field: str, mac: str, verdict: tuple[str, str]
) -> None:
    run = HEALTHY.copy()
    identity = run.ids("link_address_owner", node=NODES[0], rail="rail0")[0]
    run.rows(identity)[0]["cabling"][field].append(mac)
    one = run.verdict(identity)
    assert (one["outcome"], one["cause_class"]) == verdict


@pytest.mark.parametrize(
    ("claimed_of", "lost", "outcomes"),
    [
        (NODES, (), ["recorded", "recorded"]),
        # Who has one address alone is a second owner.
        (NODES[:1], (), ["fail", "pass"]),
        # What another node would say is not known, so it may still be one.
        (NODES, NODES[1:], ["fail", "unmeasured"]),
    ],
)
def test_a_node_that_answers_for_every_address_of_a_rail_is_a_proxy(
    claimed_of: Sequence[str], lost: Sequence[str], outcomes: list[str]
) -> None:
    run = HEALTHY.copy()
    ids = {node: run.ids("link_address_owner", node=node, rail="rail0")[0] for node in NODES}
    for node in claimed_of:
        run.rows(ids[node])[0]["cabling"]["claimed_by"] = ["02:00:00:00:00:99"]
    run.results = [row for row in run.results if row["id"] not in [ids[node] for node in lost]]
    assert [run.verdict(ids[node])["outcome"] for node in NODES] == outcomes
    # On the other rail nothing has changed.
    others = [run.ids("link_address_owner", node=node, rail="rail1")[0] for node in NODES]
    assert {run.verdict(one)["outcome"] for one in others} == {"pass"}


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        (("10.0.1.1", "10.0.1.2", "10.0.1.3"), {"02:00:00:00:00:99"}),
        # One address, however often queried, is a second owner's; a node without an answer may know better.
        (("10.0.1.1",), set()),
        (("10.0.1.1", "10.0.1.1"), set()),
        (("10.0.1.1", "10.0.1.2", None), set()),
    ],
)
def test_a_proxy_answers_for_all_that_all_ask_for(asked: Sequence[str | None], found: set[str]) -> None:
    told = [
        {"peer_address": one, "claimed_by": ["02:00:00:00:00:99", f"02::{one}"]}
        if one
        else Answer.unmeasured("no_row", "gpu3 rail0")
        for one in asked
    ]
    assert cabling.find_proxies(told) == found


def test_two_rows_of_one_port_are_none() -> None:
    run = HEALTHY.copy()
    identity = HEALTHY.ids("cabling")[0]
    run.results.append(next(row for row in run.results if row["id"] == identity))
    assert run.verdict(identity)["cause_class"] == "duplicate_row"


def test_tests_that_never_met_are_explained_by_the_cable() -> None:
    run = HEALTHY.copy()
    for row in run.results:
        if row["check"] == "cabling":
            peer, other = row["cabling"], {"rail0": "rail1", "rail1": "rail0"}[row["rail"]]
            network = f"{RAILS[other][1]}.0/24"
            named = [node for node in NODES if node != row["host"]]
            peer |= {"heard": 0, "missing": named}
            peer["foreign"] = [{"rail": other, "network": network, "count": 1, "nodes": named}]
    identity = run.ids("tcp_bandwidth", rail="rail0")[0]
    for row in run.rows(identity):
        error = {"class": "rendezvous_timeout", "message": "not met", "host": row["host"], "fix": "look"}
        row |= {"status": "unmeasured", "proof": None, "metrics": {}, "error": error}
    one = run.verdict(identity)
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "rails_swapped")
    assert "rail0 and rail1" in one["cause"]
