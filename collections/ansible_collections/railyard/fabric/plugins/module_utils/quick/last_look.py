# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Store the last check on the node (error counters of rails, errors, XIDs), and compare the counters with it.

Each name has a separate last check, so that a health check, a prolog and a user do not affect each other. A
record has the node's counters; nothing is added up.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from .. import atomic_files, owner_lock
from ..facts.link_errors import KINDS, NOTICE, PHYSICAL, SYMBOL, is_saturated, show_link
from ..numeric import is_number, is_whole
from ..rules import symbol_errors
from . import xids
from .found import Finding

FOLDER = "/var/lib/railyard/quick"
SCHEMA = 1
_NAME = re.compile(r"[a-z][a-z0-9_-]{0,31}\Z")
_LARGEST_BYTES = 1 << 20
_LOCK_WAIT_S = 5.0

Values = Mapping[str, int]


class LookError(Exception):
    """The last check cannot be read or stored; the message has the reason."""


class Seen(NamedTuple):
    """A rail's error counters and their port."""

    netdev: str
    hca: str | None
    values: Values


class Last(NamedTuple):
    """A check: its boot, its time in seconds since boot, and the counters of each rail.

    `log_next` is the number of the next record of the kernel's log; `findings` are the errors, which are
    reported until a check of the same item is good.
    """

    boot_id: str | None
    uptime_s: float
    rails: dict[str, Seen]
    log_next: int = 0
    findings: tuple[Finding, ...] = ()
    xids: xids.Xids = xids.NONE


class Grown(NamedTuple):
    """The growth of a rail's counters since the last check.

    Attributes:
        wrong: counters that must not grow, and by how much.
        unknown: why some counters are unknown.
        told: growth that is not an error of the node alone: packets retransmitted or dropped.
        is_first: there is no earlier check of this port in this boot to compare with.
    """

    wrong: dict[str, int]
    unknown: list[str]
    told: dict[str, int]
    is_first: bool


def check_name(name: str) -> str:
    """Return a valid name of a check.

    Raises:
        ValueError: it cannot be a file name.
    """
    if not _NAME.match(name):
        raise ValueError(f"{name!r} is not a name of 1 to 32 of a-z, 0-9, - and _, a letter first")
    return name


@contextlib.contextmanager
def alone(folder: str, name: str, wait_s: float = _LOCK_WAIT_S) -> Iterator[None]:
    """Lock the checks of this name.

    Raises:
        LookError: another one runs for longer than `wait_s`, or the folder cannot be written.
    """
    path = os.path.join(folder, name + ".lock")
    with contextlib.ExitStack() as held:
        try:
            os.makedirs(folder, mode=0o755, exist_ok=True)
            held.enter_context(owner_lock.held(path, wait_s))
        except owner_lock.LockedError as error:
            raise LookError(f"another check as {name} is running: {error}") from error
        except OSError as error:
            raise LookError(f"{path}: {error.strerror or error}") from error
        yield


def load(folder: str, name: str) -> Last | None:
    """Read the last check; None where there was none.

    Raises:
        LookError: the record is invalid.
    """
    path = os.path.join(folder, name + ".json")
    try:
        with open(path, "rb") as handle:
            data = handle.read(_LARGEST_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise LookError(f"{path}: {error.strerror or error}") from error
    try:
        return _read(json.loads(data))
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError) as error:
        raise LookError(f"{path} is not a record of a check; it is written again") from error


def _read(document: Any) -> Last:
    boot_id, uptime_s = document["boot_id"], document["uptime_s"]
    if document["schema"] != SCHEMA or not is_number(uptime_s) or not isinstance(boot_id, (str, type(None))):
        raise ValueError("another schema")
    rails = {}
    for rail, seen in document["rails"].items():
        values = seen["values"]
        if not all(is_whole(value) for value in values.values()):
            raise ValueError("a counter is not a number")
        rails[rail] = Seen(seen["netdev"], seen["hca"], dict(values))
    log_next = document["log_next"]
    if not is_whole(log_next) or log_next < 0:
        raise ValueError("log_next is not a number")
    # A record of an earlier version has neither.
    findings = tuple(Finding.read(one) for one in document.get("findings", ()))
    return Last(
        boot_id,
        uptime_s,
        rails,
        log_next,
        findings,
        xids.read(document["xids"]) if "xids" in document else xids.NONE,
    )


def store(folder: str, name: str, look: Last) -> None:
    """Store a check atomically.

    Raises:
        LookError: it cannot be written, for example because the disk is full.
    """
    path = os.path.join(folder, name + ".json")
    rails = {rail: seen._asdict() for rail, seen in look.rails.items()}
    document = {
        **look._asdict(),
        "schema": SCHEMA,
        "rails": rails,
        "findings": [one._asdict() for one in look.findings],
        "xids": xids.document(look.xids),
    }
    try:
        atomic_files.write_file(path, json.dumps(document) + "\n", 0o600, (os.geteuid(), os.getegid()))
    except OSError as error:
        raise LookError(f"{path} cannot be written: {error.strerror or error}") from error


def grown(last: Last | None, now: Last, rail: str, rate_gbps: float | None = None) -> Grown:
    """Compare a rail's counters with the last check.

    A counter that decreased was reset (a driver reload): its value is the growth. A new counter of the cable
    above 0 has grown too, if other counters of the port existed before. Symbol errors may grow by the
    permitted rate of the link since then, and by one burst at any time.

    Args:
        last: the last check, or None.
        now: this one.
        rail: the rail's name.
        rate_gbps: the link's trained rate; without it only a burst is permitted.
    """
    seen = now.rails[rail]
    before = last.rails.get(rail) if last is not None and last.boot_id == now.boot_id else None
    same_port = before is not None and (before.netdev, before.hca) == (seen.netdev, seen.hca)
    unknown = []
    if not show_link(seen.values):
        unknown.append("it has no error counters of its link")
    for name, value in seen.values.items():
        if KINDS.get(name) in (PHYSICAL, SYMBOL) and is_saturated(name, value):
            unknown.append(f"{name} is at its maximum, {value}")
    if before is None or not same_port:
        return Grown({}, unknown, {}, True)
    gone = [name for name in before.values if name not in seen.values and KINDS.get(name) == PHYSICAL]
    if gone:
        unknown.append(f"{gone[0]} no longer exists")
    since_s = now.uptime_s - last.uptime_s if last is not None else 0.0
    symbols = symbol_errors.permitted(rate_gbps, None, since_s)
    most_symbols = symbols.errors if symbols else symbol_errors.AT_ONCE
    wrong: dict[str, int] = {}
    told: dict[str, int] = {}
    for name, value in seen.values.items():
        earlier = before.values.get(name, 0)
        by = value - earlier if value >= earlier else value
        kind = KINDS.get(name)
        if by <= 0 or kind in (None, NOTICE):
            continue
        if kind == PHYSICAL or (kind == SYMBOL and by > most_symbols):
            wrong[name] = by
        else:
            told[name] = by
    return Grown(wrong, unknown, told, False)
