# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the facts of a rail's link, address and MTU. Pure."""

from __future__ import annotations

import functools
import ipaddress
from collections.abc import Mapping, Sequence
from typing import Any, Union

from ..numeric import is_number
from ..rails import lag, pci_links
from ..rails.bind import Bound, Finding
from .ruling import Ruling

CHECKS = ("link", "address", "mtu")
# What a netdev with a carrier reports; `unknown` is that of a driver without operational states (RFC 2863).
_UP = ("up", "unknown")
#: States of an RDMA port without traffic, as in drivers/infiniband/core/sysfs.c.
NOT_ACTIVE = ("NOP", "DOWN", "INIT", "ARMED", "ACTIVE_DEFER")


def left_out(check: str, rail: Mapping[str, Any], transport: str | None) -> Ruling | None:
    """Return why the inventory excludes a rail from this check, or None."""
    if check == "address" and not _planned(rail):
        return Ruling.not_applicable("the inventory declares no subnet for this rail")
    if check == "link" and transport == "efa":
        return Ruling.not_applicable("an EFA device has no netdev; its port is judged by rdma_port")
    if check == "link" and transport == "infiniband" and not _has_netdev(rail):
        basis = "the inventory names no netdev for this InfiniBand rail; its port is judged by rdma_port"
        return Ruling.not_applicable(basis)
    if check == "mtu" and rail.get("mtu") is None:
        return Ruling.not_applicable("the inventory declares no MTU")
    return None


def rule(
    check: str, node: str, bound: Bound, node_class: str | None, owners: Mapping[str, Sequence[str]]
) -> Ruling:
    """Say what a node's facts answer of a rail.

    Args:
        check: one of CHECKS, which the inventory does not leave out.
        node: the node's name.
        bound: the plan's rail, bound to the facts.
        node_class: what the plan declares the node to be.
        owners: bare rail address -> the nodes that have it; empty where only this node is known.
    """
    rail = bound.rail
    if bound.netdev is None:
        ruling = Ruling(basis="the inventory asks for this rail")
        if check == "link" and is_bare_port(bound):
            port = (bound.hca or {})["hca"]
            return ruling.recorded(
                f"{node} {rail['name']} ({port}): it has no netdev, as without ib_ipoib, and the link is its "
                "port's, which rdma_port judges; how its slot was trained is not read"
            )
        return _found(ruling, f"{node} {rail['name']}", bound)
    if check == "link":
        return _link(node, rail, bound, node_class)
    if check == "mtu":
        return _mtu(node, rail, bound)
    return _address(node, rail, bound.netdev, owners)


def _found(ruling: Ruling, on_rail: str, bound: Bound) -> Ruling:
    """Turn a ruling into the failure that is the first finding of the rail's binding."""
    return ruling.failed(bound.findings[0].cause, f"{on_rail}: {bound.findings[0].detail}")


