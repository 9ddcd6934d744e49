# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which packages bring a node's next kernel, and the headers that modules are built against."""

from __future__ import annotations

import os
import re
import typing as t

# A kernel's metapackage, which brings the next kernel: the flavour alone (amd64, generic, generic-hwe-24.04).
_METAPACKAGE = re.compile(r"linux-(?:image|headers)-(?![0-9])\S+\Z")
_IMAGE = "linux-image-"
# Symbols for a debugger, and modules that come beside a kernel.
_NO_HEADERS = re.compile(r"(?:-dbg|-dbgsym)\Z|\Aextra-")


def metapackages(installed: t.Iterable[str]) -> list[str]:
    """Name what of the installed packages would bring another kernel."""
    return sorted(name for name in installed if _METAPACKAGE.match(name))


def to_follow(installed: t.Iterable[str]) -> list[str]:
    """Name the headers that follow the kernel's metapackages and are not there.

    Without them the next kernel comes without headers, and DKMS builds nothing for it.
    """
    there = metapackages(installed)
    flavours = [name[len(_IMAGE) :] for name in there if name.startswith(_IMAGE)]
    wanted = [f"linux-headers-{flavour}" for flavour in flavours if not _NO_HEADERS.search(flavour)]
    return [name for name in wanted if name not in there]


def missing(root: str, kernels: t.Iterable[str | None]) -> list[str]:
    """Name the headers that are not there of these kernels: the one that runs, the one that boots next."""
    wanted = dict.fromkeys(kernel for kernel in kernels if kernel)
    return [f"linux-headers-{kernel}" for kernel in wanted if not are_there(root, kernel)]


def are_there(root: str, kernel: str) -> bool:
    """Tell whether modules can be built for a kernel; a link to headers that are gone is none."""
    return os.path.isdir(os.path.join(root, "lib/modules", kernel, "build"))
