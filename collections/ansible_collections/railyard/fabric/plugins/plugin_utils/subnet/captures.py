# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A capture of a subnet as a folder of files: what `railyard fabric` writes, and what operators bring.

`capture.json` names the commands that ran. A folder without it, made by hand, is read by its file names.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypedDict

from ansible_collections.railyard.fabric.plugins.module_utils import atomic_files
from ansible_collections.railyard.fabric.plugins.module_utils.records import reader
from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet_capture import Capture, Command

INDEX = "capture.json"
SCHEMA = 1
MOST_BYTES = 64 * 1024 * 1024
_MOST_FILES = 20000
# The files that a capture may have; others in the folder are not read.
_NAME = (
    r"(?:ibnetdiscover|topology|iblinkinfo|ibqueryerrors(?:\.[0-9]{1,3})?|saquery-s|ibaddr"
    r"|sminfo(?:-[0-9]{1,5})?|smpquery-pkeys-[0-9]{1,5}-[0-9]{1,3}|ibtracert-[0-9]{1,5}-[0-9]{1,5})\.txt"
)
_DATABASE = "ibdiagnet2.db_csv"
_FILE = re.compile(rf"(?:{_NAME}|{re.escape(_DATABASE)})\Z")
_LINKS = ("ibnetdiscover.txt", "topology.txt", "iblinkinfo.txt", _DATABASE)
_FIX = "Write what `ibnetdiscover -p` prints to ibnetdiscover.txt, and `iblinkinfo -l` to iblinkinfo.txt"


class _Command(TypedDict):
    argv: list[str]
    file: Annotated[str, reader.Matches(rf"{_NAME}|{re.escape(_DATABASE)}")]
    rc: int | None
    started_at_s: float
    seconds: Annotated[float, reader.AtLeast(0)]


class CommandRecord(_Command):
    """A command in `capture.json`."""

    stderr_file: str | None


class ResultCommand(_Command):
    """A command in what module `subnet_info` returns."""

    stdout: str
    stderr: str


class _Reading(TypedDict):
    schema: Literal[1]
    device: str | None
    port: int | None
    started_at_s: float


class Index(_Reading):
    """`capture.json`."""

    host: str | None
    commands: list[CommandRecord]


class Result(_Reading):
    """What module `subnet_info` returns as `capture`."""

    commands: list[ResultCommand]


class CaptureError(ValueError):
    """A folder is not a capture; the text names the file and what to do."""


def load(folder: str) -> Capture:
    """Read a capture's folder.

    Raises:
        CaptureError: there is no such folder, a file cannot be read or is too large, `capture.json` is not
            valid, or no file names a link.
    """
    try:
        names = sorted(os.listdir(folder))
    except OSError as error:
        raise CaptureError(f"{folder}: cannot be read ({error.strerror or error}). Name a folder") from error
    if len(names) > _MOST_FILES:
        raise CaptureError(f"{folder}: has {len(names)} files, more than a capture has. Name another folder")
    capture = _load_index(folder) if INDEX in names else _load_files(folder, names)
    if not any(one.file in _LINKS and one.stdout.strip() for one in capture.commands):
        raise CaptureError(f"{folder}: no file has the links of a subnet. {_FIX}")
    return capture


def from_result(value: object, host: str) -> Capture:
    """Make a capture of what module `subnet_info` returned.

    Args:
        value: its `capture`.
        host: the node, as the inventory calls it.

    Raises:
        CaptureError: it is not what the module returns.
    """
    try:
        result = reader.read(Result, value)
    except reader.RefusedError as error:
        raise CaptureError(f"{host}: subnet_info: {error}. Use one version of Railyard") from error
    commands = [
        _make_command(one, one["stdout"], one["stderr"], one["rc"] is None) for one in result["commands"]
    ]
    return Capture(host, result["device"], result["port"], result["started_at_s"], tuple(commands))


def _make_command(one: _Command, stdout: str, stderr: str, timed_out: bool) -> Command:
    times = one["started_at_s"], one["seconds"]
    return Command(tuple(one["argv"]), one["file"], stdout, stderr, one["rc"], *times, timed_out)


