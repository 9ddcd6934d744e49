# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Ways to an RDMA pass without a measurement: other wires, other ports, other tests, and no tests at all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import summary
from support.runs import fake_rdma
from support.runs.fake_run import NODES, FakeRun
from support.runs.spoil import FakeRunView, spoil_each_field

ALL = ["ib_write_bw", "ib_read_bw", "ib_send_bw", "ib_write_lat", "ib_read_lat", "ib_send_lat"]
US = {"latency_average_us": [0, 1e6]}
#: Bounds that everything passes: what does not pass them was not accepted.
LOOSE = {
    name: {"bandwidth_gbps": [1e-9, 10]} if "bandwidth" in name else US
    for name in (
        "rdma_bandwidth", "rdma_read_bandwidth", "rdma_send_bandwidth", "rdma_bandwidth_bi", "rdma_latency",
        "rdma_bandwidth_unpinned", "rdma_bandwidth_concurrent", "rdma_read_latency", "rdma_send_latency",
        "rdma_aggregate_bandwidth", "tcp_bandwidth_bi", "rdma_gpu_bandwidth",
    )
}  # fmt: skip
ASKED: dict[str, Any] = {
    "rdma_tests": ALL, "numa_unpinned": True, "floors": LOOSE, "gpudirect_perftest_folder": fake_rdma.FOLDER
}  # fmt: skip
SOFT = FakeRun(transport="roce", **ASKED)
CARD = FakeRun(transport="roce", driver_class="hardware", **ASKED)
BANDWIDTHS = ("rdma_bandwidth", "rdma_read_bandwidth", "rdma_send_bandwidth", "rdma_bandwidth_unpinned",
              "rdma_gpu_bandwidth", "rdma_bandwidth_bi", "rdma_bandwidth_concurrent")  # fmt: skip
LATENCIES = ("rdma_latency", "rdma_read_latency", "rdma_send_latency")
CHECKS = BANDWIDTHS + LATENCIES


