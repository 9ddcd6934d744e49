# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find out where the loaded RDMA driver comes from, and which vendor's stack is installed.

`root` is `/` on a node and a folder in the tests. Nothing is loaded: modules on disk are those that depmod
lists, since modprobe would load these.
"""

from __future__ import annotations

import os
import re
import typing as t

from .. import node_files
from ..facts.sysfs import Reader
from ..kernel import headers as kernel_headers
from ..parsers.node.apt_get import Package
from .hardware import Card

MODULES = ("mlx5_core", "mlx4_core")
VENDORS = ("doca", "mlnx_ofed")
# Packages that identify a vendor's stack. Both have the kernel part under the same name; the metapackages
# differ. Ubuntu's stack has one for each flavor of its kernels (Ubuntu Server's page "Install and maintain
# DOCA-OFED").
_STACKS = (
    ("doca", re.compile(r"doca-(?:ofed|networking|all)\Z")),
    ("ubuntu", re.compile(r"doca-ofed-(?:aws|azure|gcp|generic|oracle)\b.*\Z")),
    (
        "mlnx_ofed",
        re.compile(r"mlnx-ofed-(?:all|basic|dpdk|eth-only|guest|hpc|hypervisor|kernel-only|vma)\b.*\Z"),
    ),
)
# Packages of mlnxofedinstall, which installs no metapackage; the second is built for one kernel only.
_KERNEL_PARTS = ("mlnx-ofed-kernel-dkms", "mlnx-ofed-kernel-modules")
Run = t.Callable[[t.Sequence[str]], "str | None"]
# The UEFI variable: four bytes of attributes, then the value.
_SECURE_BOOT = "firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_STATUS_BYTE = 4


class KernelModule(t.NamedTuple):
    """A kernel module of the driver.

    Attributes:
        loaded: Its reported version, or `inbox` for the kernel's own, which has none; None where it is not
            loaded.
        on_disk: `vendor` (built outside the kernel), `inbox`, or None where the running kernel has none.
        version_on_disk: The version of a vendor's module by modinfo; None where it has none.
    """

    name: str
    loaded: str | None
    on_disk: str | None
    version_on_disk: str | None = None


class Kernel(t.NamedTuple):
    """A kernel that can be booted, or of which only the headers are installed.

    Attributes:
        kernel: Its release.
        has_headers: Whether modules can be built for it.
        has_driver: Whether it has the vendor's module for each card.
    """

    kernel: str
    has_headers: bool
    has_driver: bool


def _places(root: str, kernel: str) -> dict[str, str]:
    """Return the paths of a kernel's modules by depmod, below its folder."""
    # A kernel without modules on disk only has the loaded ones.
    paths = node_files.list_modules(root, kernel)
    return {os.path.basename(path).split(".", maxsplit=1)[0]: path for path in paths}


def read_modules(root: str, reader: Reader, kernel: str, run: Run | None = None) -> list[KernelModule]:
    """Return the modules of the driver.

    Args:
        root: The folder with `lib/modules`.
        reader: Reads what is loaded.
        kernel: The running kernel.
        run: Runs an argv and returns its output, None where it failed; without it no version is read.
    """
    places = _places(root, kernel)
    modules = []
    for name in MODULES:
        folder = reader.sys("module", name)
        loaded = (reader.text(os.path.join(folder, "version")) or "inbox") if os.path.isdir(folder) else None
        place = places.get(name)
        on_disk = None if place is None else "inbox" if place.startswith("kernel/") else "vendor"
        version = None
        if on_disk == "vendor" and place is not None and run is not None:
            path = os.path.join(root, "lib/modules", kernel, place)
            version = (run(["modinfo", "-F", "version", path]) or "").strip() or None
        modules.append(KernelModule(name, loaded, on_disk, version))
    return modules


def read_kernels(root: str, needed: t.Collection[str]) -> list[Kernel]:
    """Return the kernels that have modules or headers.

    Args:
        root: Where `lib/modules` lies.
        needed: The modules that the node's NICs need.
    """
    kernels = []
    for name in node_files.list_names(os.path.join(root, "lib/modules")):
        places = _places(root, name)
        headers = kernel_headers.are_there(root, name)
        # A removed kernel may leave an empty folder.
        if places or headers:
            built = [one for one in needed if one in places and not places[one].startswith("kernel/")]
            kernels.append(Kernel(name, headers, len(built) == len(needed)))
    return kernels


