# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decides a node's NVIDIA driver: branch, modules, packages and the way to GPU memory, or why there is none.

Pure: facts of `gpu_info`, what is asked, and the data of a source of packages in; one choice out. All that
stands in the way is named at once, each with the value that is right.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.apt import vendor_repository
from ansible_collections.railyard.fabric.plugins.module_utils.gpu import catalogue
from ansible_collections.railyard.fabric.plugins.module_utils.gpu.catalogue import (
    DMA_BUF,
    NO_PATH,
    OPEN,
    PEERMEM,
    PROPRIETARY,
)

AUTO = "auto"
# RDMA stacks that bring the peer-memory interface that nvidia-peermem needs; the inbox one does not.
_WITH_PEER_MEMORY = ("doca", "mlnx_ofed")
# Of a kernel that Ubuntu signed: for others, and for its modules beside the kernel, there are none.
_IMAGE = re.compile(r"linux-image-(?!unsigned-|extra-)(.+)(?<!-dbg)(?<!-dbgsym)\Z")
_KERNEL = re.compile(r"([0-9]+)\.([0-9]+)")


@dataclasses.dataclass
class _Work:
    """What is decided so far, and what stands in the way."""

    facts: Mapping[str, Any]
    asked: Mapping[str, Any]
    layout: Mapping[str, Any]
    refusals: list[dict[str, str]] = dataclasses.field(default_factory=list)
    findings: list[dict[str, str]] = dataclasses.field(default_factory=list)

    def refuse(self, code: str, what: str, fix: str) -> None:
        """Add a reason why nothing can be installed."""
        self.refusals.append({"code": code, "text": f"{what}. Fix: {fix}."})

    def find(self, code: str, text: str) -> None:
        """Add what the person should know, and which does not stop the installation."""
        self.findings.append({"code": code, "text": text})


def _generations(work: _Work) -> dict[str, tuple[str, ...]]:
    """Return the generations to drive, each with the modules that all of its GPUs take."""
    declared = list(work.asked.get("generations") or [])
    if declared:
        unknown = [name for name in declared if name not in catalogue.GENERATIONS]
        if unknown:
            known = ", ".join(catalogue.GENERATIONS)
            work.refuse(
                "unknown_generation",
                f"nvidia_driver_generations names {', '.join(unknown)}, which is none of those known",
                f"one of {known}",
            )
        return {name: catalogue.flavours_of(name) for name in declared if name in catalogue.GENERATIONS}
    gpus = work.facts.get("gpus") or []
    if not gpus:
        work.refuse(
            "no_gpu",
            "there is no NVIDIA GPU on the PCI bus",
            "nvidia_driver_enabled: false for this host, or nvidia_driver_generations to prepare it ahead",
        )
    found: dict[str, tuple[str, ...]] = {}
    for gpu in gpus:
        name = gpu["generation"]
        if name is None:
            work.refuse(
                "unknown_gpu",
                f"GPU {gpu['pci']} ({gpu['pci_id']}) is in no known generation",
                "set nvidia_driver_generations to the one that its modules, branch and toolkit follow",
            )
            continue
        flavours = catalogue.flavours_of(name, int(gpu["pci_id"].partition(":")[2], 16))
        found[name] = tuple(one for one in found.get(name, flavours) if one in flavours)
    return found


def _flavour(work: _Work, generations: Mapping[str, tuple[str, ...]], branch: int | None) -> str | None:
    """Return the kernel modules that drive all generations."""
    allowed_by = list(generations.values())
    common = [one for one in catalogue.FLAVOURS if all(one in allowed for allowed in allowed_by)]
    asked = work.asked.get("flavour") or AUTO
    if not common:
        in_order = sorted(generations.items())
        each = "; ".join(f"{name} takes {' or '.join(allowed)}" for name, allowed in in_order)
        work.refuse(
            "mixed_generations",
            f"no kernel modules drive all GPUs of this node: {each}",
            "move the GPUs of one generation to another node; one node has one driver",
        )
        return None
    if asked != AUTO and asked not in common:
        for name, allowed in sorted(generations.items()):
            if asked not in allowed:
                work.refuse(
                    "flavour",
                    f"{name} cannot be driven by the {asked} kernel modules",
                    f"nvidia_driver_flavour: {common[0]} (or auto)",
                )
        return None
    if asked != AUTO:
        return str(asked)
    preferred = list(work.layout.get("flavours") or [])
    if not preferred:
        newer = branch is None or branch >= catalogue.OPEN_IS_DEFAULT_FROM
        preferred = [OPEN, PROPRIETARY] if newer else [PROPRIETARY, OPEN]
    return next((one for one in preferred if one in common), common[0])


