# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Which netdev is a rail, looked up on the node where the inventory names it by MAC, bus address or HCA."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .. import node_files
from .bind import named_port, select

# Without the zero byte that ends it: IFNAMSIZ is 16.
_NAME_LENGTH = 15
_ETHERNET = "1"
_COMPARE = "`railyard discover --diff -i INVENTORY` compares it with the nodes' ports"
_PHYSICAL_PORT = re.compile(r"p[0-9]+\Z")


class ResolveError(ValueError):
    """A rail's netdev was not found; the message has the rail, what was searched for and the fix."""


def _netdevs(sys_root: str) -> list[str]:
    base = os.path.join(sys_root, "class/net")
    # Module bonding keeps a file there, bonding_masters.
    return [name for name in node_files.list_names(base) if os.path.isdir(os.path.join(base, name))]


def _pci(sys_root: str, netdev: str) -> str:
    device = os.path.join(sys_root, "class/net", netdev, "device")
    return os.path.basename(os.path.realpath(device)) if os.path.exists(device) else ""


def _devices(sys_root: str) -> list[dict[str, Any]]:
    """Return the netdevs as `bind.select` wants them."""
    found = []
    for netdev in _netdevs(sys_root):
        base = os.path.join(sys_root, "class/net", netdev)
        # What is put on top of a netdev (VLAN, bond, bridge) has a link `lower_*` to it, whatever its kind.
        stacked = any(entry.startswith("lower_") for entry in os.listdir(base))
        mac, kind = node_files.read_word(os.path.join(base, "address")), "vlan" if stacked else "physical"
        found.append({"netdev": netdev, "mac": mac, "pci": _pci(sys_root, netdev), "kind": kind})
    return found


def _by_mac(sys_root: str, mac: str) -> list[str]:
    return [str(one["netdev"]) for one in select({"mac": mac}, _devices(sys_root)).found]


def _hca_netdev(sys_root: str, rail: Mapping[str, Any]) -> str | None:
    """Return the netdev of the HCA port that a rail's own keys name (`bind.named_port`), None for none."""
    port = rail if rail.get("hca") else named_port(rail, _hca_ports(sys_root))
    return _netdev_of_hca(sys_root, str(port["hca"])) if port is not None else None


def _hca_ports(sys_root: str) -> list[dict[str, Any]]:
    """Return the HCA ports as `bind.named_port` wants them."""
    base = os.path.join(sys_root, "class/infiniband")
    found = []
    for device in node_files.list_names(base):
        bus = os.path.join(base, device, "device")
        pci = os.path.basename(os.path.realpath(bus)) if os.path.exists(bus) else None
        ports = node_files.list_names(os.path.join(base, device, "ports"))
        found += [{"hca": f"{device}:{port}", "pci": pci} for port in ports]
    return found


def _netdev_of_hca(sys_root: str, hca: str) -> str | None:
    device, _colon, port = hca.partition(":")
    port = port or "1"
    base = os.path.join(sys_root, "class/infiniband", device)
    named = node_files.read_word(os.path.join(base, "ports", port, "gid_attrs/ndevs/0"))
    if named:
        return named
    # InfiniBand ports have no ndev; their IPoIB netdev shares the PCI device and is identified by its port.
    siblings = node_files.list_names(os.path.join(base, "device/net"))
    return next((netdev for netdev in siblings if _is_port(sys_root, netdev, int(port))), None)


def _is_port(sys_root: str, netdev: str, port: int) -> bool:
    """Tell whether a netdev is the port of this number, from 1, of its card, and no switch representor.

    `dev_port` counts from 0; mlx4 of older kernels left it 0 and has the port in `dev_id`.
    """
    folder = os.path.join(sys_root, "class/net", netdev)
    label = node_files.read_word(os.path.join(folder, "phys_port_name"))
    if label and not _PHYSICAL_PORT.match(label):
        return False
    numbers = (node_files.read_word(os.path.join(folder, name)) for name in ("dev_port", "dev_id"))
    return max(_number(text) for text in numbers) == port - 1


