"""Which ports of different nodes are one rail, the order of rails, and which cables are crossed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import natural
from ansible_collections.railyard.fabric.plugins.module_utils.records.bare_node import BareNode

from railyard.discover.model import Method
from railyard.discover.ports import Port
from railyard.discover.text import most_common

#: (node, netdev) → the network that the port is on: the first of its ports.
Places = Mapping[tuple[str, str], object]


@dataclass
class Aligned:
    """Rails as node → port, in order.

    Attributes:
        rails: the rails.
        joined_by: how it was found that a rail's ports are one.
        ordered_by: how the order was found.
        crossed: port whose cable is on another rail's network → index of that rail.
        strayed: ports that listened and are on no rail's network, where their rail's others are on one.
        units: node → number of the group of nodes that share networks; all 0 where it is one.
        alone: nodes that listened but heard no other.
    """

    rails: list[dict[str, Port]]
    joined_by: Method
    ordered_by: Method = "pci"
    crossed: dict[Port, int] = field(default_factory=dict)
    strayed: list[Port] = field(default_factory=list)
    units: dict[str, int] = field(default_factory=dict)
    alone: list[str] = field(default_factory=list)


class _Sets:
    """Sets that are joined, with the path to a set's first member kept short."""

    def __init__(self) -> None:
        self._above: dict[tuple[str, str], tuple[str, str]] = {}

    def find(self, one: tuple[str, str]) -> tuple[str, str]:
        above = self._above
        root = one
        while (up := above.get(root, root)) != root:
            root = up
        while one != root:
            above[one], one = root, above.get(one, one)
        return root

    def join(self, one: tuple[str, str], other: tuple[str, str]) -> None:
        first, second = self.find(one), self.find(other)
        if first != second:
            # Always the same root, in whatever order nodes come.
            low, high = min(first, second), max(first, second)
            self._above[high] = low


def domains(nodes: Mapping[str, BareNode]) -> Places:
    """Return (node, netdev) → broadcast domain, for the ports that heard another node or were heard.

    Args:
        nodes: node → what it says.
    """
    names = {bare["key"]: name for name, bare in nodes.items()}
    sets, met = _Sets(), set[tuple[str, str]]()
    for name, bare in nodes.items():
        for heard in bare["beacons"] or []:
            here = (name, heard["netdev"])
            root = None
            for sender in heard["senders"]:
                other = names.get(sender["key"])
                if other is None:
                    continue
                there = (other, sender["netdev"])
                if root is None or sets.find(there) != root:
                    sets.join(here, there)
                    root = sets.find(here)
                if other != name:
                    met.update((here, there))
    return {port: sets.find(port) for port in met}


def leaves(ports: Iterable[Port]) -> Places:
    """Return (node, netdev) → switch, for the ports whose switch announces itself."""
    return {(port.node, _name(port)): port.leaf for port in ports if port.leaf is not None}


def align(
    chosen: Mapping[str, Sequence[Port]],
    in_slot: Callable[[str, str], Port | None],
    heard: Places,
    switches: Places,
    listened: Collection[tuple[str, str]] = (),
) -> Aligned:
    """Find the rails.

    Where most nodes have the same slots, a slot is a rail, and a port on another network than that slot's
    ports on most nodes has a crossed cable. Where slots say nothing (permuted or different NICs) a network is
    a rail; where there are no networks either, the place in the order of PCI addresses is.

    Args:
        chosen: node → its ports that are rails.
        in_slot: returns a node's port in a slot, also one that is not up, or None.
        heard: networks by beacons.
        switches: networks by LLDP.
        listened: ports that would have heard beacons.
    """
    names = sorted(chosen, key=natural)
    everyone = [port for name in names for port in chosen[name]]
    places = heard if _known(everyone, heard) >= _known(everyone, switches) else switches
    joined: Method = "beacons" if places is heard else "lldp"
    units = _units(names, chosen, places)
    wanted = most_common(len(found) for found in chosen.values() if found) or 0
    counts = Counter(port.slot for port in everyone)
    models = {port.model for port in everyone}
    for slot in [slot for slot, count in counts.items() if 2 * count >= len(names)]:
        # Of two nodes one may have no carrier there: its port is the rail's all the same.
        ports = [in_slot(name, slot) for name in names if slot not in {port.slot for port in chosen[name]}]
        counts[slot] += sum(port is not None and port.model in models for port in ports)
    slots = [slot for slot, count in counts.items() if 2 * count > len(names)]
    homes = _homes(everyone, slots, places, units)
    if len(slots) == wanted and homes is not None:
        aligned = Aligned(_by_slot(names, chosen, slots, homes, in_slot, places, units), "slot")
        if homes and len(set(map(repr, homes.values()))) == len(homes) == len(set(units.values())) * wanted:
            aligned.joined_by = joined
    elif (networks := _separate(chosen, places, wanted)) is not None:
        aligned = Aligned(_by_network(names, chosen, networks, places), joined)
    else:
        rails: list[dict[str, Port]] = [{} for _rail in range(wanted)]
        for name in names:
            for rail, port in zip(rails, chosen[name], strict=False):
                rail[name] = port
        aligned = Aligned(rails, "position")
    aligned.units = units
    _sort(aligned, switches)
    homes_now = _rail_homes(aligned, heard)
    aligned.crossed = _crossed(aligned, heard, homes_now)
    aligned.crossed |= _crossed(aligned, switches, _rail_homes(aligned, switches))
    aligned.alone = [
        name
        for name in names
        if homes_now and chosen[name] and not any((name, _name(port)) in heard for port in chosen[name])
    ]
    aligned.strayed = [
        port
        for index, rail in enumerate(aligned.rails)
        for name, port in rail.items()
        if port.is_up
        and port not in aligned.crossed
        and name not in aligned.alone
        and (name, _name(port)) in listened
        and _place(port, heard) != homes_now.get((units[name], index), _place(port, heard))
    ]
    return aligned