def _first_branches(work: _Work, generations: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """Return the first branch that knows each generation, as far as its GPUs on this node need."""
    firsts = {name: catalogue.first_branch_of(name) for name in generations}
    for gpu in [] if work.asked.get("generations") else work.facts.get("gpus") or []:
        name = gpu["generation"]
        if name in firsts:
            device = int(gpu["pci_id"].partition(":")[2], 16)
            firsts[name] = max(firsts[name], catalogue.first_branch_of(name, device))
    return firsts


def _branch(work: _Work, generations: Mapping[str, tuple[str, ...]]) -> int | None:
    """Return the driver branch: what is asked if all have it, else the newest that they all have."""
    known = [catalogue.GENERATIONS[name] for name in generations]
    firsts = _first_branches(work, generations)
    first_name = max(firsts, key=lambda name: firsts[name])
    first = firsts[first_name]
    ending = [one for one in known if one.last_branch is not None]
    last = min(ending, key=lambda one: one.last_branch or 0) if ending else None
    if last is not None and last.last_branch is not None and first > last.last_branch:
        work.refuse(
            "no_common_branch",
            f"{first_name} begins with branch {first}, {last.name} ends with {last.last_branch}",
            "move the GPUs of one generation to another node; one node has one driver",
        )
        return None
    newest = last.last_branch if last is not None else None
    offered = [int(one) for one in work.layout.get("branches") or []]
    asked = work.asked.get("branch")
    if asked in (None, ""):
        wanted = int(work.layout["default_branch"])
        if newest is not None and wanted > newest:
            wanted = newest
    else:
        wanted = int(str(asked))
    if newest is not None and last is not None and wanted > newest:
        work.refuse(
            "branch_too_new",
            f"{last.name} is not driven by branch {wanted}: R{newest} was the last",
            f"nvidia_driver_branch: {newest}",
        )
        return None
    if wanted < first:
        right = f"{first} or newer" if newest is None else str(newest)
        # The source may have no such branch either: then only another source helps.
        elsewhere = bool(offered) and max(offered) < first
        work.refuse(
            "branch_too_old",
            f"{first_name} is not driven by branch {wanted}: R{first} was the first",
            f"nvidia_driver_branch: {right}{', with nvidia_driver_source: vendor' if elsewhere else ''}",
        )
        return None
    if offered and wanted not in offered:
        work.refuse(
            "branch_not_offered",
            f"{work.layout['name']} has no branch {wanted}, only {', '.join(map(str, offered))}",
            f"nvidia_driver_branch: {offered[-1]}, or nvidia_driver_source: vendor",
        )
        return None
    return wanted


def _check_branch_of_flavour(work: _Work, branch: int, flavour: str) -> None:
    if flavour == OPEN and branch < catalogue.FIRST_OPEN_BRANCH:
        work.refuse(
            "no_open_modules",
            f"branch {branch} has no open kernel modules: they came with R{catalogue.FIRST_OPEN_BRANCH}",
            f"nvidia_driver_branch: {catalogue.OPEN_IS_DEFAULT_FROM} or newer",
        )
    if flavour == PROPRIETARY and branch > catalogue.LAST_PROPRIETARY_BRANCH:
        work.refuse(
            "no_proprietary_modules",
            f"branch {branch} has the open kernel modules only",
            f"nvidia_driver_flavour: open, or a branch up to {catalogue.LAST_PROPRIETARY_BRANCH}",
        )


def _named(names: Sequence[str], branch: int, cuda: str = "") -> list[str]:
    return [name.replace("{branch}", str(branch)).replace("{cuda}", cuda.replace(".", "-")) for name in names]


def _prebuilt_packages(work: _Work, branch: int, flavour: str) -> list[str]:
    """Return what brings the distribution's own signed modules: of each kernel that moves, and this one."""
    offered = work.layout.get("prebuilt", {}).get(flavour)
    if not offered:
        work.refuse(
            "prebuilt_not_offered",
            f"{work.layout['name']} has no {flavour} kernel modules that are built and signed already",
            "nvidia_driver_prebuilt: false",
        )
        return []
    images = (_IMAGE.match(name) for name in work.facts.get("kernel_packages") or [])
    kernels = [image.group(1) for image in images if image] + [str(work.facts.get("kernel") or "")]
    names = [name.replace("{kernel}", kernel) for kernel in kernels for name in offered["modules"]]
    return _named([*dict.fromkeys(names), *offered["packages"]], branch)


def _driver_packages(work: _Work, branch: int, flavour: str) -> list[str]:
    if work.asked.get("prebuilt"):
        return _prebuilt_packages(work, branch, flavour)
    for row in work.layout["packages"]:
        if int(row["first_branch"]) <= branch <= int(row.get("last_branch") or branch):
            names = row.get(flavour)
            if names:
                return _named(names, branch)
    work.refuse(
        "flavour_not_offered",
        f"{work.layout['name']} has no {flavour} kernel modules of branch {branch}",
        "nvidia_driver_source: vendor",
    )
    return []


def _cuda(work: _Work, generations: Mapping[str, tuple[str, ...]], branch: int) -> list[str]:
    """Return the packages of the toolkit that is asked, if all generations and the branch go with it."""
    asked = str(work.asked.get("cuda") or "")
    if not asked:
        return []
    major = int(asked.partition(".")[0])
    for name in sorted(generations):
        last = catalogue.GENERATIONS[name].last_cuda_major
        if last is not None and major > last:
            work.refuse(
                "cuda_too_new",
                f"CUDA toolkit {asked} does not compile for {name}: {last}.x was the last",
                f"nvidia_driver_cuda: a version {last}.x",
            )
    needed = catalogue.CUDA_FIRST_BRANCH.get(major)
    if needed is not None and branch < needed:
        work.refuse(
            "cuda_needs_branch",
            f"CUDA toolkit {asked} needs branch {needed} or newer, not {branch}",
            f"nvidia_driver_branch: {needed}, or an older toolkit",
        )
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
        work.refuse(
            "cuda_version",
            f"nvidia_driver_cuda: {asked} names no minor version, which the packages have in their names",
            f'nvidia_driver_cuda: "{asked}.0", or what the repository has',
        )
        return []
    return _named(offered["packages"], branch, asked)


def _extra(work: _Work, key: str, what: str, branch: int) -> list[str]:
    """Return the packages of something beside the driver, or refuse where the source has none.

    The data names them, or has rows of names by branch where they were renamed.
    """
    names = []
    for one in work.layout.get(key) or []:
        if isinstance(one, str):
            names.append(one)
        elif int(one["first_branch"]) <= branch <= int(one.get("last_branch") or branch):
            names += one["names"]
    if not names:
        work.refuse(
            f"{key}_not_offered", f"{work.layout['name']} has no {what}", "nvidia_driver_source: vendor"
        )
    return _named(names, branch)


def _wants_fabric_manager(work: _Work) -> bool:
    """Fabric Manager on NVSwitch machines only: elsewhere its service fails at each boot."""
    there = bool(work.facts.get("nvswitch"))
    asked = work.asked.get("fabric_manager", AUTO)
    if asked == AUTO:
        return there
    wanted = asked in (True, "true", "yes")
    if wanted and not there and not work.asked.get("generations"):
        work.refuse(
            "no_nvswitch",
            "the Fabric Manager is asked and there is no NVSwitch",
            "nvidia_driver_fabric_manager: auto",
        )
    if there and not wanted:
        text = "There are NVSwitches, and without the Fabric Manager CUDA does not start on their GPUs."
        work.find("fabric_manager_off", text)
    return wanted


def _gpudirect(
    work: _Work, generations: Mapping[str, tuple[str, ...]], branch: int, flavour: str
) -> dict[str, str]:
    """Return the way in which an HCA reaches GPU memory, and why it is that one."""
    match = _KERNEL.match(str(work.facts.get("kernel") or ""))
    kernel = (int(match.group(1)), int(match.group(2))) if match else None
    why_not: dict[str, str] = {}
    if flavour != OPEN:
        why_not[DMA_BUF] = "DMA-BUF needs the open kernel modules"
    elif kernel is not None and kernel < catalogue.DMA_BUF_FIRST_KERNEL:
        least = ".".join(map(str, catalogue.DMA_BUF_FIRST_KERNEL))
        why_not[DMA_BUF] = f"DMA-BUF needs Linux {least}, this is {'.'.join(map(str, kernel))}"
    if work.asked.get("rdma_provider") not in _WITH_PEER_MEMORY:
        why_not[PEERMEM] = (
            "nvidia-peermem needs the peer-memory interface of DOCA-OFED or MLNX_OFED, which the RDMA stack "
            f"{work.asked.get('rdma_provider') or 'inbox'} has not"
        )
    elif branch < catalogue.PEERMEM_FIRST_BRANCH:
        why_not[PEERMEM] = f"nvidia-peermem came with R{catalogue.PEERMEM_FIRST_BRANCH}"
    for name in sorted(generations):
        for path in (DMA_BUF, PEERMEM):
            if path not in catalogue.GENERATIONS[name].gpudirect:
                why_not.setdefault(path, f"{name} has no {path}")
    asked = str(work.asked.get("gpudirect") or AUTO)
    if asked == NO_PATH:
        return {"path": NO_PATH, "why": "not asked"}
    if asked != AUTO:
        if asked in why_not:
            other = next((path for path in (DMA_BUF, PEERMEM) if path not in why_not), NO_PATH)
            work.refuse("gpudirect", why_not[asked], f"nvidia_driver_gpudirect: {other}")
        return {"path": asked, "why": "asked"}
    if DMA_BUF not in why_not:
        return {"path": DMA_BUF, "why": "open kernel modules: what NVIDIA recommends"}
    if PEERMEM not in why_not:
        return {"path": PEERMEM, "why": why_not[DMA_BUF]}
    return {"path": NO_PATH, "why": f"{why_not[DMA_BUF]}; {why_not[PEERMEM]}"}


def _headers(work: _Work) -> list[str]:
    """Return the headers that follow the distribution's usual kernel of the node's architecture."""
    architecture = work.facts.get("architecture") or ""
    return [name.replace("{architecture}", architecture) for name in work.layout.get("headers") or []]


def _uris(work: _Work) -> list[str]:
    """Return where the vendor's repository is, for the node's architecture; none for the distribution's."""
    offered = work.layout.get("uris")
    if offered is None:
        return []
    architecture = work.facts.get("architecture")
    uris = list(work.asked.get("vendor_uris") or offered.get(architecture) or [])
    if not uris:
        work.refuse(
            "no_repository",
            f"{work.layout['name']} is for {' and '.join(offered)}, and the node is {architecture}",
            "nvidia_driver_source: distribution, or nvidia_driver_vendor_uris with a repository for it",
        )
    system = work.facts.get("os") or {}
    node = vendor_repository.Node(system.get("id"), system.get("version"), architecture)
    for problem in vendor_repository.refuse(node, uris, ["./"], "nvidia_driver_vendor_uris"):
        work.refusals.append({"code": "repository", "text": f"{problem}."})
    return uris


def choose(facts: Mapping[str, Any], asked: Mapping[str, Any], layout: Mapping[str, Any]) -> dict[str, Any]:
    """Choose the driver of a node.

    Args:
        facts: What `gpu_info` returned.
        asked: `branch`, `flavour`, `generations`, `gpudirect`, `rdma_provider`, `fabric_manager`, `imex`,
            `gds`, `dcgm`, `cuda`, `vendor_uris`, `prebuilt`; what is absent is not asked.
        layout: One source of packages for the node's distribution, from the role's vars.

    Returns:
        `refusals` and `findings` (`code` and `text` each), `generations`, `branch`, `flavour`,
        `driver_packages`, `same_version_packages` (those that must have exactly the driver's version),
        `other_packages`, `headers` (the distribution's usual ones), `prebuilt` (nothing is built on the
        node), `uris` (of the vendor's repository), `gpudirect` (`path` and `why`), `fabric_manager`, `imex`.
        With a refusal there are no packages.
    """
    work = _Work(facts, asked, layout)
    chosen: dict[str, Any] = {
        "branch": None,
        "flavour": None,
        "driver_packages": [],
        "same_version_packages": [],
        "other_packages": [],
        "headers": [] if asked.get("prebuilt") else _headers(work),
        "prebuilt": bool(asked.get("prebuilt")),
        "uris": _uris(work),
        "gpudirect": {"path": NO_PATH, "why": "no driver is chosen"},
        "fabric_manager": False,
        "imex": bool(asked.get("imex")),
    }
    generations = _generations(work)
    if generations:
        branch = _branch(work, generations)
        flavour = _flavour(work, generations, branch)
        if branch is not None and flavour is not None:
            chosen.update(branch=branch, flavour=flavour)
            _check_branch_of_flavour(work, branch, flavour)
            chosen["driver_packages"] = _driver_packages(work, branch, flavour)
            chosen["fabric_manager"] = _wants_fabric_manager(work)
            if chosen["fabric_manager"]:
                chosen["same_version_packages"] += _extra(work, "fabric_manager", "Fabric Manager", branch)
                if any(gpu.get("switches_behind_bridge") for gpu in facts.get("gpus") or []):
                    chosen["other_packages"] += _extra(work, "subnet_manager", "subnet manager", branch)
            if chosen["imex"]:
                chosen["same_version_packages"] += _extra(work, "imex", "IMEX", branch)
            if asked.get("gds"):
                if flavour != OPEN:
                    what = "GPUDirect Storage needs the open kernel modules"
                    work.refuse("gds", what, "nvidia_driver_gds: false")
                chosen["other_packages"] += _extra(work, "gds", "GPUDirect Storage", branch)
            if asked.get("dcgm"):
                chosen["other_packages"] += _extra(work, "dcgm", "DCGM", branch)
            chosen["other_packages"] += _cuda(work, generations, branch)
            chosen["gpudirect"] = _gpudirect(work, generations, branch, flavour)
    if work.refusals:
        chosen.update(driver_packages=[], same_version_packages=[], other_packages=[])
    return {
        "refusals": work.refusals,
        "findings": work.findings,
        "generations": sorted(generations),
        **chosen,
    }
