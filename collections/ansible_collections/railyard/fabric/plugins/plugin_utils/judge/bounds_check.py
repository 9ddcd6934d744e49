# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hold trusted numbers against their bounds. Pure; whether the numbers can be trusted was decided before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS, PASS, RECORDED
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge import aggregate, causes, row_counters
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.bounds import Bounds
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.draft import Answer

_ETHERNET_HEADER_BYTES = 14


def weigh(observed: dict[str, Any], judged: Sequence[Mapping[str, Any]], bounds: Bounds) -> Answer:
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
    rows: tuple[Mapping[str, Any], Mapping[str, Any]],
    judged: Sequence[Mapping[str, Any]],
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


def observed(client: Mapping[str, Any], server: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a verdict shows: the client's numbers, both ends' CPU, the lower of their bandwidths."""
    shown = {key: value for key, value in client["metrics"].items() if policy.is_number(value)}
    theirs = server["metrics"]
    if policy.is_number(theirs.get("bandwidth_gbps")) and "bandwidth_gbps" in shown:
        shown["bandwidth_gbps"] = min(shown["bandwidth_gbps"], theirs["bandwidth_gbps"])
    for key in ("cpu_percent", "node_cpu_percent"):
        if policy.is_number(theirs.get(key)):
            shown[f"peer_{key}"] = theirs[key]
    return shown


def judged(
    client: Mapping[str, Any], server: Mapping[str, Any], own_windows: bool = False
) -> list[Mapping[str, Any]]:
    """Return the metrics that have to keep the bounds: the client's, the server's where it measures too.

    Args:
        client: its row.
        server: its row.
        own_windows: each end measured by its own clock, so that one of the two may say more than the link can
            carry: the lower of both is what is sure.
    """
    mine, theirs = client["metrics"], server["metrics"]
    if own_windows:
        both = [name for name in mine if _both(mine[name], theirs.get(name))]
        return [{name: min(mine[name], theirs[name]) for name in both}]
    return [client["metrics"]] + ([server["metrics"]] if CHECKS[str(client["check"])].server else [])


def _both(one: object, other: object) -> bool:
    return policy.is_number(one) and policy.is_number(other)


def lost(client: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the cause when probes were lost; no counter has to prove that something did not arrive."""
    metrics = client["metrics"]
    if metrics.get("loss_percent", 0) > 0:
        return causes.explain("lost_packets", f"{metrics['loss_percent']:g} %")
    if "path_mtu_bytes" in metrics and metrics["received"] < metrics["sent"]:
        # Where one packet of the full size passed, the size is not what held the others back.
        size = metrics["path_mtu_bytes"]
        full = size == client.get("mtu_bytes") and metrics["received"] > 0
        seen = f"{metrics['received']} of {metrics['sent']} probes of {size} bytes arrived"
        return causes.explain("lost_packets" if full else "path_mtu_small", seen)
    return None


def came_after_all(client: Mapping[str, Any], server: Mapping[str, Any]) -> str | None:
    """Return what the rail's counters say against a loss: all packets came, and the tool missed some.

    A tool that was held up does not read what lies in its socket. One packet of these is more than all else
    that an idle rail carries beside them, so that the bytes show whether one is missing.
    """
    metrics, claim = client["metrics"], client.get("claim")
    size, sent = metrics.get("path_mtu_bytes", metrics.get("packet_bytes")), metrics.get("sent")
    end = server if client["check"] == "path_mtu_one_way" else client
    deltas = row_counters.counter_deltas(end.get("counters"))
    most = claim.get("at_most") if isinstance(claim, Mapping) else None
    if deltas is None or not (policy.is_whole(size) and policy.is_whole(sent) and policy.is_number(most)):
        return None
    wanted_bytes = sent * (size + _ETHERNET_HEADER_BYTES)
    if deltas["rx_packets"] < max(sent, most) or deltas["rx_bytes"] < wanted_bytes:
        return None
    return f"{sent} packets are {wanted_bytes} bytes, rx_bytes of {end['host']} grew by {deltas['rx_bytes']}"
