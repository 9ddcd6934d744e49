# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the error counters of a node's rail from the rows of its tests. Pure.

Each end of each test reads the counters before and after. Physical errors (CRC errors, links that went down)
must not grow at all, not between tests either, so errors during a test without a row are found too. Symbol
errors have a permitted rate: they count if they occur repeatedly, or many at once. Transport errors
(retransmissions) count within the tests, if a second attempt at the test has them too, and only on hardware:
software RDMA retransmits whenever its processor is late. Drops for lack of buffers count within the tests, if
the node's port is configured as lossless (`lossless`). Congestion control is reported and never judged, and
so are packets out of order if the policy declares adaptive routing. Alarms of the rail's transceiver module,
and a bit error ratio before FEC above the limit, fail as well (`optics`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.facts.link_errors import (
    KINDS,
    LOSS,
    NOTICE,
    PHYSICAL,
    SYMBOL,
    TRANSPORT,
    is_saturated,
    kind_of,
    show_link,
)
from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine
from ansible_collections.railyard.fabric.plugins.module_utils.rules import symbol_errors
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS, PASS
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import (
    are_pairs,
    is_pair,
    is_whole,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import row_numbers
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.rail_rows import RailRows
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.tables import (
    find_shared_values,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import lossless, optics
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import named
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

#: Maximum number of peers in a sentence.
_NAMED = 3


@dataclass
class _Errors:
    """The error counters in all rows of one node and rail.

    Attributes:
        setting: the lossless setting of the rail's port.
        adaptive_routing: whether packets may arrive out of order.
        growth: counter -> growth, of counters that must not grow.
        losses: counter -> growth, of drops and pause storms that violate the lossless setting.
        notices: counter -> growth, of counters that are no fault by themselves.
        peers: nodes in whose tests a counter grew that must not grow.
        rows: number of rows.
        used: ids of their tests.
        names: counters that were read and are judged.
        spans: counter -> number of rows, and gaps between rows, in which it grew.
        sent_again: test -> its attempts with retransmissions.
        attempts: test -> all its attempts.
        doubt: why a counter cannot be trusted.
        corrected: the bits that FEC corrected.
    """

    setting: lossless.LosslessSetting
    adaptive_routing: bool = False
    growth: dict[str, int] = field(default_factory=dict)
    losses: dict[str, int] = field(default_factory=dict)
    notices: dict[str, int] = field(default_factory=dict)
    peers: dict[str, None] = field(default_factory=dict)
    rows: int = 0
    used: list[Iterable[str]] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    spans: Counter[str] = field(default_factory=Counter)
    sent_again: dict[str, set[int]] = field(default_factory=dict)
    attempts: dict[str, set[int]] = field(default_factory=dict)
    doubt: str | None = None
    corrected: optics.CorrectedBits = field(default_factory=optics.CorrectedBits)

    def add_growth(self, name: str, by: int, peer: str, row: Row, broken: bool) -> None:
        kind = kind_of(name, self.adaptive_routing)
        self.spans[name] += 1
        if kind == TRANSPORT:
            self.sent_again.setdefault(str(row.get("id")), set()).add(row_numbers.read_attempt(row))
        place = self.growth
        if kind in (LOSS, NOTICE):
            place = self.losses if broken else self.notices
        place[name] = place.get(name, 0) + by
        if place is not self.notices:
            self.peers.setdefault(peer)

    def is_reproduced(self, confirm: int) -> bool:
        """Tell whether two attempts at a test had retransmissions, or there was no second attempt."""
        return any(
            len(again) > 1 or not confirm or len(self.attempts[test]) < 2
            for test, again in self.sent_again.items()
        )


def judge(
    asked: AskedLine,
    run: str,
    mine: Sequence[Row],
    rows: Mapping[str, Sequence[Row]],
    bound: Bound,
    confirm: int = 0,
    lost: str | None = None,
    adaptive_routing: bool = False,
    passing: RailRows | None = None,
) -> Answer:
    """Judge a `link_errors` test.

    Args:
        asked: the planned test: one node, one rail.
        run: the run id.
        mine: the planned tests between nodes with an end on this rail, without those of `passing`.
        rows: test id -> its rows.
        bound: the rail, bound to the node's facts.
        confirm: how often a test that looks bad is measured again.
        lost: missing rows of the node, in which counters may have grown.
        adaptive_routing: whether the fabric spreads a connection's packets over several paths.
        passing: the rail's rows of tests that clearly pass.

    Returns:
        pass with zero growth; fail if a physical counter grew, symbol errors occurred twice or many at once,
        transport errors in two attempts on hardware, drops or pause storms on a lossless rail, or if the
        module has an alarm or the link too many errors before FEC; recorded for other growth; unmeasured
        without the rows of all tests, without counters, or with counters that cannot be trusted.
    """
    node, rail = str(asked["node"]), str(asked["rail"])
    found = []
    for test in mine:
        end, peer = ("client", test["peer"]) if test["node"] == node else ("server", test["node"])
        for row in rows.get(str(test["id"]), ()):
            common = find_shared_values(row)
            if common.get("host") == node and common.get("end") == end and common.get("run") == run:
                found.append((str(peer), row))
    seen = _read_rows(found, passing, bound, adaptive_routing)
    optical = optics.find_optical_faults(bound, seen.corrected)
    where = f"{node} {rail} ({(bound.netdev or {}).get('netdev')})"
    peers = named(list(seen.peers), _NAMED)
    grown = {**seen.growth, **seen.losses}
    answer = Answer(
        PASS,
        {
            "errors": sum(grown.values()),
            "counters": len(seen.names),
            **grown,
            **seen.notices,
            **optical.observed,
        },
        {"errors": 0},
        {"errors": 0},
        f"no error counter of the rail may grow, in {seen.rows} rows and between them"
        + lossless.describe_setting(seen.setting, seen.names)
        + (f"; reported, not judged: {_format_growth(seen.notices)}" if seen.notices else "")
        + "".join(f"; {remark}" for remark in optical.remarks),
        proof="proven",
        rows=passing.ids() if passing and not found else list(dict.fromkeys(chain.from_iterable(seen.used))),
        are_known=True,
    )
    physical = {
        name: by
        for name, by in seen.growth.items()
        if KINDS[name] == PHYSICAL
        or (KINDS[name] == SYMBOL and (seen.spans[name] > 1 or by > symbol_errors.AT_ONCE))
    }
    if physical:
        shown = f"; {optical.detail}" if optical.cause else ""
        return answer.failed(
            "link_errors", f"{where}: {_format_growth(physical)}; the cable to {peers}{shown}"
        )
    if seen.losses:
        detail = f"{where}: {_format_growth(seen.losses)}, with {peers}"
        return answer.failed("pause_storm" if lossless.STORM in seen.losses else "lossless_drops", detail)
    if seen.sent_again and not _is_software(bound) and seen.is_reproduced(confirm):
        return answer.failed("link_errors", f"{where}: {_format_growth(seen.growth)}, with {peers}")
    if optical.cause:
        return answer.failed(optical.cause, f"{where}: {optical.detail}")
    if seen.doubt:
        return answer.unknown("error_counters_reset", f"{where}: {seen.doubt}")
    # Notices and RDMA transport errors prove nothing about the link, nor do symbol errors, which are
    # permitted.
    if not show_link(seen.names):
        return Answer.unmeasured("no_error_counters", where)
    checks = {str(test["check"]) for test in mine}.union(passing.checks if passing else ())
    if any(CHECKS[check].rdma for check in checks) and not _has_rdma(seen.names):
        return answer.unknown("no_error_counters", f"{where}: no counter of the RDMA port was read")
    silent = next((str(test["id"]) for test in mine if str(test["id"]) not in seen.attempts), None)
    if lost or silent:
        return answer.unknown("no_row", f"{where}: {lost or f'{node} wrote none of test {silent}'}")
    if seen.growth:
        why = "a link may have a few, and they occurred once"
        if seen.sent_again:
            why = "retransmissions in one attempt, and not when the test was measured again"
            if _is_software(bound):
                why = "software RDMA retransmits whenever its processor is late; no published threshold"
        return answer.recorded(
            f"{_format_growth(seen.growth)}: {why}; no other counter of the link grew, in {seen.rows} rows "
            "and between them",
        )
    return answer


def _read_rows(
    found: Sequence[tuple[str, Row]], passing: RailRows | None, bound: Bound, adaptive_routing: bool
) -> _Errors:
    seen = _Errors(lossless.find_setting(bound.netdev), adaptive_routing)
    last: dict[str, int] = {}
    still: object = None
    netdev = (bound.netdev or {}).get("netdev")
    for peer, row, more in _order_rows(found, passing):
        still = _read_row(seen, last, still, netdev, peer, row)
        if passing is None or not more:
            continue
        if still is not None and passing.same_counters == (still, netdev):
            # They have the same counters as the row before them.
            seen.rows += len(more)
            seen.used.append(passing.ids(more.start, more.stop))
            seen.corrected.add(final := passing.row(more[-1]), final.frame["link_errors"])
            continue
        for at in more:
            still = _read_row(seen, last, still, netdev, passing.peer(at), passing.row(at))
    return seen


def _read_row(
    seen: _Errors, last: dict[str, int], still: object, netdev: object, peer: str, row: Row
) -> object:
    """Read the counters of a row; return them if rows with equal counters after it change nothing.

    Args:
        seen: what was read so far; changed in place.
        last: counter -> its last value; changed in place.
        still: the value returned for the row before.
        netdev: the rail's.
        peer: the node at the other end of the row's test.
        row: the row.
    """
    common, identity = find_shared_values(row), str(row["id"])
    seen.attempts.setdefault(identity, set()).add(row_numbers.read_attempt(common))
    spans = common.get("link_errors")
    if spans is None and (common.get("status") != "measured" or row.get("counters") is None):
        return still  # a test that ended before it read its counters has its own verdict
    if not isinstance(spans, Mapping) or not spans:
        seen.doubt = f"{identity}: link_errors is {spans!r}"
        return still
    if common.get("netdev") != netdev:
        seen.doubt = f"{identity}: read on netdev {common.get('netdev')!r}"
        return still
    seen.rows += 1
    seen.used.append([identity])
    seen.corrected.add(row, spans)
    # Rows of one frame have one object.
    if spans is still or (spans == still and are_pairs(spans.values())):
        return still
    gone = [name for name in last if name not in spans]
    if gone:
        seen.doubt = f"{identity}: {gone[0]} is missing, and was there before"
    for name, span in spans.items():
        _read_counter(seen, last, str(name), span, row, peer)
    # Trusted counters that do not change, and equal ones after them, need not be read again.
    if seen.doubt or any(not is_pair(span) or span[0] != span[1] for span in spans.values()):
        return None
    return spans


def _order_rows(
    found: Sequence[tuple[str, Row]], passing: RailRows | None
) -> Iterator[tuple[str, Row, range]]:
    """Yield rows in the order in which they were written, by their node's numbers.

    A clock may be set back. Rows of an earlier version have no number, and equal numbers are ordered by time.

    Yields:
        the node at the other end, the row, and the places of the passing rows that directly follow.
    """
    numbers: list[Any] = [row.get("sequence") for _peer, row in found]
    numbered = all(map(is_whole, numbers))
    alone = numbered and len(set(numbers)) == len(numbers)
    if passing is not None:
        places = passing.places(numbers) if alone else None
        if places is None:
            every = [(passing.peer(at), passing.row(at)) for at in range(len(passing))]
            yield from _order_rows([*found, *every], None)
            return
        begin = 0
        turn = sorted(range(len(found)), key=numbers.__getitem__)
        for place, at in [*((places[at], at) for at in turn), (len(passing), -1)]:
            if begin < place:
                yield passing.peer(begin), passing.row(begin), range(begin + 1, place)
            if at >= 0:
                yield (*found[at], range(0))
            begin = place
        return
    if alone:
        turn = sorted(range(len(found)), key=numbers.__getitem__)
    else:
        turn = sorted(
            range(len(found)),
            key=lambda at: (numbers[at] if numbered else 0, str(found[at][1].get("started"))),
        )
    yield from ((*found[at], range(0)) for at in turn)


def _read_counter(seen: _Errors, last: dict[str, int], name: str, span: object, row: Row, peer: str) -> None:
    identity = str(row.get("id"))
    kind = kind_of(name, seen.adaptive_routing)
    if kind is None:
        seen.doubt = f"{identity}: {name} is no counter that this version knows"
        return
    if not is_pair(span, _is_count):
        # Notices are not judged, so they may be damaged.
        seen.doubt = seen.doubt if kind == NOTICE else f"{identity}: {name} is {span!r}"
        return
    before, after = span
    if kind == NOTICE:
        if after > before:
            seen.add_growth(name, after - before, peer, row, broken=False)
        return
    seen.names.add(name)
    if name not in last and before and kind in (PHYSICAL, SYMBOL) and seen.rows > 1:
        # A counter that a driver adds later begins at 0; this one may have grown in the rows before.
        seen.doubt = f"{identity}: {name} was not there before and is {before}"
    earlier = last.get(name, before)
    last[name] = after
    if is_saturated(name, after):
        seen.doubt = f"{identity}: {name} is at its maximum, {after}"
    elif after < before or before < earlier:
        seen.doubt = f"{identity}: {name} went from {max(before, earlier)} back to {min(before, after)}"
    if kind in (PHYSICAL, SYMBOL) and before > earlier:
        seen.add_growth(name, before - earlier, peer, row, broken=False)
    grown = max(after - before, 0)
    if grown:
        check = CHECKS.get(str(row.get("check")))
        traffic_class = row.get("traffic_class")
        in_class = check is not None and check.rdma and lossless.has_dscp(traffic_class)
        broken = kind == LOSS and lossless.is_violated(name, seen.setting, row["link_errors"], in_class)
        seen.add_growth(name, grown, peer, row, broken)


def _is_count(value: object) -> bool:
    return is_whole(value) and value >= 0


def _is_software(bound: Bound) -> bool:
    return (bound.hca or bound.netdev or {}).get("driver_class") in ("software", "virtual")


def _has_rdma(names: Iterable[str]) -> bool:
    return any(name.startswith(("hca.", "hw.")) for name in names)


def _format_growth(growth: Mapping[str, int]) -> str:
    return ", ".join(f"{name} grew by {by}" for name, by in sorted(growth.items()))
