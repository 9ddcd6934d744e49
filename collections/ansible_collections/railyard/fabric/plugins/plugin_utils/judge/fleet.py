# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What no authority bounds is held against its like within the run. Pure.

Like are tests of one check with one tool, message, QPs, streams, MTUs, direction, class of device, rate and
planned hops, on whatever nodes and rails. The fleet can only fail: who is like the others stays `recorded`,
since all of them may be slow alike.
"""

from __future__ import annotations

import statistics
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.measure import like
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import RECORDED
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.draft import Answer

#: What is compared of a test: the first of them that it has.
_METRICS = ("bandwidth_gbps", "latency_p50_us", "rtt_average_us")
#: In how many of three attempts a card's test stands apart; of software in all of them.
_OF_HARDWARE = 2


def settle(members: Iterable[tuple[Hashable, bool, Answer]], confirm: int) -> None:
    """Fail recorded answers that stand apart from their like; changed in place.

    Args:
        members: what makes a test like another, whether all its ends are cards, and its answer.
        confirm: how often a test that looks bad is measured again.
    """
    alike: dict[tuple[Hashable, bool], list[Answer]] = {}
    for kind, hardware, answer in members:
        if answer.outcome == RECORDED and _metric(answer.observed) and answer.tries:
            alike.setdefault((kind, hardware), []).append(answer)
    for (_kind, hardware), answers in alike.items():
        _settle(answers, hardware, confirm)


def _settle(answers: list[Answer], hardware: bool, confirm: int) -> None:
    metric = _metric(answers[0].observed)
    first = {place: float(answer.tries[min(answer.tries)][metric]) for place, answer in enumerate(answers)}
    more = metric.endswith("_gbps")
    for place in like.apart(first, more, hardware):
        answer = answers[place]
        values = [float(seen[metric]) for _number, seen in sorted(answer.tries.items())]
        low = [value for value in values if place in like.apart({**first, place: value}, more, hardware)]
        needed = min(_OF_HARDWARE, len(values)) if hardware else 1 + confirm
        usual = statistics.median(first.values())
        if len(low) >= needed and (hardware or confirm):
            seen = statistics.median(low)
            said = (
                f"{metric} {seen:g}, the median of {len(first)} like tests {usual:.4g} "
                f"({len(low)} of {len(values)} attempts)"
            )
            answer.observed[metric] = seen
            answer.reproduced = f"{len(low)}/{len(values)}"
            answer.failed("stands_apart", said)
            answer.basis += "; held against the run's like tests"
        elif len(values) > 1 and hardware:
            answer.flaky, answer.reproduced = True, f"{len(low)}/{len(values)}"


def kind(line: Mapping[str, Any], row: Mapping[str, Any], rates: object, hops: object) -> Hashable:
    """Return what makes a test like another; see the module's words."""
    keys = ("message_bytes", "qps", "streams", "mtu_bytes", "active_mtu_bytes")
    said = (line["check"], line["tool"], line["direction"], *(row.get(key) for key in keys), rates, hops)
    return tuple(map(repr, said))


def _metric(observed: Mapping[str, Any]) -> str:
    return next((name for name in _METRICS if isinstance(observed.get(name), (int, float))), "")
