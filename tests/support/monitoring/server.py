# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Serve stand-in exporters over HTTP, and run the real Prometheus against them."""

from __future__ import annotations

import http.server
import json
import re
import socket
import subprocess
import tempfile
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from railyard.base import paths

from support.monitoring.fake_cluster import Cluster

RULES = paths.repo_root() / "roles/monitoring/files/rules"
#: In a configuration: the address of the Prometheus that reads it.
OWN_ADDRESS = "own-address"
CONSOLES = paths.repo_root() / "roles/monitoring/files/consoles"


@contextmanager
def exporters(clusters: Sequence[Cluster]) -> Iterator[int]:
    """Serve exporters on a loopback port: /CLUSTER/node/NUMBER, /CLUSTER/gpu/NUMBER, /CLUSTER/runs."""
    since_s = time.time() - 600

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            _, place, kind, *number = self.path.split("/")
            cluster, now_s = clusters[int(place)], time.time()
            if kind == "runs":
                text = cluster.run_text(now_s)
            elif cluster.is_silent(kind, int(number[0])):
                self.send_error(503)
                return
            else:
                make = cluster.node_text if kind == "node" else cluster.gpu_text
                text = make(int(number[0]), now_s, since_s)
            body = text.encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_arguments: object) -> None:
            """Write nothing for each scrape."""

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True
        request_queue_size = 1024

        def handle_error(self, *_request: object) -> None:
            """Write nothing: on a busy machine Prometheus gives up a scrape, and that shows in `up`."""

    server = Server(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()


def scrape_config(clusters: Sequence[Cluster], port: int, interval_s: int) -> dict[str, Any]:
    """Return a configuration that scrapes the exporters with the labels of Railyard's targets."""

    def job(name: str, targets: list[dict[str, Any]], **more: Any) -> dict[str, Any]:
        return {"job_name": name, "static_configs": targets, **more}

    def target(path: str, labels: Mapping[str, str]) -> dict[str, Any]:
        # Prometheus expands an address of a target: a separate `instance` keeps targets of one port apart.
        own = {"__metrics_path__": path, "instance": f"{labels.get('node', 'controller')}:9100"}
        return {"targets": [f"127.0.0.1:{port}"], "labels": {**labels, **own}}

    by_kind = {
        kind: [
            target(f"/{place}/{kind}/{number}", cluster.targets(number))
            for place, cluster in enumerate(clusters)
            for number in range(cluster.size)
        ]
        for kind in ("node", "gpu")
    }
    runs = [target(f"/{place}/runs", {}) for place in range(len(clusters))]
    for place, one in enumerate(runs):
        one["labels"]["instance"] = f"controller{place}"
    return {
        "global": {"scrape_interval": f"{interval_s}s", "evaluation_interval": f"{interval_s}s"},
        "rule_files": ["rules/*.yml"],
        "scrape_configs": [
            job("railyard-node", by_kind["node"]),
            job("railyard-gpu", by_kind["gpu"]),
            job("railyard-runs", runs, honor_labels=True),
        ],
    }


def hurried(rules: Mapping[str, Any]) -> dict[str, Any]:
    """Return rules that are evaluated each 3 s and fire at once; expressions stay as they are."""
    groups = []
    for group in rules["groups"]:
        alerts = [{key: value for key, value in rule.items() if key != "for"} for rule in group["rules"]]
        groups.append({**group, "interval": "3s", "rules": alerts})
    return {"groups": groups}


@dataclass
class Prometheus:
    """A running Prometheus: its address, its process and its folder."""

    url: str
    process: subprocess.Popen[bytes]
    folder: Path
    #: Unix time of the queries, once it is set: what a busy machine delays later changes no answer.
    at_s: float | None = None

    def get(self, path: str, **parameters: object) -> Any:
        """Return the answer's data; an error of Prometheus is a ValueError with its text."""
        address = f"{self.url}{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(address, timeout=120) as stream:
                return json.load(stream)["data"]
        except urllib.error.HTTPError as error:
            raise ValueError(json.load(error).get("error", str(error))) from error

    def page(self, parameters: str = "") -> bytes:
        """Return the console page, with the parameters of an address."""
        address = f"{self.url}/consoles/railyard.html{parameters}"
        with urllib.request.urlopen(address, timeout=300) as stream:
            return bytes(stream.read())

    def query(self, expr: str) -> list[dict[str, Any]]:
        """Return the series of an instant query."""
        found = self.get("/api/v1/query", query=expr, time=self.at_s or time.time())
        return [] if found["resultType"] == "scalar" else list(found["result"])

    def query_range(self, expr: str, seconds: int, step_s: int) -> list[dict[str, Any]]:
        """Return the series of a query over the last seconds."""
        now_s = self.at_s or time.time()
        return list(
            self.get("/api/v1/query_range", query=expr, start=now_s - seconds, end=now_s, step=step_s)[
                "result"
            ]
        )

    def wait_for(self, expr: str, limit_s: float = 60) -> None:
        """Wait until a query has an answer.

        Raises:
            TimeoutError: it has none in time; the end of Prometheus' log is in the message.
        """
        end_s = time.monotonic() + limit_s
        while time.monotonic() < end_s:
            if self.query(expr):
                return
            time.sleep(0.25)
        log = (self.folder / "log").read_text(encoding="utf-8", errors="replace")[-3000:]
        raise TimeoutError(f"no answer to {expr} in {limit_s} s; Prometheus' log ends:\n{log}")


@contextmanager
def prometheus(
    program: Path, config: Mapping[str, Any], rules: Mapping[str, Mapping[str, Any]]
) -> Iterator[Prometheus]:
    """Run Prometheus on loopback in a folder of its own, with rules by file name and the console page."""
    with tempfile.TemporaryDirectory(prefix="railyard-prometheus-") as place:
        folder = Path(place)
        (folder / "rules").mkdir()
        for name, text in rules.items():
            (folder / "rules" / name).write_text(yaml.safe_dump(text), encoding="utf-8")
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        text = yaml.safe_dump(config).replace(OWN_ADDRESS, f"127.0.0.1:{port}")
        (folder / "prometheus.yml").write_text(text, encoding="utf-8")
        argv = [
            program,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
            f"--web.console.templates={CONSOLES}",
            f"--web.console.libraries={CONSOLES}",
            "--log.level=warn",
        ]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen([str(one) for one in argv], stdout=log, stderr=log, cwd=folder)
        running = Prometheus(f"http://127.0.0.1:{port}", process, folder)
        try:
            _wait_until_ready(running)
            yield running
        finally:
            process.terminate()
            process.wait(30)


def _wait_until_ready(running: Prometheus) -> None:
    for _ in range(120):
        if running.process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{running.url}/-/ready", timeout=5):
                return
        except OSError:
            time.sleep(0.25)
    log = (running.folder / "log").read_text(encoding="utf-8", errors="replace")
    raise RuntimeError(f"Prometheus did not start:\n{re.sub('^ts=', '', log)[-3000:]}")


def delivered_rules() -> dict[str, dict[str, Any]]:
    """Return the rule files of role `monitoring` by name."""
    return {
        path.name: yaml.safe_load(path.read_text(encoding="utf-8")) for path in sorted(RULES.glob("*.yml"))
    }
