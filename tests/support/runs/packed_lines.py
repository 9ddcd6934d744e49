# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packed rows as lines that tests can change, a line for each row, and back.

    {"as": "gpu01/1f3a90c2", "id": "m00006", "v": [...]}        a row: the name of its frame, and its values

The first values are those up to FIRST. Those of `packed_rows.columns_of` follow: metrics, begin and growth of
each counter, window, words of the command lines, iterations, samples.
"""

from __future__ import annotations

import base64
import itertools
import json
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.runner import packed_rows

Row = dict[str, Any]
SEQUENCE, AFTER_MS, OTHER, ROUND, IN_GROUP, HEARD, FIRST = range(7)
#: Of a frame.
_NAME = re.compile("[^/]*/[0-9a-f]{8}")


def places_of(frame: Mapping[str, Any]) -> dict[str, int]:
    """Return column -> place of its (first) value, of those from FIRST on."""
    columns = packed_rows.columns_of(frame)[len(packed_rows.FIRST_COLUMNS) :]
    begins = itertools.accumulate((one.values for one in columns), initial=FIRST)
    return dict(zip((one.name for one in columns), begins, strict=False))


def unpack(lines: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return lines with a line for each packed row."""
    found: list[Row] = []
    frames = packed_rows.Frames()
    for line in lines:
        if "packed" not in line:
            frames.add(line)
            found.append(dict(line))
            continue
        data, host, words = base64.b64decode(line["packed"]), line["host"], line["words"]
        while data:
            frame = frames.frame_of(host, data)
            assert frame is not None
            values = list(struct.unpack(frame.form, data[: frame.row_bytes]))
            data = data[frame.row_bytes :]
            name, number, sequence, after_ms, other, at, in_group, boot, digest = values[:9]
            rest = values[9:]
            for column, place in places_of(frame.row).items():
                if column.startswith("word "):
                    rest[place - FIRST] = words[rest[place - FIRST]]
            heard = f"{boot:08x}.{digest:016x}"
            v = [sequence, after_ms, words[other], at, in_group, heard, *rest]
            found.append({"as": f"{host}/{name:08x}", "id": f"m{number:05d}", "v": v})
    return found


def pack(lines: Iterable[Mapping[str, Any]]) -> list[Row]:
    """Return lines as a runner could write them; a row that no packed row can hold is written in full."""
    found: list[Row] = []
    frames = packed_rows.Frames()
    for line in lines:
        if "as" not in line:
            frames.add(line)
            found.append(dict(line))
            continue
        if not (isinstance(line["as"], str) and isinstance(line.get("v"), list)) or len(line["v"]) < FIRST:
            found.append(dict(line))
            continue
        frame = frames.frame(line["as"])
        if frame is None and _NAME.fullmatch(line["as"]) is None:
            found.append(dict(line))
            continue
        if frame is None:
            empty = struct.pack("<I", int(line["as"].rpartition("/")[2], 16))
            found.append(packed_rows.packed_line(line["as"].rpartition("/")[0], [empty], []))
            continue
        try:
            _append(found, line, frame.row, line["as"], frames)
            continue
        except _NOT_PACKED:
            pass
        try:
            wider = _widen(frame.row, line["v"])
            name = line["as"][:-1] + ("0" if line["as"][-1] != "0" else "1")
            packed = _pack(line, wider, name)
            assert frames.add({"frame": name, "row": wider})
            found += [{"frame": name, "row": wider}, packed]
            continue
        except (*_NOT_PACKED, AssertionError):
            pass
        try:
            found.append(_in_full(line, frame.row))
        except (*_NOT_PACKED, AssertionError):
            found.append(dict(line))  # its frame or its id is none
    return found