def without_driver(
    kernels: t.Iterable[Kernel], running: str, boots_next: str | None = None
) -> list[dict[str, t.Any]]:
    """Return the kernels that a boot would leave without the vendor's driver, each with the reason.

    Args:
        kernels: From `read_kernels`. One without headers that neither runs nor boots next is an old one, for
            which no modules are built.
        running: The running kernel.
        boots_next: The kernel that boots next, if known.
    """
    missing = []
    for one in kernels:
        if one.has_driver or not (one.has_headers or one.kernel in (running, boots_next)):
            continue
        why = (
            "DKMS built no module: `dkms status` and make.log below /var/lib/dkms say why"
            if one.has_headers
            else f"it has no headers: install linux-headers-{one.kernel}, or boot a kernel that has them"
            + ("" if one.kernel == running else " (this one boots next)")
        )
        missing.append({"kernel": one.kernel, "has_headers": one.has_headers, "why": why})
    if running not in [one.kernel for one in kernels]:
        why = f"neither its modules nor its headers are there: install linux-headers-{running}"
        missing.append({"kernel": running, "has_headers": False, "why": why})
    return missing


def pending(modules: t.Iterable[KernelModule], needed: t.Container[str]) -> str | None:
    """Return why the loaded driver is not the one that the next boot would load, or None."""
    said = []
    for one in modules:
        if one.name not in needed or one.on_disk is None:
            continue
        there = one.version_on_disk or one.on_disk
        if one.loaded is None and one.on_disk == "vendor":
            said.append(f"{one.name} {there} is installed and not loaded")
        elif one.loaded is not None and one.loaded != there:
            said.append(f"{one.name} {one.loaded} is loaded, {there} is installed for the running kernel")
    return "; ".join(said) or None


def installed_stack(packages: t.Mapping[str, Package]) -> tuple[str | None, list[str]]:
    """Return the name of the installed vendor's stack, and the packages that identify it."""
    there = sorted(name for name, package in packages.items() if package.state == "installed")
    for stack, pattern in _STACKS:
        names = [name for name in there if pattern.match(name)]
        if names:
            return stack, names
    parts = [name for name in _KERNEL_PARTS if name in there]
    return ("unknown", parts) if parts else (None, [])


def refuse_stack(
    provider: str, stack: str | None, versions: t.Mapping[str, str], allowed: t.Container[str]
) -> list[str]:
    """Return an error if another stack conflicts with a vendor's, or None.

    Args:
        provider: The wanted provider.
        stack: The installed one, as named by `installed_stack`.
        versions: The packages that identify it.
        allowed: Packages that may be removed or replaced.
    """
    kept = [f"{name} {version}" for name, version in sorted(versions.items()) if name not in allowed]
    if provider not in VENDORS or stack in (None, provider) or not kept:
        return []
    whose = (
        "was installed without a metapackage, as mlnxofedinstall does it"
        if stack == "unknown"
        else f"belongs to another stack ({stack})"
    )
    return [
        f"{', '.join(kept)} is there and {whose}. Fix: allow its replacement by name "
        "(rdma_stack_remove_allow), or uninstall it in a maintenance window "
        "(`/usr/sbin/ofed_uninstall.sh --force` where it is there)"
    ]


def to_remove(provider: str, stack: str | None, names: t.Sequence[str]) -> list[str]:
    """Return the packages that conflict with the provider; the kernel part is not removed but replaced."""
    return list(names) if provider in VENDORS and stack not in (None, provider, "unknown") else []


def kernel_metapackages(packages: t.Mapping[str, Package]) -> list[str]:
    """Return the packages that would install another kernel."""
    return kernel_headers.metapackages(_installed(packages))


def headers_to_follow(packages: t.Mapping[str, Package]) -> list[str]:
    """Return the missing headers packages that would follow the kernel's metapackages."""
    return kernel_headers.to_follow(_installed(packages))


def _installed(packages: t.Mapping[str, Package]) -> list[str]:
    return [name for name, package in packages.items() if package.state == "installed"]


def secure_boot(reader: Reader) -> bool | None:
    """Return whether Secure Boot is on; None without UEFI, or where it is unknown."""
    try:
        with open(reader.sys(_SECURE_BOOT), "rb") as file:
            value = file.read()
    except OSError:
        return None
    return value[_STATUS_BYTE] == 1 if len(value) > _STATUS_BYTE else None


def firmware_differs(cards: t.Iterable[Card], wanted: t.Mapping[str, str]) -> list[str]:
    """Return a message for each NIC whose firmware is not the wanted one of its generation.

    Args:
        cards: The NICs with their firmware by sysfs.
        wanted: Generation -> version.
    """
    said = []
    for card in cards:
        version = wanted.get(card.generation or "")
        if version is not None and card.firmware is not None and card.firmware != version:
            said.append(
                f"{card.generation} ({card.pci}) runs firmware {card.firmware}, wanted is {version}. Fix: "
                f"name the image of board {card.psid} in rdma_stack_firmware_images, or update it with the "
                "vendor's own tool in a maintenance window"
            )
    return said
