# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Pack the rows of a sweep: what many of them share is written once, their numbers with a fixed width. Pure.

A proven row of tests that run together is packed; any other row is written in full:

    {"frame": "gpu01/1f3a90c2", "row": {...}}                         what such rows of a node share
    {"count": 8, "host": "gpu01", "packed": "...", "words": [...]}    rows: base64 of columns, little-endian

All rows of a line have the same columns (`columns_of`). `Frames` expands them for readers, and `railyard
export` prints them in full. One difference remains: of the other end's part of the exchange a packed row
keeps a digest, which is compared with the row of the other end.
"""

from __future__ import annotations

import base64
import datetime
import functools
import hashlib
import itertools
import json
import struct
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Optional

from .raw_names import raw_name

Row = dict[str, Any]

#: How the lines of frames and of packed rows begin; full rows never do, since keys are sorted.
FRAME_BEGINS, PACKED_BEGINS = b'{"frame":', b'{"count":'
#: The keys that the ends exchange at the end of a test and write, see `Step.swap_rows`.
_EXCHANGED = ("host", "status", "proof", "metrics", "counters")
#: Ticks per second: times and windows are written in tenths of a millisecond.
TICKS = 10000
#: Digits of the other end's boot id that are kept: 32 bits.
BOOT_DIGITS = 8
NAME_DIGITS, _DIGITS = 8, frozenset("0123456789abcdef")
_64_BITS = (1 << 64) - 1
#: The columns with several values in a row: ticks and bytes between a receiver's samples.
SAMPLES = ("sample_ticks", "sample_bytes")
#: Begin of a column's name -> its possible types, as `struct` names them.
_TYPES = {"metric": ("d", "q"), "growth": ("I", "q"), SAMPLES[1]: ("I", "q")}
#: The errors of a malformed line; a time out of range is an OSError.
MALFORMED = (ValueError, TypeError, LookupError, AttributeError, OverflowError, OSError, struct.error)

_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))


class Column(NamedTuple):
    """A column of packed rows: its name, its type as `struct` names it, and the number of values in a row."""

    name: str
    type: str
    values: int = 1


#: The first columns of all packed rows. `frame` is the number in the frame's name, `other` the place of the
#: other end's name in the line's words, `in_group` the number of the test in its group.
FIRST_COLUMNS = (
    Column("frame", "I"), Column("number", "I"), Column("sequence", "I"), Column("after_ms", "i"),
    Column("other", "H"), Column("round", "I"), Column("in_group", "H"), Column("boot", "I"),
    Column("digest", "Q"),
)  # fmt: skip


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
    try:
        same = said["digest"] == f"{digest_of_row(row):016x}"
    except MALFORMED:
        same = False
    if not same:
        yield "result"


def boot_id_of(said: Mapping[str, Any], known: object) -> object:
    """Return the boot id that an end sent to the other; `known` completes the digits of a packed row."""
    sent = said.get("boot_id") or ""
    cut = "digest" in said and isinstance(sent, str) and len(sent) == BOOT_DIGITS
    return known if cut and str(known).startswith(sent) else sent


def digest_of_row(row: Mapping[str, Any]) -> int:
    """Return the digest of what an end sends to the other, without its host name.

    Raises:
        ValueError, TypeError, LookupError, AttributeError, OverflowError, struct.error: it is malformed.
    """
    metrics, counters = row["metrics"], row["counters"]
    numbers = [metrics[name] for name in sorted(metrics) if metrics[name] is not None]
    values = [struct.unpack("<Q", struct.pack("<d", one))[0] for one in numbers]
    for name in sorted(counters):
        before, after = counters[name]
        values += [before & _64_BITS, after & _64_BITS]
    return int(digest_of(digest_begin(row["status"], row["proof"], metrics, counters), values))


def digest_begin(
    status: object, proof: object, metrics: Mapping[str, object], counters: Iterable[str]
) -> int:
    """Return the digest of what an end sends to the other besides its numbers.

    Args:
        status: of its row.
        proof: of its row.
        metrics: name -> value; only whether it is None counts.
        counters: their names.
    """
    names = [[name, metrics[name] is None] for name in sorted(metrics)]
    text = _ENCODER.encode([status, proof, names, sorted(counters)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little")


def digest_of(begin: Any, values: Iterable[Any]) -> Any:
    """Return the digest of numbers, each of them 64 bits: whole numbers, or columns of them.

    It finds rows that are not those that were sent. It is no protection from a node that lies.
    """
    found = begin
    for value in values:
        found = digest_next(found, value)
    return found


def digest_next(found: Any, value: Any) -> Any:
    """Return the digest of one more number."""
    mixed = ((found ^ value) * 0x9E3779B97F4A7C15) & _64_BITS
    return mixed ^ (mixed >> 29)


def columns_of(frame: Mapping[str, Any]) -> tuple[Column, ...]:
    """Return the columns of a frame's rows.

    Raises:
        ValueError, TypeError, LookupError, AttributeError: the frame is malformed.
    """
    columns = [*FIRST_COLUMNS]
    columns += [Column(f"metric {name}", kind) for name, kind in frame["metrics"][1].items()]
    for name, kind in frame["counters"].items():
        columns += [Column(f"before {name}", "q"), Column(f"growth {name}", kind)]
    if frame["window_s"]:
        columns += [Column("begin_ticks", "i"), Column("end_ticks", "i")]
    words = sum(word is None for argv in frame["argv"] for word in argv)
    columns += [Column(f"word {number}", "H") for number in range(words)]
    if frame["iterations"]:
        columns.append(Column("iterations", "q"))
    if frame["samples"]:
        count, kind = frame["samples"]
        if not isinstance(count, int) or not 0 < count < 1 << 16:
            raise ValueError("its rows have no possible number of samples")
        columns += [Column(SAMPLES[0], "I", count), Column(SAMPLES[1], kind, count)]
    for one in columns:
        if one.type not in _TYPES.get(one.name.partition(" ")[0], one.type):
            raise ValueError(f"{one.name} is of another type")
    return tuple(columns)


def form_of(columns: Iterable[Column]) -> str:
    """Return the form of a packed row with these columns, for `struct`."""
    return "<" + "".join(f"{one.values}{one.type}" for one in columns)


def packed_line(host: str, rows: Sequence[bytes], words: Sequence[str]) -> Row:
    """Return the line of a host's packed rows."""
    packed = base64.b64encode(b"".join(rows)).decode()
    return {"count": len(rows), "host": host, "packed": packed, "words": list(words)}


