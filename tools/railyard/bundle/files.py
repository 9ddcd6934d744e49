"""Read the files of a run folder for a bundle, and write a bundle as a run folder again."""

from __future__ import annotations

import os
import re
import stat
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.runner import packed_rows
from ansible_collections.railyard.fabric.plugins.module_utils.runner.packed_rows import (
    FRAME_BEGINS,
    PACKED_BEGINS,
    Frames,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import archive, archive_limits
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import json_lines
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder

from railyard.base.errors import UserError

BUNDLE = "BUNDLE.md"
#: What is made from the rest, and is made again from the stand-ins.
MADE = {
    run_folder.VERDICTS,
    run_folder.NODE_RESULTS,
    # Names switches and adapters of others, which the run's other files do not have.
    run_folder.FABRIC,
    "index.html",
    "report.md",
    "junit.xml",
    "railyard.prom",
    BUNDLE,
}
#: What is judged.
_JUDGED = set(rejudge.FILES)
#: One file of a run.
MOST_BYTES = run_folder.MOST_DOCUMENT_BYTES
_RAW = "raw"
_ARCHIVE = ".tar.gz"
_TEXTS = (".json", ".jsonl", ".txt", ".log", ".md", ".csv", ".yml", ".xml", ".out")
_PLAIN = re.compile(r"[\w-][\w.-]{0,199}")
_IN_BUNDLE = re.compile(rf"([^/]+)/(?!{_RAW}$)(?:{_RAW}/)?{_PLAIN.pattern}")


class Part(NamedTuple):
    """A text of a run: a file's, or that of one member of a node's archive."""

    member: str | None
    text: str


def names(run: Path) -> tuple[list[str], list[str]]:
    """Return the files of a run folder that a bundle takes, and those that it leaves out unasked.

    Raises:
        UserError: something in it is no plain file, or too large.
    """
    taken: list[str] = []
    left: list[str] = []
    raw = run / _RAW
    if (raw.exists() or raw.is_symlink()) and (raw.is_symlink() or not raw.is_dir()):
        raise UserError(f"{raw} is no folder", "bring the run's folder back, or take that file away")
    for folder in filter(lambda one: (run / one).exists(), ("", f"{_RAW}/")):
        for entry in sorted(os.scandir(run / folder), key=lambda one: one.name):
            name, found = folder + entry.name, entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                left += [name] if name != _RAW else []
                continue
            if not stat.S_ISREG(found.st_mode):
                raise UserError(
                    f"{entry.path} is no plain file", "put the file itself there, or take it away"
                )
            if found.st_size > MOST_BYTES:
                raise UserError(
                    f"{entry.path} is larger than {MOST_BYTES >> 20} MiB", "take it out of the folder"
                )
            if name in MADE or entry.name.startswith("."):
                continue
            texts = (*_TEXTS, _ARCHIVE) if folder else _TEXTS
            (taken if _PLAIN.fullmatch(entry.name) and entry.name.endswith(texts) else left).append(name)
    return taken, left


def parts(run: Path, name: str) -> Iterator[Part]:
    """Yield the texts of a file: its own, or those in a node's archive; bytes that are no UTF-8 stay.

    Raises:
        UserError: the archive is damaged, or something holds too much.
    """
    path = run / name
    if not name.endswith(_ARCHIVE):
        yield Part(None, _read_text(run, name, _content(path)))
        return
    try:
        for member in archive.members(path, _is_plain, archive_limits.NODE_IN_BUNDLE):
            yield Part(member.name, _read_text(run, member.name, b"".join(member.pieces)))
    except archive.ArchiveError as error:
        raise UserError(str(error), "or take it out of the folder: the verdicts do not need it") from error


def _is_plain(name: str) -> bool:
    return bool(_PLAIN.fullmatch(name))


def _content(path: Path) -> bytes:
    """Return the content of a file, refusing one that grows: new content would not be replaced."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "rb") as stream:
        size = os.fstat(handle).st_size
        content = stream.read(MOST_BYTES + 1)
    if len(content) != size or size > MOST_BYTES:
        raise UserError(f"{path} was changed while it was read", "bundle the run when it has ended")
    return content


def _read_text(run: Path, name: str, content: bytes) -> str:
    """Return the text of a file; packed rows of results in full, since a value's kind depends on its key."""
    if name == run_folder.RESULTS and FRAME_BEGINS in content:
        content = _in_full(run, content)
    return content.decode("utf-8", "surrogateescape")


def _in_full(run: Path, content: bytes) -> bytes:
    facts = RunFolder(run).rows(run_folder.FACTS)[0]
    boot_ids = {str(row.get("node")): row.get("boot_id") for row in facts}
    frames, lines, size = Frames(), [], 0
    for line in content.splitlines(keepends=True):
        rows: list[dict[str, Any]] = []
        if line.startswith((FRAME_BEGINS, PACKED_BEGINS)):
            rows, torn = json_lines.parse_lines(line, frames)
            if not rows and not torn:
                continue  # a frame
        for row in rows:
            said = row["other_end"]
            said["boot_id"] = packed_rows.boot_id_of(said, boot_ids.get(said["host"]))
        lines += [f"{run_folder.line(row)}\n".encode() for row in rows] or [line]
        size += sum(map(len, lines[-max(len(rows), 1) :]))
        if size > MOST_BYTES:
            raise UserError(
                f"{run_folder.RESULTS} of {run} is in full larger than {MOST_BYTES >> 20} MiB",
                "bundle a sweep of fewer nodes (--limit)",
            )
    return b"".join(lines)


def is_bundle(path: Path) -> bool:
    """Tell whether a path is that of a bundle."""
    return path.name.endswith(_ARCHIVE) and path.is_file()


def unpack(bundle: Path, into: Path) -> Path:
    """Write what is judged of a bundle as a run folder within a folder, and return it.

    Nodes' archives and other outputs in it are read past: no verdict needs them.

    Raises:
        UserError: it is no bundle, or holds too much or anything else, or there is no room for it.
    """
    runs: set[str] = set()
    name = ""
    try:
        for member in archive.members(bundle, _belongs, archive_limits.BUNDLE):
            name = member.name
            runs.add(name.split("/")[0])
            if len(runs) > 1:
                raise UserError(
                    f"{bundle}: {name} is of a second run", "name an archive that `railyard bundle` made"
                )
            if name.partition("/")[2] in _JUDGED:
                _write(into / name, member.pieces)
            else:
                deque(member.pieces, maxlen=0)
    except archive.ArchiveError as error:
        raise UserError(
            f"{error}: this is no whole bundle", "have it made again by `railyard bundle`"
        ) from error
    except OSError as error:
        raise UserError(
            f"{bundle}: {name}: it cannot be unpacked in {into.parent}: {error.strerror}",
            "make room there, or name another folder with TMPDIR",
        ) from error
    run = into / runs.pop() if len(runs) == 1 else None
    if run is None or not (run / run_folder.MANIFEST).is_file():
        raise UserError(f"{bundle} does not hold one run", "name an archive that `railyard bundle` made")
    return run


def _write(place: Path, pieces: Iterable[bytes]) -> None:
    place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with open(os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as target:
        for piece in pieces:
            target.write(piece)


def _belongs(name: str) -> bool:
    found = _IN_BUNDLE.fullmatch(name)
    return bool(found and run_folder.is_run_id(found[1]))
