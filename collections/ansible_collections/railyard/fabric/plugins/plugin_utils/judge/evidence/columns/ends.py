# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""One end's rows by the column: may a number of its own be that of the asked test? A `yes` is never wrong.

The formulas are those of single rows (`formulas`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue import rdma_counters
from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.rdma_counters import NETDEV
from ansible_collections.railyard.fabric.plugins.module_utils.measure import proof
from ansible_collections.railyard.fabric.plugins.module_utils.runner import short_rows
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.rail_end import RailEnd
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import Policy, is_number
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import (
    formulas,
    row_numbers,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.clock import Clock
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns import tables
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.tables import (
    BEYOND,
    Table,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

try:
    import numpy as np
except ImportError:  # sanity's environment has none
    np = None  # type: ignore[assignment]

Column = Any
"""An array of one value for each row."""

#: What is counted here stays so far below what fills 64 bits that two of them add up.
MOST = 1 << 61
TICKS = short_rows.TICKS
_MS = 1e3
#: What both directions of RDMA have to show: whatever is sent is acknowledged.
_BOTH_WAYS = rdma_counters.BOTH_WAYS
#: Values that a row has as its own in a form that is known here.
_NEVER_OWN = ("loss_percent", "path_mtu_bytes", "sent", "received", "forward_gbps", "reverse_gbps")


class Known(NamedTuple):
    """What is known of the run's nodes.

    Attributes:
        policy: the merged one.
        ends: node -> rail -> its end.
        words: node -> the words of all of its rails.
        boot_ids: node -> the boot that its facts describe.
        clock: when rows can have been written.
        numbers: node -> its number here.
        kinds: what lines and rows say alike of a test -> its number here.
    """

    policy: Policy
    ends: Mapping[str, Mapping[str, RailEnd]]
    words: Mapping[str, set[str]]
    boot_ids: Mapping[str, str | None]
    clock: Clock
    numbers: Mapping[str, int]
    kinds: dict[object, int]


class Asked:
    """What tests ask, by the column.

    Attributes:
        lines: their asked lines.
        node, peer: the numbers of their nodes, -1 of one that is not known.
        round, group, number: of each line; a group that is not written as the runner writes it is BEYOND.
        what: each line's check, tool, rail and direction, as a number that `known.kinds` has of it.
    """

    def __init__(self, lines: Sequence[Row], known: Known) -> None:
        self.lines = lines
        numbers, book = known.numbers, known.kinds
        self.node = _array(numbers.get(line["node"], -1) for line in lines)
        self.peer = _array(numbers.get(line["peer"], -1) for line in lines)
        self.round = _array(_counted(line.get("round")) for line in lines)
        groups = {line.get("group"): _number_of(line.get("group")) for line in lines}
        self.group = _array(groups[line.get("group")] for line in lines)
        self.number = _array(int(line["id"][1:]) for line in lines)
        self.what = _array(number_in(book, what_of(line)) for line in lines)


class Ends:
    """The rows of a table, as ends of tests.

    Attributes:
        table: the table.
        kind: what its rows have in common.
        frame_of: of each row, which of the table's frames.
        check: the test.
        driver: in which counters its traffic shows.
        counted: names of these counters, and the netdev's.
        eligible: its rows can be told by the column at all.
    """

    def __init__(self, table: Table, known: Known) -> None:
        self.table, self.kind, self._known = table, table.kind, known
        self.frame_of = np.array(table.frame_of, dtype=np.int64)
        self.check = CHECKS[self.kind.check]
        counters, own = self.kind.counters, self.kind.metrics
        form = rdma_counters.form_of(counters) if self.check.rdma else NETDEV
        of_one_driver = form is not None
        self.driver = form or NETDEV
        self.counted = tuple(
            dict.fromkeys(NETDEV.bytes + NETDEV.packets + self.driver.bytes + self.driver.packets)
        )
        self.eligible = (
            of_one_driver
            and set(self.counted) <= set(counters)
            and list(own) == sorted(set(own))
            and list(counters) == sorted(set(counters))
            and not any(name.endswith("_us") or name in _NEVER_OWN for name in own)
        )

    # What frames say.

    @cached_property
    def constant(self) -> list[dict[str, Any]]:
        """Of each frame the metrics that all of its rows share."""
        return [dict(frame.row["metrics"][0]) for frame in self.table.frames]

    def of_frames(self, key: str) -> list[Any]:
        """Return what each frame says of a key."""
        return [frame.row.get(key) for frame in self.table.frames]

    def is_sound(self, row: Row, frame: Row) -> bool:
        """Tell of one row of a frame whether that frame says nothing that would count against its rows.

        What `evidence` holds against a single row is asked there. Here is what it says of two rows together,
        and whatever might be good in this row and bad in another one of the frame.
        """
        host, rail, policy = str(row["host"]), str(row["rail"]), self._known.policy
        if row_numbers.attempt_of(row) != 1 or row.get("proof") != proof.PROVEN or row.get("proof_reason"):
            return False
        if row.get("exchange") or row.get("other_rails") != {} or row.get("netdev") is None:
            return False
        idle = row.get("idle_bytes_per_s", policy["idle_bytes_per_s"])
        busy = policy["busy_bytes_per_s"] * proof.BACKGROUND_TIMES
        if not is_number(idle) or idle < 0 or (idle > busy and not policy["allow_busy"]):
            return False
        mine, every = self._known.ends[host][rail].words, self._known.words[host]
        if any(word.lstrip("-").isdigit() for word in every):
            return False  # a port could be taken for it
        # What rows have of their own are ports and the peer's address: no tool, and no rail of this node.
        return all(
            not mine.isdisjoint(argv)
            and every.intersection(argv) <= mine
            and not row_numbers.other_class(argv, str(row["check"]), policy)
            for argv in frame["argv"]
        )

    # What rows say.

    def column(self, place: int) -> Column:
        """Return the numbers at a place of the rows."""
        kind = self.kind.kinds[place]
        values = self.table.column(place)
        return np.frombuffer(values, dtype=np.int64 if kind is int else np.float64)

    def metric(self, name: str) -> Column:
        """Return a metric that is the rows' own."""
        return self.column(tables.FIRST + self.kind.metrics.index(name))

    def metrics(self, index: int) -> dict[str, Any]:
        """Return a row's metrics, those that are numbers."""
        said = {k: v for k, v in self.constant[self.frame_of[index]].items() if is_number(v)}
        for place, name in enumerate(self.kind.metrics, tables.FIRST):
            said[name] = self.table.column(place)[index]
        return said

    def span(self, counter: str) -> tuple[Column, Column]:
        """Return where a counter began, and by what it grew."""
        place = self.kind.of_counters + 2 * self.kind.counters.index(counter)
        return self.column(place), self.column(place + 1)

    @cached_property
    def window_s(self) -> tuple[Column, Column] | None:
        """When the rows' windows begin and end, None where they have none."""
        if not self.kind.windowed:
            return None
        place = self.kind.of_window
        return self.column(place) / TICKS, self.column(place + 1) / TICKS

    def answers(self, places: Column, asked: Asked) -> Column:
        """Tell of rows whether they are these tests' and their own numbers cannot be held against them."""
        ends = asked.node, asked.peer
        mine, its = ends if self.kind.end == "client" else ends[::-1]
        frames, known = self.frame_of[places], self._known
        host = _array(known.numbers.get(one, -1) for one in self.of_frames("host"))[frames]
        what = _array(number_in(known.kinds, what_of(frame.row)) for frame in self.table.frames)[frames]
        good = (host == mine) & (self._others[places] == its) & (mine >= 0) & (its >= 0) & (mine != its)
        good &= (what == asked.what) & (self.column(tables.ROUND)[places] == asked.round)
        good &= asked.number - self.column(tables.IN_GROUP)[places] == asked.group
        return good & self._own[places]

    @cached_property
    def _others(self) -> Column:
        numbers = self._known.numbers
        return _array(numbers.get(name, -1) for name in self.table.column(tables.OTHER))

    @cached_property
    def _own(self) -> Column:
        """Tell of each row whether its own numbers are possible."""
        good = self._written_in_time() & self._told_its_peer()
        for name in self.kind.metrics:
            kind, seen = self.check.client.get(name), self.metric(name)  # a server states no others
            good &= np.isfinite(seen) if kind is None else formulas.is_of_kind(seen, kind)
        if self.window_s is not None:
            good &= self._as_long(*self.window_s)
        for counter in self.counted:
            begin, grown = self.span(counter)
            end = begin + grown
            good &= (abs(begin) < MOST) & (abs(grown) < MOST) & formulas.grew(begin, end)
        for of_bytes, of_packets in zip(NETDEV.bytes, NETDEV.packets, strict=True):
            moved, packets = self.span(of_bytes)[1], self.span(of_packets)[1]
            good &= formulas.are_frames(moved, packets)
        for counter in _BOTH_WAYS:
            if self.check.rdma and counter in self.kind.counters:
                good &= self.span(counter)[1] > 0
        return good

    def _written_in_time(self) -> Column:
        clock = self._known.clock
        spans = [clock.span_s(str(host)) or (1.0, 0.0) for host in self.of_frames("host")]
        first, last = (np.array([one[side] for one in spans])[self.frame_of] for side in (0, 1))
        begun = _array(frame.begun for frame in self.table.frames)[self.frame_of]
        started_s = (begun + self.column(tables.AFTER_MS)) / _MS
        return (started_s >= first + 1) & (started_s <= last - 1)

    def _told_its_peer(self) -> Column:
        """Tell of each row whether its command lines' own words are ports, or its peer's address."""
        good = np.ones(len(self.frame_of), dtype=bool)
        rails = self.of_frames("rail")
        addresses = {
            (node, rail): end.address for node, ends in self._known.ends.items() for rail, end in ends.items()
        }
        for place in range(self.kind.of_words, self.kind.of_iterations):
            if self.kind.kinds[place] is int:
                continue
            told = zip(
                self.table.column(tables.OTHER), self.table.frame_of, self.table.column(place), strict=True
            )
            good &= np.fromiter(
                (addresses.get((other, rails[frame])) == word for other, frame, word in told),
                dtype=bool,
                count=len(good),
            )
        return good

    def _as_long(self, begin: Column, end: Column) -> Column:
        """Tell of each row whether its window is one, and of the length that was asked."""
        check, policy = self.check.name, self._known.policy
        good = (begin >= -row_numbers.BEFORE_START_S) & (begin < end)
        good &= formulas.within(formulas.least_s(check, policy), end - begin, formulas.most_s(check, policy))
        return good & (end <= self._known.clock.longest_s)


def number_in(book: dict[Any, int], key: object) -> int:
    """Return a key's number in a book, in which it is written if it is new."""
    return book.setdefault(key, len(book))


def what_of(said: Row) -> tuple[object, ...]:
    """Return what a line and its rows say alike of the test."""
    return said["check"], said["tool"], said["rail"], said["direction"]


def _array(values: Iterable[int]) -> Column:
    return np.fromiter(values, dtype=np.int64)


def _counted(value: int | None) -> int:
    """Return a whole number as a column holds it, BEYOND in place of anything else."""
    return value if value is not None and abs(value) < MOST else BEYOND


def _number_of(group: str | None) -> int:
    """Return a group's number, BEYOND where it is written otherwise."""
    if group and group[1:].isascii() and group[1:].isdigit() and len(group) < 18:
        number = int(group[1:])
        return number if group == f"g{number:05d}" else BEYOND
    return BEYOND