def count_rows(line: bytes) -> int:
    """Return the number of rows that a line of results states; 0 for a frame."""
    if line.startswith(PACKED_BEGINS):
        digits = line[len(PACKED_BEGINS) :].partition(b",")[0]
        return int(digits) if digits.isdigit() and len(digits) < 10 else 1
    return 0 if line.startswith(FRAME_BEGINS) else 1


class Frame(NamedTuple):
    """What packed rows share.

    Attributes:
        row: the values.
        begun: from which their times count, in ms since the epoch.
        columns: of its rows.
        form: of these columns, for `struct`.
        row_bytes: of a packed row.
    """

    row: Row
    begun: int
    columns: tuple[Column, ...]
    form: str
    row_bytes: int


class Frames:
    """Expands packed rows with the frames that were read before them."""

    def __init__(self) -> None:
        self._known: dict[str, Frame] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._known

    def add(self, line: Mapping[str, Any]) -> bool:
        """Add the line of a frame; return whether it is valid and agrees with one of the same name."""
        name, row = line.get("frame"), line.get("row")
        if not isinstance(name, str) or not isinstance(row, dict):
            return False
        host, _slash, digits = name.rpartition("/")
        try:
            if host != row["host"] or len(digits) != NAME_DIGITS or not set(digits) <= _DIGITS:
                return False
            columns = columns_of(row)
            form = form_of(columns)
            known = Frame(row, milliseconds(row["started"]), columns, form, struct.calcsize(form))
        except MALFORMED:
            return False
        return self._known.setdefault(name, known).row == row

    def frame(self, name: str) -> Optional[Frame]:  # noqa: UP045 - Python 3.9 on nodes
        """Return the frame of a name, None where it is not known."""
        return self._known.get(name)

    def frame_of(self, host: str, data: bytes) -> Optional[Frame]:  # noqa: UP045 - Python 3.9 on nodes
        """Return the frame of a packed row, None where it is not known."""
        return self._known.get(f"{host}/{int.from_bytes(data[:4], 'little'):08x}")

    def rows(
        self,
        line: Mapping[str, Any],
        of: Optional[Container[str]] = None,  # noqa: UP045 - Python 3.9 on nodes
    ) -> Iterator[Optional[Row]]:  # noqa: UP045 - Python 3.9 on nodes
        """Yield the rows of a line in full; None instead of all if it is malformed or a frame is unknown.

        Args:
            line: packed rows.
            of: ids of tests; only their rows are yielded.
        """
        try:
            host, words = line["host"], line["words"]
            data = base64.b64decode(line["packed"], validate=True)
            first = self.frame_of(host, data)
            if first is None or not isinstance(words, list) or not all(isinstance(one, str) for one in words):
                raise ValueError("nothing is known of it")
            size = first.row_bytes
            if len(data) != line["count"] * size:
                raise ValueError("its rows have another size")
            found = []
            for begin in range(0, len(data), size):
                part = data[begin : begin + size]
                frame = self.frame_of(host, part)
                if frame is None or frame.columns != first.columns:
                    raise ValueError("its frame is another one")
                if of is None or identity_of(int.from_bytes(part[4:8], "little")) in of:
                    found.append(_expand(frame, part, words))
        except MALFORMED:
            yield None
            return
        yield from found


