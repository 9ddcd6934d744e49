"""What a fault is made of: where it is, how it is made and how it is undone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from railyard.base.errors import BAD_INPUT
from railyard.lab.nodes import Link
from railyard.lab.process import LabError, read_json, run
from railyard.lab.topology import Node
from railyard.lab.wiring import Lab, NodeKind, rail_link

#: The forms of a fault's target; arguments of the command line are joined by slashes.
ON_NODE, ON_RAIL, BETWEEN_RAILS = "NODE", "NODE/RAIL", "RAIL/RAIL"
ON_TWO_RAILS, TO_OTHER = "NODE/RAIL/RAIL", "NODE/RAIL/OTHER"


@dataclass(frozen=True)
class Place:
    """Where a fault is.

    Attributes:
        lab: the lab.
        node: the node; of a fault between rails any one.
        rail_position: the rail; -1 for the whole node.
        runs: whether the node is on.
        other: the target's last word where it has one: a rail, a node, a switch's name.
        rate_gbps: what a fault that slows leaves of the rail.
        undo: what `make` left for its undoing.
    """

    lab: Lab
    node: Node
    rail_position: int
    runs: bool
    other: str = ""
    rate_gbps: float = 0.0
    undo: Mapping[str, Any] = field(default_factory=dict)

    @property
    def kind(self) -> NodeKind:
        """The hands that work on the node."""
        return self.lab.kind(self.node)

    @property
    def netdev(self) -> str:
        """The node's netdev of the rail."""
        return self.lab.topology.rails[self.rail_position].netdev

    @property
    def cable(self) -> Link:
        """The cable of the rail."""
        return rail_link(self.lab, self.node, self.rail_position)

    def run(self, *command: str, check: bool = True) -> str:
        """Run a command of the node as its root; return what it wrote."""
        return run(self.kind.as_root(self.node, *command), check=check).stdout

    def read(self, *command: str) -> Any:
        """Return what a command of the node, run as its root, prints as JSON."""
        return read_json(self.kind.as_root(self.node, *command))

    def address(self) -> dict[str, Any]:
        """Return the netdev's first IPv4 address as `ip -j` has it, or raise where it has none."""
        shown = self.read("ip", "-j", "-4", "address", "show", "dev", self.netdev)
        addresses: list[dict[str, Any]] = [one for link in shown if link for one in link.get("addr_info", [])]
        if not addresses:
            raise self.not_ready(f"{self.netdev} has no IPv4 address")
        return addresses[0]

    def not_ready(self, what: str) -> LabError:
        """Return the error of a fault that needs a node with its roles."""
        fix = "provision the node first (railyard site -i inventories/lab)"
        return LabError(f"{self.node.name}: {what}", fix, BAD_INPUT)

    def would_be_none(self, what: str) -> LabError:
        """Return the error of a fault that would change nothing."""
        return self.not_ready(f"{what}, so the fault would be none")


@dataclass(frozen=True)
class Kind:
    """A kind of fault.

    Attributes:
        form: the form of its target.
        make: makes it; returns what `undo` needs to know.
        undo: undoes it.
        lost_when_off: a node that is off has lost the fault already: nothing is undone.
        misleads: peers have learnt a way that is none; once undone the nodes forget who was where.
    """

    form: str
    make: Callable[[Place], dict[str, Any] | None]
    undo: Callable[[Place], None]
    lost_when_off: bool = False
    misleads: bool = False

    def heal(self, where: Place) -> None:
        """Undo the fault, and what it has left with the others."""
        if where.runs or not self.lost_when_off:
            self.undo(where)
        if self.misleads:
            forget_neighbours(where.lab)


def forget_neighbours(lab: Lab) -> None:
    """Let the nodes forget who was where; with the fault gone they would go on sending there for a while."""
    for name, found in lab.states().items():
        if found.condition == "running":
            node = lab.topology.node(name)
            for rail in lab.topology.rails:
                run(lab.kind(node).as_root(node, "ip", "neighbour", "flush", "dev", rail.netdev), check=False)


def place(lab: Lab, kind: str, form: str, target: str) -> Place:
    """Find what a target names.

    Raises:
        LabError: it has another form, or names a node or rail that the topology does not have.
    """
    words = target.split("/")
    if len(words) != len(form.split("/")) or not all(words):
        raise LabError(f"{kind}: the target {target!r} has the wrong form", f"give {form}", BAD_INPUT)
    if form in (ON_TWO_RAILS, BETWEEN_RAILS):
        lab.topology.rail_position(words[-1])
    if form == BETWEEN_RAILS:
        return Place(lab, lab.topology.nodes[0], lab.topology.rail_position(words[0]), True, words[1])
    node = lab.topology.node(words[0])
    position = lab.topology.rail_position(words[1]) if form != ON_NODE else -1
    found = lab.kind(node).states().get(node.name)
    return Place(lab, node, position, bool(found and found.pid), words[2] if len(words) > 2 else "")
