"""What of a run folder goes into a bundle, as texts; and a bundle laid out as a run folder again."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.runner import short_rows
from ansible_collections.railyard.fabric.plugins.module_utils.runner.short_rows import (
    FRAME_BEGINS,
    SHORT_BEGINS,
    Frames,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import archive, json_lines
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder

from railyard.base.errors import UserError

BUNDLE = "BUNDLE.md"
#: What is made from the rest, and is made again from the stand-ins.
MADE = {run_folder.VERDICTS, "index.html", "report.md", "junit.xml", "railyard.prom", BUNDLE}
#: One file of a run or one node's archive unpacked; a bundle unpacked.
MOST_BYTES, MOST_BUNDLE_BYTES = run_folder.MOST_DOCUMENT_BYTES, 8 * run_folder.MOST_DOCUMENT_BYTES
_ARCHIVE = ".tar.gz"
_TEXTS = (".json", ".jsonl", ".txt", ".log", ".md", ".csv", ".yml", ".xml", ".out")
_PLAIN = re.compile(r"[\w-][\w.-]{0,199}")
_IN_BUNDLE = re.compile(rf"([^/]+)/(?:raw/)?{_PLAIN.pattern}")


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
    for folder in filter(lambda one: (run / one).exists(), ("", "raw/")):
        for entry in sorted(os.scandir(run / folder), key=lambda one: one.name):
            name, found = folder + entry.name, entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(found.st_mode):
                left += [name] if name != "raw" else []
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
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as stream:
            yield Part(None, _told(run, name, stream.read(MOST_BYTES)))
        return
    try:
        for member, content in archive.members(path, lambda one: bool(_PLAIN.fullmatch(one)), MOST_BYTES):
            yield Part(member, _told(run, member, content))
    except archive.ArchiveError as error:
        raise UserError(str(error), "or take it out of the folder: the verdicts do not need it") from error


def _told(run: Path, name: str, content: bytes) -> str:
    """Return the text of a file; short rows of results in full, as without its key a value has no kind."""
    if name == run_folder.RESULTS and FRAME_BEGINS in content:
        content = _in_full(run, content)
    return content.decode("utf-8", "surrogateescape")


def _in_full(run: Path, content: bytes) -> bytes:
    facts = RunFolder(run).rows(run_folder.FACTS)[0]
    boot_ids = {str(row.get("node")): row.get("boot_id") for row in facts}
    frames, lines, size = Frames(), [], 0
    for line in content.splitlines(keepends=True):
        rows: list[dict[str, Any]] = []
        if line.startswith((FRAME_BEGINS, SHORT_BEGINS)):
            rows, torn = json_lines.parse_lines(line, frames)
            if not rows and not torn:
                continue  # a frame
        for row in rows:
            said = row["other_end"]
            said["boot_id"] = short_rows.boot_id_of(said, boot_ids.get(said["host"]))
        lines.append(f"{run_folder.line(rows[0])}\n".encode() if rows else line)
        size += len(lines[-1])
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
    """Lay a bundle out as a run folder within a folder, and return it.

    Raises:
        UserError: it is no bundle, or holds too much or anything else.
    """
    runs = set()
    try:
        for name, content in archive.members(bundle, _belongs, MOST_BUNDLE_BYTES):
            place = into / name
            runs.add(into / name.split("/")[0])
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content)
    except archive.ArchiveError as error:
        raise UserError(
            f"{error}: this is no whole bundle", "have it made again by `railyard bundle`"
        ) from error
    run = runs.pop() if len(runs) == 1 else None
    if run is None or not (run / run_folder.MANIFEST).is_file():
        raise UserError(f"{bundle} does not hold one run", "name an archive that `railyard bundle` made")
    return run


def _belongs(name: str) -> bool:
    found = _IN_BUNDLE.fullmatch(name)
    return bool(found and run_folder.is_run_id(found[1]))
