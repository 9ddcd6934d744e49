# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who answers, by which rail, at which switch: each verdict from what a node heard."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import neighbours as neighbour_rows

OWN, OTHER, STRANGER = "02:00:00:00:00:02", "02:00:00:00:01:02", "02:00:00:00:00:99"
ADDRESSES = {"gpu1": "10.0.1.1", "gpu2": "10.0.1.2"}
RAIL = {"name": "rail0", "netdev": "ens6", "leaf": "leaf0"}


def owner(proxies: Collection[str] = (), **changes: Any) -> Any:
    told = {
        "peer": "gpu2",
        "peer_address": "10.0.1.2",
        "peer_mac": OWN,
        "claimed_by": [OWN],
        "other_rail": "rail1",
        "other_address": "10.0.0.2",
        "other_claimed_by": [],
        "known": {OWN: "gpu2 rail0"},
        **changes,
    }
    return neighbour_rows.judge("link_address_owner", "gpu1", RAIL, told, ADDRESSES, proxies)


@pytest.mark.parametrize(
    ("changes", "outcome", "cause", "names"),
    [
        ({}, "pass", None, ""),
        ({"claimed_by": [OWN, STRANGER]}, "fail", "address_in_use", STRANGER),
        # Who to look for: what the IEEE's register says of the first three octets; of a VM's nothing.
        ({"claimed_by": [STRANGER]}, "fail", "address_in_use", f"by {STRANGER} (unknown vendor)"),
        (
            {"claimed_by": [OWN, "24:8a:07:11:22:33"]},
            "fail",
            "address_in_use",
            "by 24:8a:07:11:22:33 (Mellanox Technologies, Inc.)",
        ),
        (
            {"claimed_by": [OWN, STRANGER], "known": {OWN: "gpu2 rail0", STRANGER: "gpu7 rail0"}},
            "fail",
            "address_in_use",
            "gpu7 rail0",
        ),
        ({"claimed_by": [OTHER], "known": {OTHER: "gpu2 rail1"}}, "fail", "arp_flux", "gpu2 rail1"),
        ({"other_claimed_by": [OWN]}, "fail", "arp_flux", "10.0.0.2 of its rail1"),
        (
            {"other_claimed_by": [STRANGER]},
            "fail",
            "address_in_use",
            f"10.0.0.2 of its rail1 is also claimed by {STRANGER}",
        ),
        (
            {"other_claimed_by": [OTHER], "known": {OWN: "gpu2 rail0", OTHER: "gpu2 rail1"}},
            "unmeasured",
            "peer_miswired",
            "rail1",
        ),
        ({"claimed_by": []}, "unmeasured", "no_arp_answer", "gpu2"),
        ({"peer": "gpu9"}, "unmeasured", "row_garbled", "gpu1"),
        ({"peer": "gpu1", "peer_address": "10.0.1.1"}, "unmeasured", "row_garbled", "gpu1"),
        ({"peer_address": "10.0.1.9"}, "unmeasured", "row_garbled", "gpu1"),
    ],
)
def test_who_answers_for_an_address(
    changes: dict[str, Any], outcome: str, cause: str | None, names: str
) -> None:
    one = owner(**changes)
    assert (one.outcome, one.cause.get("cause_class")) == (outcome, cause)
    assert names in str(one.cause.get("cause"))
    assert outcome != "fail" or "gpu2 rail0 (10.0.1.2), queried by gpu1" in one.cause["cause"]


@pytest.mark.parametrize(
    ("changes", "outcome"),
    [
        ({"claimed_by": [STRANGER]}, "recorded"),
        ({"claimed_by": [OWN, STRANGER], "other_claimed_by": [STRANGER]}, "recorded"),
        ({"claimed_by": [OWN]}, "pass"),
        # Beside a proxy there may still be a second owner, and flux.
        ({"claimed_by": [STRANGER, "02:00:00:00:00:98"]}, "fail"),
        ({"claimed_by": [STRANGER], "other_claimed_by": [OWN]}, "fail"),
    ],
)
def test_whose_an_address_is_a_proxy_does_not_tell(changes: dict[str, Any], outcome: str) -> None:
    one = owner(proxies=[STRANGER], **changes)
    assert one.outcome == outcome
    if outcome == "recorded":
        assert one.proof == "unproven"
        assert STRANGER in one.basis


@pytest.mark.parametrize(
    ("route", "replies", "outcome", "cause", "names"),
    [
        ("ens6", {"rail0": 3, "rail1": 0}, "pass", None, ""),
        ("ens6", {"rail0": 1, "rail1": 0}, "pass", None, ""),
        ("ens6d1", {"rail0": 3, "rail1": 0}, "fail", "reply_other_rail", "gpu1 rail0"),
        ("ens6", {"rail0": 0, "rail1": 3}, "fail", "reply_other_rail", "gpu2 rail0"),
        ("ens6", {"rail0": 2, "rail1": 1}, "fail", "reply_other_rail", "rail1"),
        ("ens6", {"rail0": 0, "rail1": 0}, "unmeasured", "no_reply", "gpu2"),
        (None, {"rail0": 3, "rail1": 0}, "unmeasured", "route_unknown", "gpu1"),
    ],
)
def test_the_way_of_a_reply(
    route: str | None, replies: Any, outcome: str, cause: str | None, names: str
) -> None:
    told = {"peer": "gpu2", "peer_address": "10.0.1.2", "route_netdev": route, "replies": replies}
    one = neighbour_rows.judge("reply_path", "gpu1", RAIL, told, ADDRESSES)
    assert (one.outcome, one.cause.get("cause_class")) == (outcome, cause)
    assert names in str(one.cause.get("cause"))


def switch(name: str | None, port: str = "Ethernet1/7") -> Any:
    return {"switch": name, "chassis": "02:00:00:00:00:01", "port": port}


@pytest.mark.parametrize(
    ("neighbours", "outcome", "cause"),
    [
        # The node at the cable's other end can report so: it is no pass.
        ([switch("leaf0")], "recorded", None),
        ([switch("LEAF0.example.net")], "recorded", None),
        ([switch("leaf9")], "fail", "wrong_leaf"),
        ([switch("leaf0"), switch("leaf9")], "unmeasured", "neighbour_unclear"),
        # A MAC address is no name: whose it is the inventory does not say.
        ([switch(None)], "unmeasured", "switch_unnamed"),
        ([switch(None), switch("leaf9")], "unmeasured", "switch_unnamed"),
        # Silence is no pass and no record either: nothing was compared.
        ([], "unmeasured", "no_lldp"),
    ],
)
def test_the_switch_says_that_it_is_the_planned_leaf(
    neighbours: Any, outcome: str, cause: str | None
) -> None:
    one = neighbour_rows.judge_switch("gpu1", RAIL, neighbours)
    assert (one.outcome, one.cause.get("cause_class")) == (outcome, cause)
    assert one.proof == ("unproven" if outcome == "recorded" else None)
    if cause == "wrong_leaf":
        assert "gpu1 rail0" in one.cause["cause"]
        assert "Ethernet1/7" in one.cause["cause"]
        assert "leaf0" in one.cause["cause"]


def test_two_domains_are_two_switches() -> None:
    rail = {**RAIL, "leaf": "leaf0.a.example"}
    assert neighbour_rows.judge_switch("gpu1", rail, [switch("leaf0.b.example")]).outcome == "fail"
