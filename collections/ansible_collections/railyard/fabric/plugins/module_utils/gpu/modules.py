# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The NVIDIA kernel module: which one is loaded, which are installed for which kernel, and if they agree.

Loads nothing. The installed ones are those that depmod knows, since that is what modprobe would take.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import Any

from .. import node_files
from ..facts.sysfs import Reader
from ..facts.tools import Run
from .catalogue import OPEN, PROPRIETARY

# nvidia.ko, and Debian's nvidia-current.ko, nvidia-current-open.ko, nvidia-tesla-470.ko: the core module. Its
# companions end in what they are for.
_CORE = re.compile(
    r"nvidia(?:-(?:current|tesla|legacy|open|srv|server|[0-9]+(?:xx)?))*\.ko(?:\.(?:xz|zst|gz))?\Z"
)
_MODINFO = re.compile(r"^(version|license|signer|vermagic):\s*(\S.*?)\s*$", re.M)
_NVRM = re.compile(r"^NVRM version:\s*(.+)$", re.M)
_VERSION = re.compile(r"\b([0-9]{3}(?:\.[0-9]+){1,2})\b")


def loaded(reader: Reader) -> dict[str, Any]:
    """Return `version` and `flavour` of the module that is loaded, both None without one."""
    version = reader.text(reader.sys("module", "nvidia", "version"))
    said = _NVRM.search(reader.text(reader.proc("driver", "nvidia", "version")) or "")
    flavour = None
    if said:
        flavour = OPEN if "Open Kernel Module" in said.group(1) else PROPRIETARY
        number = _VERSION.search(said.group(1))
        version = version or (number.group(1) if number else None)
    return {"version": version, "flavour": flavour}


# In the order in which they are unloaded, dependent ones first. nvidia_fs is GPUDirect Storage's.
_STACK = ("nvidia_fs", "nvidia_drm", "nvidia_modeset", "nvidia_peermem", "nvidia_uvm", "nvidia")


def stack(reader: Reader) -> list[dict[str, Any]]:
    """Return the loaded modules of the driver in the order of unloading: `name`, and whether it is `used`.

    What the kernel counts as users of a module are other modules and open files. A module that has more users
    than modules on top of it is used by a process, or holds the console.
    """
    found = []
    for name in _STACK:
        folder = reader.sys("module", name)
        if os.path.isdir(folder):
            users = reader.number(os.path.join(folder, "refcnt")) or 0
            found.append({"name": name, "used": users > len(reader.names(os.path.join(folder, "holders")))})
    return found


def nouveau_is_loaded(reader: Reader) -> bool:
    """Say whether the kernel's own driver is loaded, which holds the GPUs until a reboot."""
    return os.path.isdir(reader.sys("module", "nouveau"))


def kernels(root: str) -> list[dict[str, Any]]:
    """Return the kernels that have modules or headers: `kernel`, and whether it has `headers` for DKMS."""
    folder = os.path.join(root, "lib/modules")
    # A kernel that was removed may leave an empty folder; a link to the headers that is broken is no headers.
    return [
        {"kernel": name, "headers": os.path.isdir(os.path.join(folder, name, "build"))}
        for name in node_files.list_names(folder)
        if os.path.isfile(os.path.join(folder, name, "modules.dep"))
        or os.path.isdir(os.path.join(folder, name, "build"))
    ]


def _told_by_modinfo(path: str, run: Run) -> dict[str, str]:
    # The first of each: `signer` and the like come once, `license` may be repeated by a build system.
    told: dict[str, str] = {}
    for key, value in _MODINFO.findall(run(["modinfo", path]) or ""):
        told.setdefault(key, value)
    return told


def installed(root: str, run: Run) -> list[dict[str, Any]]:
    """Return the installed core modules, by kernel.

    Args:
        root: Where `lib/modules` lies.
        run: Runs an argv and returns what it printed; None when there is no such tool.

    Returns:
        `kernel`, `path`, and as modinfo says `version`, `flavour`, `signer`, each None when it does not.
    """
    found: list[dict[str, Any]] = []
    for one in kernels(root):
        known = node_files.list_modules(root, one["kernel"])
        for place in (place for place in known if _CORE.match(os.path.basename(place))):
            path = os.path.join(root, "lib/modules", one["kernel"], place)
            told = _told_by_modinfo(path, run)
            licence = told.get("license")
            found.append(
                {
                    "kernel": one["kernel"],
                    "path": path,
                    "version": told.get("version"),
                    # The open modules are "Dual MIT/GPL", the proprietary ones "NVIDIA".
                    "flavour": None if licence is None else PROPRIETARY if licence == "NVIDIA" else OPEN,
                    "signer": told.get("signer"),
                }
            )
    return found


def pending(
    now: Mapping[str, Any], there: Sequence[Mapping[str, Any]], kernel: str | None, nouveau: bool
) -> str | None:
    """Say why the loaded driver is not the one that the next boot would load; None when it is.

    Args:
        now: What `loaded` returned.
        there: What `installed` returned.
        kernel: The running kernel's release.
        nouveau: Whether Nouveau is loaded.
    """
    for_running = [one for one in there if one["kernel"] == kernel]
    if now["version"] is None:
        if nouveau and there:
            return "Nouveau is loaded and holds the GPUs, while a driver of NVIDIA's is installed"
        return None
    if not for_running:
        what = "is loaded, but no NVIDIA module is installed for the running kernel"
        return f"{now['version']} {what} {kernel}"
    versions = {one["version"] for one in for_running}
    if None in versions:
        return None  # which one is installed is unknown, so that nothing is known to wait
    if now["version"] not in versions:
        listed = ", ".join(sorted(versions))
        return f"{now['version']} is loaded, {listed} is installed for the running kernel"
    flavours = {one["flavour"] for one in for_running if one["version"] == now["version"]}
    if now["flavour"] is not None and None not in flavours and now["flavour"] not in flavours:
        both = f"is loaded as {now['flavour']} module, and installed as {flavours.pop()} module"
        return f"{now['version']} {both}"
    return None
