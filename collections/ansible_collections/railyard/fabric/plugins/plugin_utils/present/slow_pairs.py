# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which pairs of nodes are slow, so that their paths through the switches are worth reading. Pure.

One slow node makes all of its tests slow. Only so many paths are read, so that pairs whose ends have none yet
come first.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.plugin_utils.ask.suspects import PAIR, Suspect
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS, FAIL
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Verdict

_MEASURES = ("bandwidth_gbps", "latency_p50_us")


class SlowPair(NamedTuple):
    """Two nodes that are slow with each other on a rail, and the checks that failed; none of a suspect."""

    node: str
    peer: str
    rail: str
    checks: tuple[str, ...]


def find_slow_pairs(verdicts: Sequence[Verdict], suspects: Iterable[Suspect]) -> list[SlowPair]:
    """Return the slow pairs, the ones worth looking at first.

    Args:
        verdicts: of all planned checks.
        suspects: the slow components by all tests together; a suspect without a failed test of its own
            counts by the first test that it had.
    """
    named = [one for one in suspects if one.node is not None]
    failed: dict[tuple[str, str, str], list[str]] = {
        _order(str(one.node), str(one.peer), str(one.rail)): [] for one in named if one.kind == PAIR
    }
    for one in _of_pairs(verdicts):
        check = CHECKS[one["check"]]
        if one["outcome"] == FAIL and any(metric in check.client for metric in _MEASURES):
            checks = failed.setdefault(_order(one["node"], one["peer"], one["rail"]), [])
            checks += [check.name] if check.name not in checks else []
    for suspect in named:
        if not any(_concerns(suspect, pair) for pair in failed):
            tested = (_order(one["node"], one["peer"], one["rail"]) for one in _of_pairs(verdicts))
            pair = next((pair for pair in tested if _concerns(suspect, pair)), None)
            failed |= {} if pair is None else {pair: []}
    seen: set[tuple[str, str]] = set()
    first: list[SlowPair] = []
    rest: list[SlowPair] = []
    for (node, peer, rail), checks in failed.items():
        ends = {(node, rail), (peer, rail)}
        (rest if ends <= seen else first).append(SlowPair(node, peer, rail, tuple(checks)))
        seen |= ends
    return first + rest


def _of_pairs(verdicts: Iterable[Verdict]) -> Iterator[Verdict]:
    """Yield those of two nodes on a rail; of a large run they are made one by one."""
    return (one for one in verdicts if one["peer"] is not None and one["rail"] is not None)


def _order(node: str, peer: str, rail: str) -> tuple[str, str, str]:
    """Return a pair so that both directions are one."""
    return min(node, peer), max(node, peer), rail


def _concerns(suspect: Suspect, pair: tuple[str, str, str]) -> bool:
    return suspect.node in pair[:2] and suspect.rail in (None, pair[2])
