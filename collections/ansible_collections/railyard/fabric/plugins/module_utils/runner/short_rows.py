# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Compress the rows of a sweep to a ninth of their size: what many of them share is written once. Pure.

A proven row of tests that run together is written short; any other row in full:

    {"frame": "gpu01/1f3a9", "row": {...}}              what such rows of a node share
    {"as": "gpu01/1f3a9", "id": "m00006", "v": [...]}   a row: its frame, with these values in its places

`Frames` expands short rows for readers. One difference remains: of the other end's part of the exchange a
short row keeps a digest, which is compared with the row of the other end.
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Optional

from .raw_names import raw_name

Row = dict[str, Any]

#: How the lines of frames and of short rows begin; full rows never do, since keys are sorted.
FRAME_BEGINS, SHORT_BEGINS = b'{"frame":', b'{"as":'
#: The keys that the ends exchange at the end of a test and write, see `Step.swap_rows`.
_EXCHANGED = ("host", "status", "proof", "metrics", "counters")
_WRITTEN_ANEW = ("id", "sequence", "node", "peer", "round", "group")
#: Ticks per second: times and windows are written in tenths of a millisecond.
TICKS = 10000
#: Numbers of digits; shorter than anything that may be an address.
BOOT_DIGITS, DIGEST_DIGITS, _NAME_DIGITS = 8, 11, 5
#: The errors of a malformed line; a time out of range is an OSError.
_MALFORMED = (ValueError, TypeError, LookupError, AttributeError, OverflowError, OSError)

# `json.dumps` would create an encoder for each row.
_MARK = "\0"
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def unlike(said: Mapping[str, Any], row: Mapping[str, Any]) -> Iterator[str]:
    """Yield the keys in which an end's row differs from what it sent to the other end.

    Args:
        said: `other_end` of the other end's row.
        row: the row of the end itself.
    """
    if "digest" not in said:
        yield from (key for key in _EXCHANGED if said.get(key) != row.get(key))
        return
    if said.get("host") != row.get("host"):
        yield "host"
    if said["digest"] != _digest(row):
        yield "thing"


def boot_id_of(said: Mapping[str, Any], known: object) -> object:
    """Return the boot id that an end sent to the other; `known` completes the digits of a short row."""
    sent = said.get("boot_id") or ""
    cut = "digest" in said and isinstance(sent, str) and len(sent) == BOOT_DIGITS
    return known if cut and str(known).startswith(sent) else sent


def _digest(row: Mapping[str, Any]) -> str:
    """Return the digest of what an end sends to the other, without its host name."""
    return digest_of(_ENCODER.encode([row.get(key) for key in _EXCHANGED[1:]]))


def digest_of(text: str) -> str:
    """Return the digest of what an end sends to the other, given as JSON text."""
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_DIGITS]


def told_form(
    frame: Mapping[str, Any], fixed: Mapping[str, Any], own: Sequence[str], counters: Sequence[str]
) -> Optional[str]:  # noqa: UP045 - Python 3.9 on nodes
    """Return the JSON text whose digest a frame's rows have, with `%r` for each value that varies.

    Args:
        frame: what the rows share.
        fixed: their equal metrics.
        own: sorted names of the metrics that vary.
        counters: sorted names of the counters, each of which has two values.

    Returns:
        None where a shared value looks like a placeholder.
    """
    metrics = {**fixed, **dict.fromkeys(own, _MARK)}
    sent = [frame["status"], frame["proof"], metrics, {name: [_MARK, _MARK] for name in counters}]
    form = _ENCODER.encode(sent).replace("%", "%%").replace(_ENCODER.encode(_MARK), "%r")
    return form if form.count("%r") == len(own) + 2 * len(counters) else None


