# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Lines of short rows as they are written, many parsed at once. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

try:
    import numpy as np
    from numpy.typing import NDArray
except ImportError:  # sanity's environment has none
    np = None  # type: ignore[assignment]

#: As `short_rows.Shortener` writes it, without a text that has to be read with care.
_LINE = re.compile(rb'\{"as":"([^"\\\n]+)","id":"m([0-9]{5}|[1-9][0-9]{5,17})","v":(\[[^][{}\\\n]*\])\}\n')
#: What of such a line is in none of its three groups.
_AROUND = len(b'{"as":"","id":"m","v":}\n')


class Lines(NamedTuple):
    """Lines of short rows, each part by the column.

    Attributes:
        frames: names of their frames.
        numbers: in the ids of their tests.
        values: theirs.
        begin: where they begin in the file.
        length: how long they are.
    """

    frames: Sequence[bytes]
    numbers: NDArray[np.int64]
    values: Sequence[list[Any]]
    begin: NDArray[np.int64]
    length: NDArray[np.int64]

    def only(self, places: Sequence[int]) -> Lines:
        """Return some of them."""
        if len(places) == len(self.values):
            return self
        frames, values = [self.frames[at] for at in places], [self.values[at] for at in places]
        at = np.array(places, dtype=np.int64)
        return Lines(frames, self.numbers[at], values, self.begin[at], self.length[at])


def parse(block: bytes, begin: int) -> Lines | None:
    """Return the lines of a block, None where one is not as such a line is written."""
    found = _LINE.findall(block)
    lengths = [len(name) + len(number) + len(values) + _AROUND for name, number, values in found]
    if sum(lengths) != len(block):
        return None
    names, numbers, texts = zip(*found, strict=True)
    try:
        values = json.loads(b"[" + b",".join(texts) + b"]")
    except ValueError:
        return None
    # A text without an end would hold the next one's beginning.
    if len(values) != len(found):
        return None
    ends = np.cumsum(lengths)
    length = np.array(lengths, dtype=np.int64)
    return Lines(names, np.array([*map(int, numbers)], dtype=np.int64), values, begin + ends - length, length)
