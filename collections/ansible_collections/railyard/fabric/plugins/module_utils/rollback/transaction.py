# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pending network change on the node: stored, applied, confirmed or rolled back by the node itself.

`netplan_stage` writes the record and arms the timer; `apply` and `expire` then run in systemd units of their
own, so neither a lost connection nor a killed controller stops them; after a reset, `boot` and `settle` do
what `expire` would have done. Confirming and expiring both rename `pending.json`, and only one can succeed.

This module and those it imports are also packed into `program.pyz` on the node: the units run it,
and what a person at the console can run: `python3 /var/lib/railyard/rail_network/program.pyz expire TOKEN`.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from .. import atomic_files, owner_lock
from . import boot as netplan_boot
from . import original, restore

STATE_DIR = "/var/lib/railyard/rail_network"
UNIT = "railyard-rail-network"
# Undoing takes some 3 s, on an emulated node ten times as long; the timer fires so long before the deadline
# that the node is back by then.
_UNDO_ALLOWANCE_S = 8
_UNDO_SHARE = 0.35
_UNDO_SHARE_MOST = 0.5


class BusyError(RuntimeError):
    """Another change is being applied or undone on this node."""


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")  # noqa: UP017 - nodes may have Python 3.9


def locked(folder: str, wait_s: float = 2.0) -> contextlib.AbstractContextManager[int]:
    """Hold the node's lock on network changes; BusyError when another keeps it longer than `wait_s`."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    said = "another network change is being applied or undone on this node"
    return owner_lock.held(os.path.join(folder, "lock"), wait_s, lambda error: BusyError(f"{said}: {error}"))


def unit(kind: str, token: str) -> str:
    """Return the name (without suffix) of the systemd unit of a change: kind is `apply` or `expire`."""
    return f"{UNIT}-{kind}-{token[:12]}"


def boot_id() -> str:
    """Return this boot's id: a record of another boot has lost its timer."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as handle:
        return handle.read().strip()


def in_flight(folder: str) -> dict[str, Any] | None:
    """Return the record of a change that is neither confirmed nor undone, or None."""
    for name in ("pending.json", "rolling_back.json"):
        record = atomic_files.read_json(os.path.join(folder, name))
        if record is not None:
            return record
    return None


def is_stale(record: Mapping[str, Any]) -> bool:
    """Return whether this change will not be finished: its boot is over, or its deadline long past."""
    return settled_within_s(record) < 0


def settled_within_s(record: Mapping[str, Any]) -> float:
    """Return within how many seconds a change in flight is confirmed or undone; negative: it is stale."""
    if record["boot_id"] != boot_id():
        return -1.0
    return float(record["expires_monotonic_s"] + restore.PATIENCE_S + 30 - time.monotonic())


def fires_after_s(record: Mapping[str, Any]) -> int:
    """Return when the timer fires, so that the node is as before within `rollback_after_s`."""
    whole_s = int(record["rollback_after_s"])
    allowance_s = max(_UNDO_ALLOWANCE_S, int(whole_s * _UNDO_SHARE))
    return whole_s - min(allowance_s, int(whole_s * _UNDO_SHARE_MOST))


def begin(folder: str, record: dict[str, Any], program: bytes) -> None:
    """Keep what change and undo need, all of it on disk: old and new files, the record, the program.

    Args:
        folder: the state folder, on the disk that survives a reset.
        record: `token`, `files` (`[{"path", "text" (None removes), "mode"}]`, written in this order),
            `sysctls` (`{path under /proc/sys: value}`), `rails`, `netdevs`, `snapshot`, `rollback_after_s`,
            and where there are such `foreign_rules` (put back after netplan), `own_rules` (that may go) and
            `target` (a snapshot whose rails the change leads back to); this adds the rest.
        program: the zip of this module (`module_utils/program.py`), left on the node till the change is over.

    Raises:
        OSError: something cannot be written; the node is as it was.
    """
    keep = os.path.join(folder, "backup", f"{_now().replace(':', '')}-{record['token'][:12]}")
    try:
        atomic_files.prepare(record["files"], keep)
        record.update(
            schema=2,
            created=_now(),
            boot_id=boot_id(),
            expires_monotonic_s=time.monotonic() + fires_after_s(record),
            generated=restore.generated_files(),
        )
        confirmed = atomic_files.read_json(os.path.join(folder, "confirmed.json"))
        record["original"] = original.carry(confirmed, record)
        path = os.path.join(folder, "program.pyz")
        atomic_files.write_bytes(path, program)
        for name in ("applied.json", "last.json", "rolled_back.json"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, name))
        for name in ("applied.json", "last.json"):
            atomic_files.reserve(os.path.join(folder, name))
        # Armed before the record is there: without it the units do nothing.
        netplan_boot.arm(folder, sys.executable, path)
        atomic_files.write_file(os.path.join(folder, "pending.json"), json.dumps(record, sort_keys=True))
    except OSError:
        abandon(folder, record)
        raise


