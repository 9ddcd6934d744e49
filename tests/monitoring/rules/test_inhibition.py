"""An alert that follows from another one is silent: amtool takes the file, and Alertmanager obeys it."""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import prometheus_tools
from support.nodes.meeting import free_port

from .rule_files import ALERTS, FILES, load

INHIBITION = load(FILES / "alertmanager-inhibit.yml")["inhibit_rules"]
RECEIVER = {"route": {"receiver": "nobody"}, "receivers": [{"name": "nobody"}]}
GPU001 = {"cluster": "c1", "node": "gpu001"}
WAIT_S = 30.0


@pytest.fixture(scope="module")
def config(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("alertmanager") / "alertmanager.yml"
    path.write_text(yaml.safe_dump({**RECEIVER, "inhibit_rules": INHIBITION}), encoding="utf-8")
    return path


def test_amtool_takes_the_file(config: Path) -> None:
    amtool = prometheus_tools.find("amtool")
    done = subprocess.run([amtool, "check-config", config], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"{len(INHIBITION)} inhibit rules" in done.stdout


def test_every_name_is_a_railyard_alert_and_every_label_one_of_the_alert() -> None:
    for rule in INHIBITION:
        assert set(rule) == {"source_matchers", "target_matchers", "equal"}
        assert set(rule["equal"]) <= {"cluster", "node", "rail"}
        for matcher in (*rule["source_matchers"], *rule["target_matchers"]):
            label, values = re.fullmatch(r'(\w+)(?:=~|!=|=)"([\w|]+)"', matcher).groups()
            known = {
                "alertname": set(ALERTS),
                "severity": {wanted.severity for wanted in ALERTS.values()},
                "scope": {wanted.scope for wanted in ALERTS.values()},
            }
            assert set(values.split("|")) <= known[label]


def alert(name: str, **labels: str) -> dict[str, Any]:
    wanted = ALERTS[name]
    own = {"alertname": name, "severity": wanted.severity, "scope": wanted.scope}
    return {"labels": {**GPU001, **own, **labels}}


class Alertmanager:
    """Debian's Alertmanager on a port of loopback."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/api/v2/alerts"

    def shows(self, alerts: list[dict[str, Any]]) -> dict[str, str]:
        """Send alerts; return alert -> `active` or `suppressed`, with the rail behind the name."""
        body = json.dumps(alerts).encode()
        post = urllib.request.Request(self.url, body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(post, timeout=10):
            pass
        with urllib.request.urlopen(self.url, timeout=10) as answer:
            found = json.load(answer)
        return {
            " ".join(filter(None, (one["labels"]["alertname"], one["labels"].get("rail")))): one["status"][
                "state"
            ]
            for one in found
            if one["labels"]["node"] == alerts[0]["labels"]["node"]
        }


@pytest.fixture(scope="module")
def alertmanager(config: Path) -> Iterator[Alertmanager]:
    port = free_port()
    program = prometheus_tools.alertmanager(
        f"--config.file={config}",
        f"--storage.path={config.parent}/data",
        f"--web.listen-address=127.0.0.1:{port}",
        "--cluster.listen-address=",
        "--log.level=error",
    )
    with subprocess.Popen(
        program,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as daemon:
        server = Alertmanager(port)
        try:
            wait_for(server, daemon)
            yield server
        finally:
            daemon.terminate()


def wait_for(server: Alertmanager, daemon: subprocess.Popen[str]) -> None:
    until = time.monotonic() + WAIT_S
    while True:
        try:
            with urllib.request.urlopen(server.url, timeout=5):
                return
        except OSError:
            if daemon.poll() is not None:
                error = daemon.stderr.read() if daemon.stderr else ""
                if "unshare" in error:
                    pytest.skip(
                        f"no mount namespace here, in which Alertmanager finds its templates: {error}"
                    )
                raise AssertionError(error) from None
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def test_alertmanager_silences_what_follows(alertmanager: Alertmanager) -> None:
    shown = alertmanager.shows(
        [
            alert("RailDown", rail="rail3"),
            alert("RailRdmaPortDown", rail="rail3"),
            alert("RailGidWrong", rail="rail3"),
            alert("RailPhysicalErrors", rail="rail3"),
            alert("RailRdmaPortDown", rail="rail4"),
            alert("QuickCheckWrong"),
        ]
    )
    assert shown == {
        "RailDown rail3": "active",
        "RailRdmaPortDown rail3": "suppressed",
        "RailGidWrong rail3": "suppressed",
        "RailPhysicalErrors rail3": "active",
        "RailRdmaPortDown rail4": "active",
        "QuickCheckWrong": "suppressed",
    }


def test_a_node_that_does_not_answer_is_one_alert(alertmanager: Alertmanager) -> None:
    node = {"node": "gpu002"}
    shown = alertmanager.shows(
        [
            alert("NodeMetricsGone", **node),
            alert("RailDown", rail="rail0", **node),
            alert("RailPauseStorm", rail="rail1", **node),
            alert("GpuXidFatal", pci="0000:89:00.0", **node),
            alert("GpuMetricsGone", **node),
            alert("QuickCheckOld", **node),
        ]
    )
    assert [name for name, state in shown.items() if state == "active"] == ["NodeMetricsGone"]
    assert len(shown) == 6


def test_a_finding_of_the_quick_check_alone_is_active(alertmanager: Alertmanager) -> None:
    assert alertmanager.shows([alert("QuickCheckWrong", node="gpu003")]) == {"QuickCheckWrong": "active"}
    # Another node's fault silences nothing here.
    assert alertmanager.shows([alert("RailDown", node="gpu004", rail="rail3")]) == {
        "RailDown rail3": "active"
    }
    assert alertmanager.shows([alert("QuickCheckWrong", node="gpu003")]) == {"QuickCheckWrong": "active"}
