# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Both ends' rows by the column: are they of one mind, borne out by the counters, within their bounds?

As `ends`: a `yes` is never wrong, and a number next to a bound is none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue import rdma_counters
from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.rdma_counters import NETDEV
from ansible_collections.railyard.fabric.plugins.module_utils.measure import proof
from ansible_collections.railyard.fabric.plugins.module_utils.measure.base import ENDS_TOLERANCE
from ansible_collections.railyard.fabric.plugins.module_utils.runner import short_rows
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.bounds import Bounds
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import TCP_BANDWIDTH
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import Policy, is_number
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import row_counters, row_numbers
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns import tables
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.columns.ends import (
    CLOSE,
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
            good &= np.abs(one - other) <= of_rates * np.maximum(one, other) * (1 - CLOSE)
    if "sent_gbps" in client.kind.metrics:
        if "bandwidth_gbps" not in client.kind.metrics:
            return np.zeros_like(good)
        sent, arrived = client.metric("sent_gbps")[met.clients], client.metric("bandwidth_gbps")[met.clients]
        good &= (arrived <= sent * (1 + of_rates) * (1 - CLOSE)) & (sent <= 2 * arrived)
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
    name = met.client.check.name
    for ends, places in met.each():
        idle = np.array(
            [_number(one, policy["idle_bytes_per_s"]) for one in ends.of_frames("idle_bytes_per_s")]
        )
        last = ends.window_s[1][places] if ends.window_s is not None else 0.0
        idle_bytes = idle[ends.frame_of[places]] * (last + row_counters.AROUND_S)
        sees = _Sees(ends, places, idle_bytes)
        forward = 0 if ends.kind.end == "client" else 1
        if row_numbers.is_rdma_bandwidth(name):
            # A row that counted no messages has no column of them.
            if not (met.client.kind.counted and ends.kind.counted):
                return np.zeros_like(good)
            good &= _of_messages(ends, places, policy) & _rdma(met, sees, forward, policy)
        elif name in TCP_BANDWIDTH:
            if "bandwidth_gbps" not in met.client.kind.metrics or met.client.window_s is None:
                return np.zeros_like(good)
            begin, end = (one[met.clients] for one in met.client.window_s)
            lasted_s = np.maximum(float(policy["iperf3_duration_s"]), end - begin)
            moved = (
                met.client.metric("bandwidth_gbps")[met.clients] * (1e9 / 8) * lasted_s * (1 - ENDS_TOLERANCE)
            )
            good &= sees.carried(forward, moved)
            good &= (sees.packets(0) >= 1) & (sees.packets(1) >= 1)
        else:
            # A path's numbers are the frame's, of which one row was looked at.
            size, sent, arrived = (
                _fixed(met.client, key)[met.client.frame_of[met.clients]]
                for key in ("path_mtu_bytes", "sent", "received")
            )
            # One that was lost is a finding.
            good &= arrived == sent
            for way in (0, 1):
                good &= sees.carried(way, size) & (sees.packets(way) >= arrived)
                most = (
                    proof.PACKETS_FACTOR * row_counters.MORE * arrived
                    + idle_bytes / proof.SMALLEST_FRAME_BYTES
                )
                good &= sees.packets(way) <= most * (1 - CLOSE)
    return good


class _Sees(NamedTuple):
    """What the counters of rows saw, each way: 0 is sent, 1 received."""

    ends: Ends
    places: Column
    idle_bytes: Column

    def grown(self, counter: str) -> Column:
        return self.ends.span(counter)[1][self.places] * float(rdma_counters.unit_bytes(counter))

    def packets(self, way: int) -> Column:
        return self.grown(self.ends.driver.packets[way])

    def carried(self, way: int, claimed: Column) -> Column:
        """Tell where so many bytes crossed the rail, and not far more of them."""
        driver = self.ends.driver
        seen = self.grown(driver.bytes[way])
        most = driver.bytes_factor * row_counters.MORE * claimed + self.idle_bytes
        return (seen >= claimed * (1 + CLOSE)) & (seen <= most * (1 - CLOSE))


def _rdma(met: Met, sees: _Sees, forward: int, policy: Policy) -> Column:
    size, driver = int(policy["rdma_message_bytes"]), sees.ends.driver
    sent = met.client.column(met.client.kind.of_iterations)[met.clients] * float(size)
    mtu = np.array([_number(one, _ABSENT) for one in sees.ends.of_frames("active_mtu_bytes")])
    mtu = mtu[sees.ends.frame_of[sees.places]]
    good = sees.carried(forward, sent)
    good &= sees.packets(forward) * mtu >= sent * (1 + CLOSE)
    for way in (0, 1) if driver.netdev_shows_rdma else ():
        most = sees.packets(way) * (mtu + proof.RDMA_HEADER_BYTES) + sees.idle_bytes
        good &= sees.grown(NETDEV.bytes[way]) <= most * (1 - CLOSE)
    return good


def _of_messages(ends: Ends, places: Column, policy: Policy) -> Column:
    """Tell where a bandwidth and its message rate are those of the counted messages."""
    if not {"bandwidth_gbps", "message_rate_mpps"} <= set(ends.kind.metrics):
        return np.zeros(len(places), dtype=bool)
    iterations = ends.column(ends.kind.of_iterations)[places]
    gbps, rate_mpps = (ends.metric(name)[places] for name in ("bandwidth_gbps", "message_rate_mpps"))
    least, most = row_numbers.of_iterations_gbps(iterations, policy)
    good = (iterations > 0) & (gbps >= least * (1 + CLOSE)) & (gbps <= most * (1 - CLOSE))
    follows = gbps * 1e3 / 8 / float(policy["rdma_message_bytes"])
    apart = ENDS_TOLERANCE * follows + row_numbers.RATE_DIGIT_MPPS
    return good & (np.abs(rate_mpps - follows) <= apart * (1 - CLOSE))


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
            own = name in one.kind.metrics
            seen = one.metric(name)[places] if own else _fixed(one, name)[one.frame_of[places]]
            good &= (seen >= least) & (seen <= bounds.ceiling[name])
    return good


def _fixed(ends: Ends, name: str) -> Column:
    """Return what each frame says of a metric, NaN where it says no number."""
    return np.array([_number(said.get(name), _ABSENT) for said in ends.constant], dtype=np.float64)


def _number(value: object, otherwise: float) -> float:
    return float(value) if is_number(value) else otherwise
