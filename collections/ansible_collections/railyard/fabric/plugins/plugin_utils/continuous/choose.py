# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose which idle nodes are validated together, longest unproven first. Pure."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import FAIL
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.node_results import RunResult
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.run_metrics import newest, proven_s

#: Two nodes cannot tell a slow node from its slow partner: it takes a third.
LEAST_NODES = 3


def order(nodes: Iterable[str], runs: Sequence[RunResult]) -> list[str]:
    """Return nodes in the order in which they are to be validated.

    Nodes that failed by themselves in their newest run come first, since a second run with other partners
    decides about them; then nodes that were never proven; then the one whose proof is the oldest.

    Args:
        nodes: idle nodes.
        runs: the cluster's runs, newest first.
    """
    proven, last = proven_s(runs), newest(runs)

    def rank(node: str) -> tuple[bool, float, str]:
        failed = node in last and any(
            one.is_own and one.outcome == FAIL for one in last[node].nodes[node].faults
        )
        return not failed, proven.get(node, 0.0), node

    return sorted(nodes, key=rank)


def group(
    ordered: Sequence[str],
    met: Mapping[str, Collection[str]],
    fits: Callable[[Sequence[str]], bool],
    least: int = LEAST_NODES,
) -> list[str]:
    """Return the nodes to validate next together: as many as fit, from the first on; none where too few do.

    Args:
        ordered: idle nodes, most urgent first.
        met: failed node -> the partners with which it failed; it needs others where there are any.
        fits: tells whether a run of these nodes ends in time.
        least: the fewest nodes of a group.
    """
    if len(ordered) < least:
        return []
    ordered = _with_new_partners(ordered, met, least)
    # The cost grows with the number of nodes, so the largest group that fits is found by halving.
    low, high = least - 1, len(ordered)
    while low < high:
        middle = (low + high + 1) // 2
        if fits(ordered[:middle]):
            low = middle
        else:
            high = middle - 1
    return list(ordered[:low]) if low >= least else []


def _with_new_partners(
    ordered: Sequence[str], met: Mapping[str, Collection[str]], least: int
) -> Sequence[str]:
    """Put nodes that the most urgent one has not failed with right behind it."""
    first = ordered[0]
    known = met.get(first, ())
    new = [node for node in ordered[1:] if node not in known][: least - 1]
    return [first, *new, *(node for node in ordered[1:] if node not in new)] if known else ordered


def failed_with(node: str, run: RunResult) -> set[str]:
    """Return the partners with which a node's own tests failed in a run."""
    found = run.nodes.get(node)
    faults = found.faults if found else ()
    return {partner for one in faults if one.is_own and one.outcome == FAIL for partner in one.partners}
