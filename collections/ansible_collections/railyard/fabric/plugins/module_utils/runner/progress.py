# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Poll a run in progress, cheaply enough not to disturb the measurement.

A module would start Python on the node for each poll, which on a slow node takes seconds of CPU time from the
running test. Each program that a shell starts costs too, and sudo most of all. So a poll uses only shell
builtins, as the user that the controller logs in as, and becomes root only where access is denied.
"""

from __future__ import annotations

import json
import posixpath
from typing import Any

from ..schedule import work_order
from . import launcher
from .control import RUN_FOLDER, STATE_FOLDER
from .lease import Lease
from .record import STATUS

# The runner's state is read first: a runner that ends between the two reads has already written its last
# status. Arguments: the link that systemd keeps while the runner's unit runs, the run, the lease, its sign of
# life, the status.
SCRIPT = """\
if [ -h "$1" ]; then echo running; else echo ended; fi
lease= uptime= status=
{ read -r lease < "$3"; } 2>/dev/null
case $lease in
  *"\\"$2\\""*) if { printf . > "$4"; } 2>/dev/null; then echo renewed; else echo lost; fi ;;
  *) echo lost ;;
esac
{ read -r uptime _idle < /proc/uptime; } 2>/dev/null
printf '%s\\n' "$uptime"
{ read -r status < "$5"; } 2>/dev/null
printf '%s\\n' "$status"
"""
# Where systemd (240 and later) keeps a link for each unit that is neither inactive nor failed.
UNIT_FOLDER = "/run/systemd/units"
# Limits for what a node may send.
_MOST_STATUS_CHARACTERS, _MOST_CHARACTERS, _MOST_TESTS = 65536, 300, 10**9
_MOST_RAILS, _MOST_NAME_CHARACTERS = 64, 40
_COUNTS = ("finished_tests", "total_tests", "round", "rounds", "met", "meetings")
#: The keys of a status that a launcher passes on.
STATUS_KEYS = (*_COUNTS, "suspects", "left_s", "uptime_s", "current")


class LookError(ValueError):
    """An answer that is not the output of `SCRIPT`."""


def command(
    run: str, state_folder: str = STATE_FOLDER, run_folder: str = RUN_FOLDER, unit_folder: str = UNIT_FOLDER
) -> list[str]:
    """Return the argv of a poll, which reads `SCRIPT` as its standard input and also renews the run's lease.

    The script is not on the command line: Ansible gives a command without input a terminal, which mixes
    standard
    output and error.

    Raises:
        LookError: the run id is invalid.
    """
    if not work_order.RUN_ID.match(run):
        raise LookError(f"{run!r} is not a run id; use one like 20261121T101500Z-3f2a")
    status = posixpath.join(state_folder, "runs", run, STATUS)
    unit = posixpath.join(unit_folder, f"invocation:{launcher.runner_unit(run)}.service")
    lease = Lease(run_folder)
    return ["/bin/sh", "-s", "--", unit, run, lease.path, lease.alive_path(run), status]


def read(output: str) -> dict[str, Any]:
    """Parse the output of a poll; a runner that died is done, with a reason.

    Returns:
        `done`, `running`, `reason`, `lease_renewed`, and what `read_progress` returns.

    Raises:
        LookError: the output is truncated or something else.
    """
    state, _newline, rest = output.partition("\n")
    lease, _newline, rest = rest.partition("\n")
    uptime, _newline, text = rest.partition("\n")
    if state not in ("running", "ended") or lease not in ("renewed", "lost"):
        raise LookError(f"the node answers {output[:80]!r} instead of the state of a run")
    status = _parse_status(text)
    running = state == "running"
    ended = status.get("done") is True
    reason = _clip_text(status.get("reason"))
    if not running and not ended:
        reason = "the runner ended without a final status: it was killed, or never started"
    return {
        "done": ended or not running,
        "running": running,
        "reason": reason,
        "lease_renewed": lease == "renewed",
        **read_progress(status, uptime),
    }


def read_progress(status: dict[str, Any], uptime: str) -> dict[str, Any]:
    """Read a runner's progress from its status, within limits whatever it contains.

    Args:
        status: the runner's status.
        uptime: the node's uptime in seconds.

    Returns:
        `finished_tests` of `total_tests`; `round` of `rounds`, `met` of `meetings` and `suspects`, see
        `tally`; `left_s` (the expected time of the rest, None before the first status); `current`.
    """
    counts = {key: _read_count(status.get(key)) for key in _COUNTS}
    suspects = status.get("suspects")
    return {
        **counts,
        "suspects": [
            rail[:_MOST_NAME_CHARACTERS]
            for rail in (suspects if isinstance(suspects, list) else [])[:_MOST_RAILS]
            if isinstance(rail, str)
        ],
        "left_s": _left_s(status, uptime),
        "current": _clip_text(status.get("current")),
    }


def _read_count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST_TESTS:
        return 0
    return value


def _clip_text(value: object) -> str | None:
    return value[:_MOST_CHARACTERS] if isinstance(value, str) else None


def _left_s(status: dict[str, Any], uptime: str) -> int | None:
    """Return the runner's expected remaining time minus the age of its status, both by the node's clock."""
    try:
        return max(0, round(float(status["left_s"]) - (float(uptime) - float(status["uptime_s"]))))
    except (KeyError, OverflowError, TypeError, ValueError):
        return None


def _parse_status(text: str) -> dict[str, Any]:
    try:
        status = json.loads(text) if text.strip() and len(text) <= _MOST_STATUS_CHARACTERS else {}
    except (RecursionError, ValueError):
        status = {}
    return status if isinstance(status, dict) else {}
