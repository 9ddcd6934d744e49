# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read and write run folders: `reports/<cluster>/<run>/`. All access goes through this module.

JSON Lines are appended by many processes (one per Ansible fork), so each append takes a lock and reaches
the disk before it is acknowledged; whole files are replaced atomically. A kill -9 can therefore tear at
most the last line, and a torn line is dropped and reported.
"""

from __future__ import annotations

import errno
import io
import json
import os
import re
import secrets
import stat
import tempfile
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from io import BufferedReader
from pathlib import Path
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils import owner_lock
from ansible_collections.railyard.fabric.plugins.module_utils.runner.packed_rows import PACKED_BEGINS, Frames
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import json_lines
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.json_lines import MOST_LINE_BYTES

MANIFEST, PLAN, FACTS, ASKED = "manifest.json", "plan.json", "facts.jsonl", "asked.jsonl"
OBSTACLES = "obstacles.jsonl"
#: What each node handed over: appended when it is collected, kept in the manifest when the run ends.
ARCHIVES = "archives.jsonl"
CONFIRM_ARCHIVES = "confirm_archives"
RESULTS, VERDICTS, WORK_ORDER, SECRET = "results.jsonl", "verdicts.jsonl", "work_order.json", ".secret"
#: The second test schedule, which confirms or clears the suspects of the first; most runs have none.
CONFIRM_ORDER = "confirm_order.json"
#: What the run found of each node, made from the verdicts (`present.node_results`).
NODE_RESULTS = "node_results.json"
#: What `validate --fabric` found of the InfiniBand fabric around the run (`subnet.run_file`).
FABRIC = "fabric.json"
#: Beside the runs of a cluster: the names of all nodes of its inventory, as of the newest run.
INVENTORY_NODES = "inventory_nodes.json"
SCHEMA = 1
_LOCK = ".lock"
# Each of many forks holds it for one write that reaches the disk, and a slow disk takes seconds for that.
_LOCK_PATIENCE_S = 300.0
REASONS = ("completed", "interrupted")
#: Far above any real document; Python objects are many times as large as their JSON.
MOST_DOCUMENT_BYTES = 256 << 20

_RUN_ID = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9a-f]{4}")


_DAMAGED = "restore it from a copy of the run, or validate again"


class RunFolderError(Exception):
    """The folder cannot be created, read or written; the message names the path and the fix."""


def new_run_id(now: datetime | None = None) -> str:
    """Return a fresh run id such as `20261121T101500Z-3f2a`."""
    return (now or datetime.now(UTC)).strftime("%Y%m%dT%H%M%SZ-") + secrets.token_hex(2)


def is_run_id(name: str) -> bool:
    """Tell whether a name is that of a run folder."""
    return bool(_RUN_ID.fullmatch(name))


def timestamp(now: datetime | None = None) -> str:
    """Return a time as the rows write it: UTC, milliseconds, `Z`."""
    moment = now or datetime.now(UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


# `json.dumps` would make one for each row.
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def line(row: Mapping[str, Any]) -> str:
    """Return a row as its one line of JSON, without the newline; the same row is always the same bytes.

    Raises:
        ValueError: the row contains NaN or infinity, which JSON cannot represent.
    """
    return _ENCODER.encode(row)


def pretty(document: Mapping[str, Any]) -> str:
    """Return a document as indented JSON, ending in a newline; the same document is always the same bytes."""
    return json.dumps(document, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


class RunFolder:
    """One run's folder.

    Attributes:
        path: where it is.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    @property
    def name(self) -> str:
        """The run id."""
        return self.path.name

    def append(self, name: str, rows: Iterable[Mapping[str, Any]]) -> None:
        """Append rows to a JSON Lines file: all of them or, on a full disk, none.

        Raises:
            RunFolderError: the file cannot be written.
        """
        self._append_lines(name, [f"{line(row)}\n".encode() for row in rows])

    def _append_lines(self, name: str, lines: Sequence[bytes]) -> None:
        if not lines:
            return
        data = b"".join(lines)
        target = self.path / name
        if len(max(lines, key=len)) >= MOST_LINE_BYTES:
            raise RunFolderError(f"{target} takes no row of {MOST_LINE_BYTES >> 20} MiB or more")
        try:
            with ExitStack() as opened:
                # Not the file itself: anyone who can open a file can hold its lock.
                opened.enter_context(owner_lock.held(self.path / _LOCK, _LOCK_PATIENCE_S))
                flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
                handle = os.open(target, flags, 0o644)
                opened.callback(os.close, handle)
                size = os.fstat(handle).st_size
                if size and os.pread(handle, 1, size - 1) != b"\n":
                    data = b"\n" + data  # a torn line stays a line of its own and cannot spoil this one
                try:
                    _write_all(handle, data)
                    os.fsync(handle)
                except OSError:
                    with suppress(OSError):
                        os.ftruncate(handle, size)
                    raise
        except owner_lock.LockedError as error:
            fix = "end that process, or wait for it, and collect again with `railyard resume`"
            raise RunFolderError(f"{target} cannot be written: {error}; {fix}") from error
        except OSError as error:
            raise _unwritable(target, error) from error

    def append_new(self, name: str, rows: Iterable[Mapping[str, Any]], look: bool = True) -> int:
        """Append the rows that the file does not hold yet, byte for byte; return how many were new.

        Collecting twice must not make every row a duplicate. The file, which may hold what a thousand others
        measured, is never parsed, and not read where `look` says that none of the rows can be in it.

        Raises:
            RunFolderError: the file cannot be read or written.
        """
        return self.append_new_lines(name, (f"{line(row)}\n".encode() for row in rows), look)

    def append_new_lines(self, name: str, lines: Iterable[bytes], look: bool = True) -> int:
        """Do what `append_new` does with rows that are lines already, as `line` writes them."""
        fresh = dict.fromkeys(lines)
        if look:
            with reading(self.path / name), suppress(FileNotFoundError), self.open(name) as stream:
                while fresh and (known := stream.readline(MOST_LINE_BYTES)):
                    fresh.pop(known, None)
        self._append_lines(name, [*fresh])
        return len(fresh)

    def rows(self, name: str) -> tuple[list[dict[str, Any]], bool]:
        """Return a JSON Lines file's whole rows and whether a torn line was dropped; no file means no rows.

        Raises:
            RunFolderError: the file is there and cannot be read.
        """
        return json_lines.whole_rows(self.each_row(name))

    def each_row(self, name: str, of: Container[str] | None = None) -> Iterator[dict[str, Any] | None]:
        """Yield what `rows` returns without holding it all, and None wherever a line was dropped.

        Args:
            name: the file.
            of: question ids; lines that name none of them are not read, and not yielded.

        Raises:
            RunFolderError: as `rows`.
        """
        with reading(self.path / name), suppress(FileNotFoundError), self.open(name) as stream:
            yield from json_lines.each(stream, of)

    def each_row_at(
        self, name: str, frames: Frames, packed: Callable[[int, bytes], Iterable[tuple[int, bytes]]]
    ) -> Iterator[tuple[tuple[int, int], Mapping[str, Any] | None]]:
        """Yield what `each_row` does, each with where its line begins in the file and how long it is.

        Args:
            name: the file.
            frames: takes those that are read, by which packed rows can be read again.
            packed: takes lines of packed rows, and where they begin; returns those that are to be expanded.

        Raises:
            RunFolderError: the file cannot be read.
        """
        with reading(self.path / name), self.open(name) as stream:
            for begin, block in json_lines.blocks(stream, PACKED_BEGINS):
                taken = packed(begin, block) if block.startswith(PACKED_BEGINS) else ((begin, block),)
                for at, line in taken:
                    for raw in json_lines.lines(io.BytesIO(line)):
                        for row in (None,) if raw is None else json_lines.rows_of(raw, frames):
                            yield (at, len(line)), row

    def open(self, name: str) -> BufferedReader:
        """Open a regular file for reading; a pipe or a device in its place would never end."""
        handle = os.open(self.path / name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            os.close(handle)
            raise OSError(errno.EINVAL, "it is no regular file")
        return BufferedReader(os.fdopen(handle, "rb", buffering=0), 1 << 20)

    def write(self, name: str, text: str | Iterable[str], mode: int = 0o644) -> None:
        """Replace a file atomically: a reader sees the old text or the new one, never a part.

        Args:
            name: the file.
            text: its content, or pieces of it, which are written one by one.
            mode: the file's mode.

        Raises:
            RunFolderError: the file cannot be written.
        """
        target = self.path / name
        temporary = None
        try:
            handle, temporary = tempfile.mkstemp(dir=self.path, prefix=f".{name}.")
            with os.fdopen(handle, "wb") as stream:
                os.fchmod(stream.fileno(), mode)
                for piece in (text,) if isinstance(text, str) else text:
                    stream.write(piece.encode("utf-8"))
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, target)
            temporary = None
        except OSError as error:
            raise _unwritable(target, error) from error
        finally:
            if temporary:
                with suppress(OSError):
                    os.unlink(temporary)

    def document(self, name: str) -> dict[str, Any]:
        """Return a JSON document of the folder.

        Raises:
            RunFolderError: it is missing, unreadable or no JSON object.
        """
        target = self.path / name
        try:
            with self.open(name) as stream:
                if os.fstat(stream.fileno()).st_size > MOST_DOCUMENT_BYTES:
                    raise OSError(errno.EFBIG, f"it is larger than {MOST_DOCUMENT_BYTES >> 20} MiB")
                value = json_lines.read(stream.read().decode("utf-8"))
        except FileNotFoundError:
            raise RunFolderError(f"{target} is missing: this is not a run folder of Railyard") from None
        except OSError as error:
            raise RunFolderError(f"{target} cannot be read: {error.strerror}") from error
        except (ValueError, RecursionError) as error:
            raise RunFolderError(f"{target} is not JSON: {error}; {_DAMAGED}") from error
        if not isinstance(value, dict):
            raise RunFolderError(f"{target} holds no JSON object; {_DAMAGED}")
        return value

    def manifest(self) -> dict[str, Any]:
        """Return manifest.json."""
        return self.document(MANIFEST)

    def plan(self) -> dict[str, Any]:
        """Return plan.json."""
        return self.document(PLAN)

    def confirms(self) -> bool:
        """Tell whether the run has a second test schedule."""
        return (self.path / CONFIRM_ORDER).exists()

    def orders(self) -> list[dict[str, Any]]:
        """Return the common parts of the run's test schedules, the current one last."""
        return [self.document(name) for name in (WORK_ORDER, *[CONFIRM_ORDER] * self.confirms())]

    def update_manifest(self, **changes: Any) -> dict[str, Any]:
        """Set keys of the manifest and return it whole."""
        manifest = {**self.manifest(), **changes}
        self.write(MANIFEST, pretty(manifest))
        return manifest

    def ended(self, reason: str) -> dict[str, Any]:
        """Return the manifest that the run has once it has ended; nothing is written."""
        if reason not in REASONS:
            raise ValueError(f"reason must be one of {REASONS}, not {reason!r}")
        manifest = self.manifest()
        taken: dict[str, dict[str, Any]] = {}
        for row in self.rows(ARCHIVES)[0]:
            of = CONFIRM_ARCHIVES if row.pop("of", None) else "archives"
            taken.setdefault(of, {})[str(row.pop("node"))] = row
        if manifest.get("end") is None:
            manifest["end"] = {"at": timestamp(), "reason": reason}
        return {**manifest, **taken}

    def finish(self, reason: str) -> None:
        """Write the end record, once: an interrupted run that is collected later stays interrupted."""
        ended = self.ended(reason)
        if ended != self.manifest():
            self.write(MANIFEST, pretty(ended))

    def secret(self) -> str:
        """Return the run's secret, making it at the first call; readable by the owner alone."""
        target = self.path / SECRET
        try:
            return target.read_text(encoding="ascii").strip()
        except FileNotFoundError:
            self.write(SECRET, secrets.token_hex(16) + "\n", mode=0o600)
            return target.read_text(encoding="ascii").strip()
        except OSError as error:
            raise RunFolderError(f"{target} cannot be read: {error.strerror}") from error

    def forget_secret(self) -> None:
        """Remove the run's secret; a finished folder may be passed on."""
        with suppress(FileNotFoundError):
            (self.path / SECRET).unlink()


