# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Keys, types and ranges of `fabric` and of the host variables: what can be said without a plan."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils import rails
from ansible_collections.railyard.fabric.plugins.plugin_utils import value_checks as is_
from ansible_collections.railyard.fabric.plugins.plugin_utils.value_checks import Check, show

MTU_BYTES = {"ethernet": (576, 9978), "infiniband": (576, 65520)}
MTU_IPV6_MIN_BYTES = 1280


@dataclass(frozen=True)
class Finding:
    """Something wrong, before it is known which file says so.

    Attributes:
        variable: dotted path, as `fabric.rails[0].subnet`; its first word is the inventory variable.
        message: what is wrong.
        fix: what to write instead.
        host: node concerned, or None where the fabric itself is wrong.
        rail: rail concerned, or None.
    """

    variable: str
    message: str
    fix: str
    host: str | None = None
    rail: str | None = None


class Field(NamedTuple):
    """One key of a mapping: how its value is checked and what a right one looks like."""

    check: Check
    fix: str


_GATEWAY_RULE = Field(is_.choice("first", "last", "none"), "write first, last or none")
_RATE = Field(is_.positive_number, "write the link's rate in Gbit/s as a number, as `rate_gbps: 40`")
_VLAN = Field(is_.integer(1, 4094), "write a VLAN id, as `vlan: 100`")
_NETDEV = Field(is_.netdev, "write the interface's name as `ip link` shows it, as ens6")
_HCA = Field(is_.hca, "write device and port, as `mlx4_0:1`")
_MAC = Field(is_.mac, "write it in quotes, as '52:54:00:ab:cd:ef'")
_PCI = Field(is_.pci, "write the bus address as `lspci -D` shows it, in quotes: '0000:3b:00.0'")
_SUBNET = Field(is_.subnet(4), "write the network itself, as 10.0.1.0/24")
_SUBNET6 = Field(is_.subnet(6), "write the network itself, as fd00:0:0:1::/64")
_MANAGE = Field(is_.boolean, "write true or false")
_NAME = Field(is_.name, "write a short name of letters, digits, `_`, `-`, as rail0")

RAIL: dict[str, Field] = {
    "name": _NAME,
    "netdev": _NETDEV,
    "mac": _MAC,
    "pci": _PCI,
    "hca": _HCA,
    "subnet": _SUBNET,
    "subnets": Field(is_.by_unit(4), "map scalable units to networks, as `subnets: {su1: 10.0.1.0/24}`"),
    "subnet6": _SUBNET6,
    "subnets6": Field(is_.by_unit(6), "map scalable units to networks, as `subnets6: {su1: fd00:1::/64}`"),
    "gateway": Field(is_.gateway, "write an address inside the subnet, or first, last or none"),
    "gateway6": Field(is_.gateway, "write an address inside the subnet6, or first, last or none"),
    "vlan": _VLAN,
    "rate_gbps": _RATE,
    "leaf": Field(is_.text, "write the switch's name"),
}
COMPUTED: dict[str, Field] = {
    "rail_count": Field(is_.integer(1, 256), "write the number of rails, as `rail_count: 8`"),
    "supernet": Field(is_.subnet(None), "write the network that holds all rails, as 10.0.0.0/16"),
    "rail_prefix": Field(is_.integer(1, 128), "write the prefix length of one rail, as `rail_prefix: 24`"),
    "netdev_pattern": Field(is_.pattern, "write it with {rail}, as `ens{rail}`"),
    "hca_pattern": Field(is_.pattern, "write it with {rail}, as `mlx5_{rail}:1`"),
    "rate_gbps": _RATE,
    "gateway": _GATEWAY_RULE,
}
FABRIC: dict[str, Field] = {
    "transport": Field(is_.choice("roce", "infiniband", "tcp"), "write roce, infiniband or tcp"),
    "node_class": Field(
        is_.choice("hardware", "virtual", "container"), "write hardware, virtual or container"
    ),
    "mtu": Field(is_.integer(1, 65520), "write the rails' MTU in bytes, as `mtu: 9000`"),
    "rails": Field(
        is_.filled_list, "write a list of rails, as `- {name: rail0, netdev: ens6, subnet: 10.0.1.0/24}`"
    ),
    "cabling": Field(is_.choice("switched", "back_to_back"), "write switched or back_to_back"),
    "host_offset": Field(is_.integer(-(2**32), 2**64), "write a whole number, as `host_offset: 10`"),
    "frontend": Field(is_.mapping, "write a mapping, as `frontend: {netdev: enp5s0}`"),
    "networks": Field(is_.filled_list, "write a list of networks, each with a name and a purpose"),
    **COMPUTED,
}
FRONTEND: dict[str, Field] = {
    "netdev": _NETDEV,
    "dhcp4": _MANAGE,
    "address": Field(is_.interface(None), "write address and prefix length, as 192.168.1.10/24"),
    "gateway": Field(is_.address, "write an address"),
    "manage": _MANAGE,
}
NETWORK: dict[str, Field] = {
    "name": _NAME,
    "purpose": Field(is_.name, "write what it is for: storage, out_of_band, …"),
    "netdev": _NETDEV,
    "subnet": Field(is_.subnet(None), "write the network itself, as 192.168.1.0/24"),
    "vlan": _VLAN,
    "manage": _MANAGE,
}
OVERRIDE: dict[str, Field] = {
    "netdev": _NETDEV,
    "mac": _MAC,
    "pci": _PCI,
    "hca": _HCA,
    "address": Field(is_.interface(4), "write address and prefix length, as 10.0.1.77/24"),
    "address6": Field(is_.interface(6), "write address and prefix length, as fd00:0:0:1::77/64"),
}


