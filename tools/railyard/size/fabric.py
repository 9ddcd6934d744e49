"""Leaves, spines and cables of a rail-optimised fabric. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from typer import Option

from railyard.base import options
from railyard.base.errors import UserError

# The radix is far beyond what there is; what two tiers hold follows from it.
_BOUNDS = {
    "gpus": (1, 1e9, "write how many GPUs the fabric joins, as 128"),
    "rails": (1, 1024, "write how many rails each node has, as 8"),
    "radix": (2, 1024, "write how many ports a switch has, as 64"),
    "gpus_per_node": (1, 1024, "write how many GPUs a node has, as 8"),
}


@dataclass(frozen=True)
class Wanted:
    """What is to be joined, as typed; None where it was not given. Each field is an option."""

    gpus: Annotated[int, Option(metavar="N", help="GPUs of all nodes together.")]
    rails: Annotated[int, Option(metavar="R", help="Rails of each node, each one port.")]
    radix: Annotated[int, Option(metavar="K", help="Ports of a switch, as fast as those of the nodes.")]
    gpus_per_node: Annotated[int | None, Option(metavar="G", help="Default: one for each rail.")] = None


@dataclass(frozen=True)
class Fabric:
    """Two tiers, or one leaf alone.

    Attributes:
        nodes: the nodes that it joins.
        rails: of each node.
        groups: of nodes, as even as can be; a group has one leaf for each rail.
        nodes_per_leaf: of the largest group.
        uplinks: of each leaf, the same number to each spine.
        spines: 0 where one leaf joins all there is.
    """

    nodes: int
    rails: int
    groups: int
    nodes_per_leaf: int
    uplinks: int
    spines: int

    @property
    def leaves(self) -> int:
        """All of them."""
        return self.rails * self.groups

    @property
    def node_cables(self) -> int:
        """Cables between nodes and leaves."""
        return self.nodes * self.rails

    @property
    def spine_cables(self) -> int:
        """Cables between leaves and spines."""
        return self.leaves * self.uplinks

    @property
    def oversubscription(self) -> float:
        """How much more can come up from a leaf's nodes than fits through its uplinks; 1 is not at all."""
        return self.nodes_per_leaf / self.uplinks if self.uplinks > 0 else 1.0

    def group_sizes(self) -> list[int]:
        """Return how many nodes each group has, the larger ones first."""
        least, larger = divmod(self.nodes, self.groups)
        return [least + 1] * larger + [least] * (self.groups - larger)


def size(wanted: Wanted) -> Fabric:
    """Return the fabric with the fewest leaves, then spines, then cables that is least oversubscribed.

    Raises:
        UserError: options that make no sense, or more than two tiers of such switches can join.
    """
    nodes = _nodes(wanted)
    rails, radix = wanted.rails, wanted.radix
    if rails == 1 and nodes <= radix:
        return Fabric(nodes, rails, 1, nodes, 0, 0)
    # Each spine has at least one port for each leaf.
    most_groups = radix // rails
    groups = _divided_up(nodes, radix // 2)
    if groups <= most_groups:
        per_leaf = _divided_up(nodes, groups)
        spines, uplinks = min(
            _spines(rails * groups, uplinks, radix) for uplinks in range(per_leaf, radix - per_leaf + 1)
        )
        return Fabric(nodes, rails, groups, per_leaf, uplinks, spines)
    per_leaf = _divided_up(nodes, most_groups) if most_groups else nodes
    if not most_groups or per_leaf >= radix:
        most = (radix - 1) * most_groups
        raise UserError(
            f"--gpus: {nodes} nodes are more than two tiers of {radix}-port switches join: {most} nodes of "
            f"{rails} rails",
            "write a larger --radix or fewer --rails; a third tier is not calculated here",
        )
    spines, uplinks = _spines(rails * most_groups, radix - per_leaf, radix)
    return Fabric(nodes, rails, most_groups, per_leaf, uplinks, spines)


def _nodes(wanted: Wanted) -> int:
    wrong = options.out_of_range(wanted, _BOUNDS)
    each = wanted.gpus_per_node if wanted.gpus_per_node is not None else wanted.rails
    if not wrong and wanted.gpus % each:
        below = wanted.gpus // each * each
        near = f"{below} or {below + each}" if below else f"{each}"
        what = f"{wanted.gpus} GPUs are no whole number of nodes with {each} GPUs"
        wrong.append(("--gpus", what, f"write {near}, or say --gpus-per-node"))
    if wrong:
        raise options.refused(wrong, "with this request; nothing was sized")
    return wanted.gpus // each


def _spines(leaves: int, uplinks: int, radix: int) -> tuple[int, int]:
    """Return the fewest spines that take as many links from each leaf to each, and the uplinks of a leaf."""
    fewest = next(
        count for count in range(_divided_up(leaves * uplinks, radix), uplinks + 1) if uplinks % count == 0
    )
    return fewest, uplinks


def _divided_up(dividend: int, divisor: int) -> int:
    return -(-dividend // divisor)
