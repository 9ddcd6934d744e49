# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A healthy run by the contract, of two nodes and two rails by default; tests break it."""

from __future__ import annotations

import pickle
from collections.abc import Iterable
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.rdma_counters import PORT_DATA
from ansible_collections.railyard.fabric.plugins.module_utils.facts import netdev as netdev_facts
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import requests
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import run_status, verdict
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import provenance

from support.runs import fake_rdma, fake_tcp

RUN = "20261121T101500Z-3f2a"
NODES = ("gpuserver1", "gpuserver2")
NETDEVS = {"rail0": "ens6", "rail1": "ens6d1", "rail2": "ens7", "rail3": "ens7d1"}
SUBNETS = {"rail0": "10.0.1", "rail1": "10.0.0", "rail2": "10.0.2", "rail3": "10.0.3"}
#: What an inventory need not say of a rail.
UNSET_OF_RAIL = ("mac", "pci", "address6", "subnet6", "gateway", "gateway6", "vlan", "leaf")
#: What a row takes over of its planned test, and what it has nothing of by default.
PLANNED = ("check", "tool", "node", "peer", "rail", "direction", "round", "group")
UNSET_OF_ROW = (
    *(
        "tool_version",
        "netdev",
        "hca",
        "address",
        "gid_index",
        "gid_type",
        "window_s",
        "message_bytes",
    ),
    *("qps", "active_mtu_bytes", "counters", "other_rails", "raw", "error", "other_end"),
)
DEVICES = {"software": "rxe", "hardware": "mlx5_"}


def fabric(
    rate_gbps: float | None = 1.0,
    transport: str = "tcp",
    rails: int = 2,
    node_class: str = "container",
    cabling: str = "back_to_back",
) -> dict[str, Any]:
    return {
        "transport": transport,
        "node_class": node_class,
        "mtu": 9000,
        "cabling": cabling,
        "rails": [
            {"name": rail, "netdev": NETDEVS[rail], "subnet": f"{SUBNETS[rail]}.0/24", "rate_gbps": rate_gbps}
            for rail in list(NETDEVS)[:rails]
        ],
        "frontend": {"netdev": "enp5s0"},
    }


