# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Formulas that a good test's numbers satisfy, for one row or for many at once. Pure.

Each formula takes numbers or numpy columns, so that one row and a million rows have the same rule. It tests
for the good case, never for the bad one: a missing number is NaN, which compares as false.
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
from ansible_collections.railyard.fabric.plugins.plugin_utils.arrays import np
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS, RDMA_BANDWIDTH
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import Policy

Numbers = Any
"""A number, or a column with one number per row."""
Holds = Any
"""A boolean for a number, a column of booleans for a column."""

#: Bytes of one TCP connection that may be sent and not yet received: role node_tuning lets a socket's buffer
#: grow to 128 MiB, and half of that is payload. Four connections over a rail of 10 Mbit/s had 5 MB in their
#: buffers.
BUFFERED_BYTES = 64 * 2**20
#: A tool that is delayed for longer than this is stopped.
HELD_UP_S = 120.0
#: Both ends of a window are rounded to 0.1 ms.
_ROUNDING_S = 0.001
#: Tolerance of a bandwidth above iterations x size / window. The alarm that ends perftest's window may be
#: late on a busy processor but never early, so the tolerance below is larger.
CLAIM_SLACK = 0.10
_LATE_S = 3.0
_HALF_DIGIT_GBPS = 0.005 * 2**20 * 8 / 1e9
#: The last printed digit of perftest's message rate; the two ends may round it differently.
RATE_DIGIT_MPPS = 1.5e-6
#: No frame is shorter than its Ethernet header.
LEAST_FRAME_BYTES = 14


def is_within(least: Numbers, seen: Numbers, most: Numbers) -> Holds:
    """Tell whether numbers are within a range."""
    return (least <= seen) & (seen <= most)


def take_larger(one: float, other: Numbers) -> Numbers:
    """Return the larger of two numbers, by element for a column."""
    return np.maximum(one, other) if getattr(other, "ndim", 0) else max(one, other)


def take_smaller(one: Numbers, other: Numbers) -> Numbers:
    """Return the smaller of two numbers, by element for columns; NaN is ignored."""
    return np.fmin(one, other) if getattr(other, "ndim", 0) else min(one, other)


def is_of_kind(seen: Numbers, kind: str) -> Holds:
    """Tell whether a metric has the kind of value that the table of checks requires."""
    holds = ((seen > 0) if kind.startswith("positive") else (seen >= 0)) & (seen < math.inf)
    if kind.endswith("count"):
        holds = holds & (seen % 1 == 0) & (seen < MOST_COUNTED)
    return holds & (seen <= 100) if kind == "share" else holds


def is_rdma_bandwidth(check: str) -> bool:
    """Tell whether a check measures RDMA bandwidth, in one or both directions."""
    return check in RDMA_BANDWIDTH or check == "rdma_bandwidth_bi"


def find_gbps_range(iterations: Numbers, policy: Policy) -> tuple[Numbers, Numbers]:
    """Return the minimum and maximum RDMA bandwidth for a number of messages."""
    moved_gbit, seconds = iterations * float(policy["rdma_message_bytes"]) * 8 / 1e9, measured_s(policy)
    most = moved_gbit / seconds * (1 + CLAIM_SLACK) + _HALF_DIGIT_GBPS
    return moved_gbit / (seconds + _LATE_S) * (1 - CLAIM_SLACK) - _HALF_DIGIT_GBPS, most


def follows_from_iterations(gbps: Numbers, iterations: Numbers, policy: Policy) -> Holds:
    """Tell whether a bandwidth matches the messages that perftest counted in its window."""
    least, most = find_gbps_range(iterations, policy)
    return is_within(least, gbps, most)


def calculate_mpps(gbps: Numbers, policy: Policy) -> Numbers:
    """Return a bandwidth in million messages per second."""
    return gbps * 1e3 / 8 / float(policy["rdma_message_bytes"])


def matches_message_rate(rate_mpps: Numbers, gbps: Numbers, policy: Policy) -> Holds:
    """Tell whether a message rate matches a bandwidth."""
    follows = calculate_mpps(gbps, policy)
    return abs(rate_mpps - follows) <= ENDS_TOLERANCE * follows + RATE_DIGIT_MPPS


def are_near(one: Numbers, other: Numbers, share: float, digit: float = 0.0) -> Holds:
    """Tell whether two numbers differ by at most a share of the larger one, or by a last digit."""
    near = (one - other <= share * one) & (other - one <= share * other)
    return near | (abs(one - other) <= digit)


def is_plausible_arrival(
    gbps: Numbers, sent_gbps: Numbers, lasted_s: Numbers, share: float, streams: int
) -> tuple[Holds, Holds]:
    """Tell whether no more arrived than was sent, and whether the difference fits into socket buffers.

    On a slow rail the buffers may hold more than what arrived.
    """
    held_bytes = (sent_gbps - gbps) * 1e9 / 8 * lasted_s
    in_buffers = (sent_gbps <= 2 * gbps) | (held_bytes <= BUFFERED_BYTES * streams)
    return gbps <= sent_gbps * (1 + share), in_buffers


def find_planned_s(check: str, policy: Policy) -> float:
    """Return the planned duration of a test; 0 if the policy sets none."""
    lasts = CHECKS[check].lasts
    return measured_s(policy) if is_rdma_bandwidth(check) else float(policy[lasts]) if lasts else 0.0


def find_shortest_s(check: str, policy: Policy) -> float:
    """Return the shortest valid window of a test."""
    return find_planned_s(check, policy) * LEAST_OF_ASKED


def find_longest_s(check: str, policy: Policy) -> float:
    """Return the longest possible window of a test."""
    lasts = CHECKS[check].lasts
    of_tool = float(policy[lasts]) + HELD_UP_S if lasts else math.inf
    # Alone perftest excludes its margins; in a group the window is the common part of all rails.
    duration = float(policy["rdma_duration_s"]) + _ROUNDING_S if is_rdma_bandwidth(check) else math.inf
    return min(of_tool, duration)


def has_grown(before: Numbers, after: Numbers) -> Holds:
    """Tell whether a counter did not decrease, and is not at its maximum, where it stops or wraps."""
    return is_within(0, before, after) & (after != proof.SATURATED[0]) & (after != proof.SATURATED[1])


def are_frames(moved_bytes: Numbers, packets: Numbers) -> Holds:
    """Tell whether a number of bytes is plausible for a number of frames."""
    return ((moved_bytes > 0) == (packets > 0)) & (moved_bytes >= packets * LEAST_FRAME_BYTES)
