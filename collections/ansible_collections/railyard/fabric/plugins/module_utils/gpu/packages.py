# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where a node's NVIDIA software came from: packages, archives, an installer's own files, and room for more.

Only reads; each query is run once for all packages.
"""

from __future__ import annotations

import os
import re
from typing import Any

from .. import node_files
from ..facts.tools import Run
from ..kernel import headers

PATTERNS = (
    "nvidia-*",
    "libnvidia-*",
    "libcuda1",
    "xserver-xorg-video-nvidia*",
    "cuda-*",
    "datacenter-gpu-manager*",
    "nvlsm",
    "dkms",
    "linux-headers-*",
    "linux-image-*",
    "linux-modules-nvidia-*",
)
_FORMAT = "RAILYARD ${Package} ${db:Status-Want} ${db:Status-Status} ${Version}\\n"
_ROW = re.compile(r"^RAILYARD (\S+) (\S+) (\S+) ?(\S*)$", re.M)
# What Railyard writes itself: role apt_source.
_OURS = "railyard-"
# Archives that carry an NVIDIA driver of their own.
_ARCHIVES = (
    ("ppa", re.compile(r"ppa\.launchpad(?:content)?\.net/graphics-drivers|ppa:graphics-drivers")),
    ("vendor", re.compile(r"developer\.download\.nvidia\.(?:com|cn)/compute/cuda/repos")),
)
_URI = re.compile(r"\b(?:https?://(?P<site>[^\s/]+)|file:/)\S*")
# `apt-cache policy`: the package, its installed version (***), and where that version is available.
_POLICY_NAME = re.compile(r"^(\S+):$")
_POLICY_VERSION = re.compile(r"^( \*\*\*|    ) (\S+) -?[0-9]+$")
_POLICY_PLACE = re.compile(r"^ +-?[0-9]+ (\S.*)$")
_ENABLED_NO = re.compile(r"^Enabled:\s*no\s*$", re.M | re.I)
# Where what an installation takes goes: libraries, DKMS trees and apt's archives, modules, and the initramfs.
_PLACES = ("/usr", "/var", "/lib/modules", "/boot")
_UNINSTALLER = "usr/bin/nvidia-uninstall"
_LOG = "var/log/nvidia-installer.log"
_TOOL = "usr/bin/nvidia-smi"


def packages(run: Run) -> dict[str, dict[str, Any]]:
    """Return the installed packages of drivers, CUDA, kernels and DKMS: name to `version` and `held`."""
    said = run(["dpkg-query", "--show", f"--showformat={_FORMAT}", *PATTERNS]) or ""
    return {
        name: {"version": version, "held": want == "hold"}
        for name, want, status, version in _ROW.findall(said)
        if status == "installed"
    }


def architecture(run: Run) -> str | None:
    """Return the architecture of the node's packages, in dpkg's words; None where there is no dpkg."""
    return (run(["dpkg", "--print-architecture"]) or "").strip() or None


def archives(root: str) -> list[dict[str, Any]]:
    """Return apt's sources of NVIDIA drivers that are not the distribution's.

    Returns:
        `file`, `kind`, whether it is `ours`, `alone` (the file names nothing else), and the `sites` that it
        names, as apt's preferences know them.
    """
    folder = os.path.join(root, "etc/apt/sources.list.d")
    files = [os.path.join(root, "etc/apt/sources.list")]
    files += [
        os.path.join(folder, name)
        for name in node_files.list_names(folder)
        if name.endswith((".list", ".sources"))
    ]
    found = []
    for path in files:
        said = (node_files.read_text(path) or "").splitlines()
        lines = [line for line in said if not line.lstrip().startswith("#")]
        text = "\n".join(lines)
        if path.endswith(".sources") and _ENABLED_NO.search(text):
            continue
        uris = [match for line in lines for match in _URI.finditer(line)]
        for kind, pattern in _ARCHIVES:
            if pattern.search(text):
                those = [uri for uri in uris if pattern.search(uri.group(0))]
                found.append(
                    {
                        "file": "/" + os.path.relpath(path, root),
                        "kind": kind,
                        "ours": os.path.basename(path).startswith(_OURS),
                        "alone": bool(those) and len(those) == len(uris),
                        "sites": sorted({uri.group("site") or "" for uri in those}),
                    }
                )
    return found


def origins(names: list[str], run: Run) -> dict[str, dict[str, str | None]]:
    """Return where installed packages came from, as far as apt knows an archive of somebody else's for them.

    Returns:
        By name `archive`, the kind that the installed version is of (`ppa`, `vendor`; None for one that the
        distribution has too), and `offered`, the newest version that the distribution has.
    """
    # By package, each place that has a version: that, whether it is installed, the kind of archive.
    places: dict[str, list[tuple[str, bool, str | None]]] = {}
    name = version = ""
    is_installed = False
    for line in (run(["apt-cache", "policy", *names]) or "").splitlines() if names else []:
        title, row, place = _POLICY_NAME.match(line), _POLICY_VERSION.match(line), _POLICY_PLACE.match(line)
        if title:
            name = title.group(1)
            places[name] = []
        elif row:
            version, is_installed = row.group(2), row.group(1) == " ***"
        elif place and name and not place.group(1).startswith("/var/lib/dpkg/"):
            kind = next((kind for kind, pattern in _ARCHIVES if pattern.search(place.group(1))), None)
            places[name].append((version, is_installed, kind))
    found: dict[str, dict[str, str | None]] = {}
    for package, rows in places.items():
        kinds = {kind for _version, there, kind in rows if there}
        found[package] = {
            "archive": None if None in kinds else min(filter(None, kinds), default=None),
            "offered": next((version for version, _there, kind in rows if kind is None), None),
        }
    return found


def _owned(paths: set[str], root: str) -> bool:
    """Say whether a package brought one of the files, by dpkg's own lists."""
    lists = os.path.join(root, "var/lib/dpkg/info")
    for name in node_files.list_names(lists):
        if name.endswith(".list"):
            with open(os.path.join(lists, name), encoding="utf-8", errors="replace") as content:
                if not paths.isdisjoint(content.read().splitlines()):
                    return True
    return False


