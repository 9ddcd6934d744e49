# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the archive of a node or a bundle as a stream, within the limits of `archive_limits.py`.

An archive is not trusted. Every header is checked before the content
behind it is read, and content is handed on piece by piece.
"""

from __future__ import annotations

import hashlib
import io
import os
import stat
import tarfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.runner import raw_names
from ansible_collections.railyard.fabric.plugins.module_utils.runner.packed_rows import Frames, count_rows
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch.archive_limits import (
    LONGEST_ROW,
    NodeLimits,
    Size,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder, json_lines
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

_PIECE_BYTES = 64 * 2**10


class ArchiveError(ValueError):
    """An archive is damaged, holds what it may not hold, or was changed while it was read.

    Attributes:
        problem: what is wrong.
        advice: what to do about it; empty where the caller knows.
    """

    def __init__(self, problem: str, advice: str = "") -> None:
        super().__init__(f"{problem}; {advice}" if advice else problem)
        self.problem, self.advice = problem, advice


class Member(NamedTuple):
    """A member of an archive; its content has to be read to its end before the next member.

    Attributes:
        name: its name.
        size_bytes: how long its content is.
        pieces: its content.
    """

    name: str
    size_bytes: int
    pieces: Iterator[bytes]


@dataclass
class Archive:
    """What an archive holds.

    Attributes:
        rows: the rows of this host's own ends of this run's tests and their frames, a line of JSON each.
        lines: how many rows it held, what was left out included.
        notes: what was left out, as text.
    """

    rows: list[bytes] = field(default_factory=list)
    lines: int = 0
    notes: list[str] = field(default_factory=list)


def read(path: Path, run: str, host: str, sha256: object, limits: NodeLimits) -> Archive:
    """Read a node's archive.

    Args:
        path: the fetched file.
        run: the run id that its rows must carry.
        host: the node that must have written them.
        sha256: the file's hash as the node reported it, if it did.
        limits: what it may hold.

    Raises:
        ArchiveError: it is not what the node packed, or no archive, or holds no results or something else.
    """
    with _opened(path, limits.size, "look at the node") as content, content.naming_errors():
        if sha256 is not None:
            content.check_digest(str(sha256))
        found: Archive | None = None
        for member in _members(content, limits.names.__contains__, limits.size):
            if member.name == folder.RESULTS:
                found = Archive()
                _take(_lines(content, member.size, limits), run, host, limits, found)
            else:
                _skip(content, member.size)
        if found is None:
            raise ArchiveError(f"there is no {folder.RESULTS} in it; see runner.log in it")
        return found


def members(path: Path, known: Callable[[str], bool], limits: Size) -> Iterator[Member]:
    """Yield each member of an archive.

    Args:
        path: the archive.
        known: tells whether a member may have a name.
        limits: what it may hold.

    Raises:
        ArchiveError: it is damaged, holds more than the limits or anything else, or was changed meanwhile;
            the pieces of a member raise it too.
    """

    def pieces(content: _Content, size: int) -> Iterator[bytes]:
        # They are read in the caller's loop, where nothing of this function would catch what they raise.
        with content.naming_errors():
            yield from _pieces(content, size)

    with _opened(path, limits) as content, content.naming_errors():
        for member in _members(content, known, limits):
            yield Member(member.name, member.size, pieces(content, member.size))


@contextmanager
def _opened(path: Path, limits: Size, advice: str = "") -> Iterator[_Content]:
    """Open an archive for reading; `advice` is what to do if it is not good."""
    try:
        # A pipe in its place would never be opened.
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ArchiveError(f"{path}: it cannot be read: {error.strerror}", advice) from error
    # Before Python opens it: a folder in its place would raise.
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise ArchiveError(f"{path}: it is no regular file", advice)
    with os.fdopen(handle, "rb") as packed:
        size_bytes = os.fstat(handle).st_size
        if size_bytes > limits.packed_bytes:
            problem = f"{path}: it has {size_bytes} bytes, and {limits.packed_bytes} are the most"
            raise ArchiveError(problem, advice)
        yield _Content(path, packed, limits, advice)


class _Content(io.BufferedReader):
    """The unpacked content of an archive.

    Attributes:
        member: whose content is being read, as an error message begins; empty at a header.
    """

    def __init__(self, path: Path, packed: io.BufferedReader, limits: Size, advice: str) -> None:
        self._path, self._packed, self._advice = path, packed, advice
        self._before = os.fstat(packed.fileno())
        size_bytes = self._before.st_size
        self.member = ""
        super().__init__(_Unzipped(packed, size_bytes, limits.unpacked_bytes(size_bytes)))

    @contextmanager
    def naming_errors(self) -> Iterator[None]:
        """Turn what is raised while the archive is read into an ArchiveError that names it and the member."""
        where = f"{self._path}: "
        try:
            yield
            self._refuse_if_changed()
        except ArchiveError as error:
            problem, advice = error.problem, error.advice or self._advice
        except (tarfile.TarError, zlib.error, EOFError, OSError) as error:
            problem, advice = f"damaged archive: {error}", self._advice and "collect again"
        else:
            return
        try:
            self._refuse_if_changed()
        except ArchiveError as error:
            raise ArchiveError(where + error.problem, error.advice) from None
        raise ArchiveError(f"{where}{self.member}{problem}", advice)

    def check_digest(self, sha256: str) -> None:
        """Compare the archive with its SHA-256.

        Raises:
            ArchiveError: it has another one.
        """
        seen = hashlib.file_digest(self._packed, "sha256").hexdigest()
        self._packed.seek(0)
        if seen != sha256:
            raise ArchiveError(f"its SHA-256 is {seen}, the node packed {sha256}", "collect again")

    def _refuse_if_changed(self) -> None:
        now = os.fstat(self._packed.fileno())
        if (now.st_size, now.st_mtime_ns) != (self._before.st_size, self._before.st_mtime_ns):
            advice = "wait until it is complete, then try again"
            raise ArchiveError("it was changed while it was read", advice)


def _members(stream: _Content, known: Callable[[str], bool], limits: Size) -> Iterator[tarfile.TarInfo]:
    """Yield each member's header; the caller reads all of its content."""
    found: set[str] = set()
    # Header by header: tarfile would follow extended headers and read them at any length.
    while (block := stream.read(tarfile.BLOCKSIZE)) != bytes(tarfile.BLOCKSIZE):
        member = tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")
        if not known(member.name):
            raise ArchiveError(f"it holds {member.name!r}, which no run writes")
        if member.name in found:
            raise ArchiveError(f"it holds {member.name} twice")
        if len(found) >= limits.members:
            raise ArchiveError(f"it holds more than {limits.members} members, {member.name} the next")
        found.add(member.name)
        if member.type != tarfile.REGTYPE or member.size < 0:
            raise ArchiveError(f"{member.name} in it is no plain file")
        if member.size > limits.member_bytes:
            message = f"{member.name} in it has {member.size} bytes, and {limits.member_bytes} are the most"
            raise ArchiveError(message)
        stream.member = f"{member.name}: "
        yield member
        _skip(stream, -member.size % tarfile.BLOCKSIZE)
        stream.member = ""
    while stream.read(_PIECE_BYTES):
        pass  # to the checksum at its end


