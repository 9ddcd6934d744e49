# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Render metrics as Prometheus' text format, for node_exporter's textfile collector. Pure.

The format is version 0.0.4 (prometheus.io/docs/instrumenting/exposition_formats). A file with one bad line is
refused whole, so nothing that a node names (netdevs, counters, a PCI address) may break it: label values are
escaped, a series that comes twice is written once, and what is no finite number is left out.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple, Union

from .catalogue import FOR_PERSONS, METRICS, Metric

#: Larger than any node's file by far: 8 rails have about 200 series. More would be a defect that fills the
#: memory of Prometheus, so that whole metrics are left out, and a comment names them.
MOST_SERIES = 5000
#: Longest label value; what is longer is cut.
MOST_LABEL_CHARACTERS = 200

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*\Z")
_LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*\Z")

# Python 3.9, which nodes may have, cannot evaluate `X | Y`.
Number = Union[int, float]  # noqa: UP007 - see above
Labels = tuple[tuple[str, str], ...]


class Sample(NamedTuple):
    """One value of a metric: its name, its labels, and the number."""

    name: str
    labels: Mapping[str, object]
    value: Number


def render(
    samples: Iterable[Sample], metrics: Mapping[str, Metric] = METRICS, most_series: int = MOST_SERIES
) -> str:
    """Return the file's text.

    Args:
        samples: in any order; of equal series the first counts.
        metrics: what is known of each name.
        most_series: the most series that the text may have.

    Raises:
        ValueError: a sample is of no known metric, or has a label that its metric does not have.
    """
    families: dict[str, dict[Labels, Number]] = {}
    for sample in samples:
        metric = metrics.get(sample.name)
        if metric is None:
            raise ValueError(f"{sample.name} is not in the catalogue of metrics")
        if unknown := set(sample.labels) - set(metric.labels):
            raise ValueError(f"{sample.name} has no label {', '.join(sorted(unknown))}")
        if math.isfinite(sample.value):
            families.setdefault(sample.name, {}).setdefault(_labels(metric, sample.labels), sample.value)
    text = []
    dropped = _largest(families, most_series)
    for name in metrics:
        if name not in families:
            continue
        if name in dropped:
            text.append(
                f"# {name}: {len(families[name])} series are left out, the file may have {most_series}\n"
            )
            continue
        text += [_head(metrics[name]), *(_line(name, *one) for one in families[name].items())]
    return "".join(text)


def left_out(text: str) -> list[str]:
    """Return the comments of a rendered file that name metrics which were left out."""
    return [
        line[2:] for line in text.splitlines() if line.startswith("# ") and " series are left out" in line
    ]


def escape_label(value: str) -> str:
    """Escape a label value: backslash, double quote and line feed, as the format demands."""
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def escape_help(value: str) -> str:
    """Escape a help text: backslash and line feed; quotes stay."""
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def _largest(families: Mapping[str, Mapping[Labels, Number]], most_series: int) -> set[str]:
    """Return the names of families that make the rest fit: first those of no rule, then the largest."""
    sizes = {name: len(series) for name, series in families.items()}
    chosen: set[str] = set()
    for name in sorted(sizes, key=lambda one: (one not in FOR_PERSONS, -sizes[one], one)):
        if sum(size for one, size in sizes.items() if one not in chosen) <= most_series:
            break
        chosen.add(name)
    return chosen


def _labels(metric: Metric, values: Mapping[str, object]) -> Labels:
    """Return labels as text in the metric's order; an empty one is the same as none and is left out."""
    texts = ((name, _text(values.get(name, ""))) for name in metric.labels)
    return tuple((name, text) for name, text in texts if text)


def _text(value: object) -> str:
    """Return a label value that is UTF-8: a netdev's name may hold any bytes but `/`, `:` and blanks."""
    text = str(value).encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return text.replace("\0", "")[:MOST_LABEL_CHARACTERS]


def _head(metric: Metric) -> str:
    if not _NAME.match(metric.name) or not all(map(_LABEL.match, metric.labels)):
        raise ValueError(f"{metric.name} or one of its labels is no name for Prometheus")
    return f"# HELP {metric.name} {escape_help(metric.help)}\n# TYPE {metric.name} {metric.type}\n"


def _line(name: str, labels: Labels, value: Number) -> str:
    listed = ",".join(f'{key}="{escape_label(text)}"' for key, text in labels)
    return f"{name}{{{listed}}} {_number(value)}\n" if listed else f"{name} {_number(value)}\n"


def _number(value: Number) -> str:
    """Format a number as Go reads it; an integer without a fraction, however large."""
    if isinstance(value, bool):
        return str(int(value))
    return str(int(value)) if isinstance(value, float) and value.is_integer() else repr(value)
