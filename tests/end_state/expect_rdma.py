"""What RDMA on a node should be, from the plan; a function returns what is wrong, nothing when all is well.

Pure, and it shares no code with what configured or measured the node: ports come from `rdma link`, GIDs from
the files of sysfs as a shell shows them.
"""

from __future__ import annotations

import ipaddress
from typing import Any

from end_state.expect import Options, Plan, Problems, Reading, gid_ip, netdev_of

# What user space talks to; a device's driver loads by itself, but for the one in software.
_MODULES = ("ib_uverbs", "ib_umad", "rdma_ucm")
_SOFTWARE_MODULE = "rdma_rxe"
# Vendor and device of the cards that have RoCE v1 alone: ConnectX-3 and its virtual functions (mlx4's PCI
# table); ConnectX-3 Pro (0x1007) was the first with v2.
_ROCE_V1_CARDS = ("0x15b3:0x1003", "0x15b3:0x1004")


def is_asked(node: Plan, options: Options) -> bool:
    """Whether the inventory asks RDMA of a node whose kernel is its own."""
    asked = options.get("rdma_stack_enabled", node.get("transport") in ("roce", "infiniband", "efa"))
    return bool(asked) and node.get("node_class") != "container"


def modules(reading: Reading) -> Problems:
    """The modules that user space talks to are loaded, now and at the next boot; with rxe its driver too."""
    wanted = list(_MODULES)
    if any(device.get("is_software") for device in reading["rdma_devices"].values()):
        wanted.append(_SOFTWARE_MODULE)
    problems = [f"module {name} is not loaded" for name in wanted if name not in reading["modules"]]
    if not reading["openibd_enabled"]:
        problems += [
            f"module {name} is in no file of modules-load.d, and no openibd.service (a vendor's) is enabled: "
            "it is not loaded at boot"
            for name in wanted
            if name not in reading["modules_at_boot"]
        ]
    return problems


def port(rail: Plan, reading: Reading) -> Problems:
    """The rail has its RDMA port, on its own netdev, and the port is active."""
    link = _link(rail, reading)
    if link is None:
        return [_missing(rail, reading)]
    name = f"{link['ifname']}/{link['port']}"
    problems = []
    if link.get("state") != "ACTIVE":
        problems.append(f"{name} has state {link.get('state')}, not ACTIVE")
    netdev = _physical(rail, reading)
    if netdev and link.get("netdev") and link["netdev"] != netdev:
        problems.append(f"{name} is on {link['netdev']}, the rail on {netdev}")
    return problems


def gid(rail: Plan, reading: Reading) -> Problems:
    """The port's GID table has the rail's address, as RoCE v2 where the card has that."""
    link = _link(rail, reading)
    if link is None:
        return [_missing(rail, reading)]
    if not rail.get("address"):
        return []
    address = ipaddress.ip_interface(rail["address"]).ip
    rows = [
        row
        for row in reading["gids"]
        if (row["device"], row["port"]) == (link["ifname"], str(link["port"]))
        and gid_ip(row["gid"]) == address
    ]
    if not rows:
        return [f"{link['ifname']} has no GID of {address}"]
    device = reading["rdma_devices"].get(link["ifname"]) or {}
    wanted = ("RoCE v2", "IB/RoCE v1") if device.get("pci_id") in _ROCE_V1_CARDS else ("RoCE v2",)
    if not any(row["type"] in wanted for row in rows):
        return [f"{link['ifname']} has {address} as {', '.join(row['type'] for row in rows)}, not RoCE v2"]
    return []


def at_boot(rail: Plan, reading: Reading) -> Problems:
    """A device in software is made again at boot: some udev rule makes one on its netdev.

    Another rule may rename it afterwards, so its name need not be there.
    """
    link = _link(rail, reading)
    if link is None:
        return [_missing(rail, reading)]
    device = reading["rdma_devices"].get(link["ifname"]) or {}
    if not device.get("is_software"):
        return []
    words = {"rxe", str(link.get("netdev"))}
    for line in reading["udev_rules"]:
        if words <= set(line.replace('"', " ").split()):
            return []
    return [f"{link['ifname']} on {link.get('netdev')} is made by no udev rule, so it is gone after a reboot"]


def _link(rail: Plan, reading: Reading) -> dict[str, Any] | None:
    links = reading.get("rdma_links") or []
    if rail.get("hca"):
        device, _colon, number = str(rail["hca"]).partition(":")
        return next(
            (one for one in links if (one["ifname"], str(one["port"])) == (device, number or "1")), None
        )
    netdev = _physical(rail, reading)
    on_netdev = next((one for one in links if netdev and one.get("netdev") == netdev), None)
    return on_netdev or _link_at(rail, netdev, reading)


def _link_at(rail: Plan, netdev: str | None, reading: Reading) -> dict[str, Any] | None:
    """Find the rail's port at its bus address: `rdma link` shows no netdev of InfiniBand's."""
    own = reading["netdevs"].get(netdev) or {}
    bus = rail.get("pci") or own.get("pci")
    devices = [
        name
        for name, device in reading.get("rdma_devices", {}).items()
        if bus and str(device.get("pci")).lower() == str(bus).lower()
    ]
    found = [one for one in reading.get("rdma_links") or [] if one["ifname"] in devices]
    if len(found) > 1:
        named = rail.get("netdev") or rail.get("mac")
        found = [one for one in found if named and one["port"] == own.get("port")]
    return found[0] if len(found) == 1 else None


def _physical(rail: Plan, reading: Reading) -> str | None:
    """The netdev below the rail's VLAN: RDMA devices lie on that."""
    return netdev_of({**rail, "vlan": None}, reading)


def _missing(rail: Plan, reading: Reading) -> str:
    there = ", ".join(f"{one['ifname']}/{one['port']}" for one in reading["rdma_links"] or []) or "none"
    wanted = next((rail[key] for key in ("hca", "netdev", "mac", "pci") if rail.get(key)), None)
    return f"the node has no RDMA port for it ({wanted}); there is: {there}"


def port_name(rail: Plan, reading: Reading) -> str | None:
    """Return what the node calls the rail's port, `mlx5_0:1`; where it has none, what the inventory does."""
    link = _link(rail, reading) or _link({**rail, "hca": None}, reading)
    return f"{link['ifname']}:{link['port']}" if link is not None else rail.get("hca")
