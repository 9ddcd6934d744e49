# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Name a node's RDMA devices with a udev rule that replaces rdma-core's.

rdma-core's `60-rdma-persistent-naming.rules` names devices by their PCI address; a file of the same name in
/etc/udev/rules.d replaces it (linux-rdma/rdma-core Documentation/udev.md, "Stable names"). The rule acts when
a device is added, and `rdma_rename` leaves virtual devices (rxe, siw) unchanged. No rule assigns names of the
kernel's pattern, such as mlx5_0, which the kernel may give to the next device.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from .. import node_files
from ..rails import bind

RULES = "/etc/udev/rules.d/60-rdma-persistent-naming.rules"
KEEP, KERNEL, RAIL = MODES = ("keep", "kernel", "rail")
#: One plane: each rail is one network; p counts the planes.
_NAME = "roce_p1_rail{}"
_HEAD = """\
# Managed by Railyard (role rdma_stack): change the inventory, not this file.
# In the place of rdma-core's file of the same name. It acts when a device is added, so at boot.
"""
_RULE = 'ACTION=="add", SUBSYSTEM=="infiniband", {match}PROGRAM="rdma_rename %k {policy}"\n'
_OF_A_RAIL = re.compile(r"roce_p[0-9]+_rail[0-9]+\Z")
# Names of rdma_rename: on-board index, GUID or PCI address, with VF and SF after it.
_OF_RDMA_CORE = re.compile(
    r"(?:ib|roce|iw|opa|rdma)(?:o[0-9]+|x[0-9a-f]{16}|(?:P[0-9]+)?p[0-9]+s[0-9]+(?:f[0-9]+)?)"
    r"(?:v[0-9]+)?(?:S[0-9]+)?\Z"
)
_NUMBERED = re.compile(r"rail([0-9]+)\Z")
_PCI = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]\Z")


class NamesError(Exception):
    """The names cannot be set as configured; the message has the reason and the fix."""


class Rename(NamedTuple):
    """A device and the name that it gets."""

    device: str
    name: str


class Plan(NamedTuple):
    """What to do.

    Attributes:
        rules: text of the rules file; None for no file.
        renames: devices that are renamed at once, since nothing uses them.
        waiting: what waits for a boot, in the format of the module `pending`.
    """

    rules: str | None
    renames: list[Rename]
    waiting: list[dict[str, str]]


def plan(
    mode: str,
    rails: Sequence[Mapping[str, Any]],
    facts: Mapping[str, Any],
    users: Mapping[str, Sequence[str]],
    replaces_ours: bool,
) -> Plan:
    """Plan what has to be done so that the devices get the configured names.

    Args:
        mode: one of MODES.
        rails: the plan's rails.
        facts: the node's facts row, for netdevs and HCA ports.
        users: RDMA device -> the programs that have it open.
        replaces_ours: whether the node has the file that this module writes.

    Raises:
        NamesError: with all reasons.
    """
    devices = {str(port.get("device")): port for port in bind.ports(facts)}
    if mode == RAIL:
        names = rail_names(rails, facts)
        rules = "".join(
            _RULE.format(match=f'KERNELS=="{pci}", ', policy=f"NAME_FIXED {name}")
            for pci, name in names.items()
        )
        rules = _HEAD + rules + _RULE.format(match="", policy="NAME_KERNEL")
        return _rail_plan(rules, names, devices, users)
    if mode == KERNEL:
        rules = _HEAD + _RULE.format(match="", policy="NAME_KERNEL")
        others = sorted(name for name in devices if _OF_RDMA_CORE.match(name) or _OF_A_RAIL.match(name))
        why = "the kernel numbers them when their driver is loaded"
        return Plan(rules, [], _waiting(others, "the kernel's names", why))
    ours = sorted(name for name in devices if replaces_ours and _OF_A_RAIL.match(name))
    return Plan(None, [], _waiting(ours, "the names of the distribution's rule", "it acts at boot"))


def rail_names(rails: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> dict[str, str]:
    """Return PCI address -> the name of the rail's device.

    A rail called rail3 has number 3; if a rail has another name, rails are counted from 0.

    Raises:
        NamesError: with all rails that cannot have a name.
    """
    matches = [_NUMBERED.match(str(rail.get("name"))) for rail in rails]
    numbers = [int(found.group(1)) for found in matches if found]
    if len(set(numbers)) < len(rails):
        numbers = list(range(len(rails)))
    names: dict[str, str] = {}
    owners: dict[str, str] = {}
    problems = []
    for number, (rail, one) in zip(numbers, bind.bind(rails, facts).items()):  # noqa: B905 - Python 3.9
        port = one.hca or one.renamed or {}
        pci = str(port.get("pci") or (one.netdev or {}).get("pci") or one.rail.get("pci") or "").lower()
        if port.get("link_layer") == "InfiniBand":
            problems.append(
                f"{rail}: its port {port['hca']} is InfiniBand, and the name of a RoCE device would be wrong"
            )
        elif not _PCI.match(pci) or port.get("driver_class") == "software":
            problems.append(f"{rail}: the node shows no PCI address of its RDMA device")
        elif pci in owners:
            problems.append(
                f"{rail}: it shares the RDMA device at {pci} with {owners[pci]}, and a device has one name"
            )
        else:
            owners[pci] = rail
            names[pci] = _NAME.format(number)
    if problems:
        raise NamesError(
            f"rdma_stack_device_names: rail cannot be: {'; '.join(problems)}. "
            "Fix: set rdma_stack_device_names to keep or kernel"
        )
    return names


def users(root: str) -> dict[str, list[str]]:
    """Return RDMA device -> the programs that have one of its character devices open.

    Args:
        root: `/`, or a folder that looks like it.
    """
    nodes: dict[str, str] = {}
    for kind in ("infiniband_verbs", "infiniband_mad"):
        for path in glob.glob(os.path.join(root, "sys/class", kind, "*", "ibdev")):
            node = "/dev/infiniband/" + os.path.basename(os.path.dirname(path))
            nodes[node] = node_files.read_word(path)
    found: dict[str, dict[str, None]] = {}
    for link in glob.glob(os.path.join(root, "proc/[0-9]*/fd/*")):
        try:
            device = nodes.get(os.readlink(link))
        except OSError:
            continue
        if device:
            name = node_files.read_word(os.path.join(os.path.dirname(os.path.dirname(link)), "comm"))
            found.setdefault(device, {})[name or "a program"] = None
    return {device: sorted(programs) for device, programs in found.items()}


def _rail_plan(
    rules: str,
    names: Mapping[str, str],
    devices: Mapping[str, Mapping[str, Any]],
    used_by: Mapping[str, Sequence[str]],
) -> Plan:
    renames, waiting = [], []
    for device, port in sorted(devices.items()):
        name = names.get(str(port.get("pci")).lower())
        if name is None or name == device:
            continue
        programs = list(used_by.get(device, ()))
        if name in devices:
            waiting += _waiting([device], f"the name {name}", "another device has it now")
        elif programs:
            waiting += _waiting([device], f"the name {name}", f"{', '.join(programs)} has it open")
        else:
            renames.append(Rename(device, name))
    return Plan(rules, renames, waiting)


def _waiting(devices: Sequence[str], what: str, why: str) -> list[dict[str, str]]:
    if not devices:
        return []
    return [{"what": f"give {', '.join(devices)} {what}", "why": why, "needs": "reboot"}]
