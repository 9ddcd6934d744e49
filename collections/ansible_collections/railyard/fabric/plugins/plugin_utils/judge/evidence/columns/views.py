# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Views of many rows of a sweep: `evidence/views` with a column in place of each number. Pure.

A value that the columns do not have is NaN or False: such a test is judged by its rows, one by one.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from functools import cached_property
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue import rdma_counters
from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.rdma_counters import NETDEV
from ansible_collections.railyard.fabric.plugins.module_utils.measure import proof
from ansible_collections.railyard.fabric.plugins.module_utils.runner import packed_rows
from ansible_collections.railyard.fabric.plugins.plugin_utils.arrays import np
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_number
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import (
    formulas,
    row_counters,
    row_numbers,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.planned_tests import (
    MOST,
    Column,
    PlannedTests,
    make_column,
    number_key,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.tables import Table
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.views import RunContext
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.asked_lines import number_of
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

TICKS = packed_rows.TICKS
_MS = 1e3
_ABSENT = float("nan")
#: A boot id of which packed rows can keep the beginning.
_BOOT = re.compile(f"[0-9a-f]{{{packed_rows.BOOT_DIGITS}}}")
#: Metrics that must be in the frame, because `Lookup` rules read them in one row of each frame.
_SHARED = ("loss_percent", "path_mtu_bytes", "sent", "received", "forward_gbps", "reverse_gbps")


class ColumnEnd:
    """Rows of a table, each of them one end of a test.

    Attributes:
        policy, check, driver, counted: as for a single row.
        frame_of: for each row, the index of its frame.
    """

    has_netdev = True

    def __init__(self, table: Table, places: Column, known: RunContext, asked: PlannedTests) -> None:
        self.table, self.places, self.known, self.asked = table, places, known, asked
        self.kind, self.policy, self.check = table.kind, known.policy, CHECKS[table.kind.check]
        self.frame_of = table.frame_of[places]
        #: Their columns until `forget`.
        self._rows: Column = table.rows(places)
        form = rdma_counters.form_of(self.kind.counters) if self.check.rdma else NETDEV
        self._of_one_driver = form is not None
        self.driver = form or NETDEV
        self.counted = row_counters.list_required_counters(self.driver, self.has_netdev)

    @property
    def can_be_judged(self) -> bool:
        """Whether the columns have all that the rules read."""
        own, counters = self.kind.metrics, self.kind.counters
        return (
            self._of_one_driver
            and set(self.counted) <= set(counters)
            and list(own) == sorted(set(own))
            and list(counters) == sorted(set(counters))
            and not any(name.endswith("_us") or name in _SHARED for name in own)
        )

    def is_sound(self, row: Row, frame: Row) -> bool:
        """Tell whether one row of a frame shows that all its rows keep to the `Lookup` rules.

        These read proof, exchange, other rails and idle rate of both rows, and command lines, in which
        another row might have another rail's name.
        """
        host, rail, policy = str(row["host"]), str(row["rail"]), self.policy
        if row_numbers.read_attempt(row) != 1 or row.get("proof") != proof.PROVEN or row.get("proof_reason"):
            return False
        if row.get("exchange") or row.get("other_rails") != {} or row.get("netdev") is None:
            return False
        idle = row.get("idle_bytes_per_s", policy["idle_bytes_per_s"])
        busy = policy["busy_bytes_per_s"] * proof.BACKGROUND_TIMES
        if not is_number(idle) or idle < 0 or (idle > busy and not policy["allow_busy"]):
            return False
        mine, every = self.known.ends[host][rail].words, self.known.words[host]
        if any(word.lstrip("-").isdigit() for word in every):
            return False  # a port number could be mistaken for it
        # The arguments that differ between rows are ports and the peer's address: no tool, and no local rail.
        return all(
            not mine.isdisjoint(argv)
            and every.intersection(argv) <= mine
            and not row_numbers.find_wrong_class(argv, str(row["check"]), policy)
            for argv in frame["argv"]
        )

    def forget(self) -> None:
        """Free what only the rules need."""
        vars(self).pop("window_s", None)
        vars(self).pop("iterations", None)
        self._rows = None
        self.asked = self.asked.only(self.places[:0])

    # Attributes that a single row has too.

    @property
    def has_no_window(self) -> bool:
        """Whether the rows have no window."""
        return not self.kind.has("begin_ticks")

    def has_window(self, needed: bool) -> Column:
        """Tell whether their windows are valid."""
        if self.has_no_window:
            return not needed
        begin, end = self.window_s
        good = (begin >= -row_numbers.BEFORE_START_S) & (begin < end)
        return good & (end <= self.known.clock.longest_s)

    @cached_property
    def window_s(self) -> tuple[Column, Column]:
        """Begin and end of the measurements; NaN if there is none."""
        if self.has_no_window:
            return np.full(len(self.places), _ABSENT), np.full(len(self.places), _ABSENT)
        return self._column("begin_ticks") / TICKS, self._column("end_ticks") / TICKS

    @property
    def lasted_s(self) -> Column:
        """Lengths of their windows."""
        begin, end = self.window_s
        return end - begin

    def states(self, name: str) -> bool:
        """Tell whether any of the rows has a metric."""
        return name in self.kind.metrics or any(name in metrics for metrics in self.constant)

    def metric(self, name: str) -> Column:
        """Return a metric from the rows, or from their frames."""
        if name in self.kind.metrics:
            return self._column(f"metric {name}").astype(np.float64)
        return self.by_frame(_to_float(metrics.get(name)) for metrics in self.constant)

    @property
    def metrics(self) -> dict[str, Column]:
        """The metrics that the check requires of a client."""
        return {name: self.metric(name) for name in self.check.client}

    @cached_property
    def iterations(self) -> Column:
        """Numbers of messages that they counted."""
        return self._column("iterations") if self.kind.has("iterations") else _ABSENT

    @property
    def is_planned(self) -> Column:
        """Whether they are the planned tests' rows of this end."""
        asked, nodes = self.asked, self.asked.nodes
        ends = asked.node, asked.peer
        mine, its = ends if self.kind.end == "client" else ends[::-1]
        hosts = self.by_frame(nodes.get(one, -1) for one in self.read_frames("host"))
        known = make_column(nodes.get(name, -1) for name in self.table.texts)
        other = known[self.table.other[self.places]]
        good = (hosts == mine) & (other == its) & (mine >= 0) & (its >= 0) & (mine != its)
        what = self.by_frame(asked.find_what(frame.row) for frame in self.table.frames)
        good &= (what == asked.of_what) & (self._column("round") == asked.round)
        return good & (asked.number - self._column("in_group") == asked.group)

    @property
    def is_in_time(self) -> Column:
        """Whether they were written during the run."""
        clock, started_s = self.known.clock, self.started_s
        spans = [clock.span_s(str(host)) or (1.0, 0.0) for host in self.read_frames("host")]
        first, last = (self.by_frame(one[side] for one in spans) for side in (0, 1))
        return (started_s >= first + 1) & (started_s <= last - 1)

    @property
    def started_s(self) -> Column:
        """When they were started, in seconds since the epoch."""
        begun = self.by_frame(frame.begun for frame in self.table.frames)
        return (begun + self._column("after_ms")) / _MS

    @property
    def has_right_command(self) -> Column:
        """Whether the differing arguments of their command lines are ports, or their peer's address."""
        good = np.ones(len(self.places), dtype=bool)
        rails = list(dict.fromkeys(map(str, self.read_frames("rail"))))
        rail = self.by_frame(map(rails.index, self.read_frames("rail")))
        other = self.table.other[self.places]
        texts = self.table.texts
        ends = [self.known.ends.get(name, {}) for name in texts]
        numeric = np.array([text.isascii() and text.isdigit() for text in texts], dtype=bool)
        address = [[mine[one].address if one in mine else None for one in rails] for mine in ends]
        wanted = np.array([[texts.get(str(one), -1) for one in mine] for mine in address])[other, rail]
        for number, is_port in enumerate(self.kind.ports):
            word = self.table.word(number)[self.places]
            good &= numeric[word] if is_port else wanted == word
        return good

    def span(self, counter: str) -> tuple[Column, Column]:
        """Return a counter's values before and after."""
        begin, grown = self._counted(counter)
        return begin, begin + grown

    def grown(self, counter: str) -> Column:
        """Return the increase of a counter, in its unit."""
        return self._counted(counter)[1]

    def acknowledges(self, counter: str) -> bool:
        """Tell whether a counter must grow in any test, because it counts acknowledgements."""
        return counter in self.kind.counters

    @property
    def is_counted_once(self) -> Column:
        """Whether their counters overlap with no other test's."""
        shared = {number_of(one, "m") for one, end, attempt in self.known.claims.shared
                  if (end, attempt) == (self.kind.end, 1)}  # fmt: skip
        return ~np.isin(self.asked.number, np.array(sorted(shared), dtype=np.int64))

    # Attributes that only columns have.

    @property
    def has_samples(self) -> bool:
        """Whether they have windows, and two samples or more of a counter of bytes."""
        return self.sample_count > 1 and not self.has_no_window

    @property
    def sample_count(self) -> int:
        """Number of samples of each row."""
        return next((one.values for one in self.kind.columns if one.name in packed_rows.SAMPLES), 0)

    @property
    def samples(self) -> tuple[Column, Column]:
        """Times in seconds and bytes of their samples."""
        # As `packed_rows` expands them: near the receiver's count of bytes at the start.
        before = (
            self._rows["before rx_bytes"] if self.kind.has("before rx_bytes") else np.zeros(len(self.places))
        )
        ticks, moved = (np.cumsum(self._rows[name], axis=1, dtype=np.int64) for name in packed_rows.SAMPLES)
        return ticks / TICKS, (before.astype(np.int64)[:, np.newaxis] + moved).astype(np.float64)

    def only(self, places: Column) -> ColumnEnd:
        """Return a selection of the rows, with their columns, and without their planned tests.

        Raises:
            RunFolderError: they cannot be read, or have changed.
        """
        return ColumnEnd(self.table, self.places[places], self.known, self.asked)

    @property
    def can_be_counted(self) -> Column:
        """Whether all of their numbers are finite and can be added."""
        good = np.ones(len(self.places), dtype=bool)
        for name in self.kind.metrics:
            good &= np.isfinite(self.metric(name))
        for counter in self.counted:
            begin, grown = self._counted(counter)
            good &= (abs(begin) < MOST) & (abs(grown) < MOST)
        return good

    @cached_property
    def constant(self) -> list[dict[str, Any]]:
        """For each frame, the metrics that all of its rows have in common."""
        return [dict(frame.row["metrics"][0]) for frame in self.table.frames]

    def read_frames(self, key: str) -> list[Any]:
        """Return each frame's value of a key."""
        return [frame.row.get(key) for frame in self.table.frames]

    def read_number(self, key: str, otherwise: float = _ABSENT) -> Column:
        """Return the number under a key of the rows' frames."""
        return self.by_frame(_to_float(one, otherwise) for one in self.read_frames(key))

    def number_values(self, key: str, book: dict[object, int]) -> Column:
        """Return a number for each value under a key of the rows' frames, equal for equal values."""
        return self.by_frame(number_key(book, (type(one), one)) for one in self.read_frames(key))

    def list_metrics(self, places: Column, names: Collection[str] = ()) -> dict[str, Column]:
        """Return those of these metrics, by default of all, that any of these rows has; NaN if it has not."""
        every = dict.fromkeys([*(name for known in self.constant for name in known), *self.kind.metrics])
        found = {name: self.metric(name)[places] for name in every if name in names or not names}
        return {name: column for name, column in found.items() if not np.isnan(column).all()}

    def read_metrics(self, place: int) -> dict[str, float]:
        """Return the metrics of one row."""
        found = {k: v for k, v in self.constant[self.frame_of[place]].items() if is_number(v)}
        own = self.table.values(int(self.places[place]))
        return found | {name: own[f"metric {name}"] for name in self.kind.metrics}

    def _counted(self, counter: str) -> tuple[Column, Column]:
        return self._column(f"before {counter}"), self._column(f"growth {counter}")

    def _column(self, name: str) -> Column:
        """Return a column; whole numbers with 64 bits."""
        column = self.table.column(name)[self.places] if self._rows is None else self._rows[name]
        return column.astype(np.int64) if column.dtype.itemsize < 8 else column

    @property
    def received(self) -> tuple[Column, Column]:
        """What they received from the other end: the beginning of its boot id, and a digest."""
        return self._column("boot"), self._column("digest")

    @property
    def sent(self) -> tuple[Column, Column, Column]:
        """What the other end must have received from them; and whether that is known."""
        boots = [str(self.known.fleet.boot_ids.get(host) or "") for host in self.read_frames("host")]
        known = [_BOOT.match(boot) is not None for boot in boots]
        digits = [boot[: packed_rows.BOOT_DIGITS] for boot in boots]
        boot = [int(one, 16) if is_known else 0 for one, is_known in zip(digits, known, strict=True)]
        names, counters = self.kind.metrics, sorted(self.kind.counters)
        begins = [
            packed_rows.digest_begin(one["status"], one["proof"], fixed | dict.fromkeys(names, 0), counters)
            for one, fixed in zip((frame.row for frame in self.table.frames), self.constant, strict=True)
        ]
        digest = np.array(begins, dtype=np.uint64)[self.frame_of]
        for name in sorted({*names, *(name for fixed in self.constant for name in fixed)}):
            # A metric without a value is not sent.
            has = self.by_frame(name in names or fixed.get(name) is not None for fixed in self.constant)
            values = self.metric(name).astype(np.float64).view(np.uint64)
            digest = np.where(has, packed_rows.digest_next(digest, values), digest)
        spans = (side for name in counters for side in self.span(name))
        digest = packed_rows.digest_of(digest, (side.view(np.uint64) for side in spans))
        return self.by_frame(boot), digest, self.by_frame(known)

    def by_frame(self, values: Iterable[Any]) -> Column:
        """Return for each row the value of its frame, given one value per frame."""
        return np.array(list(values))[self.frame_of]


class ColumnPair:
    """Both ends' rows of tests.

    Attributes:
        client, server, policy, check: as for a single test.
    """

    def __init__(self, client: ColumnEnd, server: ColumnEnd) -> None:
        self.client, self.server, self.policy, self.check = client, server, client.policy, client.check

    def each(self) -> tuple[ColumnEnd, ColumnEnd]:
        """Return both ends."""
        return self.client, self.server

    @property
    def is_exchange_intact(self) -> Column:
        """Whether each end received what the other end recorded."""
        good = np.ones(len(self.client.places), dtype=bool)
        for end, other in (self.each(), self.each()[::-1]):
            boot, digest, known = other.sent
            good &= known & (end.received[0] == boot) & (end.received[1] == digest)
        return good

    def is_equal(self, key: str) -> Column:
        """Tell whether both ends have the same value of a key."""
        book: dict[object, int] = {}
        return self.client.number_values(key, book) == self.server.number_values(key, book)

    @property
    def is_version_known(self) -> Column:
        """Whether the client reports its tool's version."""
        return self.client.by_frame(one is not None for one in self.client.read_frames("tool_version"))

    def is_confirmed(self, end: ColumnEnd) -> Column:
        """Tell whether an end's counters confirm the client's results, and do not show far more."""
        client, policy = self.client, self.policy
        good = np.ones(len(end.places), dtype=bool)
        mtu_bytes = end.read_number("active_mtu_bytes")
        measured = row_counters.Measured(client.metrics, client.iterations, None, client.lasted_s, mtu_bytes)
        as_end, claims = row_counters.list_least_claims(self.check.name, end.kind.end, measured, policy)
        last = 0.0 if end.has_no_window else end.window_s[1]
        idle_bytes_per_s = end.read_number("idle_bytes_per_s", policy["idle_bytes_per_s"])
        idle: Any = _Idle(idle_bytes_per_s * (last + row_counters.AROUND_S))
        for claim in claims:
            loose = row_counters.loosen_claim(claim)
            if np.ndim(claim.at_least) == 0:
                loose = claim._replace(at_most=np.inf)  # one packet each way does not limit how many went
            for bound in proof.bounds(loose, as_end, idle, end.driver):
                grown = end.grown(bound.counter) * float(rdma_counters.unit_bytes(bound.counter))
                good &= formulas.is_within(bound.at_least, grown, bound.at_most)
        if self.check.rdma and end.driver.netdev_shows_rdma:
            for moved, counter in zip(NETDEV.bytes, end.driver.packets, strict=True):
                good &= end.grown(moved) <= proof.most_of_port(
                    end.grown(counter) * 1.0, mtu_bytes, idle.idle_bytes
                )
        return good


class _Idle(NamedTuple):
    """The idle traffic that a rail may carry during each test, in the form of `proof.Allowance`."""

    idle_bytes: Column

    @property
    def idle_packets(self) -> Column:
        """The packets of it."""
        return self.idle_bytes / proof.SMALLEST_FRAME_BYTES


def _to_float(value: object, otherwise: float = _ABSENT) -> float:
    return float(value) if is_number(value) else otherwise
