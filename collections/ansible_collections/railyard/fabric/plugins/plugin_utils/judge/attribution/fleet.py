# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare results without a threshold with comparable tests of the run. Pure.

Comparable tests have one check, tool, message size, QPs, streams, MTUs, direction, class of device, rate and
number of planned hops, on any nodes and rails. The comparison can only fail tests: the others stay
`recorded`, since all of them may be slow.

Latencies over an unknown number of switches are not comparable: a healthy node behind a spine is slower than
the others. A difference that more switches can explain is only reported; ten times the latency still fails.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.measure import outliers
from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS, RECORDED
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_number
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import hops
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer

#: Values of `hops` if the leaves are not declared.
NO_LEAF, BETWEEN_UNITS = "None", "between units"
#: Settings of the measurement.
_MEASURED = ("message_bytes", "qps", "streams")
#: Settings that are included only if they are not the default, so that baselines of earlier versions still
#: match.
_CLASS = ("traffic_class", "service_level")
#: Without declared leaves, the maximum difference in the number of switches between two paths (a spine and
#: two leaves, or a core above them), and the maximum latency of each.
UNKNOWN_SWITCHES, SWITCH_US = 4, hops.HOP_MOST_US
#: A round trip passes each switch twice.
_BOTH_WAYS = ("rtt_average_us",)
_BOTH_WAYS_CHECKS = ("rdma_read_latency",)
#: Number of three attempts in which a card's test must be an outlier; for software in all of them.
OF_HARDWARE = 2


def fail_outliers(members: Iterable[tuple[Answer, str]], confirm: int, direct: bool = False) -> None:
    """Fail recorded answers that are outliers among comparable tests; changed in place.

    Args:
        members: the answers of tests, with `conditions`, and which rows of their nodes are missing.
        confirm: how often a test that looks bad is measured again.
        direct: no switch is between any two nodes.
    """
    alike: dict[tuple[tuple[str, str], ...], list[tuple[Answer, str]]] = {}
    for answer, lost in members:
        if answer.outcome == RECORDED and answer.tries and find_compared_metric(answer):
            alike.setdefault(tuple(sorted(answer.conditions.items())), []).append((answer, lost))
    for answers in alike.values():
        kind = answers[0][0]
        ways = [name for name in outliers.WAYS if name in CHECKS[kind.conditions["check"]].bounded]
        for name in (find_compared_metric(kind), *ways):
            explained_us = 0.0 if direct else _find_explained_us(name, kind.conditions)
            _fail_outliers(answers, name, kind.conditions["hardware"] == str(True), confirm, explained_us)


def _find_explained_us(name: str, conditions: Mapping[str, str]) -> float:
    """Return the additional latency that an unknown number of switches may explain."""
    if not name.endswith("_us") or not conditions.get("hops", "").startswith((NO_LEAF, BETWEEN_UNITS)):
        return 0.0
    ways = 2 if name in _BOTH_WAYS or conditions["check"] in _BOTH_WAYS_CHECKS else 1
    return ways * UNKNOWN_SWITCHES * SWITCH_US


def _fail_outliers(
    answers: list[tuple[Answer, str]], name: str, hardware: bool, confirm: int, explained_us: float
) -> None:
    first = {
        place: float(answer.tries[min(answer.tries)][name]) for place, (answer, _lost) in enumerate(answers)
    }
    # The order of the attempts does not matter: the median counts too.
    middle = first | {
        place: statistics.median(float(seen[name]) for seen in answer.tries.values())
        for place, (answer, _lost) in enumerate(answers)
        if len(answer.tries) > 1
    }
    # A processor may favor one of two directions: these are only compared by the larger margin.
    by_spread = hardware and name not in outliers.WAYS
    find = partial(outliers.find_outliers, kind=outliers.KINDS[name], hardware=by_spread)
    for place in find(first) | find(middle):
        answer, lost = answers[place]
        if answer.outcome != RECORDED:
            continue
        values = [float(seen[name]) for _number, seen in sorted(answer.tries.items())]
        low = [value for value in values if place in find({**first, place: value})]
        needed = min(OF_HARDWARE, len(values)) if hardware else 1 + confirm
        # A missing attempt may have been as bad.
        missing = answer.attempts - len(values)
        usual = statistics.median(first.values())
        if explained_us and (seen := statistics.median(low or values)) <= usual + explained_us:
            answer.basis += (
                f"; {name} {seen:g}, the median of {len(first)} tests {usual:.4g}: not compared, since the "
                "number of switches on the path is not known; declare `leaf` of each rail"
            )
            continue
        if len(low) >= needed and (hardware or confirm):
            seen = statistics.median(low)
            detail = (
                f"{name} {seen:g}, the median of {len(first)} comparable tests {usual:.4g} "
                f"({len(low)} of {len(values)} attempts)"
            )
            answer.observed[name] = seen
            answer.reproduced = f"{len(low)}/{len(values)}"
            answer.failed("stands_apart", detail)
            answer.basis += "; compared with comparable tests of the run"
        elif (lost and len(values) <= confirm) or (missing > 0 and len(low) + missing >= needed):
            answer.unknown("attempt_missing", lost or f"{len(values)} of {answer.attempts} have a result")
        elif hardware:
            answer.flaky, answer.reproduced = True, f"{len(low)}/{len(values)}"


def describe_conditions(
    line: AskedLine,
    measured: Mapping[str, Any],
    mtus: tuple[object, object],
    rate_gbps: object,
    classes: Iterable[str],
    way: object,
) -> dict[str, str]:
    """Return what comparable tests have in common, as text.

    Args:
        line: the planned test.
        measured: the required settings of its rows.
        mtus: its client's MTUs: the netdev's, and RDMA's.
        rate_gbps: its rail's rate.
        classes: its ends' classes of device.
        way: the number of planned switches between them, or what is known about it.
    """
    both = sorted(classes)
    conditions: dict[str, object] = {key: line[key] for key in ("check", "tool", "direction")}
    conditions |= {key: measured.get(key) for key in _MEASURED}
    conditions |= {key: measured[key] for key in _CLASS if measured.get(key) is not None}
    conditions |= zip(("mtu_bytes", "active_mtu_bytes"), mtus, strict=True)
    # Whether all ends are cards, whose results vary less.
    conditions |= {"rate_gbps": rate_gbps, "classes": " and ".join(both), "hops": way}
    conditions["hardware"] = set(both) == {"hardware"}
    return {key: str(value) for key, value in conditions.items()}


def find_compared_metric(answer: Answer) -> str:
    """Return the metric of a test that is compared; empty if there is none."""
    check = CHECKS.get(answer.conditions.get("check", ""))
    names = [name for name in outliers.METRICS if check and name in check.bounded]
    return next((name for name in names if is_number(answer.observed.get(name))), "")