def _from_index(document: object, place: str, texts: Mapping[str, str]) -> Capture:
    """Make a capture of the content of `capture.json` and the texts of its files.

    Raises:
        CaptureError: the document is not valid.
    """
    try:
        index = reader.read(Index, document)
    except reader.RefusedError as error:
        raise CaptureError(
            f"{place}: {error}. Remove the file to read the folder by its file names"
        ) from error
    commands = []
    for one in index["commands"]:
        # Of a file that was brought no command is known: nothing has run out of time.
        timed_out, stderr = one["rc"] is None and bool(one["argv"]), texts.get(_error_file(one["file"]), "")
        commands.append(_make_command(one, texts.get(one["file"], ""), stderr, timed_out))
    return Capture(index["host"], index["device"], index["port"], index["started_at_s"], tuple(commands))


def write(capture: Capture, folder: str) -> None:
    """Write a capture's files, `capture.json` last.

    Raises:
        OSError: the folder cannot be written.
    """
    os.makedirs(folder, mode=0o755, exist_ok=True)
    owner = (os.geteuid(), os.getegid())
    files = []
    for command in capture.commands:
        if not _FILE.match(command.file):
            raise ValueError(f"{command.file!a} is not a file of a capture")
        files.append((command.file, command.stdout))
        if command.stderr:
            files.append((_error_file(command.file), command.stderr))
    files.append((INDEX, json.dumps(_document(capture), indent=1) + "\n"))
    for name, text in files:
        path = os.path.join(folder, name)
        atomic_files.write_bytes(path, text.encode("utf-8", "surrogateescape"), 0o644, owner)


def _document(capture: Capture) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "host": capture.host,
        "device": capture.device,
        "port": capture.port,
        "started_at_s": capture.started_at_s,
        "commands": [
            {
                "argv": list(one.argv),
                "file": one.file,
                "stderr_file": _error_file(one.file) if one.stderr else None,
                "rc": None if one.timed_out else one.rc,
                "started_at_s": one.started_at_s,
                "seconds": one.seconds,
            }
            for one in capture.commands
        ],
    }


def _error_file(file: str) -> str:
    return re.sub(r"\.(?:txt|db_csv)\Z", "", file) + ".err"


def _load_index(folder: str) -> Capture:
    path = os.path.join(folder, INDEX)
    try:
        document = json.loads(_read(path))
    except (ValueError, RecursionError) as error:
        text = f"{path}: is not valid JSON ({error}). Remove the file to read the folder by its file names"
        raise CaptureError(text) from error
    texts = {}
    files = document.get("commands") if isinstance(document, dict) else None
    for one in files if isinstance(files, list) else []:
        file = one.get("file") if isinstance(one, dict) else None
        # Only names of the fixed list: a path in the document leads nowhere.
        if isinstance(file, str) and _FILE.match(file):
            for name in (file, _error_file(file)):
                with contextlib.suppress(FileNotFoundError):
                    texts[name] = _read(os.path.join(folder, name))
    return _from_index(document, path, texts)


def _load_files(folder: str, names: list[str]) -> Capture:
    commands = []
    for name in names:
        if _FILE.match(name):
            path = os.path.join(folder, name)
            text, changed_at_s = _read(path), os.stat(path).st_mtime
            stderr = ""
            with contextlib.suppress(FileNotFoundError):
                stderr = _read(os.path.join(folder, _error_file(name)))
            commands.append(Command((), name, text, stderr, None, changed_at_s, 0.0))
    started_at_s = min((one.started_at_s for one in commands), default=0.0)
    return Capture(None, None, None, started_at_s, tuple(commands))


def _read(path: str) -> str:
    """Read a file as text; bytes that are not UTF-8 are kept as surrogates and shown as such.

    Raises:
        FileNotFoundError: there is none.
        CaptureError: it cannot be read, is no file, or is too large.
    """
    try:
        with open(path, "rb") as handle:
            data = handle.read(MOST_BYTES + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        fix = "Make it a file that you may read"
        raise CaptureError(f"{path}: cannot be read ({error.strerror or error}). {fix}") from error
    if len(data) > MOST_BYTES:
        raise CaptureError(f"{path}: is larger than {MOST_BYTES >> 20} MiB. Remove it, or capture it again")
    return data.decode("utf-8", "replace")
