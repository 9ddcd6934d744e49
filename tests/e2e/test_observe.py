"""Faults of a running cluster reach a person, named with node and rail, and are reported as over when healed.

Two nodes and a monitoring host. node_exporter, Prometheus and Alertmanager are the distribution's; a
receiver writes down what Alertmanager sends.
"""

from __future__ import annotations

import json
import time
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from e2e.conftest import POLICY
from e2e.support import Cluster, edited, needs_root, write_lab

SUBNET = "198.18.94."
MONITOR, ADDRESS = "monitor1", f"{SUBNET}3"
WRITTEN = "/var/tmp/alerts.jsonl"
RECEIVER = f"""#!/usr/bin/python3
import http.server
class Receiver(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        with open("{WRITTEN}", "ab") as out:
            out.write(body + b"\\n")
        self.send_response(200)
        self.end_headers()
http.server.HTTPServer(("127.0.0.1", 9999), Receiver).serve_forever()
"""
# Scraped and evaluated every 15 s, pending for up to a minute, and what a busy machine adds.
SOON_S = 240


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Nodes that are provisioned, measured and watched."""
    needs_root()
    made = Cluster(tmp_path_factory.mktemp("observe"), "observe")
    write_lab(made, SUBNET, "container", nodes=3)
    for path in (made.topology, made.inventory / "hosts.yml"):
        with edited(path) as content:
            nodes = content["nodes"] if path == made.topology else content["gpu_nodes"]["hosts"]
            monitor = nodes.pop("gpuserver3")
            if path == made.topology:
                nodes[MONITOR] = monitor
            else:
                content["monitoring"] = {"hosts": {MONITOR: monitor}}
    with edited(made.fabric_file) as variables:
        variables |= {
            "fabric_policy": POLICY,
            "rail_network_rollback_after_s": 20,
            "node_metrics_state": "present",
            "node_metrics_interval_s": 15,
            "monitoring_state": "present",
            "monitoring_receivers": [{"name": "file", "webhook": {"url": "http://127.0.0.1:9999/"}}],
        }
    with made.up():
        yield made


@pytest.fixture(scope="module")
def watched(lab: Cluster) -> Cluster:
    on_monitor(
        lab, f"cat > /usr/local/bin/receiver <<'END'\n{RECEIVER}END\nchmod 755 /usr/local/bin/receiver"
    )
    on_monitor(lab, "systemd-run --unit receiver /usr/local/bin/receiver")
    done = lab.railyard("site", "-i", lab.inventory, timeout=900)
    assert done.returncode == 0, done.stdout
    return lab


def on_monitor(lab: Cluster, script: str) -> str:
    """Run a script as root on the monitoring host."""
    return lab.ssh(MONITOR, "sudo", "sh", "-ec", "'" + script.replace("'", "'\\''") + "'")


def ask(query: str) -> list[dict[str, Any]]:
    """Return the series that Prometheus answers a query with."""
    url = f"http://{ADDRESS}:9090/api/v1/query?" + urllib.parse.urlencode({"query": query})
    with urllib.request.urlopen(url, timeout=10) as answer:
        return list(json.load(answer)["data"]["result"])


def firing() -> set[tuple[str, str, str]]:
    """Return the alerts that fire: name, node, rail."""
    found = [one["metric"] for one in ask('ALERTS{alertstate="firing"}')]
    return {(one["alertname"], one.get("node", ""), one.get("rail", "")) for one in found}


def received(lab: Cluster, status: str) -> set[tuple[str, str, str]]:
    """Return the alerts that reached the receiver in a state: firing or resolved."""
    # Before the first alert there is no file.
    lines = on_monitor(lab, f"cat {WRITTEN} 2>/dev/null || true").splitlines()
    alerts = [alert for line in lines if line.strip() for alert in json.loads(line)["alerts"]]
    found = [alert["labels"] for alert in alerts if alert["status"] == status]
    return {(one["alertname"], one.get("node", ""), one.get("rail", "")) for one in found}


def until(what: Callable[[], Any], seconds: float = SOON_S) -> Any:
    """Wait until something is true, and return it; how it was last is in the error."""
    end = time.monotonic() + seconds
    while not (found := what()):
        assert time.monotonic() < end, (found, firing())
        time.sleep(3)
    return found


def comes_and_goes(lab: Cluster, alert: tuple[str, str, str], heal: Callable[[], Any]) -> None:
    """Wait for an alert at the receiver, heal the fault, and wait for the message that it is over."""
    began = time.monotonic()
    until(lambda: alert in received(lab, "firing"))
    print(f"{alert}: received after {time.monotonic() - began:.0f} s")
    heal()
    began = time.monotonic()
    until(lambda: alert in received(lab, "resolved"), SOON_S + 180)
    print(f"{alert}: resolved after {time.monotonic() - began:.0f} s")


def test_all_targets_answer_and_a_healthy_cluster_is_quiet(watched: Cluster) -> None:
    nodes = until(lambda: (up := ask('up{job="railyard-node"} == 1')) and len(up) == 2 and up, SOON_S)
    assert {one["metric"]["node"] for one in nodes} == {"gpuserver1", "gpuserver2"}
    until(lambda: len(ask("railyard_rail_netdev_info")) == 4)
    until(lambda: len(ask("railyard_node_proven_timestamp_seconds")) == 2)
    time.sleep(60)
    assert firing() == set()


def test_a_second_run_changes_nothing(watched: Cluster) -> None:
    done = watched.playbook("playbooks/monitoring.yml", "-e", f"railyard_reports_dir={watched.reports}")
    assert done.returncode == 0, done.stdout
    recap = [line for line in done.stdout.splitlines() if "changed=" in line]
    assert recap
    assert all("changed=0" in line for line in recap), done.stdout


def test_a_rail_without_a_link_is_named_and_ends_when_healed(watched: Cluster) -> None:
    watched.lab("fault", "link_down", "gpuserver1", "rail1")
    comes_and_goes(watched, ("RailDown", "gpuserver1", "rail1"), lambda: watched.lab("heal", "--all"))
    # In a cable both ends are down; no other rail is.
    assert {rail for name, _, rail in received(watched, "firing") if name == "RailDown"} == {"rail1"}


def test_a_small_mtu_is_named(watched: Cluster) -> None:
    watched.lab("fault", "wrong_mtu", "gpuserver2", "rail0")
    comes_and_goes(watched, ("RailMtuWrong", "gpuserver2", "rail0"), lambda: watched.lab("heal", "--all"))


def test_an_exporter_that_stopped_is_one_alert_of_the_node(watched: Cluster) -> None:
    before = received(watched, "firing")
    # The socket alone would start the exporter again at the next scrape.
    socket, unit = "railyard-node-exporter.socket", "prometheus-node-exporter.service"
    watched.ssh("gpuserver1", "sudo", "systemctl", "stop", socket, unit)
    comes_and_goes(
        watched,
        ("NodeMetricsGone", "gpuserver1", ""),
        lambda: watched.ssh("gpuserver1", "sudo", "systemctl", "start", socket),
    )
    assert {name for name, _, _ in received(watched, "firing") - before} == {"NodeMetricsGone"}


def test_a_slow_rail_of_the_last_run_is_named(watched: Cluster) -> None:
    with edited(watched.fabric_file) as variables:
        for rail in variables["fabric"]["rails"]:
            rail["rate_gbps"] = 1.0
    watched.lab("fault", "slow_rail", "gpuserver1", "rail0")
    try:
        status, _run, output = watched.validate()
        assert status == 1, output
        until(lambda: any(name == "ValidationFailed" for name, _, _ in received(watched, "firing")))
        wrong = ask('railyard_rail_not_good{outcome="fail"}')
        assert {(one["metric"]["node"], one["metric"]["rail"]) for one in wrong} >= {("gpuserver1", "rail0")}
    finally:
        watched.lab("heal", "--all")


def test_an_unknown_host_on_a_rail_is_refused(watched: Cluster) -> None:
    """The exporter listens on the management address alone."""
    rail = watched.ssh("gpuserver1", "ip", "-4", "-o", "addr", "show", "dev", "ens6").split()[3].split("/")[0]
    script = f'import socket; socket.create_connection(("{rail}", 9100), 5)'
    told = watched.ssh("gpuserver2", "python3", "-c", f"'{script}'", check=False)
    assert "Connection refused" in told


def test_uninstalled_nothing_listens_and_no_unit_is_left(watched: Cluster) -> None:
    done = watched.playbook("playbooks/uninstall.yml", "-e", "railyard_allow_uninstall=true")
    assert done.returncode == 0, done.stdout
    for node in ("gpuserver1", "gpuserver2", MONITOR):
        listening = watched.ssh(node, "ss", "-Hltn")
        assert not any(f":{port} " in listening for port in (9090, 9093, 9100, 9101)), listening
        units = watched.ssh(node, "systemctl", "list-unit-files", "--no-legend", "railyard-*", check=False)
        assert "railyard-" not in units, units
