# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a node's kernel, OS, CPU governors, memory-lock limit and tool versions."""

from __future__ import annotations

import re
from typing import Any

from ..catalogue.tests import TOOL_VERSIONS
from . import tools
from .sysfs import Reader

SCHEMA = 1

_CPU = re.compile(r"cpu[0-9]+\Z")
_MEMLOCK = re.compile(r"^Max locked memory\s+(unlimited|[0-9]+)\s", re.M)
UNLIMITED = -1


def governors(reader: Reader) -> dict[str, Any]:
    """Count the CPUs per frequency governor; most virtual machines and containers have none."""
    counts: dict[str, int] = {}
    for cpu in reader.names(reader.sys("devices", "system", "cpu")):
        if _CPU.match(cpu):
            governor = reader.text(reader.sys("devices", "system", "cpu", cpu, "cpufreq", "scaling_governor"))
            if governor:
                counts[governor] = counts.get(governor, 0) + 1
    return {"governors": dict(sorted(counts.items())), "governor_available": bool(counts)}


def memlock_bytes(reader: Reader) -> int | None:
    """Return the soft limit of locked memory of this process, -1 for unlimited."""
    match = _MEMLOCK.search((reader.text(reader.proc("self", "limits")) or "") + "\n")
    if match is None:
        return None
    return UNLIMITED if match.group(1) == "unlimited" else int(match.group(1))


def os_release(reader: Reader) -> dict[str, str | None]:
    """Return id and version of the distribution; rolling ones state no version."""
    values: dict[str, str] = {}
    for line in (reader.text(f"{reader.etc_root}/os-release") or "").splitlines():
        key, sign, value = line.partition("=")
        if sign:
            values[key.strip()] = value.strip().strip("\"'")
    return {"id": values.get("ID"), "version": values.get("VERSION_ID")}


def tool_versions(run: tools.Run) -> dict[str, str | None]:
    """Return the version of each benchmark tool.

    Args:
        run: Runs an argv and returns what it printed on both streams; None when there is no such tool.

    Returns:
        Version by tool; None for a tool that is absent or prints none.
    """
    found: dict[str, str | None] = {}
    for tool, (argv, pattern) in TOOL_VERSIONS.items():
        match = pattern.search(run(argv) or "")
        found[tool] = match.group(1) if match else None
    return found


def read_host(reader: Reader) -> dict[str, Any]:
    """Return the host's part of the facts row; a value that cannot be read is None."""
    return {
        "schema": SCHEMA,
        "boot_id": reader.text(reader.proc("sys", "kernel", "random", "boot_id")),
        "kernel": reader.text(reader.proc("sys", "kernel", "osrelease")),
        "os": os_release(reader),
        "cpu": governors(reader),
        "memlock_bytes": memlock_bytes(reader),
    }