class FakeRun:
    """All that the judge reads, in memory, free to be mutated."""

    #: Whether cabling is planned; the answers are those of two nodes with two rails.
    cabled = True
    _judged: tuple[bytes, dict[str, dict[str, Any]]] | None = None

    def __init__(
        self,
        rate_gbps: float | None = 1.0,
        driver_class: str = "software",
        transport: str = "tcp",
        nodes: tuple[str, ...] = NODES,
        rails: int = 2,
        node_class: str = "container",
        **rules: Any,
    ) -> None:
        self.rate_gbps = rate_gbps
        self.driver_class = driver_class
        self.transport = transport
        self.rdma = transport != "tcp"
        self.nodes = nodes
        self.rails = list(NETDEVS)[:rails]
        self.node_class = node_class
        self.hcas = {rail: f"{DEVICES[driver_class]}{number}:1" for number, rail in enumerate(self.rails)}
        self.policy = policy.merge({"beacon": self.cabled, **rules})
        self.plan: dict[str, Any] = {
            "schema": 1,
            "cluster": "lab",
            "transport": transport,
            "node_class": node_class,
            "cabling": "back_to_back" if len(nodes) == 2 else "switched",
            "nodes": {node: self._node(index) for index, node in enumerate(nodes, start=1)},
        }
        self.facts = [self._facts(index) for index in range(1, len(nodes) + 1)]
        declared = fabric(rate_gbps, transport, rails, node_class, self.plan["cabling"])
        self.order = requests.work_order(
            RUN, self.plan, dict.fromkeys(nodes, declared), self.policy, reached=nodes
        )
        self.asked = requests.asked_lines(self.plan, self.order)
        self.manifest = manifest_of(self.policy, self.asked)
        self.results = [
            self._row(line, end)
            for line in self.asked
            if line["id"].startswith("m")
            for end in ("client", "server")
        ]
        in_sequence(self.results)
        self.results += [self._cable_row(line) for line in self.asked if line["id"].startswith("c")]

    def judge(self, obstacles: Iterable[dict[str, Any]] = ()) -> list[dict[str, Any]]:
        results = exchanged(self.results)
        return verdict.judge(self.manifest, self.plan, self.asked, self.facts, results, obstacles)

    def status(self) -> int:
        outcomes = {one["outcome"] for one in self.judge()}
        return run_status.find_exit_status(outcomes, self.incomplete() is None)

    def incomplete(self) -> str | None:
        return run_status.explain_incomplete(self.manifest, self.asked, self.sealed(), self.order)

    def sealed(self) -> dict[str, Any]:
        """Return the plan as it would be had the run been made with it."""
        return {**self.plan, provenance.FINGERPRINT: provenance.fingerprint(self.plan, self.policy)}

    def plan_again(self, asked: list[dict[str, Any]] | None = None) -> FakeRun:
        """Plan these tests, or those of the changed plan and order; rows of others are gone."""
        self.asked = requests.asked_lines(self.plan, self.order) if asked is None else asked
        self.manifest["asked"] = requests.fingerprint(self.asked)
        planned = {line["id"] for line in self.asked}
        self.results = [row for row in self.results if row["id"] in planned]
        return self

    def copy(self) -> FakeRun:
        return pickle.loads(pickle.dumps(self))

    def ids(self, check: str, **fields: Any) -> list[str]:
        return [
            line["id"]
            for line in self.asked
            if line["check"] == check and all(line[key] == value for key, value in fields.items())
        ]

    def rows(self, identity: str, end: str | None = None) -> list[dict[str, Any]]:
        return [row for row in self.results if row["id"] == identity and end in (None, row["end"])]

    def verdict(self, identity: str) -> dict[str, Any]:
        """Return one verdict; a run in which nothing was changed meanwhile is not judged again."""
        run = pickle.dumps((self.manifest, self.plan, self.asked, self.facts, self.results))
        if self._judged is None or self._judged[0] != run:
            self._judged = run, {one["id"]: one for one in self.judge()}
        return self._judged[1][identity]

    def _node(self, index: int) -> dict[str, Any]:
        return {
            "node_index": index,
            "scalable_unit": None,
            "ansible_host": f"198.18.0.{index}",
            "transport": self.transport,
            "node_class": self.node_class,
            "frontend": {"netdev": "enp5s0", "manage": False},
            "rail_overrides": {},
            "rails": [
                {
                    **dict.fromkeys(UNSET_OF_RAIL),
                    "name": rail,
                    "netdev": NETDEVS[rail],
                    "hca": self.hcas[rail] if self.rdma else None,
                    "address": f"{SUBNETS[rail]}.{index}/24",
                    "subnet": f"{SUBNETS[rail]}.0/24",
                    "mtu": 9000,
                    "rate_gbps": self.rate_gbps,
                }
                for rail in self.rails
            ],
        }

    def _facts(self, index: int) -> dict[str, Any]:
        def netdev(name: str, address: str, mac: str) -> dict[str, Any]:
            return {
                "netdev": name,
                "kind": "veth",
                "master": None,
                "carrier": True,
                "operstate": "up",
                "admin_up": True,
                "speed_mbps": 10000 if self.driver_class == "software" else 1000,
                "speed_max_mbps": None,
                "mtu_bytes": 9000,
                "mtu_max_bytes": None,
                "ipoib_mode": None,
                "mac": mac,
                "permanent_mac": None,
                "addresses": [address],
                "addresses6": [f"fe80::{index}/64"],
                "driver": "veth",
                "driver_class": self.driver_class,
                "pci": None,
                "pci_link": None,
                "pci_path": None,
                "numa_node": None,
                "hca": None,
                "counters": dict.fromkeys(netdev_facts.COUNTERS, 7),
                "qos_counters": {},
            }

        subnets = [(NETDEVS[rail], SUBNETS[rail]) for rail in self.rails] + [("enp5s0", "198.18.0")]
        return {
            "schema": 1,
            "node": self.nodes[index - 1],
            "run": RUN,
            "boot_id": f"boot-{index}",
            "collected": "2026-11-21T10:15:02.000Z",
            "kernel": "6.1.0",
            "python": "3.11.2",
            "os": {"id": "debian", "version": "12"},
            "netdevs": [
                netdev(name, f"{subnet}.{index}/24", f"02:00:00:00:{number:02x}:{index:02x}")
                for number, (name, subnet) in enumerate(subnets)
            ],
            "hcas": self._hcas(index) if self.rdma else [],
            "gpus": fake_rdma.gpus([one["pci"] for one in self._hcas(index) if one["pci"]]),
            "cpu": {"governors": {}, "governor_available": False},
            "memlock_bytes": -1,
            "tools": {"iperf3": "3.12", "sockperf": "3.7"},
            "warnings": [],
        }

    def _hcas(self, index: int) -> list[dict[str, Any]]:
        return [
            fake_rdma.port(self.hcas[rail], NETDEVS[rail], f"{SUBNETS[rail]}.{index}", self.driver_class)
            for rail in self.rails
        ]

    def _row(self, line: dict[str, Any], end: str) -> dict[str, Any]:
        host, other = (line["node"], line["peer"]) if end == "client" else (line["peer"], line["node"])
        check, rail = line["check"], line["rail"]
        rdma = check.startswith("rdma")
        metrics, counters, window = (
            fake_rdma.measured(check, end, self.driver_class) if rdma else fake_tcp.measured(check, end)
        )
        others = [other for other in self.rails if other != rail and not line["group"]]
        row = measured_row(
            line,
            end,
            host,
            self.policy,
            tool_version="3.12",
            netdev=NETDEVS[rail],
            address=f"{SUBNETS[rail]}.{self.nodes.index(host) + 1}",
            window_s=window,
            metrics=metrics,
            counters=counters,
            other_rails={
                one: {name: [7, 7] for name in ("tx_bytes", "rx_bytes", *self._port_data())} for one in others
            },
            # What the other end reported is filled in by `exchanged`, after the test has changed rows.
            other_end={"boot_id": f"boot-{self.nodes.index(other) + 1}"},
            # The same counters beside every test of a rail, TCP's too: they are the rail's.
            link_errors=fake_rdma.link_errors(self.driver_class if self.rdma else None),
        )
        return row | fake_rdma.fields(check, self.hcas[rail], end, self.driver_class) if rdma else row

    def _port_data(self) -> tuple[str, ...]:
        return PORT_DATA if self.rdma and self.driver_class == "hardware" else ()

    def _cable_row(self, line: dict[str, Any]) -> dict[str, Any]:
        """Return what a healthy node of two heard on a rail: the other, who answers for itself and by it."""
        rail, host = line["rail"], line["node"]
        peer = 2 - NODES.index(host)
        mac = f"02:00:00:00:0{list(NETDEVS).index(rail)}:0{peer}"
        asked = {"peer": NODES[peer - 1], "peer_address": f"{SUBNETS[rail]}.{peer}"}
        other = next(name for name in self.rails if name != rail)
        told: dict[str, Any] = {
            "cabling": {
                "expected": 1,
                "heard": 1,
                "missing": [],
                "foreign": [],
                "strangers": 0,
                "listened": [1795257318.1, 1795257318.8],
            },
            "link_address_owner": {
                **asked,
                "peer_mac": mac,
                "claimed_by": [mac],
                "other_rail": other,
                "other_address": f"{SUBNETS[other]}.{peer}",
                "other_claimed_by": [],
                "known": {mac: f"{NODES[peer - 1]} {rail}"},
            },
            "reply_path": {**asked, "route_netdev": NETDEVS[rail], "replies": {rail: 3, other: 0}},
        }[line["check"]]
        return planned_row(
            line,
            "client",
            host,
            address=f"{SUBNETS[rail]}.{3 - peer}",
            netdev=NETDEVS[rail],
            started="2026-11-21T10:15:18.000Z",
            metrics={"listened_s": 0.7},
            cabling=told,
        )


