# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The rows of a sweep in a ninth of their bytes: what many of them say alike is written once. Pure.

A proven row of tests at once is written short; any other one in full, as every row of other runs:

    {"frame": "gpu01/1f3a9", "row": {...}}              what such rows of a node say alike
    {"as": "gpu01/1f3a9", "id": "m00006", "v": [...]}   a row: its frame's, with these values in its places

Whoever reads rows has them made whole by `Frames`, and sees no difference but one: of the other end's part of
the exchange a short row keeps a digest, which is compared with what the other end wrote down.
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Optional

from ansible_collections.railyard.fabric.plugins.module_utils.runner.raw_names import raw_name

Row = dict[str, Any]

#: The lines of a frame and of a short row begin so, and that of a row never: keys are sorted.
FRAME_BEGINS, SHORT_BEGINS = b'{"frame":', b'{"as":'
#: What the ends tell each other at the end of a test, and write down: as `swap_rows` of the runner does.
_EXCHANGED = ("host", "status", "proof", "metrics", "counters")
_WRITTEN_ANEW = ("id", "sequence", "node", "peer", "round", "group")
#: In these times and windows are written: tenths of a millisecond.
TICKS = 10000
#: A UUID's first digits. Both are shorter than what may be an address.
BOOT_DIGITS, DIGEST_DIGITS, _NAME_DIGITS = 8, 11, 5
#: What comes of a line that is not as it has to be; a time beyond all calendars is an error of the system.
_UNLIKE = (ValueError, TypeError, LookupError, AttributeError, OverflowError, OSError)

# `json.dumps` would make one for each row.
_MARK = "\0"
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


def unlike(said: Mapping[str, Any], row: Mapping[str, Any]) -> Iterator[str]:
    """Yield in what an end wrote down another thing than it told the other end.

    Args:
        said: `other_end` of the other end's row.
        row: the end's own row.
    """
    if "digest" not in said:
        yield from (key for key in _EXCHANGED if said.get(key) != row.get(key))
        return
    if said.get("host") != row.get("host"):
        yield "host"
    if said["digest"] != _digest(row):
        yield "thing"


def boot_id_of(said: Mapping[str, Any], known: object) -> object:
    """Return the boot id that an end told the other: the known one, where a short row has its beginning."""
    told = said.get("boot_id") or ""
    cut = "digest" in said and isinstance(told, str) and len(told) == BOOT_DIGITS
    return known if cut and str(known).startswith(told) else told


def _digest(row: Mapping[str, Any]) -> str:
    """Return the digest of what an end tells the other, but for its name."""
    return digest_of(_ENCODER.encode([row.get(key) for key in _EXCHANGED[1:]]))


def digest_of(told: str) -> str:
    """Return the digest of what an end tells the other, given as the JSON text of it."""
    return hashlib.sha256(told.encode()).hexdigest()[:DIGEST_DIGITS]


def told_form(
    frame: Mapping[str, Any], fixed: Mapping[str, Any], own: Sequence[str], counters: Sequence[str]
) -> Optional[str]:  # noqa: UP045 - Python 3.9 on nodes
    """Return the text of which a frame's rows have the digests, with `%r` for each value of their own.

    Args:
        frame: what the rows say alike.
        fixed: their metrics that are alike.
        own: names of the others, sorted.
        counters: names of the counters, sorted, each of which has two values.

    Returns:
        None where a value that is alike cannot be told from one that is not.
    """
    metrics = {**fixed, **dict.fromkeys(own, _MARK)}
    said = [frame["status"], frame["proof"], metrics, {name: [_MARK, _MARK] for name in counters}]
    form = _ENCODER.encode(said).replace("%", "%%").replace(_ENCODER.encode(_MARK), "%r")
    return form if form.count("%r") == len(own) + 2 * len(counters) else None


