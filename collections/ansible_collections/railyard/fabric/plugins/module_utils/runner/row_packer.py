# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pack the rows of a sweep as `packed_rows.py` describes. Pure."""

from __future__ import annotations

import hashlib
import itertools
import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Optional

from .packed_rows import (
    BOOT_DIGITS,
    MALFORMED,
    NAME_DIGITS,
    TICKS,
    Column,
    Frames,
    Row,
    columns_of,
    digest_of_row,
    first_bytes,
    form_of,
    milliseconds,
    packed_line,
)

_WRITTEN_ANEW = ("id", "sequence", "node", "peer", "round", "group", "started")
#: A line is short enough to be read at once.
_MOST_ROWS = 32


class Packer:
    """Packs the rows of one file."""

    def __init__(self) -> None:
        self._frames = Frames()
        self._first: dict[str, str] = {}

    def lines(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """Yield the lines that are written for rows: first those in full and new frames."""
        together: dict[tuple[str, tuple[Column, ...]], tuple[list[bytes], list[str]]] = {}
        for row in rows:
            try:
                taken = _Parts(row)
                text = json.dumps(taken.frame, sort_keys=True)
                # The times of a frame count from its first row.
                begun = self._first.get(text, row["started"])
                digits = hashlib.sha256((text + begun).encode()).hexdigest()[:NAME_DIGITS]
                name = "{}/{}".format(row["host"], digits)
                frame = {"frame": name, "row": {**taken.frame, "started": begun}}
                new = text not in self._first
                # A row that does not expand to itself is written in full.
                if new and (name in self._frames or not self._frames.add(frame)):
                    raise ValueError(name)
                columns = columns_of(taken.frame)
                packed, words = together.setdefault((row["host"], columns), ([], []))
                data, own_words = taken.pack(columns, int(digits, 16), begun, words)
                line = packed_line(row["host"], [data], own_words)
                if list(self._frames.rows(line)) != [{**row, "other_end": _shorten_other_end(row)}]:
                    raise ValueError(row["id"])
            except MALFORMED:
                yield row
                continue
            if new:
                self._first[text] = begun
                yield frame
            packed.append(data)
            words[:] = own_words
            if len(packed) == _MOST_ROWS:
                yield packed_line(row["host"], packed, words)
                del together[row["host"], columns]
        for (host, _columns), (packed, words) in together.items():
            if packed:
                yield packed_line(host, packed, words)


class _Parts:
    """A row split into a frame and values.

    Attributes:
        frame: what comparable rows share, with placeholders for what varies.

    Raises:
        ValueError, TypeError, LookupError: the row is written in full.
    """

    def __init__(self, row: Mapping[str, Any]) -> None:
        group, error = row["group"], row["error"]
        if group is None or error is not None or (row["status"], row["proof"]) != ("measured", "proven"):
            raise ValueError("it is written in full")
        self._row = row
        argvs = [list(argv) for argv in row["argv"]]
        self._words = [word for argv in argvs for word in _take_varying(argv, row["address"])]
        self.frame = {key: value for key, value in row.items() if key not in _WRITTEN_ANEW}
        self.frame["argv"] = argvs
        metrics = row["metrics"]
        # The numbers of a path are the same on all good paths.
        counted = all(value is None or isinstance(value, int) for value in metrics.values())
        own = [] if counted else sorted(name for name, value in metrics.items() if value is not None)
        alike = {name: value for name, value in metrics.items() if name not in own}
        types = {name: "q" if isinstance(metrics[name], int) else "d" for name in own}
        self.frame["metrics"] = [alike, types]
        self.frame["counters"] = {
            name: _growth_type([after - before]) for name, (before, after) in sorted(row["counters"].items())
        }
        self.frame["window_s"] = row["window_s"] is not None
        self._samples = _sample_steps(row)
        steps = self._samples
        self.frame["samples"] = steps and [len(steps[0]), _growth_type(steps[1])]
        self.frame["iterations"] = "iterations" in row
        self.frame["other_end"] = None
        self.frame["raw"] = row["raw"] and row["raw"]["file"]

    def pack(
        self, columns: tuple[Column, ...], frame: int, begun: str, words: Sequence[str]
    ) -> tuple[bytes, list[str]]:
        """Return the packed row, and the words with those of this row.

        Args:
            columns: of the frame.
            frame: the number in the frame's name.
            begun: the frame's time.
            words: those of the line before.
        """
        row, number = self._row, int(self._row["id"][1:])
        known = list(words)

        def place(word: str) -> int:
            if word not in known:
                known.append(word)
            return known.index(word)

        other = _shorten_other_end(row)
        values: list[Any] = [frame, number, row["sequence"]]
        values.append(milliseconds(row["started"]) - milliseconds(begun))
        values.append(place(str(row["peer"] if row["end"] == "client" else row["node"])))
        values += [row["round"], number - int(row["group"][1:])]
        values += [int(other["boot_id"], 16), int(other["digest"], 16)]
        values += [row["metrics"][name] for name in self.frame["metrics"][1]]
        for name in self.frame["counters"]:
            before, after = row["counters"][name]
            values += [before, after - before]
        if self.frame["window_s"]:
            values += [round(at * TICKS) for at in row["window_s"]]
        values += map(place, self._words)
        if self.frame["iterations"]:
            values.append(row["iterations"])
        if self._samples:
            values += itertools.chain(*self._samples)
        return struct.pack(form_of(columns), *values), known


def _growth_type(values: Iterable[int]) -> str:
    return "I" if all(0 <= value < 1 << 32 for value in values) else "q"


def _sample_steps(
    row: Mapping[str, Any],
) -> Optional[tuple[list[int], list[int]]]:  # noqa: UP045 - Python 3.9 on nodes
    """Return the differences of consecutive samples: times in ticks, and bytes; None if there are none."""
    if "samples" not in row:
        return None
    ticks, counted = [round(at * TICKS) for at in row["samples"]["t_s"]], row["samples"]["rx_bytes"]
    if len(ticks) != len(counted):
        raise ValueError("it is written in full")
    times, moved = (
        [later - earlier for earlier, later in zip([first, *steps], steps)]  # noqa: B905 - Python 3.9
        for first, steps in ((0, ticks), (first_bytes(row["counters"]), counted))
    )
    return times, moved


def _shorten_other_end(row: Mapping[str, Any]) -> Row:
    """Return what a packed row keeps of the other end's part."""
    other = row["other_end"]
    if other["error"] is not None:
        raise ValueError("it is written in full")
    digest = f"{digest_of_row(other):016x}"
    return {"host": other["host"], "boot_id": other["boot_id"][:BOOT_DIGITS], "digest": digest}


def _take_varying(argv: list[Any], own: object) -> list[str]:
    """Replace the arguments that name a partner or a port by None, and return them."""
    taken = []
    for place, word in enumerate(argv):
        if (place and argv[place - 1] == "-p") or (word != own and _is_address(word)):
            taken.append(word)
            argv[place] = None
    return taken


def _is_address(word: str) -> bool:
    return word.count(".") == 3 or word.count(":") > 1
