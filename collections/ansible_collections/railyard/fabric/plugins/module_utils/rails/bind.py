# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Join a node's plan with its facts: which netdev of the node is each rail. Pure.

Facts beat settings: where the two disagree (the netdev that the inventory names is a member of a LAG, or
has another MAC than the inventory says) the disagreement is a finding, and a rail with a finding never
passes its link check.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from . import lag, rdma_mtu


@dataclass(frozen=True)
class Finding:
    """A disagreement between plan and facts.

    Attributes:
        cause: id in the cause table.
        detail: what was found.
    """

    cause: str
    detail: str


@dataclass
class Bound:
    """A rail of a node and what the node has for it.

    Attributes:
        rail: the plan's rail.
        netdev: the facts' netdev that carries the rail's address, or None.
        hca: the facts' HCA port: the one that the inventory names, else the only one of the rail's netdev or,
            without a netdev, of its PCI address; or None.
        findings: disagreements, most grave first.
        renamed: where no port has the name that the inventory gives, the rail's port by netdev, MAC or PCI
            address: what that port is called now.
    """

    rail: Mapping[str, Any]
    netdev: Mapping[str, Any] | None = None
    hca: Mapping[str, Any] | None = None
    findings: list[Finding] = field(default_factory=list)
    renamed: Mapping[str, Any] | None = None

    @property
    def rate_gbps(self) -> float | None:
        """Return the rate that the rail's link trained to, as the netdev or else the RDMA port reports it."""
        speed_mbps = (self.netdev or {}).get("speed_mbps")
        rate_gbps: float | None = (self.hca or {}).get("rate_gbps")
        return speed_mbps / 1000 if speed_mbps else rate_gbps


class Selected(NamedTuple):
    """Which netdevs answer to what the plan says of a rail: one is the rail's, none or several are not.

    Attributes:
        key: what identified it: `netdev`, `mac`, `pci` or `hca`; None where the plan names none.
        found: the netdevs.
    """

    key: str | None
    found: list[Mapping[str, Any]]


def select(
    rail: Mapping[str, Any], devices: Sequence[Mapping[str, Any]], hca_netdev: object = None
) -> Selected:
    """Tell which netdev a rail is: the one answer, on the node and from its facts.

    Args:
        rail: the plan's rail; the first of `netdev`, `mac`, `pci` and `hca` that it has tells.
        devices: the node's netdevs: `netdev`, `mac` (and `permanent_mac`), `pci`, `kind`.
        hca_netdev: the netdev of the rail's HCA port (see `named_port`), None where that has none.
    """
    if rail.get("netdev"):
        return Selected("netdev", [one for one in devices if one["netdev"] == rail["netdev"]])
    if rail.get("mac"):
        # VLANs, bonds and bridges share their parent's MAC; the port itself is what is meant.
        found = [one for one in devices if _has_mac(one, rail["mac"]) and not _stacked(one)]
        return Selected("mac", found)
    if rail.get("pci"):
        found = [one for one in devices if same_pci(one.get("pci"), rail["pci"])]
        if len(found) > 1 and (rail.get("hca") or hca_netdev is not None):
            # Two ports of one card share the bus address, and so do a port, its representors and its IPoIB
            # partitions; the HCA's port tells them apart.
            found = [one for one in found if one["netdev"] == hca_netdev]
        return Selected("pci", found)
    if rail.get("hca"):
        return Selected("hca", [one for one in devices if one["netdev"] == hca_netdev])
    return Selected(None, [])


