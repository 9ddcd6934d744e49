# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which GPUs are to be driven, and by which branch and kernel modules. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ansible_collections.railyard.fabric.plugins.module_utils.gpu import catalogue
from ansible_collections.railyard.fabric.plugins.module_utils.gpu.catalogue import OPEN, PROPRIETARY
from ansible_collections.railyard.fabric.plugins.plugin_utils.gpu.driver.work import AUTO, Work


def generations_of(work: Work) -> dict[str, tuple[str, ...]]:
    """Return the generations to drive, each with the modules that all of its GPUs take."""
    declared = list(work.asked.get("generations") or [])
    if declared:
        unknown = [name for name in declared if name not in catalogue.GENERATIONS]
        if unknown:
            known = ", ".join(catalogue.GENERATIONS)
            what = f"nvidia_driver_generations names {', '.join(unknown)}, which is none of those known"
            work.refuse("unknown_generation", what, f"one of {known}")
        return {name: catalogue.flavours_of(name) for name in declared if name in catalogue.GENERATIONS}
    gpus = work.facts.get("gpus") or []
    if not gpus:
        what = "there is no NVIDIA GPU on the PCI bus"
        fix = "nvidia_driver_enabled: false for this host, or nvidia_driver_generations to prepare it ahead"
        work.refuse("no_gpu", what, fix)
    found: dict[str, tuple[str, ...]] = {}
    for gpu in gpus:
        name = gpu["generation"]
        if name is None:
            what = f"GPU {gpu['pci']} ({gpu['pci_id']}) is in no known generation"
            fix = "set nvidia_driver_generations to the one that its modules, branch and toolkit follow"
            work.refuse("unknown_gpu", what, fix)
            continue
        flavours = catalogue.flavours_of(name, int(gpu["pci_id"].partition(":")[2], 16))
        found[name] = tuple(one for one in found.get(name, flavours) if one in flavours)
    return found


def flavour_of(work: Work, generations: Mapping[str, tuple[str, ...]], branch: int | None) -> str | None:
    """Return the kernel modules that drive all generations."""
    allowed_by = list(generations.values())
    common = [one for one in catalogue.FLAVOURS if all(one in allowed for allowed in allowed_by)]
    asked = work.asked.get("flavour") or AUTO
    if not common:
        in_order = sorted(generations.items())
        each = "; ".join(f"{name} takes {' or '.join(allowed)}" for name, allowed in in_order)
        what = f"no kernel modules drive all GPUs of this node: {each}"
        fix = "move the GPUs of one generation to another node; one node has one driver"
        work.refuse("mixed_generations", what, fix)
        return None
    if asked != AUTO and asked not in common:
        for name, allowed in sorted(generations.items()):
            if asked not in allowed:
                what = f"{name} cannot be driven by the {asked} kernel modules"
                work.refuse("flavour", what, f"nvidia_driver_flavour: {common[0]} (or auto)")
        return None
    if asked != AUTO:
        return str(asked)
    preferred = list(work.layout.get("flavours") or [])
    if not preferred:
        newer = branch is None or branch >= catalogue.OPEN_IS_DEFAULT_FROM
        preferred = [OPEN, PROPRIETARY] if newer else [PROPRIETARY, OPEN]
    return next((one for one in preferred if one in common), common[0])


def _first_branches(work: Work, generations: Mapping[str, tuple[str, ...]]) -> dict[str, int]:
    """Return the first branch that knows each generation, as far as its GPUs on this node need."""
    firsts = {name: catalogue.first_branch_of(name) for name in generations}
    for gpu in [] if work.asked.get("generations") else work.facts.get("gpus") or []:
        name = gpu["generation"]
        if name in firsts:
            device = int(gpu["pci_id"].partition(":")[2], 16)
            firsts[name] = max(firsts[name], catalogue.first_branch_of(name, device))
    return firsts


def branch_of(work: Work, generations: Mapping[str, tuple[str, ...]]) -> int | None:
    """Return the driver branch: the requested one if all have it, else the newest that they all have."""
    known = [catalogue.GENERATIONS[name] for name in generations]
    firsts = _first_branches(work, generations)
    first_name = max(firsts, key=lambda name: firsts[name])
    first = firsts[first_name]
    ending = [one for one in known if one.last_branch is not None]
    last = min(ending, key=lambda one: one.last_branch or 0) if ending else None
    if last is not None and last.last_branch is not None and first > last.last_branch:
        what = f"{first_name} begins with branch {first}, {last.name} ends with {last.last_branch}"
        fix = "move the GPUs of one generation to another node; one node has one driver"
        work.refuse("no_common_branch", what, fix)
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
        what = f"{last.name} is not driven by branch {wanted}: R{newest} was the last"
        work.refuse("branch_too_new", what, f"nvidia_driver_branch: {newest}")
        return None
    if wanted < first:
        right = f"{first} or newer" if newest is None else str(newest)
        # The source may have no such branch either: then only another source helps.
        elsewhere = bool(offered) and max(offered) < first
        what = f"{first_name} is not driven by branch {wanted}: R{first} was the first"
        fix = f"nvidia_driver_branch: {right}{', with nvidia_driver_source: vendor' if elsewhere else ''}"
        work.refuse("branch_too_old", what, fix)
        return None
    if offered and wanted not in offered:
        what = f"{work.layout['name']} has no branch {wanted}, only {', '.join(map(str, offered))}"
        fix = f"nvidia_driver_branch: {offered[-1]}, or nvidia_driver_source: vendor"
        work.refuse("branch_not_offered", what, fix)
        return None
    return wanted


def check_flavour(work: Work, branch: int, flavour: str) -> None:
    """Refuse kernel modules that the branch does not have."""
    if flavour == OPEN and branch < catalogue.FIRST_OPEN_BRANCH:
        what = f"branch {branch} has no open kernel modules: they came with R{catalogue.FIRST_OPEN_BRANCH}"
        fix = f"nvidia_driver_branch: {catalogue.OPEN_IS_DEFAULT_FROM} or newer"
        work.refuse("no_open_modules", what, fix)
    if flavour == PROPRIETARY and branch > catalogue.LAST_PROPRIETARY_BRANCH:
        what = f"branch {branch} has the open kernel modules only"
        fix = f"nvidia_driver_flavour: open, or a branch up to {catalogue.LAST_PROPRIETARY_BRANCH}"
        work.refuse("no_proprietary_modules", what, fix)
