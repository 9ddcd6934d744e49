# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge the facts of a node's GPUs; docs/gpu.md describes the rules with their sources. Pure.

Judged are a GPU's reports (a pending remap, uncorrectable ECC errors, a slowdown by its hardware, its
temperature limit), what the inventory declares, and comparable GPUs. Values without a source (a temperature,
the generation of PCIe, which falls when a GPU is idle, corrected errors) are recorded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..facts import gpus as facts
from ..numeric import is_whole
from ..parsers.gpu import nvml_words
from ..records.facts import GpuRow, Gpus
from . import gpu_rows, xid
from .gpu_rows import Node
from .ruling import FAIL, Ruling

_THROTTLE = "clocks_throttle_reasons."
_SLOWDOWNS = {
    _THROTTLE + "hw_thermal_slowdown": "slowed down by its temperature",
    _THROTTLE + "hw_power_brake_slowdown": "slowed down by the power brake",
}
_WAITS = {
    "retired_pages.pending": "a page waits to be retired: reset the GPU",
    "remapped_rows.pending": "a row waits to be remapped: reset the GPU",
    "remapped_rows.failure": "a row could not be remapped",
}
_ECC = "ecc.errors.uncorrected.volatile.total"
_ALL_THERE = "the inventory's number of GPUs, each on the PCI bus and listed by its driver"
_NOT_DECLARED = (
    "recorded: the inventory does not declare both model and driver of expected_gpus, and no node that is "
    "declared alike has another"
)
_NO_XID = (
    "no XID for which NVIDIA's catalogue requires to reset the GPU, restart the node or fix the hardware, "
    "nor a fatal SXID, since the driver was loaded; and no recovery that a GPU requests itself"
)
_LOG_CUT = (
    "recorded: no critical XID is in the kernel's log, which has lost what was before since_boot_s seconds "
    "of this boot"
)
_MEMORY_IS_WELL = (
    "no uncorrectable ECC error since the driver was loaded, and no page or row that waits to be retired or "
    "remapped, or could not be"
)
_NOT_SLOWED = (
    "no slowdown by a GPU's hardware (heat, power brake), and none at its temperature limit; temperatures "
    "are recorded"
)
_ALL_LANES = (
    "as many lanes as GPU and slot can do; the generation, which falls when a GPU is idle, and errors "
    "that PCIe corrected (replays among them) are recorded"
)
_LINKS_ALIKE = (
    "recorded: the inventory declares no nvlinks of expected_gpus; as many as the node's other GPUs have, "
    "and errors of links have no bound"
)
_NEAR = "recorded: the GPUs that are nearest to each rail's card by PCI Express"


def rule(check: str, node: Node, seen: Gpus) -> Ruling:
    """Say what a node's facts answer of its GPUs.

    Args:
        check: one of CHECKS.
        node: the node.
        seen: what its facts say of its GPUs.
    """
    needs, of = _RULES[check]
    if unknown := gpu_rows.why_unknown(node, seen, needs):
        return Ruling().unknown("gpu_unknown", unknown)
    ruling = of(node, seen)
    # What is there and not understood is no pass, and hides no failure.
    if ruling.outcome != FAIL and (unread := gpu_rows.find_unread(node, seen["rows"], check)):
        return ruling.unknown("gpu_unknown", unread)
    return ruling


def model_of(seen: Gpus) -> str | None:
    """Return the one model that all GPUs of a node have, None where they differ or are not known."""
    names = {row.get("name") for row in seen["rows"]}
    name = names.pop() if len(names) == 1 else None
    return name if isinstance(name, str) and gpu_rows.is_word(name) else None


def driver_of(seen: Gpus) -> str | None:
    """Return the version of the driver that a node's GPUs run by, None where none is loaded."""
    return seen["driver"]


def nvlinks_of(seen: Gpus) -> str | None:
    """Return how many active NVLinks most GPUs of a node have, None where it is not known."""
    if not seen["rows"] or "nvlink" in seen["errors"]:
        return None
    return str(Counter(gpu_rows.count_active(seen).values()).most_common(1)[0][0])


