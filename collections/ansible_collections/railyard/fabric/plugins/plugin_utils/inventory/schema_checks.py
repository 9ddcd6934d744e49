# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keys, types and ranges of `fabric` and of the host variables: what can be said without a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.rails import plan
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import values
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.leaves import check_leaves
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.schema import (
    COMPUTED,
    FABRIC,
    FRONTEND,
    IPOIB_MTU_MAX_BYTES,
    MAC_OCTETS_FIX,
    MTU_BYTES,
    NETWORK,
    RAIL,
    Field,
    Finding,
    check_mapping,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.values import show

__all__ = ["Finding", "check_fabric"]

MTU_IPV6_MIN_BYTES = 1280


def check_fabric(fabric: Any) -> Iterator[Finding]:
    """Yield all that is wrong with one `fabric` in itself: keys, types, ranges, forms that do not mix."""
    if not isinstance(fabric, Mapping):
        wrong = next(
            (problem for _path, problem in values.literal(fabric)), f"it is {show(fabric)}, not a mapping"
        )
        yield Finding("fabric", wrong, "write it as in inventories/v100-pair/group_vars/all/fabric.yml")
        return
    found = list(_found_in(fabric))
    # A key that is misspelt is missing under its right name, which needs no second word.
    meant = {finding.meant for finding in found} - {f"fabric.{key}" for key in _PARTS if key in fabric}
    yield from (finding for finding in found if finding.variable not in meant)


def _found_in(fabric: Mapping[str, Any]) -> Iterator[Finding]:
    yield from check_mapping(
        {key: item for key, item in fabric.items() if key not in _PARTS}, FABRIC, "fabric"
    )
    if fabric.get("transport") is None:
        yield Finding("fabric.transport", "it is not set", FABRIC["transport"].fix)
    yield from _check_mtu(fabric)
    yield from _check_form(fabric)
    yield from _check_list(fabric, "rails", RAIL)
    yield from _check_list(fabric, "networks", NETWORK)
    yield from check_leaves(fabric)
    yield from _check_networks(fabric)
    yield from _check_frontend(fabric)


_PARTS = ("rails", "networks", "frontend", "leaves")
_GATEWAYS = ("gateway", "gateway6")
_NO_ROUTER = (
    "the rails are cabled back to back, so there is no router between the nodes",
    "remove it, or write cabling: switched",
)


def _check_list(fabric: Mapping[str, Any], key: str, fields: Mapping[str, Field]) -> Iterator[Finding]:
    items = fabric.get(key)
    if items is None:
        return
    wrong = FABRIC[key].check(items)
    if wrong is not None:
        yield Finding(f"fabric.{key}", wrong, FABRIC[key].fix)
        return
    seen: dict[str, int] = {}
    for index, item in enumerate(items):
        where = f"fabric.{key}[{index}]"
        if not isinstance(item, Mapping):
            yield Finding(where, f"it is {show(item)}, not a mapping", FABRIC[key].fix)
            continue
        name = item.get("name")
        rail = name if key == "rails" and isinstance(name, str) else None
        yield from check_mapping(item, fields, where, rail)
        if name is None:
            yield Finding(f"{where}.name", "it is not set", RAIL["name"].fix, None, rail)
        elif isinstance(name, str) and name in seen:
            yield Finding(
                f"{where}.name",
                f"{name} is also the name of number {seen[name]} (from 0)",
                "rename one",
                None,
                rail,
            )
        elif isinstance(name, str):
            seen[name] = index
        if key == "rails":
            yield from _check_rail(fabric, item, where, rail)


def _check_rail(
    fabric: Mapping[str, Any], item: Mapping[str, Any], where: str, rail: str | None
) -> Iterator[Finding]:
    for one, many in (("subnet", "subnets"), ("subnet6", "subnets6"), ("leaf", "leaves")):
        if item.get(one) is not None and item.get(many) is not None:
            yield Finding(
                f"{where}.{many}", f"{one} and {many} are both set", f"keep one of {one}, {many}", None, rail
            )
    has_subnet = any(item.get(key) is not None for key in ("subnet", "subnets", "subnet6", "subnets6"))
    if not has_subnet and fabric.get("transport") != "infiniband":
        fix = "add `subnet: 10.0.1.0/24` (only transport infiniband does without)"
        yield Finding(f"{where}.subnet", "the rail has no subnet", fix, None, rail)
    if all(item.get(key) is None for key in ("netdev", "mac", "pci", "hca")):
        fix = "add netdev, mac, pci or hca"
        yield Finding(f"{where}.netdev", "nothing says which interface the rail is", fix, None, rail)
    if values.is_bond(item.get("netdev")):
        message = f"{item['netdev']} {plan.BOND_REFUSED}"
        yield Finding(f"{where}.netdev", message, plan.BOND_FIX, None, rail)
    yield from _check_vlan_name(item, where, rail)
    yield from _check_gateway(fabric, item, where, rail)
    transport = fabric.get("transport")
    if RAIL["mac"].check(item.get("mac")) is None and (wrong := values.mac_octets(item["mac"], transport)):
        yield Finding(f"{where}.mac", wrong, MAC_OCTETS_FIX, None, rail)
    for key in ("leaf", "leaves"):
        if fabric.get("cabling") == "back_to_back" and item.get(key) is not None:
            fix = "remove it, or write cabling: switched"
            message = "the rail is cabled back to back, and so patched to no switch"
            yield Finding(f"{where}.{key}", message, fix, None, rail)
    if transport == "infiniband" and item.get("vlan") is not None:
        fix = "remove it; partitions (P_Keys) are the subnet manager's"
        yield Finding(f"{where}.vlan", "an IPoIB interface has no VLANs", fix, None, rail)
    if transport in ("roce", "tcp") and RAIL["ipoib_mode"].check(item.get("ipoib_mode")) is None:
        yield _ipoib_elsewhere(f"{where}.ipoib_mode", transport, rail)


def _check_gateway(
    fabric: Mapping[str, Any], item: Mapping[str, Any], where: str, rail: str | None
) -> Iterator[Finding]:
    """Check that the two gateways are of a family each, and that there can be one."""
    one, other = (item.get(key) if RAIL[key].check(item.get(key)) is None else None for key in _GATEWAYS)
    if other is not None and "." in other and ":" not in other:
        message = f"{other} is IPv4, which goes under gateway"
        yield Finding(f"{where}.gateway6", message, RAIL["gateway6"].fix, None, rail)
    elif one is not None and other is not None and ":" in one:
        message = f"gateway is {one}, of IPv6 as well, and only one of the two would be used"
        yield Finding(f"{where}.gateway6", message, "keep one of gateway, gateway6", None, rail)
    for key, value in zip(_GATEWAYS, (one, other), strict=True):
        if fabric.get("cabling") == "back_to_back" and value not in (None, "none"):
            yield Finding(f"{where}.{key}", *_NO_ROUTER, None, rail)


def _check_vlan_name(item: Mapping[str, Any], where: str, rail: str | None) -> Iterator[Finding]:
    """Check the name that a VLAN's interface gets, `netdev.vlan`: the kernel has room for 15 characters."""
    netdev, vlan = item.get("netdev"), item.get("vlan")
    sound = RAIL["netdev"].check(netdev) is None and RAIL["vlan"].check(vlan) is None
    if sound and values.netdev(f"{netdev}.{vlan}") is not None:
        message = f"the VLAN's interface would be {netdev}.{vlan}, which has more than 15 characters"
        fix = "give the port a shorter name (a .link file), or let the switch tag and write no vlan"
        yield Finding(f"{where}.vlan", message, fix, None, rail)


def _ipoib_elsewhere(variable: str, transport: str, rail: str | None) -> Finding:
    message = f"it is for IPoIB, and the transport is {transport}"
    return Finding(variable, message, "remove it, or correct the transport", None, rail)


def _check_mtu(fabric: Mapping[str, Any]) -> Iterator[Finding]:
    mtu, transport = fabric.get("mtu"), fabric.get("transport")
    if transport in ("roce", "tcp") and FABRIC["ipoib_mode"].check(fabric.get("ipoib_mode")) is None:
        yield _ipoib_elsewhere("fabric.ipoib_mode", transport, None)
    if mtu is None:
        if transport != "infiniband":
            yield Finding("fabric.mtu", "it is not set", FABRIC["mtu"].fix)
        return
    if FABRIC["mtu"].check(mtu) is not None:
        return
    infiniband = transport == "infiniband"
    low, high = MTU_BYTES["infiniband" if infiniband else "ethernet"]
    if mtu < low or (mtu > high and not infiniband):
        kind = "an InfiniBand" if infiniband else "an Ethernet"
        yield Finding(
            "fabric.mtu", f"{mtu} is no MTU of {kind} link ({low} to {high} bytes)", FABRIC["mtu"].fix
        )
    elif mtu < MTU_IPV6_MIN_BYTES and _has_ipv6(fabric):
        yield Finding(
            "fabric.mtu",
            f"{mtu} is too small for IPv6, which a rail has (RFC 8200: at least {MTU_IPV6_MIN_BYTES} bytes)",
            "raise the MTU, or take the IPv6 subnets away",
        )
    elif infiniband:
        yield from _check_ipoib_mtu(fabric, mtu)


def _check_ipoib_mtu(fabric: Mapping[str, Any], mtu: int) -> Iterator[Finding]:
    """Check the MTU against the IPoIB mode of each rail; where modes differ, the first in fault is named."""
    most = IPOIB_MTU_MAX_BYTES
    common = fabric.get("ipoib_mode") or "datagram"
    modes: list[tuple[Any, Any]] = [(None, common)]
    listed = fabric.get("rails")
    if isinstance(listed, list):
        items = [item for item in listed if isinstance(item, Mapping)]
        modes = [(item.get("name"), item.get("ipoib_mode") or common) for item in items]
    # What is no mode at all has its own message.
    modes = [(rail, mode) for rail, mode in modes if isinstance(mode, str)]
    for rail, mode in modes:
        if most.get(mode, mtu) < mtu:
            limits = f"{most['datagram']} bytes in datagram mode, {most['connected']} in connected mode"
            message = f"{mtu} is beyond {mode} mode; IPoIB carries at most {limits}"
            fix = f"write mtu: {most['datagram']} or less, or ipoib_mode: connected"
            if mtu > max(most.values()) or mode == "connected":
                fix = f"write mtu: {most['connected']} or less"
            same = {other for _rail, other in modes} == {mode}
            named = rail if isinstance(rail, str) and not same else None
            yield Finding("fabric.mtu", message, fix, None, named)
            return


def _has_ipv6(fabric: Mapping[str, Any]) -> bool:
    listed = fabric.get("rails")
    items = [item for item in listed if isinstance(item, Mapping)] if isinstance(listed, list) else []
    supernet = fabric.get("supernet")
    return any(item.get("subnet6") or item.get("subnets6") for item in items) or ":" in str(supernet or "")


def _is_too_small_for_ipv6(network: Mapping[str, Any]) -> bool:
    sound = all(NETWORK[key].check(network.get(key)) is None for key in ("mtu", "subnet"))
    return sound and network["mtu"] < MTU_IPV6_MIN_BYTES and ":" in network["subnet"]


def _check_form(fabric: Mapping[str, Any]) -> Iterator[Finding]:
    """Check that the rails are either listed or computed, and that the computed form is whole."""
    computed = [key for key in COMPUTED if fabric.get(key) is not None]
    if fabric.get("rails") is not None:
        for key in computed:
            own = " (a listed rail has its own)" if key in RAIL else ""
            fix = f"keep rails and remove {key}{own}, or remove rails"
            yield Finding(f"fabric.{key}", "it belongs to the computed form, and rails is set as well", fix)
        return
    if not computed:
        fix = "list the rails, or give rail_count, supernet, rail_prefix and netdev_pattern"
        yield Finding("fabric.rails", "neither rails nor rail_count is set: there is no rail", fix)
        return
    needed = ["rail_count"]
    if fabric.get("transport") != "infiniband" or "supernet" in computed or "rail_prefix" in computed:
        needed += ["supernet", "rail_prefix"]
    for key in needed:
        if key not in computed:
            yield Finding(f"fabric.{key}", "the computed form needs it, and it is not set", COMPUTED[key].fix)
    if "netdev_pattern" not in computed and "hca_pattern" not in computed:
        fix = COMPUTED["netdev_pattern"].fix + ", or give hca_pattern"
        yield Finding("fabric.netdev_pattern", "nothing says which interface a rail is", fix)
    yield from _check_computed(fabric)


def _check_computed(fabric: Mapping[str, Any]) -> Iterator[Finding]:
    """Check the supernet against the rails it must hold, and what the patterns make of the last rail."""
    count, supernet, prefix = (fabric.get(key) for key in ("rail_count", "supernet", "rail_prefix"))
    if COMPUTED["rail_count"].check(count) is not None:
        return
    if fabric.get("cabling") == "back_to_back" and fabric.get("gateway") in ("first", "last"):
        yield Finding("fabric.gateway", *_NO_ROUTER)
    last = count - 1 if isinstance(count, int) else 0
    sound = [COMPUTED["supernet"].check(supernet) is None, COMPUTED["rail_prefix"].check(prefix) is None]
    if supernet is not None and isinstance(prefix, int) and all(sound):
        try:
            plan.computed_subnet(supernet, prefix, last)
        except plan.PlanError as error:
            fix = f"take a larger supernet or a longer rail_prefix: {count} rails are wanted"
            yield Finding("fabric.supernet", f"too small: {error.problem}", fix)
            return
        yield from _check_rail_routes(fabric, prefix, last)
    for key, check in (("netdev_pattern", values.netdev), ("hca_pattern", values.hca)):
        value = fabric.get(key)
        if value is not None and COMPUTED[key].check(value) is None:
            name = value.replace("{rail}", str(last))
            wrong = check(name)
            if key == "netdev_pattern" and values.is_bond(name):
                yield Finding(f"fabric.{key}", f"{name} {plan.BOND_REFUSED}", plan.BOND_FIX)
            if wrong is not None:
                yield Finding(f"fabric.{key}", f"for rail {last}: {wrong}", COMPUTED[key].fix)


def _check_rail_routes(fabric: Mapping[str, Any], prefix: int, last: int) -> Iterator[Finding]:
    routes = fabric.get("rail_routes")
    if routes is None or COMPUTED["rail_routes"].check(routes) is not None:
        return
    for other in routes:
        try:
            plan.computed_subnet(other, prefix, last, "fabric.rail_routes")
        except plan.PlanError as error:
            fix = "name supernets that are cut as `supernet` is: rail k gets the k-th part of each"
            yield Finding("fabric.rail_routes", f"too small: {error.problem}", fix)


def _check_vlan_mtu(item: Mapping[str, Any], listed: Sequence[Any], where: str) -> Iterator[Finding]:
    """Check that no VLAN has a larger MTU than the port that carries it, where both are told."""
    mtu, vlan, netdev = item.get("mtu"), item.get("vlan"), item.get("netdev")
    if None in (vlan, mtu, netdev) or NETWORK["mtu"].check(mtu) is not None:
        return
    for other in listed:
        same = isinstance(other, Mapping) and other.get("netdev") == netdev
        if not same or other.get("vlan") is not None or NETWORK["mtu"].check(other.get("mtu")) is not None:
            continue
        if other["mtu"] < mtu:
            message = f"{mtu} is more than the {other['mtu']} of {netdev}, which carries the VLAN"
            yield Finding(f"{where}.mtu", message, "raise the port's MTU, or lower the VLAN's")


def _check_way_in(item: Mapping[str, Any], frontend: Mapping[str, Any], where: str) -> Iterator[Finding]:
    """Check that no network is written over the frontend's port, by which Ansible comes."""
    same = item.get("manage") is True and item.get("netdev") is not None
    if same and item["netdev"] == frontend.get("netdev"):
        if item.get("vlan") is None:
            message = f"{item['netdev']} is the frontend's: writing the network would take the way in"
            yield Finding(f"{where}.netdev", message, "give the network a port or a vlan of its own")
        elif frontend.get("manage") is not True:
            message = f"its VLAN lies on {item['netdev']}, the frontend, which Railyard does not manage"
            fix = "write the frontend's addresses and manage: true there, or take another port"
            yield Finding(f"{where}.netdev", message, fix)


def _check_frontend(fabric: Mapping[str, Any]) -> Iterator[Finding]:
    frontend = fabric.get("frontend")
    if frontend is None:
        return
    if not isinstance(frontend, Mapping):
        yield Finding("fabric.frontend", f"it is {show(frontend)}, not a mapping", FABRIC["frontend"].fix)
        return
    yield from check_mapping(frontend, FRONTEND, "fabric.frontend")
    if frontend.get("netdev") is None:
        yield Finding("fabric.frontend.netdev", "it is not set", FRONTEND["netdev"].fix)
    if frontend.get("dhcp4") is True and frontend.get("address") is not None:
        yield Finding("fabric.frontend.address", "dhcp4 is true as well", "keep one of dhcp4, address")
    if frontend.get("manage") is True and not frontend.get("dhcp4") and frontend.get("address") is None:
        fix = "set dhcp4: true or an address, or manage: false"
        yield Finding("fabric.frontend.manage", "it is to be written, but has neither dhcp4 nor address", fix)
    if frontend.get("gateway") is not None and FRONTEND["gateway"].check(frontend["gateway"]) is None:
        if frontend.get("address") is None:
            fix = "give the address as well, or leave the gateway to DHCP"
            yield Finding("fabric.frontend.gateway", "there is a gateway without an address", fix)
        elif FRONTEND["address"].check(frontend["address"]) is None:
            wrong = values.gateway_of(frontend["gateway"], frontend["address"])
            if wrong is not None:
                yield Finding(
                    "fabric.frontend.gateway", wrong, "name a gateway inside the frontend's network"
                )


def _check_networks(fabric: Mapping[str, Any]) -> Iterator[Finding]:
    """Check what the keys of one network ask of each other."""
    listed = fabric.get("networks")
    of_bmcs: str | None = None
    taken: dict[tuple[str, str], str] = {}
    frontend = fabric.get("frontend") if isinstance(fabric.get("frontend"), Mapping) else None
    for index, item in enumerate(listed if isinstance(listed, list) else []):
        if not isinstance(item, Mapping):
            continue
        where = f"fabric.networks[{index}]"
        yield from _check_vlan_name(item, where, None)
        yield from _check_way_in(item, frontend or {}, where)
        if _is_too_small_for_ipv6(item):
            message = f"{item['mtu']} is too small for IPv6 (RFC 8200: at least {MTU_IPV6_MIN_BYTES} bytes)"
            yield Finding(f"{where}.mtu", message, "raise the MTU")
        yield from _check_vlan_mtu(item, listed or [], where)
        if isinstance(item.get("netdev"), str):
            port, _dot, vlan = item["netdev"].rpartition(".")
            if item.get("vlan") is not None or not port or not vlan.isdigit():
                port, vlan = item["netdev"], str(item.get("vlan"))
            owner = taken.setdefault((port, vlan), str(item.get("name")))
            if owner != str(item.get("name")):
                message = f"{item['netdev']} is that of network {owner} as well"
                yield Finding(f"{where}.netdev", message, "give one of them a vlan, or another port")
        if item.get("manage") is True and item.get("netdev") is None:
            fix = "add the netdev, or write manage: false"
            yield Finding(f"{where}.netdev", "the network is to be written, and has no netdev", fix)
        if item.get("bmc") is not True:
            continue
        if of_bmcs is not None:
            fix = "keep one: a node's bmc_address is on one network"
            yield Finding(f"{where}.bmc", f"network {of_bmcs} has bmc: true as well", fix)
        of_bmcs = of_bmcs or str(item.get("name"))
        if item.get("purpose") != "out_of_band":
            message = f"BMCs are out of band, and the purpose is {show(item.get('purpose'))}"
            yield Finding(f"{where}.purpose", message, "write purpose: out_of_band")
        if item.get("manage") is True:
            message = "Railyard writes nodes' interfaces, and a BMC is none"
            yield Finding(f"{where}.manage", message, "write manage: false")
        if item.get("subnet") is None:
            yield Finding(f"{where}.subnet", "the BMCs' network has no subnet", NETWORK["subnet"].fix)
