# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Parse many lines of short rows at once. Pure."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.plugin_utils.arrays import Ints, np

#: As `short_rows.Shortener` writes it, without strings that need escaping.
_LINE = re.compile(rb'\{"as":"([^"\\\n]+)","id":"m([0-9]{5}|[1-9][0-9]{5,17})","v":(\[[^][{}\\\n]*\])\}\n')
#: Bytes of such a line outside of its three groups.
_AROUND = len(b'{"as":"","id":"m","v":}\n')


class Lines(NamedTuple):
    """Lines of short rows by column.

    Attributes:
        frames: names of their frames.
        numbers: the numbers in their tests' ids.
        values: their values.
        begin: positions in the file.
        length: lengths in bytes.
    """

    frames: Sequence[bytes]
    numbers: Ints
    values: Sequence[list[Any]]
    begin: Ints
    length: Ints

    def only(self, places: Sequence[int]) -> Lines:
        """Return a selection of the lines."""
        if len(places) == len(self.values):
            return self
        frames, values = [self.frames[at] for at in places], [self.values[at] for at in places]
        at = np.array(places, dtype=np.int64)
        return Lines(frames, self.numbers[at], values, self.begin[at], self.length[at])


def parse_block(block: bytes, begin: int) -> Lines | None:
    """Return the lines of a block, None if one has another form."""
    found = _LINE.findall(block)
    lengths = [len(name) + len(number) + len(values) + _AROUND for name, number, values in found]
    if sum(lengths) != len(block):
        return None
    names, numbers, texts = zip(*found, strict=True)
    try:
        values = json.loads(b"[" + b",".join(texts) + b"]")
    except ValueError:
        return None
    # An unterminated string would include the beginning of the next line.
    if len(values) != len(found):
        return None
    ends = np.cumsum(lengths)
    length = np.array(lengths, dtype=np.int64)
    return Lines(names, np.array([*map(int, numbers)], dtype=np.int64), values, begin + ends - length, length)