def _count(node: Node, seen: Gpus) -> Ruling:
    there, count = list(seen["pci"]), node.declared.get("count")
    observed = {"gpus": len(there), "listed": len(seen["rows"])}
    wanted = {} if count is None else {"gpus": count, "listed": count}
    ruling = Ruling.passed(observed, wanted, _ALL_THERE)
    if count is not None and len(there) != count:
        cause = "gpu_missing" if len(there) < count else "gpu_extra"
        said = f"{node.name}: {len(there)} NVIDIA GPUs on the PCI bus, {count} expected"
        return ruling.failed(cause, said)
    if not there:
        return ruling
    if seen["driver"] is None:
        said = f"{node.name}: NVIDIA's driver is not loaded, so nothing is known of their health"
        return ruling.failed("gpu_driver_missing", said)
    error = seen["errors"].get("rows")
    if error is not None and error["class"] == facts.FAILED:
        message = error["message"]
        if nvml_words.is_version_mismatch(message):
            said = f"driver {seen['driver']} is loaded, and the installed libraries are of another version"
            return ruling.failed("gpu_driver_differs", f"{node.name}: {said} ({message}): reboot the node")
        return ruling.failed("gpu_lost", f"{node.name}: {message}")
    if unknown := gpu_rows.why_unknown(node, seen, ("rows",)):
        return ruling.unknown("gpu_unknown", unknown)
    listed = {row["pci"] for row in seen["rows"]}
    lost = [(pci, "on the PCI bus, but nvidia-smi does not list it") for pci in there if pci not in listed]
    faulty = gpu_rows.find_faulty(seen["rows"])
    if lost or faulty:
        return ruling.failed("gpu_lost", gpu_rows.each(node, [*lost, *faulty]))
    return ruling if count is not None else ruling.recorded("the inventory declares no expected_gpus")


def _kind(node: Node, seen: Gpus) -> Ruling:
    if unread := gpu_rows.find_unread(node, seen["rows"], "gpu_kind"):
        return Ruling().unknown("gpu_unknown", unread)  # a word for trouble is no other model
    names = Counter(str(row.get("name")) for row in seen["rows"])
    name, driver = names.most_common(1)[0][0], str(driver_of(seen))
    ruling = Ruling.passed({"model": ", ".join(sorted(names)), "driver": driver}, {}, "")
    odd = [
        (str(row["pci"]), f"{row.get('name')}, most are {name}")
        for row in seen["rows"]
        if row.get("name") != name
    ]
    if odd:
        return ruling.failed("gpu_model_differs", gpu_rows.each(node, odd))
    for key, value, is_of in (("model", name, _is_model), ("driver", driver, _is_version)):
        declared, (usual, who) = node.declared.get(key), node.usual.get(key, (value, ""))
        if declared is not None and not is_of(str(declared), value):
            said = f"{node.name}: {key} {value}, the inventory's is {declared}"
            return ruling.failed(f"gpu_{key}_differs", said)
        if declared is None and usual != value:
            said = f"{node.name}: {key} {value}; of the nodes that are declared alike: {who}"
            return ruling.failed(f"gpu_{key}_differs", said)
        if declared is not None:
            ruling.floor[key] = ruling.ceiling[key] = declared
    if len(ruling.floor) < len(ruling.observed):
        return ruling.recorded(_NOT_DECLARED)
    ruling.basis = "the inventory's model and driver"
    return ruling


def _is_model(declared: str, name: str) -> bool:
    """Return whether a GPU's name has all words of a declared model: `H100` in `NVIDIA H100 80GB HBM3`."""
    words = name.lower().replace("-", " ").split()
    return all(word in words for word in declared.lower().replace("-", " ").split())


def _is_version(declared: str, version: str) -> bool:
    """Tell whether a version begins with the parts of the declared one: 550 is that of 550.54.15."""
    parts = declared.split(".")
    return version.split(".")[: len(parts)] == parts


