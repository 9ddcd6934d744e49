# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Unfold names such as `gpu[001-512]` on a node, where ClusterShell is not installed.

The controller folds with ClusterShell's NodeSet; this reads what it writes: comma-separated names, any number
of bracketed lists of numbers and ranges per name, zero-padding kept, steps as `[0-8/2]`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_RANGE = re.compile(r"^([0-9]+)(?:-([0-9]+)(?:/([0-9]+))?)?$")
_MOST_NAMES = 1000000


def expand(text: str) -> list[str]:
    """Return the names in the order in which the text has them, each once.

    Raises:
        ValueError: brackets that do not match, a range that is none or runs backwards, an empty part, or more
            than a million names.
    """
    names: dict[str, None] = {}
    for part in _split(text):
        for name in _expand_one(part):
            names[name] = None
            if len(names) > _MOST_NAMES:
                raise ValueError(f"{text!r} stands for more than {_MOST_NAMES} names")
    return list(names)


def _split(text: str) -> Iterator[str]:
    """Yield what stands between the commas that are outside brackets."""
    if not text.strip():
        return
    start = depth = 0
    for position, character in enumerate(text):
        if character == "[":
            depth += 1
        elif character == "]":
            depth -= 1
        if depth not in (0, 1):
            raise ValueError(f"brackets do not match in {text!r}")
        if character == "," and depth == 0:
            yield _part(text, text[start:position])
            start = position + 1
    if depth:
        raise ValueError(f"a bracket is not closed in {text!r}")
    yield _part(text, text[start:])


def _part(text: str, part: str) -> str:
    part = part.strip()
    if not part or " " in part:
        raise ValueError(f"an empty name, or a space within one, in {text!r}")
    return part


def _expand_one(part: str) -> Iterator[str]:
    head, bracket, rest = part.partition("[")
    if not bracket:
        yield head
        return
    inside, _closing, tail = rest.partition("]")
    for number in _numbers(part, inside):
        for ending in _expand_one(tail):
            yield head + number + ending


def _numbers(part: str, inside: str) -> Iterator[str]:
    for item in inside.split(","):
        match = _RANGE.match(item.strip())
        if match is None:
            raise ValueError(f"{item!r} in {part!r} is no number and no range")
        first, last, step = match.group(1), match.group(2) or match.group(1), int(match.group(3) or 1)
        if int(last) < int(first) or step < 1:
            raise ValueError(f"the range {item!r} in {part!r} runs backwards or stands still")
        # Only a leading zero asks for padding: [9-10] is 9, 10 and [09-10] is 09, 10.
        width = len(first) if first.startswith("0") else 0
        for number in range(int(first), int(last) + 1, step):
            yield str(number).zfill(width)
