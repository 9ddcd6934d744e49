# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Remove the secrets of runs whose controller was killed; the next run of any cluster does it.

A run needs its secret until its nodes are staged, and whatever ends a run removes it; a controller that is
killed does not. The results of such a run can still be collected, which needs no secret.
"""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder, RunFolderError

#: A controller whose processes are not visible (another machine or boot) has this long to stage its nodes.
_PATIENCE_S = 86400.0


def controller(pid: int) -> dict[str, Any]:
    """Return the mark by which this machine knows the process again that makes a run.

    Args:
        pid: the process that lives as long as the run: ansible-playbook, not its worker for one task.
    """
    return {"pid": pid, "started_ticks": _started_ticks(pid), "boot_id": _boot_id()}


def forget_secrets(reports: Path, but: str) -> list[str]:
    """Remove the secrets of runs without a controller; return their run ids.

    Args:
        reports: the folder of all clusters' runs.
        but: the run that has just begun.
    """
    forgotten = []
    for path in sorted(reports.glob(f"*/*/{run_folder.SECRET}")):
        folder = RunFolder(path.parent)
        if folder.name != but and not _has_controller(folder, path):
            with suppress(OSError):  # a folder of another user may not be writable
                folder.forget_secret()
                forgotten.append(folder.name)
    return forgotten


def _has_controller(folder: RunFolder, secret: Path) -> bool:
    try:
        manifest = folder.manifest()
        age_s = time.time() - secret.stat().st_mtime
    except (RunFolderError, OSError):
        return True  # being made at this moment, or no run folder at all
    if manifest.get("end"):
        return False
    mark = manifest.get("controller")
    if not isinstance(mark, dict) or mark.get("boot_id") != _boot_id() or not mark.get("started_ticks"):
        return age_s < _PATIENCE_S
    return bool(_started_ticks(mark.get("pid")) == mark["started_ticks"])


def _started_ticks(pid: object) -> int | None:
    """Return when a process was started, in the kernel's ticks since boot; None where there is none.

    The kernel gives numbers of processes again; number and start together are one process's own.
    """
    return process_field(pid, 22)


def process_field(pid: object, number: int) -> int | None:
    """Return a number of /proc/PID/stat, by its place in proc_pid_stat(5); None where there is none."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        # The second field is the program's name in brackets, and may hold anything.
        return int(stat.rpartition(")")[2].split()[number - 3])
    except (OSError, ValueError, IndexError):
        return None


def _boot_id() -> str | None:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return None
