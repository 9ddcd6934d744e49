# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What no authority bounds is held against its like within the run. Pure.

Like are tests of one check with one tool, message, QPs, streams, MTUs, direction, class of device, rate and
planned hops, on whatever nodes and rails. The fleet can only fail: who is like the others stays `recorded`,
since all of them may be slow alike.

Latencies over an unknown number of switches are not alike: a healthy node behind a spine is slower than the
others. What more switches can explain is reported there, and fails nobody; ten times the latency still does.
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

#: What is known of the way between two nodes where their leaves are not declared.
NO_LEAF, BETWEEN_UNITS = "None", "between units"
#: How it was measured, as the policy asks.
_MEASURED = ("message_bytes", "qps", "streams")
#: The same, only where it is not the default, so that baselines of earlier versions still fit tests without.
_CLASS = ("traffic_class", "service_level")
#: Where the leaves are not declared, so many more switches may be on one way than on another (a spine and two
#: leaves, or a core above them), each of which takes so long at most.
UNKNOWN_SWITCHES, SWITCH_US = 4, hops.HOP_MOST_US
#: What is measured there and back passes each switch twice.
_BOTH_WAYS = ("rtt_average_us",)
_BOTH_WAYS_CHECKS = ("rdma_read_latency",)
#: In how many of three attempts a card's test stands apart; of software in all of them.
OF_HARDWARE = 2


def settle(members: Iterable[tuple[Answer, str]], confirm: int, direct: bool = False) -> None:
    """Fail recorded answers that stand apart from their like; changed in place.

    Args:
        members: the answers of tests, `like` filled in, and which rows of their nodes are not there any more.
        confirm: how often a test that looks bad is measured again.
        direct: no switch is between any two nodes.
    """
    alike: dict[tuple[tuple[str, str], ...], list[tuple[Answer, str]]] = {}
    for answer, lost in members:
        if answer.outcome == RECORDED and answer.tries and metric(answer):
            alike.setdefault(tuple(sorted(answer.conditions.items())), []).append((answer, lost))
    for answers in alike.values():
        kind = answers[0][0]
        ways = [name for name in outliers.WAYS if name in CHECKS[kind.conditions["check"]].bounded]
        for name in (metric(kind), *ways):
            explained_us = 0.0 if direct else _explained_us(name, kind.conditions)
            _settle(answers, name, kind.conditions["hardware"] == str(True), confirm, explained_us)


def _explained_us(name: str, of: Mapping[str, str]) -> float:
    """Return how much more of a latency switches explain, which the inventory does not count."""
    if not name.endswith("_us") or not of.get("hops", "").startswith((NO_LEAF, BETWEEN_UNITS)):
        return 0.0
    ways = 2 if name in _BOTH_WAYS or of["check"] in _BOTH_WAYS_CHECKS else 1
    return ways * UNKNOWN_SWITCHES * SWITCH_US


def _settle(
    answers: list[tuple[Answer, str]], name: str, hardware: bool, confirm: int, explained_us: float
) -> None:
    first = {
        place: float(answer.tries[min(answer.tries)][name]) for place, (answer, _lost) in enumerate(answers)
    }
    # Which of three attempts was the first says nothing of a test: two of them do.
    middle = first | {
        place: statistics.median(float(seen[name]) for seen in answer.tries.values())
        for place, (answer, _lost) in enumerate(answers)
        if len(answer.tries) > 1
    }
    # A processor may favour one of two directions: they are compared by the larger rule alone.
    by_spread = hardware and name not in outliers.WAYS
    find = partial(outliers.find_outliers, kind=outliers.KINDS[name], hardware=by_spread)
    for place in find(first) | find(middle):
        answer, lost = answers[place]
        if answer.outcome != RECORDED:
            continue
        values = [float(seen[name]) for _number, seen in sorted(answer.tries.items())]
        low = [value for value in values if place in find({**first, place: value})]
        needed = min(OF_HARDWARE, len(values)) if hardware else 1 + confirm
        # An attempt that is not there, or of which nothing is known, may have been as bad.
        missing = answer.attempts - len(values)
        usual = statistics.median(first.values())
        if explained_us and (seen := statistics.median(low or values)) <= usual + explained_us:
            answer.basis += (
                f"; {name} {seen:g}, the median of {len(first)} tests {usual:.4g}: not compared, since the "
                "number of switches on the way is not known; declare `leaf` of each rail"
            )
            continue
        if len(low) >= needed and (hardware or confirm):
            seen = statistics.median(low)
            said = (
                f"{name} {seen:g}, the median of {len(first)} like tests {usual:.4g} "
                f"({len(low)} of {len(values)} attempts)"
            )
            answer.observed[name] = seen
            answer.reproduced = f"{len(low)}/{len(values)}"
            answer.failed("stands_apart", said)
            answer.basis += "; held against the run's like tests"
        elif (lost and len(values) <= confirm) or (missing > 0 and len(low) + missing >= needed):
            answer.unknown("attempt_missing", lost or f"{len(values)} of {answer.attempts} have a number")
        elif hardware:
            answer.flaky, answer.reproduced = True, f"{len(low)}/{len(values)}"


def like_of(
    line: AskedLine,
    measured: Mapping[str, Any],
    mtus: tuple[object, object],
    rate_gbps: object,
    classes: Iterable[str],
    way: object,
) -> dict[str, str]:
    """Return what makes a test like another, each in words; see the module's words.

    Args:
        line: the asked line.
        measured: what its rows have to say of how it was measured; what else they say makes it no other.
        mtus: its client's: the netdev's, and RDMA's.
        rate_gbps: what its rail can do.
        classes: its ends' classes of device.
        way: how many switches are planned between them, or what is known of it.
    """
    told = sorted(classes)
    said: dict[str, object] = {key: line[key] for key in ("check", "tool", "direction")}
    said |= {key: measured.get(key) for key in _MEASURED}
    said |= {key: measured[key] for key in _CLASS if measured.get(key) is not None}
    said |= zip(("mtu_bytes", "active_mtu_bytes"), mtus, strict=True)
    # Whether all ends are cards: these repeat a number better.
    said |= {"rate_gbps": rate_gbps, "classes": " and ".join(told), "hops": way}
    said["hardware"] = set(told) == {"hardware"}
    return {key: str(value) for key, value in said.items()}


def metric(answer: Answer) -> str:
    """Return which of a test's numbers is compared; empty where its check, or it, has none."""
    check = CHECKS.get(answer.conditions.get("check", ""))
    told = [name for name in outliers.METRICS if check and name in check.bounded]
    return next((name for name in told if is_number(answer.observed.get(name))), "")
