# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the run as gauges in Prometheus' text format, for node_exporter's textfile collector. Pure.

Metric names come only from the catalogue of checks, so that no node can invent one. The run's id is a label
of one gauge: on every gauge it would create new series with each run.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.arrays import Floats
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS, OUTCOMES
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_number
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean_line
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import wording
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.spread import describe

if TYPE_CHECKING:
    from ansible_collections.railyard.fabric.plugins.plugin_utils.present.measurement import (
        Measurement,
        PassedTests,
    )
    from ansible_collections.railyard.fabric.plugins.plugin_utils.present.model import Report

FILE = "railyard.prom"
#: More series of nodes and peers than this are folded to least, median and greatest of each rail.
MOST_SERIES = 4000
# Metrics of verdicts that the catalogue does not have.
_MORE = {"errors", "rate_gbps"}
_KNOWN = {name for check in CHECKS.values() for name in (*check.client, *check.bounded)} | _MORE
# Only numbers of these outcomes are measured.
_MEASURED = ("pass", "fail", "recorded")

Labels = tuple[tuple[str, str], ...]
Place = tuple[str, str, str, str, str, str]
_PLACE = ("check", "node", "peer", "rail", "direction", "subject")


def render(report: Report) -> str:
    """Return the file; `railyard_run_complete` is always in it, 0 or 1.

    The gauges of numbers carry their unit in the name, such as `railyard_bandwidth_gbps` (10^9 bit/s).
    """
    cluster = (("cluster", report.cluster),)
    text = _run(cluster, complete=not report.incomplete, exit_status=report.exit_status)
    text += family(
        "run_info", "The run that this file describes.", {(*cluster, ("run", report.run)): 1}.items()
    )
    for name, at in (("timestamp", report.started), ("end_timestamp", report.ended)):
        if (moment := _seconds(at)) is not None:
            help_text = "When the run began." if name == "timestamp" else "When the run ended."
            text += family(f"run_{name}_seconds", f"{help_text} Unix time.", [(cluster, moment)])
    verdicts = {
        (*cluster, ("check", table.check), ("outcome", outcome)): table.counts.get(outcome, 0)
        for table in report.tables
        for outcome in OUTCOMES
    }
    text += family("verdicts", "Verdicts of a check by outcome.", verdicts.items())
    return text + "".join(_measured(cluster, report.measurements, report.passes))


def unjudged(cluster: str, exit_status: int = 3) -> str:
    """Return the file of a run that has not been judged: it is incomplete."""
    return _run((("cluster", cluster),), complete=False, exit_status=exit_status)


def _run(cluster: Labels, *, complete: bool, exit_status: int) -> str:
    return family(
        "run_complete", "1 where the run ended and none of it is lost, else 0.", [(cluster, int(complete))]
    ) + family(
        "run_exit_status",
        "0 all measured and none failed, 1 something failed, 3 something is unmeasured or incomplete.",
        [(cluster, exit_status)],
    )


def _measured(
    cluster: Labels, measurements: Iterable[Measurement], passed: Sequence[PassedTests]
) -> Iterator[str]:
    """Yield a family per metric: a series per test, or per rail where they are too many."""
    found: dict[str, dict[Place, float | Mapping[str, Floats]]] = defaultdict(dict)
    for item in measurements:
        if item.outcome not in _MEASURED:
            continue
        place = item.check, item.node, item.peer, item.rail, item.direction, item.subject
        for metric, value in item.observed.items():
            if metric in _KNOWN and is_number(value):
                # node_exporter refuses a file with a duplicate series.
                found[metric].setdefault(place, float(value))
    count = sum(map(len, found.values()))
    for number, tests in enumerate(passed):
        first, observed = tests.first, tests.passes.observed
        for metric in _KNOWN.intersection(observed):
            # As a node, the number only distinguishes groups: a run with groups is always folded.
            found[metric][first.check, str(number), "", first.rail, first.direction, ""] = observed
            count += len(tests)
    if passed or count > MOST_SERIES:
        yield f"# {count} series of nodes and peers are folded to min, median and max of each rail.\n"
        series = {_name(metric): _folded(cluster, metric, values) for metric, values in found.items()}
    else:
        series = {
            _name(metric): {
                (*cluster, *_labels_of(place)): value
                for place, value in values.items()
                if isinstance(value, float)
            }
            for metric, values in found.items()
        }
    left = MOST_SERIES
    for name in sorted(series):
        if len(series[name]) > left:
            yield f"# railyard_{name} is left out: {len(series[name])} series are more than the file takes.\n"
            continue
        left -= len(series[name])
        yield family(name, f"{_help_text(name)}.", sorted(series[name].items()))


def _folded(
    cluster: Labels, metric: str, values: Mapping[Place, float | Mapping[str, Floats]]
) -> dict[Labels, float]:
    """Return least, median and greatest of each check, rail and direction.

    Args:
        cluster: its label.
        metric: which one.
        values: place -> its value, or all values of tests there, which are read one place after the other.
    """
    groups: dict[Place, list[float | Mapping[str, Floats]]] = defaultdict(list)
    for (check, _node, _peer, rail, direction, subject), value in values.items():
        groups[check, "", "", rail, direction, subject].append(value)
    return {
        (
            *cluster,
            *(one for one in _labels_of(place) if one[0] not in ("node", "peer")),
            ("stat", stat),
        ): value
        for place, found in groups.items()
        for stat, value in zip(
            ("min", "median", "max"),
            describe([one if isinstance(one, float) else one[metric] for one in found]),
            strict=True,
        )
    }


def _labels_of(place: Place) -> Labels:
    """Return a place's labels; `subject` where it has one."""
    return tuple(one for one in zip(_PLACE, place, strict=True) if one[1] or one[0] != "subject")


def _name(metric: str) -> str:
    return metric if wording.unit(metric) else f"{metric}_count"


def _help_text(name: str) -> str:
    metric = name.removesuffix("_count")
    return f"Measured by checks: {wording.metric_name(metric)}, in {wording.unit(metric) or 'numbers'}"


def family(name: str, help_text: str, series: Iterable[tuple[Labels, float]]) -> str:
    """Return a family of gauges: its name without `railyard_`, and each series with its value."""
    head = f"# HELP railyard_{name} {help_text}\n# TYPE railyard_{name} gauge\n"
    return head + "".join(f"railyard_{name}{{{_labels(labels)}}} {value!r}\n" for labels, value in series)


def _labels(labels: Labels) -> str:
    return ",".join(f'{key}="{_escaped(text)}"' for key, text in labels)


def _escaped(text: str) -> str:
    return clean_line(text).replace("\\", "\\\\").replace('"', '\\"')


def _seconds(moment: Any) -> float | None:
    """Return the Unix time of a time as the report writes it, or None."""
    try:
        parsed = datetime.strptime(moment, "%Y-%m-%d %H:%M:%S UTC")
    except ValueError:
        return None
    return parsed.replace(tzinfo=UTC).timestamp()
