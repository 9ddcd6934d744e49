# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""List a Slurm cluster's nodes by one `sinfo`: who is idle, who is drained, and by whom.

Fields and states are those of sinfo(1) of Slurm 22.05 to 25.05, "NODE STATE CODES"
(https://slurm.schedmd.com/sinfo.html). Only a node whose state is plainly `idle` counts as idle: one that
does not respond (`idle*`), is powered down (`idle~`), or is planned for a larger job (`planned`, `idle-`) is
left alone.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.state import slurm

#: Name, state, CPUs as allocated/idle/other/total, GRES, reason; the reason may hold anything, so it is last.
ARGV = ("sinfo", "--noheader", "--all", "--Node", "--format=%N|%T|%C|%G|%E")
_LIMIT_S = 60.0
_GPUS = re.compile(r"(?:^|,)gpu(?::[^:,()]+)?:([0-9]+)")
_CPUS = re.compile(r"([0-9]+)/[0-9]+/[0-9]+/[0-9]+")
_DRAINED = ("drained", "draining", "drain", "drng")
#: What sinfo prints where a node has no reason.
_NO_REASON = ("none", "(null)", "")


class SinfoError(Exception):
    """Slurm is not here, or does not answer; the message says what, and what to do."""


class Listed(NamedTuple):
    """A node as sinfo lists it.

    Attributes:
        name: its name in Slurm.
        state: as printed: `idle`, `mixed-`, `drained*`.
        is_idle: no job has it, and Slurm would start one there now.
        is_drained: no new job comes to it.
        has_jobs: a job has some of its CPUs, or is ending there.
        gpus: its GPUs by GRES; 0 where it has none.
        reason: why it is drained or down; empty without one.
    """

    name: str
    state: str
    is_idle: bool
    is_drained: bool
    has_jobs: bool
    gpus: int
    reason: str

    def is_drained_by(self, prefix: str) -> bool:
        """Tell whether it is drained with a reason that begins so."""
        return self.is_drained and self.reason.startswith(prefix)


def is_here(path: str | None = None) -> bool:
    """Tell whether this machine has Slurm's programs."""
    return shutil.which(ARGV[0], path=path) is not None


def ask() -> dict[str, Listed]:
    """Return the cluster's nodes by name.

    Raises:
        SinfoError: there is no sinfo here, or it does not answer.
    """
    fix = "Fix: run it on a machine of the Slurm cluster, where `scontrol ping` answers"
    try:
        done = subprocess.run(
            ARGV, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SinfoError(f"sinfo: {error}. {fix}") from error
    if done.returncode != 0:
        words = " ".join((done.stderr or done.stdout).split())[:300]
        raise SinfoError(f"sinfo: {words or done.returncode}. {fix}")
    return parse(done.stdout)


def parse(text: str) -> dict[str, Listed]:
    """Read what sinfo prints for ARGV; a node of several partitions has several lines, and is one node.

    Raises:
        SinfoError: a line is none of its own.
    """
    found: dict[str, Listed] = {}
    for line in filter(str.strip, text.splitlines()):
        fields = line.split("|", 4)
        if len(fields) != 5 or not fields[0].strip() or not fields[1].strip():
            fix = f"Fix: report it with the output of `{' '.join(ARGV)}`"
            raise SinfoError(f"sinfo printed a line that is not understood: {line[:200]!r}. {fix}")
        names, state, cpus, gres, reason = (field.strip() for field in fields)
        for name in _names(names):
            one = _listed(name, state, cpus, gres, reason)
            before = found.get(name)
            # Of two lines that differ, the more careful one counts: a job may have begun in between.
            if before is None or (before.is_idle and not one.is_idle):
                found[name] = one
    return found


def _listed(name: str, state: str, cpus: str, gres: str, reason: str) -> Listed:
    base = state.rstrip(slurm.MARKS).lower()
    allocated = _CPUS.fullmatch(cpus)
    has_jobs = allocated is None or int(allocated[1]) > 0
    has_jobs = has_jobs or base.rstrip("+") in ("allocated", "mixed", "completing", "draining")
    return Listed(
        name=name,
        state=state,
        is_idle=state.lower() == "idle" and not has_jobs,
        is_drained=base in _DRAINED,
        has_jobs=has_jobs,
        gpus=sum(int(count) for count in _GPUS.findall(gres)),
        reason="" if reason in _NO_REASON else reason,
    )


def _names(listed: str) -> Iterable[str]:
    """Return the names of a line: one with --Node, a range where an older sinfo folds alike nodes."""
    if "[" not in listed and "," not in listed:
        return [listed]
    try:
        from ClusterShell.NodeSet import NodeSet, NodeSetException
    except ImportError as error:
        raise SinfoError(f"sinfo folded the nodes {listed!r}; install ClusterShell to unfold them") from error
    try:
        return [str(name) for name in NodeSet(listed)]
    except NodeSetException as error:
        raise SinfoError(f"sinfo's node range {listed!r} is not understood: {error}") from error


def of_inventory(nodes: Iterable[str], listed: Mapping[str, Listed]) -> dict[str, Listed]:
    """Return inventory node -> its node in Slurm, by its name or by that without its domain."""
    found = {}
    for node in nodes:
        name = next((one for one in (node, node.partition(".")[0]) if one in listed), None)
        if name is not None:
            found[node] = listed[name]
    return found
