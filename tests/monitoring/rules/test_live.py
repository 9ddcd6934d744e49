"""One fault on each of many nodes, scraped by the real Prometheus with our rules: exactly its alerts fire.

Durations of `for` are a tenth, so that it takes four minutes; ranges and limits are as they are.
RailCongestion wants a day of history, and is promtool's alone.
"""

from __future__ import annotations

import json
import re
import subprocess
import time
import urllib.request
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from support import prometheus_tools
from support.nodes.meeting import free_port

from .fake_nodes import DAY_S, TEXTFILE, Nodes, Samples, grows, lacks, sets, shifts_clock
from .rule_files import ALERTS, RULES

pytestmark = pytest.mark.minutes

SCRAPE_S = 3
FASTER = 10
#: Half an hour of QuickCheckUnknown is three minutes here.
LIMIT_S = 420.0
RAIL1 = 'rail="rail1"'
PAUSED = f'railyard_rail_pause_seconds_total{{{RAIL1},direction="rx",priority="3"}}'
PCI = 'pci="0000:89:00.0"'


def errors(kind: str) -> str:
    return f'railyard_rail_errors_total{{{RAIL1},kind="{kind}"}}'


def gid_moves(samples: Samples, after_s: float) -> None:
    samples[f"railyard_rail_gid_index{{{RAIL1}}}"] = 3 + int(after_s / 30) % 2


#: The name of the node, its fault, and what fires.
OF_NODES = {
    "good": (None, set()),
    "no-link": (sets('node_network_carrier{device="ens1"}', 0), {"RailDown"}),
    "no-netdev": (lacks('device="ens1"'), set()),
    "unplugged-card": (lacks('node_network_carrier{device="ens1"', "carrier_changes"), {"RailDown"}),
    "no-rdma": (sets(f"railyard_rail_rdma_port_active{{{RAIL1}}}", 0), {"RailRdmaPortDown"}),
    "slow-link": (sets(f"railyard_rail_rate_bytes_per_second{{{RAIL1}}}", 25e9), {"RailBelowRate"}),
    "flaps": (grows('node_network_carrier_changes_total{device="ens1"}', 0.5), {"RailFlapping"}),
    "symbols": (grows(errors("symbol"), 5), {"RailSymbolErrors"}),
    "few-symbols": (grows(errors("symbol"), 0.02), set()),
    "crc": (grows(errors("physical"), 1), {"RailPhysicalErrors"}),
    "drops": (grows(errors("loss"), 1), {"RailLosslessDrops"}),
    "sent-again": (grows(errors("transport"), 50), set()),
    "paused": (grows(PAUSED, 0.6), {"RailPauseStorm"}),
    "no-gid": (sets(f"railyard_rail_gid_present{{{RAIL1}}}", 0), {"RailGidWrong"}),
    "gid-moves": (gid_moves, {"RailGidMoved"}),
    "mtu": (sets(f'railyard_rail_mtu_bytes{{{RAIL1},layer="netdev"}}', 1500), {"RailMtuWrong"}),
    "narrow": (sets(f"railyard_rail_pcie_lanes{{{RAIL1}}}", 8), {"RailPcieDowntrained"}),
    "governor": (sets("railyard_cpus_with_wrong_governor", 96), {"GovernorWrong"}),
    "dead": (None, {"NodeMetricsGone"}),
    "no-writer": (lacks("railyard_"), {"NodeMetricsMissing"}),
    "old-file": (sets(f'node_textfile_mtime_seconds{{file="{TEXTFILE}"}}', 0), {"NodeMetricsStale"}),
    "clock-behind": (shifts_clock(-3600), set()),
    "clock-ahead": (shifts_clock(3600), set()),
    "bad-textfile": (sets("node_textfile_scrape_error", 1), {"CollectorFailed"}),
    "no-netclass": (lacks("node_network_", "netclass"), {"CollectorFailed"}),
    "wrong": (sets("railyard_quick_status", 1), {"QuickCheckWrong"}),
    "unknown": (sets("railyard_quick_status", 3), {"QuickCheckUnknown"}),
    "no-look": (sets("railyard_quick_timestamp_seconds", 0), {"QuickCheckOld"}),
    "fell-off": (sets(f'railyard_gpu_xid_since_reset{{{PCI},xid="79"}}', 1), {"GpuXidFatal"}),
    "double-bit": (sets(f'railyard_gpu_xid_since_reset{{{PCI},xid="48"}}', 1), {"GpuXidNeedsReset"}),
    "nvlink": (sets(f"railyard_gpu_nvlinks_active{{{PCI}}}", 17), {"GpuNvlinkDown"}),
    "not-proven": (None, {"NodeNotProven"}),
    "leaves": (sets('node_network_carrier{device="ens1"}', 0), {"RailDown"}),
}
GPU3 = 'gpu="3",UUID="GPU-3"'
OF_GPUS = {
    "seven": (lacks('gpu="3"'), {"GpuMissing"}),
    "ecc": (sets(f"DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{{{GPU3}}}", 1), {"GpuEccUncorrected"}),
    "remap": (sets(f"DCGM_FI_DEV_ROW_REMAP_PENDING{{{GPU3}}}", 1), {"GpuRowRemap"}),
    "hot": (
        sets(f'DCGM_EXP_CLOCK_EVENTS_COUNT{{{GPU3},clock_event="hw_thermal"}}', 9),
        {"GpuHardwareSlowdown"},
    ),
    "no-dcgm": (None, {"GpuMetricsGone"}),
    "busy": (None, set()),
}
OF_CLUSTERS = {
    "failed": {"ValidationFailed"},
    "incomplete": {"ValidationIncomplete"},
    "forgotten": {"ValidationTooOld"},
    "proven": set(),
}