def _link(node: str, rail: Mapping[str, Any], bound: Bound, node_class: str | None) -> Ruling:
    device = bound.netdev or {}
    on_rail = f"{node} {rail['name']}"
    where = f"{on_rail} ({device['netdev']})"
    observed = {key: device.get(key) for key in ("admin_up", "carrier", "operstate")}
    wanted: dict[str, Any] = {"admin_up": True, "carrier": True}
    basis = "a planned rail is up"
    rate = rail.get("rate_gbps")
    hardware = device.get("driver_class") == "hardware"
    speed = device.get("speed_mbps")
    if hardware and is_number(rate):
        # The bonding driver adds up the speeds of the ports that may send.
        rate = float(rate) * lag.links(rail)
        wanted["speed_mbps"] = rate * 1000
        observed["speed_mbps"] = speed
        basis += f", at its declared {rate:g} Gbit/s"
    ruling = Ruling.passed(observed, wanted, basis)
    down = device.get("admin_up") is False or device.get("carrier") is False
    # A port that the inventory does not name is no part of the link; rdma_port looks at it on RDMA rails.
    named = bound.hca if rail.get("hca") is not None else None
    if down or str(device.get("operstate")) in ("down", "lowerlayerdown", "notpresent"):
        return ruling.failed(_why_down(bound.hca), where)
    if named is not None and named.get("state") in NOT_ACTIVE:
        detail = f"{on_rail} (HCA port {rail['hca']} is {named['state']})"
        return ruling.failed(_why_down(named), detail)
    if bound.findings:
        return _found(ruling, on_rail, bound)
    if node_class == "hardware" and device.get("driver_class") in ("software", "virtual"):
        # Its thresholds would be of a link without a real rate.
        seen = f"its driver {device.get('driver')} is {device['driver_class']}"
        return ruling.failed("not_hardware", f"{where}: {seen}")
    if device.get("admin_up") is not True or device.get("carrier") is not True:
        return ruling.unknown("link_unknown", where)
    if device.get("operstate") not in _UP:
        return ruling.unknown("link_unknown", f"{where}: operstate is {str(device.get('operstate'))[:40]!r}")
    if "speed_mbps" in wanted:
        if not is_number(speed) or speed <= 0:
            return ruling.unknown("link_unknown", f"{where}: it states no speed")
        if speed != wanted["speed_mbps"]:
            seen = f"runs at {speed / 1000:g} Gbit/s, declared {rate:g}"
            return ruling.failed("link_speed", f"{where} {seen}")
    if slow := trained_low(bound):
        return ruling.failed(slow.cause, f"{where}: {slow.detail}")
    if hardware and not is_number(rate):
        return _undeclared_speed(ruling, where, device)
    return ruling


def _why_down(port: Mapping[str, Any] | None) -> str:
    """Return the cause of a link that is down: a port in state Initializing waits for its subnet manager."""
    waits = port is not None and (port.get("state"), port.get("link_layer")) == ("INIT", "InfiniBand")
    return "sm_missing" if waits else "link_down"


def _undeclared_speed(ruling: Ruling, where: str, device: Mapping[str, Any]) -> Ruling:
    """Compare a NIC's speed with its port's maximum, from which the bandwidth thresholds come too."""
    runs, most = _positive(device.get("speed_mbps")), _positive(device.get("speed_max_mbps"))
    ruling.observed["speed_mbps"] = device.get("speed_mbps")
    if not most:
        return ruling.recorded(
            f"{where} is up; its speed is recorded, not judged: the inventory declares no rate_gbps, and the "
            "driver does not tell what the port can do; declare rate_gbps of this rail"
        )
    ruling.floor["speed_mbps"], ruling.ceiling["speed_mbps"] = most, max(most, runs)
    if not runs:
        return ruling.unknown("link_unknown", f"{where}: it states no speed")
    if runs < most:
        seen = f"runs at {runs / 1000:g} Gbit/s, its port can do {most / 1000:g}"
        return ruling.failed("link_slow", f"{where} {seen}")
    return ruling


def _positive(value: Any) -> float:
    return max(float(value), 0.0) if is_number(value) else 0.0


def _mtu(node: str, rail: Mapping[str, Any], bound: Bound) -> Ruling:
    device = bound.netdev or {}
    seen = device.get("mtu_bytes")
    ruling = Ruling.passed({"mtu_bytes": seen}, {"mtu_bytes": rail["mtu"]}, "the inventory's MTU, exactly")
    if not isinstance(seen, int) or isinstance(seen, bool) or seen <= 0:
        return ruling.unknown("facts_garbled", f"{node} {device['netdev']}: mtu_bytes {seen!r}")
    if seen != rail["mtu"]:
        limit = next((one for one in bound.findings if one.cause == "mtu_too_large"), None)
        if limit is not None:
            return ruling.failed("mtu_too_large", f"{node} {rail['name']}: {limit.detail}")
        # A datagram netdev takes the MTU of its partition's multicast group, whatever it was given.
        clamped = device.get("ipoib_mode") == "datagram" and seen < rail["mtu"]
        detail = f"{node} {rail['name']} ({device['netdev']}) has {seen}, the plan's is {rail['mtu']}"
        return ruling.failed("ipoib_mtu_small" if clamped else "mtu_differs", detail)
    return ruling


