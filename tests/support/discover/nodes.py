# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bare nodes: of a machine of the gallery, read by the product's code for facts, and made up ones."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.discover import ports
from ansible_collections.railyard.fabric.plugins.module_utils.facts import gpus
from ansible_collections.railyard.fabric.plugins.module_utils.facts.netdev import COUNTERS
from ansible_collections.railyard.fabric.plugins.module_utils.records import bare_node
from railyard.discover.model import Named, Options, Survey
from railyard.discover.survey import survey

from support.machines.pair import NodeOn

Bare = dict[str, Any]


def of_machine(node: NodeOn, key: str, number: int) -> Bare:
    """Return what a node of the gallery says; its default route goes where the gallery's frontend is."""
    facts = {name: value for name, value in node.facts().items() if name != "run"}
    facts["boot_id"] = f"8a1f3f0e-5a39-4b0c-9e0c-5d5d1b2f8b{number:02x}"
    with node.kernel.running():
        found = ports.read(node.reader(), facts, {})
        # Without the time limits of real nodes: this machine may be busy.
        cards = [one["pci"] for one in (*facts["hcas"], *facts["netdevs"]) if one["pci"]]
        facts["gpus"] = gpus.read(node.reader(), node.ask, cards)
    frontend = node.plan["frontend"]["netdev"]
    login = next(one["addresses"][0] for one in facts["netdevs"] if one["netdev"] == frontend)
    return {
        "schema": 1,
        "key": key,
        "hostname": key,
        "product": None,
        "default_route": [frontend],
        "login_address": login.partition("/")[0],
        "bmc_address": None,
        "nvlink_domain": None,
        "facts": {**facts, "node": key},
        "ports": found,
        "beacons": None,
    }


def made_up(key: str, rails: Iterable[dict[str, Any]], **changes: Any) -> Bare:
    """Return a node with these ports and an on-board one with the default route, `eno1`.

    Args:
        key: the node; its number is the digits that end it.
        rails: of each `netdev`, and what differs from a ConnectX-7 of 400 Gbit/s with carrier: `pci`, `mac`,
            `gbps`, `max_gbps`, `rdma`, `pci_id`, `card`, `serial`, `wire`, `carrier`, `admin_up`,
            `addresses`, `vf`, `leaf`, `kind`, `driver_class`, `dev_port`.
        changes: what differs of the node: `boot_id`, `gpus` (of `gpus_of`), `frontend` (what differs of the
            on-board port), and keys of the record.
    """
    number = int("".join(letter for letter in key if letter.isdigit()) or 1)
    own = [f"198.18.{number // 250}.{number % 250 + 1}/16"]
    onboard = {"netdev": "eno1", "pci": "0000:01:00.0", "gbps": 1, "rdma": None, "pci_id": "8086:1521"}
    onboard |= {"addresses": own, **changes.pop("frontend", {})}
    rows = [onboard, *map(dict, rails)]
    for place, row in enumerate(rows):
        octets = (2, number >> 8, number & 255, *place.to_bytes(3, "big"))
        row.setdefault("mac", ":".join(f"{octet:02x}" for octet in octets))
    of_gpus = changes.pop("gpus", None)
    boot_id = changes.pop("boot_id", f"boot-{key}")
    facts = {
        "schema": 1, "node": key, "boot_id": boot_id, "collected": "2026-11-27T10:00:00.000Z",
        "kernel": "6.8.0", "python": "3.12.3", "os": {"id": "ubuntu", "version": "24.04"},
        "netdevs": [_netdev(row) for row in rows], "hcas": [_hca(row) for row in rows if _device(row)],
        "cpu": {"governors": {}, "governor_available": False}, "memlock_bytes": None, "tools": {},
        "warnings": [],
        "gpus": of_gpus or {
            "pci": [], "pci_paths": {}, "driver": None, "rows": [], "nvlink": [], "topology": None,
            "near": [], "xids": None, "errors": {},
        },
    }  # fmt: skip
    made = {
        "schema": 1, "key": key, "hostname": key, "product": None, "default_route": [onboard["netdev"]],
        "login_address": rows[0]["addresses"][0].partition("/")[0], "bmc_address": None,
        "nvlink_domain": None, "facts": facts, "ports": [_make_port(row) for row in rows], "beacons": None,
    }  # fmt: skip
    return {**made, **changes}


def gpus_of(model: str, addresses: Iterable[str], beside: Iterable[str] = ()) -> dict[str, Any]:
    """Return the facts of GPUs: model, PCI addresses, and the cards that share a switch with one."""
    found = list(addresses)
    return {
        "pci": found, "pci_paths": {}, "driver": "580.126.09",
        "rows": [{"pci": address, "name": model, "index": place} for place, address in enumerate(found)],
        "nvlink": [], "topology": None, "xids": None, "errors": {},
        "near": [{"nic": nic, "by": "switch", "gpus": [found[0]]} for nic in beside],
    }  # fmt: skip


