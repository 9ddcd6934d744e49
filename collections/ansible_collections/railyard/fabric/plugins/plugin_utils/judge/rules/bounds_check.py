# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold trusted numbers against their bounds. Pure; whether the numbers can be trusted was decided before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.records.pair_rows import PairRow
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.bounds import Bounds
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS, PASS, RECORDED
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import aggregate
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.row_numbers import numbers_of
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer


def weigh(observed: dict[str, Any], judged: Sequence[Mapping[str, float]], bounds: Bounds) -> Answer:
    """Hold trusted numbers against their bounds.

    Args:
        observed: what the verdict shows.
        judged: each end's metrics; every one of them has to keep the bounds.
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
                    # More than the link can carry was not measured on it, and is no fault of it.
                    return answer.unknown("above_ceiling", detail)
                return _beyond(answer, "too_slow" if metric.endswith("_us") else "above_ceiling", detail)
        for metric, least in bounds.floor.items():
            if metrics[metric] < least:
                cause = "path_mtu_small" if metric == "path_mtu_bytes" else "below_floor"
                return _beyond(answer, cause, f"{metric} {metrics[metric]:g}, floor {least:g}")
    if bounds.floor and set(bounds.floor) == set(bounds.ceiling):
        answer.outcome = PASS
    return answer


def _beyond(answer: Answer, cause: str, detail: str) -> Answer:
    """Turn an answer into the failure of a number that is as proven as one that passes."""
    proof = answer.proof
    answer.failed(cause, detail).proof = proof
    return answer


def by_counters(
    said: Answer,
    rows: tuple[PairRow, PairRow],
    judged: Sequence[Mapping[str, float]],
    bounds: Bounds,
    payload_share: float,
) -> Answer:
    """Weigh TCP above its ceiling again, by what the receivers' counters show in the window.

    A receiver that is held up across the omitted start reads in its window what its kernel had taken before.

    Args:
        said: the answer by iperf3's numbers.
        rows: the client's and the server's.
        judged: the metrics that the answer rests on.
        bounds: what they are held against.
        payload_share: how much of a frame is payload.
    """
    client, server = rows
    try:
        seen = {"forward_gbps": aggregate.received_gbps(server) * payload_share}
        if "reverse_gbps" in client["metrics"]:
            seen["reverse_gbps"] = aggregate.received_gbps(client) * payload_share
    except aggregate.NotAdded:
        return said
    seen["bandwidth_gbps"] = sum(seen.values())
    lower = [{**one, **{name: min(one[name], seen[name]) for name in seen if name in one}} for one in judged]
    shown = {name: round(min(one[name] for one in lower), 4) for name in seen if name in judged[0]}
    if not all(shown.values()):
        return said  # these samples are not the test's
    answer = weigh({**said.observed, **shown}, lower, bounds)
    answer.basis += "; the number is the counters', where iperf3 says more than the link can carry"
    if answer.cause.get("cause_class") == "below_floor":
        return Answer.unmeasured(
            "ends_disagree", f"{said.cause['cause']}; {answer.cause['cause']} by the counters"
        )
    return answer


def judged(client: PairRow, server: PairRow, own_windows: bool = False) -> list[dict[str, float]]:
    """Return the metrics that have to keep the bounds: the client's, the server's where it measures too.

    Args:
        client: its row.
        server: its row.
        own_windows: each end measured by its own clock, so that one of the two may say more than the link can
            carry: the lower of both is what is sure.
    """
    mine, theirs = numbers_of(client), numbers_of(server)
    if own_windows:
        return [{name: min(value, theirs[name]) for name, value in mine.items() if name in theirs}]
    return [mine, theirs] if CHECKS[client["check"]].server else [mine]