def runs(now_s: float) -> Samples:
    found: Samples = {}
    for cluster in OF_CLUSTERS:
        label = f'{{cluster="{cluster}"}}'
        age_s = 9 * DAY_S if cluster == "forgotten" else DAY_S
        found[f"railyard_run_exit_status{label}"] = {"failed": 1, "incomplete": 3}.get(cluster, 0)
        found[f"railyard_run_complete{label}"] = 1
        found[f"railyard_run_end_timestamp_seconds{label}"] = now_s - age_s
    for node, age_s in (("not-proven", 16 * DAY_S), ("good", DAY_S), ("left-long-ago", 99 * DAY_S)):
        found[f'railyard_node_proven_timestamp_seconds{{cluster="c1",node="{node}"}}'] = now_s - age_s
    return found


def faster(text: str) -> str:
    """Return a rule file with short durations of `for`, evaluated at each scrape."""
    text = re.sub(r"interval: \w+", f"interval: {SCRAPE_S}s", text)
    return re.sub(
        r"\b(for|keep_firing_for): (\d+)([sm])\b",
        lambda found: f"{found[1]}: {int(found[2]) * (60 if found[3] == 'm' else 1) // FASTER}s",
        text,
    )


class Prometheus:
    """Debian's Prometheus on a port of loopback, with the fake nodes as its targets."""

    def __init__(self, folder: Path, nodes: Nodes, exporters: int) -> None:
        self._folder, self._nodes, self._exporters = folder, nodes, exporters
        self._port = free_port()

    def configure(self) -> list[Any]:
        """Write its files; return its command line."""
        rules = self._folder / "rules"
        rules.mkdir()
        for path in RULES.glob("*.yml"):
            (rules / path.name).write_text(faster(path.read_text(encoding="utf-8")), encoding="utf-8")
        self.let_leave()
        jobs = [
            {
                "job_name": f"railyard-{kind}",
                "file_sd_configs": [{"files": [str(self._folder / "targets.json")]}],
                "relabel_configs": [
                    {"source_labels": ["kind"], "regex": kind, "action": "keep"},
                    {"regex": "kind", "action": "labeldrop"},
                ],
            }
            for kind in ("node", "gpu")
        ]
        target = {"targets": [f"127.0.0.1:{self._exporters}"]}
        jobs.append(
            {
                "job_name": "railyard-runs",
                "honor_labels": True,
                "metrics_path": "/runs/all",
                "static_configs": [target],
            }
        )
        config = {
            "global": {"scrape_interval": f"{SCRAPE_S}s", "scrape_timeout": f"{SCRAPE_S}s"},
            "rule_files": [f"{rules}/*.yml"],
            "scrape_configs": jobs,
        }
        path = self._folder / "prometheus.yml"
        path.write_text(yaml.safe_dump(config), encoding="utf-8")
        return [
            prometheus_tools.find("prometheus"),
            f"--config.file={path}",
            f"--storage.tsdb.path={self._folder}/data",
            f"--web.listen-address=127.0.0.1:{self._port}",
            "--log.level=error",
        ]

    def let_leave(self, *names: str) -> None:
        """Write the targets, without the nodes that left; Prometheus reads the file again by itself."""
        text = self._nodes.targets(self._exporters, frozenset(names))
        path = self._folder / "targets.new"
        path.write_text(text, encoding="utf-8")
        path.rename(self._folder / "targets.json")

    def firing(self) -> list[dict[str, Any]]:
        """Return the alerts that fire; none before it answers."""
        try:
            url = f"http://127.0.0.1:{self._port}/api/v1/alerts"
            with urllib.request.urlopen(url, timeout=10) as answer:
                found = json.load(answer)["data"]["alerts"]
        except OSError:
            return []
        return [one for one in found if one["state"] == "firing"]

    def names(self) -> dict[str, set[str]]:
        """Return the alerts that fire by node, or by cluster where they are of one."""
        found: dict[str, set[str]] = defaultdict(set)
        for one in self.firing():
            found[one["labels"].get("node") or one["labels"]["cluster"]].add(one["labels"]["alertname"])
        return found


