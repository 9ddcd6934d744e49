# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read clock governors and idle states of the CPUs, and resolve settings for the active driver.

intel_pstate and amd_pstate in active mode choose the clock themselves: their `powersave` is no low clock, the
energy-performance preference decides, and under `performance` they accept no other preference. All others
(acpi-cpufreq, both in passive mode) have the kernel's governors, of which `powersave` pins the lowest clock.
"""

from __future__ import annotations

import os
import re
import typing as t

from .. import node_files
from . import files

CPUS = "sys/devices/system/cpu"
#: Asks for a clock that sinks when there is nothing to do, by what the driver calls it.
SAVING = "saving"
_SAVING_GOVERNORS = ("schedutil", "ondemand", "conservative")
# What scaling_driver says of the two in active mode.
_ACTIVE = ("intel_pstate", "amd-pstate-epp")
_CPU = re.compile(r"cpu(\d+)\Z")
_STATE = re.compile(r"state\d+\Z")
_MODULE = re.compile(r"/cpufreq_(conservative|ondemand|performance|powersave|userspace)\.ko")


class CpuError(Exception):
    """A setting that this CPU's driver does not support; the message has the reason and the choices."""


def governor_path(cpu: str) -> str:
    """Return the path below `root` of the governor of `cpu` (`cpu0`)."""
    return f"{CPUS}/{cpu}/cpufreq/scaling_governor"


def preference_path(cpu: str) -> str:
    """Return the path below `root` of the energy-performance preference of `cpu`."""
    return f"{CPUS}/{cpu}/cpufreq/energy_performance_preference"


def idle_path(state: str) -> str:
    """Return the path below `root` of the switch of an idle state (`cpu0/state3`); 1 there disables it."""
    cpu, name = state.split("/")
    return f"{CPUS}/{cpu}/cpuidle/{name}/disable"


def read(root: str) -> dict[str, t.Any]:
    """Read clock and idle states.

    Returns:
        `governors` ({"cpu0": "powersave"}; empty where there is no cpufreq, or a container only shows it),
        `available_governors` and `available_preferences` (of the first CPU; empty when it lists none; with
        the governors that the kernel would load),
        `cpufreq_driver` (None when absent), `energy_preferences` ({"cpu0": "balance_performance"}),
        `idle_states` ({"cpu0/state3": "0"}), `idle_latency_us` ({"cpu0/state3": 133}).
    """
    names = node_files.list_names(os.path.join(root, CPUS))
    cpus = sorted((name for name in names if _CPU.match(name)), key=lambda name: int(name[3:]))
    idle, latencies = {}, {}
    for cpu in cpus:
        folder = os.path.join(root, CPUS, cpu, "cpuidle")
        states = sorted(filter(_STATE.match, os.listdir(folder))) if os.path.isdir(folder) else []
        for state in (f"{cpu}/{name}" for name in states):
            latency = files.read(os.path.join(folder, state.partition("/")[2], "latency"))
            if latency is not None and latency.isdigit():
                idle[state] = files.read_settable(os.path.join(root, idle_path(state)))
                latencies[state] = int(latency)
    governors = {cpu: files.read_settable(os.path.join(root, governor_path(cpu))) for cpu in cpus}
    with_clock = [cpu for cpu in cpus if governors[cpu] is not None]
    first = os.path.join(root, CPUS, with_clock[0] if with_clock else "cpu0", "cpufreq")
    preferences = {cpu: files.read_settable(os.path.join(root, preference_path(cpu))) for cpu in cpus}
    governors_listed = (files.read(os.path.join(first, "scaling_available_governors")) or "").split()
    driver = files.read(os.path.join(first, "scaling_driver"))
    return {
        "governors": {cpu: governors[cpu] for cpu in with_clock},
        "available_governors": _offered(root, driver, governors_listed),
        "available_preferences": (
            files.read(os.path.join(first, "energy_performance_available_preferences")) or ""
        ).split(),
        "cpufreq_driver": driver,
        "energy_preferences": {cpu: value for cpu, value in preferences.items() if value is not None},
        "idle_states": {state: value for state, value in idle.items() if value is not None},
        "idle_latency_us": latencies,
    }


