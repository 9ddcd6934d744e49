# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""The running network of this node: read, and led back to what it was.

Packed into the node's own program together with `transaction`, so the standard library is all there is.
"""

from __future__ import annotations

import contextlib
import glob
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

from .. import atomic_files
from . import snapshot as netplan_snapshot

GENERATED_DIR = "/run/systemd/network"
PATIENCE_S = 15.0
# After a boot networkd first brings up what the files say; only what it leaves undone is then replayed.
BOOT_PASSIVE_S = 20.0
BOOT_PATIENCE_S = 60.0
_NETPLAN_PATIENCE_S = 60.0


def say(text: str) -> None:
    """Write to the journal of the unit that this runs in."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def run(argv: Sequence[str]) -> tuple[int, str, str]:
    """Run a command to its end; missing is exit status 127 and too slow is 124, as a shell has it."""
    try:
        # In a systemd unit there is no AnsibleModule whose run_command could do this.
        done = subprocess.run(  # pylint: disable=ansible-bad-function
            list(argv),
            capture_output=True,
            text=True,
            check=False,
            stdin=subprocess.DEVNULL,
            timeout=_NETPLAN_PATIENCE_S,
        )
    except subprocess.TimeoutExpired:
        return 124, "", f"not done after {_NETPLAN_PATIENCE_S:.0f} s"
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


def generated_files(folder: str = GENERATED_DIR) -> dict[str, str]:
    """Return `{path: text}` of what netplan generated for networkd, the part that is loaded now."""
    texts = {}
    for path in sorted(glob.glob(os.path.join(folder, "*netplan-*"))):
        with open(path, encoding="utf-8", errors="replace") as handle:
            texts[path] = handle.read()
    return texts


def restore_generated(before: Mapping[str, str]) -> None:
    """Take back what netplan swept in: an edit that lay unapplied in another's file was no part of before."""
    now = generated_files()
    if now == dict(before):
        return
    for path in now:
        if path not in before:
            os.unlink(path)
    for path, text in before.items():
        if now.get(path) != text:
            atomic_files.write_file(path, text, 0o644)
    run(["networkctl", "reload"])


def set_sysctls(wanted: Mapping[str, str]) -> None:
    """Write `{path under /proc/sys: value}` where the kernel has another; a refusal is for the proof."""
    for path, value in wanted.items():
        if netplan_snapshot.read_sysctl(path) not in (None, value):
            place = os.path.join("/proc/sys", path)
            with contextlib.suppress(OSError), open(place, "w", encoding="ascii") as handle:
                handle.write(value)


def restore(
    before: netplan_snapshot.Snapshot,
    netdevs: Sequence[str],
    *,
    patience_s: float | None = None,
    passive_s: float = 0.0,
    rails_only: bool = False,
) -> list[str]:
    """Lead the running network back to a snapshot, and see that it stays; returns what still differs.

    Args:
        before: where to.
        netdevs: the rails' netdevs.
        patience_s: after that (`PATIENCE_S` where not given), what differs is given up on.
        passive_s: so long networkd is left to do it.
        rails_only: compare and change nothing but the rails. After a boot, or when time has passed since the
            snapshot, what else is new is somebody's own business.
    """
    sysctls = list(before["sysctls"])
    wanted = netplan_snapshot.of_rails(before, netdevs) if rails_only else before
    started = time.monotonic()
    calm = 0
    left: list[str] = []
    end = started + (PATIENCE_S if patience_s is None else patience_s)
    while time.monotonic() < end:
        taken = snapshot(netdevs, sysctls)
        now = netplan_snapshot.of_rails(taken, netdevs) if rails_only else taken
        left = netplan_snapshot.differences(wanted, now, netdevs)
        # networkd goes on working after `netplan apply` returns: what is right must stay right for a second.
        calm = calm + 1 if not left else 0
        if calm == 3:
            break
        if left and time.monotonic() >= started + passive_s:
            replay(netplan_snapshot.replay(wanted, now, netdevs))
            set_sysctls(before["sysctls"])
        time.sleep(0.5)
    return left


def replay(argvs: Sequence[Sequence[str]]) -> None:
    """Run `ip` commands, and log each with its result."""
    for argv in argvs:
        status, _out, err = run(argv)
        say(f"{' '.join(argv)} -> {status} {err.strip()}")


def put_back_rules(rules: Sequence[Mapping[str, Any]], patience_s: float = 5.0) -> list[str]:
    """Add again the rules that networkd deletes, and see that they stay for a second; say which did not."""
    end = time.monotonic() + patience_s
    calm = 0
    missing: list[Any] = []
    while rules and calm < 3 and time.monotonic() < end:
        missing = netplan_snapshot.missing_rules(rules, snapshot([])["rules"])
        calm = 0 if missing else calm + 1
        replay([netplan_snapshot.rule_argv("add", rule) for rule in missing])
        time.sleep(0.4)
    return [f"rule {' '.join(netplan_snapshot.rule_argv('add', rule))} is gone" for rule in missing]
