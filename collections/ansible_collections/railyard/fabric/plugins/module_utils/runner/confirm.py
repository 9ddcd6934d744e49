# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide which tests are measured again: a failure must be reproduced. Pure, for nodes and controller.

A stall of 600 ms takes a tenth off a window of 4 s, on a healthy node too. So tests that look bad are
measured again `fabric_policy.confirm` times, after all others and `PAUSE_S` later; the judge alone decides
what the attempts mean together. States and counters of the kernel (a link, an MTU, a GID, a missing tool) are
not measured again: the result would be the same.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ..catalogue import rdma_counters
from ..channel.errors import CLOCK_LOST, UNKNOWN_CONNECTION, ErrorClass
from ..facts import link_errors
from ..measure import outliers, proof
from ..measure.base import (
    ENDS_TOLERANCE,
    LEAST_OF_ASKED,
    LEAST_OVERLAP,
    MOST_GAP,
    OWN_WINDOWS_S,
    OWN_WINDOWS_TOLERANCE,
)
from ..measure.perftest_bw import measured_s

#: The pause before tests are measured again, for a disturbance to pass.
PAUSE_S = 5.0
#: Where more than this share of a check's tests looks bad the cause is systematic: repeating a few is enough.
SYSTEM_SHARE, SYSTEM_TESTS = 0.20, 3
#: The time budget of a node's repetitions: the larger of the two.
LEAST_BUDGET_S, BUDGET_SHARE = 60.0, 0.20
#: The overhead of a test beside the time for which its tool measures.
AROUND_S = 2.0

#: Errors that may be gone at another attempt.
PASSING: frozenset[ErrorClass] = frozenset(
    {"tool_failed", "tool_garbage", "deadline", "peer_failed", "peer_deaf", CLOCK_LOST, UNKNOWN_CONNECTION}
)

#: The accepted range of the counters' rate as multiples of the claim: narrower than the judge's, whose window
#: is not known here.
_COUNTS, _SOFTWARE_COUNTS = (0.92, 1.12), (0.7, 3.5)
_KIND = ("check", "tool", "direction", "message_bytes", "qps", "streams", "mtu_bytes", "active_mtu_bytes")
_RATES = ("bandwidth_gbps", *outliers.WAYS)

Row = Mapping[str, Any]
Test = Mapping[str, Any]
#: check -> rail -> metric -> [minimum, maximum] that is not suspect; None for no limit.
#: Where a saved baseline has a number for a link, that link is a key too: `NODE PEER RAIL`.
Bounds = Mapping[str, Mapping[str, Mapping[str, Sequence[Any]]]]


def budget_s(planned_s: float) -> float:
    """Return the time budget of a node's repetitions from the planned duration of the run, in seconds."""
    return max(LEAST_BUDGET_S, BUDGET_SHARE * planned_s)


def suspects(rows: Sequence[Row], bounds: Bounds, policy: Mapping[str, Any]) -> list[str]:
    """Return the ids of the tests that this end wants to measure again.

    Args:
        rows: this end's rows of one meeting.
        bounds: what the controller expects.
        policy: the run's policy.
    """
    groups: dict[str, list[Row]] = {}
    found = []
    for row in rows:
        if row["group"] is not None:
            groups.setdefault(str(row["group"]), []).append(row)
        if looks_bad(row, bounds, policy):
            found.append(str(row["id"]))
    found += _find_outliers(rows)
    for members in groups.values():
        if _lacks_overlap(members):
            found += [str(row["id"]) for row in members]
    return sorted(set(found))


def looks_bad(row: Row, bounds: Bounds, policy: Mapping[str, Any]) -> bool:
    """Return whether a row looks bad in a way that may be gone the next time."""
    other = row.get("other_end")
    ends = [row, other] if isinstance(other, Mapping) else [row]
    errors = [one["error"] for one in ends if isinstance(one.get("error"), Mapping)]
    if errors:
        return any(error.get("class") in PASSING for error in errors)
    if row.get("status") != "measured" or not isinstance(other, Mapping):
        return False
    if any(one.get("proof") != proof.PROVEN for one in ends):
        return True
    metrics = row["metrics"]
    limits = find_limits(row, bounds)
    return (
        _has_retransmits(row, policy.get("adaptive_routing") is True)
        or _has_loss(metrics)
        or _has_loss(other.get("metrics") or {})
        or _is_too_short(row, policy)
        or _contradicts_samples(row)
        or any(_exceeds_limits(one.get("metrics") or {}, limits) for one in ends)
        or _ends_disagree(str(row["tool"]), metrics, other.get("metrics") or {}, policy)
    )


def find_limits(row: Row, bounds: Bounds) -> Mapping[str, Sequence[Any]]:
    """Return metric -> [minimum, maximum] that is not suspect for a row."""
    of_check = bounds.get(str(row["check"])) or {}
    link = " ".join(str(row.get(key)) for key in ("node", "peer", "rail"))
    return of_check.get(link) or of_check.get(str(row["rail"])) or {}


def _find_outliers(rows: Sequence[Row]) -> list[str]:
    """Return the tests whose number is an outlier among comparable tests of this meeting, by either rule."""
    alike: dict[tuple[Any, ...], dict[str, float]] = {}
    for row in rows:
        metrics = row.get("metrics") or {}
        if row.get("status") != "measured" or row.get("proof") != proof.PROVEN:
            continue
        present = [name for name in outliers.METRICS if metrics.get(name)]
        for metric in (*present[:1], *(name for name in outliers.WAYS if metrics.get(name))):
            kind = (metric, *(str(row.get(key)) for key in _KIND))
            alike.setdefault(kind, {})[str(row["id"])] = float(metrics[metric])
    found: set[str] = set()
    for (metric, *_how), values in alike.items():
        for hardware in (True, False):
            found |= outliers.find_outliers(values, outliers.KINDS[metric], hardware)
    return sorted(found)


