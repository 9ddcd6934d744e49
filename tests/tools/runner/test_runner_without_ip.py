"""InfiniBand and EFA without IP: two runners meet over management and prove what crossed their ports.

Nodes are network namespaces, their RDMA ports a tree of files in the place of /sys/class/infiniband, and
perftest is tests/support/nodes/fake_perftest.py, which exchanges over real TCP and counts in those files.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.nodes import rail_namespaces
from support.nodes.rail_namespaces import (
    MARKS,
    NODES,
    Rails,
    Row,
    Runner,
    both,
    classes,
    ended,
    ip,
    not_proven,
    order,
    two_nodes,
    write_tool,
)

pytestmark = MARKS
FAKE = Path(rail_namespaces.__file__).with_name("fake_perftest.py")
HCAS = {"rail0": "mlx5_0:1", "rail1": "mlx5_1:1"}
COUNTERS = ("port_xmit_data", "port_rcv_data", "port_xmit_packets", "port_rcv_packets", "symbol_error")
#: Of EFA's driver (torvalds/linux efa_verbs.c).
HW_COUNTERS = ("tx_bytes", "rx_bytes", "tx_pkts", "rx_pkts", "rx_drops")


def guid(node: int, rail: int) -> str:
    return f"b83f:d203:00a{node}:000{rail}"


def work_order(rails: list[str] | None = None, transport: str = "infiniband", **management: Any) -> Row:
    common = order(rails=rails)
    common["fabrics"] = [
        {
            "transport": transport,
            "node_class": "hardware",
            "rails": [{"name": name, "hca": hca, "rate_gbps": 400} for name, hca in HCAS.items()],
        }
    ]
    for number, entry in enumerate(common["roster"], 1):
        entry["management"] = {
            "address": f"192.168.0.{number}",
            "why_not": None,
            "port_guids": {name: guid(number, rail) for rail, name in enumerate(HCAS)},
            **management,
        }
    return common


def ports(folder: Path, number: int, transport: str = "infiniband") -> Path:
    """Make a node's /sys/class: two ports of InfiniBand, or of EFA, without any netdev."""
    is_efa = transport == "efa"
    made = folder / f"class{number}"
    (made / "net").mkdir(parents=True)
    for rail, hca in enumerate(HCAS.values()):
        port = made / "infiniband" / hca.partition(":")[0] / "ports" / "1"
        files = {
            "link_layer": "Unknown" if is_efa else "InfiniBand",
            "state": "4: ACTIVE",
            "phys_state": "5: LinkUp",
            "rate": "400 Gb/sec (4X NDR)",
            "lid": f"0x{number}",
            "sm_lid": "0x1",
            "gids/0": f"fe80:0000:0000:0000:{guid(number, rail)}",
            "gid_attrs/types/0": "IB/RoCE v1",
            **{f"counters/{name}": "1000" for name in COUNTERS if not is_efa},
            **{f"hw_counters/{name}": "1000" for name in HW_COUNTERS if is_efa},
        }
        for name, text in files.items():
            (port / name).parent.mkdir(parents=True, exist_ok=True)
            (port / name).write_text(text + "\n")
        (port.parents[1] / "device").mkdir()
        driver = "efa" if is_efa else "mlx5_core"
        (port.parents[1] / "device" / "driver").symlink_to(f"../../../../bus/pci/drivers/{driver}")
    return made


@pytest.fixture
def nodes() -> Iterator[Rails]:
    with two_nodes(management=True) as made:
        yield made


def tools(folder: Path, command: str) -> str:
    """Put perftest's programs into a folder and return a PATH that finds them there."""
    write_tool(folder, "ib_write_bw", command)
    return write_tool(folder, "ib_write_lat", command)


def start(nodes: Rails, folder: Path, common: Row, path: str = "", **own: Any) -> list[Runner]:
    """Start both runners; `path` and `own`, of its test schedule, differ at the second node."""
    honest = tools(folder / "tools", f'exec {sys.executable} {FAKE} "$@"')
    own = {"netdevs": {}, "hcas": HCAS, **own}
    trees = [ports(folder, number, common["fabrics"][0]["transport"]) for number in (1, 2)]
    first = {"path": honest, "own": {"netdevs": {}, "hcas": HCAS}, "classes": trees[0]}
    return both(nodes, folder, common, first, {"path": path or honest, "own": own, "classes": trees[1]})