def _name(port: Port) -> str:
    return port.netdev or port.hca or ""


def _place(port: Port, places: Places) -> object | None:
    return places.get((port.node, _name(port)))


def _known(ports: Iterable[Port], places: Places) -> int:
    return sum(_place(port, places) is not None for port in ports)


def _units(names: Sequence[str], chosen: Mapping[str, Sequence[Port]], places: Places) -> dict[str, int]:
    """Return node → number of its group of nodes that share networks; a group has at least two nodes."""
    sets = _Sets()
    members = set()
    for name in names:
        for port in chosen[name]:
            place = _place(port, places)
            if place is not None:
                sets.join(("node", name), ("place", repr(place)))
                members.add(name)
    groups: dict[object, list[str]] = defaultdict(list)
    for name in names:
        if name in members:
            groups[sets.find(("node", name))].append(name)
    large = [group for group in groups.values() if len(group) > 1]
    numbers = {name: number for number, group in enumerate(large) for name in group}
    return {name: numbers.get(name, 0) for name in names}


def _homes(
    ports: Iterable[Port], slots: Iterable[str], places: Places, units: Mapping[str, int]
) -> dict[tuple[int, str], object | None] | None:
    """Return (unit, slot) → the network of most ports there; None where some slot has no such network."""
    seen: dict[tuple[int, str], Counter[object]] = defaultdict(Counter)
    wanted = set(slots)
    for port in ports:
        place = _place(port, places)
        if place is not None and port.slot in wanted:
            seen[units[port.node], port.slot][place] += 1
    homes: dict[tuple[int, str], object | None] = {}
    for where, counted in seen.items():
        place, count = max(counted.items(), key=lambda item: (item[1], repr(item[0])))
        if 2 * count <= sum(counted.values()) and len(counted) > 1:
            return None
        homes[where] = place
    return homes


def _by_slot(
    names: Sequence[str],
    chosen: Mapping[str, Sequence[Port]],
    slots: Sequence[str],
    homes: Mapping[tuple[int, str], object | None],
    in_slot: Callable[[str, str], Port | None],
    places: Places,
    units: Mapping[str, int],
) -> list[dict[str, Port]]:
    rails: dict[str, dict[str, Port]] = {slot: {} for slot in slots}
    for name in names:
        free = {port.slot: port for port in chosen[name]}
        for slot in slots:
            if slot in free:
                rails[slot][name] = free.pop(slot)
        # What sits elsewhere on this node: by its network first, then in order.
        for port in list(free.values()):
            place = _place(port, places)
            fits = [
                slot for slot in slots if name not in rails[slot] and homes.get((units[name], slot)) == place
            ]
            if place is not None and len(fits) == 1:
                rails[fits[0]][name] = free.pop(port.slot)
        missing = [slot for slot in slots if name not in rails[slot]]
        for slot in list(missing):
            # The port of the slot is down, or is another card's.
            other = in_slot(name, slot)
            if other is not None:
                rails[slot][name] = other
                missing.remove(slot)
        missing.sort(key=lambda slot: min((port.sort_key for port in rails[slot].values()), default=()))
        for slot, port in zip(missing, sorted(free.values(), key=lambda one: one.sort_key), strict=False):
            rails[slot][name] = port
    return list(rails.values())


