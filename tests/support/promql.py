# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find the metrics and the selected labels in a PromQL expression; that it is one, promtool checks."""

from __future__ import annotations

import re
from collections.abc import Iterator

_STRING = r'"(?:[^"\\]|\\.)*"'
_LISTS = re.compile(r"\b(?:on|ignoring|by|without|group_left|group_right)\s*\([^)]*\)")
_WORDS = frozenset(("and", "or", "unless", "bool", "offset", "inf", "nan"))
_NAME = re.compile(r"[a-zA-Z_:][\w:]*")


def metrics(expression: str) -> set[str]:
    """Return the names of metrics and recorded series that an expression reads."""
    bare = re.sub(_STRING, "", expression)
    bare = re.sub(r"\{[^}]*\}|\[[^]]*\]", "", bare)
    bare = _LISTS.sub("", bare)
    # A number may hold an e, a duration a letter.
    bare = re.sub(r"\b\d[\w.]*(?:e[+-]?\d+)?", "", bare)
    found = set()
    for name in _NAME.finditer(bare):
        is_function = re.match(r"\s*\(", bare[name.end() :])
        if not is_function and name[0].lower() not in _WORDS:
            found.add(name[0])
    return found


def selectors(expression: str) -> Iterator[tuple[str, str, str, str]]:
    """Yield metric, label, operator and value of each matcher."""
    for metric, matchers in re.findall(rf"([a-zA-Z_:][\w:]*)\{{((?:[^}}\"]|{_STRING})*)\}}", expression):
        for label, operator, value in re.findall(rf"(\w+)\s*(=~|!~|!=|=)\s*({_STRING})", matchers):
            yield metric, label, operator, value[1:-1]


def groupings(expression: str) -> set[str]:
    """Return all labels that a join or an aggregation names."""
    return {name for part in _LISTS.findall(expression) for name in _NAME.findall(part.partition("(")[2])}