def _device(row: Mapping[str, Any]) -> str | None:
    device = row.get("rdma", f"roce_{row['netdev']}"[:40])
    return None if device is None else f"{device}:{row.get('dev_port', 0) + 1}"


def _netdev(row: Mapping[str, Any]) -> dict[str, Any]:
    carrier = row.get("carrier", True)
    speed = int(row.get("gbps", 400) * 1000)
    return {
        "netdev": row["netdev"], "kind": row.get("kind", "physical"), "master": row.get("master"),
        "carrier": carrier, "operstate": "up" if carrier else "down", "admin_up": row.get("admin_up", True),
        "speed_mbps": speed if carrier else None,
        "speed_max_mbps": int(row.get("max_gbps", row.get("gbps", 400)) * 1000),
        "mtu_bytes": row.get("mtu_bytes", 1500), "mtu_max_bytes": 9978, "ipoib_mode": None, "mac": row["mac"],
        "permanent_mac": row["mac"], "addresses": row.get("addresses", []), "addresses6": [],
        "driver": row.get("driver", "mlx5_core"), "driver_class": row.get("driver_class", "hardware"),
        "pci": row.get("pci"), "pci_link": None, "pci_path": None, "numa_node": 0, "hca": _device(row),
        "counters": dict.fromkeys(COUNTERS),
        "qos_counters": {},
    }  # fmt: skip


def _hca(row: Mapping[str, Any]) -> dict[str, Any]:
    carrier = row.get("carrier", True)
    return {
        "hca": _device(row), "device": str(_device(row))[:-2], "port": row.get("dev_port", 0) + 1,
        "link_layer": "Ethernet",
        "state": "ACTIVE" if carrier else "DOWN", "physical_state": "LinkUp" if carrier else "Disabled",
        "rate_gbps": row.get("gbps", 400), "width": "4X", "active_mtu_bytes": None, "max_mtu_bytes": None,
        "lid": 0, "sm_lid": 0, "port_guid": None, "pkeys": [], "pkey_indices": {}, "netdev": row["netdev"],
        "node_type": "CA", "driver": "mlx5_core", "driver_class": "hardware", "pci": row.get("pci"),
        "pci_path": None, "numa_node": 0, "firmware": None, "node_guid": None, "board_id": None,
        "hca_type": None, "dpu_mode": None, "gids": [], "counters": {}, "hw_counters": {},
    }  # fmt: skip


def _make_port(row: Mapping[str, Any]) -> dict[str, Any]:
    leaf = row.get("leaf")
    neighbour = {"switch": leaf, "chassis": "02:00:00:00:ff:01", "port": "Ethernet1/1"}
    return {
        "netdev": row["netdev"], "hca": _device(row), "pci": row.get("pci"),
        "dev_port": row.get("dev_port", 0),
        "pci_id": row.get("pci_id", "15b3:1021"), "model": row.get("card"), "serial": row.get("serial"),
        "firmware": None, "physical_port": row.get("wire"), "is_virtual_function": row.get("vf", False),
        "neighbours": [neighbour] if leaf else [],
    }  # fmt: skip


def wire(nodes: Iterable[Bare], networks: Iterable[Iterable[tuple[str, str]]], most: int = 16) -> None:
    """Let ports hear each other's beacons.

    Args:
        nodes: the nodes; all of them listen on all of their ports.
        networks: of each broadcast domain its ports, as (key, netdev).
        most: so many senders are heard at most, the next ones in the domain.
    """
    found = {node["key"]: node for node in nodes}
    senders: dict[tuple[str, str], list[dict[str, str]]] = {}
    macs = {
        (key, row["netdev"]): row["mac"] for key, node in found.items() for row in node["facts"]["netdevs"]
    }
    for network in networks:
        members = list(network)
        for place, port in enumerate(members):
            others = [
                members[(place + step) % len(members)] for step in range(1, min(most, len(members) - 1) + 1)
            ]
            senders.setdefault(port, []).extend(
                {"key": key, "netdev": netdev, "mac": macs[key, netdev]} for key, netdev in others
            )
    for key, node in found.items():
        node["beacons"] = [
            {
                "netdev": row["netdev"],
                "senders": senders.get((key, row["netdev"]), []),
                "strangers": 0,
                "raised": False,
                "error": None,
            }
            for row in node["facts"]["netdevs"]
        ]


def discovered(nodes: Iterable[Bare], options: Options | None = None, **named: Named) -> Survey:
    """Survey nodes that are called as their keys are; each is read through the record first."""
    read = {node["key"]: bare_node.read(copy.deepcopy(node)) for node in nodes}
    names = {
        key: named.get(key, Named(key, key, ansible_host=f"198.18.0.{place}" if place < 255 else None))
        for place, key in enumerate(sorted(read), start=1)
    }
    return survey(read, names, options)
