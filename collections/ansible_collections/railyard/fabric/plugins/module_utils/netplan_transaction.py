# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The pending network change on the node: kept, applied, confirmed or undone, whoever is still alive.

`netplan_stage` writes the record and arms the timer; `apply` and `expire` then run in systemd units of their
own, so neither a lost connection nor a killed controller stops them. Confirming and expiring both rename
`pending.json`, and only one rename can succeed.

This module and those it imports are also packed into `program.pyz` on the node: the units run it,
and what a person at the console can run: `python3 /var/lib/railyard/rail_network/program.pyz expire TOKEN`.
"""

from __future__ import annotations

import contextlib
import datetime
import fcntl
import glob
import io
import json
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils import netplan_disk, netplan_snapshot

STATE_DIR = "/var/lib/railyard/rail_network"
UNIT = "railyard-rail-network"
_PACKAGE = "ansible_collections/railyard/fabric/plugins/module_utils"
_MAIN = """import sys
from ansible_collections.railyard.fabric.plugins.module_utils import netplan_transaction
sys.exit(netplan_transaction.main(sys.argv[1:]))
"""
_ROLLBACK_PATIENCE_S = 15.0
# Undoing takes about 2 s; the timer fires this long before the deadline, so that the node is back by then.
UNDO_ALLOWANCE_S = 5


class BusyError(RuntimeError):
    """Another change is being applied or undone on this node."""


def _say(text: str) -> None:
    # Goes to the journal of the unit that this runs in.
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")  # noqa: UP017 - nodes may have Python 3.9


def run(argv: Sequence[str]) -> tuple[int, str, str]:
    """Run a command to its end; a missing command is exit status 127, as a shell has it."""
    try:
        # In a systemd unit there is no AnsibleModule whose run_command could do this.
        done = subprocess.run(  # pylint: disable=ansible-bad-function
            list(argv), capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        )
    except OSError as error:
        return 127, "", str(error)
    return done.returncode, done.stdout, done.stderr


def snapshot(netdevs: Sequence[str], sysctls: Sequence[str] = ()) -> netplan_snapshot.Snapshot:
    """Take the running network of this node, and the sysctls (paths under /proc/sys) that a change sets."""

    def output(argv: list[str]) -> str:
        status, out, err = run(argv)
        if status != 0:
            raise RuntimeError(f"{' '.join(argv)}: {err.strip()}")
        return out

    return netplan_snapshot.take(output, netdevs, sysctls)


@contextlib.contextmanager
def locked(folder: str, wait_s: float = 2.0) -> Iterator[None]:
    """Hold the node's lock on network changes; BusyError when another keeps it longer than `wait_s`."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with open(os.path.join(folder, "lock"), "w", encoding="ascii") as handle:
        end = time.monotonic() + wait_s
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError:
                if time.monotonic() > end:
                    raise BusyError(
                        "another network change is being applied or undone on this node"
                    ) from None
                time.sleep(0.1)
        yield


def unit(kind: str, token: str) -> str:
    """Return the name (without suffix) of the systemd unit of a change: kind is `apply` or `expire`."""
    return f"{UNIT}-{kind}-{token[:12]}"


def boot_id() -> str:
    """Return this boot's id: a record of another boot has lost its timer."""
    with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as handle:
        return handle.read().strip()


def generated_files(folder: str = "/run/systemd/network") -> dict[str, str]:
    """Return `{path: text}` of what netplan generated for networkd, the part that is loaded now."""
    texts = {}
    for path in sorted(glob.glob(os.path.join(folder, "*netplan-*"))):
        with open(path, encoding="utf-8", errors="replace") as handle:
            texts[path] = handle.read()
    return texts


def in_flight(folder: str) -> dict[str, Any] | None:
    """Return the record of a change that is neither confirmed nor undone, or None."""
    for name in ("pending.json", "rolling_back.json"):
        record = netplan_disk.read_json(os.path.join(folder, name))
        if record is not None:
            return record
    return None


def is_stale(record: Mapping[str, Any]) -> bool:
    """Say whether nobody will finish this change: its boot is over, or its deadline long past."""
    return settled_within_s(record) < 0


