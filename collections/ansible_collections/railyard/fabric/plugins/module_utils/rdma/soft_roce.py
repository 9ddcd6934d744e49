# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan the Soft-RoCE (rxe) devices of a node: which to create and which to remove.

An rxe device exists until a reboot, or as long as its netdev. Nothing on it shows who created it, so Railyard
keeps a record: a device is Railyard's when the record has it, unless it existed before and is still the same
one. `root` is `/` on a node and a folder in the tests.
"""

from __future__ import annotations

import glob
import os
import re
import typing as t

from .. import atomic_files, node_files

SCHEMA = 1
MODULE = "rdma_rxe"
# IB_DEVICE_NAME_MAX and IFNAMSIZ of the kernel, without the terminating byte.
_DEVICE_CHARACTERS = 63
_NETDEV_CHARACTERS = 15
# No `/` and `:`, which separate device and port in `rdma` and in hca; none of udev's wildcards; no `^` or `=`
# first, which are operators for NCCL.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*\Z")
_CONTAINER_MARKS = ("run/systemd/container", "run/.containerenv", ".dockerenv")


class SoftRoceError(Exception):
    """Soft-RoCE cannot be set up as configured; the message has the reason and the fix."""


class Wanted(t.NamedTuple):
    """A wanted rxe device and its netdev."""

    device: str
    netdev: str


class Present(t.NamedTuple):
    """An RDMA device of the node.

    Attributes:
        netdev: The netdev of an rxe device; empty for drivers that do not show it.
        is_rxe: Whether it is a Soft-RoCE device.
        identity: Changes when the device is removed and created again, or the node boots.
    """

    netdev: str
    is_rxe: bool
    identity: str


class Plan(t.NamedTuple):
    """What to do; `record` is the new record, `foreign` the devices that are left alone."""

    delete: list[Wanted]
    add: list[Wanted]
    foreign: list[Wanted]
    record: list[dict[str, t.Any]]


def check_devices(devices: t.Iterable[t.Mapping[str, t.Any]]) -> list[Wanted]:
    """Return the wanted devices.

    Args:
        devices: `{"device", "netdev"}` each.

    Raises:
        SoftRoceError: A name that the kernel or a tool does not accept, or one that occurs twice.
    """
    wanted = [Wanted(str(one["device"]), str(one["netdev"])) for one in devices]
    problems = []
    for one in wanted:
        for kind, name, limit in (
            ("device", one.device, _DEVICE_CHARACTERS),
            ("netdev", one.netdev, _NETDEV_CHARACTERS),
        ):
            if not _NAME.match(name) or len(name) > limit:
                problems.append(
                    f"{kind} name {name!r} is not usable: 1 to {limit} letters, digits, _ . -, no . - first"
                )
    for kind, names in (
        ("device", [one.device for one in wanted]),
        ("netdev", [one.netdev for one in wanted]),
    ):
        problems += [f"{kind} {name} is named twice" for name in sorted(set(names)) if names.count(name) > 1]
    if problems:
        raise SoftRoceError("; ".join(problems))
    return wanted


def in_container(root: str) -> bool:
    """Return whether this is a container, which shares the kernel and the rxe devices of its host."""
    return any(os.path.exists(os.path.join(root, mark)) for mark in _CONTAINER_MARKS)


def missing_module(root: str, release: str) -> str | None:
    """Return what to install if kernel `release` has no rdma_rxe; None if it has it, loaded or not.

    Args:
        root: `/`, or a folder that looks like it.
        release: The running kernel, as `uname -r` prints it.
    """
    if os.path.isdir(os.path.join(root, "sys/module", MODULE)):
        return None
    folder = os.path.join(root, "lib/modules", release)
    if not os.path.isdir(folder):
        return (
            f"the modules of the running kernel {release} are gone (/lib/modules/{release}): "
            "boot the kernel that is installed"
        )
    for name in ("modules.dep", "modules.builtin"):
        for line in node_files.read_word(os.path.join(folder, name)).splitlines():
            if os.path.basename(line.split(":")[0]).split(".")[0].replace("-", "_") == MODULE:
                return None
    return f"the running kernel {release} has no module {MODULE}: {_package(root, release)}"


def read_devices(root: str) -> dict[str, Present]:
    """Return the RDMA devices of the node by name, from sysfs."""
    boot = node_files.read_word(os.path.join(root, "proc/sys/kernel/random/boot_id"))
    devices = {}
    for folder in sorted(glob.glob(os.path.join(root, "sys/class/infiniband/*"))):
        netdev = node_files.read_word(os.path.join(folder, "parent"))
        # Only rxe has its netdev in `parent` and is a channel adapter without a bus; siw is an RNIC.
        is_virtual = "/devices/virtual/" in os.path.realpath(folder)
        is_rxe = (
            bool(netdev)
            and is_virtual
            and node_files.read_word(os.path.join(folder, "node_type")).endswith("CA")
        )
        try:
            inode = os.stat(folder).st_ino
        except OSError:
            continue  # removed meanwhile
        devices[os.path.basename(folder)] = Present(netdev, is_rxe, f"{boot}/{inode}")
    return devices


def netdevs(root: str) -> list[str]:
    """Return the names of the node's netdevs."""
    return sorted(os.path.basename(path) for path in glob.glob(os.path.join(root, "sys/class/net/*")))