def _separate(chosen: Mapping[str, Sequence[Port]], places: Places, wanted: int) -> list[object] | None:
    """Return the networks that are rails: as many as wanted or on all nodes, most with one port on each."""
    seen: Counter[object] = Counter()
    for found in chosen.values():
        seen.update({place for port in found if (place := _place(port, places)) is not None})
    large = [place for place, count in seen.items() if count > 1]
    on_all = all({_place(port, places) for port in found} >= set(large) for found in chosen.values() if found)
    if not large or (len(large) != wanted and not on_all):
        return None
    distinct = [
        len({_place(port, places) for port in found} - {None}) == len(found)
        for found in chosen.values()
        if found
    ]
    return sorted(large, key=repr) if 2 * sum(distinct) >= len(distinct) else None


def _by_network(
    names: Sequence[str], chosen: Mapping[str, Sequence[Port]], networks: Sequence[object], places: Places
) -> list[dict[str, Port]]:
    rails: dict[object, dict[str, Port]] = {place: {} for place in networks}
    habits: dict[str, Counter[object]] = defaultdict(Counter)
    for found in chosen.values():
        for port in found:
            habits[port.slot][_place(port, places)] += 1
    for name in names:
        left = []
        # Where two ports are on one network, the one whose slot is there on more nodes stays.
        for port in sorted(
            chosen[name], key=lambda one: (-habits[one.slot][_place(one, places)], one.sort_key)
        ):
            place = _place(port, places)
            if place in rails and name not in rails[place]:
                rails[place][name] = port
            else:
                left.append(port)
        missing = [place for place in networks if name not in rails[place]]
        for place, port in zip(missing, sorted(left, key=lambda one: one.sort_key), strict=False):
            rails[place][name] = port
    return list(rails.values())


def _sort(aligned: Aligned, switches: Places) -> None:
    """Put rails in order: by switch where their switches differ, and by PCI address."""
    usual = [
        most_common(_place(port, switches) for port in _first_unit(rail, aligned)) for rail in aligned.rails
    ]
    names = [str(leaf) for leaf in usual if leaf is not None]
    by_leaf = len(names) == len(aligned.rails) and len(set(names)) > 1
    keys = []
    for rail, leaf in zip(aligned.rails, usual, strict=True):
        seen = Counter(port.sort_key[:2] for port in rail.values())
        place = min(seen, key=lambda key: (-seen[key], key), default=())
        first = [port.sort_key for _name, port in sorted(rail.items(), key=lambda item: natural(item[0]))]
        keys.append((natural(str(leaf)) if by_leaf else [], place, first))
    order = sorted(range(len(keys)), key=lambda index: keys[index])
    aligned.rails = [aligned.rails[index] for index in order]
    aligned.ordered_by = "lldp" if by_leaf else "pci"


def _first_unit(rail: Mapping[str, Port], aligned: Aligned) -> list[Port]:
    return [port for name, port in rail.items() if aligned.units.get(name, 0) == 0]


def _rail_homes(aligned: Aligned, places: Places) -> dict[tuple[int, int], object]:
    """Return (unit, index of a rail) → the network that most of the rail's ports are on, two or more."""
    homes: dict[tuple[int, int], object] = {}
    for index, rail in enumerate(aligned.rails):
        seen: dict[int, Counter[object]] = defaultdict(Counter)
        for name, port in rail.items():
            place = _place(port, places)
            if place is not None:
                seen[aligned.units[name]][place] += 1
        for unit, counted in seen.items():
            place, count = max(counted.items(), key=lambda item: (item[1], repr(item[0])))
            if 2 * count > sum(counted.values()):
                homes[unit, index] = place
    return homes


def _crossed(aligned: Aligned, places: Places, homes: Mapping[tuple[int, int], object]) -> dict[Port, int]:
    """Return the ports that are on the network of another rail than their own → that rail."""
    units = aligned.units
    owners: dict[tuple[int, object], int] = {}
    for (unit, index), place in homes.items():
        # Rails that share a network cannot be distinguished by it.
        owners[unit, place] = -1 if (unit, place) in owners else index
    crossed = {}
    for index, rail in enumerate(aligned.rails):
        for name, port in rail.items():
            place = _place(port, places)
            other = owners.get((units[name], place), index) if place is not None else index
            if other not in (index, -1) and homes.get((units[name], index)) != place:
                crossed[port] = other
    return crossed