def identity_of(number: int) -> str:
    """Return the id of the test with a number."""
    return f"m{number:05d}"


def _expand(frame: Frame, data: bytes, words: Sequence[str]) -> Row:
    values = iter(struct.unpack(frame.form, data))
    row = dict(frame.row)
    host, end = row["host"], row["end"]
    _name, number, row["sequence"], after_ms, other, row["round"], in_group, boot, digest = (
        next(values) for _column in FIRST_COLUMNS
    )
    row["id"] = identity_of(number)
    row["started"] = timestamp(frame.begun + after_ms)
    row["node"], row["peer"] = (host, words[other]) if end == "client" else (words[other], host)
    row["group"] = f"g{number - in_group:05d}"
    row["other_end"] = {"host": words[other], "boot_id": f"{boot:08x}", "digest": f"{digest:016x}"}
    alike, types = row["metrics"]
    row["metrics"] = {**alike, **{name: _finite(next(values)) for name in types}}
    counters = {}
    for name in row["counters"]:
        before = next(values)
        counters[name] = [before, before + next(values)]
    row["counters"] = counters
    row["window_s"] = [next(values) / TICKS, next(values) / TICKS] if row["window_s"] else None
    row["argv"] = [[words[next(values)] if word is None else word for word in argv] for argv in row["argv"]]
    if row["iterations"]:
        row["iterations"] = next(values)
    else:
        del row["iterations"]
    if row["samples"]:
        steps = list(values)
        half = len(steps) // 2
        times = [at / TICKS for at in itertools.accumulate(steps[:half])]
        before = first_bytes(counters)
        row["samples"] = {
            "t_s": times,
            "rx_bytes": [before + at for at in itertools.accumulate(steps[half:])],
        }
    else:
        del row["samples"]
    if row["raw"]:
        row["raw"] = {"file": row["raw"], "name": raw_name(row["id"], end, row["attempt"])}
    return row


def _finite(value: Any) -> Any:
    """Return a number, None for NaN and infinity, which are no JSON."""
    return value if value - value == 0 else None


def first_bytes(counters: Mapping[str, Sequence[int]]) -> int:
    """Return the receiver's byte count at the start, near which its samples are."""
    return counters["rx_bytes"][0] if "rx_bytes" in counters else 0


def milliseconds(text: str) -> int:
    """Return a row's time as milliseconds since the epoch.

    Raises:
        ValueError: it has another format.
    """
    seconds, mark, rest = text.rpartition(".")
    if not mark or len(rest) != 4 or rest[3] != "Z":
        raise ValueError(text)
    utc = datetime.timezone.utc  # noqa: UP017 - Python 3.9 on nodes
    moment = datetime.datetime.strptime(seconds, "%Y-%m-%dT%H:%M:%S").replace(tzinfo=utc)
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
