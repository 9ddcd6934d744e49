"""What the drawing of a subnet shows: tiers of switches, a card for each unit, and the faults."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import PortKey, Reading
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean_line, fold_names
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import (
    Finding,
    Judgement,
    LeafState,
)

#: More faults than these are counted, not drawn: the drawing stays small, and the list has them all.
MOST_FAULTS = 400
#: More lines between leaves and spines than these cannot be distinguished.
_MOST_LINES = 256
NO_UNIT = "no node of the inventory"


@dataclass
class Switch:
    """A switch: its GUID, its name, the lines below the name, and whether the reading has it at all."""

    guid: str
    name: str
    lines: tuple[str, ...] = ()
    is_missing: bool = False


@dataclass
class Card:
    """A unit: the leaves that are drawn in it, and its nodes."""

    title: str
    leaves: list[Switch]
    nodes: tuple[str, ...]
    #: Leaves that other cards have already.
    shared: list[str] = field(default_factory=list)


class End(NamedTuple):
    """An end of a fault: a port of a switch, or of the nodes of a card."""

    guid: str
    number: int
    is_switch: bool


class Fault(NamedTuple):
    """A finding with a place: its anchor's number, how bad it is, what it says, and its ends."""

    number: int
    severity: str
    text: str
    node: str | None
    rail: str | None
    ends: tuple[End, ...]


class Drawing(NamedTuple):
    """All that is drawn of a subnet.

    Attributes:
        tiers: switches above the leaves, the highest tier first; then those without a tier.
        cards: a card for each unit, and one for leaves without a node of the inventory.
        links: (lower switch, higher switch) -> number of links; empty where there are too many to draw.
        between: what is written where no lines are drawn.
        faults: findings with ports.
        left_out: how many faults more there are.
    """

    tiers: tuple[tuple[Switch, ...], ...]
    cards: tuple[Card, ...]
    links: dict[tuple[str, str], int]
    between: str
    faults: tuple[Fault, ...]
    left_out: int


def arrange(reading: Reading, judgement: Judgement, numbered: Sequence[tuple[int, Finding]]) -> Drawing:
    """Decide what is drawn.

    Args:
        reading: the subnet.
        judgement: what was decided about it.
        numbered: its findings with the numbers of their anchors.
    """
    tiers = _tiers(reading, judgement)
    cards = _cards(judgement)
    counted = _count_links(reading, judgement)
    faults, left_out = _faults(reading, judgement, numbered)
    drawn = {switch.guid for tier in tiers for switch in tier}
    drawn |= {switch.guid for card in cards for switch in card.leaves}
    gone = dict.fromkeys(
        end.guid for one in faults for end in one.ends if end.is_switch and end.guid not in drawn
    )
    ghosts = tuple(
        Switch(guid, judgement.switch_names.get(guid, guid), ("not in the reading",), True) for guid in gone
    )
    tiers = [ghosts, *tiers] if ghosts else tiers
    between = _sum_links(counted, judgement)
    links = counted if len(counted) <= _MOST_LINES else {}
    return Drawing(tuple(tiers), tuple(cards), links, between, faults, left_out)


def _tiers(reading: Reading, judgement: Judgement) -> list[tuple[Switch, ...]]:
    guids = [guid for guid, device in reading.devices.items() if device.kind == "switch"]
    levels: dict[int, list[str]] = {}
    for guid in guids:
        levels.setdefault(judgement.tiers.get(guid, -1), []).append(guid)
    rows = []
    for level in sorted((one for one in levels if one), key=lambda one: (one < 0, -one)):
        lines = ("leads to no adapter",) if level < 0 else ()
        names = [(judgement.switch_names.get(guid, guid), guid) for guid in levels[level]]
        rows.append(tuple(Switch(guid, name, lines) for name, guid in sorted(names)))
    return rows


def _cards(judgement: Judgement) -> list[Card]:
    states = {leaf.guid: leaf for leaf in judgement.leaves}
    placed: set[str] = set()
    cards = []
    for unit in judgement.units:
        own = [guid for guid in unit.leaves if guid in states and guid not in placed]
        shared = [states[guid].name for guid in unit.leaves if guid in placed and guid in states]
        placed.update(own)
        leaves = sorted((_leaf(states[guid]) for guid in own), key=lambda one: (one.name, one.guid))
        title = f"{unit.name}: {fold_names(unit.nodes)}"
        cards.append(Card(title, leaves, unit.nodes, shared))
    rest = [_leaf(leaf) for leaf in judgement.leaves if leaf.guid not in placed]
    return cards + ([Card(NO_UNIT, rest, ())] if rest else [])


def _leaf(state: LeafState) -> Switch:
    hosts = "1 host port" if state.hosts == 1 else f"{state.hosts} host ports"
    ratio = "no uplink" if state.ratio_now is None else f"{state.ratio_now:.3g}:1"
    return Switch(state.guid, state.name, (hosts, ratio))


def _count_links(reading: Reading, judgement: Judgement) -> dict[tuple[str, str], int]:
    counted: dict[tuple[str, str], int] = {}
    for guid, tier in judgement.tiers.items():
        device = reading.devices.get(guid)
        for port in device.ports.values() if device else ():
            other = judgement.tiers.get(port.peer.guid) if port.peer else None
            if port.peer and other is not None and other > tier:
                pair = (guid, port.peer.guid)
                counted[pair] = counted.get(pair, 0) + 1
    return counted


def _sum_links(counted: dict[tuple[str, str], int], judgement: Judgement) -> str:
    """Return in a sentence what too many lines would show."""
    above: dict[str, list[int]] = {}
    for (lower, _higher), count in counted.items():
        if judgement.tiers.get(lower) == 0:
            above.setdefault(lower, []).append(count)
    switches = sorted({len(counts) for counts in above.values()})
    links = sorted({count for counts in above.values() for count in counts})

    def span(numbers: list[int]) -> str:
        return f"{numbers[0]}" if numbers[0] == numbers[-1] else f"{numbers[0]} to {numbers[-1]}"

    if not switches:
        return ""
    links_each = f"{span(links)} link" + ("" if links[-1] == 1 else "s")
    return (
        f"Each leaf is connected to {span(switches)} switches of the next tier, by {links_each} to "
        "each; only links with findings are drawn."
    )


def _faults(
    reading: Reading, judgement: Judgement, numbered: Sequence[tuple[int, Finding]]
) -> tuple[tuple[Fault, ...], int]:
    placed = [(number, one) for number, one in numbered if one.ports]
    faults = []
    for number, one in placed[:MOST_FAULTS]:
        # A port of an adapter that is not in the reading is known by the finding's node.
        ends = tuple(_end(reading, judgement, key, one) for key in dict.fromkeys(one.ports))
        owners = (judgement.owners.get(key) for key in one.ports)
        node = one.node or next((owner.node for owner in owners if owner and owner.node), None)
        faults.append(Fault(number, one.severity, one.text, node, one.rail, ends))
    return tuple(faults), len(placed) - len(faults)


def _end(reading: Reading, judgement: Judgement, key: PortKey, finding: Finding) -> End:
    device = reading.devices.get(key.guid)
    if device is not None:
        return End(key.guid, key.number, device.kind == "switch")
    is_adapter = key in judgement.owners or (
        finding.node is not None and key.guid not in judgement.switch_names
    )
    return End(clean_line(key.guid), key.number, not is_adapter)
