# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide by verdicts which nodes Slurm drains and which it resumes. Pure.

A node is drained when its own tests failed in two runs with different partners: in one run a slow partner, a
slow path or a busy moment explains the same numbers. What is unmeasured or unproven drains no node. No more
than a share of the cluster is drained at once: when more nodes fail, they have a common cause, and a person
decides. Only a drain of this program is ended, known by how its reason begins.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.state import slurm
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import FAIL
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch.sinfo import Listed
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean_line, named
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.node_results import Fault, RunResult

#: How reasons begin by which this program knows its own drain.
REASON = slurm.own_reason("validation:")

_SHARE = re.compile(r"(100|[0-9]{1,2}(?:\.[0-9]+)?) ?%")
_NUMBER = re.compile(r"[0-9]{1,6}")


class Confirmed(NamedTuple):
    """A node whose own tests failed in two runs."""

    node: str
    runs: tuple[str, str]
    what: str


class Decision(NamedTuple):
    """What is to be done.

    Attributes:
        drain: node -> reason.
        resume: nodes whose drain by this program ends.
        held: node -> why a node that failed is not drained.
        is_open: the circuit breaker is open: more nodes failed than may be drained at once.
        most: how many may be drained at once.
        drained: nodes that Railyard has drained now.
    """

    drain: dict[str, str]
    resume: list[str]
    held: dict[str, str]
    is_open: bool
    most: int
    drained: list[str]


def most_drained(text: str, nodes: int) -> int:
    """Return how many nodes may be drained at once.

    Args:
        text: a share such as `2%`, of which at least one node comes, or a number of nodes; 0 means none.
        nodes: how many the cluster has.

    Raises:
        ValueError: it is neither.
    """
    if share := _SHARE.fullmatch(text.strip()):
        return max(1, int(nodes * float(share[1]) / 100)) if float(share[1]) else 0
    if _NUMBER.fullmatch(text.strip()):
        return int(text)
    raise ValueError(f"{text!r} is neither a share such as 2% nor a number of nodes")


def decide(
    runs: Sequence[RunResult], listed: Mapping[str, Listed], most: int, prefix: str = REASON
) -> Decision:
    """Return what is to be done.

    Args:
        runs: the cluster's runs, newest first.
        listed: inventory node -> as Slurm lists it.
        most: how many nodes Railyard may have drained at once.
        prefix: how reasons begin by which this program knows its own drain.
    """
    ours = sorted(node for node, one in listed.items() if one.is_drained_by(slurm.OWN_REASON))
    resume = [node for node in ours if listed[node].reason.startswith(prefix) and _is_good_again(node, runs)]
    drain: dict[str, str] = {}
    held: dict[str, str] = {}
    is_open = False
    for one in sorted(confirmed(runs), key=lambda one: one.node):
        state = listed.get(one.node)
        if state is None:
            held[one.node] = "Slurm does not know it"
        elif state.is_drained_by(slurm.OWN_REASON):
            continue
        elif state.is_drained:
            held[one.node] = f"it is drained already: {clean_line(state.reason) or 'no reason is given'}"
        elif len(ours) - len(resume) + len(drain) >= most:
            is_open = True
            held[one.node] = f"Railyard may have {most} drained at once: {one.what}"
        else:
            drain[one.node] = f"{prefix} {one.what}, runs {' and '.join(one.runs)}"
    once = {node: what for node, what in _failed_once(runs).items() if node not in held and node not in drain}
    held |= {node: what for node, what in once.items() if not (listed.get(node) and listed[node].is_drained)}
    return Decision(drain, resume, held, is_open, most, ours)


def confirmed(runs: Sequence[RunResult]) -> list[Confirmed]:
    """Return the nodes whose own tests failed in the two newest runs that tested them, with other partners.

    Args:
        runs: newest first.
    """
    found = []
    for node, mine in _by_node(runs).items():
        if len(mine) < 2:
            continue
        last, before = mine[:2]
        whats = _alike(_own_failures(node, last), _own_failures(node, before))
        if whats:
            found.append(Confirmed(node, (before.run, last.run), named(whats, 2)))
    return found


def _alike(last: Iterable[Fault], before: Iterable[Fault]) -> list[str]:
    """Name what failed in both runs: on the same rail, where it is of a pair with at least one other partner.

    A check of a single node (a link that is down, a lost GPU) cannot be explained by a partner.
    """
    known: dict[tuple[str, bool], set[str]] = {}
    for one in before:
        known.setdefault((one.rail, bool(one.partners)), set()).update(one.partners)
    found: dict[str, None] = {}
    for one in last:
        key = one.rail, bool(one.partners)
        if key in known and (not one.partners or set(one.partners) - known[key]):
            found.setdefault(" ".join(filter(None, (one.rail, one.cause or one.check))), None)
    return list(found)


def _own_failures(node: str, run: RunResult) -> list[Fault]:
    return [one for one in run.nodes[node].faults if one.is_own and one.outcome == FAIL]


def _by_node(runs: Sequence[RunResult]) -> dict[str, list[RunResult]]:
    """Return node -> the runs that tell something of it, newest first: it was good, or failed."""
    found: dict[str, list[RunResult]] = {}
    for run in runs:
        for node, one in run.nodes.items():
            if one.is_good or any(fault.outcome == FAIL for fault in one.faults):
                found.setdefault(node, []).append(run)
    return found


def _failed_once(runs: Sequence[RunResult]) -> dict[str, str]:
    """Return node -> the message on a node that failed in its newest run, and is not confirmed."""
    sure = {one.node for one in confirmed(runs)}
    return {
        node: "it failed in one run; a second one with other partners decides"
        for node, mine in _by_node(runs).items()
        if node not in sure and _own_failures(node, mine[0])
    }


def _is_good_again(node: str, runs: Sequence[RunResult]) -> bool:
    """Tell whether the newest run that tells something of a node found it good."""
    mine = _by_node(runs).get(node, [])
    return bool(mine) and mine[0].nodes[node].is_good
