"""What the rails of a new inventory are: subnets, interfaces, leaves, as keys of `fabric`."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import WITHOUT_IP
from ansible_collections.railyard.fabric.plugins.module_utils.rails import plan as rails
from ClusterShell.RangeSet import RangeSetException

from railyard.base.options import Wrong
from railyard.new_inventory.nodes import in_typed_order
from railyard.new_inventory.wanted import Wanted

# Private, and none that Docker, Kubernetes or OpenShift take unasked.
DEFAULT_SUPERNET = "10.224.0.0/12"
DEFAULT_MTU_BYTES = 9000
RAILS_MAX = 256
_PREFIX_DEFAULT = {4: 24, 6: 64}


@dataclass
class Rails:
    """The rails, and the room for nodes that their subnets have.

    Attributes:
        items: elements of `fabric.rails`.
        gateway: the rule that applies.
        lowest: lowest free address in every subnet, counted from the network's own.
        highest: the highest one.
        wrong: what keeps the rails from being written.
        assumed: assumptions about options that were not given, to be checked.
    """

    items: list[dict[str, Any]]
    gateway: str = "none"
    lowest: int = 0
    highest: int = 0
    wrong: list[Wrong] = field(default_factory=list)
    assumed: list[str] = field(default_factory=list)

    def refuse(self, option: str, what: str, fix: str) -> None:
        """Add what is wrong with an option, and what to write instead."""
        self.wrong.append((option, what, fix))

    def leaves(self) -> list[str]:
        """Return the names of all leaves, each once, in the rails' order."""
        return list(dict.fromkeys(name for item in self.items for name in leaves_of(item)))


def make(wanted: Wanted, units: Sequence[str], nodes_in_unit: int) -> Rails:
    """Make the rails.

    Args:
        wanted: the options; `rails` between 1 and RAILS_MAX.
        units: names of the scalable units, none for a fabric without them.
        nodes_in_unit: nodes in the largest unit (or in all), for which a subnet must have room.
    """
    made = Rails([{"name": f"rail{index}"} for index in range(wanted.rails)])
    # Units reach each other through their leaves or not at all.
    made.gateway = wanted.gateway or ("first" if len(units) > 1 else "none")
    _interfaces(made, wanted)
    _subnets(made, wanted, units, nodes_in_unit)
    if wanted.rate_gbps is not None:
        for item in made.items:
            item["rate_gbps"] = plain_number(wanted.rate_gbps)
    else:
        made.assumed.append(
            "no rate is declared: bandwidth is compared with the ports' maximum; "
            "declare the rate that you paid for with --rate-gbps"
        )
    if wanted.leaf is not None:
        _leaves(made, wanted, units)
    return made


def plain_number(value: float) -> float | int:
    """Write 400.0 as 400."""
    return int(value) if float(value).is_integer() else value


def _interfaces(made: Rails, wanted: Wanted) -> None:
    # A guess could name the interface that the nodes are reached over. What the node's software calls an RDMA
    # device a reboot may change.
    unnamed = wanted.netdev is None and wanted.pci is None
    if unnamed and (wanted.transport == "tcp" or wanted.hca is None):
        fix = (
            "name them as `ip -br link` shows them on a node, as --netdev 'ens{rail}' or --netdev ens6,ens7, "
            "or by PCI address, as --pci 0000:18:00.0,0000:40:00.0"
        )
        made.refuse("--netdev", "nothing says which interfaces the rails are", fix)
    if wanted.hca is not None and not unnamed:
        made.assumed.append(
            "RDMA devices always have the names that --hca gives; without --hca any name will do"
        )
    for key, text in (("netdev", wanted.netdev), ("pci", wanted.pci), ("hca", wanted.hca)):
        if text is None:
            continue
        for item, value in zip(made.items, _each(made, f"--{key}", text, wanted.rails), strict=False):
            item[key] = f"{value}:1" if key == "hca" and ":" not in value else value


def _each(made: Rails, option: str, text: str, count: int) -> list[str]:
    """Return one name per rail, from a pattern with `{rail}` or from folded names."""
    if "{rail}" in text:
        return [text.replace("{rail}", str(index)) for index in range(count)]
    fix = f"write a pattern with {{rail}} (counting from 0), or {count} names"
    try:
        # Two rails may well have one leaf.
        names = in_typed_order(text)
    except (ValueError, RangeSetException) as error:
        made.refuse(option, str(error), fix)
        return []
    if len(names) != count:
        said = "1 name" if len(names) == 1 else f"{len(names)} names"
        made.refuse(option, f"{text!r} is {said} for --rails {count}", fix)
        return []
    return names


def _subnets(made: Rails, wanted: Wanted, units: Sequence[str], nodes_in_unit: int) -> None:
    addressless = wanted.transport in WITHOUT_IP and wanted.supernet is None and not wanted.subnets
    if addressless:
        for option, value in (("--rail-prefix", wanted.rail_prefix), ("--gateway", wanted.gateway)):
            if value is not None:
                fix = "leave it out" + ("" if wanted.transport == "efa" else ", or give --supernet (IPoIB)")
                made.refuse(option, f"the rails of this {wanted.transport} fabric have no addresses", fix)
        made.gateway = "none"
        return
    if wanted.subnets:
        _given_subnets(made, wanted, wanted.subnets, units)
    else:
        _cut_subnets(made, wanted, units, nodes_in_unit)
    _room(made)