def _offered(root: str, driver: str | None, listed: list[str]) -> list[str]:
    """Add the governors that the kernel can load as modules to the listed ones."""
    if driver in _ACTIVE or not listed:
        return listed
    modules = "\n".join(node_files.list_modules(root, os.uname().release))
    return listed + sorted(set(_MODULE.findall(modules)) - set(listed))


def governor(state: t.Mapping[str, t.Any], wanted: str | None) -> str | None:
    """Return the governor to set; None leaves them unchanged.

    Raises:
        CpuError: The driver does not offer it.
    """
    offered = state["available_governors"]
    if wanted == SAVING:
        return next((one for one in _SAVING_GOVERNORS if one in offered), "powersave")
    if wanted is not None and offered and wanted not in offered:
        driver = state["cpufreq_driver"] or "(unnamed)"
        message = (
            f"governor {wanted} is not offered by cpufreq driver {driver}, which has: {' '.join(offered)}"
        )
        if driver in _ACTIVE:
            message += (
                f". {driver} is in active mode, has only performance and powersave, and its powersave is no "
                "fixed low clock: energy_performance_preference decides"
            )
        raise CpuError(message)
    return wanted


def preferences(
    state: t.Mapping[str, t.Any], now: str | None, wanted: str | None, recorded: t.Mapping[str, t.Any]
) -> dict[str, str | None]:
    """Return the energy-performance preference that each CPU is to have; None: recorded, but not written.

    A change of governor may change it, so it is recorded together with the governor. Where a governor is
    managed and no preference set, the recorded one is kept.

    Args:
        state: From `read`.
        now: The managed governor, from `governor`.
        wanted: The configured preference.
        recorded: The record of original values.

    Raises:
        CpuError: The driver does not offer it, or not under this governor.
    """
    if now is None and wanted is None:
        return {}
    in_effect = {now} if now is not None else set(state["governors"].values())
    overridden = state["cpufreq_driver"] in _ACTIVE and "performance" in in_effect
    there = state["energy_preferences"]
    if wanted is not None and there:
        if overridden and wanted != "performance":
            raise CpuError(
                f"energy_performance_preference {wanted} is refused by {state['cpufreq_driver']} under "
                "governor performance, which accepts performance alone. Fix: set governor powersave with it, "
                "or no preference"
            )
        offered = state["available_preferences"]
        # Under performance amd_pstate lists that one alone.
        if len(offered) > 1 and wanted not in offered:
            raise CpuError(
                f"energy_performance_preference {wanted} is not offered, there are: {' '.join(offered)}"
            )
    known = recorded.get("energy_preferences", {})
    if overridden:
        values: dict[str, str | None] = dict.fromkeys(there)
    elif wanted is not None:
        return dict.fromkeys(there, wanted)
    else:
        values = {cpu: known.get(cpu) for cpu in there}
    # What a governor that was changed before has made of it is no original.
    changed = recorded.get("governors", {})
    return {cpu: value for cpu, value in values.items() if cpu in known or cpu not in changed}


def idle_states(state: t.Mapping[str, t.Any], limit_us: int | None) -> dict[str, str]:
    """Return the idle states to disable, those that take longer than `limit_us` to leave; None: no limit."""
    if limit_us is None:
        return {}
    return {name: "1" for name in state["idle_states"] if state["idle_latency_us"][name] > limit_us}


def idle_globs(state: t.Mapping[str, t.Any], disabled: t.Collection[str]) -> list[str]:
    """Return patterns of paths for `disabled`, one for a state that is disabled on all CPUs that have it."""
    found = set()
    for name in disabled:
        cpu, kind = name.split("/")
        alike = all(other in disabled for other in state["idle_states"] if other.endswith("/" + kind))
        found.add("/" + idle_path(f"{'cpu*' if alike else cpu}/{kind}"))
    return sorted(found)
