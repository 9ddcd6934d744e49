"""40 faults at random places: which are found, and which findings are none."""

from __future__ import annotations

import random

from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.judge import judge
from infiniband.conftest import Reader
from support.simulated import Cluster
from support.simulated_faults import KINDS, plant, score

CLUSTER = Cluster()
FAULTS = 40


def test_40_faults_are_found_and_nothing_else(reader: Reader) -> None:
    net, previous = CLUSTER.net(), reader.healthy(CLUSTER).reading
    missed, wrong, reported = [], [], 0
    for seed in range(FAULTS):
        # Each kind in turn, so that none is missing by chance.
        planted = plant(random.Random(seed), net, 1, [KINDS[seed % len(KINDS)]])
        net_faults = [one.net_fault for one in planted if one.net_fault is not None]
        reading = reader.reading(CLUSTER, net_faults, [fault for one in planted for fault in one.live])
        found = score(planted, judge(reading, CLUSTER.expected(), previous).findings)
        missed += [(seed, name) for name in found.missed]
        wrong += [(seed, planted[0].name, one.cause, one.text) for one in found.wrong]
        reported += found.reported
    assert 1 - len(missed) / FAULTS >= 0.99, missed
    assert 1 - len(wrong) / reported >= 0.99, wrong
