# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Both ends' rows by the column: are they of one mind, borne out by the counters, within their bounds?

As `ends`: a `yes` is never wrong. The formulas are those of single rows: `formulas`, `row_counters`, `proof`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue import rdma_counters
from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.rdma_counters import NETDEV
from ansible_collections.railyard.fabric.plugins.module_utils.measure import proof
from ansible_collections.railyard.fabric.plugins.module_utils.runner import short_rows
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.bounds import Bounds
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import Policy, is_number
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import (
    formulas,
    row_counters,
    row_numbers,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns import tables
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.ends import (
    Column,
    Ends,
    number_in,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.evidence import ALIKE

try:
    import numpy as np
except ImportError:  # sanity's environment has none
    np = None  # type: ignore[assignment]

_ABSENT = float("nan")


class Met(NamedTuple):
    """Tests whose rows are at these places of two tables."""

    client: Ends
    clients: Column
    server: Ends
    servers: Column

    def each(self) -> Iterator[tuple[Ends, Column]]:
        """Yield both ends."""
        yield self.client, self.clients
        yield self.server, self.servers


def comparable(client: Ends, server: Ends) -> bool:
    """Tell whether what both ends state is of their rows' own at both."""
    for name in row_numbers.STATED_TWICE:
        fixed = [any(name in said for said in ends.constant) for ends in (client, server)]
        own = [name in ends.kind.metrics for ends in (client, server)]
        if any(fixed) and all(map(any, zip(fixed, own, strict=True))):
            return False
    return True


def of_one_mind(met: Met, policy: Policy) -> Column:
    """Tell of which tests both rows say the same, as `Evidence._no_pair` asks, but for what they told."""
    client, server = met.client, met.server
    good = np.ones(len(met.clients), dtype=bool)
    of_rates = row_numbers.rates_apart(client.check.name, policy)
    # Of what is stated twice an end's rows have no others of their own.
    for name in row_numbers.RATES:
        if name in client.kind.metrics and name in server.kind.metrics:
            one, other = client.metric(name)[met.clients], server.metric(name)[met.servers]
            good &= formulas.are_near(one, other, of_rates)
    if "sent_gbps" in client.kind.metrics:
        if "bandwidth_gbps" not in client.kind.metrics:
            return np.zeros_like(good)
        sent, arrived = client.metric("sent_gbps")[met.clients], client.metric("bandwidth_gbps")[met.clients]
        for holds in formulas.arrived(
            arrived, sent, _lasted_s(client, met.clients), of_rates, policy["iperf3_streams"]
        ):
            good &= holds
    elif any("sent_gbps" in said for said in client.constant):
        return np.zeros_like(good)
    if client.check.rdma:
        for key in (*ALIKE, "tool_version"):
            book: dict[Any, int] = {}
            mine, its = (
                np.array([number_in(book, (type(one), one)) for one in ends.of_frames(key)])[
                    ends.frame_of[places]
                ]
                for ends, places in met.each()
            )
            good &= mine == its
        known = np.array([one is not None for one in client.of_frames("tool_version")])
        good &= known[client.frame_of[met.clients]]
    return good


def borne_out(met: Met, policy: Policy) -> Column:
    """Tell of which tests the counters of both ends bear the numbers out, as `row_counters` asks."""
    good = np.ones(len(met.clients), dtype=bool)
    name, client = met.client.check.name, met.client
    rdma = formulas.is_rdma_bandwidth(name)
    # A row that counted no messages has no column of them.
    if rdma and not (client.kind.counted and met.server.kind.counted):
        return np.zeros_like(good)
    if "bandwidth_gbps" in client.check.bounded and "bandwidth_gbps" not in client.kind.metrics:
        return np.zeros_like(good)
    metrics = {key: _numbers(client, met.clients, key) for key in client.check.client}
    # One that was lost is a finding.
    good &= metrics["received"] == metrics["sent"] if "received" in metrics else True
    iterations = client.column(client.kind.of_iterations)[met.clients] if rdma else None
    for ends, places in met.each():
        mtu_bytes = np.array([_number(one, _ABSENT) for one in ends.of_frames("active_mtu_bytes")])
        mtu_bytes = mtu_bytes[ends.frame_of[places]]
        measured = row_counters.Measured(metrics, iterations, None, _lasted_s(client, met.clients), mtu_bytes)
        end, claims = row_counters.least_claims(name, ends.kind.end, measured, policy)
        idle = _Idle.of(ends, places, policy)
        grown = _Grown(ends, places)
        for claim in claims:
            loose = row_counters.loosened(claim)
            if np.ndim(claim.at_least) == 0:
                loose = claim._replace(at_most=np.inf)  # that a packet went each way says nothing of others
            for bound in proof.bounds(loose, end, idle, ends.driver):
                good &= formulas.within(bound.at_least, grown.by(bound.counter), bound.at_most)
        if rdma:
            good &= _of_messages(ends, places, policy)
        for way in (0, 1) if rdma and ends.driver.netdev_shows_rdma else ():
            packets = grown.by(ends.driver.packets[way])
            good &= grown.by(NETDEV.bytes[way]) <= proof.most_of_port(packets, mtu_bytes, idle.idle_bytes)
    return good


class _Idle(NamedTuple):
    """What an idle rail may carry in the time of each test, as `proof.Allowance` has it of one."""

    idle_bytes: Column
    idle_packets: Column

    @classmethod
    def of(cls, ends: Ends, places: Column, policy: Policy) -> Any:
        """Return it of the rows at these places."""
        said = [_number(one, policy["idle_bytes_per_s"]) for one in ends.of_frames("idle_bytes_per_s")]
        last = ends.window_s[1][places] if ends.window_s is not None else 0.0
        idle_bytes = np.array(said)[ends.frame_of[places]] * (last + row_counters.AROUND_S)
        return cls(idle_bytes, idle_bytes / proof.SMALLEST_FRAME_BYTES)


class _Grown(NamedTuple):
    """By how much the counters of rows grew."""

    ends: Ends
    places: Column

    def by(self, counter: str) -> Column:
        """Return it in bytes or packets."""
        return self.ends.span(counter)[1][self.places] * float(rdma_counters.unit_bytes(counter))


def _numbers(ends: Ends, places: Column, name: str) -> Column:
    """Return a metric of rows: their own, or their frames'."""
    return (
        ends.metric(name)[places] if name in ends.kind.metrics else _fixed(ends, name)[ends.frame_of[places]]
    )


def _lasted_s(ends: Ends, places: Column) -> Column:
    """Return how long rows' windows are, NaN where they have none."""
    if ends.window_s is None:
        return np.full(len(places), _ABSENT)
    begin, end = ends.window_s
    return (end - begin)[places]


def _of_messages(ends: Ends, places: Column, policy: Policy) -> Column:
    """Tell where a bandwidth and its message rate are those of the counted messages."""
    if not {"bandwidth_gbps", "message_rate_mpps"} <= set(ends.kind.metrics):
        return np.zeros(len(places), dtype=bool)
    iterations = ends.column(ends.kind.of_iterations)[places]
    gbps, rate_mpps = (ends.metric(name)[places] for name in ("bandwidth_gbps", "message_rate_mpps"))
    return formulas.follows_from_iterations(gbps, iterations, policy) & formulas.is_its_message_rate(
        rate_mpps, gbps, policy
    )


def told_alike(met: Met, boot_ids: Mapping[str, str | None]) -> Column:
    """Tell of which tests each end heard of the other, over the rail, what that one wrote down."""
    heard = [[ends.table.column(tables.HEARD)[at] for at in places] for ends, places in met.each()]
    told = [_told(ends, places, boot_ids) for ends, places in met.each()]
    return np.fromiter(
        (one == its and other == mine for one, other, mine, its in zip(*heard, *told, strict=True)),
        dtype=bool,
        count=len(met.clients),
    )


def _told(ends: Ends, places: Column, boot_ids: Mapping[str, str | None]) -> Iterator[str | None]:
    """Yield of each row what the other end's short row says of it: beginning of its boot id, and digest."""
    kind = ends.kind
    words: list[tuple[str, str] | None] = []
    for frame, fixed in zip(ends.table.frames, ends.constant, strict=True):
        boot = boot_ids.get(frame.row["host"]) or ""
        known = len(boot) >= short_rows.BOOT_DIGITS
        form = short_rows.told_form(frame.row, fixed, kind.metrics, kind.counters)
        words.append((f"{boot[: short_rows.BOOT_DIGITS]}.", form) if known and form else None)
    columns = [ends.table.column(tables.FIRST + place) for place in range(len(kind.metrics))]
    for counter in kind.counters:
        begin, grown = ends.span(counter)
        columns += [begin[places].tolist(), (begin + grown)[places].tolist()]
    values = [
        *([column[at] for at in places] for column in columns[: len(kind.metrics)]),
        *columns[len(kind.metrics) :],
    ]
    for frame, row in zip(ends.frame_of[places].tolist(), zip(*values, strict=True), strict=True):
        said = words[frame]
        yield said and said[0] + short_rows.digest_of(said[1] % row)


def within(bounds: Bounds, ends: Sequence[tuple[Ends, Column]]) -> Column:
    """Tell which numbers of these ends lie within their bounds, as `bounds_check.weigh` has it of a pass."""
    count = len(ends[0][1])
    if not bounds.floor or set(bounds.floor) != set(bounds.ceiling):
        return np.zeros(count, dtype=bool)
    good = np.ones(count, dtype=bool)
    for one, places in ends:
        for name, least in bounds.floor.items():
            good &= formulas.within(least, _numbers(one, places, name), bounds.ceiling[name])
    return good


def _fixed(ends: Ends, name: str) -> Column:
    """Return what each frame says of a metric, NaN where it says no number."""
    return np.array([_number(said.get(name), _ABSENT) for said in ends.constant], dtype=np.float64)


def _number(value: object, otherwise: float) -> float:
    return float(value) if is_number(value) else otherwise