def run(nodes: Rails, folder: Path, common: Row, **second: Any) -> dict[str, list[Row]]:
    return ended(start(nodes, folder, common, **second))


def rdma(rows: list[Row]) -> list[Row]:
    return [row for row in rows if str(row["check"]).startswith("rdma_")]


def refused(rows: list[Row], why: str) -> Row:
    """Return what is reported where no RDMA test of a node was made, for one reason alone."""
    mine = rdma(rows)
    assert {row["status"] for row in mine} == {"unmeasured"}
    assert classes(mine) == {why}
    return dict(mine[0]["error"])


def test_from_the_meeting_over_management_to_rows_that_the_ports_counters_prove(
    nodes: Rails, tmp_path: Path
) -> None:
    rows = run(nodes, tmp_path, work_order())
    for number, node in enumerate(NODES, 1):
        mine = rdma(rows[node])
        # 2 rails x 2 directions x (bandwidth, latency), and bandwidth on both rails at once each way
        assert len(mine) == 12
        assert not_proven(mine) == []
        for row in mine:
            rail = list(HCAS).index(row["rail"])
            assert row["exchange"] == {
                "over": "management",
                "address": f"192.168.0.{number}",
                "peer_address": f"192.168.0.{3 - number}",
                "port_guid": guid(number, rail),
                "peer_port_guid": guid(3 - number, rail),
            }
            assert (row["address"], row["netdev"], row["gid_index"]) == (None, None, None)
            assert row["hca"] == HCAS[row["rail"]]
            assert set(row["counters"]) == set(COUNTERS[:4])
            for argv in row["argv"]:
                assert argv[argv.index("-d") + 1] == row["hca"].partition(":")[0]
                assert argv[argv.index("--source_ip") + 1] == f"192.168.0.{number}"
                assert "-x" not in argv
                if row["end"] == "client":
                    assert argv[-1] == f"192.168.0.{3 - number}"
        # What needs IP is never run over another network.
        rest = [row for row in rows[node] if row not in mine]
        assert rest
        assert classes(rest) == {"no_address"}
        assert not any(row.get("argv") for row in rest)
    bandwidth = next(row for row in rdma(rows["gpuserver1"]) if row["check"] == "rdma_bandwidth")
    # 2000 messages of 64 KiB a second
    assert bandwidth["metrics"]["bandwidth_gbps"] == pytest.approx(2000 * 65536 * 8 / 1e9, rel=1e-4)
    assert set(bandwidth["other_rails"]) == {"rail1"}
    assert set(bandwidth["other_rails"]["rail1"]) == {"port_xmit_data", "port_rcv_data"}


def test_efa_is_measured_with_srd_and_proven_by_its_own_counters(nodes: Rails, tmp_path: Path) -> None:
    rows = run(nodes, tmp_path, work_order(transport="efa"))
    for node in NODES:
        mine = rdma(rows[node])
        assert len(mine) == 12
        assert not_proven(mine) == []
        for row in mine:
            assert (row["gid_index"], row["gid_type"], row["netdev"]) == (0, None, None)
            assert set(row["counters"]) == {"hw_tx_bytes", "hw_rx_bytes", "hw_tx_pkts", "hw_rx_pkts"}
            for argv in row["argv"]:
                assert argv[argv.index("-c") + 1] == "SRD"
                assert argv[argv.index("-x") + 1] == "0"
                assert ("-I" in argv) is ("latency" in row["check"])