def settled_within_s(record: Mapping[str, Any]) -> float:
    """Return within how many seconds a change in flight is confirmed or undone; negative: it is stale."""
    if record["boot_id"] != boot_id():
        return -1.0
    return float(record["expires_monotonic_s"] + _ROLLBACK_PATIENCE_S + 30 - time.monotonic())


def fires_after_s(record: Mapping[str, Any]) -> int:
    """Return when the timer fires, so that the node is as before within `rollback_after_s`."""
    return int(record["rollback_after_s"]) - UNDO_ALLOWANCE_S


def begin(folder: str, record: dict[str, Any], sources: Mapping[str, str]) -> None:
    """Keep what change and undo need, all of it on disk: old and new files, the record, the program.

    Args:
        folder: the state folder, on the disk that survives a reset.
        record: `token`, `files` (`[{"path", "text" (None removes the file), "mode"}]`, written in this order),
            `sysctls` (`{path under /proc/sys: value}`), `rails`, `netdevs`, `snapshot`, `rollback_after_s`;
            this adds the rest.
        sources: `{module name: source}` of the modules the program consists of.

    Raises:
        OSError: something cannot be written; the node is as it was.
    """
    keep = os.path.join(folder, "backup", f"{_now().replace(':', '')}-{record['token'][:12]}")
    try:
        netplan_disk.prepare(record["files"], keep)
        record.update(
            schema=2,
            created=_now(),
            boot_id=boot_id(),
            expires_monotonic_s=time.monotonic() + fires_after_s(record),
            generated=generated_files(),
        )
        _write_program(os.path.join(folder, "program.pyz"), sources)
        for name in ("applied.json", "last.json"):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(os.path.join(folder, name))
            netplan_disk.reserve(os.path.join(folder, name))
        netplan_disk.write_file(os.path.join(folder, "pending.json"), json.dumps(record, sort_keys=True))
    except OSError:
        abandon(folder, record)
        raise


def abandon(folder: str, record: Mapping[str, Any]) -> None:
    """Take back what `begin` wrote, before anything was applied."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(os.path.join(folder, "pending.json"))
    netplan_disk.clear(record["files"])


def _write_program(path: str, sources: Mapping[str, str]) -> None:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("__main__.py", _MAIN)
        # Python finds packages without __init__.py in folders, but not inside a zip file.
        folders = _PACKAGE.split("/")
        for depth in range(len(folders)):
            archive.writestr("/".join([*folders[: depth + 1], "__init__.py"]), "")
        for name, source in sources.items():
            archive.writestr(f"{_PACKAGE}/{name}.py", source)
    netplan_disk.write_bytes(path, buffer.getvalue())


def apply(folder: str, token: str) -> int:
    """Write the candidate and let netplan apply it; a netplan that fails is undone at once."""
    record = netplan_disk.read_json(os.path.join(folder, "pending.json"))
    if record is None or record["token"] != token:
        return 1
    for entry in record["files"]:
        netplan_disk.put(entry)
    status, out, err = run(["netplan", "apply"])
    set_sysctls(record["sysctls"])
    said = {"token": token, "status": status, "stderr": (err + out)[-8000:], "finished_at": _now()}
    netplan_disk.write_reserved(os.path.join(folder, "applied.json"), said)
    _say(f"netplan apply ended with {status} {err.strip()}")
    return _undo(folder, token, f"netplan apply ended with {status}: {err.strip()}") if status else 0


def confirm(folder: str, token: str) -> bool:
    """Make the change stay; False when it was undone, or is being undone, before."""
    try:
        with locked(folder):
            record = netplan_disk.read_json(os.path.join(folder, "pending.json"))
            if record is None or record["token"] != token:
                return False
            os.rename(os.path.join(folder, "pending.json"), os.path.join(folder, "confirmed.json"))
            netplan_disk.sync_folder(folder)
            netplan_disk.clear(record["files"])
            last = {"token": token, "outcome": "confirmed", "finished_at": _now()}
            netplan_disk.write_reserved(os.path.join(folder, "last.json"), last)
    except (BusyError, FileNotFoundError):
        return False
    run(["systemctl", "stop", unit("expire", token) + ".timer"])
    return True


def outcome(folder: str, token: str) -> dict[str, Any]:
    """Return `{"outcome": "pending"|"rolling_back"|"rolled_back"|"confirmed"|"unknown", ...}` of a change."""
    last = netplan_disk.read_json(os.path.join(folder, "last.json"))
    if last is not None and last["token"] == token:
        return last
    for name, word in (("pending.json", "pending"), ("rolling_back.json", "rolling_back")):
        record = netplan_disk.read_json(os.path.join(folder, name))
        if record is not None and record["token"] == token:
            return {"token": token, "outcome": word}
    return {"token": token, "outcome": "unknown"}


def expire(folder: str, token: str) -> int:
    """Undo the change unless it was confirmed: files, netplan's output, then what files cannot bring back."""
    if outcome(folder, token)["outcome"] in ("pending", "rolling_back"):
        # An apply that is still at work would write over what is restored.
        run(["systemctl", "stop", unit("apply", token) + ".service"])
    return _undo(folder, token, "not confirmed")


