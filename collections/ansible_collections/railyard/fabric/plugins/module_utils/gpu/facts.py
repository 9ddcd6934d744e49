# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's NVIDIA GPUs and driver, from sysfs and procfs, and from nvidia-smi where the driver is loaded.

Only reads. nvidia-smi is run only when the module is loaded already: it would load it otherwise.
"""

from __future__ import annotations

import os
import re
from typing import Any

from ..facts import nvidia_pci, tools
from ..facts.host import os_release
from ..facts.sysfs import Reader, numa_node
from ..kernel import headers, next_boot, peermem
from ..parsers.common import NotThisTool
from ..parsers.gpu import nvidia_smi_query
from . import modules, packages, services
from .catalogue import flavours_of, generation_of, switches_behind_bridge

SCHEMA = 1
_BRIDGE_OTHER_CLASS = 0x0680  # NVSwitch
_EFI_VARIABLES = "firmware/efi/efivars"
_SECURE_BOOT = "SecureBoot-8be4df61-93ca-11d2-aa0d-00e098032b8c"
# shim's word that its own validation is off; the kernel then takes Secure Boot for disabled.
_SHIM_IS_INSECURE = "MokSBStateRT-605dab50-e046-4300-abb6-3dd810dd8b23"
_EFI_ATTRIBUTES_BYTES = 4
_INFORMATION = re.compile(r"^(Model|GPU UUID):\s*(\S.*?)\s*$", re.M)

_ALWAYS = (
    "pci.bus_id",
    "uuid",
    "name",
    "persistence_mode",
    "power.limit",
    "power.default_limit",
    "power.max_limit",
)
# Not all versions have all of these, and one unknown field fails the whole query.
_SETTINGS = (
    "mig.mode.current",
    "mig.mode.pending",
    "ecc.mode.current",
    "ecc.mode.pending",
    "clocks.applications.graphics",
    "clocks.applications.memory",
    "clocks.max.graphics",
    "clocks.max.memory",
)


def secure_boot(reader: Reader) -> bool | None:
    """Return whether the kernel was booted with Secure Boot; None where EFI does not say."""
    if not os.path.isdir(reader.sys("firmware", "efi")):
        return False
    values: dict[str, bytes] = {}
    for name in (_SECURE_BOOT, _SHIM_IS_INSECURE):
        try:
            with open(reader.sys(_EFI_VARIABLES, name), "rb") as variable:
                values[name] = variable.read()[_EFI_ATTRIBUTES_BYTES:]
        except OSError:
            continue
    if not values.get(_SECURE_BOOT):
        return None
    return values[_SECURE_BOOT][0] == 1 and values.get(_SHIM_IS_INSECURE, b"\0")[:1] != b"\1"


def _gpu(reader: Reader, function: dict[str, Any]) -> dict[str, Any]:
    """Return what a GPU is by the kernel alone."""
    told = dict(
        _INFORMATION.findall(
            reader.text(reader.proc("driver", "nvidia", "gpus", function["pci"], "information")) or ""
        )
    )
    device = function["device"]
    generation = generation_of(device)
    # A GPU that the driver could not start answers `??`.
    uuid = told.get("GPU UUID")
    return {
        "pci": function["pci"],
        "pci_id": f"{nvidia_pci.NVIDIA:04x}:{device:04x}",
        "generation": generation,
        "flavours": list(flavours_of(generation, device)) if generation else [],
        "switches_behind_bridge": switches_behind_bridge(device),
        "name": told.get("Model"),
        "uuid": uuid if uuid and "?" not in uuid else None,
        "numa_node": numa_node(reader, function["folder"]),
        "bound_driver": reader.link_name(os.path.join(function["folder"], "driver")),
    }


def _switched(value: Any) -> bool | None:
    return {"Enabled": True, "Disabled": False}.get(value) if isinstance(value, str) else None


def _measure(value: Any) -> float | int | None:
    return value if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _settings(row: dict[str, Any]) -> dict[str, Any]:
    """Return what is set on a GPU, as nvidia-smi reads it back; what it does not tell is None."""
    return {
        "persistence": _switched(row.get("persistence_mode")),
        "mig": {
            "current": _switched(row.get("mig.mode.current")),
            "pending": _switched(row.get("mig.mode.pending")),
        },
        "ecc": {
            "current": _switched(row.get("ecc.mode.current")),
            "pending": _switched(row.get("ecc.mode.pending")),
        },
        "power_limit_w": _measure(row.get("power.limit")),
        "power_default_w": _measure(row.get("power.default_limit")),
        "power_max_w": _measure(row.get("power.max_limit")),
        "graphics_clock_mhz": _measure(row.get("clocks.applications.graphics")),
        "memory_clock_mhz": _measure(row.get("clocks.applications.memory")),
        "graphics_clock_max_mhz": _measure(row.get("clocks.max.graphics")),
        "memory_clock_max_mhz": _measure(row.get("clocks.max.memory")),
    }


def _ask_nvidia_smi(run: tools.Run, warnings: list[str]) -> dict[str, dict[str, Any]]:
    """Return nvidia-smi's rows by PCI address."""
    for fields in ((*_ALWAYS, *_SETTINGS), _ALWAYS):
        said = run(["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv"])
        if said is None:
            warnings.append(
                "nvidia-smi: not found, though the driver is loaded: what is set on the GPUs is unknown"
            )
            return {}
        try:
            answer = nvidia_smi_query.parse(said)
        except NotThisTool as problem:
            warnings.append(f"nvidia-smi: {problem}")
            return {}
        if answer["outputs"]:
            rows = answer["outputs"][0]["gpus"]
            return {
                nvidia_pci.normal_address(str(row["pci.bus_id"])): row
                for row in rows
                if row.get("pci.bus_id")
            }
        problem_text = (answer.get("error") or {}).get("message", "no GPU in its answer")
        if "valid field" not in problem_text:
            warnings.append(f"nvidia-smi: {problem_text}")
            return {}
    return {}


