# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decides a node's NVIDIA driver: branch, modules, packages and the way to GPU memory, or why there is none.

Pure: facts of `gpu_info`, the request and the data of a source of packages in; one choice out. All refusals
are named at once, each with the correct value.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.gpu import catalogue
from ansible_collections.railyard.fabric.plugins.plugin_utils.gpu.driver import branch as branches
from ansible_collections.railyard.fabric.plugins.plugin_utils.gpu.driver import gpudirect, packages
from ansible_collections.railyard.fabric.plugins.plugin_utils.gpu.driver.work import Facts, Work


def choose(facts: Facts, asked: Mapping[str, Any], layout: Mapping[str, Any]) -> dict[str, Any]:
    """Choose the driver of a node.

    Args:
        facts: What `gpu_info` returned.
        asked: `branch`, `flavour`, `generations`, `gpudirect`, `rdma_provider`, `fabric_manager`, `imex`,
            `gds`, `dcgm`, `gdrcopy`, `cuda`, `vendor_uris`, `prebuilt`; what is absent is not requested.
        layout: One source of packages for the node's distribution, from the role's vars.

    Returns:
        `refusals` and `findings` (`code` and `text` each), `generations`, `branch`, `flavour`,
        `driver_packages`, `same_version_packages` (those that must have exactly the driver's version),
        `other_packages`, `headers` (the distribution's usual ones), `prebuilt` (nothing is built on the
        node), `uris` (of the vendor's repository), `gpudirect` (`path` and `why`), `fabric_manager`,
        `switch_modules` (kernel modules beside NVIDIA's that the Fabric Manager needs), `imex`.
        With a refusal there are no packages.
    """
    work = Work(facts, asked, layout)
    chosen: dict[str, Any] = {
        "branch": None,
        "flavour": None,
        "driver_packages": [],
        "same_version_packages": [],
        "other_packages": [],
        "headers": [] if asked.get("prebuilt") else packages.headers(work),
        "prebuilt": bool(asked.get("prebuilt")),
        "uris": packages.uris(work),
        "gpudirect": {"path": catalogue.NO_PATH, "why": "no driver is chosen"},
        "fabric_manager": False,
        "switch_modules": [],
        "imex": bool(asked.get("imex")),
    }
    generations = branches.generations_of(work)
    if generations:
        branch = branches.branch_of(work, generations)
        flavour = branches.flavour_of(work, generations, branch)
        if branch is not None and flavour is not None:
            chosen.update(branch=branch, flavour=flavour)
            branches.check_flavour(work, branch, flavour)
            chosen["driver_packages"] = packages.of_driver(work, branch, flavour)
            managed = chosen["fabric_manager"] = packages.wants_fabric_manager(work)
            bridged = managed and any(gpu.get("switches_behind_bridge") for gpu in facts.get("gpus") or [])
            chosen["switch_modules"] = list(catalogue.BRIDGE_MODULES) if bridged else []
            if asked.get("gds") and flavour != catalogue.OPEN:
                what = "GPUDirect Storage needs the open kernel modules"
                work.refuse("gds", what, "nvidia_driver_gds: false")
            for wanted, key, what, of in (
                (managed, "fabric_manager", "Fabric Manager", "same_version_packages"),
                (bridged, "subnet_manager", "subnet manager", "other_packages"),
                (chosen["imex"], "imex", "IMEX", "same_version_packages"),
                (asked.get("gds"), "gds", "GPUDirect Storage", "other_packages"),
                (asked.get("dcgm"), "dcgm", "DCGM", "other_packages"),
                (asked.get("gdrcopy"), "gdrcopy", "GDRCopy", "other_packages"),
            ):
                chosen[of] += packages.beside(work, key, what, branch) if wanted else []
            chosen["other_packages"] += packages.of_cuda(work, generations, branch)
            chosen["gpudirect"] = gpudirect.path_of(work, generations, branch, flavour)
    if work.refusals:
        chosen.update(driver_packages=[], same_version_packages=[], other_packages=[])
    return {
        "refusals": work.refusals,
        "findings": work.findings,
        "generations": sorted(generations),
        **chosen,
    }
