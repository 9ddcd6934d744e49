# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Interrupts of network ports: on which CPUs they may be served, and on which they should: their NUMA node's.

A unit runs it as a program when a port appears (its interrupts are new then), to move those of the given
netdevs. So it needs the standard library alone. An interrupt that a driver has already placed inside the node
(mlx5 gives each queue a separate CPU there) is not moved.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Mapping, Sequence
from typing import Any


def cpus_of(text: str) -> set[int]:
    """Return the numbers of a list of CPUs as the kernel writes it (`0-3,8`)."""
    ends = [part.split("-") for part in text.split(",") if part.strip()]
    return {number for one in ends for number in range(int(one[0]), int(one[-1]) + 1)}


def affinity_path(number: str) -> str:
    """Return the path below `root` of the CPUs that may serve an interrupt."""
    return f"proc/irq/{number}/smp_affinity_list"


def read(root: str, netdevs: Sequence[str], known: Collection[str] = ()) -> dict[str, Any]:
    """Read interrupts.

    Args:
        root: `/`, or a folder that looks like it.
        netdevs: The ports whose interrupts are read, where the node has more than one NUMA node.
        known: Names of interrupts that are read besides, whosever they are.

    Returns:
        `irqs` ({name: CPUs that may serve it}; the driver's names, since numbers change with each boot),
        `irq_numbers` ({name: number}), `irq_cpus` ({name: CPUs of the port's node}; of the netdevs' alone),
        `irq_ports` ({netdev: PCI address}), `irq_unknown` ({netdev: why its interrupts are unknown}).
    """
    sections = ("irqs", "irq_numbers", "irq_cpus", "irq_ports", "irq_unknown")
    found: dict[str, Any] = {name: {} for name in sections}
    if known:
        for number in _names(os.path.join(root, "sys/kernel/irq")):
            _add(root, found, number, known)
    if len(cpus_of(_read(os.path.join(root, "sys/devices/system/node/online")) or "0")) < 2:
        return found  # all memory is as near to one CPU as to another
    for netdev in netdevs:
        folder = _with_interrupts(root, netdev)
        if folder is None:
            found["irq_unknown"][netdev] = "it has no interrupts of its own"
            continue
        node, cpus = (_read(os.path.join(folder, name)) for name in ("numa_node", "local_cpulist"))
        if not cpus or node is None or int(node) < 0:
            found["irq_unknown"][netdev] = "the firmware does not say on which NUMA node it is"
            continue
        found["irq_ports"][netdev] = os.path.basename(folder)
        for number in _names(os.path.join(folder, "msi_irqs")):
            name = _add(root, found, number)
            if name:
                found["irq_cpus"][name] = cpus
    return found


def outside(state: Mapping[str, Any]) -> dict[str, str]:
    """Return the interrupts that CPUs of other nodes may serve: name to the CPUs that should."""
    return {
        name: cpus
        for name, cpus in state["irq_cpus"].items()
        if not cpus_of(state["irqs"][name]) <= cpus_of(cpus)
    }


def _add(root: str, found: dict[str, Any], number: str, known: Collection[str] | None = None) -> str | None:
    """Add an interrupt that is in use, and with `known` is one of these; return its name."""
    name = _read(os.path.join(root, "sys/kernel/irq", number, "actions"))
    affinity = _read(os.path.join(root, affinity_path(number)))
    if not name or not affinity or (known is not None and name not in known):
        return None
    found["irqs"][name] = affinity
    found["irq_numbers"][name] = number
    return name


def _names(folder: str) -> list[str]:
    try:
        return sorted((name for name in os.listdir(folder) if name.isdigit()), key=int)
    except OSError:
        return []


def _with_interrupts(root: str, netdev: str) -> str | None:
    """Return the folder of the device that has the netdev's interrupts: its own, or one above (virtio's)."""
    folder = os.path.realpath(os.path.join(root, "sys/class/net", netdev, "device"))
    while folder != os.path.dirname(folder):
        if os.path.isdir(os.path.join(folder, "msi_irqs")):
            return folder
        folder = os.path.dirname(folder)
    return None


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="ascii", errors="replace") as handle:
            return handle.read().strip()
    except OSError:
        return None


def main(root: str, netdevs: Sequence[str]) -> int:
    """Move what is outside; return 1 when the kernel refused some, which it says."""
    state = read(root, netdevs)
    refused = 0
    for name, cpus in outside(state).items():
        path = os.path.join(root, affinity_path(state["irq_numbers"][name]))
        try:
            with open(path, "w", encoding="ascii") as handle:
                handle.write(cpus + "\n")
        except OSError as error:
            sys.stderr.write(f"{name}: {error.strerror}\n")
            refused = 1
    return refused


if __name__ == "__main__":
    # A program of udev's, no module: the status is for systemd.
    sys.exit(main("/", sys.argv[1:]))  # pylint: disable=ansible-bad-function
