# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The packages that bring a driver and what goes with it, and where they come from. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.apt import vendor_repository
from ansible_collections.railyard.fabric.plugins.module_utils.gpu import catalogue
from ansible_collections.railyard.fabric.plugins.plugin_utils.gpu.driver.work import AUTO, Work

# Of a kernel that Ubuntu signed: for others, and for its modules beside the kernel, there are none.
_IMAGE = re.compile(r"linux-image-(?!unsigned-|extra-)(.+)(?<!-dbg)(?<!-dbgsym)\Z")


def _named(names: Sequence[str], branch: int, cuda: str = "") -> list[str]:
    return [name.replace("{branch}", str(branch)).replace("{cuda}", cuda.replace(".", "-")) for name in names]


def _is_of(branch: int, row: Mapping[str, Any]) -> bool:
    """Tell whether a row of names by branch is of this one."""
    return int(row["first_branch"]) <= branch <= int(row.get("last_branch") or branch)


def _prebuilt_packages(work: Work, branch: int, flavour: str) -> list[str]:
    """Return what brings the distribution's own signed modules: of each kernel that moves, and this one."""
    offered = work.layout.get("prebuilt", {}).get(flavour)
    if not offered:
        what = f"{work.layout['name']} has no {flavour} kernel modules that are built and signed already"
        work.refuse("prebuilt_not_offered", what, "nvidia_driver_prebuilt: false")
        return []
    images = (_IMAGE.match(name) for name in work.facts.get("kernel_packages") or [])
    kernels = [image.group(1) for image in images if image] + [str(work.facts.get("kernel") or "")]
    names = [name.replace("{kernel}", kernel) for kernel in kernels for name in offered["modules"]]
    return _named([*dict.fromkeys(names), *offered["packages"]], branch)


def of_driver(work: Work, branch: int, flavour: str) -> list[str]:
    """Return the packages of the driver itself, or refuse where the source has none."""
    if work.asked.get("prebuilt"):
        return _prebuilt_packages(work, branch, flavour)
    for row in work.layout["packages"]:
        if _is_of(branch, row):
            names = row.get(flavour)
            if names:
                return _named(names, branch)
    what = f"{work.layout['name']} has no {flavour} kernel modules of branch {branch}"
    work.refuse("flavour_not_offered", what, "nvidia_driver_source: vendor")
    return []


def of_cuda(work: Work, generations: Mapping[str, tuple[str, ...]], branch: int) -> list[str]:
    """Return the packages of the requested toolkit, if all generations and the branch go with it."""
    asked = str(work.asked.get("cuda") or "")
    if not asked:
        return []
    major = int(asked.partition(".")[0])
    for name in sorted(generations):
        last = catalogue.GENERATIONS[name].last_cuda_major
        if last is not None and major > last:
            what = f"CUDA toolkit {asked} does not compile for {name}: {last}.x was the last"
            work.refuse("cuda_too_new", what, f"nvidia_driver_cuda: a version {last}.x")
    needed = catalogue.CUDA_FIRST_BRANCH.get(major)
    if needed is not None and branch < needed:
        what = f"CUDA toolkit {asked} needs branch {needed} or newer, not {branch}"
        work.refuse("cuda_needs_branch", what, f"nvidia_driver_branch: {needed}, or an older toolkit")
    offered = work.layout.get("cuda") or {}
    versions = [str(one) for one in offered.get("versions") or []]
    if not offered or (versions and asked not in versions):
        what = f"only {', '.join(versions)}" if versions else "none at all"
        work.refuse(
            "cuda_not_offered",
            f"{work.layout['name']} has no CUDA toolkit {asked}, {what}",
            "nvidia_driver_source: vendor" + (f", or nvidia_driver_cuda: {versions[-1]}" if versions else ""),
        )
        return []
    if not versions and "." not in asked:
        what = f"nvidia_driver_cuda: {asked} names no minor version, which the packages have in their names"
        work.refuse("cuda_version", what, f'nvidia_driver_cuda: "{asked}.0", or what the repository has')
        return []
    return _named(offered["packages"], branch, asked)


def beside(work: Work, key: str, what: str, branch: int) -> list[str]:
    """Return the packages of something beside the driver, or refuse where the source has none.

    The data names them, or has rows of names by branch where they were renamed.
    """
    names = []
    for one in work.layout.get(key) or []:
        if isinstance(one, str):
            names.append(one)
        elif _is_of(branch, one):
            names += one["names"]
    if not names:
        text = f"{work.layout['name']} has no {what}"
        work.refuse(f"{key}_not_offered", text, "nvidia_driver_source: vendor")
    return _named(names, branch)


def wants_fabric_manager(work: Work) -> bool:
    """Fabric Manager on NVSwitch machines only: elsewhere its service fails at each boot."""
    there = bool(work.facts.get("nvswitch"))
    asked = work.asked.get("fabric_manager", AUTO)
    if asked == AUTO:
        return there
    wanted = asked in (True, "true", "yes")
    if wanted and not there and not work.asked.get("generations"):
        what = "the Fabric Manager is requested, but there is no NVSwitch"
        work.refuse("no_nvswitch", what, "nvidia_driver_fabric_manager: auto")
    if there and not wanted:
        text = "There are NVSwitches, and without the Fabric Manager CUDA does not start on their GPUs."
        work.find("fabric_manager_off", text)
    return wanted


def headers(work: Work) -> list[str]:
    """Return the headers that follow the distribution's usual kernel of the node's architecture."""
    architecture = work.facts.get("architecture") or ""
    return [name.replace("{architecture}", architecture) for name in work.layout.get("headers") or []]


def uris(work: Work) -> list[str]:
    """Return where the vendor's repository is, for the node's architecture; none for the distribution's."""
    offered = work.layout.get("uris")
    if offered is None:
        return []
    architecture = work.facts.get("architecture")
    uris = list(work.asked.get("vendor_uris") or offered.get(architecture) or [])
    if not uris:
        what = f"{work.layout['name']} is for {' and '.join(offered)}, and the node is {architecture}"
        fix = "nvidia_driver_source: distribution, or nvidia_driver_vendor_uris with a repository for it"
        work.refuse("no_repository", what, fix)
    system = work.facts.get("os") or {}
    node = vendor_repository.Node(system.get("id"), system.get("version"), architecture)
    for problem in vendor_repository.refuse(node, uris, ["./"], "nvidia_driver_vendor_uris"):
        work.refusals.append({"code": "repository", "text": f"{problem}."})
    return uris