def create(
    reports_dir: str | os.PathLike[str], cluster: str, run: str | None, manifest: Mapping[str, Any]
) -> RunFolder:
    """Make a run folder with its manifest; it must not exist yet.

    Args:
        reports_dir: the folder of all clusters' runs.
        cluster: the cluster's name, one path component.
        run: the run id, or None for a new one.
        manifest: what the manifest says besides `schema`, `run`, `cluster`, `start` and `end`.

    Raises:
        RunFolderError: the id is malformed or taken, or the folder cannot be written.
    """
    if not cluster or cluster in (".", "..") or "/" in cluster:
        message = f"cluster name {cluster!r} cannot be a folder's name; rename the inventory folder"
        raise RunFolderError(message)
    if run is not None and not is_run_id(run):
        message = f"run id {run!r} is not of the form 20261121T101500Z-3f2a; leave railyard_run out"
        raise RunFolderError(message)
    parent = Path(reports_dir) / cluster
    try:
        parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise _unwritable(parent, error) from error
    folder = _make_exclusive(parent, run)
    try:
        # The archives contain the output of root's programs on the nodes.
        (folder.path / "raw").mkdir(mode=0o700)
    except OSError as error:
        raise _unwritable(folder.path, error) from error
    fixed = {
        "schema": SCHEMA,
        "run": folder.name,
        "cluster": cluster,
        "start": {"at": timestamp()},
        "end": None,
    }
    folder.write(MANIFEST, pretty({**manifest, **fixed}))
    folder.secret()
    return folder


def _make_exclusive(parent: Path, run: str | None) -> RunFolder:
    for _attempt in range(1 if run else 16):
        path = parent / (run or new_run_id())
        try:
            path.mkdir()
        except FileExistsError:
            continue
        except OSError as error:
            raise _unwritable(path, error) from error
        return RunFolder(path)
    raise RunFolderError(f"{path} exists already: a run's folder is never written by a second run")


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Name the file where it cannot be read.

    Raises:
        RunFolderError: it cannot.
    """
    try:
        yield
    except OSError as error:
        raise RunFolderError(f"{path} cannot be read: {error.strerror}") from error


def _unwritable(path: Path, error: OSError) -> RunFolderError:
    return RunFolderError(
        f"{path} cannot be written: {error.strerror or error}; "
        "free the disk or correct its rights, or name another place with railyard_reports_dir"
    )
