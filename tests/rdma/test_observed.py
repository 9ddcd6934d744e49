"""Two virtual machines with Soft-RoCE are watched: what only RDMA shows is an alert with node and rail.

Prometheus is Debian's and runs on this machine, in the lab's management network, with the files that
`railyard monitoring export` writes: the third way of docs/monitoring.md. No rule is changed.

A machine that is busy with other work makes the nodes too late for the limits here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import yaml
from e2e.support import NODES, Cluster, edited, needs_root, write_lab
from support import prometheus_tools
from support.monitoring import server

SUBNET = "198.18.96."
# The shortest that role node_metrics allows; Prometheus scrapes and evaluates as often.
INTERVAL_S = 15
# A value is written, scraped and evaluated, each a whole interval late at worst; an emulated node is slow.
LATE_S = 3 * INTERVAL_S + 60
# Of the rules, by hand: both alerts are pending for a minute, and fire for two more after their cause.
FOR_S, KEPT_S = 60, 120
RAILS = {("gpuserver1", "rail0"), ("gpuserver1", "rail1"), ("gpuserver2", "rail0"), ("gpuserver2", "rail1")}
# More messages than the test has time for: it ends both. With -e they wait for a packet asleep: polling
# took an emulated node's only CPU from the writer of the metrics (Nice=19), which then ran into its limit.
PINGPONG = "ibv_rc_pingpong -e -d rxe0 -g {gid} -s 65536 -n 1000000"
Alert = tuple[str, str, str]


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two nodes with RDMA devices, configured rails and metrics."""
    needs_root()
    made = Cluster(tmp_path_factory.mktemp("observed"), "observed")
    write_lab(made, SUBNET, "vm")
    with edited(made.fabric_file) as variables:
        variables |= {"node_metrics_state": "present", "node_metrics_interval_s": INTERVAL_S}
    with made.up(timeout=900):
        # The image's lists do not name node_exporter.
        with ThreadPoolExecutor() as both:
            list(both.map(lambda node: made.ssh(node, "sudo apt-get -q update", timeout=600), NODES))
        done = made.railyard(
            "provision", "-i", made.inventory, "--", "--tags", "drivers,network,monitoring",
            "-e", "railyard_driver_batch=100%", "-e", "railyard_network_batch=100%",
            timeout=1200,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout
        yield made


@pytest.fixture(scope="module")
def watched(lab: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Iterator[server.Prometheus]:
    """Prometheus with the exported rules and jobs, and nothing else in its configuration."""
    program, folder = prometheus_tools.find("prometheus"), tmp_path_factory.mktemp("exported")
    with pytest.MonkeyPatch.context() as patch:
        # promtool is beside it: the command has it check what was written.
        patch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
        done = lab.railyard(
            "monitoring", "export", "-i", lab.inventory, "-o", folder, "--installed-at", folder
        )
    assert done.returncode == 0, done.stdout
    assert "promtool check config: rules and jobs are good" in done.stdout
    with server.prometheus(program, read_configuration(folder), {}) as running:
        yield running


def read_configuration(folder: Path) -> dict[str, Any]:
    """Return a configuration made of the exported folder, as its README says."""
    jobs = yaml.safe_load((folder / "scrape.yml").read_text(encoding="utf-8"))
    every = f"{INTERVAL_S}s"
    return {
        "global": {"scrape_interval": every, "evaluation_interval": every},
        "rule_files": [f"{folder}/rules/*.yml"],
        **jobs,
    }


def find_firing(watched: server.Prometheus) -> set[Alert]:
    """Return the alerts that fire: name, node, rail."""
    found = [one["metric"] for one in watched.query('ALERTS{alertstate="firing"}')]
    return {(one["alertname"], one.get("node", ""), one.get("rail", "")) for one in found}


def wait_until(what: Callable[[], Any], limit_s: float, watched: server.Prometheus) -> float:
    """Wait until something is true; return the seconds that it took."""
    began = time.monotonic()
    while not what():
        assert time.monotonic() < began + limit_s, (limit_s, watched.query("ALERTS"))
        time.sleep(1)
    return time.monotonic() - began


def assert_comes_and_goes(
    watched: server.Prometheus, alert: Alert, fault: Callable[[], object], heal: Callable[[], object]
) -> None:
    """Assert that just this alert fires, in its rule's time, and ends when its cause is healed."""
    began = time.monotonic()
    try:
        fault()
        wait_until(lambda: find_firing(watched), FOR_S + LATE_S, watched)
        took_s = time.monotonic() - began
        print(f"{alert}: fires after {took_s:.0f} s")
        assert find_firing(watched) == {alert}
        assert took_s >= FOR_S
    finally:
        heal()
    took_s = wait_until(lambda: not find_firing(watched), KEPT_S + LATE_S, watched)
    print(f"{alert}: resolved after {took_s:.0f} s")


def read_errors(watched: server.Prometheus, kind: str) -> dict[tuple[str, str], float]:
    """Return the errors of one type that were counted so far, by node and rail."""
    return {
        (one["metric"]["node"], one["metric"]["rail"]): float(one["value"][1])
        for one in watched.query(f'railyard_rail_errors_total{{kind="{kind}"}}')
    }


def test_healthy_rails_have_rdma_metrics_and_no_alert(watched: server.Prometheus) -> None:
    active = "railyard_rail_rdma_port_active == 1 and on (node, rail) railyard_rail_gid_present == 1"
    took_s = wait_until(lambda: len(watched.query(active)) == len(RAILS), LATE_S, watched)
    print(f"all rails are seen after {took_s:.0f} s")
    found = {
        (one["metric"]["node"], one["metric"]["rail"], one["metric"]["device"])
        for one in watched.query("railyard_rail_info")
    }
    assert found == {(node, rail, rail.replace("rail", "rxe")) for node, rail in RAILS}
    assert set(read_errors(watched, "transport")) == RAILS
    # Longer than either of the alerts is pending.
    time.sleep(FOR_S + INTERVAL_S)
    assert watched.query("ALERTS") == []


def test_an_rdma_device_that_is_gone_is_named(lab: Cluster, watched: server.Prometheus) -> None:
    assert_comes_and_goes(
        watched,
        ("RailRdmaPortDown", "gpuserver1", "rail0"),
        lambda: lab.ssh("gpuserver1", "sudo rdma link delete rxe0"),
        lambda: lab.ssh("gpuserver1", "sudo rdma link add rxe0 type rxe netdev ens6"),
    )


def test_a_port_without_the_gid_of_its_planned_address_is_named(
    lab: Cluster, watched: server.Prometheus
) -> None:
    assert_comes_and_goes(
        watched,
        ("RailGidWrong", "gpuserver2", "rail1"),
        lambda: lab.ssh("gpuserver2", "sudo ip -4 addr flush dev ens6d1"),
        lambda: lab.ssh("gpuserver2", "sudo networkctl reconfigure ens6d1"),
    )


def test_packets_sent_again_are_counted_and_are_no_alert(lab: Cluster, watched: server.Prometheus) -> None:
    """Soft-RoCE counts no other fault of a path, and a job elsewhere may cause it: it pages no one."""
    wait_until(lambda: set(read_errors(watched, "transport")) == RAILS, LATE_S, watched)
    before = read_errors(watched, "transport")
    lab.ssh("gpuserver1", "sudo tc qdisc add dev ens6 root netem loss 2%")
    try:
        address = f"{SUBNET}1"
        [gid] = [one["value"][1] for one in watched.query(query_gid("gpuserver1"))]
        lab.ssh("gpuserver1", f"sudo systemd-run --unit pingpong {PINGPONG.format(gid=gid)}")
        [gid] = [one["value"][1] for one in watched.query(query_gid("gpuserver2"))]
        client = f"timeout 20 {PINGPONG.format(gid=gid)} {address}"
        print(lab.ssh("gpuserver2", client, check=False, timeout=90))
        lab.ssh("gpuserver1", "sudo systemctl stop pingpong", check=False)
        took_s = wait_until(
            lambda: read_errors(watched, "transport")["gpuserver1", "rail0"] > before["gpuserver1", "rail0"],
            LATE_S,
            watched,
        )
        after = read_errors(watched, "transport")
        print(f"sent again, after {took_s:.0f} s: {before} then {after}")
    finally:
        lab.ssh("gpuserver1", "sudo systemctl stop pingpong", check=False)  # where the test failed before
        lab.ssh("gpuserver1", "sudo tc qdisc del dev ens6 root")
    assert {rail for rail in RAILS if after[rail] > before[rail]} <= {
        ("gpuserver1", "rail0"),
        ("gpuserver2", "rail0"),
    }
    time.sleep(FOR_S + INTERVAL_S)
    assert find_firing(watched) == set()


def query_gid(node: str) -> str:
    """Return the query for the index of the RoCE v2 GID of a node's first rail."""
    return f'railyard_rail_gid_index{{node="{node}",rail="rail0"}}'
