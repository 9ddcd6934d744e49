"""Cases 1 to 7 of the design (shared/infiniband.md, section 8): real tools on a simulated subnet."""

from __future__ import annotations

from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.subnet.capture import parse
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.judge import judge
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Finding, Judgement
from infiniband.conftest import Reader
from railyard.lab.subnet.faults import (
    Counted,
    DeviceLost,
    Exchanged,
    LinkDown,
    LiveFault,
    NodeGuid,
    Silent,
)
from railyard.lab.subnet.net import End, Rate
from support import simulated
from support.net_faults import OtherRate
from support.simulated import Cluster

CLUSTER = Cluster()
TWO_UNITS = Cluster(nodes=8, rails=2, units=2)


def judge_faults(
    reader: Reader,
    *faults: OtherRate | LiveFault,
    cluster: Cluster = CLUSTER,
    with_leaves: bool = True,
    with_previous: bool = True,
) -> Judgement:
    net_faults = [one for one in faults if hasattr(one, "apply_to")]
    live = [one for one in faults if hasattr(one, "commands")]
    previous = reader.healthy(cluster).reading if with_previous else None
    reading = reader.reading(cluster, net_faults, live)  # type: ignore[arg-type]
    return judge(reading, cluster.expected(with_leaves=with_leaves), previous)


def about(judgement: Judgement, *causes: str) -> list[Finding]:
    return [one for one in judgement.findings if one.cause in causes]


def shown(judgement: Judgement) -> list[tuple[str, str]]:
    return [(one.cause, one.text) for one in judgement.findings]


# 1


def test_a_healthy_subnet_has_no_finding_in_20_readings(tmp_path: Path) -> None:
    with simulated.simulate(CLUSTER.net(), tmp_path / "sim") as subnet:
        previous = None
        for _ in range(20):
            reading = parse(simulated.read(subnet))
            judgement = judge(reading, CLUSTER.expected(), previous)
            assert shown(judgement) == []
            assert judgement.status == 0
            previous = reading
        found = judgement.coverage
        # 16 nodes x 4 rails; 4 leaves and 2 spines; as many links up as down.
        assert (found.adapters, found.switches, found.links) == (64, 6, 128)
        assert (found.expected_ports, found.found_ports) == (64, 64)
        assert {leaf.ratio_now for leaf in judgement.leaves} == {1.0}


# 2


def test_a_rail_without_link_is_named_with_its_leaf_port(reader: Reader) -> None:
    judgement = judge_faults(reader, LinkDown(End("gpu005 mlx5_1", 1)))
    (finding,) = judgement.findings
    assert (finding.node, finding.rail, finding.severity, judgement.status) == ("gpu005", "rail1", "fail", 1)
    assert "su1-leaf2 port 5" in finding.text


def test_an_uplink_that_is_lost_is_named_once_with_both_ends(reader: Reader) -> None:
    judgement = judge_faults(reader, LinkDown(End("su1-leaf3", 20)))
    lost = about(judgement, "link_lost")
    assert len(lost) == 1
    assert "su1-leaf3 port 20" in lost[0].text
    assert "spine1" in lost[0].text
    assert {one.cause for one in judgement.findings} <= {"link_lost", "oversubscribed", "spines_unequal"}
    leaf = next(one for one in judgement.leaves if one.name == "su1-leaf3")
    # 16 hosts with 100 Gbit/s on 15 uplinks.
    assert leaf.ratio_now == pytest.approx(1600 / 1500, rel=0.01)


def test_of_a_leaf_that_is_lost_its_16_rails_are_not_listed(reader: Reader) -> None:
    judgement = judge_faults(reader, DeviceLost("su1-leaf4"))
    (finding,) = judgement.findings
    assert (finding.cause, judgement.status) == ("switch_missing", 1)
    assert "su1-leaf4" in finding.text


def test_a_spine_that_is_lost_is_one_failure(reader: Reader) -> None:
    judgement = judge_faults(reader, DeviceLost("spine2"))
    assert [one.cause for one in judgement.findings if one.severity == "fail"] == ["switch_missing"]
    assert "spine2" in about(judgement, "switch_missing")[0].text
    assert about(judgement, "link_lost") == []
    assert {leaf.ratio_now for leaf in judgement.leaves} == {2.0}


# 3


def test_links_below_their_rate_are_named_and_two_lanes_of_hdr_are_100(reader: Reader) -> None:
    judgement = judge_faults(
        reader,
        OtherRate(End("gpu002 mlx5_0", 1), Rate(1, "EDR")),
        OtherRate(End("gpu003 mlx5_2", 1), Rate(4, "FDR")),
        OtherRate(End("su1-leaf2", 21), Rate(4, "SDR")),
        OtherRate(End("gpu004 mlx5_3", 1), Rate(2, "HDR")),
    )
    found = {(one.cause, one.node, one.rail) for one in judgement.findings if one.cause.startswith("link_")}
    assert found == {
        ("link_narrow", "gpu002", "rail0"),
        ("link_lanes_slow", "gpu003", "rail2"),
        ("link_lanes_slow", None, None),
    }
    assert "su1-leaf2 port 21" in next(one.text for one in judgement.findings if one.node is None)
    assert {one.cause for one in judgement.findings} <= {
        "link_narrow",
        "link_lanes_slow",
        "oversubscribed",
        "spines_unequal",
    }


# 4


def count(end: End, counter: str, value: int) -> Counted:
    return Counted(end, counter, value)


