"""Debian's node_exporter, on loopback, gives the series and labels that our rules ask for."""

from __future__ import annotations

import re
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import prometheus_tools
from support.nodes.meeting import free_port

from .rule_files import alerts
from .test_rule_files import FOREIGN

WAIT_S = 30.0


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return what node_exporter answers, with a textfile of Railyard's."""
    folder = tmp_path_factory.mktemp("textfiles")
    (folder / "railyard_node.prom").write_text('railyard_node_metrics_info{version="1.0"} 1\n')
    port = free_port()
    program = [
        prometheus_tools.find("prometheus-node-exporter"),
        f"--web.listen-address=127.0.0.1:{port}",
        f"--collector.textfile.directory={folder}",
        "--log.level=error",
    ]
    with subprocess.Popen(program, stderr=subprocess.PIPE, text=True) as daemon:
        try:
            yield answer(f"http://127.0.0.1:{port}/metrics", daemon)
        finally:
            daemon.terminate()


def answer(url: str, daemon: subprocess.Popen[str]) -> str:
    until = time.monotonic() + WAIT_S
    while True:
        try:
            with urllib.request.urlopen(url, timeout=10) as response:
                return str(response.read().decode())
        except OSError:
            assert daemon.poll() is None, daemon.stderr.read() if daemon.stderr else ""
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


# Collectors that give nothing where there is no such hardware.
OF_HARDWARE = ("node_infiniband_", "node_edac_", "node_hwmon_")


def test_it_gives_all_that_are_listed_but_those_of_hardware(exported: str) -> None:
    given = set(re.findall(r"(?m)^(\w+)(?:\{| )", exported))
    wanted = {name for name in FOREIGN["node_exporter"]["metrics"] if not name.startswith(OF_HARDWARE)}
    assert wanted - given == set()


def test_the_loopback_netdev_shows_that_there_is_link_state(exported: str) -> None:
    """RailDown and CollectorFailed tell by any such series whether the links' state is known."""
    assert re.search(r'(?m)^node_network_carrier\{device="lo"\} 1$', exported)


def test_our_textfile_has_the_name_that_the_rule_looks_for(exported: str) -> None:
    (pattern,) = re.findall(r'file=~"([^"]+)"', alerts()["NodeMetricsStale"]["expr"])
    files = re.findall(r'(?m)^node_textfile_mtime_seconds\{file="([^"]+)"\}', exported)
    assert [Path(file).name for file in files if re.fullmatch(pattern, file)] == ["railyard_node.prom"]


def test_netclass_is_one_of_its_collectors(exported: str) -> None:
    assert 'node_scrape_collector_success{collector="netclass"} 1' in exported