def bind(rails: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> dict[str, Bound]:
    """Bind all rails of a node.

    Args:
        rails: the node's rails as in plan.json.
        facts: the node's facts row.

    Returns:
        Rail name -> Bound, in the plan's order.
    """
    bound = {str(rail["name"]): _bind_rail(rail, facts) for rail in rails}
    owners: dict[str, str] = {}
    for name, one in bound.items():
        if one.netdev is None:
            continue
        netdev = str(one.netdev["netdev"])
        if netdev in owners:
            detail = f"{netdev} is {owners[netdev]} and {name} at once"
            one.findings.append(Finding("netdev_shared", detail))
            bound[owners[netdev]].findings.append(Finding("netdev_shared", detail))
        else:
            owners[netdev] = name
    return bound


def netdevs(rails: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> dict[str, str]:
    """Return rail name -> netdev name for the rails that could be bound, for a node's test schedule."""
    return {
        name: str(one.netdev["netdev"]) for name, one in bind(rails, facts).items() if one.netdev is not None
    }


def hcas(rails: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> dict[str, str]:
    """Return rail name -> HCA port (`mlx5_0:1`) for the rails that have one, for a test schedule."""
    return {name: str(one.hca["hca"]) for name, one in bind(rails, facts).items() if one.hca is not None}


def port_names(rails: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> dict[str, str | None]:
    """Return rail name -> HCA port by the name that the node has for it now; what a job's settings name.

    Where the node shows no port of the rail's, as before its driver is loaded, the name is the one that the
    inventory gives, or None.
    """
    names = {}
    for name, one in bind(rails, facts).items():
        port = one.hca or one.renamed
        names[name] = str(port["hca"]) if port is not None else one.rail.get("hca")
    return names


def port_guids(rails: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> dict[str, str]:
    """Return rail name -> GUID of its port, for the rails whose port the facts show with one."""
    return {
        name: str(one.hca["port_guid"])
        for name, one in bind(rails, facts).items()
        if one.hca is not None and one.hca.get("port_guid")
    }


def without_ip(rail: Mapping[str, Any]) -> bool:
    """Tell whether a planned rail has no address; see `catalogue.tests.WITHOUT_IP`."""
    return not (rail.get("address") or rail.get("address6"))


def port_of_mac(facts: Mapping[str, Any], mac: object) -> Mapping[str, Any] | None:
    """Return the one netdev with a MAC that is a port of its own, or None where there is none, or several."""
    found = [one for one in _devices(facts) if _has_mac(one, mac) and not _stacked(one)]
    return found[0] if len(found) == 1 else None


def ports(facts: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the HCA ports of a node's facts row that have a name."""
    return [port for port in _rows(facts.get("hcas")) if isinstance(port.get("hca"), str)]


def named_port(rail: Mapping[str, Any], of_node: Sequence[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """Return the HCA port that a rail's own keys name: by `hca`, else the only one at its PCI address.

    Args:
        rail: the plan's rail.
        of_node: the node's HCA ports: `hca`, `netdev`, `pci`.
    """
    if rail.get("hca") is not None:
        return next((port for port in of_node if port.get("hca") == rail["hca"]), None)
    at_pci = ports_at(rail, of_node)
    return at_pci[0] if len(at_pci) == 1 else None


def ports_at(rail: Mapping[str, Any], of_node: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the HCA ports at a rail's PCI address: two of a ConnectX-3, one of others, or none."""
    return [port for port in of_node if same_pci(port.get("pci"), rail.get("pci"))]


def _bind_rail(rail: Mapping[str, Any], facts: Mapping[str, Any]) -> Bound:
    devices = _devices(facts)
    one = Bound(rail)
    named = named_port(rail, ports(facts))
    if rail.get("hca") is not None:
        one.hca = named
        if one.hca is None:
            one.findings.append(Finding("hca_missing", f"no HCA port {rail['hca']}"))
    parent = _parent(rail, devices, one, named)
    if parent is not None:
        one.netdev = parent
    _find_port(rail, facts, one)
    if parent is None:
        return one
    _check_parent(rail, parent, devices, one)
    if rail.get("vlan") is not None:
        name = f"{parent['netdev']}.{rail['vlan']}"
        one.netdev = next((device for device in devices if device["netdev"] == name), None)
        if one.netdev is None:
            one.findings.append(Finding("netdev_missing", f"no VLAN netdev {name}"))
    return one


def _find_port(rail: Mapping[str, Any], facts: Mapping[str, Any], one: Bound) -> None:
    """Find the HCA port of a rail whose inventory names none, or one that the node does not have."""
    if one.hca is not None:
        return
    if one.netdev is not None:
        # The RDMA device of a bond names the bond beside its GIDs, and else the first of its ports.
        names = (one.netdev["netdev"], *lag.ports(rail))
        own = [port for port in ports(facts) if port.get("netdev") in names]
    else:
        own = ports_at(rail, ports(facts))
    if len(own) > 1 and rail.get("hca") is not None:
        # A device that was renamed has as many ports as before.
        number = str(rail["hca"]).partition(":")[2]
        own = [port for port in own if str(port["hca"]).partition(":")[2] == number]
    # A software device may lie on a hardware port's netdev: which one is meant, the inventory must say.
    found = own[0] if len(own) == 1 else None
    if rail.get("hca") is None:
        one.hca = found
    elif found is not None:
        one.renamed = found
        where = f"of {one.netdev['netdev']}" if one.netdev is not None else f"at {rail['pci']}"
        for place, finding in enumerate(one.findings):
            if finding.cause == "hca_missing":
                detail = (
                    f"{finding.detail}: the port {where} is called {found['hca']} now. Remove hca from the "
                    f"rail in the inventory, or write {found['hca']}"
                )
                one.findings[place] = Finding("hca_missing", detail)


def _parent(
    rail: Mapping[str, Any], devices: Sequence[Mapping[str, Any]], one: Bound, named: Mapping[str, Any] | None
) -> Mapping[str, Any] | None:
    hca_netdev = named.get("netdev") if named is not None else None
    key, found = select(rail, devices, hca_netdev)
    if key is None or (key == "hca" and hca_netdev is None):
        if not one.findings:
            one.findings.append(
                Finding("netdev_missing", "nothing in the plan or on the node names its netdev")
            )
        return None
    wanted = {
        "netdev": f"netdev {rail.get('netdev')}",
        "mac": f"netdev with MAC {rail.get('mac')}",
        "pci": f"netdev at PCI address {rail.get('pci')}",
        "hca": f"netdev {hca_netdev} of HCA port {rail.get('hca')}",
    }[key]
    if not found:
        renamed = [device for device in devices if _has_mac(device, rail.get("mac")) and not _stacked(device)]
        called = f"; the port with MAC {rail['mac']} is called {renamed[0]['netdev']}" if renamed else ""
        one.findings.insert(0, Finding("netdev_missing", f"no {wanted}{called}"))
        return None
    if len(found) > 1:
        names = ", ".join(str(device["netdev"]) for device in found)
        detail = f"more than one {wanted}: {names}"
        if key == "pci":
            detail += ". Two ports share the address: name the rail's port by netdev as well"
        one.findings.insert(0, Finding("netdev_ambiguous", detail))
        return None
    return found[0]


def _check_parent(
    rail: Mapping[str, Any], device: Mapping[str, Any], devices: Sequence[Mapping[str, Any]], one: Bound
) -> None:
    name = device["netdev"]
    if rail.get("mac") is not None and not _has_mac(device, rail["mac"]):
        one.findings.append(
            Finding("netdev_differs", f"{name} has MAC {device.get('mac')}, not {rail['mac']}")
        )
    if rail.get("pci") is not None and not same_pci(device.get("pci"), rail["pci"]):
        one.findings.append(
            Finding("netdev_differs", f"{name} is at PCI address {device.get('pci')}, not {rail['pci']}")
        )
    if one.hca is not None and one.hca.get("netdev") not in (None, name, *lag.ports(rail)):
        one.findings.append(
            Finding("netdev_differs", f"HCA port {rail['hca']} belongs to {one.hca['netdev']}, not {name}")
        )
    if rail.get("bond") is not None:
        one.findings += [Finding("lag_differs", told) for told in lag.differences(rail, device, devices)]
    elif device.get("kind") == "bond":
        one.findings.append(Finding("lag_member", f"{name} is the LAG itself"))
    master = device.get("master")
    if master is not None:
        kind = next((other.get("kind") for other in devices if other["netdev"] == master), None)
        cause = "lag_member" if kind == "bond" else "netdev_enslaved"
        one.findings.append(Finding(cause, f"{name} is a member of {kind or 'device'} {master}"))
    mode, planned = device.get("ipoib_mode"), rail.get("ipoib_mode")
    if mode is not None and planned is not None and mode != planned:
        one.findings.append(Finding("ipoib_mode_differs", f"{name} is in {mode} mode, declared is {planned}"))
    wanted = rail.get("mtu")
    for most, why in _mtu_limits(device, one.hca):
        if isinstance(wanted, int) and 0 < most < wanted:
            detail = f"{name} carries an MTU of {most} at most{why}, {wanted} is asked"
            one.findings.append(Finding("mtu_too_large", detail))
            break


def _mtu_limits(device: Mapping[str, Any], hca: Mapping[str, Any] | None) -> list[tuple[int, str]]:
    """Return the limits of a netdev's MTU in bytes, and the reasons of those that are not the driver's."""
    limits = []
    mode = device.get("ipoib_mode")
    most = rdma_mtu.ipoib_most(mode, hca)
    if most is not None:
        active = (hca or {}).get("active_mtu_bytes")
        over = f" over an InfiniBand MTU of {active}" if mode == "datagram" and active is not None else ""
        limits.append((most, f" in {mode} mode{over}"))
    own = device.get("mtu_max_bytes")
    if isinstance(own, int):
        limits.append((own, ""))
    return limits


def _has_mac(device: Mapping[str, Any], mac: object) -> bool:
    return _same(device.get("permanent_mac"), mac) or _same(device.get("mac"), mac)


def _devices(facts: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return [device for device in _rows(facts.get("netdevs")) if isinstance(device.get("netdev"), str)]


def _stacked(device: Mapping[str, Any]) -> bool:
    return device.get("kind") in ("bond", "bridge", "vlan")


def same_pci(one: object, other: object) -> bool:
    """Compare bus addresses; one without a domain is in the first, and None is that of no device."""
    with_domain = ((text.count(":") == 1 and f"0000:{text}") or text for text in (str(one), str(other)))
    return one is not None and other is not None and _same(*with_domain)


def _same(one: object, other: object) -> bool:
    return isinstance(one, str) and isinstance(other, str) and one.lower() == other.lower()


def _rows(value: object) -> list[Mapping[str, Any]]:
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list) else []