def plan(
    wanted: t.Sequence[Wanted],
    present: t.Mapping[str, Present],
    known_netdevs: t.Container[str],
    recorded: t.Sequence[t.Mapping[str, t.Any]],
) -> Plan:
    """Plan what has to be done so that the node has the wanted devices, and no others of Railyard.

    Args:
        wanted: From `check_devices`.
        present: From `read_devices`.
        known_netdevs: From `netdevs`.
        recorded: The entries of the record, from `load_record`.

    Raises:
        SoftRoceError: With all reasons; nothing was changed.
    """
    called = _renamed(present, recorded)
    own = {name for name in present if _is_own(name, present[name], recorded)} | set(called.values())
    renamed = {
        called[one.device]: one
        for one in wanted
        if one.device in called and present[called[one.device]].netdev == one.netdev
    }
    delete = [Wanted(name, present[name].netdev) for name in sorted(own - set(renamed))]
    delete = [one for one in delete if one not in wanted]
    left = {name: one for name, one in present.items() if Wanted(name, one.netdev) not in delete}
    by_netdev = {one.netdev: name for name, one in left.items() if one.is_rxe}
    problems = []
    for one in wanted:
        if one in renamed.values():
            continue
        there = left.get(one.device)
        if one.netdev not in known_netdevs:
            problems.append(f"netdev {one.netdev}, which {one.device} needs, does not exist on this node")
        elif there is not None and not there.is_rxe:
            problems.append(
                f"{one.device} is another driver's device: give the Soft-RoCE device another name"
            )
        elif there is not None and there.netdev != one.netdev:
            problems.append(
                f"{one.device} is on {there.netdev}, not {one.netdev}, and not created by Railyard: "
                f"remove it (rdma link delete {one.device}) or name its netdev"
            )
        elif by_netdev.get(one.netdev, one.device) != one.device:
            other = by_netdev[one.netdev]
            problems.append(
                f"{one.netdev} has the Soft-RoCE device {other}, not created by Railyard, and cannot have a "
                f"second: name it {other}, or remove it (rdma link delete {other})"
            )
    if problems:
        raise SoftRoceError("; ".join(problems))
    names = [one.device for one in wanted] + list(renamed)
    foreign = [
        Wanted(name, one.netdev) for name, one in sorted(left.items()) if one.is_rxe and name not in names
    ]
    record = [_entry(one, left.get(one.device), one.device in own, recorded) for one in wanted]
    add = [one for one in wanted if one.device not in left and one not in renamed.values()]
    return Plan(delete, add, foreign, record)


def load_record(path: str) -> list[dict[str, t.Any]]:
    """Return the record's entries.

    Each has `device`, `netdev`, and in `found` the identity of a device that existed when it was first
    wanted; None where Railyard created it.

    Raises:
        SoftRoceError: The file is no record; continuing would leave devices behind that Railyard created.
    """
    try:
        document = atomic_files.load_record(path, SCHEMA)
    except ValueError as error:
        raise SoftRoceError(f"{path} is not a record of devices ({error}): remove it") from error
    entries = [] if document is None else document.get("devices")
    if not isinstance(entries, list):
        raise SoftRoceError(f"{path} has no list of devices: remove it")
    return entries


def store_record(path: str, entries: t.Sequence[t.Mapping[str, t.Any]]) -> None:
    """Write the record atomically; without entries remove it."""
    if not entries:
        if os.path.exists(path):
            os.remove(path)
        return
    atomic_files.store_record(path, {"schema": SCHEMA, "devices": list(entries)})


def _is_own(name: str, there: Present, recorded: t.Iterable[t.Mapping[str, t.Any]]) -> bool:
    return there.is_rxe and any(
        entry.get("device") == name
        and entry.get("netdev") == there.netdev
        and entry.get("found") != there.identity
        for entry in recorded
    )


def _renamed(present: t.Mapping[str, Present], recorded: t.Sequence[t.Mapping[str, t.Any]]) -> dict[str, str]:
    """Return recorded device -> current name, for devices that a udev rule of the site has renamed.

    A netdev has one rxe device, and the role's rule creates it at each boot; so one with another name on that
    netdev, where the recorded name is gone, is the same device.
    """
    known = {entry.get("device") for entry in recorded}
    return {
        str(entry["device"]): name
        for entry in recorded
        if entry.get("device") not in present and entry.get("found") is None
        for name, one in present.items()
        if one.is_rxe and one.netdev == entry.get("netdev") and name not in known
    }


def _entry(
    one: Wanted, there: Present | None, own: bool, recorded: t.Iterable[t.Mapping[str, t.Any]]
) -> dict[str, t.Any]:
    for entry in recorded:
        if entry.get("device") == one.device and entry.get("netdev") == one.netdev:
            return dict(entry)
    found = there.identity if there is not None and not own else None
    return {"device": one.device, "netdev": one.netdev, "found": found}


def _package(root: str, release: str) -> str:
    """Return the distribution's package with the module that its small kernels lack."""
    ids = re.findall(
        r"(?m)^ID(?:_LIKE)?=\"?([^\"\n]*)", node_files.read_word(os.path.join(root, "etc/os-release"))
    )
    names = " ".join(ids).split()
    if "ubuntu" in names:
        return f"install linux-modules-extra-{release}"
    if "debian" in names:
        architecture = release.rsplit("-", 1)[-1]
        flavour = "a cloud kernel lacks it; " if "cloud" in release else ""
        return f"{flavour}install linux-image-{architecture} and boot it"
    return "install the package of the distribution that has it, or another kernel"