def abandon(folder: str, record: Mapping[str, Any]) -> None:
    """Take back what `begin` wrote, before anything was applied."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, "pending.json"))
    netplan_boot.disarm()
    atomic_files.clear(record["files"])


def apply(folder: str, token: str) -> int:
    """Put the new files in place and let netplan apply them; a netplan that fails is undone at once."""
    record = atomic_files.read_json(os.path.join(folder, "pending.json"))
    if record is None or record["token"] != token:
        return 1
    try:
        for entry in record["files"]:
            atomic_files.put(entry)
        status, out, err = restore.run(["netplan", "apply"])
        restore.set_sysctls(record["sysctls"])
        if status == 0:
            restore.put_back_rules(record.get("foreign_rules", []))
        if status == 0 and record.get("target"):
            restore.restore(record["target"], record["netdevs"], rails_only=True)
        said = {"token": token, "status": status, "stderr": (err + out)[-8000:], "finished_at": _now()}
        atomic_files.write_reserved(os.path.join(folder, "applied.json"), said)
    except (OSError, RuntimeError) as error:
        return _undo(folder, token, f"the change could not be applied: {error}")
    restore.say(f"netplan apply ended with {status} {err.strip()}")
    return _undo(folder, token, f"netplan apply ended with {status}: {err.strip()}") if status else 0


def confirm(folder: str, token: str) -> bool:
    """Make the change stay; False when it was undone, or is being undone, before."""
    try:
        with locked(folder):
            record = atomic_files.read_json(os.path.join(folder, "pending.json"))
            if record is None or record["token"] != token:
                return False
            os.rename(os.path.join(folder, "pending.json"), os.path.join(folder, "confirmed.json"))
            # From here on the change stays, whatever else fails.
            _finish(folder, record, {"token": token, "outcome": "confirmed", "finished_at": _now()})
    except (BusyError, FileNotFoundError):
        return False
    restore.run(["systemctl", "stop", unit("expire", token) + ".timer"])
    return True


def _finish(folder: str, record: Mapping[str, Any], last: Mapping[str, Any]) -> None:
    """Sync the rename to disk, then clean up; write errors are only logged."""
    atomic_files.sync_folder(folder)
    netplan_boot.disarm()
    atomic_files.clear(record["files"])
    try:
        atomic_files.write_reserved(os.path.join(folder, "last.json"), last)
    except OSError as error:
        # The names of the records say it too, if with fewer words.
        restore.say(f"last.json: {error}")


def outcome(folder: str, token: str) -> dict[str, Any]:
    """Return `{"outcome": "pending"|"rolling_back"|"rolled_back"|"confirmed"|"unknown", ...}` of a change."""
    last = atomic_files.read_json(os.path.join(folder, "last.json"))
    if last is not None and last["token"] == token:
        return last
    for word in ("pending", "rolling_back", "rolled_back", "confirmed"):
        record = atomic_files.read_json(os.path.join(folder, f"{word}.json"))
        if record is not None and record["token"] == token:
            return {"token": token, "outcome": word}
    return {"token": token, "outcome": "unknown"}


def expire(folder: str, token: str) -> int:
    """Undo the change unless it was confirmed: files, netplan's output, then what files cannot bring back."""
    if outcome(folder, token)["outcome"] in ("pending", "rolling_back"):
        # An apply that is still at work would write over what is restored.
        restore.run(["systemctl", "stop", unit("apply", token) + ".service"])
    return _undo(folder, token, "not confirmed")


