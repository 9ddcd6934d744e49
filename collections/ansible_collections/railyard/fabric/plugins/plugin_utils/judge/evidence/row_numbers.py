# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the numbers of a row are, and what it had to say of how its test was run. Pure."""

from __future__ import annotations

import functools
import os
from collections.abc import Container, Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import TestClass, class_of
from ansible_collections.railyard.fabric.plugins.module_utils.measure import perftest
from ansible_collections.railyard.fabric.plugins.module_utils.measure.base import (
    ENDS_TOLERANCE,
    OWN_WINDOWS_S,
    OWN_WINDOWS_TOLERANCE,
)
from ansible_collections.railyard.fabric.plugins.module_utils.measure.perftest_bw import measured_s
from ansible_collections.railyard.fabric.plugins.module_utils.records.node_rows import NodeRow
from ansible_collections.railyard.fabric.plugins.module_utils.records.pair_rows import PairRow
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import (
    BI,
    CHECKS,
    LATENCY_IS,
    TCP_BANDWIDTH,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import (
    Policy,
    is_number,
    is_pair,
    is_whole,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import formulas
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

#: A row as it was read; `PairRow` is one that is known to be what its type says.
Numbers = Mapping[str, float]
#: A server takes over the client's window by its own clock, which may put its beginning a little before the
#: start.
BEFORE_START_S = 0.5


def numbers_of(row: PairRow | NodeRow) -> dict[str, float]:
    """Return a row's metrics, but for those that it says nothing of."""
    return {name: value for name, value in row["metrics"].items() if value is not None}


def own_window_s(check: str, policy: Policy) -> float | None:
    """Return how long each end measures by its own clock; None where both tell one window's numbers.

    perftest's send is timed by each end from its first message to its last; of iperf3 each end leaves out the
    omitted start when its own timer says so.
    """
    if check == "rdma_send_bandwidth":
        return measured_s(policy)
    if check in TCP_BANDWIDTH and policy["iperf3_omit_s"] > 0:
        return float(policy["iperf3_duration_s"])
    return None


def each_way_gbps(client: PairRow, server: PairRow, policy: Policy) -> dict[str, float]:
    """Return what each direction carried of an RDMA test of both: each end counts its own messages."""
    per_message = float(policy["rdma_message_bytes"]) * 8 / 1e9 / measured_s(policy)
    ways = {"forward_gbps": client, "reverse_gbps": server}
    return {way: round(row["iterations"] * per_message, 4) for way, row in ways.items()}


def rates_apart(check: str, policy: Policy) -> float:
    """Return by which share the rates of both ends of a test may differ."""
    own_s = own_window_s(check, policy)
    return ENDS_TOLERANCE if own_s is None else max(OWN_WINDOWS_TOLERANCE, OWN_WINDOWS_S / own_s)


def attempt_of(row: Row) -> int:
    """Return which attempt at its test a row is of, 0 where it says what there cannot be."""
    attempt = row.get("attempt", 1)
    return attempt if is_whole(attempt) and attempt > 0 else 0


def window_s(row: Row) -> tuple[float, float] | None:
    """Return a row's window, seconds after `started`, or None when it is no interval."""
    window = row.get("window_s")
    if window is None or not is_pair(window, is_number):
        return None
    begin, end = float(window[0]), float(window[1])
    return (begin, end) if -BEFORE_START_S <= begin < end else None


def moment(value: object) -> float | None:
    """Return a row's UTC time as seconds since the epoch, or None."""
    return _moment(value) if isinstance(value, str) and value.endswith("Z") else None


# Both ends' rows, and those of all rails at once, say the same time, and each is asked for it several times.
@functools.lru_cache(maxsize=1 << 12)
def _moment(value: str) -> float | None:
    try:
        return datetime.fromisoformat(value).timestamp()
    except ValueError:
        return None


def as_asked(check: str, client: bool, policy: Policy) -> Mapping[str, object]:
    """Return what a row has to say of how its test was run."""
    keys = (
        "iperf3_streams" if check in TCP_BANDWIDTH else "",
        "rdma_qps" if formulas.is_rdma_bandwidth(check) else "",
    )
    numbers = (policy[key] if key else None for key in (*keys, CHECKS[check].message))
    return _as_asked(check, client, *numbers, class_of(check, policy))


def other_command(argv: Sequence[str], tool: str, ours: Container[str], strange: set[str]) -> str | None:
    """Return what is wrong where a command line is not one of this tool on this rail.

    Args:
        argv: the command line.
        tool: the tool.
        ours: by which words it is told of this rail, at either end.
        strange: by which it is told of other rails.
    """
    if others := strange.intersection(argv):
        return f"its tool was told {min(others, key=argv.index)}, which is another rail's"
    if tool not in argv and tool not in map(os.path.basename, argv):
        return f"it is {tool}'s, and was told {' '.join(argv)}"
    if not any(word in ours for word in argv):
        return f"its tool was told nothing of this rail: {' '.join(argv)}"
    return None


def other_class(argv: Iterable[str | None], check: str, policy: Policy) -> str | None:
    """Return what is wrong where a command line of an RDMA test does not ask for the planned class."""
    if not CHECKS[check].rdma:
        return None
    # What a row of a sweep has of its own stands in no frame.
    words = [word for word in argv if word is not None and word.startswith(perftest.CLASS_OPTIONS)]
    planned = perftest.build_class_options(check, policy)
    if words == planned:
        return None
    return f"its class options are {' '.join(words) or 'none'}, planned: {' '.join(planned) or 'none'}"


# The policy's numbers are a run's, and all its rows are asked the same.
@functools.lru_cache(maxsize=1 << 8, typed=True)
def _as_asked(
    check: str, client: bool, streams: object, qps: object, message_bytes: object, test_class: TestClass
) -> Mapping[str, object]:
    wanted: dict[str, object] = {}
    if check in TCP_BANDWIDTH:
        wanted["streams"] = streams
    if check in LATENCY_IS and client:
        # Of TCP only one-way latencies are compared; an RDMA read is answered, so it is a round trip.
        wanted["latency_is"] = LATENCY_IS[check]
    if formulas.is_rdma_bandwidth(check):
        wanted["qps"] = qps
    if message_bytes is not None:
        wanted["message_bytes"] = message_bytes
    if CHECKS[check].rdma:
        wanted["bandwidth_is"] = "sum_of_both" if check in BI else None
        wanted.update(test_class._asdict())
    if check == "rdma_bandwidth_unpinned":
        wanted["pinned"] = False
    return MappingProxyType(wanted)
