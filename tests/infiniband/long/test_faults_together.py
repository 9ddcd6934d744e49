"""Four faults at a time at random places, of other seeds and another net than in `make test`."""

from __future__ import annotations

import random

from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.judge import judge
from infiniband.conftest import Reader
from support.simulated import Cluster
from support.simulated_faults import KINDS, adapter_silent, guid_twice, plant, score

CLUSTER = Cluster(nodes=24, rails=4, units=2)
#: A GUID that is used twice and an adapter that does not answer both leave a port without a neighbor.
AMBIGUOUS = (guid_twice, adapter_silent)
READINGS = 10
EACH = 4


def test_four_faults_at_a_time_are_found(reader: Reader) -> None:
    net, previous = CLUSTER.net(), reader.healthy(CLUSTER).reading
    missed, wrong, reported = [], [], 0
    for seed in range(1000, 1000 + READINGS):
        left_out = AMBIGUOUS[seed % 2]
        kinds = [kind for kind in KINDS if kind is not left_out]
        planted = plant(random.Random(seed), net, EACH, kinds)
        net_faults = [one.net_fault for one in planted if one.net_fault is not None]
        reading = reader.reading(CLUSTER, net_faults, [fault for one in planted for fault in one.live])
        found = score(planted, judge(reading, CLUSTER.expected(), previous).findings)
        names = [one.name for one in planted]
        missed += [(seed, names, name) for name in found.missed]
        wrong += [(seed, names, one.cause, one.text) for one in found.wrong]
        reported += found.reported
    assert 1 - len(missed) / (READINGS * EACH) >= 0.99, missed
    assert 1 - len(wrong) / reported >= 0.99, wrong