def test_a_build_without_srd_is_refused_at_both_ends(nodes: Rails, tmp_path: Path) -> None:
    # What Debian 12's prints.
    refuses = "echo ' SRD connection only possible in SEND/READ verbs' >&2; exit 1"
    path = tools(tmp_path / "old", f'[ "$1" != --version ] || exec {sys.executable} {FAKE} "$@"; {refuses}')
    rows = run(nodes, tmp_path, work_order(rails=["rail0"], transport="efa"), path=path)
    for node in NODES:
        assert "SEND/READ" in refused(rows[node], "rdma_unsupported")["message"]


def test_a_port_of_another_guid_than_inspected_is_refused_at_both_ends(nodes: Rails, tmp_path: Path) -> None:
    common = work_order(rails=["rail0"])
    common["roster"][1]["management"]["port_guids"]["rail0"] = "b83f:d203:00ff:0000"
    rows = run(nodes, tmp_path, common)
    for node in NODES:
        assert len(rdma(rows[node])) == 4
        error = refused(rows[node], "guid_differs")
        assert error["host"] == "gpuserver2"
        assert guid(2, 0) in error["message"]
        assert "b83f:d203:00ff:0000" in error["message"]


def test_counters_of_another_port_prove_nothing(nodes: Rails, tmp_path: Path) -> None:
    # The tool gets one port and sends by another: the claimed rail's counters do not move.
    renamed = f'{sys.executable} {FAKE} $(echo "$@" | sed s/mlx5_0/mlx5_1/)'
    path = tools(tmp_path / "liar", f"{renamed} | sed s/mlx5_1/mlx5_0/")
    rows = run(nodes, tmp_path, work_order(rails=["rail0"]), path=path)
    for row in rdma(rows["gpuserver2"]):
        assert (row["status"], row["proof"]) == ("measured", "unproven"), row["error"]
        assert "another path" in row["proof_reason"]
    assert {row["proof"] for row in rdma(rows["gpuserver1"])} == {"proven"}


def test_a_job_on_the_port_is_seen_though_no_netdev_shows_it(nodes: Rails, tmp_path: Path) -> None:
    runners = start(nodes, tmp_path, work_order(rails=["rail0"]))
    data = tmp_path / "class2/infiniband/mlx5_0/ports/1/counters/port_rcv_data"
    value = 1000
    while any(runner.process.poll() is None for runner in runners):
        value += 2_000_000  # words of four bytes, 20 times a second: 160 MB/s
        data.with_name("next").write_text(f"{value}\n")
        data.with_name("next").replace(data)
        time.sleep(0.05)
    for runner in runners:
        runner.wait(5)
        assert refused(runner.rows(), "busy")["host"] == "gpuserver2"


def test_a_runner_of_another_secret_is_unauthenticated(nodes: Rails, tmp_path: Path) -> None:
    rows = run(nodes, tmp_path, work_order(), secret="f" * 64)
    for node in NODES:
        assert "management" in refused(rows[node], "stranger")["message"]


def test_a_partner_that_management_does_not_reach_is_named(nodes: Rails, tmp_path: Path) -> None:
    ip("-n", nodes.namespace("gpuserver2"), "link", "set", "eth0", "down")
    rows = run(nodes, tmp_path, work_order(rails=["rail0"]))
    for number, node in enumerate(NODES, 1):
        assert f"192.168.0.{3 - number}" in refused(rows[node], "management_timeout")["message"]


def test_without_a_management_address_nothing_is_tried_and_the_reason_is_reported(
    nodes: Rails, tmp_path: Path
) -> None:
    common = work_order()
    common["roster"][1]["management"].update(address=None, why_not="ansible_host is an expression")
    rows = run(nodes, tmp_path, common)
    for node in NODES:
        error = refused(rows[node], "no_management")
        assert error["host"] == "gpuserver2"
        assert "ansible_host is an expression" in error["message"]


def test_an_address_that_the_node_no_longer_has_is_no_way_to_it(nodes: Rails, tmp_path: Path) -> None:
    common = work_order(rails=["rail0"])
    common["roster"][1]["management"]["address"] = "192.168.0.77"
    rows = run(nodes, tmp_path, common)
    assert "192.168.0.77" in refused(rows["gpuserver2"], "no_management")["message"]
    refused(rows["gpuserver1"], "management_timeout")