def _is_too_short(row: Row, policy: Mapping[str, Any]) -> bool:
    """Return whether a bandwidth was measured for less than half of the configured time."""
    window = row.get("window_s")
    if not window or "bandwidth_gbps" not in row["metrics"]:
        return False
    asked_s = float(policy["iperf3_duration_s"]) if row["tool"] == "iperf3" else measured_s(policy)
    return bool(window[1] - window[0] < LEAST_OF_ASKED * asked_s)


def _contradicts_samples(row: Row) -> bool:
    """Return whether the rail's samples do not confirm the bandwidth that a receiver of a group reported.

    The judge adds up the samples of all rails over their common time.
    """
    samples, window = row.get("samples"), row.get("window_s")
    reported = row["metrics"].get("bandwidth_gbps")
    if row["group"] is None or row["end"] != "server" or not (samples and window and reported):
        return False
    length_s = window[1] - window[0]
    inside = [
        (at, count)
        for at, count in zip(samples["t_s"], samples["rx_bytes"])  # noqa: B905 - Python 3.9 has no strict
        if window[0] <= at <= window[1]
    ]
    moments = [window[0], *(at for at, _count in inside), window[1]]
    gaps = (moments[place] - moments[place - 1] for place in range(1, len(moments)))
    if max(gaps) > MOST_GAP * length_s:
        return True  # also with fewer than three samples
    (first_s, first), (last_s, last) = inside[0], inside[-1]
    rate = (last - first) * 8 / 1e9 / (last_s - first_s)
    software = rdma_counters.SOFT_ROCE.packets[0] in (row.get("counters") or {})
    least, most = _SOFTWARE_COUNTS if software else _COUNTS
    return not reported * least <= rate <= reported * most


def _has_loss(metrics: Mapping[str, Any]) -> bool:
    return bool(metrics.get("loss_percent")) or metrics.get("received", 0) < metrics.get("sent", 0)


def _has_retransmits(row: Row, adaptive_routing: bool) -> bool:
    """Return whether a NIC retransmitted packets; Soft-RoCE does so whenever its CPU is late."""
    if rdma_counters.SOFT_ROCE.packets[0] in (row.get("counters") or {}):
        return False
    spans = row.get("link_errors") or {}
    return any(
        link_errors.kind_of(name, adaptive_routing) == link_errors.TRANSPORT
        and None not in span
        and span[1] > span[0]
        for name, span in spans.items()
    )


def _exceeds_limits(metrics: Mapping[str, Any], limits: Mapping[str, Sequence[Any]]) -> bool:
    for metric, (least, most) in limits.items():
        value = metrics.get(metric)
        if value is None:
            continue
        if (least is not None and value < least) or (most is not None and value > most):
            return True
    return False


def _ends_disagree(
    tool: str, mine: Mapping[str, Any], theirs: Mapping[str, Any], policy: Mapping[str, Any]
) -> bool:
    """Return whether the two ends report different rates; the judge has the complete rule."""
    share = ENDS_TOLERANCE
    if tool == "iperf3" and policy["iperf3_omit_s"] > 0:
        share = max(OWN_WINDOWS_TOLERANCE, OWN_WINDOWS_S / float(policy["iperf3_duration_s"]))
    elif tool == "ib_send_bw":
        share = max(OWN_WINDOWS_TOLERANCE, OWN_WINDOWS_S / measured_s(policy))
    sent, arrived = mine.get("sent_gbps"), mine.get("bandwidth_gbps")
    if sent and arrived and arrived > sent * (1 + share):
        return True
    rates = [(mine[name], theirs[name]) for name in _RATES if mine.get(name) and theirs.get(name)]
    return any(abs(one - other) > share * max(one, other) for one, other in rates)


def _lacks_overlap(members: Sequence[Row]) -> bool:
    """Return whether the windows of a group overlap too little to be added up."""
    windows = [row["window_s"] for row in members if row.get("window_s")]
    if len(windows) < 2:
        return False
    common = min(window[1] for window in windows) - max(window[0] for window in windows)
    return bool(common < LEAST_OVERLAP * max(window[1] - window[0] for window in windows))


def choose_tests(
    tests: Sequence[Test], wanted: Collection[str], left_s: float, cost_s: Mapping[str, float]
) -> list[Test]:
    """Choose the tests of a meeting that are measured again; both ends choose the same.

    Args:
        tests: all tests of the meeting in order.
        wanted: the ids that either end wants.
        left_s: the remaining time budget of both, in seconds.
        cost_s: check -> the time that its attempts take, in seconds.

    Returns:
        The tests, groups complete; without those that do not fit into the budget.
    """
    planned: dict[str, int] = {}
    for test in tests:
        planned[str(test["check"])] = planned.get(str(test["check"]), 0) + 1
    taken: dict[str, int] = {}
    turns: dict[str, None] = {}
    suspect = [test for test in tests if str(test["id"]) in wanted]
    for test in suspect:
        check, turn = str(test["check"]), turn_of(test)
        many = sum(str(one["check"]) == check for one in suspect) > SYSTEM_SHARE * planned[check]
        if turn in turns or (many and taken.get(check, 0) >= SYSTEM_TESTS):
            continue
        if cost_s[check] > left_s:
            continue
        left_s -= cost_s[check]
        taken[check] = taken.get(check, 0) + 1
        turns[turn] = None
    return [test for test in tests if turn_of(test) in turns]


def turn_of(test: Test) -> str:
    """Return what a test shares with the tests that run at the same time."""
    return str(test["group"] or test["id"])