def _take(folder: str, token: str | None) -> dict[str, Any] | None:
    """Claim the change for an undo by the rename that a confirmation would need; None: there is none."""
    pending, working = (os.path.join(folder, f"{word}.json") for word in ("pending", "rolling_back"))
    record = atomic_files.read_json(pending)
    if record is not None and token in (None, record["token"]):
        os.rename(pending, working)
        atomic_files.sync_folder(folder)
    record = atomic_files.read_json(working)
    return record if record is not None and token in (None, record["token"]) else None


def _put_files_back(record: Mapping[str, Any]) -> list[str]:
    failed = []
    for entry in reversed(record["files"]):
        try:
            atomic_files.put_back(entry)
        except OSError as error:
            failed.append(f"{entry['path']} could not be restored: {error}")
    return failed


def _undo(folder: str, token: str, reason: str) -> int:
    with locked(folder, wait_s=30.0):
        record = _take(folder, token)
        if record is None:
            return 0
        failed = _put_files_back(record)
        status, _out, err = restore.run(["netplan", "apply"])
        try:
            restore.restore_generated(record["generated"])
        except OSError as error:
            failed.append(f"what netplan had generated could not be restored: {error}")
        left = failed + restore.restore(record["snapshot"], record["netdevs"])
        more = {"netplan_status": status, "stderr": err[-4000:]}
        return _rolled_back(folder, record, reason, left, more)


def _rolled_back(
    folder: str, record: Mapping[str, Any], reason: str, left: Sequence[str], more: Mapping[str, Any]
) -> int:
    last = {
        "token": record["token"],
        "outcome": "rolled_back",
        "reason": reason[-2000:],
        "equal": not left,
        "differences": list(left)[:40],
        "finished_at": _now(),
        **more,
    }
    os.rename(os.path.join(folder, "rolling_back.json"), os.path.join(folder, "rolled_back.json"))
    _finish(folder, record, last)
    verdict = "not as before:" if left else "as before"
    restore.say(f"rolled back ({reason}); the running network is {verdict}")
    for difference in left:
        restore.say(difference)
    return 1 if left else 0


def boot(folder: str) -> int:
    """After a reset inside the window, before networkd: restore the files and have netplan generate anew."""
    with locked(folder, wait_s=30.0):
        record = _take(folder, None)
        if record is None:
            netplan_boot.disarm()
            return 0
        record["failed"] = _put_files_back(record)
        status, out, err = restore.run(["netplan", "generate"])
        # This boot's clock: the controller can query how long `settle` may take.
        record.update(boot_id=boot_id(), expires_monotonic_s=time.monotonic() + restore.BOOT_PATIENCE_S)
        with contextlib.suppress(OSError):
            atomic_files.write_file(os.path.join(folder, "rolling_back.json"), json.dumps(record))
        restore.say(f"files restored; netplan generate ended with {status} {(err + out).strip()}")
    return status


def settle(folder: str) -> int:
    """After `boot` and networkd: see that the rails run as before, replay what files cannot restore."""
    with locked(folder, wait_s=30.0):
        record = _take(folder, None)
        if record is None:
            netplan_boot.disarm()
            return 0
        left = restore.restore(
            record["snapshot"],
            record["netdevs"],
            patience_s=restore.BOOT_PATIENCE_S,
            passive_s=restore.BOOT_PASSIVE_S,
            rails_only=True,
        )
        rules = restore.put_back_rules(record["snapshot"]["rules"])
        left = record.get("failed", []) + left + rules
        return _rolled_back(folder, record, "the node was reset before the change was confirmed", left, {})


def _hurry() -> None:
    """Go before the node's other work, which may be plenty: the deadline holds on a busy node too."""
    with contextlib.suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, 0, -10)


def main() -> int:
    """Run a step of the change on this node's state folder, as the command line says."""
    argv = sys.argv[1:]
    steps = {"apply": apply, "expire": expire}
    if len(argv) == 1 and argv[0] in ("boot", "settle"):
        _hurry()
        return boot(STATE_DIR) if argv[0] == "boot" else settle(STATE_DIR)
    if len(argv) != 2 or argv[0] not in {*steps, "status"}:
        restore.say("usage: program.pyz apply|expire|status TOKEN, or program.pyz boot|settle")
        return 2
    if argv[0] == "status":
        restore.say(json.dumps(outcome(STATE_DIR, argv[1]), indent=1))
        return 0
    _hurry()
    return steps[argv[0]](STATE_DIR, argv[1])
