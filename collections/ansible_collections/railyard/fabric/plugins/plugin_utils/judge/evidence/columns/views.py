# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Many rows of a sweep as the rules see them: `evidence/views`, with a column in place of each number. Pure.

What a column does not show is NaN or False here: such a test is left to its rows, one by one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue import rdma_counters
from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.rdma_counters import NETDEV
from ansible_collections.railyard.fabric.plugins.module_utils.measure import proof
from ansible_collections.railyard.fabric.plugins.module_utils.runner import short_rows
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_number
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import (
    formulas,
    row_counters,
    row_numbers,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns import tables
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.asked import (
    MOST,
    Asked,
    Column,
    array_of,
    number_in,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.tables import Table
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.views import Known
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.asked_lines import number_of
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

try:
    import numpy as np
except ImportError:  # sanity's environment has none
    np = None  # type: ignore[assignment]

TICKS = short_rows.TICKS
_MS = 1e3
_ABSENT = float("nan")
#: What rows of one frame must share for its rules to be looked up in one of them.
_SHARED = ("loss_percent", "path_mtu_bytes", "sent", "received", "forward_gbps", "reverse_gbps")


class ColumnEnd:
    """Rows of a table, each of them one end of a test.

    Attributes:
        policy, check, driver, counted: as a single row's.
        frame_of: of each row, which of the table's frames.
    """

    has_netdev = True

    def __init__(self, table: Table, places: Column, known: Known, asked: Asked) -> None:
        self.table, self.places, self.known, self.asked = table, places, known, asked
        self.kind, self.policy, self.check = table.kind, known.policy, CHECKS[table.kind.check]
        self.frame_of = table.frame_of.array()[places]
        form = rdma_counters.form_of(self.kind.counters) if self.check.rdma else NETDEV
        self._of_one_driver = form is not None
        self.driver = form or NETDEV
        self.counted = row_counters.counted(self.driver, self.has_netdev)

    @property
    def can_be_told(self) -> bool:
        """Whether the rows are of a form that columns can tell at all."""
        own, counters = self.kind.metrics, self.kind.counters
        return (
            self._of_one_driver
            and set(self.counted) <= set(counters)
            and list(own) == sorted(set(own))
            and list(counters) == sorted(set(counters))
            and not any(name.endswith("_us") or name in _SHARED for name in own)
        )

    def is_sound(self, row: Row, frame: Row) -> bool:
        """Tell of one row of a frame whether no other row of it can break what is looked up in rows.

        That is what a rule looks up in both rows of a test (proof, exchange, other rails, idle rate), and
        command lines in which another row might have another rail's word.
        """
        host, rail, policy = str(row["host"]), str(row["rail"]), self.policy
        if row_numbers.attempt_of(row) != 1 or row.get("proof") != proof.PROVEN or row.get("proof_reason"):
            return False
        if row.get("exchange") or row.get("other_rails") != {} or row.get("netdev") is None:
            return False
        idle = row.get("idle_bytes_per_s", policy["idle_bytes_per_s"])
        busy = policy["busy_bytes_per_s"] * proof.BACKGROUND_TIMES
        if not is_number(idle) or idle < 0 or (idle > busy and not policy["allow_busy"]):
            return False
        mine, every = self.known.ends[host][rail].words, self.known.words[host]
        if any(word.lstrip("-").isdigit() for word in every):
            return False  # a port could be taken for it
        # What rows have of their own are ports and the peer's address: no tool, and no rail of this node.
        return all(
            not mine.isdisjoint(argv)
            and every.intersection(argv) <= mine
            and not row_numbers.other_class(argv, str(row["check"]), policy)
            for argv in frame["argv"]
        )

    def forget(self) -> None:
        """Give up what was made for the rules alone."""
        vars(self).pop("window_s", None)
        vars(self).pop("iterations", None)
        self.asked = self.asked.only(self.places[:0])

    # What a single row has as well.

    @property
    def windowless(self) -> bool:
        """Whether the rows have no window."""
        return not self.kind.windowed

    def has_window(self, needed: bool) -> Column:
        """Tell whether their windows are intervals."""
        if self.windowless:
            return not needed
        begin, end = self.window_s
        good = (begin >= -row_numbers.BEFORE_START_S) & (begin < end)
        return good & (end <= self.known.clock.longest_s)

    @cached_property
    def window_s(self) -> tuple[Column, Column]:
        """Begin and end of what was measured; NaN where there is none."""
        if self.windowless:
            return np.full(len(self.places), _ABSENT), np.full(len(self.places), _ABSENT)
        place = self.kind.of_window
        return self._column(place) / TICKS, self._column(place + 1) / TICKS

    @property
    def lasted_s(self) -> Column:
        """How long their windows are."""
        begin, end = self.window_s
        return end - begin

    def states(self, name: str) -> bool:
        """Tell whether some of the rows state a metric."""
        return name in self.kind.metrics or any(name in said for said in self.constant)

    def metric(self, name: str) -> Column:
        """Return a metric: the rows' own, or their frames'."""
        if name in self.kind.metrics:
            return self._column(tables.FIRST + self.kind.metrics.index(name))
        return self._by_frame(_number(said.get(name)) for said in self.constant)

    @property
    def metrics(self) -> dict[str, Column]:
        """The metrics that the check asks of a client."""
        return {name: self.metric(name) for name in self.check.client}

    @cached_property
    def iterations(self) -> Column:
        """How many messages they counted."""
        return self._column(self.kind.of_iterations) if self.kind.counted else _ABSENT

    @property
    def is_asked(self) -> Column:
        """Whether they are these tests' rows of this end."""
        asked, nodes = self.asked, self.asked.nodes
        ends = asked.node, asked.peer
        mine, its = ends if self.kind.end == "client" else ends[::-1]
        hosts = self._by_frame(nodes.get(one, -1) for one in self.of_frames("host"))
        known = array_of(nodes.get(name, -1) for name in self.table.texts(tables.OTHER))
        other = known[self.table.column(tables.OTHER)[self.places]]
        good = (hosts == mine) & (other == its) & (mine >= 0) & (its >= 0) & (mine != its)
        what = self._by_frame(asked.numbered(frame.row) for frame in self.table.frames)
        good &= (what == asked.of_what) & (self._column(tables.ROUND) == asked.round)
        return good & (asked.number - self._column(tables.IN_GROUP) == asked.group)

    @property
    def in_time(self) -> Column:
        """Whether they were written while the run was made."""
        clock = self.known.clock
        spans = [clock.span_s(str(host)) or (1.0, 0.0) for host in self.of_frames("host")]
        first, last = (self._by_frame(one[side] for one in spans) for side in (0, 1))
        begun = self._by_frame(frame.begun for frame in self.table.frames)
        started_s = (begun + self._column(tables.AFTER_MS)) / _MS
        return (started_s >= first + 1) & (started_s <= last - 1)

    @property
    def told_this_rail(self) -> Column:
        """Whether their command lines' own words are ports, or their peer's address."""
        good = np.ones(len(self.places), dtype=bool)
        rails = list(dict.fromkeys(map(str, self.of_frames("rail"))))
        rail = self._by_frame(map(rails.index, self.of_frames("rail")))
        other = self.table.column(tables.OTHER)[self.places]
        ends = [self.known.ends.get(name, {}) for name in self.table.texts(tables.OTHER)]
        for place in range(self.kind.of_words, self.kind.of_iterations):
            if self.kind.kinds[place] is not int:
                number = {word: number for number, word in enumerate(self.table.texts(place))}
                address = [[mine[one].address if one in mine else None for one in rails] for mine in ends]
                wanted = np.array([[number.get(str(one), -1) for one in mine] for mine in address])
                good &= wanted[other, rail] == self.table.column(place)[self.places]
        return good

    def span(self, counter: str) -> tuple[Column, Column]:
        """Return where a counter began and ended."""
        begin, grown = self._counted(counter)
        return begin, begin + grown

    def grown(self, counter: str) -> Column:
        """Return by what a counter grew, in its own unit."""
        return self._counted(counter)[1]

    def acknowledges(self, counter: str) -> bool:
        """Tell whether a counter has to grow whatever is sent, since that is acknowledged."""
        return counter in self.kind.counters

    @property
    def counted_once(self) -> Column:
        """Whether their counters are no other test's."""
        shared = {number_of(one, "m") for one, end, attempt in self.known.claims.shared
                  if (end, attempt) == (self.kind.end, 1)}  # fmt: skip
        return ~np.isin(self.asked.number, np.array(sorted(shared), dtype=np.int64))

    # What only columns have.

    @property
    def can_be_counted(self) -> Column:
        """Whether all of their numbers are, and can be added up."""
        good = np.ones(len(self.places), dtype=bool)
        for name in self.kind.metrics:
            good &= np.isfinite(self.metric(name))
        for counter in self.counted:
            begin, grown = self._counted(counter)
            good &= (abs(begin) < MOST) & (abs(grown) < MOST)
        return good

    @cached_property
    def constant(self) -> list[dict[str, Any]]:
        """Of each frame the metrics that all of its rows share."""
        return [dict(frame.row["metrics"][0]) for frame in self.table.frames]

    def of_frames(self, key: str) -> list[Any]:
        """Return what each frame says of a key."""
        return [frame.row.get(key) for frame in self.table.frames]

    def said(self, key: str, otherwise: float = _ABSENT) -> Column:
        """Return the number that the rows' frames say of a key."""
        return self._by_frame(_number(one, otherwise) for one in self.of_frames(key))

    def numbered(self, key: str, book: dict[object, int]) -> Column:
        """Return a number for what the rows' frames say of a key, the same for the same."""
        return self._by_frame(number_in(book, (type(one), one)) for one in self.of_frames(key))

    def every_metric(self, places: Column) -> dict[str, Column]:
        """Return all metrics that some of these rows state; NaN where one does not."""
        names = dict.fromkeys([*(name for said in self.constant for name in said), *self.kind.metrics])
        found = {name: self.metric(name)[places] for name in names}
        return {name: column for name, column in found.items() if not np.isnan(column).all()}

    def seen(self, place: int) -> dict[str, Any]:
        """Return the metrics of one row."""
        said = {k: v for k, v in self.constant[self.frame_of[place]].items() if is_number(v)}
        for at, name in enumerate(self.kind.metrics, tables.FIRST):
            said[name] = self.table.at(at, self.places[place])
        return said

    def _counted(self, counter: str) -> tuple[Column, Column]:
        place = self.kind.of_counters + 2 * self.kind.counters.index(counter)
        return self._column(place), self._column(place + 1)

    def _column(self, place: int) -> Column:
        kind = np.int64 if self.kind.kinds[place] is int else np.float64
        return self.table.column(place)[self.places].astype(kind)

    def _by_frame(self, values: Iterable[Any]) -> Column:
        return np.array(list(values))[self.frame_of]


class ColumnPair:
    """Both ends' rows of tests.

    Attributes:
        client, server, policy, check: as a single test's.
    """

    def __init__(self, client: ColumnEnd, server: ColumnEnd) -> None:
        self.client, self.server, self.policy, self.check = client, server, client.policy, client.check

    def each(self) -> tuple[ColumnEnd, ColumnEnd]:
        """Return both ends."""
        return self.client, self.server

    @property
    def told_alike(self) -> Column:
        """Whether each end heard from the other one what that one wrote."""
        good = np.ones(len(self.client.places), dtype=bool)
        for end, other in (self.each(), self.each()[::-1]):
            heard = end.table.column(tables.HEARD)[end.places]
            told = np.fromiter(_told(other), dtype=heard.dtype, count=len(heard))
            good &= (heard == told) & (heard != b"")
        return good

    def alike(self, key: str) -> Column:
        """Tell whether both ends say the same of a key."""
        book: dict[object, int] = {}
        return self.client.numbered(key, book) == self.server.numbered(key, book)

    @property
    def version_known(self) -> Column:
        """Whether the client says which version its tool is."""
        return self.client._by_frame(one is not None for one in self.client.of_frames("tool_version"))

    def crossed(self, end: ColumnEnd) -> Column:
        """Tell whether an end's counters show what the client's numbers say, and not far more."""
        client, policy = self.client, self.policy
        good = np.ones(len(end.places), dtype=bool)
        mtu_bytes = end.said("active_mtu_bytes")
        measured = row_counters.Measured(client.metrics, client.iterations, None, client.lasted_s, mtu_bytes)
        as_end, claims = row_counters.least_claims(self.check.name, end.kind.end, measured, policy)
        last = 0.0 if end.windowless else end.window_s[1]
        idle_bytes_per_s = end.said("idle_bytes_per_s", policy["idle_bytes_per_s"])
        idle: Any = _Idle(idle_bytes_per_s * (last + row_counters.AROUND_S))
        for claim in claims:
            loose = row_counters.loosened(claim)
            if np.ndim(claim.at_least) == 0:
                loose = claim._replace(at_most=np.inf)  # that a packet went each way says nothing of others
            for bound in proof.bounds(loose, as_end, idle, end.driver):
                grown = end.grown(bound.counter) * float(rdma_counters.unit_bytes(bound.counter))
                good &= formulas.within(bound.at_least, grown, bound.at_most)
        if self.check.rdma and end.driver.netdev_shows_rdma:
            for moved, counter in zip(NETDEV.bytes, end.driver.packets, strict=True):
                good &= end.grown(moved) <= proof.most_of_port(
                    end.grown(counter) * 1.0, mtu_bytes, idle.idle_bytes
                )
        return good


class _Idle(NamedTuple):
    """What an idle rail may carry in the time of each test, as `proof.Allowance` has it of one."""

    idle_bytes: Column

    @property
    def idle_packets(self) -> Column:
        """The packets of it."""
        return self.idle_bytes / proof.SMALLEST_FRAME_BYTES


def _told(end: ColumnEnd) -> Iterator[str]:
    """Yield of each row what the other end's short row says of it: beginning of its boot id, and digest."""
    kind, words = end.kind, []
    for frame, fixed in zip(end.table.frames, end.constant, strict=True):
        boot = end.known.fleet.boot_ids.get(frame.row["host"]) or ""
        known = len(boot) >= short_rows.BOOT_DIGITS
        form = short_rows.told_form(frame.row, fixed, kind.metrics, kind.counters)
        words.append((f"{boot[: short_rows.BOOT_DIGITS]}.", form) if known and form else None)
    values = [end.metric(name).tolist() for name in kind.metrics]
    for counter in kind.counters:
        values += [column.tolist() for column in end.span(counter)]
    for frame, row in zip(end.frame_of.tolist(), zip(*values, strict=True), strict=True):
        said = words[frame]
        yield said[0] + short_rows.digest_of(said[1] % row) if said else ""


def _number(value: object, otherwise: float = _ABSENT) -> float:
    return float(value) if is_number(value) else otherwise