def _given_subnets(made: Rails, wanted: Wanted, given: Sequence[str], units: Sequence[str]) -> None:
    for option, value in (("--supernet", wanted.supernet), ("--rail-prefix", wanted.rail_prefix)):
        if value is not None:
            made.refuse(option, "--subnet gives the rails their subnets already", "keep one of them")
    if len(units) > 1:
        fix = "give --supernet, from which each unit gets subnets of its own"
        made.refuse("--subnet", "scalable units have a subnet each, and --subnet names one a rail", fix)
    elif len(given) != wanted.rails:
        said = f"{len(given)} given for --rails {wanted.rails}"
        made.refuse("--subnet", said, "give it once for each rail, or give --supernet")
    for item, text in zip(made.items, given, strict=False):
        _put_subnet(made, item, None, text)


def _cut_subnets(made: Rails, wanted: Wanted, units: Sequence[str], nodes_in_unit: int) -> None:
    """Cut a subnet per rail and unit from the supernet; a rail's units lie beside each other."""
    supernet = DEFAULT_SUPERNET if wanted.supernet is None else wanted.supernet
    if wanted.supernet is None:
        made.assumed.append(f"subnets out of {supernet}, which must be free in your site")
    try:
        network = rails.network_of(supernet)
    except ValueError as error:
        fix = f"write it as {_network_around(supernet) or DEFAULT_SUPERNET}"
        made.refuse("--supernet", f"{supernet!r} is no network: {error}", fix)
        return
    prefix = wanted.rail_prefix
    if prefix is None:
        needed = nodes_in_unit + (made.gateway != "none")
        # Network and broadcast address are not usable.
        prefix = min(_PREFIX_DEFAULT[network.version], network.max_prefixlen - (needed + 1).bit_length())
    if not 0 <= prefix <= network.max_prefixlen:
        what = f"{prefix} is no prefix length of IPv{network.version}"
        made.refuse("--rail-prefix", what, f"write one up to {network.max_prefixlen}")
        return
    # A power of two: one route then covers all units of a rail.
    step = 1 << (max(len(units), 1) - 1).bit_length()
    for index, item in enumerate(made.items):
        for place, unit in enumerate(units or (None,)):
            try:
                subnet = rails.computed_subnet(supernet, prefix, index * step + place)
            except rails.PlanError:
                wanted_subnets = wanted.rails * step
                shortest = prefix - (wanted_subnets - 1).bit_length()
                larger = f"a network of /{shortest} or larger, or " if shortest >= 0 else ""
                what = f"{supernet} does not hold {wanted_subnets} subnets of /{prefix}"
                made.refuse("--supernet", what, f"give {larger}a longer --rail-prefix")
                return
            _put_subnet(made, item, unit, subnet)


def _network_around(text: str) -> str | None:
    """Return the network that an address with a prefix length is in, or None where the text is none."""
    try:
        return str(ipaddress.ip_interface(text).network) if "/" in text else None
    except ValueError:
        return None


def _put_subnet(made: Rails, item: dict[str, Any], unit: str | None, text: str) -> None:
    try:
        family = "6" if rails.network_of(text).version == 6 else ""
    except ValueError as error:
        fix = f"write it as {_network_around(text) or '10.0.1.0/24'}"
        made.refuse("--subnet", f"{text!r} is no network: {error}", fix)
        return
    if unit is None:
        item[f"subnet{family}"] = text
    else:
        item.setdefault(f"subnets{family}", {})[unit] = text
    if made.gateway != "none" or unit is not None:
        # Written even if it is none: units are expected to have one.
        item["gateway"] = made.gateway


def _room(made: Rails) -> None:
    """Find out which places all subnets have free for nodes."""
    ranges = []
    for item in made.items:
        for text in subnets_of(item):
            network = rails.network_of(text)
            first, last = rails.usable_range(network)
            base = int(network.network_address)
            ranges.append((first - base, last - base))
    if ranges:
        made.lowest = max(first for first, _last in ranges) + (made.gateway == "first")
        made.highest = min(last for _first, last in ranges) - (made.gateway == "last")


def leaves_of(item: dict[str, Any]) -> list[str]:
    """Return the switches of one element of `fabric.rails`, one per unit where there are units."""
    return [item["leaf"]] if "leaf" in item else list(item.get("leaves", {}).values())


def subnets_of(item: dict[str, Any]) -> list[str]:
    """Return all subnets of one element of `fabric.rails`."""
    return [
        *(item[key] for key in ("subnet", "subnet6") if key in item),
        *(text for key in ("subnets", "subnets6") for text in item.get(key, {}).values()),
    ]


def _leaves(made: Rails, wanted: Wanted, units: Sequence[str]) -> None:
    """Say which switch each rail is patched to, in each unit."""
    pattern = wanted.leaf or ""
    if {"{", "}"} & set(pattern.replace("{rail}", "").replace("{unit}", "")):
        what = "has braces besides {rail} and {unit}"
        fix = "write a pattern with {rail} (and {unit}), as 'leaf{rail}', or names"
    elif len(units) > 1 and "{unit}" not in pattern:
        what = "gives all scalable units the same switches"
        fix = "write a pattern with {unit}, as 'leaf-{unit}-r{rail}'"
    elif not units and "{unit}" in pattern:
        what, fix = "names the unit, and there are none", "give --nodes-per-unit, or leave {unit} out"
    else:
        what = fix = ""
    if what:
        made.refuse("--leaf", f"{pattern!r} {what}", fix)
        return
    for unit in units or (None,):
        text = pattern.replace("{unit}", unit or "")
        one_for_all = not any(sign in text for sign in ("{rail}", ",", "["))
        names = [text] * wanted.rails if one_for_all else _each(made, "--leaf", text, wanted.rails)
        for item, name in zip(made.items, names, strict=False):
            if unit is None:
                item["leaf"] = name
            else:
                item.setdefault("leaves", {})[unit] = name
