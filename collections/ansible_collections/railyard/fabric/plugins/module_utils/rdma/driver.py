# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of the RDMA driver is there: where the loaded module comes from, and whose stack is installed.

`root` is `/` on a node and a folder in the tests. Loads nothing: what is on disk is what depmod knows, since
that is what modprobe would take.
"""

from __future__ import annotations

import os
import re
import typing as t

from ansible_collections.railyard.fabric.plugins.module_utils import node_files
from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import Reader
from ansible_collections.railyard.fabric.plugins.module_utils.kernel import headers as kernel_headers
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.node.apt_get import Package
from ansible_collections.railyard.fabric.plugins.module_utils.rdma.hardware import Card

MODULES = ("mlx5_core", "mlx4_core")
VENDORS = ("doca", "mlnx_ofed")
# Packages by which a vendor's stack is known. Both have the kernel part under the same name; the
# metapackages differ. Ubuntu's own has one for each flavour of its kernels (Ubuntu Server's page "Install and
# maintain DOCA-OFED").
_STACKS = (
    ("doca", re.compile(r"doca-(?:ofed|networking|all)\Z")),
    ("ubuntu", re.compile(r"doca-ofed-(?:aws|azure|gcp|generic|oracle)\b.*\Z")),
    (
        "mlnx_ofed",
        re.compile(r"mlnx-ofed-(?:all|basic|dpdk|eth-only|guest|hpc|hypervisor|kernel-only|vma)\b.*\Z"),
    ),
)
# What mlnxofedinstall leaves, which asks for no metapackage; the second is built for one kernel only.
_KERNEL_PARTS = ("mlnx-ofed-kernel-dkms", "mlnx-ofed-kernel-modules")
Run = t.Callable[[t.Sequence[str]], "str | None"]
# The variable of UEFI that says it: four bytes of attributes, then the value.
_SECURE_BOOT = "firmware/efi/efivars/SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
_STATUS_BYTE = 4


class KernelModule(t.NamedTuple):
    """A kernel module of the driver.

    Attributes:
        loaded: The version that it says it has (the kernel's own say none), or `inbox`; None where it is not
            loaded.
        on_disk: `vendor` (built outside the kernel), `inbox`, or None where the running kernel has none.
        version_on_disk: Of a vendor's module, as modinfo tells it; None where it does not.
    """

    name: str
    loaded: str | None
    on_disk: str | None
    version_on_disk: str | None = None


class Kernel(t.NamedTuple):
    """A kernel that could be booted, or whose headers wait for it.

    Attributes:
        kernel: Its release.
        has_headers: Whether modules can be built for it.
        has_driver: Whether it has the vendor's module for each card.
    """

    kernel: str
    has_headers: bool
    has_driver: bool


def _places(root: str, kernel: str) -> dict[str, str]:
    """Return where depmod knows the modules of a kernel, below its folder."""
    # Of a kernel without modules on disk what is loaded is all there is.
    paths = node_files.list_modules(root, kernel)
    return {os.path.basename(path).split(".", maxsplit=1)[0]: path for path in paths}


def read_modules(root: str, reader: Reader, kernel: str, run: Run | None = None) -> list[KernelModule]:
    """Return the modules of the driver.

    Args:
        root: Where `lib/modules` lies.
        reader: Reads what is loaded.
        kernel: The running kernel.
        run: Runs an argv and returns what it printed, None where it failed; without it no version is read.
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
        needed: The modules that the node's cards need.
    """
    kernels = []
    for name in node_files.list_names(os.path.join(root, "lib/modules")):
        places = _places(root, name)
        headers = kernel_headers.are_there(root, name)
        # A kernel that was removed may leave an empty folder.
        if places or headers:
            built = [one for one in needed if one in places and not places[one].startswith("kernel/")]
            kernels.append(Kernel(name, headers, len(built) == len(needed)))
    return kernels


def without_driver(
    kernels: t.Iterable[Kernel], running: str, boots_next: str | None = None
) -> list[dict[str, t.Any]]:
    """Return the kernels that a boot would leave without the vendor's driver, each with the reason.

    Args:
        kernels: From `read_kernels`. One without headers that neither runs nor boots next is an old one,
            which nobody builds for.
        running: The running kernel.
        boots_next: The kernel that boots next, where that can be told.
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
    """Say why what runs is not what the next boot would load; None when it is."""
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
    """Name the vendor's stack that is installed, and the packages by which it is known."""
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
    """Say which other stack is in the way of a vendor's.

    Args:
        provider: The one that is wanted.
        stack: The one that is there, as `installed_stack` names it.
        versions: The packages by which it is known.
        allowed: Packages that may be removed, or be moved to what is wanted.
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
    """Name what must not be there beside the provider; the kernel part is not removed but moved."""
    return list(names) if provider in VENDORS and stack not in (None, provider, "unknown") else []


def kernel_metapackages(packages: t.Mapping[str, Package]) -> list[str]:
    """Name what would bring another kernel."""
    return kernel_headers.metapackages(_installed(packages))


def headers_to_follow(packages: t.Mapping[str, Package]) -> list[str]:
    """Name the headers that would follow the kernel's metapackages, and are not there."""
    return kernel_headers.to_follow(_installed(packages))


def _installed(packages: t.Mapping[str, Package]) -> list[str]:
    return [name for name, package in packages.items() if package.state == "installed"]


def secure_boot(reader: Reader) -> bool | None:
    """Tell whether Secure Boot is on; None where there is no UEFI, or it does not say."""
    try:
        with open(reader.sys(_SECURE_BOOT), "rb") as file:
            value = file.read()
    except OSError:
        return None
    return value[_STATUS_BYTE] == 1 if len(value) > _STATUS_BYTE else None


def firmware_differs(cards: t.Iterable[Card], wanted: t.Mapping[str, str]) -> list[str]:
    """Say which card has another firmware than its generation is to have.

    Args:
        cards: The cards with the firmware that sysfs tells.
        wanted: Generation to version.
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
