# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.netplan import peers

RAILS = [
    {"name": "rail0", "netdev": "ens6", "address": "10.0.1.2/24", "mtu": 9000},
    {"name": "rail1", "netdev": "ens7", "address": "10.0.0.2/24", "mtu": 9000},
]


def node(name, host, mtu=9000):
    rails = [("rail0", f"10.0.1.{host}/24"), ("rail1", f"10.0.0.{host}/24")]
    return {"node": name, "rails": [{"name": rail, "address": cidr, "mtu": mtu} for rail, cidr in rails]}


def test_first_node_of_a_run_has_no_one_to_ask():
    assert peers.chosen(RAILS, []) == []


def test_each_rail_asks_the_first_node_that_was_committed():
    assert peers.chosen(RAILS, [node("a", 1), node("c", 3)]) == [
        {"rail": "rail0", "peer": "a", "address": "10.0.1.1", "mtu_bytes": 9000},
        {"rail": "rail1", "peer": "a", "address": "10.0.0.1", "mtu_bytes": 9000},
    ]


def test_node_of_another_unit_is_on_another_subnet_and_not_tested():
    far = {"node": "far", "rails": [{"name": "rail0", "address": "10.7.1.1/24", "mtu": 9000}]}
    assert peers.chosen(RAILS, [far]) == []
    assert [row["peer"] for row in peers.chosen(RAILS, [far, node("a", 1)])] == ["a", "a"]


def test_node_does_not_ask_itself():
    assert peers.chosen(RAILS, [node("self", 2)]) == []


def test_smaller_mtu_of_both_ends_is_tested():
    assert {row["mtu_bytes"] for row in peers.chosen(RAILS, [node("a", 1, 1500)])} == {1500}


def run_with(carried_bytes, calls=None):
    """A wire that carries packets of so many bytes, IP and ICMP headers included; 0: a cable that is out."""

    def run(argv):
        if calls is not None:
            calls.append(argv)
        if argv == ["ping", "-V"]:
            return 0, "", ""
        payload = int(argv[argv.index("-s") + 1]) if "-s" in argv else 56
        return (0 if payload + 28 <= carried_bytes else 1), "", ""

    return run


PEERS = peers.chosen(RAILS, [node("a", 1)])


def test_full_packets_that_arrive_are_enough():
    calls = []
    assert peers.ask(run_with(9000, calls), RAILS, PEERS) == ([], [])
    whole = [argv for argv in calls if "-s" in argv]
    assert {(argv[argv.index("-I") + 1], argv[argv.index("-s") + 1], argv[-1]) for argv in whole} == {
        ("ens6", "8972", "10.0.1.1"),
        ("ens7", "8972", "10.0.0.1"),
    }
    assert all(argv[argv.index("-M") + 1] == "do" for argv in whole)


@pytest.mark.parametrize("carried_bytes", [1500, 8999])
def test_path_that_carries_less_is_a_problem(carried_bytes):
    problems, findings = peers.ask(run_with(carried_bytes), RAILS, PEERS)
    assert findings == []
    assert problems[0].startswith("rail0 (ens6): a (10.0.1.1) answers small packets and none of 9000 bytes")
    assert len(problems) == 2


def test_cable_that_is_out_is_a_finding_and_undoes_nothing():
    problems, findings = peers.ask(run_with(0), RAILS, PEERS)
    assert problems == []
    assert "does not answer" in findings[0]


def test_node_without_ping_asks_no_one():
    assert peers.ask(lambda _argv: (127, "", ""), RAILS, PEERS) == ([], [])
