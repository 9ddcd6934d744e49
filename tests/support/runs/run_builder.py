"""Builds small run folders by the schema of design 3.2, for the tests of report, judgement and command line.

Numbers are chosen here, not measured: rails of 10 Gbit/s (declared) that carry 9.4.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from itertools import combinations, product
from pathlib import Path
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.run import requests

from support.runs import run_builder_rdma

RUN = "20261121T101500Z-3f2a"
STARTED = "2026-11-21T10:15:03.000Z"
POLICY = {"iperf3_duration_s": 4, "sockperf_duration_s": 2, "ping_count": 10, "path_mtu_probes": 5}
NETDEVS = ("ens6", "ens6d1", "ens7", "ens7d1", "ens8", "ens8d1", "ens9", "ens9d1")
TOOLS = {
    "path_mtu": "ping",
    "path_mtu_one_way": "udp_probe",
    "ping_rtt": "ping",
    "tcp_bandwidth": "iperf3",
    "tcp_latency": "sockperf",
    "tcp_bandwidth_bi": "iperf3",
    "tcp_bandwidth_concurrent": "iperf3",
    **run_builder_rdma.TOOLS,
}

Row = dict[str, Any]
Change = Callable[[Row], Row | None]


def build_run(
    folder: Path,
    *,
    nodes: tuple[str, ...] = ("gpuserver1", "gpuserver2"),
    rails: int = 2,
    rate_gbps: float | None = 10,
    change_fact: Change = lambda row: row,
    change_result: Change = lambda row: row,
    end: Row | None = None,
    manifest: Row | None = None,
    transport: str = "tcp",
    rdma: bool = False,
) -> Path:
    """Write a run folder.

    Args:
        folder: `<reports>/<cluster>/<run>`; made.
        nodes: their names, in order.
        rails: how many each node has.
        rate_gbps: declared rate of the rails; None declares nothing.
        change_fact: called with each facts row; returns it changed, or None to leave it out.
        change_result: the same for each result row.
        end: the end record; default: completed.
        manifest: further keys of the manifest.
        transport: the plan's.
        rdma: declare RoCE on software ports of virtual nodes, and ask and answer it.
    """
    (folder / "raw").mkdir(parents=True)
    plan = _plan(folder.parent.name, nodes, rails, rate_gbps, "roce" if rdma else transport)
    if rdma:
        _declare_rdma(plan)
    asked = list(_asked(nodes, [f"rail{number}" for number in range(rails)], rdma))
    facts = [change_fact({**_fact(name, plan["nodes"][name]["rails"]), "run": folder.name}) for name in nodes]
    ends = [row for line in asked if line["id"].startswith("m") for row in _ends(line, plan)]
    results = [change_result(row) for row in _in_sequence(ends)]
    results = _exchanged([row for row in results if row is not None])
    default_end = {"at": "2026-11-21T10:17:00.000Z", "reason": "completed"}
    _json(
        folder / "manifest.json",
        {
            "schema": 1,
            "run": folder.name,
            "cluster": folder.parent.name,
            "inventory": "inventories/lab",
            "versions": {"railyard": "0.1.0", "ansible-core": "2.21.5"},
            "policy": POLICY,
            "argv": ["railyard", "site", "-i", "inventories/lab"],
            "limit": None,
            "start": {"at": STARTED},
            "end": default_end if end is None else (end or None),
            "asked": requests.fingerprint(asked),
            **(manifest or {}),
        },
    )
    _json(folder / "plan.json", plan)
    for name, rows in (("facts", facts), ("asked", asked), ("results", results)):
        text = "".join(json.dumps(row, sort_keys=True) + "\n" for row in rows if row is not None)
        (folder / f"{name}.jsonl").write_text(text, encoding="utf-8")
    return folder


def _in_sequence(rows: list[Row]) -> list[Row]:
    """Let each node's counters go on from test to test, as the kernel's do."""
    stand: dict[tuple[str, str, str], int] = {}
    for row in rows:
        for name, (before, after) in row["counters"].items():
            begin = stand.get((row["host"], row["rail"], name), before)
            stand[row["host"], row["rail"], name] = begin + after - before
            row["counters"][name] = [begin, begin + after - before]
    return rows


def _exchanged(results: list[Row]) -> list[Row]:
    """Let the two ends of each test tell each other what they found."""
    ends = {(row["id"], row["end"]): row for row in results}
    told = []
    for row in results:
        other = ends.get((row["id"], "server" if row["end"] == "client" else "client"))
        heard = other and {key: other.get(key) for key in ("host", "status", "proof", "metrics", "counters")}
        said = {**heard, "boot_id": f"boot-of-{heard['host']}"} if heard else None
        told.append({"other_end": said, **row})
    return told


def _plan(cluster: str, nodes: tuple[str, ...], rails: int, rate_gbps: float | None, transport: str) -> Row:
    return {
        "schema": 1,
        "cluster": cluster,
        "transport": transport,
        "node_class": "container",
        "cabling": "back_to_back" if len(nodes) < 3 else "switched",
        "nodes": {
            name: {
                "node_index": index,
                "scalable_unit": None,
                "ansible_host": f"198.18.0.{index}",
                "transport": transport,
                "node_class": "container",
                "frontend": {"netdev": "enp5s0", "manage": False},
                "rail_overrides": {},
                "rails": [
                    {
                        **dict.fromkeys(("mac", "pci", "hca", "address6", "subnet6", "vlan", "leaf")),
                        **dict.fromkeys(("gateway", "gateway6")),
                        "name": f"rail{rail}",
                        "netdev": NETDEVS[rail],
                        "address": f"10.0.{rail}.{index}/24",
                        "subnet": f"10.0.{rail}.0/24",
                        "mtu": 9000,
                        "rate_gbps": rate_gbps,
                    }
                    for rail in range(rails)
                ],
            }
            for index, name in enumerate(nodes, start=1)
        },
    }  # fmt: skip


def _declare_rdma(plan: Row) -> None:
    for one in (plan, *plan["nodes"].values()):
        one["node_class"] = "virtual"
    for node in plan["nodes"].values():
        for number, rail in enumerate(node["rails"]):
            rail["hca"] = f"rxe{number}:1"


def _fact(node: str, rails: list[Row]) -> Row:
    counters = dict.fromkeys(
        ("rx_bytes", "tx_bytes", "rx_packets", "tx_packets", "rx_errors", "tx_errors"), 0
    )
    return {
        "schema": 1,
        "node": node,
        "boot_id": f"boot-of-{node}",
        "collected": "2026-11-21T10:15:01.000Z",
        "kernel": "6.1.0-56-amd64",
        "python": "3.11.2",
        "os": {"id": "debian", "version": "12"},
        "netdevs": [
            {
                "netdev": rail["netdev"],
                "kind": "veth",
                "master": None,
                "carrier": True,
                "operstate": "up",
                "admin_up": True,
                "speed_mbps": 10000,
                "mtu_bytes": 9000,
                "mac": f"02:00:00:00:00:{number:02x}",
                "permanent_mac": None,
                "addresses": [rail["address"]],
                "addresses6": [],
                "driver": "veth",
                "driver_class": "software",
                "pci": None,
                "numa_node": None,
                "hca": None,
                "counters": counters,
            }
            for number, rail in enumerate(rails)
        ],
        "hcas": [
            run_builder_rdma.port(number, rail["netdev"], rail["address"])
            for number, rail in enumerate(rails)
            if rail["hca"]
        ],
        "cpu": {"governors": {}, "governor_available": False},
        "memlock_bytes": -1,
        "tools": {"iperf3": "3.12", "sockperf": "3.7"},
    }


def _asked(nodes: tuple[str, ...], rails: list[str], rdma: bool) -> Iterator[Row]:
    """In the order of the schedule: facts, tests, link errors where RDMA is asked, aggregates."""
    number = 0
    for node in nodes:
        for rail in rails:
            for check in ("link", "address", "mtu", *(run_builder_rdma.FACTS_CHECKS if rdma else ())):
                yield _line(f"f{number:05d}", check, "rail_info", node, None, rail, "local")
                number += 1
    tests = ["path_mtu", "path_mtu_one_way", "ping_rtt", "tcp_bandwidth", "tcp_latency"]
    tests += ["rdma_bandwidth", "rdma_latency"] if rdma else []
    together = ["tcp_bandwidth_concurrent"] + (["rdma_bandwidth_concurrent"] if rdma else [])
    both_ways = ["tcp_bandwidth_bi", "rdma_bandwidth_bi"] if rdma else []
    number = 0
    aggregates = []
    for first, second in combinations(nodes, 2):
        ways = ((first, second), (second, first))
        for rail in rails:
            for node, peer in ways:
                for check in tests:
                    yield _line(f"m{number:05d}", check, TOOLS[check], node, peer, rail, "uni")
                    number += 1
            for check in both_ways:
                yield _line(f"m{number:05d}", check, TOOLS[check], first, second, rail, "bi")
                number += 1
        for node, peer in ways:
            for check in together:
                parts = []
                for rail in rails:
                    parts.append(f"m{number:05d}")
                    yield {
                        **_line(parts[-1], check, TOOLS[check], node, peer, rail, "uni"),
                        "group": f"g{parts[0]}",
                    }
                    number += 1
                aggregates.append((node, peer, check, parts))
    for count, (node, rail) in enumerate(product(nodes, rails) if rdma else ()):
        yield _line(f"e{count:05d}", "link_errors", "counters", node, None, rail, "local")
    for count, (node, peer, check, parts) in enumerate(aggregates):
        name = "rdma_aggregate_bandwidth" if check.startswith("rdma") else "aggregate_bandwidth"
        line = _line(f"a{count:05d}", name, TOOLS[check], node, peer, None, "uni")
        yield {**line, "parts": parts}


def _line(
    identity: str, check: str, tool: str, node: str, peer: str | None, rail: str | None, direction: str
) -> Row:
    return {
        "schema": 1,
        "id": identity,
        "check": check,
        "tool": tool,
        "node": node,
        "peer": peer,
        "rail": rail,
        "direction": direction,
        "round": 0,
        "group": None,
    }


def _ends(line: Row, plan: Row) -> Iterator[Row]:
    """Both rows of a test, with counters that bear its numbers out."""
    number = int(line["id"][1:])
    tx, rx, packets_out, packets_back = _moved(line["check"])
    for end, host in (("client", line["node"]), ("server", line["peer"])):
        rail = next(rail for rail in plan["nodes"][host]["rails"] if rail["name"] == line["rail"])
        out, back = ("tx", "rx") if end == "client" else ("rx", "tx")
        metrics = _metrics(line["check"], end, number)
        samples = metrics.pop("samples", None)
        rdma = line["check"].startswith("rdma")
        port = int(str(line["rail"])[4:])
        yield {
            "schema": 1,
            "run": RUN,
            **{key: line[key] for key in ("id", "check", "tool", "node", "peer", "rail", "direction")},
            "end": end,
            "host": host,
            "tool_version": "3.12",
            "netdev": rail["netdev"],
            "hca": None,
            "address": rail["address"].split("/")[0],
            "started": STARTED,
            "window_s": [0.0, 4.0],
            "message_bytes": 64 if line["check"] == "tcp_latency" else None,
            "mtu_bytes": 9000,
            "status": "measured",
            "latency_is": "one_way",
            **({"bandwidth_is": "sum_of_both"} if line["check"].endswith("_bi") else {}),
            **({"streams": 4} if line["tool"] == "iperf3" else {}),
            **(run_builder_rdma.fields(line["check"], port) if rdma else {}),
            "metrics": metrics,
            **({"samples": samples} if samples else {}),
            "counters": {
                f"{out}_bytes": [1000, 1000 + tx],
                f"{back}_bytes": [1000, 1000 + rx],
                f"{out}_packets": [10, 10 + packets_out],
                f"{back}_packets": [10, 10 + packets_back],
                **({f"hw_{_HW[out]}_pkts": [5, 5 + packets_out]} if rdma else {}),
                **({f"hw_{_HW[back]}_pkts": [5, 5 + packets_back]} if rdma else {}),
            },
            **({"link_errors": run_builder_rdma.still()} if rail["hca"] else {}),
            "proof": "proven",
            "raw": {"file": f"raw/{host}.tar.gz", "name": f"{line['id']}.{end}.txt"},
            "error": None,
        }


_HW = {"tx": "sent", "rx": "rcvd"}


def _moved(check: str) -> tuple[int, int, int, int]:
    """Bytes and packets that a test moves: out, back."""
    if check.startswith("rdma"):
        return run_builder_rdma.moved(check)
    if check.endswith("_bi"):
        payload = int(8.5e9 / 8 * 4)
        return payload, payload, payload // 9000, payload // 9000
    if "bandwidth" in check:
        payload = int(9.5e9 / 8 * 4)
        return payload, payload // 100, payload // 9000, payload // 18000
    if check == "tcp_latency":
        return 4_000_000, 4_000_000, 40_500, 40_500
    return 60_000, 60_000, 12, 12


def _metrics(check: str, end: str, number: int) -> Row:
    spread = (number % 7) / 100
    client: dict[str, Row] = {
        "path_mtu": {"path_mtu_bytes": 9000, "sent": 5, "received": 5},
        "path_mtu_one_way": {"path_mtu_bytes": 9000, "sent": 5, "received": 5},
        "ping_rtt": {
            "rtt_average_us": 58.0 + number % 5,
            "rtt_min_us": 40.0,
            "rtt_max_us": 121.0,
            "rtt_mdev_us": 9.0,
            "loss_percent": 0.0,
        },
        "tcp_latency": {
            "latency_average_us": 21.9 + spread,
            "latency_p50_us": 21.0,
            "latency_p99_us": 31.6,
            "latency_p999_us": 44.0,
            "latency_min_us": 19.6,
            "latency_max_us": 90.0,
            "observations": 40000,
        },
    }
    bandwidth = {
        "bandwidth_gbps": 9.4 - spread,
        "sent_gbps": 9.42,
        "retransmits": 3,
        "cpu_percent": 41.5 if end == "client" else 63.0,
        "node_cpu_percent": 35.0,
    }
    if check.startswith("rdma"):
        told = run_builder_rdma.metrics(check, end)
        if check == "rdma_bandwidth_concurrent":
            told["samples"] = _samples(told["bandwidth_gbps"] * 1.02)
        return told
    if check == "tcp_bandwidth_bi":
        ways = {"forward_gbps": 8.4, "reverse_gbps": 8.2}
        return {
            "bandwidth_gbps": 16.6,
            **ways,
            "retransmits": 5,
            "cpu_percent": 70.0,
            "node_cpu_percent": 60.0,
        }
    if check == "tcp_bandwidth_concurrent":
        return {**bandwidth, "samples": _samples((9.4 - spread) * 1.01)}
    if check == "tcp_bandwidth":
        return bandwidth
    return client[check] if end == "client" else {}


def _samples(gbps: float) -> Row:
    times = [round(0.2 * step, 1) for step in range(21)]
    sampled = [int(gbps * 1e9 / 8 * moment) for moment in times]
    return {"t_s": times, "tx_bytes": sampled, "rx_bytes": sampled}


def _json(path: Path, document: Row) -> None:
    path.write_text(json.dumps(document, sort_keys=True, indent=1) + "\n", encoding="utf-8")
