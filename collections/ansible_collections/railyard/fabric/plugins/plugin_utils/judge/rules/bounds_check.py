# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare trusted results with their thresholds. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.records.pair_rows import PairRow
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.bounds import Bounds
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS, PASS, RECORDED
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import aggregate
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.row_numbers import read_metrics
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer


def check_bounds(observed: dict[str, Any], judged: Sequence[Mapping[str, float]], bounds: Bounds) -> Answer:
    """Compare trusted results with their thresholds.

    Args:
        observed: the verdict's observed values.
        judged: each end's metrics, which must all be within the thresholds.
        bounds: floor and ceiling; a pass needs both for the same metrics.
    """
    answer = Answer(
        RECORDED, observed, dict(bounds.floor), dict(bounds.ceiling), bounds.basis, proof="proven"
    )
    for metrics in judged:
        for metric, most in bounds.ceiling.items():
            if metrics[metric] > most:
                detail = f"{metric} {metrics[metric]:g}, ceiling {most:g}"
                if metric.endswith("_gbps"):
                    # A rate above the link's was not measured on it, so the link is not at fault.
                    return answer.unknown("above_ceiling", detail)
                return answer.failed(
                    "too_slow" if metric.endswith("_us") else "above_ceiling", detail, answer.proof
                )
        for metric, least in bounds.floor.items():
            if metrics[metric] < least:
                cause = "path_mtu_small" if metric == "path_mtu_bytes" else "below_floor"
                return answer.failed(cause, f"{metric} {metrics[metric]:g}, floor {least:g}", answer.proof)
    if bounds.floor and set(bounds.floor) == set(bounds.ceiling):
        answer.outcome = PASS
    return answer


def check_bounds_by_counters(
    answer: Answer,
    rows: tuple[PairRow, PairRow],
    judged: Sequence[Mapping[str, float]],
    bounds: Bounds,
    payload_share: float,
) -> Answer:
    """Judge a TCP result above its ceiling again by the receivers' counters in the window.

    A receiver that is delayed during the omitted start reads buffered data in its window.

    Args:
        answer: the answer by iperf3's numbers.
        rows: the client's and the server's.
        judged: the metrics that the answer rests on.
        bounds: their thresholds.
        payload_share: the payload's share of a frame.
    """
    client, server = rows
    try:
        seen = {"forward_gbps": aggregate.find_received_gbps(server) * payload_share}
        if "reverse_gbps" in client["metrics"]:
            seen["reverse_gbps"] = aggregate.find_received_gbps(client) * payload_share
    except aggregate.NotSummable:
        return answer
    seen["bandwidth_gbps"] = sum(seen.values())
    lower = [{**one, **{name: min(one[name], seen[name]) for name in seen if name in one}} for one in judged]
    shown = {name: round(min(one[name] for one in lower), 4) for name in seen if name in judged[0]}
    if not all(shown.values()):
        return answer  # these samples are not the test's
    counted = check_bounds({**answer.observed, **shown}, lower, bounds)
    counted.basis += "; measured by the counters, because iperf3 reports more than the link can carry"
    if counted.cause.get("cause_class") == "below_floor":
        detail = f"{answer.cause['cause']}; {counted.cause['cause']} by the counters"
        return Answer.unmeasured("ends_disagree", detail)
    return counted


def list_checked_metrics(
    client: PairRow, server: PairRow, own_windows: bool = False
) -> list[dict[str, float]]:
    """Return the metrics that must be within the thresholds: the client's, and the server's if it measures.

    Args:
        client: its row.
        server: its row.
        own_windows: each end measured by its own clock, so one of them may report more than the link can
            carry: the lower value is reliable.
    """
    sent, received = read_metrics(client), read_metrics(server)
    if own_windows:
        return [{name: min(value, received[name]) for name, value in sent.items() if name in received}]
    return [sent, received] if CHECKS[client["check"]].server else [sent]
