# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A look at a run that goes on: cheap enough not to disturb what is being measured.

A module would start Python on the node for each look, and on a slow node that is seconds of the processor
that the test under way is to have. So is, in little, each program that a shell starts, and sudo most of all:
a look uses the shell's own words, as the user that the controller logs in as, and becomes root only where it
is refused.
"""

from __future__ import annotations

import json
import posixpath
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.runner import launcher
from ansible_collections.railyard.fabric.plugins.module_utils.runner.control import RUN_FOLDER, STATE_FOLDER
from ansible_collections.railyard.fabric.plugins.module_utils.runner.lease import Lease
from ansible_collections.railyard.fabric.plugins.module_utils.runner.record import STATUS
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import work_order

# The runner's state is asked first: one that ends between the two has then said its last word already.
# Arguments: the runner's unit as systemd marks it while it is there, the run, the lease, its sign of life,
# the status.
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
# What no runner says, a node may.
_MOST_STATUS_CHARACTERS, _MOST_CHARACTERS, _MOST_TESTS = 65536, 300, 10**9
_MOST_RAILS, _MOST_NAME_CHARACTERS = 64, 40
_COUNTS = ("finished_tests", "total_tests", "round", "rounds", "met", "meetings")
#: What a launcher that hands a status on hands on of it.
TOLD = (*_COUNTS, "suspects", "left_s", "uptime_s", "current")


class LookError(ValueError):
    """What came back is not what the look asks for."""


def command(
    run: str,
    state_folder: str = STATE_FOLDER,
    run_folder: str = RUN_FOLDER,
    unit_folder: str = UNIT_FOLDER,
) -> list[str]:
    """Return the argv of a look, which reads `SCRIPT` as its standard input and also renews the run's lease.

    Not on the command line: Ansible gives a command without input a terminal, which mingles what is said.

    Raises:
        LookError: the run's id is none.
    """
    if not work_order.RUN_ID.match(run):
        raise LookError(f"{run!r} is no run id; use one like 20261121T101500Z-3f2a")
    status = posixpath.join(state_folder, "runs", run, STATUS)
    unit = posixpath.join(unit_folder, f"invocation:{launcher.runner_unit(run)}.service")
    lease = Lease(run_folder)
    return ["/bin/sh", "-s", "--", unit, run, lease.path, lease.alive_path(run), status]


def read(output: str) -> dict[str, Any]:
    """Return how far a run is; a runner that died is done, and the reason says so.

    Args:
        output: what the look printed.

    Returns:
        `done`, `running`, `reason`, `lease_renewed`, and what `how_far` returns.

    Raises:
        LookError: the output is cut off or something else.
    """
    state, _newline, rest = output.partition("\n")
    lease, _newline, rest = rest.partition("\n")
    uptime, _newline, text = rest.partition("\n")
    if state not in ("running", "ended") or lease not in ("renewed", "lost"):
        raise LookError(f"the node answers {output[:80]!r} where a run's state was asked")
    said = _status(text)
    running = state == "running"
    ended = said.get("done") is True
    reason = _words(said.get("reason"))
    if not running and not ended:
        reason = "the runner ended without a word: it was killed, or never started"
    return {
        "done": ended or not running,
        "running": running,
        "reason": reason,
        "lease_renewed": lease == "renewed",
        **how_far(said, uptime),
    }


def how_far(said: dict[str, Any], uptime: str) -> dict[str, Any]:
    """Return of a runner's status how far it is, within bounds whatever it says.

    Args:
        said: the status.
        uptime: how long the node is up, in seconds.

    Returns:
        `finished_tests` of `total_tests`; `round` of `rounds`, `met` of `meetings` and `suspects`, as `tally`
        has them; `left_s` (how long the rest should take, None before the runner has said anything);
        `current`.
    """
    counts = {key: _count(said.get(key)) for key in _COUNTS}
    suspects = said.get("suspects")
    return {
        **counts,
        "suspects": [
            rail[:_MOST_NAME_CHARACTERS]
            for rail in (suspects if isinstance(suspects, list) else [])[:_MOST_RAILS]
            if isinstance(rail, str)
        ],
        "left_s": _left_s(said, uptime),
        "current": _words(said.get("current")),
    }


def _count(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= _MOST_TESTS:
        return 0
    return value


def _words(value: object) -> str | None:
    return value[:_MOST_CHARACTERS] if isinstance(value, str) else None


def _left_s(said: dict[str, Any], uptime: str) -> int | None:
    """Return what the runner said is left, less the time since it said so; both by the node's own clock."""
    try:
        return max(0, round(float(said["left_s"]) - (float(uptime) - float(said["uptime_s"]))))
    except (KeyError, OverflowError, TypeError, ValueError):
        return None


def _status(text: str) -> dict[str, Any]:
    try:
        said = json.loads(text) if text.strip() and len(text) <= _MOST_STATUS_CHARACTERS else {}
    except (RecursionError, ValueError):
        said = {}
    return said if isinstance(said, dict) else {}