class Shortener:
    """Writes the rows of one file."""

    def __init__(self) -> None:
        self._frames = Frames()
        self._first: dict[str, str] = {}

    def lines(self, rows: Iterable[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
        """Yield what is written for rows."""
        for row in rows:
            yield from self._lines(row)

    def _lines(self, row: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Yield a row itself, or its frame, where that is a new one, and what is left of the row."""
        try:
            said = _Short(row)
            words = json.dumps(said.frame, sort_keys=True)
            # The time that a frame counts from is its first row's.
            begun = self._first.get(words, row["started"])
            values = said.values(begun)
            name = "{}/{}".format(
                row["host"], hashlib.sha256((words + begun).encode()).hexdigest()[:_NAME_DIGITS]
            )
            frame = {"frame": name, "row": {**said.frame, "started": begun}}
            short = {"as": name, "id": row["id"], "v": values}
            new = words not in self._first
            # What does not come back as it was is written as it is.
            if new and (name in self._frames or not self._frames.add(frame)):
                raise ValueError(name)
            if self._frames.whole(short) != {**row, "other_end": _heard(row)}:
                raise ValueError(row["id"])
        except _UNLIKE:
            yield row
            return
        if new:
            self._first[words] = begun
            yield frame
        yield short


class _Short:
    """A row taken apart.

    Attributes:
        frame: what rows like it say too; of what they say otherwise, what there is to say.

    Raises:
        ValueError, TypeError, LookupError: it is none that is written short.
    """

    def __init__(self, row: Mapping[str, Any]) -> None:
        group, error = row["group"], row["error"]
        if group is None or error is not None or (row["status"], row["proof"]) != ("measured", "proven"):
            raise ValueError("it is written in full")
        self._row = row
        self._other = str(row["peer"] if row["end"] == "client" else row["node"])
        self._argv = [list(argv) for argv in row["argv"]]
        self._words = [word for argv in self._argv for word in _varying(argv, row["address"])]
        self.frame = {key: value for key, value in row.items() if key not in _WRITTEN_ANEW}
        del self.frame["started"]
        self.frame["argv"] = self._argv
        metrics = row["metrics"]
        # A path's numbers are the same on all good paths.
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
        """Return what the row has of its own, in the order in which `Frames.whole` reads it."""
        row = self._row
        number = int(row["id"][1:])
        values = [
            row["sequence"],
            _milliseconds(row["started"]) - _milliseconds(begun),
            self._other,
            row["round"],
        ]
        values.append(number - int(row["group"][1:]))
        heard = _heard(row)
        values.append("{}.{}".format(heard["boot_id"], heard["digest"]))
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
    """What short rows say alike: `row`, and `begun`, from which their times count, in ms since the epoch."""

    row: Row
    begun: int


class Frames:
    """Makes short rows whole by the frames that were read before them."""

    def __init__(self) -> None:
        self._known: dict[str, Frame] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def add(self, line: Mapping[str, Any]) -> bool:
        """Take the line of a frame; tell whether it is one, and no other of its name."""
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
        except _UNLIKE:
            return False
        # Of its rows they become keys, and keys of JSON are texts.
        if not all(isinstance(name, str) for name in names):
            return False
        return self._known.setdefault(name, known).row == row

    def frame(self, name: str) -> Optional[Frame]:  # noqa: UP045 - Python 3.9 on nodes
        """Return the frame of a name, None where it is not known."""
        return self._known.get(name)

    def whole(self, line: Mapping[str, Any]) -> Optional[Row]:  # noqa: UP045 - Python 3.9 on nodes
        """Return a short row as it would be in full; None where it is none of a known frame."""
        try:
            frame, begun = self._known[line["as"]]
            return _whole(frame, begun, line["id"], line["v"])
        except _UNLIKE:
            return None


def _whole(frame: Mapping[str, Any], begun: int, identity: str, values: Sequence[Any]) -> Row:
    row = dict(frame)
    host, end = row["host"], row["end"]
    row["id"], row["sequence"], row["round"] = identity, values[0], values[3]
    row["started"] = timestamp(begun + values[1])
    other = values[2]
    row["node"], row["peer"] = (host, other) if end == "client" else (other, host)
    row["group"] = f"g{int(identity[1:]) - values[4]:05d}"
    boot_id, _dot, told = values[5].partition(".")
    row["other_end"] = {"host": other, "boot_id": boot_id, "digest": told}
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
        before: where the receiver's bytes began.
        values: how much later each is than the one before, in ticks, and how many bytes more.
    """
    count = len(values) // 2
    times = [at / TICKS for at in _sums(0, values[:count])]
    return {"t_s": times, "rx_bytes": _sums(before, values[count:])}


def _heard(row: Mapping[str, Any]) -> Row:
    """Return what a short row keeps of the other end's part."""
    said = row["other_end"]
    if said["error"] is not None:
        raise ValueError("it is written in full")
    return {"host": said["host"], "boot_id": said["boot_id"][:BOOT_DIGITS], "digest": _digest(said)}


def _varying(argv: list[Any], own: object) -> list[str | int]:
    """Take the words that name a partner or a port out of a command line, and return them."""
    taken = []
    for place, word in enumerate(argv):
        if (place and argv[place - 1] == "-p") or (word != own and _is_address(word)):
            taken.append(int(word) if str(word).isdigit() and word == str(int(word)) else word)
            argv[place] = None
    return taken


def _is_address(word: str) -> bool:
    return word.count(".") == 3 or word.count(":") > 1


def _before(counters: Mapping[str, Sequence[int]]) -> int:
    """Return where a receiver's bytes began, near which its samples are."""
    return counters["rx_bytes"][0] if "rx_bytes" in counters else 0


def _sums(first: int, steps: Sequence[int]) -> list[int]:
    return list(itertools.accumulate(steps, initial=first))[1:]


def _milliseconds(text: str) -> int:
    """Return a row's time as milliseconds since the epoch.

    Raises:
        ValueError: it is none as rows carry it.
    """
    seconds, mark, rest = text.rpartition(".")
    if not mark or len(rest) != 4 or rest[3] != "Z":
        raise ValueError(text)
    moment = datetime.datetime.strptime(seconds, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=datetime.timezone.utc)  # noqa: UP017
    return int(moment.timestamp()) * 1000 + int(rest[:3])


# Both ends' rows, and those of all rails at once, say the same time.
@functools.lru_cache(maxsize=1 << 12)
def timestamp(milliseconds: int) -> str:
    """Return a time as rows carry it.

    Args:
        milliseconds: since the epoch.

    Raises:
        ValueError, OverflowError, OSError: it lies beyond all calendars.
    """
    seconds, rest = divmod(milliseconds, 1000)
    moment = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)  # noqa: UP017 - Python 3.9
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{rest:03d}Z"
