# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What holds of the numbers of a good test, in one row or in many at once. Pure.

Each formula takes numbers or columns of them (numpy), so that a rule of a single row is that of a million. It
says what holds, never what is broken: a number that is missing is NaN, which compares as false.
"""

from __future__ import annotations

import math
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.measure import proof
from ansible_collections.railyard.fabric.plugins.module_utils.measure.base import (
    ENDS_TOLERANCE,
    LEAST_OF_ASKED,
)
from ansible_collections.railyard.fabric.plugins.module_utils.measure.perftest_bw import measured_s
from ansible_collections.railyard.fabric.plugins.module_utils.numeric import MOST_COUNTED
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS, RDMA_BANDWIDTH
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import Policy

try:
    import numpy as np
except ImportError:  # sanity's environment has none
    np = None  # type: ignore[assignment]

Numbers = Any
"""A number, or a column of one number for each row."""
Holds = Any
"""Whether it holds: of a number True or False, of a column one for each row."""

#: What one TCP connection may have sent that has not arrived: role node_tuning lets a socket's buffer grow to
#: 128 MiB, and half of that is payload. Four connections over a rail of 10 Mbit/s had 5 MB in theirs.
BUFFERED_BYTES = 64 * 2**20
#: A tool that is held up for longer than this is ended.
HELD_UP_S = 120.0
#: Both ends of a window are rounded to 0.1 ms.
_ROUNDING_S = 0.001
#: How far a bandwidth may lie above iterations x size / window; the alarm that ends perftest's window comes
#: late on a busy processor and never early, so that below it may lie further.
CLAIM_SLACK = 0.10
_LATE_S = 3.0
_HALF_DIGIT_GBPS = 0.005 * 2**20 * 8 / 1e9
#: The last digit that perftest prints of a message rate: two ends may round it either way.
RATE_DIGIT_MPPS = 1.5e-6
#: No frame is shorter than its Ethernet header.
LEAST_FRAME_BYTES = 14


def within(least: Numbers, seen: Numbers, most: Numbers) -> Holds:
    """Tell whether numbers lie between two others."""
    return (least <= seen) & (seen <= most)


def larger(one: float, other: Numbers) -> Numbers:
    """Return the larger of a number and another, or each of a column."""
    return np.maximum(one, other) if getattr(other, "ndim", 0) else max(one, other)


def smaller(one: Numbers, other: Numbers) -> Numbers:
    """Return the smaller of two numbers, or of each of two columns, in which NaN is none."""
    return np.fmin(one, other) if getattr(other, "ndim", 0) else min(one, other)


def is_of_kind(seen: Numbers, kind: str) -> Holds:
    """Tell whether a metric can be of the kind that the table of checks asks for."""
    holds = ((seen > 0) if kind.startswith("positive") else (seen >= 0)) & (seen < math.inf)
    if kind.endswith("count"):
        holds = holds & (seen % 1 == 0) & (seen < MOST_COUNTED)
    return holds & (seen <= 100) if kind == "share" else holds


def is_rdma_bandwidth(check: str) -> bool:
    """Tell whether a check is one of RDMA bandwidth, both directions at once included."""
    return check in RDMA_BANDWIDTH or check == "rdma_bandwidth_bi"


def of_iterations_gbps(iterations: Numbers, policy: Policy) -> tuple[Numbers, Numbers]:
    """Return the least and the greatest RDMA bandwidth of so many messages."""
    moved_gbit, seconds = iterations * float(policy["rdma_message_bytes"]) * 8 / 1e9, measured_s(policy)
    most = moved_gbit / seconds * (1 + CLAIM_SLACK) + _HALF_DIGIT_GBPS
    return moved_gbit / (seconds + _LATE_S) * (1 - CLAIM_SLACK) - _HALF_DIGIT_GBPS, most


def follows_from_iterations(gbps: Numbers, iterations: Numbers, policy: Policy) -> Holds:
    """Tell whether a bandwidth is that of the messages that perftest counted in its window."""
    least, most = of_iterations_gbps(iterations, policy)
    return within(least, gbps, most)


def messages_mpps(gbps: Numbers, policy: Policy) -> Numbers:
    """Return how many million messages a second a bandwidth is."""
    return gbps * 1e3 / 8 / float(policy["rdma_message_bytes"])


def is_its_message_rate(rate_mpps: Numbers, gbps: Numbers, policy: Policy) -> Holds:
    """Tell whether a message rate is that of a bandwidth."""
    follows = messages_mpps(gbps, policy)
    return abs(rate_mpps - follows) <= ENDS_TOLERANCE * follows + RATE_DIGIT_MPPS


def are_near(one: Numbers, other: Numbers, share: float, digit: float = 0.0) -> Holds:
    """Tell whether two numbers differ by no more than a share of the larger one, or by a last digit."""
    near = (one - other <= share * one) & (other - one <= share * other)
    return near | (abs(one - other) <= digit)


def arrived(
    gbps: Numbers, sent_gbps: Numbers, lasted_s: Numbers, share: float, streams: int
) -> tuple[Holds, Holds]:
    """Tell whether no more arrived than was sent, and whether what did not arrive can lie in buffers.

    On a slow rail that is more than what arrived.
    """
    held_bytes = (sent_gbps - gbps) * 1e9 / 8 * lasted_s
    in_buffers = (sent_gbps <= 2 * gbps) | (held_bytes <= BUFFERED_BYTES * streams)
    return gbps <= sent_gbps * (1 + share), in_buffers


def asked_s(check: str, policy: Policy) -> float:
    """Return how long a test was to measure; 0 where nothing says so."""
    lasts = CHECKS[check].lasts
    return measured_s(policy) if is_rdma_bandwidth(check) else float(policy[lasts]) if lasts else 0.0


def least_s(check: str, policy: Policy) -> float:
    """Return the shortest window of a test that was not cut short."""
    return asked_s(check, policy) * LEAST_OF_ASKED


def most_s(check: str, policy: Policy) -> float:
    """Return the longest window that a test can have."""
    lasts = CHECKS[check].lasts
    of_tool = float(policy[lasts]) + HELD_UP_S if lasts else math.inf
    # Alone perftest counts without its margins; in a group the window is what all rails share of all.
    whole = float(policy["rdma_duration_s"]) + _ROUNDING_S if is_rdma_bandwidth(check) else math.inf
    return min(of_tool, whole)


def grew(before: Numbers, after: Numbers) -> Holds:
    """Tell whether a counter went forward, and is not at its greatest value, where it stops or wraps."""
    return within(0, before, after) & (after != proof.SATURATED[0]) & (after != proof.SATURATED[1])


def are_frames(moved_bytes: Numbers, packets: Numbers) -> Holds:
    """Tell whether so many bytes are so many frames."""
    return ((moved_bytes > 0) == (packets > 0)) & (moved_bytes >= packets * LEAST_FRAME_BYTES)