def _xids(node: Node, seen: Gpus) -> Ruling:
    asks = [
        (str(row["pci"]), f"it asks for its recovery: {row['gpu_recovery_action']}")
        for row in seen["rows"]
        if gpu_rows.is_word(action := row.get("gpu_recovery_action")) and str(action).lower() != "none"
    ]
    log = seen["xids"]
    ruling = Ruling.passed({}, {"critical_xids": 0}, _NO_XID)
    critical, others = xid.sort_out(log["seen"]) if log is not None else ([], Counter())
    ruling.observed = {"critical_xids": len(critical) + len(asks)}
    if others:
        listed = (f"{kind} {count} times" for kind, count in sorted(others.items()))
        ruling.observed["other_xids"] = ", ".join(listed)
    if critical or asks:
        return ruling.failed("gpu_xid", gpu_rows.each(node, [*critical, *asks]))
    if log is None:
        error = seen["errors"].get("xids")
        said = error["message"] if error is not None else "its facts say nothing of the kernel's log"
        return ruling.unknown("xid_unknown", f"{node.name}: {said}")
    if unknown := gpu_rows.why_unknown(node, seen, ("rows",)):
        return ruling.unknown("gpu_unknown", unknown)
    if log["first"] != 0:
        ruling.observed["since_boot_s"] = log["since_s"]
        return ruling.recorded(_LOG_CUT)
    return ruling


def _memory(node: Node, seen: Gpus) -> Ruling:
    rows = seen["rows"]
    errors = gpu_rows.select_values(rows, _ECC)
    many = [
        (pci, f"{value:g} uncorrectable ECC errors since the driver was loaded")
        for pci, value in errors
        if value
    ]
    waits = [
        (str(row["pci"]), said)
        for row in rows
        for key, said in _WAITS.items()
        if gpu_rows.is_yes(row.get(key))
    ]
    observed = {
        "uncorrectable_errors": _sum(errors),
        "waiting_or_failed": len(waits),
        "uncorrectable_errors_ever": _sum(
            gpu_rows.select_values(rows, "ecc.errors.uncorrected.aggregate.total")
        ),
        "corrected_errors": _sum(gpu_rows.select_values(rows, "ecc.errors.corrected.volatile.total")),
    }
    wanted = {"uncorrectable_errors": 0, "waiting_or_failed": 0}
    ruling = Ruling.passed(observed, wanted, _MEMORY_IS_WELL)
    if many or waits:
        return ruling.failed("gpu_memory_bad", gpu_rows.each(node, [*many, *waits]))
    if error := seen["errors"].get("remapped"):
        return ruling.unknown("gpu_unknown", f"{node.name}: remapped rows: {error['message']}")
    if unknown := _silent(node, rows, _ECC, *_WAITS):
        return ruling.unknown("gpu_unknown", unknown)
    if not errors:
        return ruling.recorded(
            "recorded: the GPUs report no ECC errors: they have no ECC, or it is switched off"
        )
    return ruling


def _slowdown(node: Node, seen: Gpus) -> Ruling:
    rows = seen["rows"]
    slowed = [
        (str(row["pci"]), said)
        for row in rows
        for key, said in _SLOWDOWNS.items()
        if gpu_rows.is_yes(row.get(key))
    ]
    left = gpu_rows.select_values(rows, "temperature.gpu.tlimit")
    hot = [(pci, f"{value:g} °C below its own limit") for pci, value in left if value <= 0]
    observed = {
        "gpus_slowed_down": len(slowed),
        "gpus_at_limit": len(hot),
        "temperature_max_c": _end(max, gpu_rows.select_values(rows, "temperature.gpu")),
        "memory_temperature_max_c": _end(max, gpu_rows.select_values(rows, "temperature.memory")),
        "least_below_limit_c": _end(min, left),
        "gpus_slowed_by_software": sum(
            gpu_rows.is_yes(row.get(_THROTTLE + "sw_thermal_slowdown")) for row in rows
        ),
    }
    ruling = Ruling.passed(observed, {"gpus_slowed_down": 0, "gpus_at_limit": 0}, _NOT_SLOWED)
    if slowed or hot:
        return ruling.failed("gpu_slowed", gpu_rows.each(node, [*slowed, *hot]))
    if unknown := _silent(node, rows, *_SLOWDOWNS):
        return ruling.unknown("gpu_unknown", unknown)
    if not any(row.get(key) is not None for row in rows for key in _SLOWDOWNS):
        return ruling.recorded("recorded: the GPUs do not tell whether they were slowed down")
    return ruling


