# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Settings of NCCL and UCX checked against the fabric: the rails of an inventory's nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.parsers.nccl import device_list as names
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.findings import (
    ERROR,
    NOTE,
    UNKNOWN,
    WARNING,
    Finding,
    about,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.settings import Setting
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import fold_names, named

#: Transports over which NCCL's own RDMA network runs, which NCCL_IB_HCA is of.
_NCCL_NAMES_HCAS = ("roce", "infiniband")


@dataclass(frozen=True)
class Node:
    """What of a node NCCL's settings are about.

    Attributes:
        name: the host.
        transport: roce, infiniband, efa or tcp.
        rails: of each rail its name, HCA (`mlx5_0:1`, or None), netdev (or None), whether it has an address.
        frontend: the netdev of the frontend, or None.
        nvlink_domain: the declared NVLink domain that it is in, or None.
    """

    name: str
    transport: str
    rails: tuple[tuple[str, str | None, str | None, bool], ...]
    frontend: str | None
    nvlink_domain: str | None = None


def nodes_of(plan: Mapping[str, Any]) -> list[Node]:
    """Take the nodes from a plan (docs/schema/plan.schema.json)."""
    return [
        Node(
            name,
            node["transport"],
            tuple(map(_rail, node["rails"])),
            (node.get("frontend") or {}).get("netdev"),
            node.get("nvlink_domain"),
        )
        for name, node in plan["nodes"].items()
    ]


def _rail(rail: Mapping[str, Any]) -> tuple[str, str | None, str | None, bool]:
    """Return what `Node.rails` has of a rail; its netdev is that of its VLAN where it has one."""
    netdev, vlan = rail.get("netdev"), rail.get("vlan")
    netdev = f"{netdev}.{vlan}" if netdev and vlan else netdev
    return rail["name"], rail.get("hca"), netdev, bool(rail.get("address") or rail.get("address6"))


def check(settings: Mapping[str, Setting], nodes: Sequence[Node]) -> Iterator[Finding]:
    """Yield what is wrong with settings (those that count, by name) on these nodes."""
    if hcas := settings.get("NCCL_IB_HCA"):
        yield from _hcas(hcas, nodes)
    yield from _efa(settings, nodes)
    if netdevs := settings.get("NCCL_SOCKET_IFNAME"):
        yield from _netdevs(netdevs, nodes)
    if devices := settings.get("UCX_NET_DEVICES"):
        yield from _ucx(devices, nodes)
    if (between := settings.get("NCCL_MNNVL_ENABLE")) and between.value == "0":
        yield from _without_nvlink(between, nodes)
    marks = settings.get("NCCL_IB_TC")
    if marks and all(node.transport == "infiniband" for node in nodes):
        why = "it is RoCE's DSCP, and these rails are InfiniBand, whose switches go by the service level"
        yield about(marks, NOTE, "not_here", why, "take it out; NCCL_IB_SL is InfiniBand's")


def _efa(settings: Mapping[str, Setting], nodes: Sequence[Node]) -> Iterator[Finding]:
    """Yield settings of NCCL's own RDMA network, which does not know EFA: the plugin aws-ofi-nccl does."""
    if not nodes or any(node.transport != "efa" for node in nodes):
        return
    if (network := settings.get("NCCL_NET")) and (network.value or "").lower() == "ib":
        why = "NCCL's own network IB needs connections of type RC, which EFA, the rails' transport, has not"
        yield about(network, ERROR, "no_rdma", why, "write NCCL_NET=Libfabric, with the plugin aws-ofi-nccl")
    if hcas := settings.get("NCCL_IB_HCA"):
        why = "NCCL's own network IB reads it, and the rails are EFA, which the plugin aws-ofi-nccl uses"
        yield about(hcas, NOTE, "not_here", why, "take it out")


def _without_nvlink(setting: Setting, nodes: Sequence[Node]) -> Iterator[Finding]:
    """Say which nodes the inventory joins by NVLink, where a setting has NCCL leave that out."""
    members: dict[str, list[str]] = {}
    for node in nodes:
        if node.nvlink_domain is not None:
            members.setdefault(node.nvlink_domain, []).append(node.name)
    for domain, hosts in members.items():
        if len(hosts) > 1:
            why = f"{_folded(hosts)} are in NVLink domain {domain}, which NCCL leaves out with 0"
            fix = "take it out: 2, the default, uses NVLink where it is"
            yield about(setting, WARNING, "nvlink_unused", why, fix)


def _hcas(setting: Setting, nodes: Sequence[Node]) -> Iterator[Finding]:
    read = names.parse(setting.value or "")
    if read.wrong:
        return
    missed: dict[tuple[str, ...], list[str]] = {}
    unused: dict[tuple[str, ...], list[str]] = {}
    untold: list[str] = []
    counted: dict[tuple[int, int], list[str]] = {}
    for node in nodes:
        if node.transport not in _NCCL_NAMES_HCAS:
            continue
        hcas = [hca for _name, hca, _netdev, _address in node.rails]
        if None in hcas:
            how_many = _counted(read, len(hcas))
            (untold if how_many is None else counted.setdefault(how_many, [])).append(node.name)
        known = [names.device(hca) for hca in hcas if hca]
        out = tuple(
            f"{rail[0]} ({rail[1]})"
            for rail in node.rails
            if rail[1] and not read.takes(*names.device(rail[1]))
        )
        if out:
            missed.setdefault(out, []).append(node.name)
        extra = tuple(read.unused(known))
        if extra and None not in hcas and not read.excludes:
            unused.setdefault(extra, []).append(node.name)
    for rails, hosts in missed.items():
        why = f"it leaves out {len(rails)} of the rails of {_folded(hosts)}: {named(rails, 8)}"
        yield about(setting, ERROR, "rails_missed", why, f"write NCCL_IB_HCA=={_all(nodes, hosts[0])}")
    for entries, hosts in unused.items():
        why = f"{named(entries, 8)} is no rail of {_folded(hosts)}: NCCL sends by it too where it is there"
        yield about(setting, WARNING, "no_rail", why, f"write NCCL_IB_HCA=={_all(nodes, hosts[0])}")
    fix = "let role nccl_profile write the names that each node has; `railyard verify` compares them"
    for (listed, rails_of_each), hosts in counted.items():
        why = (
            f"it names {_number(listed, 'device')}, and {_folded(hosts)} has {_number(rails_of_each, 'rail')}"
        )
        if listed < rails_of_each:
            yield about(setting, ERROR, "rails_missed", why, fix)
        elif listed > rails_of_each:
            yield about(setting, WARNING, "no_rail", f"{why}: NCCL sends by the others too", fix)
        else:
            why += "; the inventory names none of them, so whether they are these only the node shows"
            yield about(setting, NOTE, "hca_not_told", why, fix)
    if untold:
        why = (
            f"whether it names every rail of {_folded(untold)} is not known: what a rail's RDMA device is "
            "called, the node decides"
        )
        yield about(setting, UNKNOWN, "hca_not_told", why, fix)


def _counted(read: names.Names, rails: int) -> tuple[int, int] | None:
    """Return how many devices a list of whole names has, and the rails; None where that is unknown."""
    exact = read.exact and not read.excludes
    # A name without its port is all ports of the device, two of a ConnectX-3.
    fewer = len(read.entries) < rails and any(entry.port is None for entry in read.entries)
    return (len(read.entries), rails) if exact and not fewer else None


def _number(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def _all(nodes: Sequence[Node], host: str) -> str:
    return next(",".join(rail[1] or "?" for rail in node.rails) for node in nodes if node.name == host)


def _netdevs(setting: Setting, nodes: Sequence[Node]) -> Iterator[Finding]:
    read = names.parse(setting.value or "")
    if read.wrong or not read.entries:
        return
    taken: dict[tuple[tuple[str, ...], bool, bool], list[str]] = {}
    shut: list[str] = []
    frontends = {node.name: node.frontend for node in nodes}
    for node in nodes:
        rails = [rail for rail in node.rails if rail[2] and read.takes(rail[2])]
        if node.transport != "tcp" and rails:
            listed = tuple(f"{rail[0]} ({rail[2]})" for rail in rails)
            lost = not all(rail[3] for rail in rails)
            taken.setdefault((listed, lost, read.excludes), []).append(node.name)
        if node.transport != "tcp" and node.frontend and not read.takes(node.frontend) and not rails:
            shut.append(node.name)
    for (listed, lost, excludes), hosts in taken.items():
        why = (
            f"it takes {named(listed, 8)} of {_folded(hosts)}: NCCL's TCP connections belong on the frontend"
        )
        if lost:
            why += ", and such a rail has no IP address"
        elif excludes:
            why += "; what is left out does not leave out the rails"
        frontend = frontends[hosts[0]]
        fix = f"write NCCL_SOCKET_IFNAME=={frontend}" if frontend else "name the frontend's netdev, = first"
        yield about(setting, ERROR if lost else WARNING, "socket_on_rail", why, fix)
    if shut:
        frontend = frontends[shut[0]]
        why = f"it does not take {frontend}, the frontend of {_folded(shut)}"
        yield about(setting, WARNING, "not_frontend", why, f"write NCCL_SOCKET_IFNAME=={frontend}")


def _ucx(setting: Setting, nodes: Sequence[Node]) -> Iterator[Finding]:
    listed = (setting.value or "").split(",")
    if "all" in listed:
        return
    missed: dict[tuple[str, ...], list[str]] = {}
    for node in nodes:
        out = tuple(f"{rail[0]} ({rail[1]})" for rail in node.rails if rail[1] and rail[1] not in listed)
        if node.transport in _NCCL_NAMES_HCAS and out:
            missed.setdefault(out, []).append(node.name)
    for rails, hosts in missed.items():
        why = f"it leaves out {len(rails)} of the rails of {_folded(hosts)}: {named(rails, 8)}"
        yield about(setting, WARNING, "rails_missed", why, f"write UCX_NET_DEVICES={_all(nodes, hosts[0])}")


def _folded(hosts: Sequence[str]) -> str:
    return hosts[0] if len(hosts) == 1 else fold_names(list(hosts), ",")
