# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Isolation in a real run: its rows as tests, and who of the slow explains its verdicts.

Whether anything is wrong is for the judge to say. Isolation only says who it is: a part most of whose
verdicts are good is no suspect of a run, however slow it is beside its like.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine, nodes_of
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import suspects
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import (
    FAIL,
    PASS,
    RECORDED,
    UNMEASURED,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_number
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution import culprits, measured
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution.measured import (
    NONE,
    Tests,
    Wiring,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import row_numbers
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Order, Row

try:
    import numpy as np
except ImportError:  # sanity's environment has none; see measured.py
    np = None  # type: ignore[assignment]


#: With two nodes nobody is left to tell one end from the other.
LEAST_NODES = 3
#: What tells how much a path carries, the surest first: the first of them that the run asks is read.
_CHECKS = ("rdma_bandwidth_concurrent", "tcp_bandwidth_concurrent", "rdma_bandwidth", "tcp_bandwidth")


def of(
    order: Order | None,
    asked: Sequence[AskedLine],
    results: Iterable[Row],
    verdicts: Sequence[Row],
    rest: Iterable[Row] | None = None,
) -> culprits.Findings:
    """Return who is slow in a run that was judged; of a run without anything bad, nothing.

    Args:
        order: the common part of its work order; without one nobody knows the leaves.
        asked: the asked lines.
        results: the result rows.
        verdicts: the verdicts.
        rest: those of them that are not plain passes; None where nobody has sorted them.
    """
    check = check_of(asked)
    # All numbers are read only where there is something to explain.
    if order is None or not any(
        one["outcome"] in (FAIL, UNMEASURED) for one in _of(check, verdicts if rest is None else rest)
    ):
        return culprits.NOTHING
    try:
        wiring = measured.wiring(order)
        if len(wiring.nodes) < LEAST_NODES:
            return culprits.NOTHING
        tests = measured_tests(asked, results, verdicts, wiring, order["absent"])
        found = culprits.isolate(tests, wiring)
    except (LookupError, TypeError, ValueError, AttributeError):
        return culprits.NOTHING  # the work order is not whole, which the judge says
    return explained(found, verdicts, wiring)


def asks_judge(order: Row, asked: Sequence[AskedLine], results: Callable[[], Iterable[Row]]) -> bool:
    """Tell whether the judge is to say who may be slow before a run ends, so that they can measure further.

    For most runs nothing looks bad, and they need not be judged twice.

    Args:
        order: the common part of the run's work order.
        asked: the asked lines.
        results: gives the result rows, from the first one on each time.
    """
    if len(order["roster"]) < LEAST_NODES or not order["policy"]["confirm"] or check_of(asked) is None:
        return False
    if any(map(looks_bad, results())):
        return True
    wiring = measured.wiring(order)
    tests = measured_tests(asked, results(), (), wiring, order["absent"])
    return bool(culprits.isolate(tests, wiring).doubtful)


def looks_bad(row: Row) -> bool:
    """Tell whether a row is of a test that its nodes measured again, or could not measure."""
    return row.get("peer") is not None and (
        row_numbers.attempt_of(row) > 1 or row.get("status") != "measured"
    )


def check_of(asked: Iterable[Mapping[str, object]]) -> str | None:
    """Return the check whose numbers isolation reads, None where none of them is asked."""
    found = {str(line["check"]) for line in asked}
    return next((check for check in _CHECKS if check in found), None)


def measured_tests(
    asked: Sequence[AskedLine],
    results: Iterable[Row],
    verdicts: Iterable[Row],
    wiring: Wiring,
    absent: Collection[str] = (),
) -> Tests:
    """Return the tests of a run's bandwidths, each attempt at a pair's tests as a meeting of its own.

    What the judge takes for good is as good as all that is good on its rail: by how much one good number is
    below another says nothing of a fault, and next to a few partners it would drown one.

    Args:
        asked: the asked lines.
        results: the result rows, in any order. A number counts where an end of the test gave it; where both
            did, the lesser.
        verdicts: the run's.
        wiring: of its nodes.
        absent: nodes that were not there: that nothing came back from them says nothing of a rail.
    """
    check = check_of(asked)
    wanted = {str(line["id"]): line for line in asked if line["check"] == check}
    gbps: dict[str, dict[int, float]] = {}
    for row in results:
        identity, metrics = str(row.get("id")), row.get("metrics")
        line = wanted.get(identity)
        if line is None or row.get("host") not in (line["node"], line["peer"]):
            continue
        attempts, attempt = gbps.setdefault(identity, {}), row_numbers.attempt_of(row)
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


def explained(found: culprits.Findings, verdicts: Sequence[Row], wiring: Wiring) -> culprits.Findings:
    """Return of the findings those that verdicts bear out: half or more of a part's pairs are not good.

    A pair that met more often than others counts once.

    Args:
        found: what isolation says.
        verdicts: the run's.
        wiring: of its nodes.
    """
    asked, bad = Counter[tuple[Any, ...]](), Counter[tuple[Any, ...]]()
    behind = _leaves(wiring)
    met, slow = Counter[tuple[frozenset[str], str]](), Counter[tuple[frozenset[str], str]]()
    for one in _of(check_of(verdicts), verdicts):
        pair = frozenset((one["node"], one["peer"])), one["rail"]
        met[pair] += 1
        slow[pair] += one["outcome"] in (FAIL, UNMEASURED)
    for pair, count in met.items():
        parts = set(_parts(*pair, behind))
        asked.update(parts)
        if 2 * slow[pair] >= count:
            bad.update(parts)

    def is_borne_out(one: suspects.Suspect) -> bool:
        part = {
            suspects.RAIL: (one.rail,),
            suspects.LEAF: (one.leaf,),
            suspects.NODE: (one.node,),
            suspects.NODE_RAIL: (one.node, one.rail),
            suspects.PAIR: (frozenset((one.node, one.peer)), one.rail),
        }[one.kind]
        place = one.kind, *part
        return bool(bad[place]) and 2 * bad[place] >= asked[place]

    return culprits.Findings(
        tuple(filter(is_borne_out, found.suspects)),
        tuple(filter(is_borne_out, found.doubtful)),
        tuple(one for one in found.cannot_tell if bad[suspects.RAIL, one.rail]),
        tuple(one for one in found.crossing if bad[suspects.RAIL, one.rail]),
    )


def _of(check: str | None, lines_: Iterable[Row]) -> Iterator[Row]:
    return (one for one in lines_ if one["check"] == check and one["rail"] is not None)


def _leaves(wiring: Wiring) -> dict[tuple[str, str], str]:
    """Return node and rail -> its leaf, where one is declared."""
    return {
        (wiring.nodes[node], wiring.rails[rail]): wiring.leaves[wiring.leaf[node, rail]]
        for node, rail in zip(*np.nonzero(wiring.leaf != NONE), strict=True)
    }


def _parts(
    pair: frozenset[str], rail: str, behind: Mapping[tuple[str, str], str]
) -> Iterator[tuple[Any, ...]]:
    yield suspects.RAIL, rail
    yield suspects.PAIR, pair, rail
    for node in pair:
        yield suspects.NODE, node
        yield suspects.NODE_RAIL, node, rail
        if (leaf := behind.get((node, rail))) is not None:
            yield suspects.LEAF, leaf