def _power(node: Node, seen: Gpus) -> Ruling:
    rows, cap = seen["rows"], node.declared.get("power_cap_w")
    limits = gpu_rows.select_values(rows, "power.limit")
    defaults = dict(gpu_rows.select_values(rows, "power.default_limit"))
    drawn = _end(max, gpu_rows.select_values(rows, "power.draw"))
    ruling = Ruling.passed({"power_limit_w": _end(min, limits), "power_draw_max_w": drawn}, {}, "")
    if unknown := _silent(node, rows, "power.limit"):
        return ruling.unknown("gpu_unknown", unknown)
    if cap is not None and not limits:
        return ruling.unknown("gpu_unknown", f"{node.name}: its GPUs do not tell their power limit")
    if cap is not None:
        ruling.floor, ruling.ceiling = {"power_limit_w": cap}, {"power_limit_w": cap}
        ruling.basis = "the inventory's power_cap_w of expected_gpus, within 1 W"
        odd = [(pci, f"power limit {value:g} W, the inventory's {cap:g}") for pci, value in limits
               if abs(value - cap) > 1]  # fmt: skip
        return ruling.failed("gpu_power_capped", gpu_rows.each(node, odd)) if odd else ruling
    if not limits or len(defaults) < len(rows):
        return ruling.recorded(
            "recorded: the inventory declares no power_cap_w, and the GPUs report no default limit"
        )
    ruling.floor = {"power_limit_w": min(defaults.values())}
    ruling.ceiling = {"power_limit_w": max(value for _pci, value in limits)}
    ruling.basis = "each GPU's own default limit at least: the inventory declares no power_cap_w"
    low = [(pci, f"power limit {value:g} W, its default is {defaults[pci]:g}") for pci, value in limits
           if value < defaults[pci]]  # fmt: skip
    return ruling.failed("gpu_power_capped", gpu_rows.each(node, low)) if low else ruling


def _pcie(node: Node, seen: Gpus) -> Ruling:
    rows = seen["rows"]
    now, most = (dict(gpu_rows.select_values(rows, f"pcie.link.width.{key}")) for key in ("current", "max"))
    narrow = [(pci, f"PCIe runs at {width:g} lanes, {most[pci]:g} are possible") for pci, width in now.items()
              if pci in most and width < most[pci]]  # fmt: skip
    counted = gpu_rows.select_values(rows, "aer_correctable", is_whole)
    observed = {
        "gpus_lacking_lanes": len(narrow),
        **{
            f"generation_{key}": _kinds(gpu_rows.select_values(rows, f"pcie.link.gen.{key}"))
            for key in ("current", "max")
        },
        "corrected_errors": _sum(counted) if counted else None,
    }
    ruling = Ruling.passed(observed, {"gpus_lacking_lanes": 0}, _ALL_LANES)
    if narrow:
        return ruling.failed("gpu_pcie_narrow", gpu_rows.each(node, narrow))
    if unknown := _silent(node, rows, "pcie.link.width.current", "pcie.link.width.max"):
        return ruling.unknown("gpu_unknown", unknown)
    return ruling if now and most else ruling.recorded("recorded: the GPUs do not tell their lanes")