def manifest_of(policy: dict[str, Any], asked: list[dict[str, Any]], cluster: str = "lab") -> dict[str, Any]:
    """Return the manifest of a run that has ended."""
    return {
        "schema": 1,
        "run": RUN,
        "cluster": cluster,
        "inventory": ["hosts.yml"],
        "versions": {"railyard": "0.1.0"},
        "policy": policy,
        "argv": ["ansible-playbook", "playbooks/validate.yml"],
        "limit": None,
        "start": {"at": "2026-11-21T10:15:00.000Z"},
        "end": {"at": "2026-11-21T10:16:10.000Z", "reason": "completed"},
        "asked": requests.fingerprint(asked),
    }


def planned_row(line: dict[str, Any], end: str, host: str, **said: Any) -> dict[str, Any]:
    """Return a row of a planned test: what it says, and nothing of all else."""
    return {
        **dict.fromkeys(UNSET_OF_ROW),
        "schema": 1,
        "run": RUN,
        "id": line["id"],
        "end": end,
        "host": host,
        **{key: line[key] for key in PLANNED},
        "started": "2026-11-21T10:15:20.000Z",
        "mtu_bytes": 9000,
        "status": "measured",
        "link_errors": {},
        "proof": "proven",
        **said,
    }


def measured_row(
    line: dict[str, Any], end: str, host: str, policy: dict[str, Any], **said: Any
) -> dict[str, Any]:
    """Return a row of a test between two nodes, with what all tests of its kind say."""
    return planned_row(
        line,
        end,
        host,
        message_bytes={"tcp_latency": 64}.get(line["check"], 131072),
        raw={"file": f"raw/{host}.tar.gz", "name": f"{line['id']}.{end}.txt"},
        **({"latency_is": "one_way"} if line["check"] == "tcp_latency" else {}),
        **({"bandwidth_is": "sum_of_both"} if line["direction"] == "bi" else {}),
        **({"streams": policy["iperf3_streams"]} if line["tool"] == "iperf3" else {}),
        **({"samples": fake_tcp.samples(end)} if line["group"] else {}),
        **said,
    )


