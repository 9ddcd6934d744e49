# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The bar: random faults are found by cause and place, and healthy subnets have no finding."""

from __future__ import annotations

import random
import time

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.judge import judge
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Finding, Judgement
from support.fake_subnet_faults import FAULTS, PARTITIONS, Fault, Places, Want
from support.fake_subnets import EDR, HDR, NDR, NOON_S, Net


def draw_net(rng: random.Random) -> Net:
    lane, rate = rng.choice([(EDR, 100.0), (HDR, 200.0), (NDR, 400.0)])
    net = Net(
        units=rng.choice([2, 3, 4]),
        nodes_each=rng.choice([4, 8, 16]),
        rails=rng.choice([2, 4, 8]),
        spines=rng.choice([2, 3, 4]),
        links_each=rng.choice([1, 2, 4]),
        lane_gbps=lane,
        rate_gbps=rate,
    )
    net.pkeys = {
        net.adapter_key(node, rail): (0xFFFF, 0x8001)
        for node in range(net.units * net.nodes_each)
        for rail in range(net.rails)
    }
    return net


def judge_faulty(rng: random.Random, faults: list[Fault]) -> tuple[Judgement, list[Want]]:
    healthy = draw_net(rng)
    net, wants = healthy.copy(), []
    net.taken_at_s += 86400
    places = Places(net, rng)
    for fault in faults:
        try:
            wants += fault(net, places)
        except IndexError:
            continue  # no place is left that shows this fault by itself
    return judge(net.reading(), healthy.expected(partitions=PARTITIONS), healthy.reading()), wants


def compare(findings: tuple[Finding, ...], wants: list[Want]) -> tuple[list[Want], list[Finding]]:
    """Return what was not found, and what was found and is not there."""
    left, missed = list(findings), []
    for want in wants:
        found = next((one for one in left if want.fits(one)), None)
        if found is None:
            missed.append(want)
        else:
            left.remove(found)
    return missed, left


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_each_fault_is_the_only_finding(fault: Fault, seed: int) -> None:
    judgement, wants = judge_faulty(random.Random(seed), [fault])
    assert compare(judgement.findings, wants) == ([], [])
    assert judgement.status != 0 or all(one.severity == "warn" for one in judgement.findings)


@pytest.mark.parametrize("seed", range(12))
def test_several_faults_in_one_subnet_are_distinguished(seed: int) -> None:
    rng = random.Random(1000 + seed)
    judgement, wants = judge_faulty(rng, rng.sample(FAULTS, 4))
    assert compare(judgement.findings, wants) == ([], [])


@pytest.mark.parametrize("seed", range(20))
def test_a_healthy_subnet_has_no_finding(seed: int) -> None:
    rng = random.Random(2000 + seed)
    net = draw_net(rng)
    options = {name: rng.random() < 0.5 for name in ("leaves", "units", "facts", "uplinks")}
    partitions = PARTITIONS if rng.random() < 0.5 else None
    expected = net.expected(**options, partitions=partitions, managers=("switch",))
    previous = net.reading(taken_at_s=NOON_S - 86400) if rng.random() < 0.5 else None
    judgement = judge(net.reading(), expected, previous)
    assert judgement.findings == ()
    assert judgement.status == 0
    assert judgement.coverage.found_ports == judgement.coverage.expected_ports
    assert judgement.is_tree
    assert [len(unit.nodes) for unit in judgement.units] == [net.nodes_each] * net.units


def test_960_adapters_are_judged_in_five_seconds() -> None:
    net = Net(units=4, nodes_each=30, rails=8, spines=8, links_each=4)
    reading, expected = net.reading(), net.expected()
    began = time.monotonic()
    judgement = judge(reading, expected, net.reading(taken_at_s=NOON_S - 60))
    assert time.monotonic() - began < 5
    assert judgement.coverage.found_ports == 960
    assert judgement.findings == ()
