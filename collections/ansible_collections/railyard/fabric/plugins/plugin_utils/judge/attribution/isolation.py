# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Isolate the slow components of a real run, and keep those that explain its verdicts.

The judge decides whether anything is wrong. Isolation only finds the component: a component with mostly good
verdicts is not a suspect of a run, however slow it is compared with its peers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine, nodes_of
from ansible_collections.railyard.fabric.plugins.plugin_utils.arrays import np
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import requests, suspects
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import (
    FAIL,
    PASS,
    RECORDED,
    UNMEASURED,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_number
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution import matrix, slow_components
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution.matrix import (
    NONE,
    Tests,
    Wiring,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import row_numbers
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Order, Row

#: With two nodes the two ends cannot be distinguished.
LEAST_NODES = 3
#: Bandwidth checks, the most informative first: the first of them that the run plans is used.
_CHECKS = ("rdma_bandwidth_concurrent", "tcp_bandwidth_concurrent", "rdma_bandwidth", "tcp_bandwidth")


def find_suspects(
    order: Order | None,
    asked: Sequence[AskedLine],
    results: Iterable[Row],
    verdicts: Sequence[Row],
    rest: Iterable[Row] | None = None,
) -> slow_components.Findings:
    """Return the slow components of a judged run; none if all its verdicts are good.

    Args:
        order: the common part of its test schedule, which has the leaves.
        asked: the planned tests.
        results: the result rows.
        verdicts: the verdicts.
        rest: the verdicts that are not clear passes; None if unknown.
    """
    check = find_isolation_check(asked)
    # All results are read only if there is something to explain.
    if order is None or not any(
        one["outcome"] in (FAIL, UNMEASURED)
        for one in _select_lines(check, verdicts if rest is None else rest)
    ):
        return slow_components.NOTHING
    try:
        wiring = matrix.read_wiring(order)
        if len(wiring.nodes) < LEAST_NODES:
            return slow_components.NOTHING
        tests = read_tests(asked, results, verdicts, wiring, order["absent"])
        found = slow_components.find_components(tests, wiring)
    except (LookupError, TypeError, ValueError, AttributeError):
        return slow_components.NOTHING  # the test schedule is incomplete, which the judge reports
    return keep_confirmed(found, verdicts, wiring)


def needs_judge(order: Row, asked: Sequence[AskedLine], results: Callable[[], Iterable[Row]]) -> bool:
    """Tell whether a run must be judged before it ends, so that suspects can be measured again.

    In most runs nothing looks bad, and they need not be judged twice.

    Args:
        order: the common part of the run's test schedule.
        asked: the planned tests.
        results: returns the result rows, each time from the first one.
    """
    if (
        len(order["roster"]) < LEAST_NODES
        or not order["policy"]["confirm"]
        or find_isolation_check(asked) is None
    ):
        return False
    if any(map(looks_bad, results())):
        return True
    wiring = matrix.read_wiring(order)
    tests = read_tests(asked, results(), (), wiring, order["absent"])
    return bool(slow_components.find_components(tests, wiring).doubtful)


def looks_bad(row: Row) -> bool:
    """Tell whether a row is of a test that its nodes measured again, or could not measure."""
    return row.get("peer") is not None and (
        row_numbers.read_attempt(row) > 1 or row.get("status") != "measured"
    )


def find_isolation_check(asked: Sequence[Mapping[str, object]]) -> str | None:
    """Return the check that isolation uses, None if none is planned."""
    found = {str(line["check"]) for line in requests.distinct(asked)}
    return next((check for check in _CHECKS if check in found), None)


def read_tests(
    asked: Sequence[AskedLine],
    results: Iterable[Row],
    verdicts: Iterable[Row],
    wiring: Wiring,
    absent: Collection[str] = (),
) -> Tests:
    """Return a run's bandwidth tests, with each attempt at a pair's tests as a separate meeting.

    All results with a good verdict on a rail get the same value: differences between them show no fault, and
    with few partners they would hide one.

    Args:
        asked: the planned tests.
        results: the result rows, in any order. The lower result of both ends counts.
        verdicts: the run's.
        wiring: of its nodes.
        absent: nodes that did not take part; missing results of them show nothing about a rail.
    """
    check = find_isolation_check(asked)
    wanted = {str(line["id"]): line for line in asked if line["check"] == check}
    gbps: dict[str, dict[int, float]] = {}
    for row in results:
        identity, metrics = str(row.get("id")), row.get("metrics")
        line = wanted.get(identity)
        if line is None or row.get("host") not in (line["node"], line["peer"]):
            continue
        attempts, attempt = gbps.setdefault(identity, {}), row_numbers.read_attempt(row)
        seen = metrics.get("bandwidth_gbps") if isinstance(metrics, Mapping) else None
        if is_number(seen):
            attempts[attempt] = float(np.fmin(float(seen), attempts.get(attempt, np.nan)))
        else:
            attempts.setdefault(attempt, np.nan)
    node = {name: place for place, name in enumerate(wiring.nodes)}
    rail = {name: place for place, name in enumerate(wiring.rails)}
    numbers: dict[tuple[Any, ...], int] = {}
    passed = {str(one["id"]) for one in verdicts if one["outcome"] in (PASS, RECORDED)}
    columns, values, good = [], [], []
    for identity, line in wanted.items():
        if line["node"] in absent or line["peer"] in absent:
            continue
        both = sorted(nodes_of(line), key=node.__getitem__)
        for attempt, value in {1: np.nan, **gbps.get(identity, {})}.items():
            number = numbers.setdefault((line["round"], *both, attempt), len(numbers))
            columns.append((number, *(node[name] for name in nodes_of(line)), rail[str(line["rail"])]))
            values.append(value)
            good.append(identity in passed)
    number_of, sender, receiver, of_rail = np.array(columns, dtype=np.int64).reshape(-1, 4).T
    rate = np.fmin(wiring.rate_gbps[sender, of_rail], wiring.rate_gbps[receiver, of_rail])
    rate = np.where(np.isnan(rate), 1.0, rate)
    share = np.array(values, dtype=np.float64) / rate
    for each in range(len(wiring.rails)):
        alike = np.array(good, dtype=bool) & (of_rail == each) & ~np.isnan(share)
        if alike.any():
            share[alike] = np.median(share[alike])
    return Tests(number_of, sender, receiver, of_rail, share * rate)


def keep_confirmed(
    found: slow_components.Findings, verdicts: Sequence[Row], wiring: Wiring
) -> slow_components.Findings:
    """Return the findings that verdicts confirm: at least half of a component's pairs are not good.

    Each pair counts once, however often it was measured.

    Args:
        found: the result of isolation.
        verdicts: the run's.
        wiring: of its nodes.
    """
    asked, bad = Counter[tuple[Any, ...]](), Counter[tuple[Any, ...]]()
    behind = _map_leaves(wiring)
    met, slow = Counter[tuple[frozenset[str], str]](), Counter[tuple[frozenset[str], str]]()
    for one in _select_lines(find_isolation_check(verdicts), verdicts):
        pair = frozenset((one["node"], one["peer"])), one["rail"]
        met[pair] += 1
        slow[pair] += one["outcome"] in (FAIL, UNMEASURED)
    for pair, count in met.items():
        parts = set(_list_parts(*pair, behind))
        asked.update(parts)
        if 2 * slow[pair] >= count:
            bad.update(parts)

    def is_confirmed(one: suspects.Suspect) -> bool:
        part = {
            suspects.RAIL: (one.rail,),
            suspects.LEAF: (one.leaf,),
            suspects.NODE: (one.node,),
            suspects.NODE_RAIL: (one.node, one.rail),
            suspects.PAIR: (frozenset((one.node, one.peer)), one.rail),
        }[one.kind]
        place = one.kind, *part
        return bool(bad[place]) and 2 * bad[place] >= asked[place]

    return slow_components.Findings(
        tuple(filter(is_confirmed, found.suspects)),
        tuple(filter(is_confirmed, found.doubtful)),
        tuple(one for one in found.cannot_tell if bad[suspects.RAIL, one.rail]),
        tuple(one for one in found.crossing if bad[suspects.RAIL, one.rail]),
    )


def _select_lines(check: str | None, lines_: Iterable[Row]) -> Iterator[Row]:
    return (one for one in lines_ if one["check"] == check and one["rail"] is not None)


def _map_leaves(wiring: Wiring) -> dict[tuple[str, str], str]:
    """Return (node, rail) -> its leaf, if one is declared."""
    return {
        (wiring.nodes[node], wiring.rails[rail]): wiring.leaves[wiring.leaf[node, rail]]
        for node, rail in zip(*np.nonzero(wiring.leaf != NONE), strict=True)
    }


def _list_parts(
    pair: frozenset[str], rail: str, behind: Mapping[tuple[str, str], str]
) -> Iterator[tuple[Any, ...]]:
    yield suspects.RAIL, rail
    yield suspects.PAIR, pair, rail
    for node in pair:
        yield suspects.NODE, node
        yield suspects.NODE_RAIL, node, rail
        if (leaf := behind.get((node, rail))) is not None:
            yield suspects.LEAF, leaf