def _address(
    node: str, rail: Mapping[str, Any], device: Mapping[str, Any], owners: Mapping[str, Sequence[str]]
) -> Ruling:
    planned = _planned(rail)
    where = f"{node} {rail['name']} ({device['netdev']})"
    try:
        seen = interfaces(device.get("addresses")) + [
            one for one in interfaces(device.get("addresses6")) if not one.ip.is_link_local
        ]
    except ValueError as error:
        ruling = Ruling(observed={"addresses": None}, basis="the plan's address, and no other")
        return ruling.unknown("facts_garbled", f"{node} {device['netdev']}: {error}")
    texts = sorted(str(one) for one in seen)
    wanted = {"addresses": sorted(str(one) for one in planned)}
    ruling = Ruling.passed({"addresses": texts}, wanted, "the plan's address, and no other")
    missing = [one for one in planned if one not in seen]
    extra = [one for one in seen if one not in planned]
    others = sorted({other for one in planned for other in owners.get(str(one.ip), []) if other != node})
    if others:
        detail = f"{where}: {', '.join(str(one.ip) for one in planned)} is also on {', '.join(others)}"
        return ruling.failed("address_duplicate", detail)
    if missing and extra:
        return ruling.failed("address_wrong", f"{where} has {', '.join(texts)}, the plan's is {missing[0]}")
    if missing:
        return ruling.failed("address_missing", f"{where} has no {missing[0]}")
    if extra:
        return ruling.failed("address_extra", f"{where} also has {', '.join(str(one) for one in extra)}")
    if len(texts) != len(planned):
        return ruling.unknown("facts_garbled", f"{where} names an address twice")
    return ruling


# Python 3.9, which nodes may have, cannot evaluate `X | Y`.
_Interface = Union[ipaddress.IPv4Interface, ipaddress.IPv6Interface]  # noqa: UP007 - see above


def _has_netdev(rail: Mapping[str, Any]) -> bool:
    """Tell whether the plan names what may have a netdev: an InfiniBand port without IP needs none."""
    return bool(_planned(rail)) or any(rail.get(key) is not None for key in ("netdev", "mac", "pci"))


def is_bare_port(bound: Bound) -> bool:
    """Tell whether a rail is an InfiniBand port that `pci` names and that ib_ipoib has given no netdev."""
    port, rail = bound.hca or {}, bound.rail
    named = _planned(rail) or any(rail.get(key) is not None for key in ("netdev", "mac"))
    return port.get("link_layer") == "InfiniBand" and not named


@functools.lru_cache(maxsize=1 << 13)  # a run names each address of a node several times
def parse_interface(text: str) -> _Interface:
    """Return an address with its prefix length; parsed once, since that takes 20 us.

    Raises:
        ValueError: the text is none.
    """
    return ipaddress.ip_interface(text)


def _planned(rail: Mapping[str, Any]) -> list[_Interface]:
    return [parse_interface(rail[key]) for key in ("address", "address6") if rail.get(key)]


def interfaces(values: object) -> list[_Interface]:
    """Return a facts row's addresses.

    Raises:
        ValueError: they are no list of addresses with prefix length.
    """
    if not isinstance(values, list) or not all(isinstance(value, str) and "/" in value for value in values):
        raise ValueError(f"addresses are {values!r}")
    return [parse_interface(value) for value in values]


def trained_low(bound: Bound) -> Finding | None:
    """Find a PCI Express link of a rail that is trained below what both of its ends can do: its own first."""
    for place, link in enumerate(pci_links.of_end(bound)):
        if low := link.trained_low():
            at = f" at {link.key}" if link.key else ""
            if place:
                return Finding("upstream_slow", f"the PCIe link above it{at} runs {low}")
            return Finding("slot_slow", f"its PCIe link{at} runs {low}")
    return None
