# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the XIDs and SXIDs of NVIDIA's GPUs and switches from the kernel's log.

Read from the ring buffer, /dev/kmsg (Documentation/ABI/testing/dev-kmsg): one record per read, each with its
number and its time since boot. Overwritten records are lost, which the result shows. A reset of a GPU or a
reload of the driver clears earlier errors, so that a repaired node is not bad until its next boot.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, NamedTuple

DEVICE = "dev/kmsg"
_RECORD_BYTES = 8192
# More than any ring buffer has (log_buf_len is some MiB); how many different messages are kept, and their
# length.
_MOST_RECORDS = 1 << 20
_MOST_SEEN = 256
_SAID = 160

_HEAD = re.compile(rb"[0-9]{1,9},([0-9]{1,19}),([0-9]{1,19}),[^;]*;(.*)")
_XID = re.compile(
    r"NVRM: Xid \((?:PCI:)?([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})(?:\.[0-7])?\): ([0-9]{1,5}), ?(.*)", re.I
)
_SXID = re.compile(r"SXid \(PCI:([0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2})\.[0-7]\): ([0-9]{1,5}), ?(.*)", re.I)
# "Non-fatal" and "Nonfatal" are the opposite.
_FATAL = re.compile(r"(?<!-)\bFatal\b")
_LOADED = "NVRM: loading NVIDIA"
_RECOVERY = 154
# "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"
_WELL_AGAIN = re.compile(r"recovery action changed from 0x[0-9a-f]+ \(.*\) to 0x0 ", re.I)


class LogError(Exception):
    """The kernel's log cannot be read; the message says why."""


class Record(NamedTuple):
    """A record: its number since boot, its time (seconds since boot), and its text."""

    number: int
    at_s: float
    text: str


class Log(NamedTuple):
    """The XIDs in a part of the log.

    Attributes:
        first: the number of the first record in the ring buffer; None where it has none.
        next: the number of the next record, as far as is known.
        since_s: when the first of them was written.
        seen: `kind` (XID, or a switch's SXID), `pci`, `xid`, `fatal` (whether the driver reported one of them
            as fatal), `count`, `at_s` of the last one and its text `said`, each different one once.
    """

    first: int | None
    next: int
    since_s: float
    seen: list[dict[str, Any]]


def read(root: str = "/", after: int = 0, kept: list[Record] | None = None) -> Log:
    """Read the records from number `after` on.

    Args:
        root: where /dev is.
        after: the number of the first record that counts.
        kept: takes the records of GPUs and switches.

    Raises:
        LogError: there is no such log here, or it is not readable.
    """
    path = os.path.join(root, DEVICE)
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise LogError(f"/{DEVICE}: {error.strerror or error}") from error
    first: Record | None = None
    last, ours = after - 1, []
    try:
        for record in _records(handle):
            first, last = first or record, max(last, record.number)
            # The ring buffer has some MiB, of which little is about GPUs.
            if record.number >= after and ("NVRM: " in record.text or "SXid " in record.text):
                ours.append(record)
    except OSError as error:
        raise LogError(f"/{DEVICE}: {error.strerror or error}") from error
    finally:
        os.close(handle)
    if kept is not None:
        kept += ours
    return Log(first and first.number, last + 1, first.at_s if first else 0.0, sort_out(ours))


def _records(handle: int) -> Iterator[Record]:
    for _turn in range(_MOST_RECORDS):
        try:
            data = os.read(handle, _RECORD_BYTES)
        except BlockingIOError:
            return
        except OSError as error:
            # The next record was overwritten; the next read returns the oldest one left.
            if error.errno != errno.EPIPE:
                raise
            continue
        if not data:
            return
        # Lines that begin with a blank are the record's tags.
        for head in filter(None, map(_HEAD.match, data.split(b"\n"))):
            text = head.group(3).decode("utf-8", errors="replace")
            yield Record(int(head.group(1)), int(head.group(2)) / 1e6, text)


def sort_out(records: Iterable[Record], earlier: Iterable[Mapping[str, Any]] = ()) -> list[dict[str, Any]]:
    """Return the current errors of GPUs and switches in the records; see `Log.seen`.

    Args:
        records: records of the log.
        earlier: the result for the records before these.
    """
    seen = {(str(one["pci"]), int(one["xid"])): dict(one) for one in earlier}
    for record in records:
        if _LOADED in record.text:
            seen.clear()
            continue
        xid, sxid = _XID.search(record.text), _SXID.search(record.text)
        found = xid or sxid
        if found is None:
            continue
        # nvidia-smi and sysfs show the last four of five digits of a domain (of a virtual machine).
        place, number, said = found.group(1).lower()[-10:], int(found.group(2)), found.group(3)
        if xid and number == _RECOVERY and _WELL_AGAIN.search(said):
            for key in [key for key in seen if key[0] == place]:
                del seen[key]
            continue
        key = place, number
        if key not in seen and len(seen) >= _MOST_SEEN:
            continue
        before = seen.pop(key, {"count": 0})
        seen[key] = {
            "kind": "XID" if xid else "SXID",
            "pci": place,
            "xid": number,
            "fatal": bool(before.get("fatal") or _FATAL.search(said)),
            "count": before["count"] + 1,
            "at_s": round(record.at_s, 3),
            "said": said[:_SAID],
        }
    return list(seen.values())