def collect(reader: Reader, run: tools.Run, root: str = "/") -> dict[str, Any]:
    """Return the node's GPUs, driver and what bears on installing one.

    Args:
        reader: Where sysfs, procfs and etc are.
        run: Runs an argv and returns what it printed; None when there is no such tool.
        root: Where `lib/modules`, `usr` and `var` are.
    """
    functions = nvidia_pci.functions(reader)
    gpus = [_gpu(reader, one) for one in functions if nvidia_pci.is_gpu(one)]
    kernel = reader.text(reader.proc("sys", "kernel", "osrelease"))
    boots_next = next_boot.next_kernel(root).kernel
    now = modules.loaded(reader)
    there = modules.installed(root, run)
    reader.warnings += [
        f"{one['path']}: modinfo reports no version" for one in there if one["version"] is None
    ]
    nouveau = modules.nouveau_is_loaded(reader)
    why = modules.pending(now, there, kernel, nouveau)
    units = services.ask(run)
    rows = _ask_nvidia_smi(run, reader.warnings) if now["version"] is not None else {}
    for gpu in gpus:
        row = rows.get(gpu["pci"], {})
        gpu["name"] = gpu["name"] or row.get("name")
        gpu["uuid"] = gpu["uuid"] or row.get("uuid")
        gpu["settings"] = _settings(row) if row else None
    return {
        "schema": SCHEMA,
        "os": os_release(reader),
        "kernel": kernel,
        "next_kernel": boots_next,
        "kernels": modules.kernels(root),
        "headers_missing": headers.missing(root, (kernel, boots_next)),
        "gpus": gpus,
        "generations": sorted({gpu["generation"] for gpu in gpus if gpu["generation"]}),
        "nvswitches": [one["pci"] for one in functions if one["class"] == _BRIDGE_OTHER_CLASS],
        "nvswitch": any(one["class"] == _BRIDGE_OTHER_CLASS for one in functions)
        or any(gpu["switches_behind_bridge"] for gpu in gpus),
        # ib_umad makes this class when it is loaded, or built in: drivers/infiniband/core/user_mad.c.
        "umad": os.path.isdir(reader.sys("class", "infiniband_mad")),
        "driver": {
            "installed": there,
            "loaded": now["version"],
            "loaded_flavour": now["flavour"],
            "pending": why is not None,
            "pending_why": why,
            "stack": modules.stack(reader),
        },
        "services": services.read(units),
        "persistence_exec_start": services.persistence_exec_start(units, root),
        "peermem": peermem.facts(reader, root, run),
        "nouveau": nouveau,
        "secure_boot": secure_boot(reader),
        **packages.read(root, run, reader.warnings),
        "warnings": list(reader.warnings),
    }