def check_mapping(
    value: Mapping[Any, Any], fields: Mapping[str, Field], where: str, rail: str | None = None
) -> Iterator[Finding]:
    """Yield what is wrong with the keys and values of one mapping; a null value counts as not given."""
    for key, item in value.items():
        path = f"{where}.{key}"
        if key not in fields:
            near = difflib.get_close_matches(str(key), fields, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            yield Finding(
                path, f"unknown key {show(key)}", f"{hint}known keys: {', '.join(sorted(fields))}", None, rail
            )
        elif item is not None:
            for inner, wrong in is_.literal(item):
                yield Finding(
                    path + inner, wrong, "write the value itself; fabric holds literals only", None, rail
                )
            if not any(is_.literal(item)):
                wrong_type = fields[key].check(item)
                if wrong_type is not None:
                    yield Finding(path, wrong_type, fields[key].fix, None, rail)


def check_fabric(fabric: Any) -> Iterator[Finding]:
    """Yield all that is wrong with one `fabric` in itself: keys, types, ranges, forms that do not mix."""
    if not isinstance(fabric, Mapping):
        wrong = next(
            (problem for _path, problem in is_.literal(fabric)), f"it is {show(fabric)}, not a mapping"
        )
        yield Finding("fabric", wrong, "write it as in inventories/v100-pair/group_vars/all/fabric.yml")
        return
    yield from check_mapping(
        {key: item for key, item in fabric.items() if key not in _PARTS}, FABRIC, "fabric"
    )
    if fabric.get("transport") is None:
        yield Finding("fabric.transport", "it is not set", FABRIC["transport"].fix)
    yield from _check_mtu(fabric)
    yield from _check_form(fabric)
    yield from _check_list(fabric, "rails", RAIL)
    yield from _check_list(fabric, "networks", NETWORK)
    yield from _check_frontend(fabric)


_PARTS = ("rails", "networks", "frontend")


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
            yield Finding(f"{where}.name", "it is not set", _NAME.fix, None, rail)
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
    for one, many in (("subnet", "subnets"), ("subnet6", "subnets6")):
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


def _check_mtu(fabric: Mapping[str, Any]) -> Iterator[Finding]:
    mtu = fabric.get("mtu")
    infiniband = fabric.get("transport") == "infiniband"
    if mtu is None:
        if not infiniband:
            yield Finding("fabric.mtu", "it is not set", FABRIC["mtu"].fix)
        return
    if is_.integer(1, 65520)(mtu) is not None:
        return
    low, high = MTU_BYTES["infiniband" if infiniband else "ethernet"]
    if not low <= mtu <= high:
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


def _has_ipv6(fabric: Mapping[str, Any]) -> bool:
    listed = fabric.get("rails")
    items = [item for item in listed if isinstance(item, Mapping)] if isinstance(listed, list) else []
    supernet = fabric.get("supernet")
    return any(item.get("subnet6") or item.get("subnets6") for item in items) or ":" in str(supernet or "")


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
    last = count - 1 if isinstance(count, int) else 0
    sound = [COMPUTED["supernet"].check(supernet) is None, COMPUTED["rail_prefix"].check(prefix) is None]
    if supernet is not None and isinstance(prefix, int) and all(sound):
        try:
            rails.computed_subnet(supernet, prefix, last)
        except rails.PlanError as error:
            fix = f"take a larger supernet or a longer rail_prefix: {count} rails are wanted"
            yield Finding("fabric.supernet", f"too small: {error.problem}", fix)
    for key, check in (("netdev_pattern", is_.netdev), ("hca_pattern", is_.hca)):
        value = fabric.get(key)
        if value is not None and COMPUTED[key].check(value) is None:
            wrong = check(value.replace("{rail}", str(last)))
            if wrong is not None:
                yield Finding(f"fabric.{key}", f"for rail {last}: {wrong}", COMPUTED[key].fix)


def _check_frontend(fabric: Mapping[str, Any]) -> Iterator[Finding]:
    frontend = fabric.get("frontend")
    if frontend is None:
        return
    if not isinstance(frontend, Mapping):
        yield Finding("fabric.frontend", f"it is {show(frontend)}, not a mapping", FABRIC["frontend"].fix)
        return
    yield from check_mapping(frontend, FRONTEND, "fabric.frontend")
    if frontend.get("netdev") is None:
        yield Finding("fabric.frontend.netdev", "it is not set", _NETDEV.fix)
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
            wrong = is_.gateway_of(frontend["gateway"], frontend["address"])
            if wrong is not None:
                yield Finding(
                    "fabric.frontend.gateway", wrong, "name a gateway inside the frontend's network"
                )


def check_host_variables(node_index: Any, scalable_unit: Any, rail_overrides: Any) -> Iterator[Finding]:
    """Yield what is wrong with the keys and types of a node's own variables (None: not set)."""
    if node_index is not None:
        wrong = next((problem for _path, problem in is_.literal(node_index)), None) or is_.integer(0, 2**32)(
            node_index
        )
        if wrong is not None:
            yield Finding("node_index", wrong, "write a whole number ≥ 0 without quotes, as `node_index: 7`")
    if scalable_unit is not None:
        wrong = next((problem for _path, problem in is_.literal(scalable_unit)), None) or is_.unit(
            scalable_unit
        )
        if wrong is not None:
            yield Finding("scalable_unit", wrong, "write a number or a name, as `scalable_unit: su1`")
    if rail_overrides is None:
        return
    if not isinstance(rail_overrides, Mapping):
        wrong = next((problem for _path, problem in is_.literal(rail_overrides)), None)
        fix = "write it as `rail_overrides: {rail0: {netdev: ens7}}`"
        yield Finding("rail_overrides", wrong or f"it is {show(rail_overrides)}, not a mapping", fix)
        return
    for rail, override in rail_overrides.items():
        where = f"rail_overrides.{rail}"
        if isinstance(override, Mapping):
            yield from check_mapping(override, OVERRIDE, where, str(rail))
        else:
            fix = "write it as `rail_overrides: {rail0: {netdev: ens7}}`"
            yield Finding(where, f"it is {show(override)}, not a mapping", fix, None, str(rail))
