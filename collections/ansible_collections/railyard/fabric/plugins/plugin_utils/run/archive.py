# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the archive that a node packed: which of its rows belong to this run.

The archive is the node's word. It is read as a stream, and never further than an honest one reaches: what a
member may be called, and how much there may be of it, follows from what the controller asked of the node.
"""

from __future__ import annotations

import hashlib
import io
import tarfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.measure import registry
from ansible_collections.railyard.fabric.plugins.module_utils.runner import main, raw_names, record
from ansible_collections.railyard.fabric.plugins.module_utils.runner.short_rows import FRAME_BEGINS, Frames
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder, json_lines

#: What the log of a run takes that goes wrong, whatever it asks.
_BASE_BYTES = 16 * 2**20
# A row has 2 KB; five times a second a rail of several at once is sampled, in 45 bytes.
_ROW_BYTES, _ROW_BYTES_PER_S = 16 * 2**10, 2**10
#: How much longer than the others one row may be: one that has waited long for its partner.
_LONGEST_ROW = 8
# A tool's own words: iperf3's have less than 1 KB for each stream and second, each way of them.
_RAW_BYTES, _RAW_BYTES_PER_STREAM_S = 32 * 2**10, 4 * 2**10
_PIECE_BYTES = 64 * 2**10


class ArchiveError(ValueError):
    """The archive is damaged, or none of ours; the message says how."""


class Limits(NamedTuple):
    """What a node's archive may hold.

    Attributes:
        raw: names of the tools' own words: one for each end of a test that the node has.
        row_bytes: of a row, on average.
        total_bytes: of all members, and of the archive itself.
    """

    raw: frozenset[str]
    row_bytes: int
    total_bytes: int


@dataclass
class Archive:
    """What an archive holds.

    Attributes:
        rows: the rows of this host's own ends of this run's tests as they were written, and their frames.
        lines: how many rows it held, what was left out included.
        notes: what was left out, in words.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    lines: int = 0
    notes: list[str] = field(default_factory=list)


def limits(orders: Sequence[Mapping[str, Any]], node: str) -> Limits:
    """Return what a node may hand over.

    Args:
        orders: the run's work orders: a node that could not be asked for its results of the first hands them
            over after the second.
        node: a name of their roster.
    """
    policy = orders[0]["policy"]
    asked = [line for order in orders for line in main.asked_of({**order, "node": node})]
    raw = frozenset(
        raw_names.raw_name(line["id"], record.end_of(line, node), attempt)
        for line in asked
        for attempt in range(1, 2 + (int(policy.get("confirm", 0)) if line["peer"] is not None else 0))
    )
    # Of what was asked alone: the policy of an earlier version's run has no keys of later tests.
    tests = {str(line["check"]) for line in asked}.intersection(registry.CHECKS)
    longest_s = max((registry.planned_s(check, policy) for check in tests), default=0.0)
    words = _RAW_BYTES + _RAW_BYTES_PER_STREAM_S * int(policy["iperf3_streams"]) * longest_s
    row = _ROW_BYTES + _ROW_BYTES_PER_S * longest_s
    return Limits(raw, int(row), _BASE_BYTES + int(len(raw) * (row + words)))


def read(path: Path, run: str, host: str, sha256: object, most: Limits) -> Archive:
    """Read a node's archive.

    Args:
        path: the fetched file.
        run: the run id that its rows must carry.
        host: the node that must have written them.
        sha256: what the node said that the file's hash is, if it said so.
        most: what it may hold.

    Raises:
        ArchiveError: it is not what the node packed, or no archive, or holds no results or something else.
    """
    with _named(path), path.open("rb") as packed:
        if sha256 is not None:
            seen = hashlib.file_digest(packed, "sha256").hexdigest()
            if seen != sha256:
                raise ArchiveError(f"fetched with SHA-256 {seen}, the node packed {sha256}; collect again")
            packed.seek(0)
        return _read(io.BufferedReader(_Unzipped(packed, most.total_bytes)), run, host, most)