class Shortener:
    """Writes the rows of one file."""

    def __init__(self) -> None:
        self._frames = Frames()
        self._first: dict[str, str] = {}

    def lines(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """Yield the lines that are written for rows."""
        for row in rows:
            yield from self._lines(row)

    def _lines(self, row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Yield the full row, or a short row with its frame before it where that is new."""
        try:
            taken = _Short(row)
            text = json.dumps(taken.frame, sort_keys=True)
            # The times of a frame count from its first row.
            begun = self._first.get(text, row["started"])
            values = taken.values(begun)
            name = "{}/{}".format(
                row["host"], hashlib.sha256((text + begun).encode()).hexdigest()[:_NAME_DIGITS]
            )
            frame = {"frame": name, "row": {**taken.frame, "started": begun}}
            short = {"as": name, "id": row["id"], "v": values}
            new = text not in self._first
            # A row that does not expand to itself is written in full.
            if new and (name in self._frames or not self._frames.add(frame)):
                raise ValueError(name)
            if self._frames.expand(short) != {**row, "other_end": _shorten_other_end(row)}:
                raise ValueError(row["id"])
        except _MALFORMED:
            yield row
            return
        if new:
            self._first[text] = begun
            yield frame
        yield short


class _Short:
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
        self._other = str(row["peer"] if row["end"] == "client" else row["node"])
        self._argv = [list(argv) for argv in row["argv"]]
        self._words = [word for argv in self._argv for word in _take_varying(argv, row["address"])]
        self.frame = {key: value for key, value in row.items() if key not in _WRITTEN_ANEW}
        del self.frame["started"]
        self.frame["argv"] = self._argv
        metrics = row["metrics"]
        # The numbers of a path are the same on all good paths.
        counted = all(value is None or isinstance(value, int) for value in metrics.values())
        self._own = sorted(name for name, value in metrics.items() if value is not None and not counted)
        alike = {name: value for name, value in metrics.items() if name not in self._own}
        self.frame["metrics"] = [alike, self._own]
        self.frame["counters"] = sorted(row["counters"])
        self.frame["window_s"] = row["window_s"] is not None
        self.frame["samples"] = "samples" in row
        self.frame["iterations"] = "iterations" in row
        self.frame["other_end"] = None
        self.frame["raw"] = row["raw"] and row["raw"]["file"]

    def values(self, begun: str) -> list[Any]:
        """Return the values that vary, in the order in which `_expand` reads them."""
        row = self._row
        number = int(row["id"][1:])
        values = [
            row["sequence"],
            _milliseconds(row["started"]) - _milliseconds(begun),
            self._other,
            row["round"],
        ]
        values.append(number - int(row["group"][1:]))
        other = _shorten_other_end(row)
        values.append("{}.{}".format(other["boot_id"], other["digest"]))
        values += [row["metrics"][name] for name in self._own]
        for name in self.frame["counters"]:
            before, after = row["counters"][name]
            values += [before, after - before]
        if self.frame["window_s"]:
            values += [round(at * TICKS) for at in row["window_s"]]
        values += self._words
        if self.frame["iterations"]:
            values.append(row["iterations"])
        if self.frame["samples"]:
            ticks, counted = [round(at * TICKS) for at in row["samples"]["t_s"]], row["samples"]["rx_bytes"]
            for first, steps in ((0, ticks), (_before(row["counters"]), counted)):
                values += [later - earlier for earlier, later in zip([first, *steps], steps)]  # noqa: B905
        return values


class Frame(NamedTuple):
    """What short rows share: `row`, and `begun`, from which their times count, in ms since the epoch."""

    row: Row
    begun: int


class Frames:
    """Expands short rows with the frames that were read before them."""

    def __init__(self) -> None:
        self._known: dict[str, Frame] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def add(self, line: Mapping[str, Any]) -> bool:
        """Add the line of a frame; return whether it is valid and agrees with one of the same name."""
        name, row = line.get("frame"), line.get("row")
        if (
            not isinstance(name, str)
            or not isinstance(row, dict)
            or name.rpartition("/")[0] != row.get("host")
        ):
            return False
        try:
            known = Frame(row, _milliseconds(row["started"]))
            names = [*row["metrics"][1], *row["counters"]]
        except _MALFORMED:
            return False
        # They become keys of its rows, and keys of JSON are strings.
        if not all(isinstance(name, str) for name in names):
            return False
        return self._known.setdefault(name, known).row == row

    def frame(self, name: str) -> Optional[Frame]:  # noqa: UP045 - Python 3.9 on nodes
        """Return the frame of a name, None where it is not known."""
        return self._known.get(name)

    def expand(self, line: Mapping[str, Any]) -> Optional[Row]:  # noqa: UP045 - Python 3.9 on nodes
        """Return a short row in full; None where it is malformed or its frame unknown."""
        try:
            frame, begun = self._known[line["as"]]
            return _expand(frame, begun, line["id"], line["v"])
        except _MALFORMED:
            return None


def _expand(frame: Mapping[str, Any], begun: int, identity: str, values: Sequence[Any]) -> Row:
    row = dict(frame)
    host, end = row["host"], row["end"]
    row["id"], row["sequence"], row["round"] = identity, values[0], values[3]
    row["started"] = timestamp(begun + values[1])
    other = values[2]
    row["node"], row["peer"] = (host, other) if end == "client" else (other, host)
    row["group"] = f"g{int(identity[1:]) - values[4]:05d}"
    boot_id, _dot, digest = values[5].partition(".")
    row["other_end"] = {"host": other, "boot_id": boot_id, "digest": digest}
    alike, names = row["metrics"]
    place = 6 + len(names)
    row["metrics"] = {**alike, **dict(zip(names, values[6:place]))}  # noqa: B905 - Python 3.9 has no strict
    counters = {}
    for name in row["counters"]:
        before = values[place]
        counters[name] = [before, before + values[place + 1]]
        place += 2
    row["counters"] = counters
    if row["window_s"]:
        row["window_s"] = [values[place] / TICKS, values[place + 1] / TICKS]
        place += 2
    else:
        row["window_s"] = None
    argvs = []
    for argv in row["argv"]:
        words = []
        for word in argv:
            if word is None:
                word = str(values[place])
                place += 1
            words.append(word)
        argvs.append(words)
    row["argv"] = argvs
    if row["iterations"]:
        row["iterations"] = values[place]
        place += 1
    else:
        del row["iterations"]
    if row["samples"]:
        row["samples"] = samples(_before(counters), values[place:])
    else:
        del row["samples"]
        if place != len(values):
            raise ValueError("it has more values than places")
    if row["raw"]:
        row["raw"] = {"file": row["raw"], "name": raw_name(identity, end, row["attempt"])}
    return row


def samples(before: int, values: Sequence[int]) -> dict[str, list[Any]]:
    """Return a row's samples: `t_s` and `rx_bytes`.

    Args:
        before: the receiver's byte count at the start.
        values: the differences of consecutive samples: all times in ticks, then all bytes.
    """
    count = len(values) // 2
    times = [at / TICKS for at in _sums(0, values[:count])]
    return {"t_s": times, "rx_bytes": _sums(before, values[count:])}


def _shorten_other_end(row: Mapping[str, Any]) -> Row:
    """Return what a short row keeps of the other end's part."""
    other = row["other_end"]
    if other["error"] is not None:
        raise ValueError("it is written in full")
    return {"host": other["host"], "boot_id": other["boot_id"][:BOOT_DIGITS], "digest": _digest(other)}


def _take_varying(argv: list[Any], own: object) -> list[str | int]:
    """Replace the arguments that name a partner or a port by None, and return them."""
    taken = []
    for place, word in enumerate(argv):
        if (place and argv[place - 1] == "-p") or (word != own and _is_address(word)):
            taken.append(int(word) if str(word).isdigit() and word == str(int(word)) else word)
            argv[place] = None
    return taken


def _is_address(word: str) -> bool:
    return word.count(".") == 3 or word.count(":") > 1


def _before(counters: Mapping[str, Sequence[int]]) -> int:
    """Return the receiver's byte count at the start, near which its samples are."""
    return counters["rx_bytes"][0] if "rx_bytes" in counters else 0


def _sums(first: int, steps: Sequence[int]) -> list[int]:
    return list(itertools.accumulate(steps, initial=first))[1:]


def _milliseconds(text: str) -> int:
    """Return a row's time as milliseconds since the epoch.

    Raises:
        ValueError: it has another format.
    """
    seconds, mark, rest = text.rpartition(".")
    if not mark or len(rest) != 4 or rest[3] != "Z":
        raise ValueError(text)
    moment = datetime.datetime.strptime(seconds, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=datetime.timezone.utc)  # noqa: UP017
    return int(moment.timestamp()) * 1000 + int(rest[:3])


# The rows of both ends and of all rails of a group have the same time.
@functools.lru_cache(maxsize=1 << 12)
def timestamp(milliseconds: int) -> str:
    """Format milliseconds since the epoch as rows do.

    Raises:
        ValueError, OverflowError, OSError: it is out of range.
    """
    seconds, rest = divmod(milliseconds, 1000)
    moment = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)  # noqa: UP017 - Python 3.9
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{rest:03d}Z"
