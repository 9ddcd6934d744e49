# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A rail's RDMA port, GID and RDMA MTU by fact: what is wrong fails, what is not known is no pass."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.rules import rdma
from support.runs import fake_rdma
from support.runs.fake_run import NODES, FakeRun, in_sequence

HEALTHY = FakeRun(transport="roce")
ABSENT = object()


def verdict_of(check: str, changes: dict[str, Any], run: FakeRun | None = None) -> dict[str, Any]:
    """Judge rail0 of the first node after changing its port's facts."""
    run = (run or HEALTHY).copy()
    port = run.facts[0]["hcas"][0]
    for key, value in changes.items():
        if value is ABSENT:
            del port[key]
        else:
            port[key] = value
    return run.verdict(run.ids(check, node=NODES[0], rail="rail0")[0])


def infiniband() -> FakeRun:
    run = FakeRun(transport="infiniband", rate_gbps=100.0, driver_class="hardware")
    for row in run.facts:
        for netdev in row["netdevs"]:
            netdev["speed_mbps"] = 100000
        for port in row["hcas"]:
            port |= {"link_layer": "InfiniBand", "lid": 3, "sm_lid": 1}
    return run


INFINIBAND = infiniband()


def test_a_healthy_port_passes_with_bounds_and_proof() -> None:
    for check in ("rdma_port", "rdma_gid", "rdma_mtu"):
        one = verdict_of(check, {})
        assert (one["outcome"], one["proof"]) == ("pass", "proven")
        assert one["floor"]
        assert one["ceiling"]
    assert verdict_of("rdma_port", {}, INFINIBAND)["outcome"] == "pass"
    assert not INFINIBAND.ids("rdma_gid"), "an InfiniBand GID stands for no address"
    assert not FakeRun().ids("rdma_port"), "of TCP no RDMA is asked"


@pytest.mark.parametrize(
    ("changes", "outcome", "cause"),
    [
        ({"state": "DOWN"}, "fail", "link_down"),
        ({"state": "ARMED"}, "fail", "link_down"),
        ({"link_layer": "InfiniBand"}, "fail", "link_layer_wrong"),
        ({"node_type": "RNIC"}, "fail", "iwarp"),
        ({"node_type": "RNIC", "state": "DOWN"}, "fail", "iwarp"),
        ({"dpu_mode": "dpu"}, "fail", "dpu_mode"),
        ({"dpu_mode": "nic"}, "pass", None),
        ({"hca": "rxe9:1"}, "fail", "hca_missing"),
        ({"netdev": "ens6d1"}, "fail", "netdev_differs"),
        ({"state": None}, "unmeasured", "rdma_unknown"),
        ({"state": "N/A"}, "unmeasured", "rdma_unknown"),
        ({"state": "<unknown>"}, "unmeasured", "rdma_unknown"),
        ({"state": ABSENT}, "unmeasured", "facts_garbled"),
        ({"link_layer": None}, "unmeasured", "rdma_unknown"),
        ({"node_type": None}, "unmeasured", "rdma_unknown"),
    ],
)
def test_a_port_that_cannot_do_what_is_declared(
    changes: dict[str, Any], outcome: str, cause: str | None
) -> None:
    one = verdict_of("rdma_port", changes)
    assert (one["outcome"], one["cause_class"]) == (outcome, cause)
    assert outcome == "pass" or (one["proof"] is None and "gpuserver1" in one["cause"])


#: What a port of EFA reports (torvalds/linux efa_verbs.c; linux-rdma/rdma-core pull request 884).
EFA = {"driver": "efa", "node_type": "unspecified", "link_layer": "Unknown", "sm_lid": 0, "lid": 0}


def efa() -> FakeRun:
    run = FakeRun(transport="efa", rate_gbps=200.0, driver_class="hardware")
    for row, node in zip(run.facts, run.plan["nodes"].values(), strict=True):
        row["netdevs"] = []
        for port, rail, pci in zip(row["hcas"], node["rails"], ("0000:4f:00.0", "0000:50:00.0"), strict=True):
            port |= {**EFA, "netdev": None, "rate_gbps": 100.0, "gids": [GID], "pci": pci}
            rail.update(address=None, subnet=None, mtu=None, netdev=None, mac=None, hca=None, pci=pci)
    return run


