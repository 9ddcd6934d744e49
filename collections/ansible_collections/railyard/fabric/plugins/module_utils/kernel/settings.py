# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""CPU governors, sysctls and switches of sysfs in the running kernel: what there is, what has to be written.

What a file in `/etc` cannot do: change the kernel that runs now, notice that somebody changed it since, and
know what it was. `root` is `/` on a node and a folder in the tests.
"""

from __future__ import annotations

import glob
import os
import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils.kernel import originals

_GOVERNOR_GLOB = "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor"
_QDISC = "net.core.default_qdisc"
# In every kernel that has a network: net/sched/sch_generic.c, sch_fifo.c and sch_mq.c are no modules.
_BUILT_IN_QDISCS = ("bfifo", "mq", "noqueue", "pfifo", "pfifo_fast")
_CHOSEN = re.compile(r"\[(\S+)\]")


class KernelSettingsError(Exception):
    """A setting that cannot be had on this node; the message says which, why, and what to do."""


class Wanted(t.NamedTuple):
    """What is asked of a node.

    Attributes:
        governor: For every CPU; None leaves the governors alone.
        sysctl: Key to value.
        sysfs: Path below `/sys` to value.
    """

    governor: str | None = None
    sysctl: t.Mapping[str, str] = {}
    sysfs: t.Mapping[str, str] = {}

    def sections(self) -> set[str]:
        """Return the sections of the record of which something is asked for."""
        asked = {"governors": self.governor is not None, "sysctl": self.sysctl, "sysfs": self.sysfs}
        return {section for section, value in asked.items() if value}


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


def sysfs_path(name: str) -> str:
    """Return the path below `root` of a file named by its path below `/sys`."""
    return f"sys/{name}"


_PATHS: dict[str, t.Callable[[str], str]] = {
    "governors": governor_path,
    "sysctl": sysctl_path,
    "sysfs": sysfs_path,
}


def read(root: str, wanted: Wanted, recorded: originals.Record | None) -> dict[str, t.Any]:
    """Read what the kernel has now of what is wanted or on record.

    Returns:
        `governors` ({"cpu0": "powersave"}; empty where there is no cpufreq), `available_governors` (of the
        first CPU, empty when the driver does not list them), `cpufreq_driver` and `intel_pstate` (None when
        absent), `sysctl` and `sysfs` ({key: value}, None for what this kernel or namespace lacks or only
        shows), `offered` (path below `/sys` to the words that a file with choices has).
    """
    known = recorded or {}
    governors = {}
    for path in glob.glob(os.path.join(root, _GOVERNOR_GLOB)):
        value = _read(path)
        if value is not None:
            governors[path.split(os.sep)[-3]] = value
    cpus = sorted(governors, key=_cpu_number)
    first = os.path.dirname(os.path.join(root, governor_path(cpus[0] if cpus else "cpu0")))
    keys = {*wanted.sysctl, *known.get("sysctl", {})}
    sysctl = {key: _read_settable(os.path.join(root, sysctl_path(key))) for key in keys}
    qdisc = wanted.sysctl.get(_QDISC)
    if qdisc is not None and sysctl[_QDISC] != qdisc and not _has_qdisc(root, qdisc):
        sysctl[_QDISC] = None
    names = {*wanted.sysfs, *known.get("sysfs", {})}
    texts = {name: _read_settable(os.path.join(root, sysfs_path(name))) for name in names}
    return {
        "governors": {cpu: governors[cpu] for cpu in cpus},
        "available_governors": (_read(os.path.join(first, "scaling_available_governors")) or "").split(),
        "cpufreq_driver": _read(os.path.join(first, "scaling_driver")),
        "intel_pstate": _read(os.path.join(root, "sys/devices/system/cpu/intel_pstate/status")),
        "sysctl": sysctl,
        "sysfs": {name: text if text is None else _chosen(text) for name, text in texts.items()},
        "offered": {
            name: text.replace("[", "").replace("]", "").split() for name, text in texts.items() if text
        },
    }


def held(state: t.Mapping[str, t.Any], wanted: Wanted) -> dict[str, dict[str, str]]:
    """Return what is wanted and can be had here: section to key to value.

    Raises:
        KernelSettingsError: The CPU's driver does not offer the governor, or a file of sysfs the word.
    """
    governors = {}
    if wanted.governor is not None:
        offered = state["available_governors"]
        if offered and wanted.governor not in offered:
            raise KernelSettingsError(_not_offered(wanted.governor, state))
        governors = dict.fromkeys(state["governors"], wanted.governor)
    sysfs = {name: value for name, value in wanted.sysfs.items() if state["sysfs"][name] is not None}
    for name, value in sysfs.items():
        choices = state["offered"].get(name, [])
        if len(choices) > 1 and value not in choices:
            raise KernelSettingsError(f"/sys/{name} does not offer {value}, it has: {' '.join(choices)}")
    return {
        "governors": governors,
        "sysctl": {key: value for key, value in wanted.sysctl.items() if state["sysctl"][key] is not None},
        "sysfs": sysfs,
    }


def plan(state: t.Mapping[str, t.Any], *values: originals.Values) -> list[Write]:
    """Say what has to be written for the kernel to have these values; what is gone is left out."""
    writes = []
    for section in originals.SECTIONS:
        for part in values:
            for key, value in part[section].items():
                now = state[section].get(key)
                if now is not None and now.split() != value.split():
                    writes.append(Write(_PATHS[section](key), now, value))
    return writes


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


def _chosen(text: str) -> str:
    """Return the word that is in force, of a file that shows all its choices (`always [madvise] never`)."""
    found = _CHOSEN.search(text)
    return found[1] if found else text


def _has_qdisc(root: str, name: str) -> bool:
    """Whether the kernel has a queueing discipline or can load it; written without, the sysctl is refused."""
    if name in _BUILT_IN_QDISCS or os.path.isdir(os.path.join(root, f"sys/module/sch_{name}")):
        return True
    folder = os.path.join(root, "lib/modules", os.uname().release)
    lists = (_read(os.path.join(folder, file)) or "" for file in ("modules.builtin", "modules.dep"))
    return any(f"/sch_{name}.ko" in text for text in lists)


def _read_settable(path: str) -> str | None:
    """Return the value, None as well when nobody may write it.

    Later kernels show net.core.rmem_max and its like in every network namespace; only the first may set them.
    What a container shares with its host is mounted there to be read only.
    """
    try:
        may_be_set = os.stat(path).st_mode & 0o222 and not os.statvfs(path).f_flag & os.ST_RDONLY
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