def judged(run: FakeRun, check: str, end: str, change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """Judge the first test of a check after changing one end's row."""
    view = FakeRunView(run, run.ids(check)[0], end)
    change(view.row)
    return view.verdict(view.row["id"])


@pytest.mark.parametrize("run", [SOFT, CARD])
def test_the_healthy_run_passes_all_of_it(run: FakeRun) -> None:
    outcomes = {(one["check"], one["outcome"]) for one in run.judge()}
    assert outcomes >= {(check, "pass") for check in (*CHECKS, "rdma_aggregate_bandwidth", "link_errors")}
    assert {outcome for _check, outcome in outcomes} == {"pass", "recorded"}
    assert run.status() == 0


IRRELEVANT = (
    "group", "raw", "samples", "link_errors", "numa_node", "metrics.node_cpu_percent",
    "samples.t_s", "samples.tx_bytes", "samples.rx_bytes",
    "gpu_name",  # any name will do: CUDA and nvidia-smi may have two for one GPU
)  # fmt: skip


def is_relevant(path: str, check: str, end: str, card: bool) -> bool:
    # Which rails have to be shown beside its own, the other rails' rows say: test_forged.py.
    if path in IRRELEVANT or path.startswith(("link_errors.", "other_rails")):
        return False
    if card and path.startswith(("counters.tx_", "counters.rx_")):
        return False  # a card's RDMA passes by the netdev
    if path == "pinned":
        return check == "rdma_bandwidth_unpinned"
    if path == "latency_is":
        return end == "client"
    return True


@pytest.mark.parametrize("run", [SOFT, CARD], ids=["rxe", "card"])
@pytest.mark.parametrize("end", ["client", "server"])
@pytest.mark.parametrize("check", CHECKS)
def test_no_field_of_an_rdma_row_can_be_spoilt_unnoticed(run: FakeRun, check: str, end: str) -> None:
    for what, one in spoil_each_field(
        run, check, end, lambda path: is_relevant(path, check, end, run is CARD), CHECKS
    ):
        assert one["outcome"] not in ("pass", "recorded"), what
        assert one["cause"]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("end", ["client", "server"])
@pytest.mark.parametrize("run", [SOFT, CARD], ids=["rxe", "card"])
def test_plain_tcp_cannot_pose_as_rdma(run: FakeRun, check: str, end: str) -> None:
    """A wrapper that prints a fine table after an iperf3 run moves the netdev's bytes, and no RDMA packet."""

    def tcp_only(row: dict[str, Any]) -> None:
        for name in row["counters"]:
            row["counters"][name] = [0, 0] if name.startswith(("hw_", "port_")) else [0, 10**9]

    def without(row: dict[str, Any]) -> None:
        row["counters"] = {
            name: [0, 10**9] for name in row["counters"] if not name.startswith(("hw_", "port_"))
        }

    for change in (tcp_only, without):
        one = judged(run, check, end, change)
        assert (one["outcome"], one["cause_class"]) == ("unmeasured", "unproven")


@pytest.mark.parametrize("check", CHECKS)
def test_a_card_cannot_be_proven_by_soft_roces_counters(check: str) -> None:
    def posing(row: dict[str, Any]) -> None:
        row["counters"] = {name: [0, 10**9] for name in row["counters"] if not name.startswith("port_")}
        row["counters"] |= {"hw_sent_pkts": [0, 10**8], "hw_rcvd_pkts": [0, 10**8]}

    assert judged(CARD, check, "client", posing)["cause_class"] == "unproven"


def test_a_v1_gid_measures_where_there_is_no_other_and_is_reported() -> None:
    run = SOFT.copy()
    for facts in run.facts:
        for port in facts["hcas"]:
            for gid in port["gids"]:
                gid["type"] = "RoCE v1"
    assert run.verdict(run.ids("rdma_bandwidth")[0])["cause_class"] == "gid_wrong"
    for row in run.results:
        row["gid_type"] = "RoCE v1" if row["gid_type"] else None
    assert run.verdict(run.ids("rdma_bandwidth")[0])["outcome"] == "pass"
    said = [run.verdict(identity) for identity in run.ids("rdma_gid")]
    assert {one["outcome"] for one in said} == {"recorded"}
    assert all("gid_v1_only" in one["basis"] for one in said)


def test_only_the_server_of_a_read_may_say_nothing() -> None:
    for check in BANDWIDTHS:
        one = judged(SOFT, check, "server", lambda row: row.update(metrics={}))
        assert (one["outcome"] == "pass") == (check == "rdma_read_bandwidth"), check
        assert judged(SOFT, check, "client", lambda row: row.update(metrics={}))["outcome"] == "unmeasured"
    # Its counters have to speak all the same.
    one = judged(SOFT, "rdma_read_bandwidth", "server", lambda row: row.update(counters=None))
    assert one["cause_class"] in ("unproven", "ends_disagree")


def test_two_versions_of_perftest_are_no_pair() -> None:
    # Of one end's version see test_evidence.py.
    run = SOFT.copy()
    identity = run.ids("rdma_bandwidth")[0]
    for row in run.rows(identity):
        row["tool_version"] = None
    assert run.verdict(identity)["cause_class"] == "version_differs"
    # iperf3 of two versions measures TCP together.
    run = SOFT.copy()
    run.facts[1]["tools"]["iperf3"] = "3.16"
    for row in run.results:
        row["tool_version"] = (
            "3.16" if (row["tool"], row["host"]) == ("iperf3", NODES[1]) else row["tool_version"]
        )
    assert run.verdict(run.ids("tcp_bandwidth")[0])["cause"] is None


def test_looking_at_ports_is_no_rdma_measured() -> None:
    run = SOFT.copy()
    run.plan_again(
        [line for line in run.asked if not line["check"].startswith("rdma") or line["id"].startswith("f")]
    )
    assert {one["outcome"] for one in run.judge()} <= {"pass", "recorded"}
    assert run.status() == 3
    reason = str(run.incomplete())
    assert "declares roce, and no RDMA test covers gpuserver1 rail0" in reason
    said = summary.summarise_verdicts(run.plan, rejudge.Judged(run.judge(), run.status(), incomplete=reason))
    assert "RDMA was not measured though the inventory declares roce" in said["headline"]
    assert "proven" not in said["headline"]


def test_a_policy_that_drops_all_rdma_is_none() -> None:
    run = SOFT.copy()
    run.manifest["policy"] = {"rdma_tests": []}
    with pytest.raises(policy.PolicyError, match="declare transport: tcp"):
        run.judge()


def test_latency_alone_may_be_planned_and_then_nothing_is_added_up() -> None:
    run = FakeRun(transport="roce", rdma_tests=["ib_write_lat"])
    asked = {line["check"] for line in run.asked}
    assert "rdma_latency" in asked
    assert not asked & {*BANDWIDTHS, "rdma_aggregate_bandwidth"}
    assert run.status() == 0
    run.results = [row for row in run.results if row["check"] != "rdma_latency"]
    assert run.status() == 3


@pytest.mark.parametrize(
    ("floor", "outcome", "cause"),
    [(0.95, "pass", None), (0.96, "fail", "below_floor"), (0.0, "recorded", None)],
)
def test_a_site_floor_is_kept_on_software_rdma_too(floor: float, outcome: str, cause: str | None) -> None:
    run = FakeRun(transport="roce", floors={"rdma_bandwidth": {"bandwidth_gbps": [floor, None]}})
    one = run.verdict(run.ids("rdma_bandwidth")[0])
    assert (one["outcome"], one["cause_class"]) == (outcome, cause)
    assert "site policy" in one["basis"]


def test_neither_family_of_tests_hides_the_other() -> None:
    for family, other in (("rdma", "tcp"), ("tcp", "rdma")):
        run = SOFT.copy()
        identity = run.ids(f"{family}_bandwidth")[0]
        run.results = [row for row in run.results if row["id"] != identity]
        verdicts = run.judge()
        said = summary.summarise_verdicts(run.plan, rejudge.Judged(verdicts, run.status()))
        assert said["exit_status"] == 3
        assert said["families"][family]["unmeasured"] == 1
        assert "unmeasured" not in said["families"][other]
        place = next(one for one in said["rails"] if (one["node"], one["rail"]) == (NODES[0], "rail0"))
        assert place["outcome"] == "unmeasured"
        assert any(
            line.startswith(f"{family.upper()} tests: 1 unmeasured") for line in summary.lines(said, "x")
        )


def test_an_aggregate_adds_up_its_own_transport_only() -> None:
    run = SOFT.copy()
    lines = {line["id"]: line for line in run.asked}
    tcp, rdma = (run.ids(check)[0] for check in ("aggregate_bandwidth", "rdma_aggregate_bandwidth"))
    lines[rdma]["parts"] = lines[tcp]["parts"]
    one = run.verdict(rdma)
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "part_unmeasured")
    part = SOFT.copy()
    half = next(line for line in part.asked if line["id"] == rdma)["parts"][1]
    part.results = [row for row in part.results if row["id"] != half]
    assert part.verdict(rdma)["cause_class"] == "part_unmeasured"
    assert part.verdict(tcp)["outcome"] == "pass"