GID = {
    "index": 0,
    "gid": "fe80:0000:0000:0000:104c:74ff:fe46:e1ab",
    "type": "IB",
    "netdev": None,
    "address": None,
}
OVER_EFA = efa()


def test_a_healthy_port_of_efa_passes_whatever_rate_its_driver_reports() -> None:
    for check in ("rdma_port", "rdma_mtu"):
        one = verdict_of(check, {}, OVER_EFA)
        assert (one["outcome"], one["proof"]) == ("pass", "proven"), one["cause"]
    assert "not compared" in verdict_of("rdma_port", {}, OVER_EFA)["basis"]
    assert not OVER_EFA.ids("rdma_gid")
    assert not OVER_EFA.ids("rdma_pkeys")
    # That there is no netdev is the transport's nature, and not what was not found.
    (link, *_others) = (OVER_EFA.verdict(one) for one in OVER_EFA.ids("link"))
    assert link["outcome"] == "not_applicable"
    assert "EFA device" in link["basis"]


@pytest.mark.parametrize(
    ("changes", "cause"),
    [
        ({"state": "DOWN"}, "link_down"),
        ({"link_layer": "Ethernet"}, "link_layer_wrong"),
        ({"driver": "mlx5_core"}, "link_layer_wrong"),
        ({"pci": "0000:51:00.0"}, "hca_missing"),
    ],
)
def test_a_port_of_efa_that_is_not_as_declared_fails(changes: dict[str, Any], cause: str) -> None:
    one = verdict_of("rdma_port", changes, OVER_EFA)
    assert (one["outcome"], one["cause_class"]) == ("fail", cause)


@pytest.mark.parametrize("transport", ["roce", "infiniband"])
@pytest.mark.parametrize("layer", ["Unknown", "Ethernet", "InfiniBand"])
def test_efa_under_another_transport_fails_with_what_to_declare(transport: str, layer: str) -> None:
    run = {"roce": HEALTHY, "infiniband": INFINIBAND}[transport]
    for check in rdma.CHECKS[transport]:
        one = verdict_of(check, {**EFA, "link_layer": layer}, run)
        assert (one["outcome"], one["cause_class"], one["proof"]) == ("fail", "link_layer_wrong", None)
        assert "EFA device" in one["cause"]
        assert "`efa`" in one["next"]


@pytest.mark.parametrize(
    ("changes", "outcome", "cause"),
    [
        ({"state": "INIT"}, "fail", "sm_missing"),
        ({"sm_lid": 0}, "fail", "sm_missing"),
        # Without a link there is no subnet manager either.
        ({"state": "DOWN", "physical_state": "Polling", "sm_lid": 0}, "fail", "link_down"),
        ({"sm_lid": 0xFFFF}, "fail", "sm_missing"),
        ({"lid": 0}, "fail", "sm_missing"),
        ({"lid": 0xFFFF}, "fail", "sm_missing"),
        ({"lid": 0xFFFFFFFF}, "fail", "sm_missing"),  # Omni-Path has LIDs of 32 bits
        ({"lid": None}, "unmeasured", "rdma_unknown"),
        ({"sm_lid": None}, "unmeasured", "rdma_unknown"),
        ({"link_layer": "Ethernet"}, "fail", "link_layer_wrong"),
        ({"rate_gbps": 25.0}, "fail", "link_speed"),
        ({"rate_gbps": 200.0}, "fail", "link_speed"),  # the declared rate is wrong, and bounds rest on it
        ({"rate_gbps": 0}, "fail", "link_speed"),
        ({"rate_gbps": None}, "unmeasured", "rdma_unknown"),
        ({"state": "DOWN"}, "fail", "link_down"),
    ],
)
def test_an_infiniband_port_needs_a_subnet_manager_and_its_rate(
    changes: dict[str, Any], outcome: str, cause: str
) -> None:
    one = verdict_of("rdma_port", changes, INFINIBAND)
    assert (one["outcome"], one["cause_class"]) == (outcome, cause)


