# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The traffic class in which RDMA is measured follows from what the inventory says of role roce_qos."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import qos_notes
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Inventory, Node

ROCE = {"transport": "roce", "node_class": "hardware", "cabling": "switched"}


def inventory(*nodes: tuple[dict[str, Any], dict[str, Any]]) -> Inventory:
    made = [
        Node(f"gpu{number}", fabric, number, None, None, None, (), qos=qos)
        for number, (fabric, qos) in enumerate(nodes)
    ]
    return Inventory("lab", [], made, frozenset(node.name for node in made))


@pytest.mark.parametrize(
    ("nodes", "traffic_class"),
    [
        # RFC 2474 and 3168: DSCP 26 and ECT(0) are 0b011010_10.
        ([(ROCE, {})], 106),
        ([(ROCE, {"roce_qos_dscp": 24})], 98),
        ([(ROCE, {}), (ROCE, {"roce_qos_dscp": 26})], 106),
        ([(ROCE, {}), (ROCE, {"roce_qos_dscp": 24})], None),
        ([(ROCE, {"roce_qos_dscp": "{{ site_dscp }}"})], None),
        ([(ROCE, {"roce_qos_dscp": 64})], None),
        ([(ROCE, {"roce_qos_dscp": True})], None),
        ([(ROCE, {"roce_qos_enabled": False})], None),
        ([(ROCE, {"roce_qos_enabled": "{{ site_qos }}"})], None),
        ([(ROCE, {}), (ROCE, {"roce_qos_enabled": "{{ site_qos }}"})], None),
        ([(ROCE, {}), (ROCE, {"roce_qos_enabled": False})], 106),
        # Back to back there is no switch that could drop, and the role is off.
        ([({**ROCE, "cabling": "back_to_back"}, {})], None),
        ([({**ROCE, "node_class": "virtual"}, {})], None),
        ([({**ROCE, "transport": "infiniband"}, {})], None),
        ([(ROCE, {}), ({**ROCE, "transport": "tcp"}, {})], 106),
        ([], None),
    ],
)
def test_the_class_of_the_role_is_that_of_the_tests(nodes, traffic_class):
    rules = policy.merge(None)
    assert qos_notes.with_traffic_class(rules, inventory(*nodes))["rdma_traffic_class"] == traffic_class


def test_a_declared_class_comes_first():
    rules = policy.merge({"rdma_traffic_class": 0})
    assert qos_notes.with_traffic_class(rules, inventory((ROCE, {})))["rdma_traffic_class"] == 0


@pytest.mark.parametrize(
    ("declared", "nodes", "why"),
    [
        (None, [(ROCE, {})], None),
        (None, [(ROCE, {}), (ROCE, {"roce_qos_dscp": 24})], "(roce_qos_dscp differs between nodes)"),
        (
            None,
            [(ROCE, {}), (ROCE, {"roce_qos_dscp": "{{ x }}"})],
            "(gpu1: roce_qos_dscp or roce_qos_enabled",
        ),
        (None, [(ROCE, {"roce_qos_enabled": "{{ x }}"})], "(gpu0: roce_qos_dscp or roce_qos_enabled"),
        (106, [(ROCE, {}), (ROCE, {"roce_qos_dscp": 24})], None),
        (0, [(ROCE, {"roce_qos_dscp": "{{ x }}"})], None),
        # No QoS is wanted, so the default class is the right one.
        (None, [(ROCE, {"roce_qos_enabled": False})], None),
        (None, [({**ROCE, "cabling": "back_to_back"}, {"roce_qos_dscp": "{{ x }}"})], None),
        (None, [({**ROCE, "transport": "infiniband"}, {"roce_qos_dscp": "{{ x }}"})], None),
        (None, [], None),
    ],
)
def test_a_class_that_is_not_known_is_reported_with_the_key_that_declares_it(declared, nodes, why):
    rules = policy.merge({"rdma_traffic_class": declared})
    note = qos_notes.default_class_note(rules, inventory(*nodes))
    assert bool(note) is (why is not None)
    if why:
        assert why in note
        assert "declare fabric_policy.rdma_traffic_class" in note