def exchanged(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Let the two ends of each test tell each other what they found; a row that says of itself stays."""
    ends = {
        (row["id"], row["end"], str(row.get("attempt", 1))): row
        for row in reversed(results)
        if _hashable(row)
    }
    told = []
    for row in results:
        said = row.get("other_end")
        turned = "server" if row.get("end") == "client" else "client"
        other = ends.get((row["id"], turned, str(row.get("attempt", 1)))) if _hashable(row) else None
        if isinstance(said, dict) and "host" not in said and other is not None:
            heard = {
                key: other.get(key) for key in ("host", "status", "proof", "metrics", "counters", "error")
            }
            row = {**row, "other_end": {**heard, **said}}
        told.append(row)
    return told


def in_sequence(rows: list[dict[str, Any]]) -> None:
    """Let each node's counters go on from test to test, as the kernel's do."""
    stand: dict[tuple[str, str, str], int] = {}
    for row in rows:
        for name, (before, after) in (row["counters"] or {}).items():
            if before is None or after is None:
                continue  # a counter that could not be read
            key = (row["host"], row["rail"], name)
            begin = stand.get(key, before)
            stand[key] = begin + after - before
            row["counters"][name] = [begin, stand[key]]


def _hashable(row: dict[str, Any]) -> bool:
    return isinstance(row.get("id"), str) and isinstance(row.get("end"), str)