@pytest.mark.parametrize("told", [None, "", "unknown", ABSENT])
def test_a_port_of_unknown_kind_is_unmeasured_since_its_floor_is_lost(told: Any) -> None:
    one = verdict_of("rdma_port", {"driver_class": told}, INFINIBAND)
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "facts_garbled")
    assert "driver_class" in one["cause"]


def gids(*entries: tuple[int, str, str]) -> list[dict[str, Any]]:
    return [
        {"index": index, "gid": fake_rdma.LINK_LOCAL, "type": kind, "netdev": "ens6", "address": address}
        for index, kind, address in entries
    ]


@pytest.mark.parametrize(
    ("table", "outcome", "index"),
    [
        (gids((2, "RoCE v1", "10.0.1.1"), (3, "RoCE v2", "10.0.1.1")), "pass", 3),
        (gids((2, "RoCE v1", "10.0.1.1")), "recorded", 2),
        (gids((3, "RoCE v2", "10.0.1.2")), "fail", None),
        ([], "fail", None),
        (None, "unmeasured", None),
        ("gids", "unmeasured", None),
        ([None, 7, {}, {"index": "3"}], "unmeasured", None),
    ],
)
def test_the_gid_is_the_rails_address_and_v2_where_there_is_one(
    table: Any, outcome: str, index: int | None
) -> None:
    one = verdict_of("rdma_gid", {"gids": table})
    assert one["outcome"] == outcome
    assert (one["observed"] or {"gid_index": None})["gid_index"] == index
    if outcome == "fail":
        assert one["cause_class"] == "no_gid"
    if outcome == "recorded":
        assert "gid_v1_only" in one["basis"]
        assert "not routable" in one["basis"]
        assert "NCCL_IB_ROCE_VERSION_NUM=1" in one["basis"]
        assert not one["floor"]


@pytest.mark.parametrize(
    ("active", "mtu", "changes", "outcome", "cause"),
    [
        (4096, 9000, {}, "pass", None),
        (1024, 1500, {}, "pass", None),
        (1024, 9000, {}, "fail", "rdma_mtu_small"),
        (2048, 9000, {}, "fail", "rdma_mtu_small"),
        (2048, 9000, {"driver": "mlx4_core"}, "pass", None),
        (4096, 9000, {"device": "mlx4_0"}, "pass", None),
        (1024, 9000, {"driver": "mlx4_core"}, "fail", "rdma_mtu_small"),
        (2048, 9000, {"max_mtu_bytes": 2048}, "pass", None),
        (4096, 1500, {}, "fail", "mtu_differs"),
        (None, 9000, {}, "unmeasured", "rdma_mtu_unknown"),
        ("4096", 9000, {}, "unmeasured", "facts_garbled"),
        (True, 9000, {}, "unmeasured", "facts_garbled"),
        (256, 300, {}, "fail", "rdma_mtu_small"),
        (4096, None, {}, "not_applicable", None),
    ],
)
def test_the_rdma_mtu_is_what_the_inventorys_mtu_allows(
    active: Any, mtu: int | None, changes: dict[str, Any], outcome: str, cause: str | None
) -> None:
    run = HEALTHY.copy()
    for rail in run.plan["nodes"][NODES[0]]["rails"]:
        rail["mtu"] = mtu
    one = verdict_of("rdma_mtu", {"active_mtu_bytes": active, **changes}, run)
    assert (one["outcome"], one["cause_class"]) == (outcome, cause)


def test_on_infiniband_the_ports_own_maximum_counts() -> None:
    assert verdict_of("rdma_mtu", {}, INFINIBAND)["outcome"] == "pass"
    assert verdict_of("rdma_mtu", {"active_mtu_bytes": 2048}, INFINIBAND)["outcome"] == "fail"
    assert verdict_of("rdma_mtu", {"max_mtu_bytes": None}, INFINIBAND)["outcome"] == "unmeasured"