def _append(
    found: list[Row], line: Mapping[str, Any], frame: Mapping[str, Any], name: str, frames: packed_rows.Frames
) -> None:
    """Append a packed row, to the last line if that has the same host and columns."""
    last = found[-1] if found else {}
    if last.get("host") == name.rpartition("/")[0] and 0 < last.get("count", 0) < 3 and last["words"]:
        data = base64.b64decode(last["packed"])
        of_last = frames.frame_of(last["host"], data)
        if of_last is not None and of_last.columns == packed_rows.columns_of(frame):
            added = _pack(line, frame, name, last["words"])
            rows = [data[at : at + of_last.row_bytes] for at in range(0, len(data), of_last.row_bytes)]
            rows.append(base64.b64decode(added["packed"]))
            found[-1] = packed_rows.packed_line(last["host"], rows, added["words"])
            return
    found.append(_pack(line, frame, name))


_NOT_PACKED = (struct.error, TypeError, ValueError, AttributeError, LookupError, OverflowError)


def _pack(line: Mapping[str, Any], frame: Mapping[str, Any], name: str, known: Iterable[str] = ()) -> Row:
    columns = packed_rows.columns_of(frame)
    sequence, after_ms, other, at, in_group, heard, *rest = line["v"]
    words = [*known, other]
    place_of_other = len(words) - 1
    for column, place in places_of(frame).items():
        if column.startswith("word "):
            words.append(rest[place - FIRST])
            rest[place - FIRST] = len(words) - 1
    if not all(isinstance(word, str) for word in words):
        raise ValueError(words)
    host, _slash, digits = name.rpartition("/")
    boot, digest = heard.split(".")
    first = [int(digits, 16), int(line["id"][1:]), sequence, after_ms, place_of_other, at, in_group]
    values = [*first, int(boot, 16), int(digest, 16), *rest]
    if any(isinstance(value, bool) for value in values):
        raise ValueError(values)
    return packed_rows.packed_line(host, [struct.pack(packed_rows.form_of(columns), *values)], words)


def _widen(frame: Mapping[str, Any], values: list[Any]) -> Row:
    """Return a frame whose rows can hold these numbers."""
    made: Row = json.loads(json.dumps(frame))
    own = made["metrics"][1]
    for place, name in enumerate(own, FIRST):
        own[name] = "q" if isinstance(values[place], int) else "d"
    made["counters"] = dict.fromkeys(made["counters"], "q")
    if made["samples"]:
        made["samples"][1] = "q"
    return made


def _in_full(line: Mapping[str, Any], frame: Mapping[str, Any]) -> Row:
    """Return the full row with what a packed row cannot hold."""
    values, places = line["v"], places_of(frame)
    base: list[Any] = [1, 0, "x", 0, 0, "00000000." + 16 * "0"]
    kinds = packed_rows.columns_of(frame)[len(packed_rows.FIRST_COLUMNS) :]
    base += itertools.chain(*([("x" if one.name.startswith("word ") else 0)] * one.values for one in kinds))
    odd = []
    for place in range(len(base)):
        was, new = base[place], values[place] if place < len(values) else None
        base[place] = new
        try:
            _pack({**line, "v": base}, _widen(frame, base), line["as"])
        except _NOT_PACKED:
            base[place] = was
            odd.append((place, new))
    made = _widen(frame, base)
    frames = packed_rows.Frames()
    assert frames.add({"frame": line["as"], "row": made})
    row = next(frames.rows(_pack({**line, "v": base}, made, line["as"])))
    assert row is not None
    by_place = {place: name for name, place in places.items()}
    for place, new in odd:
        what, _blank, name = by_place.get(place, "samples").partition(" ")
        if place < FIRST:
            row[("sequence", "started", "peer", "round", "group", "other_end")[place]] = new
        elif what == "metric":
            row["metrics"][name] = new
        elif what in ("before", "growth"):
            row["counters"][name][what == "growth"] = new
        elif what in ("begin_ticks", "end_ticks"):
            row["window_s"][what == "end_ticks"] = new
        elif what == "word":
            row["argv"][0][0] = new
        else:
            row[what.partition("_")[0] if what.startswith("sample") else what] = new
    return row


def each_row(lines: Iterable[Mapping[str, Any]]) -> Iterator[Row | None]:
    """Yield the rows of `unpack`'s lines in full."""
    frames = packed_rows.Frames()
    for line in pack(lines):
        if "frame" in line:
            frames.add(line)
        elif "packed" in line:
            yield from frames.rows(line)
        else:
            yield line
