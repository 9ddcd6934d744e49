# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan CPU settings, rings, sysctls and sysfs values of the running kernel: what there is, what to write.

A file in `/etc` cannot change the running kernel, detect later changes, or know the original values. `root`
is `/` on a node and a folder in the tests.
"""

from __future__ import annotations

import os
import re
import typing as t

from . import cpus, files, irqs, originals, rings

_QDISC = "net.core.default_qdisc"
# In every kernel that has a network: net/sched/sch_generic.c, sch_fifo.c and sch_mq.c are no modules.
_BUILT_IN_QDISCS = ("bfifo", "mq", "noqueue", "pfifo", "pfifo_fast")
_CHOSEN = re.compile(r"\[(\S+)\]")


class KernelSettingsError(Exception):
    """A setting that this node does not support; the message has the setting, the reason and the fix."""


class Wanted(t.NamedTuple):
    """The configured settings of a node.

    Attributes:
        governor: For every CPU; None leaves the governors alone.
        energy_preference: For every CPU; None leaves it to the governor.
        idle_limit_us: Idle states that take longer to leave are disabled; None limits nothing.
        irq_netdevs: Ports whose interrupts are to be served by their NUMA node; None leaves all alone.
        sysctl: Key to value.
        sysfs: Path below `/sys` to value.
        rings: Netdev to kind of ring (`rx`, `tx`) to number of descriptors or `max`.
    """

    governor: str | None = None
    energy_preference: str | None = None
    idle_limit_us: int | None = None
    irq_netdevs: t.Sequence[str] | None = None
    sysctl: t.Mapping[str, str] = {}
    sysfs: t.Mapping[str, str] = {}
    rings: t.Mapping[str, t.Mapping[str, str]] = {}

    def sections(self) -> set[str]:
        """Return the sections of the record with a configured value."""
        asked = {
            "governors": self.governor is not None,
            "energy_preferences": self.governor is not None or self.energy_preference is not None,
            "idle_states": self.idle_limit_us is not None,
            "irqs": self.irq_netdevs is not None,
            "sysctl": bool(self.sysctl),
            "sysfs": bool(self.sysfs),
            "rings": bool(self.rings),
        }
        return {section for section, is_asked in asked.items() if is_asked}


class Write(t.NamedTuple):
    """One value to write: the path below `root` (of rings: `ethtool -G NETDEV`), what is, what is to be."""

    path: str
    before: str
    after: str

    @property
    def netdev(self) -> str | None:
        """The port whose rings it sets; None where it writes a file."""
        return rings.netdev_of(self.path)

    @property
    def name(self) -> str:
        """What a person knows it by."""
        return self.path if self.netdev else f"/{self.path}"


def sysctl_path(key: str) -> str:
    """Return the path below `root` of a sysctl key in either spelling.

    `net.core.rmem_max` is `proc/sys/net/core/rmem_max`; one with slashes (`net/ipv4/conf/eth0.100/rp_filter`,
    for names with a dot in them) is used unchanged.
    """
    return "proc/sys/" + (key if "/" in key else key.replace(".", "/"))


def sysfs_path(name: str) -> str:
    """Return the path below `root` of a file named by its path below `/sys`."""
    return f"sys/{name}"


_PATHS: dict[str, t.Callable[[str], str]] = {
    "governors": cpus.governor_path,
    "energy_preferences": cpus.preference_path,
    "idle_states": cpus.idle_path,
    "irqs": irqs.affinity_path,
    "sysctl": sysctl_path,
    "sysfs": sysfs_path,
    "rings": rings.command,
}


def read(root: str, wanted: Wanted, recorded: originals.Record | None) -> dict[str, t.Any]:
    """Read what the kernel has now of what is wanted or on record.

    Returns:
        What `cpus.read`, `irqs.read` and `rings.read` return, `sysctl` and `sysfs` ({key: value}, None for
        what this kernel or namespace lacks or only shows), `offered` (path below `/sys` to the words that a
        file with choices has).
    """
    known = recorded or {}
    keys = {*wanted.sysctl, *known.get("sysctl", {})}
    sysctl = {key: files.read_settable(os.path.join(root, sysctl_path(key))) for key in keys}
    qdisc = wanted.sysctl.get(_QDISC)
    if qdisc is not None and sysctl[_QDISC] != qdisc and not _has_qdisc(root, qdisc):
        sysctl[_QDISC] = None
    names = {*wanted.sysfs, *known.get("sysfs", {})}
    texts = {name: files.read_settable(os.path.join(root, sysfs_path(name))) for name in names}
    return {
        **cpus.read(root),
        **irqs.read(root, wanted.irq_netdevs or (), known.get("irqs", {})),
        **rings.read(sorted({*wanted.rings, *known.get("rings", {})})),
        "sysctl": sysctl,
        "sysfs": {name: text if text is None else _chosen(text) for name, text in texts.items()},
        "offered": {
            name: text.replace("[", "").replace("]", "").split() for name, text in texts.items() if text
        },
    }


def held(
    state: t.Mapping[str, t.Any], wanted: Wanted, recorded: originals.Record | None
) -> dict[str, dict[str, t.Any]]:
    """Return what is wanted and can be had here: section to key to value; None is recorded, but not written.

    Raises:
        CpuError: The CPU's driver does not offer it.
        KernelSettingsError: A file of sysfs does not have the word.
        RingError: A port cannot have such a ring.
    """
    governor = cpus.governor(state, wanted.governor)
    sysfs = {name: value for name, value in wanted.sysfs.items() if state["sysfs"][name] is not None}
    for name, value in sysfs.items():
        choices = state["offered"].get(name, [])
        if len(choices) > 1 and value not in choices:
            raise KernelSettingsError(f"/sys/{name} does not offer {value}, it has: {' '.join(choices)}")
    return {
        "governors": {} if governor is None else dict.fromkeys(state["governors"], governor),
        "energy_preferences": cpus.preferences(state, governor, wanted.energy_preference, recorded or {}),
        "idle_states": cpus.idle_states(state, wanted.idle_limit_us),
        "irqs": _held_irqs(state, recorded or {}) if wanted.irq_netdevs is not None else {},
        "sysctl": {key: value for key, value in wanted.sysctl.items() if state["sysctl"][key] is not None},
        "sysfs": sysfs,
        "rings": rings.held(state, wanted.rings),
    }


def plan(state: t.Mapping[str, t.Any], *values: originals.Values) -> list[Write]:
    """Say what has to be written for the kernel to have these values, in order; what is gone is left out."""
    writes: dict[str, dict[str, Write]] = {}
    for section in originals.SECTIONS:
        writes[section] = {}
        for part in values:
            for key, value in part[section].items():
                now = state[section].get(key)
                if now is not None and value is not None and now.split() != value.split():
                    name = state["irq_numbers"][key] if section == "irqs" else key
                    writes[section][key] = Write(_PATHS[section](name), now, value)
    # A driver in active mode takes a preference only while the governor is not performance.
    rising = [cpu for cpu, write in writes["governors"].items() if write.after == "performance"]
    first = [writes["energy_preferences"].pop(cpu) for cpu in rising if cpu in writes["energy_preferences"]]
    return first + [write for section in originals.SECTIONS for write in writes[section].values()]


def without_rings(
    writes: list[Write], kept: originals.Record, released: originals.Record
) -> tuple[list[Write], list[Write]]:
    """Split off the writes of rings, which need an opt-in: (others, waiting).

    What waits to go back stays on record until it has: it moves from `released` to `kept`.
    """
    waiting = [write for write in writes if write.netdev]
    for netdev in {write.netdev for write in waiting} & set(released["rings"]):
        kept["rings"][netdev] = released["rings"].pop(netdev)
    return [write for write in writes if not write.netdev], waiting


def apply(root: str, writes: t.Iterable[Write]) -> None:
    """Write each value; all are tried before an error is raised.

    Raises:
        KernelSettingsError: Names every value that the kernel refused.
    """
    refused = []
    for write in writes:
        try:
            if write.netdev:
                rings.write(write.netdev, write.after)
                continue
            with open(os.path.join(root, write.path), "w", encoding="ascii") as handle:
                handle.write(write.after + "\n")
        except OSError as error:
            refused.append(f"{write.name} = {write.after}: {error.strerror or error}")
    if refused:
        raise KernelSettingsError(
            f"the kernel refused {'; '.join(refused)} (read-only: a container that shares its host's kernel; "
            "invalid: not a value of this setting)"
        )


def _held_irqs(state: t.Mapping[str, t.Any], recorded: originals.Record) -> dict[str, str]:
    """Return what is outside its node, and stays where it is what was brought in before."""
    known = {name: state["irqs"][name] for name in recorded.get("irqs", {}) if name in state["irq_cpus"]}
    return {**known, **irqs.outside(state)}


def _chosen(text: str) -> str:
    """Return the word that is in force, of a file that shows all its choices (`always [madvise] never`)."""
    found = _CHOSEN.search(text)
    return found[1] if found else text


def _has_qdisc(root: str, name: str) -> bool:
    """Whether the kernel has a queueing discipline or can load it; written without, the sysctl is refused."""
    if name in _BUILT_IN_QDISCS or os.path.isdir(os.path.join(root, f"sys/module/sch_{name}")):
        return True
    folder = os.path.join(root, "lib/modules", os.uname().release)
    lists = (files.read(os.path.join(folder, file)) or "" for file in ("modules.builtin", "modules.dep"))
    return any(f"/sch_{name}.ko" in text for text in lists)