def test_a_connectx3_on_infiniband_is_measured_at_the_2048_that_perftest_takes_there() -> None:
    # perftest's set_mtu lowers 4096 to 2048 on ConnectX-3 and its Pro, whatever the link layer.
    connectx3 = {"driver": "mlx4_core", "active_mtu_bytes": 2048}
    assert verdict_of("rdma_mtu", connectx3, INFINIBAND)["outcome"] == "pass"
    assert verdict_of("rdma_mtu", {**connectx3, "active_mtu_bytes": 4096}, INFINIBAND)["outcome"] == "pass"
    assert verdict_of("rdma_mtu", {**connectx3, "active_mtu_bytes": 1024}, INFINIBAND)["outcome"] == "fail"
    run = INFINIBAND.copy()
    for port in (port for row in run.facts for port in row["hcas"]):
        port["driver"] = "mlx4_core"
    for row in run.results:
        if row["check"].startswith("rdma"):
            row |= {"active_mtu_bytes": 2048, "gid_index": None, "gid_type": None}
            for name, (before, after) in row["counters"].items():
                if name.endswith("_packets"):  # half as long, twice as many
                    row["counters"][name] = [before, before + 2 * (after - before)]
    in_sequence(run.results)
    one = run.verdict(run.ids("rdma_latency")[0])
    assert (one["outcome"], one["cause"]) == ("recorded", None)
    one = run.verdict(run.ids("rdma_bandwidth")[0])
    # 0.95 of 100 Gbit/s is too little, but measured.
    assert (one["outcome"], one["cause_class"]) == ("fail", "below_floor")
    assert one["ceiling"]["bandwidth_gbps"] == pytest.approx(100 * 2048 / (2048 + 26) * 1.02, abs=1e-3)


def test_a_rail_without_a_named_port_takes_the_one_of_its_netdev() -> None:
    run = HEALTHY.copy()
    for node in run.plan["nodes"].values():
        for rail in node["rails"]:
            rail["hca"] = None
    assert verdict_of("rdma_port", {}, run)["outcome"] == "pass"
    # A card's port and a software device on one netdev: which one is meant is not guessed.
    run.facts[0]["hcas"].append({**run.facts[0]["hcas"][0], "hca": "mlx5_0:1"})
    one = verdict_of("rdma_port", {}, run)
    assert (one["outcome"], one["cause_class"]) == ("fail", "hca_missing")
    assert "rxe0:1, mlx5_0:1" in one["cause"]


def test_without_facts_nothing_of_rdma_is_known() -> None:
    run = HEALTHY.copy()
    run.facts = run.facts[1:]
    for check in ("rdma_port", "rdma_gid", "rdma_mtu"):
        one = run.verdict(run.ids(check, node=NODES[0])[0])
        assert (one["outcome"], one["cause_class"]) == ("unmeasured", "node_unreachable")
    bare = HEALTHY.copy()
    bare.facts[0]["hcas"] = None
    assert bare.verdict(bare.ids("rdma_gid", node=NODES[0])[0])["cause_class"] == "facts_garbled"


def test_a_port_that_the_inventory_does_not_name_is_no_part_of_a_tcp_link() -> None:
    run = FakeRun()
    for row, roce in zip(run.facts, HEALTHY.facts, strict=True):
        row["hcas"] = [{**port, "state": "DOWN"} for port in roce["hcas"]]
    assert run.status() == 0


def without_a_rate(rates: tuple[float, ...], boards: tuple[str | None, ...]) -> FakeRun:
    """Return an InfiniBand run that declares no rate, whose four ports run so and are of these boards."""
    run = INFINIBAND.copy()
    for node in run.plan["nodes"].values():
        for rail in node["rails"]:
            rail["rate_gbps"] = None
    ports = [port for row in run.facts for port in row["hcas"]]
    for port, rate, board in zip(ports, rates, boards, strict=True):
        port |= {"rate_gbps": rate, "board_id": board}
    return run


NDR, OTHER = "MT_0000000838", "MT_0000000222"


