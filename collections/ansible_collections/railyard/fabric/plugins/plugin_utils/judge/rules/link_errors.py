# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Did the error counters of a node's rail stand still while it was tested? From its tests' rows. Pure.

Each end of each test reads the counters before and after. Physical ones (CRC errors, links that went down)
may not grow at all, between the tests neither: so what a test without a row met shows too. Symbol errors have
a legal rate: they weigh when they come again, or many at once. Transport ones (packets sent again) are looked
at within the tests, weigh when a test's next attempt has them too, and on hardware alone: software RDMA sends
again whenever its processor is late. Drops for want of buffers weigh within the tests, and where the node's
own port promises that there are none (`lossless`). What congestion control did is told and never judged, nor
are packets that come out of order where the policy says that the fabric has adaptive routing. Alarms of the
rail's module, and a bit error ratio before FEC above the limit, fail as well (`optics`).
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
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.tables import shared
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import lossless, optics
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import named
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

#: How many peers a sentence names.
_NAMED = 3


@dataclass
class _Seen:
    """What the rows of one node and rail say together.

    Attributes:
        promise: what the rail's port says of its losses.
        adaptive_routing: whether packets may come out of order.
        growth: counter -> growth, of those that may not grow.
        losses: the same of drops and pause storms that break the promise.
        told: the same of what is no fault by itself.
        peers: with whom one grew that may not.
        rows: how many there are.
        used: ids of their tests.
        names: counters that were read and may be judged.
        spans: counter -> in how many rows, and gaps between rows, it grew.
        sent_again: test -> the attempts at it in which packets were sent again.
        attempts: test -> all attempts at it.
        doubt: why a counter cannot be trusted.
        corrected: the bits that FEC corrected.
    """

    promise: lossless.Promise
    adaptive_routing: bool = False
    growth: dict[str, int] = field(default_factory=dict)
    losses: dict[str, int] = field(default_factory=dict)
    told: dict[str, int] = field(default_factory=dict)
    peers: dict[str, None] = field(default_factory=dict)
    rows: int = 0
    used: list[Iterable[str]] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    spans: Counter[str] = field(default_factory=Counter)
    sent_again: dict[str, set[int]] = field(default_factory=dict)
    attempts: dict[str, set[int]] = field(default_factory=dict)
    doubt: str | None = None
    corrected: optics.CorrectedBits = field(default_factory=optics.CorrectedBits)

    def grew(self, name: str, by: int, peer: str, row: Row, broken: bool) -> None:
        kind = kind_of(name, self.adaptive_routing)
        self.spans[name] += 1
        if kind == TRANSPORT:
            self.sent_again.setdefault(str(row.get("id")), set()).add(row_numbers.attempt_of(row))
        place = self.growth
        if kind in (LOSS, NOTICE):
            place = self.losses if broken else self.told
        place[name] = place.get(name, 0) + by
        if place is not self.told:
            self.peers.setdefault(peer)

    def lasts(self, confirm: int) -> bool:
        """Tell whether packets were sent again in two attempts at a test, or nobody looked a second time."""
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
    plain: RailRows | None = None,
) -> Answer:
    """Answer a `link_errors` line.

    Args:
        asked: the asked line: one node, one rail.
        run: the run id.
        mine: the asked lines of tests between nodes that the rail is an end of, but for those of `plain`.
        rows: test id -> its rows.
        bound: the rail, bound to the node's facts.
        confirm: how often a test that looks bad is measured again.
        lost: rows of the node that are known to be missing: what grew in them is not known.
        adaptive_routing: whether the fabric spreads a connection's packets over several paths.
        plain: the rail's rows of tests that plainly pass.

    Returns:
        pass with zero growth; fail where a counter of the cable grew, symbol errors came twice or many at
        once, one of transport on hardware in two attempts, drops and pause storms on a lossless rail, or its
        module has an alarm or its link too many errors before FEC;
        recorded where it grew otherwise; unmeasured without the rows of all tests, without counters, or with
        counters that cannot be trusted.
    """
    node, rail = str(asked["node"]), str(asked["rail"])
    found = []
    for test in mine:
        end, peer = ("client", test["peer"]) if test["node"] == node else ("server", test["node"])
        for row in rows.get(str(test["id"]), ()):
            said = shared(row)
            if said.get("host") == node and said.get("end") == end and said.get("run") == run:
                found.append((str(peer), row))
    seen = _read(found, plain, bound, adaptive_routing)
    optical = optics.find(bound, seen.corrected)
    where = f"{node} {rail} ({(bound.netdev or {}).get('netdev')})"
    peers = named(list(seen.peers), _NAMED)
    grown = {**seen.growth, **seen.losses}
    answer = Answer(
        PASS,
        {
            "errors": sum(grown.values()),
            "counters": len(seen.names),
            **grown,
            **seen.told,
            **optical.observed,
        },
        {"errors": 0},
        {"errors": 0},
        f"no error counter of the rail may grow, in {seen.rows} rows and between them"
        + lossless.basis(seen.promise, seen.names)
        + (f"; told, not judged: {_told(seen.told)}" if seen.told else "")
        + "".join(f"; {remark}" for remark in optical.remarks),
        proof="proven",
        rows=plain.ids() if plain and not found else list(dict.fromkeys(chain.from_iterable(seen.used))),
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
        return answer.failed("link_errors", f"{where}: {_told(physical)}; the cable to {peers}{shown}")
    if seen.losses:
        detail = f"{where}: {_told(seen.losses)}, with {peers}"
        return answer.failed("pause_storm" if lossless.STORM in seen.losses else "lossless_drops", detail)
    if seen.sent_again and not _is_software(bound) and seen.lasts(confirm):
        return answer.failed("link_errors", f"{where}: {_told(seen.growth)}, with {peers}")
    if optical.cause:
        return answer.failed(optical.cause, f"{where}: {optical.detail}")
    if seen.doubt:
        return answer.unknown("error_counters_reset", f"{where}: {seen.doubt}")
    # What is told alone, or is of RDMA's transport, proves nothing of the link; nor do symbol errors, which
    # it may have.
    if not show_link(seen.names):
        return Answer.unmeasured("no_error_counters", where)
    checks = {str(test["check"]) for test in mine}.union(plain.checks if plain else ())
    if any(CHECKS[check].rdma for check in checks) and not _has_rdma(seen.names):
        return answer.unknown("no_error_counters", f"{where}: none of the RDMA port's own was read")
    silent = next((str(test["id"]) for test in mine if str(test["id"]) not in seen.attempts), None)
    if lost or silent:
        return answer.unknown("no_row", f"{where}: {lost or f'{node} wrote none of test {silent}'}")
    if seen.growth:
        why = "a link may have a few, and they came once"
        if seen.sent_again:
            why = "sent again once, and not when the test was measured again"
            if _is_software(bound):
                why = "software RDMA sends again whenever its processor is late, and no authority bounds that"
        return answer.recorded(
            f"{_told(seen.growth)}: {why}; no other counter of the link grew, in {seen.rows} rows and "
            "between them",
        )
    return answer


def _read(
    found: Sequence[tuple[str, Row]], plain: RailRows | None, bound: Bound, adaptive_routing: bool
) -> _Seen:
    seen = _Seen(lossless.promise(bound.netdev), adaptive_routing)
    last: dict[str, int] = {}
    still: object = None
    netdev = (bound.netdev or {}).get("netdev")
    for peer, row, more in _in_turn(found, plain):
        still = _read_row(seen, last, still, netdev, peer, row)
        if plain is None or not more:
            continue
        if still is not None and plain.same_counters == (still, netdev):
            # They say again what the row before them said.
            seen.rows += len(more)
            seen.used.append(plain.ids(more.start, more.stop))
            seen.corrected.add(final := plain.row(more[-1]), final.frame["link_errors"])
            continue
        for at in more:
            still = _read_row(seen, last, still, netdev, plain.peer(at), plain.row(at))
    return seen


def _read_row(
    seen: _Seen, last: dict[str, int], still: object, netdev: object, peer: str, row: Row
) -> object:
    """Read the counters of a row; return them where what says the same after it says nothing new.

    Args:
        seen: what was read so far; changed in place.
        last: counter -> where it stood; changed in place.
        still: what this returned for the row before.
        netdev: the rail's.
        peer: the node at the other end of the row's test.
        row: the row.
    """
    said, identity = shared(row), str(row["id"])
    seen.attempts.setdefault(identity, set()).add(row_numbers.attempt_of(said))
    spans = said.get("link_errors")
    if spans is None and (said.get("status") != "measured" or row.get("counters") is None):
        return still  # a test that did not come to its counters has its own verdict
    if not isinstance(spans, Mapping) or not spans:
        seen.doubt = f"{identity}: link_errors is {spans!r}"
        return still
    if said.get("netdev") != netdev:
        seen.doubt = f"{identity}: read on netdev {said.get('netdev')!r}"
        return still
    seen.rows += 1
    seen.used.append([identity])
    seen.corrected.add(row, spans)
    # Rows of one frame have one object.
    if spans is still or (spans == still and are_pairs(spans.values())):
        return still
    gone = [name for name in last if name not in spans]
    if gone:
        seen.doubt = f"{identity}: {gone[0]} is not there any more"
    for name, span in spans.items():
        _read_one(seen, last, str(name), span, row, peer)
    # What stands still, without a doubt, and then says the same again, says nothing new.
    if seen.doubt or any(not is_pair(span) or span[0] != span[1] for span in spans.values()):
        return None
    return spans


def _in_turn(found: Sequence[tuple[str, Row]], plain: RailRows | None) -> Iterator[tuple[str, Row, range]]:
    """Yield rows in the order in which they were written, as their node numbered them.

    A clock may be set back; a row of an earlier version has no number, and of equal ones the clock decides.

    Yields:
        the node at the other end, the row, and which of the plain rows follow a plain row at once.
    """
    numbers: list[Any] = [row.get("sequence") for _peer, row in found]
    numbered = all(map(is_whole, numbers))
    alone = numbered and len(set(numbers)) == len(numbers)
    if plain is not None:
        places = plain.places(numbers) if alone else None
        if places is None:
            every = [(plain.peer(at), plain.row(at)) for at in range(len(plain))]
            yield from _in_turn([*found, *every], None)
            return
        begin = 0
        turn = sorted(range(len(found)), key=numbers.__getitem__)
        for place, at in [*((places[at], at) for at in turn), (len(plain), -1)]:
            if begin < place:
                yield plain.peer(begin), plain.row(begin), range(begin + 1, place)
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


def _read_one(seen: _Seen, last: dict[str, int], name: str, span: object, row: Row, peer: str) -> None:
    identity = str(row.get("id"))
    kind = kind_of(name, seen.adaptive_routing)
    if kind is None:
        seen.doubt = f"{identity}: {name} is no counter that this version knows"
        return
    if not is_pair(span, _is_count):
        # What is told alone need not be whole.
        seen.doubt = seen.doubt if kind == NOTICE else f"{identity}: {name} is {span!r}"
        return
    before, after = span
    if kind == NOTICE:
        if after > before:
            seen.grew(name, after - before, peer, row, broken=False)
        return
    seen.names.add(name)
    if name not in last and before and kind in (PHYSICAL, SYMBOL) and seen.rows > 1:
        # One that a driver brings later begins at 0; of this one nobody knows what grew in the rows before.
        seen.doubt = f"{identity}: {name} was not there before and stands at {before}"
    earlier = last.get(name, before)
    last[name] = after
    if is_saturated(name, after):
        seen.doubt = f"{identity}: {name} stands at its greatest value, {after}"
    elif after < before or before < earlier:
        seen.doubt = f"{identity}: {name} went from {max(before, earlier)} back to {min(before, after)}"
    if kind in (PHYSICAL, SYMBOL) and before > earlier:
        seen.grew(name, before - earlier, peer, row, broken=False)
    grown = max(after - before, 0)
    if grown:
        check = CHECKS.get(str(row.get("check")))
        traffic_class = row.get("traffic_class")
        in_class = check is not None and check.rdma and lossless.has_dscp(traffic_class)
        broken = kind == LOSS and lossless.is_broken(name, seen.promise, row["link_errors"], in_class)
        seen.grew(name, grown, peer, row, broken)


def _is_count(value: object) -> bool:
    return is_whole(value) and value >= 0


def _is_software(bound: Bound) -> bool:
    return (bound.hca or bound.netdev or {}).get("driver_class") in ("software", "virtual")


def _has_rdma(names: Iterable[str]) -> bool:
    return any(name.startswith(("hca.", "hw.")) for name in names)


def _told(growth: Mapping[str, int]) -> str:
    return ", ".join(f"{name} grew by {by}" for name, by in sorted(growth.items()))
