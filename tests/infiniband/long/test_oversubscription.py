"""Case 10 of the design: bandwidth up and down of each leaf."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.subnet.capture import parse
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.judge import judge
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Judgement
from infiniband.conftest import Reader
from railyard.lab.subnet.faults import LinkDown
from railyard.lab.subnet.net import End, Net
from support import simulated
from support.net_faults import cut_cables
from support.simulated import Cluster

#: 16 hosts of 100 Gbit/s on 8 uplinks, as declared.
HALF = Cluster(
    rails=2,
    uplinks=8,
    more=(("leaves", {f"su1-leaf{number}": {"uplink_gbps": 800} for number in (1, 2)}),),
)
SPINES = Cluster(nodes=8, rails=3, spines=2)


def judged(net: Net, cluster: Cluster, tmp_path: Path) -> Judgement:
    with simulated.simulate(net, tmp_path / "sim") as subnet:
        return judge(parse(simulated.read(subnet)), cluster.expected())


def test_two_to_one_as_declared_is_no_finding_and_its_figures_are_right(reader: Reader) -> None:
    reading = reader.healthy(HALF).reading
    judgement = judge(reading, HALF.expected(), reading)
    assert judgement.findings == ()
    for leaf in judgement.leaves:
        assert leaf.hosts_gbps == pytest.approx(1600, rel=0.01)
        assert leaf.uplinks_gbps_now == pytest.approx(800, rel=0.01)
        ratios = (leaf.ratio_now, leaf.ratio_cabled, leaf.ratio_declared)
        assert ratios == pytest.approx((2, 2, 2), rel=0.01)


def test_with_an_uplink_less_the_three_figures_differ(reader: Reader) -> None:
    reading = reader.reading(HALF, live=[LinkDown(End("su1-leaf2", 17))])
    judgement = judge(reading, HALF.expected(), reader.healthy(HALF).reading)
    leaf = next(one for one in judgement.leaves if one.name == "su1-leaf2")
    ratios = (leaf.ratio_now, leaf.ratio_cabled, leaf.ratio_declared)
    assert ratios == pytest.approx((1600 / 700, 2, 2), rel=0.01)
    assert {one.cause for one in judgement.findings} & {"link_lost", "oversubscribed"}


def test_unequal_spines_are_named(tmp_path: Path) -> None:
    # Two of the four cables of leaf 1 to spine 2 are not there.
    net = cut_cables(SPINES.net(), [End("su1-leaf1", 13), End("su1-leaf1", 14)])
    judgement = judged(net, SPINES, tmp_path)
    (finding,) = [one for one in judgement.findings if one.cause == "spines_unequal"]
    assert "su1-leaf1" in finding.text
    leaf = next(one for one in judgement.leaves if one.name == "su1-leaf1")
    assert sorted(leaf.spines.values()) == pytest.approx([200, 400], rel=0.01)


def test_two_leaves_without_a_common_spine_fail(tmp_path: Path) -> None:
    # Leaf 1 is connected to spine 1 alone, leaf 2 to spine 2 alone, leaf 3 to both: all of it can be read.
    gone = [End("su1-leaf1", port) for port in range(13, 17)] + [
        End("su1-leaf2", port) for port in range(9, 13)
    ]
    judgement = judged(cut_cables(SPINES.net(), gone), SPINES, tmp_path)
    failed = [one for one in judgement.findings if one.severity == "fail"]
    assert [one.cause for one in failed] == ["no_common_spine"]
    assert "su1-leaf1" in failed[0].text
    assert "su1-leaf2" in failed[0].text
