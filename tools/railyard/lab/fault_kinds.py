"""What a fault is made of: where it is, how it is made and how it is undone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from railyard.base.errors import BAD_INPUT
from railyard.lab.nodes import Link
from railyard.lab.process import LabError
from railyard.lab.topology import Node
from railyard.lab.wiring import Lab, rail_link

#: The forms of a fault's target; the words of the command line are joined by slashes.
ON_NODE, ON_RAIL, ON_TWO_RAILS, TO_OTHER, BETWEEN_RAILS = (
    "NODE",
    "NODE/RAIL",
    "NODE/RAIL/RAIL",
    "NODE/RAIL/OTHER",
    "RAIL/RAIL",
)


@dataclass(frozen=True)
class Place:
    """Where a fault is.

    Attributes:
        node: the node; of a fault between rails any one.
        rail_position: the rail; -1 for the whole node.
        runs: whether the node is on.
        other: the target's last word where it has one: a rail, a node, a switch's name.
    """

    node: Node
    rail_position: int
    runs: bool
    other: str = ""


@dataclass(frozen=True)
class Kind:
    """A kind of fault: the form of its target, and the hands that make and undo it."""

    form: str
    make: Callable[[Lab, Place, float], dict[str, Any]]
    undo: Callable[[Lab, Place, Mapping[str, Any]], None]


def place(lab: Lab, kind: str, form: str, target: str) -> Place:
    """Find what a target names.

    Raises:
        LabError: it has another form, or names a node or rail that the topology does not have.
    """
    words = target.split("/")
    if len(words) != len(form.split("/")) or not all(words):
        raise LabError(f"{kind}: the target {target!r} has the wrong form", f"give {form}", BAD_INPUT)
    if form == BETWEEN_RAILS:
        position, _other = lab.topology.rail_position(words[0]), lab.topology.rail_position(words[1])
        return Place(lab.topology.nodes[0], position, True, words[1])
    node = lab.topology.node(words[0])
    position = lab.topology.rail_position(words[1]) if form != ON_NODE else -1
    if form == ON_TWO_RAILS:
        lab.topology.rail_position(words[2])
    found = lab.kind(node).states().get(node.name)
    return Place(node, position, bool(found and found.pid), words[2] if len(words) > 2 else "")


def netdev(lab: Lab, where: Place) -> str:
    """Return the node's netdev of a fault's rail."""
    return lab.topology.rails[where.rail_position].netdev


def cable(lab: Lab, where: Place) -> Link:
    """Return the cable of a fault's rail."""
    return rail_link(lab, where.node, where.rail_position)


def would_be_none(where: Place, what: str) -> LabError:
    """Return the error of a fault that cannot be told from what is there already."""
    return LabError(
        f"{where.node.name}: {what}, so the fault would be none",
        "provision the node first (railyard site -i inventories/lab)",
        BAD_INPUT,
    )