def _number(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        return 0


def macs_of(text: str) -> dict[str, str]:
    """Return `{netdev: MAC}` for the ports that a netplan file of Railyard matches by MAC."""
    pairs = re.findall(r"^        macaddress: (\S+)\n      set-name: (\S+)$", text, re.MULTILINE)
    return {netdev.strip('"'): mac.strip('"') for mac, netdev in pairs}


def netdev_of(
    rail: Mapping[str, Any], sys_root: str = "/sys", known_macs: Mapping[str, str] | None = None
) -> str:
    """Return the netdev of one rail.

    Args:
        rail: rail dict; a given `netdev` must exist and agree with a given `mac`, else `mac`, `pci` and `hca`
            are tried in this order.
        sys_root: where sysfs is, for tests.
        known_macs: what MAC a netdev had when the role last ran, to name a port that was renamed since.

    Raises:
        ResolveError: no netdev or more than one answers, or two settings of the rail contradict each other.
    """
    name, netdev, mac = rail["name"], rail.get("netdev"), rail.get("mac")
    if netdev:
        if netdev not in _netdevs(sys_root):
            had = str(mac or (known_macs or {}).get(netdev, ""))
            called = _by_mac(sys_root, had) if had else []
            if len(called) == 1:
                raise ResolveError(
                    f"{name}: the port with MAC {had} was called {netdev} and is {called[0]} now; give it "
                    f"its old name back (`ip link set dev {called[0]} down`, then `name {netdev}`), or set "
                    f"rail_overrides: {{{name}: {{netdev: {called[0]}}}}} for this node"
                )
            raise ResolveError(
                f"{name}: netdev {netdev} does not exist on the node (there are: "
                f"{', '.join(_netdevs(sys_root)) or 'none'}); load its driver, or correct `fabric.rails` or "
                f"`rail_overrides`: {_COMPARE}"
            )
        actual = node_files.read_word(os.path.join(sys_root, "class/net", netdev, "address"))
        if mac and actual.lower() != str(mac).lower():
            raise ResolveError(
                f"{name}: netdev {netdev} has MAC {actual}, the inventory says {mac}; correct one of the two"
            )
        return str(netdev)
    key, found = select(rail, _devices(sys_root), _hca_netdev(sys_root, rail))
    if key is None:
        raise ResolveError(f"{name}: neither netdev, mac, pci nor hca is set; set one in `fabric.rails`")
    if not found:
        what = f"no netdev on the node has {key} {rail[key]}"
        raise ResolveError(f"{name}: {what}; correct the inventory: {_COMPARE}")
    if len(found) > 1:
        names = ", ".join(str(one["netdev"]) for one in found)
        several = f"{key} {rail[key]} belongs to several netdevs ({names})"
        raise ResolveError(f"{name}: {several}; name the rail by netdev as well")
    return str(found[0]["netdev"])


def place(
    rail: Mapping[str, Any], sys_root: str = "/sys", known_macs: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """Return the rail with what the node adds to it; the arguments are those of `netdev_of`.

    Returns:
        The rail, where `netdev` is the netdev that has the address: with `vlan` that is `PARENT.VLAN`, and
        `parent` the netdev that carries it; `permanent_mac` is the MAC of the port where the kernel calls it
        permanent and no other port has it, else None: a veth's or an IPoIB netdev's name must do.

    Raises:
        ResolveError: as `netdev_of`; or the VLAN's name would be longer than the kernel takes.
    """
    port = netdev_of(rail, sys_root, known_macs)
    placed = {**rail, "netdev": port, "parent": None, "permanent_mac": permanent_mac(port, sys_root)}
    if rail.get("vlan") is not None:
        name = f"{port}.{rail['vlan']}"
        if len(name) > _NAME_LENGTH:
            raise ResolveError(
                f"{rail['name']}: the VLAN's netdev would be called {name}, and the kernel takes "
                f"{_NAME_LENGTH} characters; give {port} a shorter name (a .link file), then name it here"
            )
        placed.update(netdev=name, parent=port)
    return placed


def permanent_mac(netdev: str, sys_root: str = "/sys") -> str | None:
    """Return a port's MAC by which netplan can match it, or None where the name is the better mark.

    The kernel's `addr_assign_type` 0 (NET_ADDR_PERM) says that the present address is the port's own; only
    Ethernet has MACs in the form that every netplan takes.
    """
    base = os.path.join(sys_root, "class/net", netdev)
    if (
        not os.path.exists(os.path.join(base, "device"))
        or node_files.read_word(os.path.join(base, "type")) != _ETHERNET
    ):
        return None
    mac = node_files.read_word(os.path.join(base, "address")).lower()
    if node_files.read_word(os.path.join(base, "addr_assign_type")) != "0" or mac in (
        "",
        "00:00:00:00:00:00",
    ):
        return None
    same = [other for other in _by_mac(sys_root, mac) if other != netdev]
    # Ports that share a MAC (some virtual functions, cloned NICs) are identified by name alone.
    return (
        None
        if any(os.path.exists(os.path.join(sys_root, "class/net", one, "device")) for one in same)
        else mac
    )


def masters(netdevs: Sequence[str], sys_root: str = "/sys") -> dict[str, str]:
    """Return `{netdev: master}` for those that are ports of a bond, bridge or other device."""
    found = {}
    for netdev in netdevs:
        link = os.path.join(sys_root, "class/net", netdev, "master")
        if os.path.exists(link):
            found[netdev] = os.path.basename(os.path.realpath(link))
    return found
