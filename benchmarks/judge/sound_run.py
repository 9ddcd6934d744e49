"""Build a run folder of many nodes without any fault, from the real plan, test schedule and planned tests.

python benchmarks/judge/sound_run.py FOLDER [--nodes 16] [--rails 8] [--seed 0]

Numbers are drawn, not measured: cards of 100 Gbit/s, every pair and every test (`pattern: all_pairs`), rows
as long as those of real nodes. Every rule of the judge holds for them: counters go on from test to test, both
ends tell each other what they wrote, bytes bear the rates out. Who wants faults breaks rows with `change`.
"""

from __future__ import annotations

import argparse
import datetime
import ipaddress
import random
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "collections"), str(Path(__file__).parent)]

import sound_numbers as numbers
from ansible_collections.railyard.fabric.plugins.module_utils.facts.netdev import COUNTERS
from ansible_collections.railyard.fabric.plugins.module_utils.measure.counters import received
from ansible_collections.railyard.fabric.plugins.module_utils.runner import row_packer
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import rounds as schedule
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import pattern, requests
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import plan as planning
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import (
    Inventory,
    Node,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder, provenance

Row = dict[str, Any]
Change = Callable[[Row], Row | None]

RUN = "20261124T100000Z-5a5a"
BEGIN = datetime.datetime(2026, 11, 24, 10, 0, tzinfo=datetime.UTC)
RATE_GBPS, MTU, RDMA_MTU = 100.0, numbers.MTU, 4096
#: What iperf3 needs for a floor at 100 Gbit/s, by ESnet: so many streams, a thread for each.
POLICY = {"pattern": "all_pairs", "iperf3_streams": 12}
TOOLS = {"iperf3": "3.17", "sockperf": "3.7", "perftest": "6.18", "ping": "20240905"}
VERSIONS = {"udp_probe": "0.1.0", "ib_write_bw": "6.18", "ib_write_lat": "6.18", **TOOLS}
#: A test takes so long, its start and its rendezvous included.
TEST_S = 6.0
ERRORS = (
    "ethtool.rx_crc_errors_phy", "ethtool.link_down_events_phy", "ethtool.rx_symbol_err_phy",
    "ethtool.rx_discards_phy", "hca.link_downed", "hca.symbol_error", "hw.local_ack_timeout_err",
    "hw.out_of_sequence", "hw.packet_seq_err", "netdev.carrier_changes", "netdev.rx_crc_errors",
)  # fmt: skip
NETDEV = ("rx_bytes", "rx_packets", "tx_bytes", "tx_packets")
PORT = ("port_rcv_data", "port_rcv_packets", "port_xmit_data", "port_xmit_packets")
CHUNK = 1 << 20


def build(
    path: Path,
    nodes: int = 16,
    rails: int = 8,
    seed: int = 0,
    rules: Mapping[str, Any] | None = None,
    change: Change = lambda row: row,
    packed: bool | None = None,
    transport: str = "roce",
) -> Path:
    """Write a run folder without verdicts.

    Args:
        path: the folder, `<reports>/<cluster>/<run>`; made.
        nodes: how many.
        rails: of each.
        seed: of what is drawn.
        rules: keys of `fabric_policy` beside those of POLICY.
        change: called with each result row; returns it changed, or None to leave it out.
        packed: pack rows; None: as the runner does, those of a sweep.
        transport: of the rails.
    """
    (path / "raw").mkdir(parents=True)
    merged = policy.merge({**POLICY, **(rules or {})})
    fabric = _fabric(rails, transport)
    members = [
        Node(f"gpu{number:04d}", fabric, None, None, None, f"172.16.{number >> 8}.{number & 255}", ())
        for number in range(1, nodes + 1)
    ]
    names = [one.name for one in members]
    inventory = Inventory(path.parent.name, ["made"], members, frozenset(names), {})
    plan = planning.build_plan(inventory)
    order = requests.work_order(RUN, plan, dict.fromkeys(names, fabric), merged, names)
    asked = requests.asked_lines(plan, order)
    run = folder.RunFolder(path)
    run.write(folder.WORK_ORDER, folder.pretty(order))
    plan |= {"cluster": path.parent.name, "run": RUN}
    run.write(
        folder.PLAN, folder.pretty({**plan, provenance.FINGERPRINT: provenance.fingerprint(plan, merged)})
    )
    run.write(folder.ASKED, "".join(folder.line(line) + "\n" for line in asked))
    fleet = _Fleet(plan, merged, random.Random(seed))  # noqa: S311 - nothing secret is drawn
    run.write(folder.FACTS, "".join(folder.line(fleet.facts(name)) + "\n" for name in names))
    packed = merged["questions"] == schedule.TOGETHER if packed is None else packed
    counts = _write_rows(path / folder.RESULTS, fleet, asked, change, packed)
    rounds = max((line["round"] or 0 for line in asked), default=0) + 1
    lasted = datetime.timedelta(seconds=60 + rounds * fleet.meeting_s(asked))
    manifest = {
        "schema": folder.SCHEMA,
        "run": RUN,
        "cluster": path.parent.name,
        "inventory": ["made"],
        "versions": {"railyard": "0.1.0", "ansible_core": "2.21.5", "python": "3.13.0"},
        "policy": merged,
        "argv": ["ansible-playbook", "playbooks/validate.yml"],
        "limit": None,
        "asked": requests.fingerprint(asked),
        "coverage": pattern.coverage(plan, asked),
        "archives": {name: {"rows": counts[name], "sha256": "0" * 64} for name in names},
        "start": {"at": folder.timestamp(BEGIN)},
        "end": {"at": folder.timestamp(BEGIN + lasted), "reason": "completed"},
    }
    run.write(folder.MANIFEST, folder.pretty(manifest))
    return path


def _write_rows(
    target: Path, fleet: _Fleet, asked: list[Any], change: Change, packed: bool
) -> dict[str, int]:
    """Write the rows node by node, as they are collected, without holding them all; return how many each."""
    counts = dict.fromkeys(fleet.names, 0)
    packers = {name: row_packer.Packer() for name in fleet.names}
    #: Rows that a runner writes together: of all rails of a meeting.
    meetings: dict[str, list[Any]] = {name: [] for name in fleet.names}

    def write(host: str) -> None:
        for line in packers[host].lines(meetings[host]) if packed else meetings[host]:
            files[host].write(folder.line(line) + "\n")
        meetings[host].clear()

    with tempfile.TemporaryDirectory(dir=target.parent) as place:
        files = {name: (Path(place) / name).open("w", encoding="utf-8") for name in fleet.names}
        for row in fleet.rows(asked):
            changed = change(row)
            if changed is not None:
                rows = meetings[row["host"]]
                if rows and any(rows[-1][key] != changed[key] for key in ("check", "group", "end")):
                    write(row["host"])
                rows.append(changed)
                counts[row["host"]] += 1
        for host in fleet.names:
            write(host)
        with target.open("wb") as whole:
            for name, one in files.items():
                one.close()
                with (Path(place) / name).open("rb") as part:
                    shutil.copyfileobj(part, whole, CHUNK)
    return counts


def _fabric(rails: int, transport: str) -> dict[str, Any]:
    """Return a rail-optimised fabric: each rail is a leaf of its own."""
    return {
        "transport": transport,
        "node_class": "hardware",
        "mtu": MTU,
        "rails": [
            {
                "name": f"rail{number}",
                "netdev": f"ens{number}f0",
                "hca": f"mlx5_{number}:1",
                "subnet": f"10.{number}.0.0/16",
                "rate_gbps": RATE_GBPS,
                "leaf": f"leaf{number}",
            }
            for number in range(rails)
        ],
        "frontend": {"netdev": "eno1"},
    }


class _Fleet:
    """Nodes whose counters go on from test to test."""

    def __init__(self, plan: Mapping[str, Any], rules: Mapping[str, Any], drawn: random.Random) -> None:
        self.names = list(plan["nodes"])
        self._number = {name: number for number, name in enumerate(self.names, 1)}
        self._rails = {
            name: {rail["name"]: rail for rail in node["rails"]} for name, node in plan["nodes"].items()
        }
        self._numbers = numbers.Numbers(rules, drawn)
        self._stand: dict[tuple[str, str], dict[str, int]] = {}
        self._sequence = dict.fromkeys(self.names, 0)
        for number, name in enumerate(self.names, 1):
            for place, rail in enumerate(self._rails[name], 1):
                begin = number * 10**9 + place * 10**7
                self._stand[name, rail] = dict.fromkeys(NETDEV + PORT, begin)

    def meeting_s(self, asked: list[Any]) -> float:
        """Return the seconds of a meeting of two nodes."""
        first = [line for line in asked if line["peer"] and line["rail"] and line["round"] == 0]
        pair = (first[0]["node"], first[0]["peer"])
        mine = [line for line in first if {line["node"], line["peer"]} == set(pair)]
        return TEST_S * len({line["group"] or line["id"] for line in mine})

    def facts(self, name: str) -> Row:
        """Return a node's facts row."""
        number = self._number[name]
        netdevs, hcas = [], []
        for place, rail in enumerate(self._rails[name].values()):
            address, mac = rail["address"], self._mac(name, rail["name"])
            bare, pci = address.split("/")[0], f"0000:{16 + 16 * place:02x}:00.0"
            netdevs.append(
                {
                    "netdev": rail["netdev"], "kind": "physical", "master": None, "carrier": True,
                    "operstate": "up", "admin_up": True, "speed_mbps": 100000, "speed_max_mbps": 100000,
                    "mtu_bytes": MTU, "mtu_max_bytes": 9978, "mac": mac, "permanent_mac": mac,
                    "addresses": [address], "addresses6": [f"fe80::{number:x}/64"], "driver": "mlx5_core",
                    "driver_class": "hardware", "pci": pci, "numa_node": place // 4, "hca": rail["hca"],
                    "pci_link": {"speed_gts": 16, "max_speed_gts": 16, "width": 16, "max_width": 16},
                    "pci_path": None, "ipoib_mode": None, "qos_counters": {},
                    "counters": dict.fromkeys(COUNTERS, 7),
                }
            )  # fmt: skip
            low = int(ipaddress.IPv4Address(bare))
            mapped = f"0000:0000:0000:0000:0000:ffff:{low >> 16:04x}:{low & 0xFFFF:04x}"
            link_local = f"fe80:0000:0000:0000:0000:0000:0000:{number:04x}"
            hcas.append(
                {
                    "hca": rail["hca"], "device": rail["hca"].split(":")[0], "port": 1,
                    "link_layer": "Ethernet", "state": "ACTIVE", "physical_state": "LinkUp",
                    "node_type": "CA", "driver": "mlx5_core", "driver_class": "hardware",
                    "rate_gbps": 100.0, "width": "4X", "lid": 0, "sm_lid": 0, "active_mtu_bytes": RDMA_MTU,
                    "max_mtu_bytes": RDMA_MTU, "netdev": rail["netdev"], "numa_node": place // 4,
                    "dpu_mode": None, "board_id": "MT_0000000012", "counters": {}, "hw_counters": {},
                    "pci": pci, "pci_path": None, "port_guid": None, "pkeys": ["0xffff"],
                    "pkey_indices": {"0xffff": 0}, "firmware": "22.39.1002", "node_guid": None,
                    "hca_type": None,
                    "gids": [
                        {"index": 1, "gid": link_local, "type": "RoCE v2",
                         "netdev": rail["netdev"], "address": f"fe80::{number:x}"},
                        {"index": 3, "gid": mapped, "type": "RoCE v2",
                         "netdev": rail["netdev"], "address": bare},
                    ],
                }
            )  # fmt: skip
        return {
            "schema": 1, "node": name, "run": RUN, "boot_id": self._boot_id(name),
            "collected": folder.timestamp(BEGIN), "kernel": "6.8.0", "python": "3.12.3",
            "os": {"id": "ubuntu", "version": "24.04"}, "netdevs": netdevs, "hcas": hcas,
            "cpu": {"governors": {"performance": 128}, "governor_available": True}, "memlock_bytes": -1,
            "tools": TOOLS, "warnings": [],
        }  # fmt: skip

    def rows(self, asked: list[Any]) -> Iterator[Row]:
        """Yield both ends' rows of all tests, in the order of the planned tests, and those of the cables."""
        meeting_s = self.meeting_s(asked)
        turns: dict[tuple[str, str], int] = {}
        last_group: dict[tuple[str, str], object] = {}
        for line in asked:
            if line["id"].startswith("c"):
                yield self._cable_row(line)
            elif line["id"].startswith("m"):
                pair = min(line["node"], line["peer"]), max(line["node"], line["peer"])
                group = line["group"]
                if group is None or last_group.get(pair) != group:
                    turns[pair] = turns.get(pair, -1) + 1
                last_group[pair] = group
                yield from self._test(line, 60 + line["round"] * meeting_s + turns[pair] * TEST_S)

    def _test(self, line: Row, at_s: float) -> Iterator[Row]:
        ends = {"client": line["node"], "server": line["peer"]}
        check, rail = line["check"], line["rail"]
        rdma = check.startswith("rdma")
        metrics, moved, back, window, fields = self._numbers.draw_test(check)
        started = folder.timestamp(BEGIN + datetime.timedelta(seconds=at_s))
        names = NETDEV + PORT if rdma else NETDEV
        told: dict[str, Row] = {}
        for end, host in ends.items():
            sent, got = (moved, back) if end == "client" else (back, moved)
            counters = {name: [self._stand[host, rail][name]] * 2 for name in names}
            for way, (size, packets) in (("tx", sent), ("rx", got)):
                self._grow(counters, way, size, packets, rdma)
            sampled = check in numbers.GBPS and (line["group"] or not rdma)
            receives = sampled and (end == "server" or line["direction"] == "bi")
            samples = received(self._samples(counters, rdma), window) if receives else None
            for name, (_before, after) in counters.items():
                self._stand[host, rail][name] = after
            told[end] = self._row(line, end, host, started, metrics[end], counters, samples, fields[end])
            told[end]["window_s"] = window if metrics[end] and check[:8] != "path_mtu" else None
        for end, other in (("client", "server"), ("server", "client")):
            row, its = told[end], told[other]
            said = {key: its[key] for key in ("host", "status", "proof", "metrics", "counters", "error")}
            yield {**row, "other_end": {"boot_id": self._boot_id(its["host"]), **said}}

    def _row(
        self, line: Row, end: str, host: str, started: str, metrics: Row, counters: Row, samples: Row | None,
        fields: Row,
    ) -> Row:  # fmt: skip
        rail, rdma, tool = line["rail"], line["check"].startswith("rdma"), line["tool"]
        peer = line["peer"] if end == "client" else line["node"]
        own, its = self._rails[host][rail], self._rails[peer][rail]
        address, other = own["address"].split("/")[0], its["address"].split("/")[0]
        row = {
            "schema": 1, "run": RUN, "end": end, "host": host, "tool_version": VERSIONS[tool],
            **{key: line[key] for key in
               ("id", "check", "tool", "node", "peer", "rail", "direction", "round", "group")},
            "netdev": own["netdev"], "hca": own["hca"], "address": address, "gid_index": None,
            "gid_type": None, "started": started, "message_bytes": None, "qps": None, "attempt": 1,
            "mtu_bytes": MTU, "active_mtu_bytes": None, "status": "measured", "metrics": metrics,
            "counters": counters, "other_rails": {} if line["group"] else self._idle(host, rail),
            "claim": {"unit": "packets", "at_least": 5.0, "at_most": 10.0} if tool == "ping" else None,
            "proof": "proven", "proof_reason": None, "error": None, "exit_status": 0, "tries": 1,
            "raw": {"file": f"raw/{host}.tar.gz", "name": f"{line['id']}.{end}.txt"},
            "argv": [numbers.argv(tool, own, address, other, end)] if tool != "udp_probe" else [],
            "link_errors": {name: [3, 3] for name in ERRORS}, "idle_bytes_per_s": 200000,
            "sequence": self._next(host),
            **fields,
        }  # fmt: skip
        if rdma:
            row |= {"gid_index": 3, "gid_type": "RoCE v2", "active_mtu_bytes": RDMA_MTU}
            row |= {"numa_node": 0, "pinned": True}
        return row | ({"samples": samples} if samples else {})

    def _grow(self, counters: Row, way: str, size: int, packets: int, rdma: bool) -> None:
        """Let the counters of one way grow: cards carry RDMA past the netdev."""
        if rdma:
            word = "xmit" if way == "tx" else "rcv"
            counters[f"port_{word}_data"] = _grown(counters[f"port_{word}_data"], size // 4 + 1)
            counters[f"port_{word}_packets"] = _grown(counters[f"port_{word}_packets"], packets)
            size, packets = 700, 8  # what the rendezvous needs
        counters[f"{way}_bytes"] = _grown(counters[f"{way}_bytes"], size)
        counters[f"{way}_packets"] = _grown(counters[f"{way}_packets"], packets)

    def _samples(self, counters: Row, rdma: bool) -> Row:
        """Return what arrived five times a second, from start to end of the tool."""
        times = [round(0.2 * step + 0.0037, 4) for step in range(27)]
        told: Row = {"t_s": times}
        busy = (1.0, 5.1) if rdma else (0.05, 5.15)
        before, after = counters["port_rcv_data" if rdma else "rx_bytes"]
        unit = 4 if rdma else 1
        share = [min(max((time - busy[0]) / (busy[1] - busy[0]), 0.0), 1.0) for time in times]
        told["rx_bytes"] = [unit * before + int(one * unit * (after - before)) for one in share]
        return told

    def _idle(self, host: str, rail: str) -> Row:
        return {
            other: {name: [self._stand[host, other][name]] * 2 for name in _OTHERS}
            for other in self._rails[host]
            if other != rail
        }

    def _cable_row(self, line: Row) -> Row:
        host, rail = line["node"], line["rail"]
        own = self._rails[host][rail]
        peer = self.names[(self._number[host]) % len(self.names)]
        asked = {"peer": peer, "peer_address": self._rails[peer][rail]["address"].split("/")[0]}
        other = next((name for name in self._rails[host] if name != rail), rail)
        mac = self._mac(peer, rail)
        begin = BEGIN.timestamp()
        told: dict[str, Row] = {
            "cabling": {
                "expected": len(self.names) - 1, "heard": len(self.names) - 1, "missing": [], "foreign": [],
                "strangers": 0, "listened": [begin + 20, begin + 31],
            },
            "link_address_owner": {
                **asked, "peer_mac": mac, "claimed_by": [mac], "other_rail": other,
                "other_address": self._rails[peer][other]["address"].split("/")[0], "other_claimed_by": [],
                "known": {mac: f"{peer} {rail}"},
            },
            "reply_path": {**asked, "route_netdev": own["netdev"], "replies": {rail: 3, other: 0}},
            "neighbour": {
                "neighbours": [{"switch": own["leaf"], "chassis": "02:aa", "port": "Eth1/1"}], "count": 1,
            },
        }  # fmt: skip
        return {
            "schema": 1, "run": RUN, "end": "client", "host": host,
            **{key: line.get(key) for key in
               ("id", "check", "tool", "node", "peer", "rail", "direction", "round", "group")},
            "netdev": own["netdev"], "hca": own["hca"], "address": own["address"].split("/")[0],
            "mtu_bytes": MTU, "started": folder.timestamp(BEGIN + datetime.timedelta(seconds=20)),
            "status": "measured", "metrics": {"listened_s": 11.0}, "proof": "proven", "proof_reason": None,
            "error": None, "raw": None, "cabling": told[line["check"]], "attempt": 1,
            **dict.fromkeys(("tool_version", "gid_index", "gid_type", "window_s", "message_bytes", "qps",
                             "active_mtu_bytes", "counters", "other_rails", "other_end", "claim")),
            "sequence": self._next(host),
        }  # fmt: skip

    def _next(self, host: str) -> int:
        self._sequence[host] += 1
        return self._sequence[host]

    def _boot_id(self, name: str) -> str:
        return f"630994f3-8f1d-42fa-a8a7-{self._number[name]:012x}"

    def _mac(self, name: str, rail: str) -> str:
        place = list(self._rails[name]).index(rail)
        return f"02:00:00:{place:02x}:{self._number[name] >> 8:02x}:{self._number[name] & 255:02x}"


_OTHERS = ("rx_bytes", "tx_bytes", "port_rcv_data", "port_xmit_data")


def _grown(span: list[int], by: int) -> list[int]:
    return [span[0], span[1] + by]


def main() -> None:
    """Write a folder."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--nodes", type=int, default=16)
    parser.add_argument("--rails", type=int, default=8)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    build(options.folder, options.nodes, options.rails, options.seed)


if __name__ == "__main__":
    main()