def test_a_larger_rdma_mtu_than_the_networks_is_not_the_planned_test() -> None:
    run = SOFT.copy()
    for rail in (rail for node in run.plan["nodes"].values() for rail in node["rails"]):
        rail["mtu"] = 1500
    for row in run.results:
        row["mtu_bytes"] = 1500
    one = run.verdict(run.ids("rdma_latency")[0])
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "mtu_differs")


@pytest.mark.parametrize("check", CHECKS)
def test_a_row_that_names_no_port_is_none_of_a_rail_without_one(check: str) -> None:
    run = SOFT.copy()
    run.facts[0]["hcas"] = []
    for row in run.rows(run.ids(check)[0]):
        row["hca"] = None
    one = run.verdict(run.ids(check)[0])
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "row_garbled")


@pytest.mark.parametrize(("key", "theirs"), [("gid_type", "RoCE v1"), ("active_mtu_bytes", 2048)])
def test_both_ends_run_over_the_same_kind_of_rdma(key: str, theirs: object) -> None:
    """Each is its own rail's, as its facts say; only together are they none."""
    run = FakeRun(transport="roce", driver_class="hardware")
    identity = run.ids("rdma_latency", node=NODES[0])[0]
    for port in run.facts[1]["hcas"]:
        port["driver"] = "mlx4_core"  # 2048 is enough there
        if key == "gid_type":
            for gid in port["gids"]:
                gid["type"] = theirs
    for row in run.rows(identity, "server"):
        row[key] = theirs
    one = run.verdict(identity)
    assert (one["outcome"], one["cause_class"]) == ("unmeasured", "ends_disagree")
    assert key in one["cause"]
