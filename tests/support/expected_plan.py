"""What each layout's plan must be, calculated a second time, with netaddr and no line of Railyard's own rule.

It reads the inventory's files as a person would, and serves the golden tests; it is no second implementation
for anything else, and knows only what the layouts in inventories/ use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml
from netaddr import IPAddress, IPNetwork

FIRST_TABLE = 6100


def fabric_of(folder: Path) -> dict[str, Any]:
    """Return the inventory's fabric."""
    text = (folder / "group_vars" / "all" / "fabric.yml").read_text(encoding="utf-8")
    fabric: dict[str, Any] = yaml.safe_load(text)["fabric"]
    return fabric


def gpus_of(folder: Path) -> dict[str, Any]:
    """Return what the inventory says of each node's GPUs, as the plan has it."""
    file = folder / "group_vars" / "all" / "gpus.yml"
    return (
        {"gpus": yaml.safe_load(file.read_text(encoding="utf-8"))["expected_gpus"]} if file.exists() else {}
    )


def hosts_of(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the nodes with their variables, in the order of hosts.yml."""
    text = (folder / "hosts.yml").read_text(encoding="utf-8")
    return dict(_hosts(yaml.safe_load(text)["gpu_nodes"], {}))


def _hosts(group: dict[str, Any], inherited: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    own = {**inherited, **(group.get("vars") or {})}
    for written, variables in (group.get("hosts") or {}).items():
        for name in _names(written):
            yield name, {**own, **(variables or {})}
    for child in (group.get("children") or {}).values():
        yield from _hosts(child, own)


def _names(written: str) -> list[str]:
    spread = re.fullmatch(r"(.*)\[([0-9]+):([0-9]+)\](.*)", written)
    if spread is None:
        return [written]
    head, low, high, tail = spread.groups()
    return [f"{head}{number:0{len(low)}d}{tail}" for number in range(int(low), int(high) + 1)]


def node_of(folder: Path, name: str) -> dict[str, Any]:
    """Calculate one node of the plan."""
    fabric, variables = fabric_of(folder), hosts_of(folder)[name]
    number = int(re.findall("[0-9]+", name)[-1])
    frontend = fabric["frontend"]
    declared, overrides = variables.get("network_addresses") or {}, variables.get("rail_overrides") or {}
    return {
        "node_index": number,
        "scalable_unit": variables.get("scalable_unit"),
        "ansible_host": variables.get("ansible_host", name),
        "transport": fabric["transport"],
        "node_class": fabric["node_class"],
        "frontend": {
            "netdev": frontend["netdev"],
            "dhcp4": frontend["dhcp4"],
            "address": None,
            "gateway": None,
            "manage": frontend["manage"],
        },
        "rails": [
            _rail(fabric, place, number, variables.get("scalable_unit"), overrides)
            for place in range(fabric.get("rail_count") or len(fabric["rails"]))
        ],
        "rail_overrides": overrides,
        "networks": [
            {
                "name": item["name"],
                "purpose": item["purpose"],
                "netdev": item.get("netdev"),
                "subnet": item["subnet"],
                "address": declared.get(item["name"])
                or (_address(fabric, item["subnet"], number) if item.get("manage") else None),
                "vlan": item.get("vlan"),
                "mtu": item.get("mtu"),
                "manage": item.get("manage", False),
                "bmc": item.get("bmc", False),
            }
            for item in fabric.get("networks") or []
        ],
        "bmc_address": variables.get("bmc_address"),
        **gpus_of(folder),
        **({"nvlink_domain": variables["nvlink_domain"]} if "nvlink_domain" in variables else {}),
    }


def _rail(
    fabric: dict[str, Any], place: int, number: int, unit: str | None, overrides: dict[str, Any]
) -> dict[str, Any]:
    said = fabric["rails"][place] if "rails" in fabric else _computed(fabric, place)
    subnets = {4: said.get("subnet"), 6: said.get("subnet6")}
    routes = {}
    leaf = said.get("leaf")
    if "subnets" in said:
        subnets[4] = said["subnets"][unit]
        routes = {other: None for where, other in said["subnets"].items() if where != unit}
        leaf = said["leaves"][unit]
    gateway = None
    if said.get("gateway") == "last":
        # The last address that a host may have: one below the broadcast address.
        gateway = str(IPNetwork(subnets[4])[-2])
    address = _address(fabric, subnets[4], number)
    if said.get("node_prefix"):
        # Of the parts in their order the node's; the leaf has the lower address of its two.
        routes = {subnets[4]: None}
        link = list(IPNetwork(subnets[4]).subnet(said["node_prefix"]))[number]
        assert said["gateway"] == "first"
        gateway, address = str(link[0]), f"{link[1]}/{link.prefixlen}"
        own = overrides.get(said["name"], {})
        gateway, address = own.get("gateway", gateway), own.get("address", address)
        subnets[4] = str(IPNetwork(address).cidr)
    routes.update(dict.fromkeys(said.get("routes") or []))
    has_address = subnets[4] is not None or subnets[6] is not None
    infiniband = fabric["transport"] == "infiniband"
    return {
        "name": said["name"],
        "netdev": said.get("netdev"),
        "mac": None,
        "pci": said.get("pci"),
        "hca": said.get("hca"),
        "address": address,
        "address6": _address(fabric, subnets[6], number),
        "subnet": subnets[4],
        "subnet6": subnets[6],
        "mtu": fabric.get("mtu"),
        "gateway": gateway,
        "gateway6": None,
        "vlan": None,
        "rate_gbps": said["rate_gbps"],
        "leaf": leaf,
        "routes": [{"to": to, "via": gateway} for to in sorted(routes, key=lambda to: IPNetwork(to).first)],
        "table": FIRST_TABLE + place if has_address else None,
        "ipoib_mode": "datagram" if infiniband and has_address else None,
        "link_local": ["ipv6"],
        "accept_ra": False,
        "bond": None,
        **({"divided_subnet": said["subnet"]} if said.get("node_prefix") else {}),
        **_wire(fabric, said),
    }


def _wire(fabric: dict[str, Any], said: dict[str, Any]) -> dict[str, str]:
    """Return the rail on the same wire, whichever of the two says so."""
    others = [one["name"] for one in fabric.get("rails") or () if one.get("shares_wire_with") == said["name"]]
    other = said.get("shares_wire_with") or next(iter(others), None)
    return {"shares_wire_with": other} if other else {}


def _computed(fabric: dict[str, Any], place: int) -> dict[str, Any]:
    def cut(supernet: str) -> str:
        return str(list(IPNetwork(supernet).subnet(fabric["rail_prefix"]))[place])

    return {
        "name": f"rail{place}",
        "netdev": fabric["netdev_pattern"].format(rail=place),
        "hca": None,
        "subnet": cut(fabric["supernet"]),
        "routes": [cut(other) for other in fabric["rail_routes"]],
        "gateway": fabric["gateway"],
        "rate_gbps": fabric["rate_gbps"],
    }


def _address(fabric: dict[str, Any], subnet: str | None, number: int) -> str | None:
    if subnet is None:
        return None
    network = IPNetwork(subnet)
    value = IPAddress(network.first + fabric.get("host_offset", 0) + number, network.version)
    return f"{value}/{network.prefixlen}"