def _undo(folder: str, token: str, reason: str) -> int:
    with locked(folder, wait_s=30.0):
        working = os.path.join(folder, "rolling_back.json")
        with contextlib.suppress(FileNotFoundError):
            if (netplan_disk.read_json(os.path.join(folder, "pending.json")) or {}).get("token") == token:
                os.rename(os.path.join(folder, "pending.json"), working)
        record = netplan_disk.read_json(working)
        if record is None or record["token"] != token:
            return 0
        for entry in reversed(record["files"]):
            netplan_disk.put_back(entry)
        status, _out, err = run(["netplan", "apply"])
        _restore_generated(record["generated"])
        left = _restore_running(record)
        last = {
            "token": token,
            "outcome": "rolled_back",
            "reason": reason,
            "equal": not left,
            "differences": left,
            "netplan_status": status,
            "stderr": err,
            "finished_at": _now(),
        }
        netplan_disk.write_reserved(os.path.join(folder, "last.json"), last)
        os.unlink(working)
        netplan_disk.sync_folder(folder)
    _say(f"rolled back ({reason}); the running network is {'as before' if not left else 'not as before:'}")
    for difference in left:
        _say(difference)
    return 0 if not left else 1


def _restore_generated(before: Mapping[str, str]) -> None:
    """Take back what netplan swept in: an edit that lay unapplied in another's file was no part of before."""
    now = generated_files()
    if now == dict(before):
        return
    for path in now:
        if path not in before:
            os.unlink(path)
    for path, text in before.items():
        if now.get(path) != text:
            netplan_disk.write_file(path, text, 0o644)
    run(["networkctl", "reload"])


def _restore_running(record: Mapping[str, Any]) -> list[str]:
    before, netdevs = record["snapshot"], record["netdevs"]
    end = time.monotonic() + _ROLLBACK_PATIENCE_S
    calm = 0
    left: list[str] = []
    while time.monotonic() < end:
        now = snapshot(netdevs, list(before["sysctls"]))
        left = netplan_snapshot.differences(before, now, netdevs)
        # networkd goes on working after `netplan apply` returns: what is right must stay right for a second.
        calm = calm + 1 if not left else 0
        if calm == 3:
            break
        if left:
            for argv in netplan_snapshot.replay(before, now, netdevs):
                status, _out, err = run(argv)
                _say(f"{' '.join(argv)} -> {status} {err.strip()}")
            set_sysctls(before["sysctls"])
        time.sleep(0.5)
    return left


def set_sysctls(wanted: Mapping[str, str]) -> None:
    """Write `{path under /proc/sys: value}` where the kernel has another; what it refuses, the proof finds."""
    for path, value in wanted.items():
        if netplan_snapshot.read_sysctl(path) not in (None, value):
            with contextlib.suppress(OSError), open(os.path.join("/proc/sys", path), "w") as handle:
                handle.write(value)


def main(argv: Sequence[str]) -> int:
    """Run `apply TOKEN`, `expire TOKEN` or `status TOKEN` on this node's state folder."""
    actions = {"apply": apply, "expire": expire}
    if len(argv) != 2 or argv[0] not in {*actions, "status"}:
        _say("usage: program.pyz apply|expire|status TOKEN")
        return 2
    if argv[0] == "status":
        _say(json.dumps(outcome(STATE_DIR, argv[1]), indent=1))
        return 0
    return actions[argv[0]](STATE_DIR, argv[1])