def test_symbol_errors_beyond_the_rate_fail_and_a_few_warn(reader: Reader) -> None:
    # 100 Gbit/s for an hour are 3.6e14 bits: at a bit error ratio of 1e-12 there may be 360 errors.
    judgement = judge_faults(
        reader,
        count(End("gpu002 mlx5_0", 1), "SymbolErrorCounter", 1000),
        count(End("gpu003 mlx5_1", 1), "SymbolErrorCounter", 1),
    )
    found = {one.node: (one.cause, one.severity) for one in judgement.findings}
    assert found == {"gpu002": ("errors_above_ber", "fail"), "gpu003": ("errors_counted", "warn")}
    # Not by 2,000: the line `port ALL` repeats the sum.
    assert "SymbolErrorCounter by 1000" in next(
        one.text for one in judgement.findings if one.node == "gpu002"
    )


def test_a_counter_at_its_maximum_is_at_least_so_much_and_one_that_fell_has_no_verdict(
    reader: Reader,
) -> None:
    judgement = judge_faults(reader, count(End("gpu002 mlx5_0", 1), "SymbolErrorCounter", 65535))
    assert [one.node for one in judgement.findings] == ["gpu002"]
    assert "at least" in judgement.findings[0].text

    many = [count(End("gpu003 mlx5_1", 1), "LinkDownedCounter", 9)]
    before = reader.capture(CLUSTER, live=many)
    after = reader.healthy(CLUSTER).capture
    judgement = judge(parse(simulated.count_between(before, after, 3600)), CLUSTER.expected())
    assert shown(judgement) == []


def test_a_link_that_went_down_and_came_back_is_a_flap(reader: Reader) -> None:
    judgement = judge_faults(reader, count(End("su1-leaf1", 20), "LinkDownedCounter", 1))
    assert [(one.cause, one.severity) for one in judgement.findings] == [("flapped", "fail")]
    assert "su1-leaf1 port 20" in judgement.findings[0].text


# 5


@pytest.mark.parametrize("with_leaves", [True, False])
def test_exchanged_rails_of_a_node_are_one_finding_with_both_ports(reader: Reader, with_leaves: bool) -> None:
    fault = Exchanged(End("gpu005 mlx5_0", 1), End("gpu005 mlx5_1", 1))
    judgement = judge_faults(reader, fault, with_leaves=with_leaves, with_previous=with_leaves)
    (finding,) = about(judgement, "wrong_leaf", "wrong_rail")
    assert {one.cause for one in judgement.findings} <= {finding.cause, "packets_discarded"}
    for word in ("gpu005", "rail0", "rail1", "su1-leaf1 port 5", "su1-leaf2 port 5"):
        assert word in finding.text
    assert finding.inferred is not with_leaves


@pytest.mark.parametrize("with_leaves", [True, False])
def test_exchanged_hosts_of_two_units_are_found(reader: Reader, with_leaves: bool) -> None:
    fault = Exchanged(End("gpu002 mlx5_0", 1), End("gpu006 mlx5_0", 1))
    judgement = judge_faults(
        reader, fault, cluster=TWO_UNITS, with_leaves=with_leaves, with_previous=with_leaves
    )
    found = about(judgement, "wrong_leaf", "wrong_rail")
    assert found, shown(judgement)
    text = " ".join(one.text for one in found)
    assert "gpu002" in text
    assert "gpu006" in text
    assert {one.inferred for one in found} == {not with_leaves}
    assert {one.cause for one in judgement.findings} <= {"wrong_leaf", "wrong_rail", "packets_discarded"}


# 6


def test_a_node_guid_that_two_adapters_have_is_named_with_both_ports(reader: Reader) -> None:
    guid = CLUSTER.net().devices["gpu002 mlx5_0"].guid
    judgement = judge_faults(reader, NodeGuid("gpu003 mlx5_0", guid))
    (finding,) = about(judgement, "guid_duplicate")
    assert "su1-leaf1 port 2" in finding.text
    assert "su1-leaf1 port 3" in finding.text
    assert judgement.status == 1
    assert {one.cause for one in judgement.findings} == {"guid_duplicate"}


def test_a_port_guid_that_a_switch_has_too_is_named_with_both_ports(reader: Reader) -> None:
    # An adapter's port has the GUID after its own: the node GUIDs of the two differ.
    net = CLUSTER.net()
    judgement = judge_faults(reader, NodeGuid("gpu003 mlx5_1", net.devices["spine1"].guid - 1))
    (finding,) = about(judgement, "guid_duplicate")
    assert "su1-leaf2 port 3" in finding.text
    assert "spine1" in finding.text
    assert judgement.status == 1


# 7


def test_an_adapter_that_does_not_answer_is_incomplete_and_not_healthy(reader: Reader) -> None:
    judgement = judge_faults(reader, Silent("gpu005 mlx5_2"))
    assert judgement.status == 3
    (finding,) = about(judgement, "no_answer")
    assert (finding.severity, finding.node, finding.rail) == ("unmeasured", "gpu005", "rail2")
    assert "su1-leaf3 port 5" in finding.text
    assert about(judgement, "link_lost", "adapter_missing") == []


def test_a_spine_that_does_not_answer_is_named_once(reader: Reader) -> None:
    judgement = judge_faults(reader, Silent("spine2"))
    assert judgement.status == 3
    (finding,) = about(judgement, "no_answer")
    assert "spine2" in finding.text
    assert about(judgement, "switch_missing", "link_lost") == []


def test_a_leaf_that_does_not_answer_is_named_once_and_its_rails_are_not(reader: Reader) -> None:
    judgement = judge_faults(reader, Silent("su1-leaf4"))
    assert judgement.status == 3
    (finding,) = about(judgement, "no_answer")
    assert "su1-leaf4" in finding.text
    assert about(judgement, "switch_missing", "link_lost", "adapter_missing") == []
