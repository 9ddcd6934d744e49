# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check keys, types and ranges of `fabric`, without a plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import WITHOUT_IP
from ansible_collections.railyard.fabric.plugins.module_utils.rails import plan
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import (
    gateways,
    hardware,
    schema,
    subnet_keys,
    values,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.schema import (
    Finding,
    Issue,
    Item,
    check_bond,
    check_lag,
    check_mac,
    check_mapping,
    check_vlan_name,
    is_right,
    locate,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.values import show

MTU_IPV6_MIN_BYTES = 1280


def check_fabric(fabric: Any) -> Iterator[Finding]:
    """Yield the errors in one `fabric`: keys, types, ranges, forms that exclude each other."""
    if not isinstance(fabric, Mapping):
        wrong = next(
            (problem for _path, problem in values.literal(fabric)), f"it is {show(fabric)}, not a mapping"
        )
        yield Finding("fabric", wrong, "write it as in inventories/v100-pair/group_vars/all/fabric.yml")
        return
    found = list(_found_in(fabric))
    # A misspelt key is missing under its right name; that is not reported again.
    meant = {finding.meant for finding in found} - {f"fabric.{key}" for key in _PARTS if key in fabric}
    yield from (finding for finding in found if finding.variable not in meant)


def _found_in(fabric: Item) -> Iterator[Finding]:
    scalars = {key: item for key, item in fabric.items() if key not in _PARTS}
    yield from check_mapping(scalars, schema.FABRIC, "fabric")
    if fabric.get("transport") is None:
        yield Finding("fabric.transport", "it is not set", schema.FABRIC["transport"].fix)
    yield from _check_mtu(fabric)
    yield from locate(_check_form(fabric), "fabric")
    yield from subnet_keys.check_subnet(fabric)
    for key in _PARTS:
        if (part := fabric.get(key)) is None:
            continue
        if (wrong := schema.FABRIC[key].check(part)) is not None:
            yield Finding(f"fabric.{key}", wrong, schema.FABRIC[key].fix)
        elif key == "frontend":
            yield from check_mapping(part, schema.FRONTEND, "fabric.frontend")
            yield from locate(_check_frontend(part), "fabric.frontend")
        elif key == "leaves":
            yield from _check_leaves(fabric)
        else:
            yield from _check_list(fabric, key)


_PARTS = ("rails", "networks", "leaves", "frontend")


def _given(item: Item) -> set[str]:
    """Return the keys that are not null."""
    return {key for key, value in item.items() if value is not None}


def _mappings(items: Any) -> list[Mapping[str, Any]]:
    """Return the mappings in what should be a list of mappings."""
    return [item for item in items if isinstance(item, Mapping)] if isinstance(items, list) else []


def _check_list(fabric: Item, key: str) -> Iterator[Finding]:
    """Check the rails or the networks, each by itself and against those before it."""
    names: list[Any] = []
    for index, item in enumerate(fabric[key]):
        where = f"fabric.{key}[{index}]"
        if not isinstance(item, Mapping):
            names.append(None)
            yield Finding(where, f"it is {show(item)}, not a mapping", schema.FABRIC[key].fix)
            continue
        name = item.get("name")
        rail = name if key == "rails" and isinstance(name, str) else None
        yield from check_mapping(item, schema.RAIL if key == "rails" else schema.NETWORK, where, rail)
        yield from locate(_check_name(name, names), where, rail)
        names.append(name)
        found = _check_rail(fabric, item) if key == "rails" else _check_network(fabric, item, index)
        yield from locate(found, where, rail)
    if key == "rails":
        yield from hardware.check_wires(fabric[key])


def _check_name(name: Any, before: Sequence[Any]) -> Iterator[Issue]:
    if name is None:
        yield "name", "it is not set", schema.RAIL["name"].fix
    elif isinstance(name, str) and name in before:
        yield "name", f"{name} is also the name of number {before.index(name)} (from 0)", "rename one"


def _check_rail(fabric: Item, item: Item) -> Iterator[Issue]:
    """Check the keys of one rail against each other and the fabric."""
    given, transport = _given(item), fabric.get("transport")
    for one, many in (("subnet", "subnets"), ("subnet6", "subnets6"), ("leaf", "leaves")):
        if {one, many} <= given:
            yield many, f"{one} and {many} are both set", f"keep one of {one}, {many}"
    if not given & {"subnet", "subnets", "subnet6", "subnets6"} and transport not in WITHOUT_IP:
        fix = "add `subnet: 10.0.1.0/24` (only transports infiniband and efa do without)"
        yield "subnet", "the rail has no subnet", fix
    if not given.intersection(schema.SELECTORS):
        fix = "add pci" if transport == "efa" else "add netdev, mac, pci or hca"
        yield "pci" if transport == "efa" else "netdev", "no key identifies the rail's interface", fix
    yield from hardware.check_efa(item, transport)
    yield from check_bond(item)
    yield from check_lag(item, transport)
    yield from _check_vlan(item)
    yield from gateways.check_gateway(fabric, item)
    yield from gateways.check_node_prefix(fabric, item)
    yield from check_mac(item.get("mac"), transport)
    for key in ("leaf", "leaves"):
        if fabric.get("cabling") == "back_to_back" and key in given:
            yield key, "the rail is cabled back to back, so it has no switch", gateways.SWITCHED_FIX
    if transport == "infiniband" and "vlan" in given:
        fix = "remove it; the subnet manager configures partitions (P_Keys)"
        yield "vlan", "an IPoIB interface has no VLANs", fix
    yield from _check_ipoib_mode(item, transport)


def _check_vlan(item: Item) -> Iterator[Issue]:
    otherwise = ", or let the switch tag and write no vlan"
    yield from check_vlan_name("vlan", item.get("netdev"), item.get("vlan"), otherwise)


def _check_ipoib_mode(item: Item, transport: Any) -> Iterator[Issue]:
    if transport in ("roce", "tcp") and is_right(schema.RAIL, item, "ipoib_mode"):
        message = f"it is for IPoIB, but the transport is {transport}"
        yield "ipoib_mode", message, "remove it, or correct the transport"


def _check_mtu(fabric: Item) -> Iterator[Finding]:
    mtu, transport = fabric.get("mtu"), fabric.get("transport")
    infiniband = transport == "infiniband"
    yield from locate(hardware.check_efa(fabric, transport), "fabric")
    if transport == "efa":
        return
    low, high = schema.MTU_BYTES["infiniband" if infiniband else "ethernet"]
    yield from locate(_check_ipoib_mode(fabric, transport), "fabric")
    if mtu is None:
        if not infiniband:
            yield Finding("fabric.mtu", "it is not set", schema.FABRIC["mtu"].fix)
    elif not is_right(schema.FABRIC, fabric, "mtu"):
        return
    elif mtu < low or (mtu > high and not infiniband):
        kind = "an InfiniBand" if infiniband else "an Ethernet"
        message = f"{mtu} is not an MTU of {kind} link ({low} to {high} bytes)"
        yield Finding("fabric.mtu", message, schema.FABRIC["mtu"].fix)
    elif mtu < MTU_IPV6_MIN_BYTES and _has_ipv6(fabric):
        least = f"RFC 8200: at least {MTU_IPV6_MIN_BYTES} bytes"
        message = f"{mtu} is too small for IPv6, which a rail has ({least})"
        yield Finding("fabric.mtu", message, "raise the MTU, or remove the IPv6 subnets")
    elif infiniband:
        yield from _check_ipoib_mtu(fabric, mtu)


def _check_ipoib_mtu(fabric: Item, mtu: int) -> Iterator[Finding]:
    """Check the MTU against the IPoIB mode of each rail; where modes differ, name the first that fails."""
    most = schema.IPOIB_MTU_MAX_BYTES
    common = fabric.get("ipoib_mode") or "datagram"
    modes: list[tuple[Any, Any]] = [(None, common)]
    if isinstance(listed := fabric.get("rails"), list):
        modes = [(item.get("name"), item.get("ipoib_mode") or common) for item in _mappings(listed)]
    # A value that is not a mode has its own message.
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


def _has_ipv6(fabric: Item) -> bool:
    listed = any(item.get("subnet6") or item.get("subnets6") for item in _mappings(fabric.get("rails")))
    return listed or ":" in str(fabric.get("supernet") or "")


def _check_form(fabric: Item) -> Iterator[Issue]:
    """Check that the rails are either listed or computed, and that the computed form is complete."""
    computed = [key for key in schema.COMPUTED if fabric.get(key) is not None]
    if fabric.get("rails") is not None:
        for key in computed:
            note = " (a listed rail has its own)" if key in schema.RAIL else ""
            fix = f"keep rails and remove {key}{note}, or remove rails"
            yield key, "it belongs to the computed form, but rails is set as well", fix
        return
    if not computed:
        fix = "list the rails, or give rail_count, supernet, rail_prefix and netdev_pattern"
        yield "rails", "neither rails nor rail_count is set", fix
        return
    needed = ["rail_count"]
    if fabric.get("transport") not in WITHOUT_IP or "supernet" in computed or "rail_prefix" in computed:
        needed += ["supernet", "rail_prefix"]
    for key in needed:
        if key not in computed:
            yield key, "the computed form needs it, but it is not set", schema.COMPUTED[key].fix
    if fabric.get("transport") == "efa":
        if "hca_pattern" not in computed:
            yield "rails", "no key identifies the rails' devices", "list the rails, each with its pci"
    elif "netdev_pattern" not in computed and "hca_pattern" not in computed:
        fix = schema.COMPUTED["netdev_pattern"].fix + ", or give hca_pattern"
        yield "netdev_pattern", "no key identifies the rails' interfaces", fix
    if is_right(schema.COMPUTED, fabric, "rail_count"):
        yield from _check_computed(fabric)


def _check_computed(fabric: Item) -> Iterator[Issue]:
    """Check that the supernet is large enough, and the names that the patterns give the last rail."""
    count = fabric["rail_count"]
    if fabric.get("cabling") == "back_to_back" and fabric.get("gateway") in ("first", "last"):
        yield "gateway", *gateways.NO_ROUTER
    yield from gateways.check_computed_node_prefix(fabric)
    if is_right(schema.COMPUTED, fabric, "supernet", "rail_prefix"):
        fix = f"take a larger supernet or a longer rail_prefix for {count} rails"
        small = list(_too_small(fabric, "supernet", [fabric["supernet"]], fix))
        if small:
            yield from small
            return
        if is_right(schema.COMPUTED, fabric, "rail_routes"):
            fix = "name supernets that are divided like `supernet`: rail k gets the k-th part of each"
            yield from _too_small(fabric, "rail_routes", fabric["rail_routes"], fix)
    for key, check in (("netdev_pattern", values.netdev), ("hca_pattern", values.hca)):
        if is_right(schema.COMPUTED, fabric, key):
            name = fabric[key].replace("{rail}", str(count - 1))
            if key == "netdev_pattern":
                yield from ((key, message, fix) for _netdev, message, fix in check_bond({"netdev": name}))
            if (wrong := check(name)) is not None:
                yield key, f"for rail {count - 1}: {wrong}", schema.COMPUTED[key].fix


def _too_small(fabric: Item, key: str, supernets: Sequence[str], fix: str) -> Iterator[Issue]:
    """Yield the supernets that are too small for the last rail."""
    for supernet in supernets:
        try:
            plan.computed_subnet(supernet, fabric["rail_prefix"], fabric["rail_count"] - 1, f"fabric.{key}")
        except plan.PlanError as error:
            yield key, f"too small: {error.problem}", fix


def _check_leaves(fabric: Item) -> Iterator[Finding]:
    """Check the leaves; a leaf that no rail names is probably misspelt."""
    patched: set[str] = set()
    for item in _mappings(fabric.get("rails")):
        by_unit = item.get("leaves")
        found = [item.get("leaf"), *(by_unit.values() if isinstance(by_unit, Mapping) else ())]
        patched.update(name for name in found if isinstance(name, str))
    for name, leaf in fabric["leaves"].items():
        where = f"fabric.leaves.{name}"
        if name not in patched:
            fix = f"correct it; rails name: {', '.join(sorted(patched)) or 'none'}"
            yield Finding(where, "no rail is patched to a leaf of this name", fix)
        if isinstance(leaf, Mapping):
            yield from check_mapping(leaf, schema.LEAF, where)
        else:
            yield Finding(where, f"it is {show(leaf)}, not a mapping", schema.FABRIC["leaves"].fix)


def _check_frontend(frontend: Item) -> Iterator[Issue]:
    """Check the keys of the frontend against each other."""
    given, dhcp4 = _given(frontend), frontend.get("dhcp4")
    if "netdev" not in given:
        yield "netdev", "it is not set", schema.FRONTEND["netdev"].fix
    if dhcp4 is True and "address" in given:
        yield "address", "dhcp4 is true as well", "keep one of dhcp4, address"
    if frontend.get("manage") is True and not dhcp4 and "address" not in given:
        fix = "set dhcp4: true or an address, or manage: false"
        yield "manage", "the frontend has neither dhcp4 nor an address to write", fix
    if not is_right(schema.FRONTEND, frontend, "gateway"):
        return
    if "address" not in given:
        fix = "give the address as well, or leave the gateway to DHCP"
        yield "gateway", "there is a gateway without an address", fix
    elif is_right(schema.FRONTEND, frontend, "address"):
        wrong = values.gateway_of(frontend["gateway"], frontend["address"])
        if wrong is not None:
            yield "gateway", wrong, "name a gateway inside the frontend's network"


def _check_network(fabric: Item, item: Item, index: int) -> Iterator[Issue]:
    """Check the keys of one network against each other, other networks and the frontend."""
    listed, before = _mappings(fabric["networks"]), _mappings(fabric["networks"][:index])
    manage, name = item.get("manage") is True, str(item.get("name"))
    yield from _check_vlan(item)
    yield from _check_frontend_port(item, fabric.get("frontend"))
    if (
        is_right(schema.NETWORK, item, "mtu", "subnet")
        and item["mtu"] < MTU_IPV6_MIN_BYTES
        and ":" in item["subnet"]
    ):
        message = f"{item['mtu']} is too small for IPv6 (RFC 8200: at least {MTU_IPV6_MIN_BYTES} bytes)"
        yield "mtu", message, "raise the MTU"
    yield from _check_vlan_mtu(item, listed)
    port = _port_and_vlan(item)
    owner = next((str(other.get("name")) for other in before if _port_and_vlan(other) == port), name)
    if port is not None and owner != name:
        message = f"{item['netdev']} is that of network {owner} as well"
        yield "netdev", message, "give one of them a vlan, or another port"
    if manage and item.get("netdev") is None:
        fix = "add the netdev, or write manage: false"
        yield "netdev", "the network has no netdev to write", fix
    if item.get("bmc") is not True:
        return
    for other in [other for other in before if other.get("bmc") is True][:1]:
        fix = "keep one: a node's bmc_address is on one network"
        yield "bmc", f"network {other.get('name')} has bmc: true as well", fix
    if item.get("purpose") != "out_of_band":
        message = f"BMCs are out of band, but the purpose is {show(item.get('purpose'))}"
        yield "purpose", message, "write purpose: out_of_band"
    if manage:
        yield "manage", "Railyard cannot write a BMC's interface", "write manage: false"
    if item.get("subnet") is None:
        yield "subnet", "the BMCs' network has no subnet", schema.NETWORK["subnet"].fix


def _port_and_vlan(item: Item) -> tuple[str, str] | None:
    """Return the port that carries a network and its VLAN, which may be in the netdev's name."""
    if not isinstance(netdev := item.get("netdev"), str):
        return None
    port, _dot, vlan = netdev.rpartition(".")
    if item.get("vlan") is not None or not port or not vlan.isdigit():
        return netdev, str(item.get("vlan"))
    return port, vlan


def _check_vlan_mtu(item: Item, listed: Sequence[Item]) -> Iterator[Issue]:
    """Check that no VLAN has a larger MTU than the port that carries it, where both are set."""
    netdev = item.get("netdev")
    if None in (item.get("vlan"), netdev) or not is_right(schema.NETWORK, item, "mtu"):
        return
    for other in listed:
        carries = other.get("netdev") == netdev and other.get("vlan") is None
        if carries and is_right(schema.NETWORK, other, "mtu") and other["mtu"] < item["mtu"]:
            message = f"{item['mtu']} is more than the {other['mtu']} of {netdev}, which carries the VLAN"
            yield "mtu", message, "raise the port's MTU, or lower the VLAN's"


def _check_frontend_port(item: Item, frontend: Any) -> Iterator[Issue]:
    """Check that no network is written over the frontend's port, which Ansible connects over."""
    netdev = item.get("netdev")
    there = isinstance(frontend, Mapping) and item.get("manage") is True and netdev is not None
    if not there or netdev != frontend.get("netdev"):
        return
    if item.get("vlan") is None:
        message = f"{netdev} is the frontend's: writing the network would cut Ansible's connection"
        yield "netdev", message, "give the network its own port or vlan"
    elif frontend.get("manage") is not True:
        message = f"its VLAN is on {netdev}, the frontend, which Railyard does not manage"
        yield "netdev", message, "write the frontend's addresses and manage: true there, or take another port"
