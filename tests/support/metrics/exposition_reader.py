# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read Prometheus' text format strictly, as its document says, to check what the product writes.

Written by hand to prometheus.io/docs/instrumenting/exposition_formats (version 0.0.4), without the product's
code: HELP and TYPE once and before the first sample, all lines of a metric together, names by their grammar,
label values with the three escapes alone, numbers as Go's ParseFloat takes them, no series twice, a line feed
at the end. node_exporter's textfile collector refuses a file with a timestamp: that is an error here.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
_LABEL_NAME = r"[a-zA-Z_][a-zA-Z0-9_]*"
_LABEL_VALUE = r'"(?:[^"\\\n]|\\\\|\\"|\\n)*"'
_LABELS = rf"{_LABEL_NAME}={_LABEL_VALUE}(?:,{_LABEL_NAME}={_LABEL_VALUE})*"
_SAMPLE = re.compile(rf"({_NAME})(?:\{{({_LABELS})\}})? (\S+)\Z")
_ONE_LABEL = re.compile(rf"({_LABEL_NAME})=({_LABEL_VALUE})")
_NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?\Z|NaN\Z|[-+]?Inf\Z")
_HELP = re.compile(rf"# HELP ({_NAME}) ((?:[^\\\n]|\\\\|\\n)*)\Z")
_TYPE = re.compile(rf"# TYPE ({_NAME}) (counter|gauge|histogram|summary|untyped)\Z")
_PARTS = {"summary": ("_sum", "_count"), "histogram": ("_sum", "_count", "_bucket")}
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}

Series = dict[frozenset[tuple[str, str]], float]


class Family(NamedTuple):
    """A metric of a file: its type, its help text, and its series by their labels."""

    type: str
    help: str
    series: Series


def parse(text: str) -> dict[str, Family]:
    """Return the metrics of a file.

    Raises:
        ValueError: the text is not of the format; the message has the line.
    """
    if text and not text.endswith("\n"):
        raise ValueError("the last line has no line feed")
    families: dict[str, Family] = {}
    helps: dict[str, str] = {}
    current = ""
    for number, line in enumerate(text.split("\n")[:-1], 1):
        where = f"line {number}: {line!r}"
        if line.startswith("# HELP "):
            found = _HELP.match(line)
            if not found or found.group(1) in helps:
                raise ValueError(f"{where}: no HELP, or a second one")
            helps[found.group(1)] = found.group(2)
        elif line.startswith("# TYPE "):
            found = _TYPE.match(line)
            if not found or found.group(1) in families or found.group(1) not in helps:
                raise ValueError(f"{where}: no TYPE, a second one, or one without HELP")
            current = found.group(1)
            families[current] = Family(found.group(2), helps[current], {})
        elif line and not line.startswith("#"):
            _sample(line, where, current, families)
        elif not line:
            raise ValueError(f"{where}: an empty line")
    if empty := [name for name in helps if name not in families or not families[name].series]:
        raise ValueError(f"{empty[0]} has HELP and no sample")
    return families


def _sample(line: str, where: str, current: str, families: dict[str, Family]) -> None:
    found = _SAMPLE.match(line)
    if not found or not _NUMBER.match(found.group(3)):
        raise ValueError(f"{where}: no sample")
    parts = _PARTS.get(families[current].type, ()) if current in families else ()
    if found.group(1) in {current + part for part in parts}:
        return  # a part of a summary or a histogram, which Railyard has none of
    if found.group(1) != current:
        raise ValueError(f"{where}: a sample outside the lines of its metric")
    pairs = [
        (one.group(1), _unescape(one.group(2)[1:-1])) for one in _ONE_LABEL.finditer(found.group(2) or "")
    ]
    labels = frozenset(pairs)
    if len({name for name, _value in pairs}) < len(pairs):
        raise ValueError(f"{where}: a label twice")
    if labels in families[current].series:
        raise ValueError(f"{where}: a series twice")
    families[current].series[labels] = float(found.group(3))


def _unescape(text: str) -> str:
    return re.sub(r'\\[\\"n]', lambda found: _ESCAPES[found.group()], text)


def values(text: str, name: str) -> dict[tuple[str, ...], float]:
    """Return the series of one metric by their label values, in the order of the labels' names."""
    family = parse(text).get(name)
    series = family.series if family else {}
    return {tuple(value for _name, value in sorted(labels)): number for labels, number in series.items()}
