# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find JSON objects in a tool's output, also truncated or with repeated keys or nan; never raises."""

from __future__ import annotations

import json
import re
from typing import Any

# Some tools print C's nan and inf, which are not JSON; Python reads only the capitalized ones.
_BARE_WORD = re.compile(r'("\s*:\s*)-?(?:nan|inf|infinity)(?:\([^)\n]{0,40}\))?(?=\s*[,}\]\n])', re.I)
_OBJECT_START = re.compile(r"^[ \t]*\{", re.M)
# `^` does not match in the middle of a line: an object right behind another.
_NEXT_OBJECT = re.compile(r"[ \t\r]*\{")
REPEATED = "_bidir_reverse"


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Keep all of several equal keys; json.loads alone would keep only the last one.

    iperf3 3.7 to 3.9 repeat `sum_sent` and similar keys for the reverse half of `--bidir`; later versions
    give them the suffix that is added here.
    """
    kept: dict[str, Any] = {}
    for key, value in pairs:
        kept[key + REPEATED if key in kept else key] = value
    return kept


_DECODER = json.JSONDecoder(object_pairs_hook=_pairs, parse_constant=lambda _word: None)


class Found:
    """What `find_objects` saw.

    Attributes:
        objects: The complete objects, in order.
        around: The text before, between and after them.
        cut: Text that begins like an object and does not end like one, or None.
    """

    def __init__(self) -> None:
        """Begin empty."""
        self.objects: list[dict[str, Any]] = []
        self.around = ""
        self.cut: str | None = None


def find_objects(text: str, most: int = 100000) -> Found:
    """Find the JSON objects that begin at the start of a line.

    Args:
        text: What the tool printed.
        most: No more objects than this are read.

    Returns:
        The objects, the text around them, and the rest from the first object that cannot be read.
    """
    found = Found()
    text = _BARE_WORD.sub(r"\1null", text.lstrip("\ufeff"))
    around: list[str] = []
    place = 0
    while len(found.objects) < most:
        start = (_NEXT_OBJECT.match(text, place) if place else None) or _OBJECT_START.search(text, place)
        if start is None:
            break
        around.append(text[place : start.start()])
        brace = start.end() - 1
        try:
            # ValueError is also what int() raises for more than 4300 digits; RecursionError is deep nesting.
            value, place = _DECODER.raw_decode(text, brace)
        except (ValueError, RecursionError):
            found.cut, place = text[brace:], len(text)
            break
        found.objects.append(value)
    found.around = "".join([*around, text[place:]])
    return found


def section(value: object, *keys: str) -> dict[str, Any]:
    """Walk into nested objects; a missing or differently typed one is an empty object."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}
