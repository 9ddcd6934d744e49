# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Detect other work on this node: a measurement must not disturb a job, nor be disturbed by one."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Collection, Mapping

from .. import bounded
from ..channel.errors import MeasurementError
from ..channel.rail_socket import Place
from ..measure import counters

#: The states of a node.
IDLE, BUSY, UNKNOWN = "idle", "busy", "unknown"
_WATCH_S = 0.5
_STEP_TITLE = b"slurmstepd: ["
_MOST_JOB_BYTES, _MOST_PARENTS = 16, 64
# A job without a number in its title. It never counts as this run's own: another job may look the same.
_UNNAMED = "?"


def background_bytes_per_s(place: Place, hca: str | None = None) -> float:
    """Return a rail's traffic over half a second, on its netdev and its RDMA port; the busier direction."""
    return counters.rate_bytes_per_s(place.netdev, _WATCH_S, hca)


def rail_is_busy(
    place: Place, policy: Mapping[str, object], rate: float, hca: str | None = None
) -> MeasurementError | None:
    """Return an error if a rail's traffic exceeds the policy's limit in two samples in a row, or None.

    A driver that updates its counters once a second shows all the traffic in one of two samples.

    Args:
        place: the rail.
        policy: the run's policy.
        rate: the first sample, in bytes per second.
        hca: the rail's RDMA port.
    """
    bound = float(str(policy["busy_bytes_per_s"]))
    if policy["allow_busy"] or rate <= bound:
        return None
    rate = min(rate, background_bytes_per_s(place, hca))
    if rate <= bound:
        return None
    return _busy(
        place.host,
        f"{place.rail} of {place.host} carries {rate / 1e6:.1f} MB/s of other traffic, "
        f"more than {bound / 1e6:.1f}",
    )


def node_is_busy(host: str, policy: Mapping[str, object]) -> MeasurementError | None:
    """Return an error if GPU processes or a Slurm job other than this run's own run here, or None."""
    if policy["allow_busy"]:
        return None
    # The job that holds the node for this run, where the run itself came by SSH.
    state, why = look(host, {str(policy.get("slurm_job") or "")})
    return _busy(host, why) if state == BUSY else None


def look(host: str, held_by: Collection[str] = ()) -> tuple[str, str]:
    """Return whether a node is IDLE, BUSY or UNKNOWN, and why.

    Args:
        host: the node, for the message.
        held_by: Slurm jobs to ignore; the job of this process is ignored too.
    """
    processes, unknown_why = gpu_processes()
    if processes:
        return BUSY, "GPU processes run on {}: {}".format(host, ", ".join(processes[:5]))
    jobs = sorted(slurm_jobs() - own_slurm_job() - set(held_by))
    if jobs:
        named = ", ".join(jobs[:5])
        return BUSY, f"a Slurm job runs on {host} (the slurmstepd of a step is there: {named})"
    if unknown_why:
        return UNKNOWN, f"it is not known whether GPU processes run on {host}: {unknown_why}"
    return IDLE, ""


def gpu_processes() -> tuple[list[str], str]:
    """Return `pid name` of each GPU compute process, and why they are unknown; none without nvidia-smi."""
    argv = ["nvidia-smi", "--query-compute-apps=pid,process_name", "--format=csv,noheader"]
    try:
        printed = bounded.ask(argv, 10, subprocess.DEVNULL)
    except bounded.ToolError as error:
        return [], "" if error.absent else str(error)
    if printed.status != 0:
        return [], f"nvidia-smi ended with {printed.status}: {' '.join(printed.text.split())[:200]}"
    return [
        " ".join(line.replace(",", " ").split()) for line in printed.text.splitlines() if line.strip()
    ], ""


def slurm_jobs(root: str = "/proc") -> set[str]:
    """Return the Slurm jobs with a step here: the slurmstepd of each has the title `slurmstepd: [job.step]`.

    `slurmstepd infinity` belongs to no job: with cgroup/v2 slurmd runs one to keep its systemd scope open.
    """
    found = (_job_of_step(root, pid) for pid in filter(str.isdigit, os.listdir(root)))
    return {job for job in found if job is not None}


def own_slurm_job(root: str = "/proc", pid: str = "self") -> set[str]:
    """Return the Slurm job of this process, if any, by the slurmstepd among its parents.

    The environment is not used: sudo removes it, and any user can set it.
    """
    for _generation in range(_MOST_PARENTS):
        job = _job_of_step(root, pid)
        if job is not None:
            return {job} - {_UNNAMED}
        try:
            with open(os.path.join(root, pid, "stat"), encoding="utf-8", errors="replace") as handle:
                # The name in parentheses may hold anything; the state and the parent follow the last one.
                pid = handle.read().rpartition(")")[2].split()[1]
        except (OSError, IndexError):
            break
    return set()


def _job_of_step(root: str, pid: str) -> str | None:
    """Return the job of a slurmstepd (`614` for `[614.0]` and `[614+1.batch]`); None for other processes."""
    try:
        with open(os.path.join(root, pid, "cmdline"), "rb") as handle:
            title = handle.read(len(_STEP_TITLE) + _MOST_JOB_BYTES)
    except OSError:
        return None
    if not title.startswith(_STEP_TITLE):
        return None
    found = re.match(rb"[0-9]+", title[len(_STEP_TITLE) :])
    return found.group().decode("ascii") if found else _UNNAMED


def _busy(host: str, message: str) -> MeasurementError:
    return MeasurementError(
        "busy", message, host, "wait until the node is free, or set policy.allow_busy: true"
    )
