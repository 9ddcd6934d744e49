# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Put opensm's partition file in place, prove that it is in effect, or bring the old one back.

What opensm logs of its start tells whether it refuses the file; the P_Key tables of the ports tell whether
the partitions are as meant. That its units are active tells neither.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

from .. import atomic_files
from ..parsers.subnet import opensm_log
from . import opensm_partitions
from .opensm_partitions import HEADER, Intent, PartitionsError

RECORD_SCHEMA = 1
_READERS = 8
# Between two looks at log and tables.
_PAUSE_S = 2.0
# A port that has not answered in so many looks is off: the others are not kept waiting for it.
_LOOKS = 3
_LOG_MOST_BYTES = 1 << 20
_RESTORED_S = 30.0
_STARTED = ("MASTER", "STANDBY")
_MOST_NAMED = 10

Tables = dict[str, "frozenset[int] | None"]


class LocalPort(NamedTuple):
    """A port that opensm serves: its GUID, and its device and number; None where the tools find it alone."""

    guid: str
    device: str | None = None
    number: int | None = None


class Opensm(NamedTuple):
    """The opensm of a node.

    Attributes:
        ports: the ports that it serves, one process each.
        logs: their log files.
        restart: starts it anew; returns what went wrong, or an empty text.
        ask: runs a program; returns what it prints on stdout, or None where it failed.
        now: a clock in seconds.
        sleep: waits.
    """

    ports: tuple[LocalPort, ...]
    logs: tuple[str, ...]
    restart: Callable[[], str]
    ask: Callable[[Sequence[str]], str | None]
    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


class Mark(NamedTuple):
    """How far a log file had come: its inode and size, both 0 where there was none."""

    inode: int
    size: int


class Applied(NamedTuple):
    """How it ended: whether anything was changed, and the ports whose tables could not be read."""

    changed: bool
    unread: tuple[str, ...]


def read_tables(intent: Intent, opensm: Opensm, guids: Sequence[str], deadline_s: float) -> Tables:
    """Read the P_Key tables of ports by their GUIDs, over the port of the same rail first."""
    names = intent.all_guids()

    def rail_of(guid: str) -> str:
        return names.get(guid, "").rpartition(" ")[2]

    def read(guid: str) -> frozenset[int] | None:
        for port in sorted(opensm.ports, key=lambda one: rail_of(one.guid) != rail_of(guid)):
            if opensm.now() > deadline_s:
                break
            way = ["-C", port.device, "-P", str(port.number)] if port.device is not None else []
            text = opensm.ask(["smpquery", *way, "-G", "pkeys", guid])
            table = None if text is None else opensm_partitions.read_table(text)
            if table is not None:
                return table
        return None

    with ThreadPoolExecutor(_READERS) as pool:
        return dict(zip(guids, pool.map(read, guids)))  # noqa: B905 - Python 3.9


def read_file(path: str) -> str | None:
    """Return a file's text as it is, whatever its encoding and line ends; None where there is none."""
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="") as handle:
            return handle.read()
    except FileNotFoundError:
        return None


def mark_log(path: str) -> Mark:
    """Return how far a log file has come."""
    try:
        status = os.stat(path)
    except OSError:
        return Mark(0, 0)
    return Mark(status.st_ino, status.st_size)


