# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The files of a network change on the disk: written ahead, put in place and put back by renames alone.

A rename within a folder needs no space. So whatever a change or its undo will need lies beside its target, on
disk, before anything is touched: a disk that fills up inside the window can stop neither.
"""

from __future__ import annotations

import contextlib
import filecmp
import json
import os
import shutil
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

# What a result file may hold; its space is taken before the change begins.
RESERVED_BYTES = 16384


def staged_path(path: str) -> str:
    """Return where the new text waits: beside its target, by a name that netplan and sysctl do not read."""
    return os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.railyard-new")


def kept_path(path: str) -> str:
    """Return where the old file waits for an undo, beside its target."""
    return os.path.join(os.path.dirname(path), f".{os.path.basename(path)}.railyard-old")


def sync_folder(path: str) -> None:
    """Have a folder's entries on disk: a rename is not there before that."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write(path: str, data: bytes, mode: int, owner: tuple[int, int]) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "wb") as handle:
        handle.write(data)
        handle.flush()
        os.fchmod(handle.fileno(), mode)
        if os.geteuid() == 0:
            os.fchown(handle.fileno(), *owner)
        os.fsync(handle.fileno())


def write_file(path: str, text: str, mode: int = 0o600, owner: tuple[int, int] = (0, 0)) -> None:
    """Replace a file in one step, on disk before this returns: a reset leaves the old or the new one."""
    write_bytes(path, text.encode("utf-8", "surrogateescape"), mode, owner)


def write_bytes(path: str, data: bytes, mode: int = 0o600, owner: tuple[int, int] = (0, 0)) -> None:
    """Do as `write_file` does, with bytes."""
    write_together([NewFile(path, data, mode)], owner)


class NewFile(NamedTuple):
    """A file to be written: its path, bytes and mode, and its group where that is not the writer's choice."""

    path: str
    data: bytes
    mode: int
    gid: int | None = None


def write_together(files: Sequence[NewFile], owner: tuple[int, int] = (0, 0)) -> None:
    """Replace files in one step each, in this order, once all of them are on disk: a full disk changes none.

    Raises:
        OSError: `filename` is the file that could not be written; until all were, none has been replaced.
    """
    temporary = {}
    try:
        for file in files:
            folder, name = os.path.split(file.path)
            os.makedirs(folder, mode=0o755, exist_ok=True)
            # A leading dot keeps netplan from reading it, should we die here.
            temporary[file.path] = os.path.join(folder, f".{name}.railyard")
            of_file = owner if file.gid is None else (owner[0], file.gid)
            _write(temporary[file.path], file.data, file.mode, of_file)
        for file in files:
            os.replace(temporary[file.path], file.path)
    except OSError as error:
        for path in temporary.values():
            _remove(path)
        raise OSError(error.errno, error.strerror, file.path) from error
    for folder in sorted({os.path.dirname(file.path) for file in files}):
        sync_folder(folder)


def read_json(path: str) -> dict[str, Any] | None:
    """Return the object in a JSON file; None when there is none, or an incomplete one."""
    try:
        with open(path, encoding="utf-8") as handle:
            value = json.load(handle)
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def load_record(path: str, schema: int) -> dict[str, Any] | None:
    """Return what a role keeps on record in a JSON file; None when there is no file.

    Raises:
        ValueError: It cannot be read, or is no object of this schema; the message says why. To take it for
            none would be to take what the role made for what was there before.
    """
    try:
        with open(path, encoding="utf-8") as handle:
            value = json.load(handle)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ValueError(f"it cannot be read: {error.strerror}") from error
    if not isinstance(value, dict) or value.get("schema") != schema:
        raise ValueError(f"it is of no schema {schema}")
    return value


def store_record(path: str, document: Mapping[str, Any]) -> None:
    """Write a record, which anyone may read: after a power cut it is either the old one or the new one."""
    write_file(path, json.dumps(document, indent=2, sort_keys=True) + "\n", mode=0o644)


def reserve(path: str) -> None:
    """Take the space of a result that must be written whatever happens to the disk meanwhile."""
    _write(path + ".reserved", b" " * RESERVED_BYTES, 0o600, (0, 0))


def write_reserved(path: str, value: Mapping[str, Any]) -> None:
    """Write a JSON object into the space reserved for it; blanks after JSON mean nothing to its reader."""
    data = json.dumps(value, sort_keys=True).encode()
    if len(data) > RESERVED_BYTES or not os.path.exists(path + ".reserved"):
        write_bytes(path, data)
        return
    with open(path + ".reserved", "r+b") as handle:
        handle.write(data.ljust(RESERVED_BYTES))
        handle.flush()
        os.fsync(handle.fileno())
    os.replace(path + ".reserved", path)
    sync_folder(os.path.dirname(path))


def _copy(source: str, target: str) -> None:
    """Copy a file (a link as a link) with mode, owner and attributes, on disk before this returns."""
    os.makedirs(os.path.dirname(target), mode=0o700, exist_ok=True)
    _remove(target)
    shutil.copy2(source, target, follow_symlinks=False)
    status = os.lstat(source)
    if os.geteuid() == 0:
        os.chown(target, status.st_uid, status.st_gid, follow_symlinks=False)
    if not os.path.islink(target):
        descriptor = os.open(target, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    sync_folder(os.path.dirname(target))


def _remove(path: str) -> None:
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def prepare(entries: Sequence[dict[str, Any]], keep: str) -> None:
    """Write ahead: the new text and the old file beside each target, and a copy of the old one under `keep`.

    Args:
        entries: `{"path", "text" (None removes the file), "mode"}` each, and `owner` where that is not root;
            gets `backup`, the copy under `keep`, or None where there was no file.
        keep: folder for the copies that outlive the change; rollback.yml returns to them.

    Raises:
        OSError: no space, a read-only disk; what was written so far is for `clear` to remove.
    """
    for entry in entries:
        path = entry["path"]
        entry["backup"] = None
        if os.path.lexists(path):
            entry["backup"] = keep + path
            _copy(path, entry["backup"])
            _copy(path, kept_path(path))
        if entry["text"] is not None:
            os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
            data = entry["text"].encode("utf-8", "surrogateescape")
            _write(staged_path(path), data, entry["mode"], entry.get("owner", (0, 0)))
            sync_folder(os.path.dirname(path))


def put(entry: Mapping[str, Any]) -> None:
    """Put one new file in its place, or remove the old one, without needing space."""
    path = entry["path"]
    if entry["text"] is None:
        _remove(path)
    elif os.path.exists(staged_path(path)):
        os.replace(staged_path(path), path)
    else:
        write_file(path, entry["text"], entry["mode"], entry.get("owner", (0, 0)))
    if os.path.isdir(os.path.dirname(path)):
        sync_folder(os.path.dirname(path))


def put_back(entry: Mapping[str, Any]) -> None:
    """Bring one old file back, without needing space; done twice it is done once."""
    path = entry["path"]
    if entry["backup"] is None:
        _remove(path)
    elif os.path.lexists(kept_path(path)):
        os.replace(kept_path(path), path)
    elif not os.path.exists(path) or not filecmp.cmp(entry["backup"], path, shallow=False):
        _copy(entry["backup"], path)
    _remove(staged_path(path))
    if os.path.isdir(os.path.dirname(path)):
        sync_folder(os.path.dirname(path))


def clear(entries: Sequence[Mapping[str, Any]]) -> None:
    """Remove what waits beside the targets, once nothing can need it any more."""
    for entry in entries:
        _remove(staged_path(entry["path"]))
        _remove(kept_path(entry["path"]))
