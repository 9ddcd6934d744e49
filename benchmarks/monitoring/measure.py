"""Measure Prometheus with all rules and dashboards on a cluster of stand-in nodes; a line of JSON.

    .venv/bin/python benchmarks/monitoring/measure.py [--nodes 1000] [--rails 8] [--minutes 10] [--page FILE]

The stand-in exporters (tests/support/monitoring/fake_cluster.py) report what the dashboards and rules read,
with one fault of each kind. They run in a process of their own, so that their processor time is counted
apart. Scrapes are 15 s apart, rules are as delivered. At the end each query of each dashboard is executed,
as for a view of the last hour or of as long as the run took, and the console page is loaded.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import resource
import statistics
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / folder) for folder in ("collections", "tools", "tests")]

from support.monitoring import dashboard_queries, server
from support.monitoring.fake_cluster import Cluster

PROGRAM = ROOT / ".cache/prometheus/tree/usr/bin/prometheus"
TICKS = os.sysconf("SC_CLK_TCK")


def serve(cluster: Cluster, pipe: Connection) -> None:
    """Serve the exporters until the parent says that it ends; then tell the processor time."""
    with server.exporters([cluster]) as port:
        pipe.send(port)
        pipe.recv()
    used = resource.getrusage(resource.RUSAGE_SELF)
    pipe.send(used.ru_utime + used.ru_stime)


def process(pid: int) -> dict[str, float]:
    """Return the processor time and memory of a process."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(") ")[2].split()
    status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    kib = {line.split(":")[0]: int(line.split()[1]) for line in status.splitlines() if line.startswith("Vm")}
    return {
        "cpu_s": (int(fields[11]) + int(fields[12])) / TICKS,
        "rss_mib": round(kib["VmRSS"] / 1024),
        "peak_mib": round(kib["VmHWM"] / 1024),
    }


def rule_groups(prometheus: server.Prometheus) -> dict[str, dict[str, float]]:
    """Return how long each group took, and how many of its evaluations were missed."""
    found: dict[str, dict[str, float]] = {}
    for group in prometheus.get("/api/v1/rules")["groups"]:
        found[group["name"]] = {"interval_s": group["interval"], "last_s": round(group["evaluationTime"], 3)}
    for metric, name in (
        ("prometheus_rule_group_iterations_missed_total", "missed"),
        ("prometheus_rule_group_iterations_total", "evaluations"),
    ):
        for one in prometheus.query(metric):
            found[one["metric"]["rule_group"].rpartition(";")[2]][name] = float(one["value"][1])
    for one in prometheus.query("max_over_time(prometheus_rule_group_last_duration_seconds[1h])"):
        group = found[one["metric"]["rule_group"].rpartition(";")[2]]
        group["longest_s"] = round(float(one["value"][1]), 3)
    return found


def dashboards(prometheus: server.Prometheus, span_s: int) -> dict[str, Any]:
    """Return how long the queries of each dashboard take, one after the other."""
    found: dict[str, Any] = {}
    for path in dashboard_queries.FILES:
        node = "gpu0002" if path.stem == "railyard-node" else dashboard_queries.ALL
        values = {"cluster": "fake", "node": node, "rail": dashboard_queries.ALL, "__range": f"{span_s}s"}
        times, cpu_s = {}, process(prometheus.process.pid)["cpu_s"]
        for number, query in enumerate(dashboard_queries.panel_queries(path), start=1):
            expr, begun = dashboard_queries.fill(query.expr, values), time.monotonic()
            series = prometheus.query(expr) if query.instant else prometheus.query_range(expr, span_s, 15)
            times[f"{number}: {query.panel['title']} ({len(series)} series)"] = time.monotonic() - begun
        slowest = max(times, key=lambda name: times[name])
        found[path.stem] = {
            "queries": len(times),
            "sum_s": round(sum(times.values()), 2),
            # Scrapes and rules of the meantime are in it.
            "cpu_s": round(process(prometheus.process.pid)["cpu_s"] - cpu_s, 2),
            "median_s": round(statistics.median(times.values()), 3),
            "slowest_s": round(times[slowest], 2),
            "slowest": slowest,
        }
    return found


def main() -> None:
    """Run it and print what was measured."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--rails", type=int, default=8)
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument(
        "--program", type=Path, default=PROGRAM, help="prometheus; `tools/setup --check` fetches it"
    )
    parser.add_argument("--page", type=Path, help="where the console page is left, to look at it")
    options = parser.parse_args()
    cluster = Cluster(size=options.nodes, rails=options.rails, folded_run=True)
    here, there = multiprocessing.Pipe()
    exporter = multiprocessing.Process(target=serve, args=(cluster, there))
    exporter.start()
    config = server.scrape_config([cluster], here.recv(), 15)
    config["scrape_configs"].append(
        {
            "job_name": "prometheus",
            "static_configs": [{"targets": [server.OWN_ADDRESS]}],
            "scrape_interval": "15s",
        }
    )
    begun = time.monotonic()
    with server.prometheus(options.program, config, server.delivered_rules()) as prometheus:
        memory = []
        while time.monotonic() < begun + 60 * options.minutes:
            time.sleep(min(60, 60 * options.minutes))
            memory.append(process(prometheus.process.pid))
        took_s = time.monotonic() - begun
        load = os.getloadavg()[1]
        head = prometheus.query("prometheus_tsdb_head_series")
        result = {
            "nodes": options.nodes,
            "rails": options.rails,
            "minutes": round(took_s / 60, 1),
            "machine": f"{os.cpu_count()} CPUs, {platform.machine()}",
            "load_5_minutes": round(load, 1),
            "series": int(float(head[0]["value"][1])) if head else None,
            "samples_of_a_node": [
                int(float(one["value"][1]))
                for one in prometheus.query('max by (job) (scrape_samples_post_metric_relabeling{node!=""})')
            ],
            "silent_targets": len(prometheus.query("up == 0")),
            "memory_mib_each_minute": [one["rss_mib"] for one in memory],
            "peak_mib": memory[-1]["peak_mib"],
            "cpus": round(memory[-1]["cpu_s"] / took_s, 2),
            "disk_mib": round(
                sum(one.stat().st_size for one in (prometheus.folder / "data").rglob("*") if one.is_file())
                / 2**20
            ),
            "rule_groups": rule_groups(prometheus),
            "alerts": {
                one["metric"]["alertname"]: int(float(one["value"][1]))
                for one in prometheus.query('count by (alertname) (ALERTS{alertstate="firing"})')
            },
            "dashboards": dashboards(prometheus, int(min(took_s, 3600))),
        }
        pages = {}
        for name, address in (("all", ""), ("one unit", "?cluster=fake&unit=su02")):
            asked = time.monotonic()
            text = prometheus.page(address)
            pages[name] = {"s": round(time.monotonic() - asked, 2), "bytes": len(text)}
            if options.page and not address:
                options.page.write_bytes(text)
        result["console"] = pages
        result["after_queries"] = process(prometheus.process.pid)
    here.send("end")
    result["exporters_cpus"] = round(here.recv() / took_s, 2)
    exporter.join()
    print(json.dumps(result))


if __name__ == "__main__":
    main()
