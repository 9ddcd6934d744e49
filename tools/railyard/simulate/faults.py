"""Simulated faults: what `--fault` says, and what each leaves of the rate."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from railyard.base.errors import UserError
from railyard.simulate.cluster import Cluster

_SYNTAX = {
    "node": "node:gpu017@0.6",
    "node_rail": "node_rail:gpu017/rail3@0.5",
    "rail": "rail:rail3@0.5",
    "leaf": "leaf:rail3-leaf0@0.5",
    "pair": "pair:gpu001,gpu009/rail2@0.5",
}


class Fault(NamedTuple):
    """A part that leaves only a share of the rate; what does not apply is None."""

    kind: str
    node: str | None
    rail: str | None
    peer: str | None
    leaf: str | None
    share: float


def parse(text: str, cluster: Cluster) -> Fault:
    """Return the fault that a text says.

    Raises:
        UserError: it is none, or names what the cluster has not.
    """
    kind, _, rest = text.partition(":")
    named, at, share_text = rest.partition("@")
    if kind not in _SYNTAX:
        raise UserError(
            f"--fault {text!r}: no kind of fault is {kind!r}", f"write {', '.join(_SYNTAX.values())}"
        )
    share = _share(share_text) if at else 0.0
    if share is None:
        raise UserError(
            f"--fault {text!r}: {share_text!r} is no share of the rate", "give @0 to below @1, as @0.6"
        )
    ends, slash, rail = named.partition("/")
    nodes = ends.split(",")
    wants_rail, wants_nodes = kind in ("node_rail", "pair"), {"pair": 2}.get(kind, 1)
    if bool(slash) != wants_rail or len(nodes) != wants_nodes or len(set(nodes)) != wants_nodes:
        raise UserError(f"--fault {text!r} is no fault of kind {kind}", f"write it as {_SYNTAX[kind]}")
    if kind == "rail":
        _known(text, ends, cluster.rails, "rail")
        return Fault(kind, None, ends, None, None, share)
    if kind == "leaf":
        _known(text, ends, list(cluster.leaves), "leaf")
        return Fault(kind, None, cluster.rails[cluster.leaves[ends][1]], None, ends, share)
    for name in nodes:
        _known(text, name, cluster.nodes, "node")
    if wants_rail:
        _known(text, rail, cluster.rails, "rail")
    node, peer = nodes[0], None
    if kind == "pair":
        node, peer = sorted(nodes, key=cluster.nodes.index)
    return Fault(kind, node, rail if wants_rail else None, peer, None, share)


def parse_all(texts: Iterable[str], cluster: Cluster) -> list[Fault]:
    """Return the faults that texts say.

    Raises:
        UserError: one is none, or the same part has two.
    """
    found: dict[tuple[Any, ...], Fault] = {}
    for text in texts:
        fault = parse(text, cluster)
        if fault[:-1] in found:
            raise UserError(f"--fault {text!r}: this part has a fault already", "give each part one share")
        found[fault[:-1]] = fault
    return list(found.values())


class Shares:
    """What faults leave of the rate. A test carries the product of all on its way."""

    def __init__(self, cluster: Cluster, faults: Iterable[Fault], narrowest: bool = False) -> None:
        """Work out the shares.

        Args:
            cluster: the cluster.
            faults: its faults.
            narrowest: a test carries the least of all shares on its way, not their product.
        """
        self._cluster, self.narrowest = cluster, narrowest
        self.faults = list(faults)
        self._place = {name: number for number, name in enumerate(cluster.nodes)}
        self._rail = {name: number for number, name in enumerate(cluster.rails)}
        self.ends = np.ones((len(cluster.nodes), len(cluster.rails)))
        self.rails = np.ones(len(cluster.rails))
        self.pairs: dict[tuple[int, int, int], float] = {}
        self.leaf = np.ones_like(self.ends)
        for fault in self.faults:
            if fault.kind == "rail":
                self.rails[self._rail[str(fault.rail)]] = fault.share
            elif fault.kind == "leaf":
                behind, rail = cluster.leaves[str(fault.leaf)]
                self.leaf[behind, rail] = fault.share
            elif fault.kind == "pair":
                both = self._place[str(fault.node)], self._place[str(fault.peer)]
                self.pairs[(*both, self._rail[str(fault.rail)])] = fault.share
            else:
                rails: Any = slice(None) if fault.rail is None else self._rail[fault.rail]
                places = self._place[str(fault.node)], rails
                self.ends[places] = self.both(self.ends[places], fault.share)

    def both(self, one: Any, other: Any) -> Any:
        """Return what two faults on one way leave."""
        return np.minimum(one, other) if self.narrowest else one * other

    def share_between(
        self, node: NDArray[np.int64], peer: NDArray[np.int64], rail: int
    ) -> NDArray[np.float64]:
        """Return what tests between nodes carry on a rail, as a share of the rate."""
        # A way crosses each leaf once, both of its ends'; within one leaf the same.
        leaf = self.leaf[:, rail]
        same = self._block()[node] == self._block()[peer]
        crossed = np.where(same, leaf[node], self.both(leaf[node], leaf[peer]))
        share = self.both(self.both(self.ends[node, rail], self.ends[peer, rail]), crossed)
        share = np.asarray(self.both(share, self.rails[rail]))
        for (one, other, on), left in self.pairs.items():
            if on == rail:
                here = ((node == one) & (peer == other)) | ((node == other) & (peer == one))
                share[here] = self.both(share[here], left)
        return share

    def _block(self) -> NDArray[np.int64]:
        found = np.zeros(len(self._cluster.nodes), dtype=np.int64)
        for number, (behind, rail) in enumerate(self._cluster.leaves.values()):
            if rail == 0:
                found[behind] = number
        return found


def _share(text: str) -> float | None:
    if not re.fullmatch(r"[0-9]*\.?[0-9]+", text):
        return None
    share = float(text)
    return share if 0 <= share < 1 else None


def _known(text: str, name: str, names: list[str], what: str) -> None:
    if name not in names:
        known = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
        raise UserError(f"--fault {text!r}: the simulated cluster has no {what} {name!r}", f"it has {known}")