def _nvlink(node: Node, seen: Gpus) -> Ruling:
    declared = node.declared.get("nvlinks")
    gpus = {one["gpu"]: one for one in seen["nvlink"]}
    active = gpu_rows.count_active(seen)
    speeds = sorted({float(speed) for one in gpus.values() for speed in one["speeds_gbytes_per_s"]})
    counted = [one["errors"] for one in gpus.values() if one["errors"] is not None]
    observed = {
        "links": ", ".join(sorted({str(count) for count in active.values()})),
        "speed": ", ".join(f"{speed:g} GB/s" for speed in speeds) or None,
        **{
            f"{kind}_errors": sum(one.get(kind, 0) for one in counted) if counted else None
            for kind in facts.KINDS
        },
        "pairs": _pairs(seen["topology"]),
    }
    expected = declared if declared is not None else Counter(active.values()).most_common(1)[0][0]
    basis = "the inventory's number of active NVLinks of each GPU"
    ruling = Ruling.passed(observed, {"links": str(expected)}, basis)
    whose = "are declared" if declared is not None else "the node's other GPUs have"
    odd = [(pci, f"{count} NVLinks are active, {expected} {whose}") for pci, count in active.items()
           if count != expected]  # fmt: skip
    if odd:
        return ruling.failed("gpu_nvlink_down", gpu_rows.each(node, odd))
    usual, who = node.usual.get("nvlinks", (str(expected), ""))
    if declared is None and usual != str(expected):
        said = f"{node.name}: {expected} NVLinks are active; of the nodes that are declared alike: {who}"
        if usual is None:
            return ruling.unknown("gpu_unknown", said)
        return ruling.failed("gpu_nvlink_down", said)
    if len(speeds) > 1 and model_of(seen) is not None:
        said = f"{node.name}: they run at {observed['speed']}"
        return ruling.failed("gpu_nvlink_slow", said)
    return ruling if declared is not None else ruling.recorded(_LINKS_ALIKE)


def _pairs(topology: Mapping[str, Mapping[str, str | None]] | None) -> dict[str, int] | None:
    """Return how many pairs of GPUs are joined in which way, as `nvidia-smi topo -m` calls it."""
    if topology is None:
        return None
    ways = Counter(str(link) for one, row in topology.items() for other, link in row.items() if one < other)
    return dict(sorted(ways.items()))


def _nic(node: Node, seen: Gpus) -> Ruling:
    near = {one["nic"]: one for one in seen["near"] if one["by"] is not None}
    found = {rail: near[card] for rail, card in node.cards.items() if card in near}
    observed = {
        rail: f"{', '.join(one['gpus'][: gpu_rows.MOST_NAMED])} ({one['by']})" for rail, one in found.items()
    }
    if not observed:
        return Ruling().unknown(
            "gpu_unknown", f"{node.name}: no rail's card is known to be near a GPU, or far"
        )
    far = [rail for rail, one in found.items() if one["by"] == facts.FAR]
    silent = [rail for rail in node.cards if rail not in observed]
    basis = _NEAR
    if far:
        basis += f"; {', '.join(far)}: no GPU is on its NUMA node, so that its data crosses between sockets"
    if silent:
        basis += f"; of {', '.join(silent)} the kernel does not tell"
    return Ruling.passed(observed, {}, "").recorded(basis)


def _silent(node: Node, rows: Iterable[GpuRow], *keys: str) -> str:
    """Describe a GPU that lacks a value which another GPU of its model has, or return nothing."""
    for key in keys:
        telling = {row.get("name") for row in rows if row.get(key) is not None}
        for row in rows:
            if row.get(key) is None and row.get("name") in telling:
                return f"{node.name}: {row['pci']} does not tell {key}, which another GPU of its model does"
    return ""


def _sum(values: Iterable[tuple[str, Any]]) -> Any:
    return sum(value for _pci, value in values)


def _end(which: Callable[..., Any], values: Iterable[tuple[str, Any]]) -> Any:
    return which((value for _pci, value in values), default=None)


def _kinds(values: Iterable[tuple[str, Any]]) -> str | None:
    return ", ".join(sorted({f"{value:g}" for _pci, value in values})) or None


#: Check -> the parts of the facts that it cannot do without, and its rule.
_RULES: Mapping[str, tuple[tuple[str, ...] | None, Callable[[Node, Gpus], Ruling]]] = {
    "gpu_count": (None, _count),
    "gpu_kind": (("rows",), _kind),
    "gpu_xid": (None, _xids),
    "gpu_memory": (("rows",), _memory),
    "gpu_slowdown": (("rows",), _slowdown),
    "gpu_power": (("rows",), _power),
    "gpu_pcie": (("rows",), _pcie),
    "gpu_nvlink": (("rows", "nvlink"), _nvlink),
    "gpu_nic": (None, _nic),
}
CHECKS = tuple(_RULES)


def checks(declared: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the checks of a node that declares its GPUs; without GPUs only their number."""
    return CHECKS if declared["count"] else CHECKS[:1]
