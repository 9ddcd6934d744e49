# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Latency against planned hops, on results made for it: no lab has cut-through switches."""

from __future__ import annotations

import dataclasses
import itertools
import random

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.rails import bind
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import hops as hop_rows
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer

BASE_US, HOP_US = 1.2, 0.6
NODES = [f"gpu{number}" for number in range(1, 9)]


def samples(
    extra: dict[str, float] | None = None, noise_us: float = 0.02, hardware: bool = True, leaves: int = 1
) -> list[hop_rows.Sample]:
    """Return every pair's latency on one rail: 0.6 us a hop, `extra` hops on a node's own cable."""
    chance = random.Random(1)
    found = []
    for number, (node, peer) in enumerate(itertools.permutations(NODES, 2)):
        same = NODES.index(node) % leaves == NODES.index(peer) % leaves
        hops = 1 if same else 3
        added = sum((extra or {}).get(name, 0.0) for name in (node, peer))
        latency = BASE_US + HOP_US * (hops + added) + chance.uniform(-noise_us, noise_us)
        ends = (node, peer)
        found.append(
            hop_rows.Sample(f"m{number:05d}", "rail0", ends, hops, 400, latency, hardware, "Ethernet")
        )
    return found


def on_rail1(one: hop_rows.Sample, more_us: float) -> hop_rows.Sample:
    return dataclasses.replace(one, rail="rail1", latency_us=one.latency_us + more_us)


def of_rail0(node: str, made: list[hop_rows.Sample]) -> Answer:
    return hop_rows.judge({"node": node, "rail": "rail0"}, hop_rows.group_by_rail(made))


def judge(node: str, made: list[hop_rows.Sample]) -> tuple[str, str | None, str]:
    one = of_rail0(node, made)
    return one.outcome, one.cause.get("cause_class"), str(one.cause.get("cause"))


@pytest.mark.parametrize("leaves", [1, 2])
def test_latencies_of_the_planned_way_pass(leaves: int) -> None:
    assert {judge(node, samples(leaves=leaves))[:2] for node in NODES} == {("pass", None)}


@pytest.mark.parametrize(("hops", "number"), [(1, "1 to 2"), (2, "2 to 4")])
def test_a_hop_more_is_found_and_counted(hops: int, number: str) -> None:
    made = samples({"gpu3": float(hops)})
    outcome, cause, text = judge("gpu3", made)
    assert (outcome, cause) == ("fail", "more_hops")
    # 0.6 us may be one slow switch or two fast ones; a switch is 0.3 to 1 us.
    assert text.rsplit(": ", maxsplit=1)[-1].startswith(number)
    assert "gpu3 rail0" in text
    assert {judge(node, made)[0] for node in NODES if node != "gpu3"} == {"pass"}


def test_a_slot_that_is_farther_on_every_node_is_no_hop() -> None:
    """Rail 1 lies 0.4 us deeper in PCIe, on all nodes alike: it is compared with itself."""
    made = hop_rows.group_by_rail(samples() + [on_rail1(one, 0.4) for one in samples()])
    for rail in ("rail0", "rail1"):
        assert hop_rows.judge({"node": "gpu3", "rail": rail}, made).outcome == "pass"


def test_a_node_that_is_slow_on_all_rails_has_no_switch_too_many() -> None:
    slow = samples({"gpu3": 1.0})
    both = slow + [on_rail1(one, 0.0) for one in slow]
    assert of_rail0("gpu3", both).outcome == "recorded"
    one = slow + [on_rail1(one, 0.0) for one in samples()]
    assert of_rail0("gpu3", one).outcome == "fail"


def test_less_than_a_hops_least_is_no_hop() -> None:
    assert judge("gpu3", samples({"gpu3": 0.4}))[0] == "pass"  # 0.24 us


@pytest.mark.parametrize("layer", ["InfiniBand", None])
def test_of_other_than_ethernets_switches_no_least_is_known(layer: str | None) -> None:
    made = [dataclasses.replace(one, link_layer=layer) for one in samples({"gpu3": 1.0})]
    assert judge("gpu1", made)[0] == "recorded"
    assert judge("gpu3", made)[:2] == ("fail", "more_hops")


def test_latencies_that_differ_by_a_hop_anyway_have_no_bound() -> None:
    one = of_rail0("gpu1", samples(noise_us=0.5))
    assert one.outcome == "recorded"
    assert "differ" in one.basis


def test_two_nodes_have_nothing_to_be_compared_with() -> None:
    pair = [one for one in samples() if set(one.nodes) == {"gpu1", "gpu2"}]
    one = of_rail0("gpu1", pair)
    assert (one.outcome, one.floor, one.ceiling) == ("recorded", {}, {})


def test_software_has_no_hops() -> None:
    one = of_rail0("gpu1", samples({"gpu1": 9.0}, hardware=False))
    assert one.outcome == "recorded"


def test_without_a_trusted_latency_nothing_is_known() -> None:
    assert judge("gpu1", [])[:2] == ("unmeasured", "hops_unclear")


@pytest.mark.parametrize(("leaves", "hops"), [(("a", "a"), 1), (("a", "b"), 3), (("a", None), None)])
def test_the_planned_hops_follow_from_the_leaves(leaves: tuple[str, str | None], hops: int | None) -> None:
    bound = {
        node: {"rail0": bind.Bound({"leaf": leaf, "rate_gbps": 400}, hca={"driver_class": "hardware"})}
        for node, leaf in zip(("gpu1", "gpu2"), leaves, strict=True)
    }
    line = {"id": "m00000", "node": "gpu1", "peer": "gpu2", "rail": "rail0"}
    one = hop_rows.make_sample(line, {"latency_p50_us": 1.8}, bound)
    assert (one.hops, one.latency_us, one.hardware) == (hops, 1.8, True)
