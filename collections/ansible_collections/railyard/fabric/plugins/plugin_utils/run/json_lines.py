# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read JSON of nodes and tools, also after crashes: torn lines, numbers that are not JSON, huge lines."""

from __future__ import annotations

import io
import json
import math
import re
import sys
from collections.abc import Container, Iterable, Iterator
from typing import Any, BinaryIO

from ansible_collections.railyard.fabric.plugins.module_utils.runner.packed_rows import (
    FRAME_BEGINS,
    PACKED_BEGINS,
    Frames,
)

#: No honest row comes near; what Python makes of JSON is many times as large.
MOST_LINE_BYTES = 8 << 20
#: What `blocks` reads at once.
_BLOCK_BYTES = 1 << 20


def parse_lines(data: bytes, frames: Frames | None = None) -> tuple[list[dict[str, Any]], bool]:
    """Read JSON Lines; return the complete rows, and whether anything had to be dropped.

    Packed rows are expanded with the frames before them, here or in `frames` (`runner.packed_rows`).

    A line that is not a JSON object is dropped at any place: after a torn line more may have been
    appended. So is one beyond MOST_LINE_BYTES, unread. Numbers that are not JSON (`read`) are null, and
    the user of the value reports that it is missing.
    """
    return whole_rows(each(io.BytesIO(data), frames=frames))


def as_written(data: bytes) -> tuple[list[dict[str, Any]], bool]:
    """Return what `parse_lines` does, but keep frames and packed rows as they are."""
    return whole_rows(each(io.BytesIO(data), whole=False))


def whole_rows(found: Iterable[dict[str, Any] | None]) -> tuple[list[dict[str, Any]], bool]:
    """Return the rows, and whether any was dropped."""
    rows, dropped = [], False
    for row in found:
        if row is None:
            dropped = True
        else:
            rows.append(row)
    return rows, dropped


# As `line` writes it. A tool's output inside a row may look like it: such a row is parsed, too.
_ID = re.compile(rb'"id"\s*:\s*"([^"\\]*)"')


def each(
    stream: BinaryIO, of: Container[str] | None = None, frames: Frames | None = None, whole: bool = True
) -> Iterator[dict[str, Any] | None]:
    """Yield each whole row (that may answer one of these questions), and None wherever one was dropped."""
    frames = Frames() if frames is None else frames
    for raw in lines(stream):
        if raw is None:
            yield None
        elif of is None or raw.startswith((FRAME_BEGINS, PACKED_BEGINS)) or _names_one(raw, of):
            yield from rows_of(raw, frames, whole, of)


def blocks(stream: BinaryIO, begins: bytes) -> Iterator[tuple[int, bytes]]:
    """Yield lines, and where they begin: many that begin so and follow each other, or one that does not.

    A line that has no end, or none within MOST_LINE_BYTES, is cut there.
    """
    alike = re.compile(rb"(?:" + re.escape(begins) + rb"[^\n]*+\n)++")
    while block := stream.read(_BLOCK_BYTES):
        if not block.endswith(b"\n"):
            block += stream.readline(MOST_LINE_BYTES)
        begin, last = stream.tell() - len(block), 0
        while last < len(block):
            found = alike.match(block, last)
            end = found.end() if found else block.find(b"\n", last) + 1 or len(block)
            yield begin + last, block[last:end]
            last = end
        while not block.endswith(b"\n") and (block := stream.readline(MOST_LINE_BYTES)):
            pass  # the rest of a line that is too long


def lines(stream: BinaryIO) -> Iterator[bytes | None]:
    """Yield each line that may be a row, and None for one that is too long or has no end."""
    too_long = False
    while raw := stream.readline(MOST_LINE_BYTES):
        begun, too_long = too_long, not raw.endswith(b"\n") and len(raw) == MOST_LINE_BYTES
        if not raw.endswith(b"\n"):
            yield None
        if not begun and not too_long and raw.strip():
            yield raw


def rows_of(
    raw: bytes, frames: Frames, whole: bool = True, of: Container[str] | None = None
) -> Iterator[dict[str, Any] | None]:
    """Yield a line's rows (of packed ones those of some ids), none of a frame, None where it is neither."""
    try:
        row = read(raw.decode("utf-8"))
    except (ValueError, RecursionError):
        row = None
    if whole and isinstance(row, dict) and "frame" in row:
        if frames.add(row):
            return
        row = None
    elif whole and isinstance(row, dict) and "packed" in row:
        yield from frames.rows(row, of)
        return
    yield row if isinstance(row, dict) else None


def _names_one(raw: bytes, of: Container[str]) -> bool:
    """Tell whether a line names one of these questions."""
    return any(found.decode("utf-8", "replace") in of for found in _ID.findall(raw))


def is_deep(value: Any, left: int = 16) -> bool:
    """Tell whether a JSON value is nested deeper than anything that a node has to say."""
    if not isinstance(value, (dict, list)):
        return False
    inner = value.values() if isinstance(value, dict) else value
    return left == 0 or any(is_deep(one, left - 1) for one in inner)


def _float(text: str) -> float | None:
    value = float(text)
    return value if math.isfinite(value) else None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # Millions of rows have the same keys.
    found = {sys.intern(key): value for key, value in pairs}
    if len(found) < len(pairs):
        raise ValueError("an object says the same key twice")
    return found


_DECODER = json.JSONDecoder(parse_float=_float, parse_constant=lambda _name: None, object_pairs_hook=_object)


def read(text: str) -> Any:
    """Read JSON so that it can be written again: NaN, infinity and 1e999 are null, half characters `?`.

    Tools print such numbers, and Python's JSON writes and reads them; in what others read they are no JSON.

    Raises:
        ValueError: it is none, or says a key twice, of which only one would be read.
        RecursionError: it is nested beyond sense.
    """
    value = _DECODER.decode(text)
    if "\\ud" not in text and "\\uD" not in text:
        return value
    whole = json.dumps(value, ensure_ascii=False).encode("utf-8", "replace").decode("utf-8")
    return json.loads(whole)
