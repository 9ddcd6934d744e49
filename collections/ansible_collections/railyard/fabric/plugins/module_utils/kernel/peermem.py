# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether nvidia-peermem was built for the RDMA stack that a kernel has now.

The driver's DKMS source looks for the vendor's RDMA sources while it is built. Where there are none,
nvidia-peermem is built without the peer-memory interface, and its load ends with "Invalid argument"; where
they were another version's, the kernel refuses it by the versions of its symbols, with the same words.
Nothing builds it anew when the RDMA stack comes or changes later.

Sources: NVIDIA/open-gpu-kernel-modules, kernel-open/nvidia-peermem (NV_MLNX_IB_PEER_MEM_SYMBOLS_PRESENT, else
the module's init returns -EINVAL); NVIDIA/gpu-operator issue 2868 (2026-09: a changed network driver left
"older gpu/peermem modules compiled against an older ABI"). On nodes where it works ib_core or ib_uverbs has
nvidia_peermem among its holders, in lsmod's outputs of many public reports.
"""

from __future__ import annotations

import os
import re
import typing as t

from .. import node_files
from ..facts.sysfs import Reader

Run = t.Callable[[t.Sequence[str]], "str | None"]
# Debian's is nvidia-current-peermem.ko, beside nvidia-current.ko.
_FILE = re.compile(r"nvidia(?:-[a-z0-9]+)*-peermem\.ko(?:\.(?:xz|zst|gz))?\Z")
_STACK = re.compile(r"ib_(?:core|uverbs)\.ko(?:\.(?:xz|zst|gz))?\Z")
_LOADED = ("nvidia_peermem", "nv_peer_mem")
_LISTED = re.compile(r"^[ \t]*nvidia[-_a-z0-9]*[-_]peermem[ \t]*$", re.M)


class Build(t.NamedTuple):
    """The module of one kernel that does not fit the kernel's RDMA stack.

    Attributes:
        kernel: Its release.
        module: What DKMS calls the source; None where DKMS did not build it.
        version: Of that source.
        why: Why it does not fit.
    """

    kernel: str
    module: str | None
    version: str | None
    why: str


def facts(reader: Reader, root: str, run: Run) -> dict[str, t.Any]:
    """Return `wanted`, and `unfit` as dictionaries."""
    return {"wanted": is_wanted(reader, root), "unfit": [one._asdict() for one in unfit(root, run)]}


def is_wanted(reader: Reader, root: str) -> bool:
    """Tell whether the node uses nvidia-peermem: it is loaded, or a boot loads it."""
    if any(os.path.isdir(reader.sys("module", name)) for name in _LOADED):
        return True
    folder = os.path.join(root, "etc/modules-load.d")
    files = [os.path.join(folder, name) for name in reader.names(folder) if name.endswith(".conf")]
    paths = (*files, os.path.join(root, "etc/modules"))
    return any(_LISTED.search(node_files.read_text(path) or "") for path in paths)


def unfit(root: str, run: Run) -> list[Build]:
    """Return the kernels whose nvidia-peermem has to be built anew.

    Args:
        root: Where `lib/modules` and `var/lib/dkms` lie.
        run: Runs an argv and returns what it printed; None when that failed.
    """
    found = []
    top = os.path.join(root, "lib/modules")
    for kernel in node_files.list_names(top):
        folder = os.path.join(top, kernel)
        places = node_files.list_modules(root, kernel)
        peermem = next((place for place in places if _FILE.match(os.path.basename(place))), None)
        # Those of the kernel's own have no peer-memory interface, whatever peermem was built for.
        stack = [
            place
            for place in places
            if _STACK.match(os.path.basename(place)) and not place.startswith("kernel/")
        ]
        if peermem is None or not stack:
            continue
        why = _why(folder, peermem, stack, run)
        if why is not None:
            found.append(Build(kernel, *_source(root, kernel, os.path.basename(peermem)), why))
    return found


def _why(folder: str, peermem: str, stack: t.Sequence[str], run: Run) -> str | None:
    path = os.path.join(folder, peermem)
    needs = run(["modinfo", "-F", "depends", path])
    if needs is not None and not {"ib_core", "ib_uverbs"} & set(needs.strip().replace(",", " ").split()):
        return "it was built without the peer-memory interface, before the RDMA stack came"
    try:
        built = os.stat(path).st_mtime_ns
        if built < max(os.stat(os.path.join(folder, place)).st_mtime_ns for place in stack):
            return "it is older than the RDMA stack of this kernel"
    except OSError:
        return None  # what is being replaced right now is looked at again by the next run
    return None


def _source(root: str, kernel: str, name: str) -> tuple[str | None, str | None]:
    """Return the DKMS source that built the module, and its version."""
    stem = name.split(".", maxsplit=1)[0]
    tree = os.path.join(root, "var/lib/dkms")
    for module in node_files.list_names(tree):
        for version in node_files.list_names(os.path.join(tree, module)):
            folder = os.path.join(tree, module, version)
            if os.path.islink(folder):
                continue  # kernel-RELEASE-ARCH, a link to one of the versions
            for machine in node_files.list_names(os.path.join(folder, kernel)):
                built = node_files.list_names(os.path.join(folder, kernel, machine, "module"))
                if any(one.split(".", maxsplit=1)[0] in (stem, "nvidia-peermem") for one in built):
                    return module, version
    return None, None