def _take(lines: Iterator[bytes], run: str, host: str, limits: NodeLimits, harvest: Archive) -> None:
    """Take the rows of the host's own ends of tests; what is left out is noted."""
    torn, foreign, frames = False, 0, Frames()
    for text in lines:
        harvest.lines += count_rows(text)
        found, damaged = json_lines.as_written(text)
        torn = torn or damaged
        for line in found:
            is_frame = "frame" in line
            rows = [line.get("row")] if is_frame else frames.rows(line) if "packed" in line else [line]
            whole = [row for row in rows if isinstance(row, dict) and not json_lines.is_deep(row)]
            if not whole or (is_frame and not frames.add(line)):
                torn = True
            elif all(
                row.get("run") == run and row.get("host") == host and (is_frame or _is_own(row, limits))
                for row in whole
            ):
                # Python's objects of a line are up to twenty times as large.
                harvest.rows.append(f"{folder.line(line)}\n".encode())
            else:
                foreign += len(whole)
    if torn:
        harvest.notes.append("a torn line was dropped")
    if foreign:
        note = f"{foreign} rows were left out: they are not this node's rows of this run's tests"
        harvest.notes.append(note)


def _is_own(row: Row, limits: NodeLimits) -> bool:
    """Tell whether a row belongs to a planned test of the node."""
    return raw_names.raw_name(row.get("id"), row.get("end"), row.get("attempt", 1)) in limits.raw


def _lines(stream: BinaryIO, size: int, limits: NodeLimits) -> Iterator[bytes]:
    rows = len(limits.raw)
    if size > (rows + LONGEST_ROW) * limits.row_bytes:
        raise ArchiveError(f"it has {size} bytes, too many for {rows} tests")
    longest = LONGEST_ROW * limits.row_bytes
    lines = taken = 0
    while size:
        text = stream.readline(min(size, longest + 1))
        taken += count_rows(text)
        lines += 1
        if not text:
            raise EOFError("it ends early")
        if len(text) > longest:
            raise ArchiveError(f"it has a line of more than {longest} bytes")
        if taken > rows:
            raise ArchiveError(f"it has more rows than the {rows} that were planned")
        # Each row has at most one line and one frame.
        if lines > 2 * rows:
            raise ArchiveError(f"it has more lines than the {rows} planned rows need")
        size -= len(text)
        yield text


def _skip(stream: BinaryIO, size: int) -> None:
    for _piece in _pieces(stream, size):
        pass


def _pieces(stream: BinaryIO, size: int) -> Iterator[bytes]:
    """Yield so many bytes, piece by piece: memory is taken for what is there, whatever a header claims."""
    while size:
        piece = stream.read(min(size, _PIECE_BYTES))
        if not piece:
            raise EOFError("it ends early")
        size -= len(piece)
        yield piece


class _Unzipped(io.RawIOBase):
    """The content of a gzip file, unpacked piece by piece as it is read, and never more than so much."""

    def __init__(self, packed: BinaryIO, packed_bytes: int, unpacked_bytes: int) -> None:
        self._packed = packed
        # A file that grows has no end.
        self._packed_left_bytes = packed_bytes
        self._most_bytes = self._left_bytes = unpacked_bytes
        self._inflate = zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        place = memoryview(buffer)
        data = b""
        while not data and not self._inflate.eof:
            piece = self._inflate.unconsumed_tail or self._read_packed()
            data = self._inflate.decompress(piece, len(place))
            if not piece and not data:
                raise EOFError("it ends early")
        self._left_bytes -= len(data)
        if self._left_bytes < 0:
            raise ArchiveError(f"unpacked it is longer than {self._most_bytes} bytes, more than is allowed")
        place[: len(data)] = data
        return len(data)

    def _read_packed(self) -> bytes:
        piece = self._packed.read(min(_PIECE_BYTES, self._packed_left_bytes))
        self._packed_left_bytes -= len(piece)
        return piece