EXPECTED = {
    **{name: expected for name, (_fault, expected) in {**OF_NODES, **OF_GPUS}.items()},
    **OF_CLUSTERS,
}
EXPECTED = {name: expected for name, expected in EXPECTED.items() if expected}


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Prometheus]:
    nodes = Nodes()
    nodes.node = {name: fault for name, (fault, _expected) in OF_NODES.items()}
    nodes.gpu = {name: fault for name, (fault, _expected) in OF_GPUS.items()}
    nodes.silent = {"/node/dead", "/gpu/no-dcgm"}
    nodes.runs = runs
    # Nodes with GPUs answer for their rails too.
    nodes.node |= dict.fromkeys(OF_GPUS)
    folder = tmp_path_factory.mktemp("prometheus")
    with nodes.served() as port:
        server = Prometheus(folder, nodes, port)
        with subprocess.Popen(server.configure()) as daemon:
            try:
                yield server
            finally:
                daemon.terminate()


def wait_for(prometheus: Prometheus, expected: dict[str, set[str]]) -> dict[str, set[str]]:
    until = time.monotonic() + LIMIT_S
    while (found := prometheus.names()) != expected and time.monotonic() < until:
        time.sleep(1)
    return found


def test_every_fault_but_congestion_is_here() -> None:
    assert set().union(*EXPECTED.values()) == set(ALERTS) - {"RailCongestion"}


def test_exactly_the_alerts_of_each_fault_fire(prometheus: Prometheus) -> None:
    assert wait_for(prometheus, EXPECTED) == EXPECTED


def test_each_names_its_node_and_its_rail_alone(prometheus: Prometheus) -> None:
    wait_for(prometheus, EXPECTED)
    for one in prometheus.firing():
        labels, summary = one["labels"], one["annotations"]["summary"]
        assert labels["cluster"] in summary
        assert labels.get("node", "") in summary
        if ALERTS[labels["alertname"]].scope == "rail":
            assert labels["rail"] == "rail1"
            assert "rail1" in summary
        assert "<no value>" not in "".join(one["annotations"].values())
        assert "{{" not in "".join(one["annotations"].values())


def test_a_node_that_leaves_the_targets_ends_its_alerts(prometheus: Prometheus) -> None:
    wait_for(prometheus, EXPECTED)
    prometheus.let_leave("leaves", "not-proven")
    left = {name: alerts for name, alerts in EXPECTED.items() if name not in ("leaves", "not-proven")}
    assert wait_for(prometheus, left) == left
