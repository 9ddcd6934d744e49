# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CPU governors and sysctls of the running kernel: read them, set them, and put back what was there before.

What a file in `/etc` cannot do: change the kernel that runs now, notice that somebody changed it since, and
know what it was. `root` is `/` on a node and a folder in the tests.
"""

from __future__ import annotations

import glob
import json
import os
import re
import typing as t

SCHEMA = 1
_GOVERNOR_GLOB = "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"


class KernelSettingsError(Exception):
    """A setting that cannot be had on this node; the message says which, why, and what to do."""


class Write(t.NamedTuple):
    """One value to write: the path below `root`, what it holds now, what it is to hold."""

    path: str
    before: str
    after: str


def sysctl_path(key: str) -> str:
    """Return the path below `root` of a sysctl key in either spelling.

    `net.core.rmem_max` is `proc/sys/net/core/rmem_max`; one with slashes (`net/ipv4/conf/eth0.100/rp_filter`,
    for names with a dot in them) is taken as it stands.
    """
    return "proc/sys/" + (key if "/" in key else key.replace(".", "/"))


def governor_path(cpu: str) -> str:
    """Return the path below `root` of the governor of `cpu` (`cpu0`)."""
    return f"sys/devices/system/cpu/{cpu}/cpufreq/scaling_governor"


def read_state(root: str, sysctl_keys: t.Iterable[str]) -> dict[str, t.Any]:
    """Read what the kernel has now.

    Args:
        root: `/`, or a folder that looks like it.
        sysctl_keys: The keys to read.

    Returns:
        `governors` ({"cpu0": "powersave"}; empty where there is no cpufreq), `available_governors` (of the
        first CPU, empty when the driver does not list them), `cpufreq_driver` and `intel_pstate` (None when
        absent), `sysctl` ({key: value}, None for a key this kernel or network namespace lacks or only shows).
    """
    governors = {}
    for path in glob.glob(os.path.join(root, _GOVERNOR_GLOB)):
        value = _read(path)
        if value is not None:
            governors[path.split(os.sep)[-3]] = value
    cpus = sorted(governors, key=_cpu_number)
    first = os.path.dirname(os.path.join(root, governor_path(cpus[0] if cpus else "cpu0")))
    return {
        "governors": {cpu: governors[cpu] for cpu in cpus},
        "available_governors": (_read(os.path.join(first, "scaling_available_governors")) or "").split(),
        "cpufreq_driver": _read(os.path.join(first, "scaling_driver")),
        "intel_pstate": _read(os.path.join(root, "sys/devices/system/cpu/intel_pstate/status")),
        "sysctl": {key: _read_settable(os.path.join(root, sysctl_path(key))) for key in sysctl_keys},
    }


def plan_present(
    state: t.Mapping[str, t.Any], governor: str | None, sysctl: t.Mapping[str, str]
) -> tuple[list[Write], list[str]]:
    """Say what has to be written for `governor` on every CPU and for `sysctl`.

    Args:
        state: From `read_state`.
        governor: The governor wanted; None leaves the governors alone.
        sysctl: Key to value wanted.

    Returns:
        The writes, and the keys that this node does not have or may not set.

    Raises:
        KernelSettingsError: The CPU's driver does not offer the governor.
    """
    writes = []
    if governor is not None:
        offered = state["available_governors"]
        if offered and governor not in offered:
            raise KernelSettingsError(_not_offered(governor, state))
        held = state["governors"].items()
        writes += [Write(governor_path(cpu), now, governor) for cpu, now in held if now != governor]
    absent = []
    for key, value in sysctl.items():
        now = state["sysctl"][key]
        if now is None:
            absent.append(key)
        elif now.split() != value.split():
            writes.append(Write(sysctl_path(key), now, value))
    return writes, absent


def plan_restored(state: t.Mapping[str, t.Any], originals: t.Mapping[str, t.Any]) -> list[Write]:
    """Say what has to be written to have the recorded values again; a CPU or key that is gone is left out."""
    writes = []
    for cpu, value in originals.get("governors", {}).items():
        now = state["governors"].get(cpu)
        if now is not None and now != value:
            writes.append(Write(governor_path(cpu), now, value))
    for key, value in originals.get("sysctl", {}).items():
        now = state["sysctl"].get(key)
        if now is not None and now.split() != value.split():
            writes.append(Write(sysctl_path(key), now, value))
    return writes


def split_released(
    recorded: t.Mapping[str, t.Any] | None, governor: str | None, sysctl: t.Iterable[str]
) -> tuple[dict[str, t.Any], dict[str, t.Any]]:
    """Tell what of the record is still held from what nobody asks for any more.

    Returns:
        Two records: kept, and released (whose values go back to where they were).
    """
    known = recorded or {}
    keys = set(sysctl)
    governors = dict(known.get("governors", {}))
    values = known.get("sysctl", {}).items()
    kept = {
        "governors": governors if governor is not None else {},
        "sysctl": {key: value for key, value in values if key in keys},
    }
    released = {
        "governors": governors if governor is None else {},
        "sysctl": {key: value for key, value in values if key not in keys},
    }
    return kept, released


def merge_originals(
    recorded: t.Mapping[str, t.Any], state: t.Mapping[str, t.Any], governor: str | None, keys: t.Iterable[str]
) -> dict[str, t.Any] | None:
    """Add to the record what is about to be held and is not in it yet; what is in it is never changed.

    Args:
        recorded: What is kept, from `split_released`.
        state: From `read_state`.
        governor: The governor wanted; None leaves the governors alone.
        keys: The sysctls wanted.

    Returns:
        The record, None when nothing is held.
    """
    governors = dict(state["governors"]) if governor is not None else {}
    governors.update(recorded["governors"])
    sysctl = {key: state["sysctl"][key] for key in keys if state["sysctl"][key] is not None}
    sysctl.update(recorded["sysctl"])
    if not governors and not sysctl:
        return None
    return {"schema": SCHEMA, "governors": governors, "sysctl": sysctl}


def union(
    recorded: t.Mapping[str, t.Any] | None, after: t.Mapping[str, t.Any] | None
) -> dict[str, t.Any] | None:
    """Return a record of what either has; the older value counts."""
    if recorded is None or after is None:
        return dict(recorded or after or {}) or None
    names = ("governors", "sysctl")
    return {"schema": SCHEMA, **{name: {**after[name], **recorded.get(name, {})} for name in names}}


def load_originals(path: str) -> dict[str, t.Any] | None:
    """Read the record, None when there is none.

    Raises:
        KernelSettingsError: The file is no record; to go on would record changed values as original.
    """
    try:
        with open(path, encoding="utf-8") as handle:
            document = json.load(handle)
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise KernelSettingsError(
            f"{path} cannot be read as the record of original values ({error}): repair or remove it"
        ) from error
    if not isinstance(document, dict) or document.get("schema") != SCHEMA:
        raise KernelSettingsError(f"{path} is not a record of schema {SCHEMA}: repair or remove it")
    return document


def store_originals(path: str, document: t.Mapping[str, t.Any]) -> None:
    """Write the record so that after a power cut it is either the old one or the new one."""
    os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
    draft = path + ".new"
    with open(draft, "w", encoding="utf-8") as handle:
        json.dump(document, handle, indent=2, sort_keys=True)
        handle.write("\n")
        handle.flush()
        os.fsync(handle.fileno())
    os.chmod(draft, 0o644)
    os.replace(draft, path)


def remove_originals(path: str) -> None:
    """Remove the record; what it said has been put back."""
    if os.path.exists(path):
        os.remove(path)


def apply(root: str, writes: t.Iterable[Write]) -> None:
    """Write each value; all are tried before the first failure is told.

    Raises:
        KernelSettingsError: Names every value that the kernel refused.
    """
    refused = []
    for write in writes:
        try:
            with open(os.path.join(root, write.path), "w", encoding="ascii") as handle:
                handle.write(write.after + "\n")
        except OSError as error:
            refused.append(f"/{write.path} = {write.after}: {error.strerror or error}")
    if refused:
        raise KernelSettingsError(
            f"the kernel refused {'; '.join(refused)} (read-only: a container that shares its host's kernel; "
            "invalid: not a value of this setting)"
        )


def _not_offered(governor: str, state: t.Mapping[str, t.Any]) -> str:
    """Say which governors there are, and why intel_pstate has so few."""
    driver = state["cpufreq_driver"] or "(unnamed)"
    offered = " ".join(state["available_governors"])
    message = f"governor {governor} is not offered by cpufreq driver {driver}, which has: {offered}"
    if state["intel_pstate"] == "active":
        message += (
            ". intel_pstate in active mode has only performance and powersave, and its powersave is no fixed "
            "low clock: energy_performance_preference decides"
        )
    return message


def _cpu_number(cpu: str) -> int:
    digits = re.sub(r"\D", "", cpu)
    return int(digits) if digits else -1


def _read_settable(path: str) -> str | None:
    """Return the value, None as well when nobody may write it.

    Later kernels show net.core.rmem_max and its like in every network namespace; only the first may set them.
    """
    try:
        may_be_set = bool(os.stat(path).st_mode & 0o222)
    except OSError:
        return None
    return _read(path) if may_be_set else None


def _read(path: str) -> str | None:
    """Return the text without its newline, None when it is absent or cannot be read (an offline CPU)."""
    try:
        with open(path, encoding="ascii", errors="replace") as handle:
            return handle.read().strip()
    except OSError:
        return None