@pytest.mark.parametrize(
    ("width", "rate"),
    [("4X", 200.0), ("1X", 100.0)],  # NDR 400 that trained to HDR, or on one lane of four
)
def test_an_infiniband_port_that_is_slower_than_its_peers_fails(width: str, rate: float) -> None:
    run = without_a_rate((rate, 400.0, 400.0, 400.0), (NDR,) * 4)
    one = verdict_of("rdma_port", {"width": width}, run)
    assert (one["outcome"], one["cause_class"]) == ("fail", "link_slow")
    for word in ("gpuserver1 rail0 (mlx5_0:1)", f"{rate:g} Gbit/s ({width})", "gpuserver1 mlx5_1:1", "400"):
        assert word in one["cause"]
    assert "rate_gbps" in one["next"]
    assert one["floor"]["rate_gbps"] == 400.0


@pytest.mark.parametrize(
    ("rates", "boards"),
    [
        ((200.0,) * 4, (NDR,) * 4),  # all may be slow alike: a switch of the generation before
        ((200.0, 400.0, 400.0, 400.0), (OTHER, NDR, NDR, NDR)),
        ((200.0, 400.0, 400.0, 400.0), (None, NDR, NDR, NDR)),
        ((200.0, 400.0, 400.0, 400.0), ("", "", "", "")),
    ],
)
def test_an_infiniband_rate_that_nothing_bounds_is_recorded_and_no_pass(
    rates: tuple[float, ...], boards: tuple[str | None, ...]
) -> None:
    one = verdict_of("rdma_port", {}, without_a_rate(rates, boards))
    assert (one["outcome"], one["floor"], one["ceiling"]) == ("recorded", None, None)
    for word in (
        "gpuserver1 rail0 (mlx5_0:1)",
        "200 Gbit/s (4X)",
        "recorded, not judged",
        "declare rate_gbps",
    ):
        assert word in one["basis"]


@pytest.mark.parametrize("told", [{"rate_gbps": None}, {"rate_gbps": 0}])
def test_an_infiniband_rate_that_is_not_reported_is_unmeasured(told: dict[str, Any]) -> None:
    one = verdict_of("rdma_port", told, without_a_rate((400.0,) * 4, (NDR,) * 4))
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "rdma_unknown")


def test_what_a_port_that_is_down_tells_is_no_measure_for_others() -> None:
    run = without_a_rate((200.0, 400.0, 200.0, 200.0), (NDR,) * 4)
    run.facts[0]["hcas"][1]["state"] = "DOWN"
    assert verdict_of("rdma_port", {}, run)["outcome"] == "recorded"


def with_pkeys(*keys: list[str] | None) -> list[tuple[str, str | None]]:
    """Judge the P_Keys of rail0 and rail1 of the first node, then of the second."""
    run = INFINIBAND.copy()
    ports = [port for row in run.facts for port in row["hcas"]]
    for port, mine in zip(ports, keys, strict=True):
        port["pkeys"] = mine
    lines = [one for one in run.judge() if one["check"] == "rdma_pkeys"]
    return [(one["outcome"], one["cause_class"]) for one in lines]


PASS, ODD = ("pass", None), ("fail", "pkeys_differ")
RECORDED = ("recorded", None)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ([["0xffff"]] * 4, [PASS] * 4),
        ([["0xffff"]] * 3 + [["0x7fff"]], [PASS] * 3 + [ODD]),
        # Jobs use an index of the table: its order counts.
        ([["0xffff", "0x8001"]] * 3 + [["0x8001", "0xffff"]], [PASS] * 3 + [ODD]),
        # A partition a rail, on every node.
        ([["0x8001"], ["0x8002"]] * 2, [RECORDED] * 4),
        # Of two kinds as frequent as each other it is not known which is right.
        ([["0x8001"], ["0x8001"], ["0x8002"], ["0x8002"]], [ODD] * 4),
        ([["0xffff"]] * 3 + [[]], [PASS] * 3 + [("unmeasured", "rdma_unknown")]),
        # The second node's facts are garbled, and nothing of it is known.
        ([["0xffff"]] * 3 + [None], [PASS] * 2 + [("unmeasured", "facts_garbled")] * 2),
    ],
)
def test_p_keys_are_those_of_most_ports(
    keys: list[list[str] | None], said: list[tuple[str, str | None]]
) -> None:
    assert with_pkeys(*keys) == said
