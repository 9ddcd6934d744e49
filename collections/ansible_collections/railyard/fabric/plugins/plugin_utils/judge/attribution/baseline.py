# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compare results without a threshold with the saved baseline of the same link, under equal conditions. Pure.

A result within the tolerance passes. A worse one fails if it is reproduced as in the comparison with the
fleet: for cards in two of three attempts, for software in all. A result that is better by more than the
tolerance, or under other conditions, stays `recorded` with the reason. If the run's baseline is lost, these
results are `unmeasured`.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.baseline import find_limits
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import significance
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import PASS, RECORDED
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import Policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution import fleet
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.baseline import Figure, Link, Saved
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Manifest
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import SCHEMA


def compare_with_baseline(
    asked: Sequence[AskedLine], answers: Sequence[Answer], saved: Saved, rules: Policy
) -> None:
    """Compare recorded answers with a baseline; changed in place.

    Args:
        asked: the planned tests.
        answers: their answers in the same order, with `conditions`.
        saved: the baseline.
        rules: the merged policy.
    """
    for line, answer in zip(asked, answers, strict=True):
        metric = fleet.find_compared_metric(answer)
        if answer.outcome != RECORDED or not answer.tries or not metric:
            continue
        figure = saved.figures.get(_find_link(line))
        if saved.lost:
            answer.unknown("baseline_lost", saved.lost)
        elif figure is None or figure.metric != metric:
            answer.basis += f"; the baseline {saved.run} has no result for it"
        elif differs := _describe_difference(figure.like, answer.conditions):
            answer.basis += f"; not compared with the baseline {saved.run}: {differs}"
        else:
            _compare(answer, figure, saved.run, rules)


def build_baseline(
    manifest: Manifest, asked: Iterable[AskedLine], answers: Iterable[Answer]
) -> dict[str, Any]:
    """Return the baseline of a run that passed: its results without a threshold, grouped by conditions."""
    classes: dict[tuple[tuple[str, str], ...], list[tuple[AskedLine, float]]] = {}
    for line, answer in zip(asked, answers, strict=True):
        metric = fleet.find_compared_metric(answer)
        if answer.outcome in (PASS, RECORDED) and answer.tries and metric and not answer.flaky:
            kind = (("metric", metric), *sorted(answer.conditions.items()))
            classes.setdefault(kind, []).append((line, float(answer.observed[metric])))
    return {
        "schema": SCHEMA,
        "cluster": manifest["cluster"],
        "run": manifest["run"],
        "ended": manifest["end"]["at"],
        "asked_sha256": manifest["asked"]["sha256"],
        "classes": [_build_class(dict(kind), links) for kind, links in classes.items()],
    }


def _build_class(conditions: dict[str, str], links: Sequence[tuple[AskedLine, float]]) -> dict[str, Any]:
    values = [value for _line, value in links]
    return {
        "metric": conditions.pop("metric"),
        "like": conditions,
        "spread": {"least": min(values), "median": statistics.median(values), "most": max(values)},
        "links": [{**{key: line[key] for key in ("node", "peer", "rail")}, "value": v} for line, v in links],
    }


def _find_link(line: AskedLine) -> Link:
    return str(line["check"]), str(line["node"]), str(line["peer"]), line["rail"]


def _describe_difference(then: Mapping[str, str], now: Mapping[str, str]) -> str:
    keys = (key for key in sorted({*then, *now}) if then.get(key) != now.get(key))
    return ", ".join(f"{key} {then.get(key)} then, {now.get(key)} now" for key in keys)


def _compare(answer: Answer, figure: Figure, run: str, rules: Policy) -> None:
    metric, confirm = figure.metric, int(rules["confirm"])
    least, most = find_limits(figure, float(rules["baseline_tolerance"]))
    more = significance.higher_is_better(metric)
    values = [float(seen[metric]) for _number, seen in sorted(answer.tries.items())]
    bad = [value for value in values if (value < least if more else value > most)]
    good = [value for value in values if least <= value <= most]
    hardware = answer.conditions["hardware"] == str(True)
    needed = min(fleet.OF_HARDWARE, len(values)) if hardware else 1 + confirm
    tolerance = f"{figure.value:g} then, {least:g} to {most:g} is within its tolerance"
    answer.basis = f"baseline {run}: {tolerance}; {answer.basis}"
    again = f"{len(bad)}/{len(values)}" if values[0] in bad or len(bad) >= needed else None
    # A missing attempt may have been as bad: removing rows never improves a verdict.
    missing = 1 + confirm - len(values) if again else 0
    if again and len(bad) + missing >= needed and (hardware or confirm):
        answer.observed[metric] = seen = statistics.median(bad)
        detail = f"{metric} {seen:g}; baseline {run}: {tolerance} ({len(bad)} of {len(values)} attempts)"
        if len(bad) >= needed:
            answer.failed("worse_than_baseline", detail, "proven")
        else:
            answer.unknown("worse_than_baseline", f"{detail}; unconfirmed")
    elif len(good) > len(bad) and (again or values[0] in good):
        answer.outcome = PASS
        if again:
            answer.observed[metric], answer.flaky = statistics.median(good), True
    else:
        answer.basis += f"; it is {'worse' if bad else 'better'} in {len(values) - len(good)} attempts"
        return
    answer.reproduced = again or answer.reproduced
    answer.floor = {**answer.floor, metric: least}
    answer.ceiling = {**answer.ceiling, metric: min(most, answer.ceiling.get(metric, most))}
