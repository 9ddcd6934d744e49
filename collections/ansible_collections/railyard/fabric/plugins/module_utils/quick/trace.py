# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Store the result of each check for the node's metrics: time, duration, status and findings.

One file for each name of a check. It is marked before a check begins, so that a killed check is visible too
(Slurm kills its health check after 60 s).
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple, Optional

from .. import atomic_files, node_files
from ..numeric import is_number, is_whole
from . import xids
from .found import UNKNOWN, Finding, Found

SCHEMA = 1
_ENDING = ".trace.json"
_LARGEST_BYTES = 1 << 20
#: The names of regular checks (role quick_check); others are of users or jobs.
STEADY = ("timer", "slurm")
#: A check ends within half a minute; one that began longer ago and has not ended was killed.
ENDS_WITHIN_S = 60.0


class Trace(NamedTuple):
    """The stored result of a check.

    Attributes:
        boot_id: its boot.
        began_unix_s: when a check began that has not ended yet, or None.
        ended_unix_s: when the last check ended, or None.
        duration_s: how long that took.
        status: its exit status.
        findings: what it found wrong, or expected and could not check.
        xids: XIDs of this boot, from the last check that read the kernel's log.
        nvlinks: `pci` and `active` of each GPU, from the last check with an answer of nvidia-smi.
    """

    boot_id: Optional[str] = None  # noqa: UP045 - Python 3.9, which nodes may have, evaluates it
    began_unix_s: Optional[float] = None  # noqa: UP045 - see above
    ended_unix_s: Optional[float] = None  # noqa: UP045 - see above
    duration_s: float = 0.0
    status: int = UNKNOWN
    findings: tuple[Finding, ...] = ()
    xids: xids.Xids = xids.NONE
    nvlinks: tuple[tuple[str, int], ...] = ()


def begin(folder: str, name: str, now_unix_s: float) -> None:
    """Mark that a check begins; the last result stays until it ends."""
    _store(folder, name, (load(folder, name) or Trace())._replace(began_unix_s=now_unix_s))


def end(
    folder: str, name: str, found: Found, boot_id: str | None, now_unix_s: float, duration_s: float
) -> None:
    """Store the findings of a check; unknown values of GPUs are kept from the last check of the same boot."""
    before = load(folder, name) or Trace()
    if before.boot_id != boot_id:
        before = Trace()
    of_gpus = found.gpus
    trace = Trace(
        boot_id,
        None,
        now_unix_s,
        duration_s,
        found.status,
        tuple(found.findings),
        xids.read(of_gpus["xids"]) if "xids" in of_gpus else before.xids,
        tuple((one["pci"], one["active"]) for one in of_gpus["nvlinks"])
        if "nvlinks" in of_gpus
        else before.nvlinks,
    )
    _store(folder, name, trace)


def load(folder: str, name: str) -> Trace | None:
    """Read the stored result; None where there is none or it is invalid."""
    try:
        with open(os.path.join(folder, name + _ENDING), "rb") as handle:
            return _read(json.loads(handle.read(_LARGEST_BYTES)))
    except (OSError, ValueError, RecursionError, TypeError, KeyError, AttributeError):
        return None


def load_newest(folder: str, now_unix_s: float) -> Trace | None:
    """Read the newest result: of the regular checks, else of any.

    A killed check counts as one that ended when it began, with an unknown result.
    """
    names = [name[: -len(_ENDING)] for name in node_files.list_names(folder) if name.endswith(_ENDING)]
    for group in ([one for one in names if one in STEADY], names):
        traces = [_closed(one, now_unix_s) for one in (load(folder, name) for name in group) if one]
        ended = [one for one in traces if one.ended_unix_s is not None]
        if ended:
            return max(ended, key=lambda one: one.ended_unix_s or 0.0)
    return None


def _closed(trace: Trace, now_unix_s: float) -> Trace:
    """Return the result of a killed check as that of one that ended."""
    began = trace.began_unix_s
    # A clock that was set back makes it begin in the future; that check is over too.
    if began is None or 0 <= now_unix_s - began <= ENDS_WITHIN_S:
        return trace
    said = f"the check did not end within {ENDS_WITHIN_S:.0f} s: it was killed, or hangs"
    killed = Finding("look", "look_unfinished", "", False, said)
    wrong = tuple(one for one in trace.findings if one.is_wrong)
    status = trace.status if wrong else UNKNOWN
    return trace._replace(
        ended_unix_s=began, duration_s=0.0, status=status, findings=(*wrong, killed), began_unix_s=None
    )


def _store(folder: str, name: str, trace: Trace) -> None:
    document = {
        **trace._asdict(),
        "schema": SCHEMA,
        "findings": [one._asdict() for one in trace.findings],
        "xids": xids.document(trace.xids),
    }
    path = os.path.join(folder, name + _ENDING)
    # With a full disk, or without root, the check itself reports it, and an old result shows by its time.
    with contextlib.suppress(OSError):
        atomic_files.write_file(path, json.dumps(document) + "\n", 0o600, (os.geteuid(), os.getegid()))


def _read(document: Mapping[str, Any]) -> Trace:
    if document["schema"] != SCHEMA or document["status"] not in (0, 1, 3):
        raise ValueError("another schema")
    moments = [document[key] for key in ("began_unix_s", "ended_unix_s", "duration_s")]
    if not all(one is None or is_number(one) for one in moments):
        raise ValueError("no time")
    links = []
    for pci, active in document["nvlinks"]:
        if not (isinstance(pci, str) and is_whole(active)):
            raise ValueError("no NVLinks")
        links.append((pci, active))
    return Trace(
        document["boot_id"],
        moments[0],
        moments[1],
        moments[2] or 0.0,
        document["status"],
        tuple(Finding.read(one) for one in document["findings"]),
        xids.read(document["xids"]),
        tuple(links),
    )