def members(path: Path, known: Callable[[str], bool], most_bytes: int) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each member of an archive that is a run's.

    Args:
        path: the archive.
        known: tells whether a member may be called so.
        most_bytes: how much it may hold, unpacked.

    Raises:
        ArchiveError: as `read`.
    """
    with _named(path), path.open("rb") as packed:
        stream = io.BufferedReader(_Unzipped(packed, most_bytes))
        for member in _members(stream, known):
            yield member.name, b"".join(_pieces(stream, member.size))


@contextmanager
def _named(path: Path) -> Iterator[None]:
    """Name the archive in what is raised."""
    try:
        yield
    except ArchiveError as error:
        raise ArchiveError(f"{path}: {error}") from None
    except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
        raise ArchiveError(f"{path}: damaged archive: {error}; collect again") from error


def _read(stream: BinaryIO, run: str, host: str, most: Limits) -> Archive:
    expected = {folder.RESULTS, record.STATUS, "runner.log", *most.raw}
    harvest: Archive | None = None
    for member in _members(stream, expected.__contains__):
        if member.name == folder.RESULTS:
            harvest = Archive()
            _take(_lines(stream, member.size, most), run, host, most, harvest)
        else:
            _skip(stream, member.size)
    if harvest is None:
        raise ArchiveError(f"there is no {folder.RESULTS} in it; see runner.log in it")
    return harvest


def _members(stream: BinaryIO, known: Callable[[str], bool]) -> Iterator[tarfile.TarInfo]:
    """Yield each member's header; whoever takes it reads all of its content."""
    found: set[str] = set()
    # Each header by itself: tarfile would follow what another one says of it, and read that whole.
    while (block := stream.read(tarfile.BLOCKSIZE)) != bytes(tarfile.BLOCKSIZE):
        member = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        if not known(member.name):
            raise ArchiveError(f"it holds {member.name!r}, which no run writes; look at the node")
        if member.name in found:
            raise ArchiveError(f"it holds {member.name} twice; look at the node")
        found.add(member.name)
        if member.type != tarfile.REGTYPE or member.size < 0:
            raise ArchiveError(f"{member.name} in it is no plain file; look at the node")
        yield member
        _skip(stream, -member.size % tarfile.BLOCKSIZE)
    while stream.read(_PIECE_BYTES):
        pass  # to the checksum at its end


def _take(lines: Iterator[bytes], run: str, host: str, most: Limits, harvest: Archive) -> None:
    """Take the rows of the host's own ends of tests; what is left out is noted."""
    torn, foreign, frames = False, 0, Frames()
    for text in lines:
        harvest.lines += not text.startswith(FRAME_BEGINS)
        found, damaged = json_lines.as_written(text)
        torn = torn or damaged
        for line in found:
            row = line.get("row") if "frame" in line else frames.whole(line) if "as" in line else line
            if (
                not isinstance(row, dict)
                or json_lines.is_deep(row)
                or ("frame" in line and not frames.add(line))
            ):
                torn = True
            elif (
                row.get("run") == run and row.get("host") == host and ("frame" in line or _is_own(row, most))
            ):
                harvest.rows.append(line)
            else:
                foreign += 1
    if torn:
        harvest.notes.append("a torn line was dropped")
    if foreign:
        harvest.notes.append(
            f"{foreign} rows were left out: they are not of its own ends of this run's tests"
        )


def _is_own(row: Mapping[str, Any], most: Limits) -> bool:
    """Tell whether a row is of a test that the node was asked."""
    return raw_names.raw_name(row.get("id"), row.get("end"), row.get("attempt", 1)) in most.raw


def _lines(stream: BinaryIO, size: int, most: Limits) -> Iterator[bytes]:
    rows = len(most.raw)
    if size > (rows + _LONGEST_ROW) * most.row_bytes:
        raise ArchiveError(f"{folder.RESULTS} in it has {size} bytes, too many for {rows} tests")
    longest = _LONGEST_ROW * most.row_bytes
    counts = {True: 0, False: 0}
    while size:
        text = stream.readline(min(size, longest + 1))
        is_frame = text.startswith(FRAME_BEGINS)
        counts[is_frame] += 1
        if not text:
            raise EOFError("it ends early")
        if len(text) > longest:
            raise ArchiveError(f"{folder.RESULTS} in it has a line of more than {longest} bytes")
        if counts[is_frame] > rows:
            raise ArchiveError(f"{folder.RESULTS} in it has more rows than the {rows} that were asked")
        size -= len(text)
        yield text


def _skip(stream: BinaryIO, size: int) -> None:
    for _piece in _pieces(stream, size):
        pass


def _pieces(stream: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield so many bytes, piece by piece: memory is taken for what is there, and not for what is said."""
    while size:
        piece = stream.read(min(size, _PIECE_BYTES))
        if not piece:
            raise EOFError("it ends early")
        size -= len(piece)
        yield piece


class _Unzipped(io.RawIOBase):
    """What is in a gzip file, unpacked piece by piece as it is read, and never more than so much."""

    def __init__(self, packed: BinaryIO, most_bytes: int) -> None:
        self._packed = packed
        self._most_bytes = self._left_bytes = most_bytes
        self._inflate = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        place = memoryview(buffer)
        data = b""
        while not data and not self._inflate.eof:
            piece = self._inflate.unconsumed_tail or self._packed.read(_PIECE_BYTES)
            data = self._inflate.decompress(piece, len(place))
            if not piece and not data:
                raise EOFError("it ends early")
        self._left_bytes -= len(data)
        if self._left_bytes < 0:
            raise ArchiveError(f"unpacked it is longer than {self._most_bytes} bytes, more than was asked")
        place[: len(data)] = data
        return len(data)
