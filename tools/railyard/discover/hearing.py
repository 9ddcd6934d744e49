"""Report problems of beacons: silent rails, one direction only, several networks, no switch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping

from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import natural
from ansible_collections.railyard.fabric.plugins.module_utils.records.bare_node import BareNode

from railyard.discover.model import Question, Survey
from railyard.discover.order import Aligned, Places
from railyard.discover.ports import Port
from railyard.discover.text import by_text, folded

_PortName = tuple[str, str]
_CHECK = "Check the cables, and the VLANs of the switch ports"
_CHAIN_NODES = 3
_PAIR = 2
_EXAMPLES = 3


def listening(bare: Mapping[str, BareNode]) -> set[_PortName]:
    """Return (node, netdev) of the ports that sent beacons and listened."""
    return {
        (name, one["netdev"])
        for name, node in bare.items()
        for one in node["beacons"] or []
        if not one["error"]
    }


def add(
    survey: Survey,
    aligned: Aligned,
    bare: Mapping[str, BareNode],
    heard: Places,
    listened: Collection[_PortName],
) -> None:
    """Add to a survey what its rails did not hear; a question where no rails can describe the cabling."""
    of_rails = {
        rail.name: [
            port for port in rail.ports.values() if port.is_up and (port.node, port.netdev or "") in listened
        ]
        for rail in survey.rails
    }
    ports = [port for found in of_rails.values() for port in found]
    places = {port: place for port in ports if (place := heard.get((port.node, port.netdev or "")))}
    if not places:
        nodes = {port.node for port in ports}
        if len(nodes) > 1 and aligned.joined_by != "lldp":
            survey.not_known.append(
                f"cabling of {folded(nodes)}: their rails listened, and none heard another node. {_CHECK}, "
                "and whether the switch lets EtherType 0x88B5 through"
            )
        return
    if _is_chain(aligned, places):
        survey.questions.append(
            Question(
                None,
                f"{folded({port.node for port in places})}: each cable joins two nodes, without a switch. "
                "Rails of all nodes cannot describe that: write a `fabric` for each node, as "
                "docs/inventory.md shows for three servers in a triangle",
            )
        )
        return
    for name, found in of_rails.items():
        survey.oddities += _of_rail(name, found, aligned, places)
    survey.oddities += by_text(_one_way(survey, bare, listened))
    survey.assumed += _shared(survey, places)


def _is_chain(aligned: Aligned, places: Mapping[Port, object]) -> bool:
    """Tell whether nodes are joined by cables from one to the next: no network has more than two ports."""
    members: dict[object, list[Port]] = defaultdict(list)
    for port, place in places.items():
        members[place].append(port)
    nodes = {port.node for port in places}
    is_joined = len({aligned.units.get(name, 0) for name in nodes}) == 1
    return (
        len(nodes) >= _CHAIN_NODES
        and is_joined
        and all(len(found) == _PAIR for found in members.values())
        and all(port.leaf is None or port.leaf in nodes for port in places)
    )


def _of_rail(name: str, found: list[Port], aligned: Aligned, places: Mapping[Port, object]) -> Iterator[str]:
    """Yield why a rail's ports are not one rail: none heard another node, or most share no network."""
    on: dict[tuple[int, object], list[Port]] = defaultdict(list)
    for port in found:
        if port in places:
            on[aligned.units.get(port.node, 0), places[port]].append(port)
    if not on:
        nodes = [port.node for port in found if port.node not in aligned.alone]
        if len(nodes) > 1:
            yield f"{folded(nodes)}: {name} heard no other node, as other rails did. {_CHECK}"
        return
    for unit in sorted({unit for unit, _place in on}):
        groups = [ports for (one, _place), ports in on.items() if one == unit]
        if len(groups) > 1 and 2 * max(map(len, groups)) <= sum(map(len, groups)):
            nodes = [port.node for ports in groups for port in ports]
            texts = [_with_peers(ports[0], places) for ports in groups[:_EXAMPLES]]
            yield (
                f"{folded(nodes)}: {name} is on {len(groups)} networks, and most of its ports share none: "
                f"{'; '.join(texts)}. {_CHECK}"
            )


def _with_peers(port: Port, places: Mapping[Port, object]) -> str:
    peers = [other for other, place in places.items() if place == places[port] and other.node != port.node]
    peers.sort(key=lambda one: (natural(one.node), one.sort_key))
    return f"{port.node} {port.netdev} with " + (f"{peers[0].node} {peers[0].netdev}" if peers else "no rail")


def _one_way(
    survey: Survey, bare: Mapping[str, BareNode], listened: Collection[_PortName]
) -> Iterator[tuple[str, str]]:
    """Yield node and sentence, of rails where frames pass in one direction only."""
    names = {node["key"]: name for name, node in bare.items()}
    hears: dict[_PortName, set[_PortName]] = {}
    heard_by: dict[_PortName, set[_PortName]] = defaultdict(set)
    for name, node in bare.items():
        for one in node["beacons"] or []:
            here = (name, one["netdev"])
            senders = {
                (names[sender["key"]], sender["netdev"])
                for sender in one["senders"]
                if names.get(sender["key"], name) != name
            }
            hears[here] = senders
            for sender in senders:
                heard_by[sender].add(here)
    deaf = {port for port in listened if heard_by[port] and not hears[port]}
    for rail in survey.rails:
        for name, port in rail.ports.items():
            here = (name, port.netdev or "")
            what = f"{rail.name} ({port.label})"
            if here in deaf:
                text = f"{what} hears no port, though others hear it. Check the receiving side of its cable"
                yield name, f"{text} and module"
            elif here in listened and not heard_by[here] and (hears[here] & set(listened)) - deaf:
                text = f"{what} hears others, but no other port hears it. Check the sending side of its cable"
                yield name, f"{text} and module"


def _shared(survey: Survey, places: Mapping[Port, object]) -> Iterator[str]:
    """Yield rails that are on one network together, though not on one wire."""
    on: dict[object, set[str]] = defaultdict(set)
    partners = {rail.shares_wire_with: rail.name for rail in survey.rails if rail.shares_wire_with}
    counts: dict[str, dict[object, int]] = defaultdict(lambda: defaultdict(int))
    for rail in survey.rails:
        for port in rail.ports.values():
            if port in places:
                counts[rail.name][places[port]] += 1
    for name, counted in counts.items():
        for place, count in counted.items():
            if count > 1 and 2 * count > sum(counted.values()):
                on[place].add(partners.get(name, name))
    groups = {tuple(sorted(names, key=natural)) for names in on.values() if len(names) > 1}
    for names in sorted(groups):
        yield (
            f"{', '.join(names)} are on one network, so beacons do not show whether their cables are "
            "crossed: a rail is the same slot on each node"
        )