def run_installer(root: str) -> dict[str, Any]:
    """Return traces of NVIDIA's `.run` installer: files of its that no package brought, and its log."""
    files = []
    for name in (_UNINSTALLER, _TOOL):
        path = os.path.join(root, name)
        # Debian has nvidia-smi behind its alternatives: the real one is what a package brought.
        if os.path.lexists(path) and not _owned({"/" + name, os.path.realpath(path)}, root):
            files.append("/" + name)
    return {"files": files, "log": "/" + _LOG if os.path.isfile(os.path.join(root, _LOG)) else None}


def free_bytes(root: str) -> dict[str, int]:
    """Return the room, for root, in the places that an installation fills."""
    room = {}
    for place in _PLACES:
        try:
            answer = os.statvfs(os.path.join(root, place.lstrip("/")))
        except OSError:
            continue
        room[place] = answer.f_bavail * answer.f_frsize
    return room


def dkms_builds(root: str) -> list[dict[str, str]]:
    """Return what DKMS has built of NVIDIA's modules: `module`, `version`, `kernel`."""
    folder = os.path.join(root, "var/lib/dkms")
    built = []
    for module in node_files.list_names(folder):
        if not module.startswith("nvidia"):
            continue
        for version in node_files.list_names(os.path.join(folder, module)):
            if os.path.islink(os.path.join(folder, module, version)):
                continue  # kernel-RELEASE-ARCH: what is installed, a link to one of the versions
            for kernel in node_files.list_names(os.path.join(folder, module, version)):
                tree = os.path.join(folder, module, version, kernel)
                if any(
                    os.path.isdir(os.path.join(tree, machine, "module"))
                    for machine in node_files.list_names(tree)
                ):
                    built.append({"module": module, "version": version, "kernel": kernel})
    return built


def persistence_daemon(root: str) -> bool:
    """Say whether nvidia-persistenced runs: it keeps a socket as long as it does."""
    return os.path.exists(os.path.join(root, "run/nvidia-persistenced/socket"))


def read(root: str, run: Run, warnings: list[str]) -> dict[str, Any]:
    """Return all of it; other systems than Debian or Ubuntu have no packages."""
    there = packages(run)
    sources = archives(root)
    # apt is run only where there is a foreign archive.
    came = origins(sorted(there), run) if sources else {}
    for name, one in there.items():
        one.update(came.get(name, {"archive": None, "offered": None}))
    if not os.path.isdir(os.path.join(root, "var/lib/dpkg")):
        warnings.append("/var/lib/dpkg: not a Debian or Ubuntu system, so nothing is known of its packages")
    return {
        "architecture": architecture(run),
        "packages": there,
        "kernel_packages": headers.metapackages(there),
        "headers_to_follow": headers.to_follow(there),
        "archives": sources,
        "run_installer": run_installer(root),
        "dkms": dkms_builds(root),
        "free_bytes": free_bytes(root),
        "persistence_daemon": persistence_daemon(root),
    }