def read_since(path: str, mark: Mark) -> str:
    """Return what a log file got since a mark; all of it where another file has taken its place."""
    now = mark_log(path)
    try:
        with open(path, "rb") as handle:
            handle.seek(mark.size if now.inode == mark.inode and now.size >= mark.size else 0)
            return handle.read(_LOG_MOST_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return ""


def apply(path: str, text: str, intent: Intent, opensm: Opensm, limit_s: float) -> Applied:
    """Have opensm run with this partition file.

    Raises:
        PartitionsError: opensm refuses the file, and the old one is back; or the tables are not as meant.
    """
    before = read_file(path)
    deadline_s = opensm.now() + limit_s
    if before == text:
        tables = _read_all(intent, opensm, deadline_s)
        if not opensm_partitions.compare(intent, tables) and any(one is not None for one in tables.values()):
            return Applied(False, _unread(intent, tables))
        # A run that was cut off may have left an opensm that has not read it.
    else:
        atomic_files.write_file(path, text, 0o644)
    marks = {log: mark_log(log) for log in opensm.logs}
    failed = opensm.restart()
    if failed:
        raise PartitionsError(f"{failed}. {_bring_back(path, before, text, opensm)}")
    return Applied(True, _wait(path, before, text, intent, opensm, marks, deadline_s))


def _read_all(intent: Intent, opensm: Opensm, deadline_s: float) -> Tables:
    """Read the tables of all ports; one that does not answer is queried again, since requests get lost."""
    tables = read_tables(intent, opensm, list(intent.all_guids()), deadline_s)
    for _look in range(1, _LOOKS):
        silent = [guid for guid, table in tables.items() if table is None]
        if silent:
            opensm.sleep(_PAUSE_S)
            tables.update(read_tables(intent, opensm, silent, deadline_s))
    return tables


def _wait(
    path: str,
    before: str | None,
    text: str,
    intent: Intent,
    opensm: Opensm,
    marks: Mapping[str, Mark],
    deadline_s: float,
) -> tuple[str, ...]:
    """Wait until all ports have their tables; return those that do not answer."""
    tables: Tables = dict.fromkeys(intent.all_guids())
    wanted = opensm_partitions.make_tables(intent)
    for look in itertools.count(1):
        starts = {log: opensm_log.parse(read_since(log, mark)) for log, mark in marks.items()}
        errors = [error for start in starts.values() for error in start.errors]
        if errors or any(start.fell_back for start in starts.values()):
            said = "; ".join(dict.fromkeys(errors)) or "in error; retrying with default config"
            raise PartitionsError(
                f"opensm refuses {path}: {said}. {_bring_back(path, before, text, opensm)} "
                f"Fix: correct the partitions; the logs are {', '.join(opensm.logs)}"
            )
        open_ones = [guid for guid, table in tables.items() if table != wanted[guid]]
        read = read_tables(intent, opensm, open_ones, deadline_s)
        tables.update({guid: table for guid, table in read.items() if table is not None})
        differing = opensm_partitions.compare(intent, tables)
        silent = [guid for guid, table in tables.items() if table is None]
        started = _have_started(starts)
        # opensm reads the file right after it became master, and its tables may have been as meant before.
        if started and not differing and look > 1 and (not silent or look >= _LOOKS):
            break
        if opensm.now() > deadline_s:
            _give_up(path, starts, differing, started)
        opensm.sleep(_PAUSE_S)
    if len(silent) == len(tables):
        raise PartitionsError(
            f"{path} is written and opensm has logged no error, but no port's P_Key table could be read. "
            "Fix: look at what `smpquery -G pkeys GUID` prints on this node (package infiniband-diags)"
        )
    return _unread(intent, tables)


def _give_up(
    path: str,
    starts: Mapping[str, opensm_log.OpensmStart],
    differing: Sequence[str],
    started: bool,
) -> None:
    """Fail where opensm has not started or tables differ, now that the time is over."""
    standby = [log for log, start in starts.items() if start.state == "STANDBY"]
    if not started:
        raise PartitionsError(
            f"opensm has not become master or standby in time, by {', '.join(starts)}. {path} stays. "
            "Fix: look there, and at `systemctl status`, for what keeps it"
        )
    if differing:
        more = f", and {len(differing) - _MOST_NAMED} more" if len(differing) > _MOST_NAMED else ""
        other = f" ({', '.join(standby)}: on standby, another subnet manager rules)" if standby else ""
        raise PartitionsError(
            f"{path} is in place, but P_Key tables are not as meant{other}: "
            f"{'; '.join(differing[:_MOST_NAMED])}{more}. Fix: look for another subnet manager "
            "(`saquery -s`, `sminfo`), and at opensm's log"
        )


def _unread(intent: Intent, tables: Tables) -> tuple[str, ...]:
    names = intent.all_guids()
    return tuple(f"{names[guid]} ({guid})" for guid, table in tables.items() if table is None)


def _bring_back(path: str, before: str | None, text: str, opensm: Opensm) -> str:
    """Restore the file that was there, and opensm with it; return how that went."""
    if before == text:
        return "The file is the one that was there."
    _write_or_remove(path, before)
    what = "The old file is back" if before is not None else "The file is gone again, as it was before"
    marks = {log: mark_log(log) for log in opensm.logs}
    failed = opensm.restart()
    if failed:
        return f"{what}, but {failed}."
    deadline_s = opensm.now() + _RESTORED_S
    while True:
        starts = {log: opensm_log.parse(read_since(log, mark)) for log, mark in marks.items()}
        if any(start.fell_back for start in starts.values()):
            return f"{what}, and opensm refuses it as well."
        if _have_started(starts):
            return f"{what}, and opensm runs with it."
        if opensm.now() > deadline_s:
            return f"{what}, but opensm has not become master or standby with it yet."
        opensm.sleep(_PAUSE_S)


def _have_started(starts: Mapping[str, opensm_log.OpensmStart]) -> bool:
    return all(start.state in _STARTED for start in starts.values())


def _write_or_remove(path: str, text: str | None) -> None:
    if text is not None:
        atomic_files.write_file(path, text, 0o644)
    elif os.path.lexists(path):
        os.remove(path)


def load_record(path: str) -> dict[str, Any] | None:
    """Return what was there before Railyard wrote the file; None where it did not.

    Raises:
        PartitionsError: the record cannot be read.
    """
    try:
        record = atomic_files.load_record(path, RECORD_SCHEMA)
        if record is not None and not isinstance(record.get("before"), (str, type(None))):
            raise ValueError("it holds no file")
    except ValueError as error:
        raise PartitionsError(
            f"{path} does not say what opensm's partition file was before Railyard ({error}). "
            "Fix: bring it back from a backup, or remove it: then the file there counts as the site's own"
        ) from error
    return record


def make_record(before: str | None, text: str, known: Mapping[str, Any] | None) -> dict[str, Any]:
    """Make the record of a file that is to be written.

    Args:
        before: the file as it is now.
        text: what is to be written.
        known: the record that there is; None for none.
    """
    if before is not None and before.startswith(HEADER):
        # What Railyard has written is no original.
        before = None if known is None else known["before"]
    return {"schema": RECORD_SCHEMA, "before": before, "sha256": _digest(text)}


def restore_record(path: str, known: Mapping[str, Any] | None) -> None:
    """Bring the record back that there was before a file that is not there any more."""
    if known is not None:
        atomic_files.store_record(path, known)
    elif os.path.exists(path):
        os.remove(path)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()


def is_ours(text: str | None, record: Mapping[str, Any]) -> bool:
    """Tell whether the file is as Railyard wrote it."""
    return text is not None and _digest(text) == record.get("sha256")


def remove(path: str, record_path: str, record: Mapping[str, Any], opensm: Opensm | None) -> None:
    """Bring back what was there before; a file that somebody has changed since stays as it is.

    Args:
        path: the partition file.
        record_path: where the record is; it goes last.
        record: what it holds.
        opensm: is started anew; None where it is not to run.

    Raises:
        PartitionsError: opensm does not start.
    """
    if is_ours(read_file(path), record):
        _write_or_remove(path, record["before"])
        failed = opensm.restart() if opensm is not None else ""
        if failed:
            raise PartitionsError(f"{path} is as it was before Railyard, but {failed}")
    os.remove(record_path)
