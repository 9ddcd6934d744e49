# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the numbers of a row, and list the settings that it must report. Pure."""

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

#: A server converts the client's window to its own clock, so it may begin a little before the start.
BEFORE_START_S = 0.5


def read_metrics(row: PairRow | NodeRow) -> dict[str, float]:
    """Return a row's metrics without those that are null."""
    return {name: value for name, value in row["metrics"].items() if value is not None}


def find_own_window_s(check: str, policy: Policy) -> float | None:
    """Return how long each end measures by its own clock; None if both report one window.

    For perftest's send each end measures from its first message to its last; for iperf3 each end excludes the
    omitted start by its own timer.
    """
    if check == "rdma_send_bandwidth":
        return measured_s(policy)
    if check in TCP_BANDWIDTH and policy["iperf3_omit_s"] > 0:
        return float(policy["iperf3_duration_s"])
    return None


def calculate_each_direction(client: PairRow, server: PairRow, policy: Policy) -> dict[str, float]:
    """Return the bandwidth of each direction of a bidirectional RDMA test, from each end's messages."""
    per_message = float(policy["rdma_message_bytes"]) * 8 / 1e9 / measured_s(policy)
    ways = {"forward_gbps": client, "reverse_gbps": server}
    return {way: round(row["iterations"] * per_message, 4) for way, row in ways.items()}


def find_rate_tolerance(check: str, policy: Policy) -> float:
    """Return the permitted relative difference of the rates of both ends."""
    own_s = find_own_window_s(check, policy)
    return ENDS_TOLERANCE if own_s is None else max(OWN_WINDOWS_TOLERANCE, OWN_WINDOWS_S / own_s)


def read_attempt(row: Row) -> int:
    """Return the number of a row's attempt, 0 if it is invalid."""
    attempt = row.get("attempt", 1)
    return attempt if is_whole(attempt) and attempt > 0 else 0


def read_window_s(row: Row) -> tuple[float, float] | None:
    """Return a row's window, in seconds after `started`, or None if it is not an interval."""
    window = row.get("window_s")
    if window is None or not is_pair(window, is_number):
        return None
    begin, end = float(window[0]), float(window[1])
    return (begin, end) if -BEFORE_START_S <= begin < end else None


def parse_time(value: object) -> float | None:
    """Return a row's UTC time as seconds since the epoch, or None."""
    return _parse_time(value) if isinstance(value, str) and value.endswith("Z") else None


# Many rows have the same time, and each is parsed several times.
@functools.lru_cache(maxsize=1 << 12)
def _parse_time(value: str) -> float | None:
    try:
        return datetime.fromisoformat(value).timestamp()
    except ValueError:
        return None


def list_required_settings(check: str, client: bool, policy: Policy) -> Mapping[str, object]:
    """Return the settings that a row must report."""
    keys = (
        "iperf3_streams" if check in TCP_BANDWIDTH else "",
        "rdma_qps" if formulas.is_rdma_bandwidth(check) else "",
    )
    numbers = (policy[key] if key else None for key in (*keys, CHECKS[check].message))
    return _list_required_settings(check, client, *numbers, class_of(check, policy))


def find_wrong_command(argv: Sequence[str], tool: str, own: Container[str], foreign: set[str]) -> str | None:
    """Return why a command line does not run this tool on this rail, or None.

    Args:
        argv: the command line.
        tool: the tool.
        own: names of this rail, at either end.
        foreign: names of other rails.
    """
    if others := foreign.intersection(argv):
        return f"its command line has {min(others, key=argv.index)}, which is another rail's"
    if tool not in argv and tool not in map(os.path.basename, argv):
        return f"its command line does not run {tool}: {' '.join(argv)}"
    if not any(word in own for word in argv):
        return f"its command line does not name this rail: {' '.join(argv)}"
    return None


def find_wrong_class(argv: Iterable[str | None], check: str, policy: Policy) -> str | None:
    """Return why a command line of an RDMA test does not set the planned traffic class, or None."""
    if not CHECKS[check].rdma:
        return None
    # A frame of a sweep has None in place of the arguments that differ between its rows.
    words = [word for word in argv if word is not None and word.startswith(perftest.CLASS_OPTIONS)]
    planned = perftest.build_class_options(check, policy)
    if words == planned:
        return None
    return f"its class options are {' '.join(words) or 'none'}, planned: {' '.join(planned) or 'none'}"


# All rows of a run have the same policy.
@functools.lru_cache(maxsize=1 << 8, typed=True)
def _list_required_settings(
    check: str, client: bool, streams: object, qps: object, message_bytes: object, test_class: TestClass
) -> Mapping[str, object]:
    wanted: dict[str, object] = {}
    if check in TCP_BANDWIDTH:
        wanted["streams"] = streams
    if check in LATENCY_IS and client:
        # For TCP only one-way latencies are compared; an RDMA read is answered, so it is a round trip.
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
