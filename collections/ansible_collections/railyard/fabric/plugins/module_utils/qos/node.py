# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RoCE QoS of a node's ports: which port a rail is, what it has now, what sets what differs.

What the three tools of `qos/tools.py` cannot do is a file of the kernel's:
- ECN and CNP: /sys/class/net/NETDEV/ecn of the vendor's driver; CNP of the kernel's own mlx5 in debugfs,
  mlx5/PCI/cc_params (torvalds/linux drivers/infiniband/hw/mlx5/cong.c).
- Class of verbs traffic: /sys/class/infiniband/DEVICE/tc/PORT/traffic_class, which answers
  "Global tclass=106".
- ToS of rdma_cm: configfs, where a folder has to be made to see a device and may be removed again (mlnx-tools
  sbin/cma_roce_tos; torvalds/linux drivers/infiniband/core/cma_configfs.c). The value stays.
"""

from __future__ import annotations

import contextlib
import errno
import glob
import os
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Optional

from ..catalogue import nic_drivers
from ..rails import resolve
from . import replay, tools
from . import settings as roce_qos
from .settings import QosError, Settings
from .tools import LARGEST_VALUE_BYTES, Action, Run

_GLOBAL_CLASS = re.compile(r"^Global tclass=([0-9]{1,3})\s*$", re.M)
_NUMBER = re.compile(r"(?:0x[0-9a-f]{1,16}|[0-9]{1,20})\Z", re.I)
_PFC_OPTION = re.compile(r"\bpfc[tr]x=(0x[0-9a-fA-F]{1,8}|[0-9]{1,10})")
# Set by a file, in this order.
_BY_FILE = (
    "ecn_notification_point",
    "ecn_reaction_point",
    "cnp_dscp",
    "cnp_priority",
    "traffic_class",
    "connection_manager_tos",
)


class Port(NamedTuple):
    """A rail's port.

    Attributes:
        rail: Name of the rail.
        netdev: Its netdev.
        device: Its RDMA device; empty when there is none.
        port: Port of that device, from 1.
        driver: Driver of the netdev's device.
        pci: Bus address of that device.
        tool: One of `tools.TOOLS` that the driver takes and the node has, see `choose_tool`; None for none.
    """

    rail: str
    netdev: str
    device: str
    port: int
    driver: str
    pci: str
    tool: Optional[Any] = None  # noqa: UP045 - Python 3.9, which nodes may have, evaluates it


class Found(NamedTuple):
    """What a port has now: `settings`, and of those that it does not show, why, as far as that is known."""

    settings: Settings
    refused: dict[str, str]


class Node(NamedTuple):
    """How the node is reached: `sys_root` is /sys."""

    run: Run
    sys_root: str


def find_port(rail: Mapping[str, Any], sys_root: str) -> Port:
    """Return the port of a rail.

    Args:
        rail: From the plan: `name`, `netdev`, `mac`, `pci`, `hca`.
        sys_root: Where sysfs is.

    Raises:
        QosError: There is no such port, or it is no bus device.
    """
    try:
        netdev = resolve.netdev_of(rail, sys_root)
    except resolve.ResolveError as error:
        raise QosError(str(error)) from error
    folder = os.path.join(sys_root, "class/net", netdev)
    device_folder = os.path.realpath(os.path.join(folder, "device"))
    driver = os.path.basename(os.path.realpath(os.path.join(device_folder, "driver")))
    if not os.path.islink(os.path.join(device_folder, "driver")):
        raise QosError(
            f"{rail['name']}: {netdev} is a software link, which has no QoS of hardware. Fix: declare "
            "fabric.node_class virtual, or name the rail's own netdev"
        )
    hca = _hca_of(sys_root, netdev, device_folder)
    declared = str(rail.get("hca") or hca)
    if not os.path.isdir(os.path.join(sys_root, "class/infiniband", declared.partition(":")[0])) and hca:
        raise QosError(
            f"{rail['name']}: there is no HCA port {declared}: the port of {netdev} is called {hca} now. "
            f"Fix: remove hca from the rail in the inventory, or write {hca}"
        )
    device, _colon, port = declared.partition(":")
    return Port(str(rail["name"]), netdev, device, int(port or 1), driver, os.path.basename(device_folder))


def _hca_of(sys_root: str, netdev: str, device_folder: str) -> str:
    with contextlib.suppress(OSError):
        for device in sorted(os.listdir(os.path.join(device_folder, "infiniband"))):
            base = os.path.join(sys_root, "class/infiniband", device, "ports")
            for port in sorted(os.listdir(base)):
                if tools.read_value(os.path.join(base, port, "gid_attrs/ndevs/0")) == netdev:
                    return f"{device}:{port}"
            dev_port = _number(tools.read_value(os.path.join(sys_root, "class/net", netdev, "dev_port")))
            return f"{device}:{(dev_port or 0) + 1}"
    return ""


def choose_tool(node: Node, which: Any, port: Port) -> Port:
    """Return the port with the first of its driver's tools that the node has.

    Args:
        node: The node.
        which: Returns the path of a program, None when the node has none of that name.
        port: The port.

    Raises:
        QosError: No tool is known to set the QoS of this driver.
    """
    row = nic_drivers.find(port.driver)
    place = f"{port.rail} ({port.netdev})"
    if row is None:
        raise QosError(
            f"{place}: driver {port.driver} is not among those whose QoS Railyard can set "
            f"({nic_drivers.PAGE} lists them). Fix: {nic_drivers.BY_VENDOR}"
        )
    if not row.qos:
        otherwise = row.qos_otherwise.replace("NETDEV", port.netdev)
        raise QosError(f"{place}: Railyard cannot set the QoS of driver {port.driver}. Fix: {otherwise}")
    for tool in tools.TOOLS:
        if tool.name not in row.qos:
            continue
        if which(tool.program) if tool.program else tool.read(node.run, port.netdev, node.sys_root):
            return port._replace(tool=tool)
    return port


def _cm_folder(node: Node, port: Port) -> str:
    return os.path.join(node.sys_root, "kernel/config/rdma_cm", port.device)


def _files(node: Node, port: Port, priority: int) -> dict[str, list[str]]:
    """Return the files that may hold each setting, see `_way`."""

    def at(*parts: str) -> str:
        return os.path.join(node.sys_root, *parts)

    ecn = at("class/net", port.netdev, "ecn")
    control = at("kernel/debug/mlx5", port.pci, "cc_params")
    return {
        "ecn_notification_point": [f"{ecn}/roce_np/enable/{priority}"],
        "ecn_reaction_point": [f"{ecn}/roce_rp/enable/{priority}"],
        "cnp_dscp": [f"{ecn}/roce_np/cnp_dscp", f"{control}/np_cnp_dscp"],
        "cnp_priority": [f"{ecn}/roce_np/cnp_802p_prio", f"{control}/np_cnp_prio"],
        "traffic_class": [at("class/infiniband", port.device, "tc", str(port.port), "traffic_class")],
        "connection_manager_tos": [
            os.path.join(_cm_folder(node, port), f"ports/{port.port}/default_roce_tos")
        ],
    }


def _way(paths: Sequence[str]) -> tuple[str | None, str]:
    """Return the first of these files that can be read and written, else None and why none can.

    That a file is there says little: under Secure Boot's lockdown the kernel refuses to open the files of
    debugfs that others than root may not read, for root as well (torvalds/linux fs/debugfs/file.c,
    `debugfs_locked_down`), and a driver may refuse to answer. It is opened for writing without a change.
    """
    why = ""
    for path in paths:
        try:
            with open(path, "rb") as handle:
                handle.read(LARGEST_VALUE_BYTES)
            os.close(os.open(path, os.O_WRONLY | os.O_CLOEXEC))
        except (FileNotFoundError, NotADirectoryError):
            continue
        except OSError as error:
            why = why or f"{path}: {error.strerror}"
            if "/kernel/debug/" in path and error.errno in (errno.EPERM, errno.EACCES):
                why += ", as under Secure Boot (see /sys/kernel/security/lockdown)"
            continue
        return path, ""
    return None, why


def _value(name: str, text: str) -> Any:
    if name == "traffic_class":
        found = _GLOBAL_CLASS.search(text)
        # Empty until a class is set.
        return int(found.group(1)) if found else None
    number = _number(text)
    return number == 1 if name.startswith("ecn_") and number is not None else number


def read(node: Node, port: Port, settings: Settings, priority: int) -> Found:
    """Return what the port has now of these settings; one that has no way to be read and set is left out.

    Args:
        node: The node.
        port: The port.
        settings: What is wanted.
        priority: The priority of RoCE.

    Raises:
        QosError: A tool did not answer.
    """
    found: Settings = {}
    refused: dict[str, str] = {}
    if "pfc" in settings:
        if port.tool is None:
            raise QosError(
                f"{port.netdev}: the node has neither mlnx_qos (of mlnx-tools), dcb (of iproute2) nor "
                "a folder qos in the netdev's sysfs. Fix: install iproute2"
            )
        found.update(port.tool.read(node.run, port.netdev, node.sys_root))
    if "global_pause" in settings:
        pause = tools.read_pause(node.run, port.netdev)
        if pause is not None:
            found["global_pause"] = pause
    if "module_pfc" in settings:
        folder = os.path.join(node.sys_root, "module/mlx4_en/parameters")
        values = {name: tools.read_value(os.path.join(folder, name)) for name in settings["module_pfc"]}
        numbers = {name: number for name, value in values.items() if (number := _number(value)) is not None}
        if len(numbers) == len(values):
            found["module_pfc"] = numbers
    files = _files(node, port, priority)
    with replay.folder_made(_cm_folder(node, port)):
        for name in [name for name in _BY_FILE if name in settings]:
            path, why = _way(files[name])
            if path is not None:
                found[name] = _value(name, tools.read_value(path))
            elif why:
                refused[name] = why
    return Found(found, refused)


def actions(node: Node, port: Port, settings: Settings, found: Settings, priority: int) -> list[Action]:
    """Return what sets these settings, in order; those that belong to the RDMA device say so in `device`.

    Global pause goes off before PFC comes on.
    """
    todo: list[Action] = []
    if "global_pause" in settings and "global_pause" in found:
        todo.append(tools.pause_action(port.netdev, settings["global_pause"]))
    if port.tool is not None:
        todo += port.tool.actions(port.netdev, settings, found, node.sys_root)
    files = _files(node, port, priority)
    for name in [name for name in _BY_FILE if name in settings]:
        path = _way(files[name])[0] or files[name][0]
        action = tools.write(path, str(int(settings[name])))
        if name == "connection_manager_tos":
            action["folder"] = _cm_folder(node, port)
        # Its file comes with the RDMA device, after the netdev.
        todo.append({**action, "device": True} if port.device else action)
    return todo


def restoring_actions(
    node: Node, port: Port, changed: Settings, before: Settings, priority: int
) -> list[Action]:
    """Return what gives these settings the values that they had before, in the order of `actions`.

    A traffic class that was not set cannot be unset again, and is left out.
    """
    old = {name: before[name] for name in changed if before.get(name) is not None}
    todo = [] if port.tool is None else port.tool.restoring_actions(port.netdev, old, before, node.sys_root)
    others = {name: value for name, value in old.items() if name in (*_BY_FILE, "global_pause")}
    # Global pause comes back after PFC went: a port has one or the other.
    return [*todo, *actions(node, port._replace(tool=None), others, before, priority)]


def foreign_options(root: str, own_file: str, declared: roce_qos.Declared) -> list[str]:
    """Say which files of others give mlx4_en another PFC than declared; one that agrees is no hindrance.

    Args:
        root: `/`, or a folder that looks like it.
        own_file: The file that the role writes.
        declared: From `roce_qos.check`.
    """
    mask = 1 << declared.priority if declared.mlx4_flow_control == "pfc" else 0
    problems = []
    for folder in (
        "etc/modprobe.d",
        "run/modprobe.d",
        "usr/local/lib/modprobe.d",
        "usr/lib/modprobe.d",
        "lib/modprobe.d",
    ):
        for path in sorted(glob.glob(os.path.join(root, folder, "*.conf"))):
            if path == os.path.join(root, own_file.lstrip("/")):
                continue
            for line in tools.read_value(path).splitlines():
                values = _PFC_OPTION.findall(line) if re.match(r"\s*options\s+mlx4_en\s", line) else []
                if any(int(value, 0) != mask for value in values):
                    problems.append(
                        f"{path} gives mlx4_en another PFC than declared ({line.strip()}). Fix: remove that "
                        "line, or declare roce_qos_mlx4_flow_control and roce_qos_priority accordingly"
                    )
    return problems


def _number(text: str) -> int | None:
    """Return a number of a kernel file, None for a word or for more digits than the kernel writes."""
    return int(text, 0) if _NUMBER.match(text) else None
