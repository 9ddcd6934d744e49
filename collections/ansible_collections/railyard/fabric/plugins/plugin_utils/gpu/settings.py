# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Says what of MIG, ECC, power limit and clocks differs from what is declared, and how it is set.

Pure: facts of `gpu_info` in, argument lists for nvidia-smi out. What is not declared is not touched.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.gpu.driver.work import Facts

KEYS = ("mig", "ecc", "power_limit_w", "graphics_clock_mhz", "memory_clock_mhz")
# nvidia-smi shows hundredths of a watt.
_SAME_W = 0.5


class SettingsError(Exception):
    """What is declared cannot be set; the message says why, and what to do."""


def _check(wanted: Mapping[str, Any]) -> None:
    unknown = sorted(set(wanted) - set(KEYS))
    if unknown:
        what = f"nvidia_driver_settings has no {', '.join(unknown)}"
        raise SettingsError(f"{what}. Fix: one of {', '.join(KEYS)}")
    if ("graphics_clock_mhz" in wanted) != ("memory_clock_mhz" in wanted):
        raise SettingsError(
            "nvidia_driver_settings names one of two clocks, and nvidia-smi sets both at once. "
            "Fix: graphics_clock_mhz and memory_clock_mhz, as `nvidia-smi -q -d SUPPORTED_CLOCKS` lists them"
        )


def _lacks(gpu: Mapping[str, Any], what: str) -> SettingsError:
    return SettingsError(
        f"GPU {gpu['pci']} ({gpu['name']}) has no {what} to set. "
        "Fix: leave it out of nvidia_driver_settings there"
    )


def _of_gpu(
    gpu: Mapping[str, Any], wanted: Mapping[str, Any], found: dict[str, list[dict[str, Any]]]
) -> None:
    """Add to what is found the commands and waits of one GPU."""
    now = gpu["settings"]

    def command(why: str, *words: str) -> None:
        found["commands"].append({"argv": ["nvidia-smi", "-i", gpu["pci"], *words], "why": why})

    for key, option, name in (("mig", "-mig", "MIG"), ("ecc", "-e", "ECC")):
        if key not in wanted:
            continue
        want = bool(wanted[key])
        current, pending = now[key]["current"], now[key]["pending"]
        if current is None:
            if want:
                raise _lacks(gpu, name)
            continue
        if pending != want:
            command(f"{name} is {'on' if pending else 'off'}", option, str(int(want)))
        if current != want:
            why = f"{name} of GPU {gpu['pci']} is {'on' if current else 'off'} until the next boot"
            found["waits"].append({"what": name, "why": why, "needs": "reboot"})
    if "power_limit_w" in wanted:
        limit, most = now["power_limit_w"], now["power_max_w"]
        if limit is None:
            raise _lacks(gpu, "power limit")
        if most is not None and wanted["power_limit_w"] > most + _SAME_W:
            raise SettingsError(
                f"GPU {gpu['pci']} takes {most:g} W at most, not {wanted['power_limit_w']}. "
                f"Fix: power_limit_w: {most:g}"
            )
        if abs(limit - wanted["power_limit_w"]) > _SAME_W:
            command(f"the limit is {limit:g} W", "-pl", str(wanted["power_limit_w"]))
    if "graphics_clock_mhz" in wanted:
        clocks = (now["memory_clock_mhz"], now["graphics_clock_mhz"])
        if None in clocks:
            raise _lacks(gpu, "application clocks")
        if clocks != (wanted["memory_clock_mhz"], wanted["graphics_clock_mhz"]):
            both = f"{wanted['memory_clock_mhz']},{wanted['graphics_clock_mhz']}"
            command(f"the clocks are {clocks[0]} and {clocks[1]} MHz", "-ac", both)


def plan(facts: Facts, wanted: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is to be run and what waits for a boot.

    Args:
        facts: What `gpu_info` returned.
        wanted: What is declared for all GPUs of the node, of `KEYS`; empty, nothing is touched.

    Returns:
        `commands`, each with `argv` and `why`, and `waits`, each with `what`, `why` and `needs`.

    Raises:
        SettingsError: A key is unknown, or a GPU does not have what is to be set.
    """
    found: dict[str, list[dict[str, Any]]] = {"commands": [], "waits": []}
    if wanted:
        _check(wanted)
        for gpu in facts["gpus"]:
            if gpu["settings"] is not None:
                _of_gpu(gpu, wanted, found)
    return found
