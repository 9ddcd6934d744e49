# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's GPUs in a quick look: all there, and none that its own driver calls bad.

nvidia-smi's own words are judged (a remap that waits or failed, uncorrectable ECC errors, a slowdown that the
hardware asked for, lanes that are missing); temperatures are not, since each GPU has limits of its own and
slows down at them. Its generation of PCIe falls when a GPU is idle and is not judged either.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import Reader
from ansible_collections.railyard.fabric.plugins.module_utils.gpu import modules, pci
from ansible_collections.railyard.fabric.plugins.module_utils.numeric import is_number
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.common import NotThisTool
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.gpu import nvidia_smi_query
from ansible_collections.railyard.fabric.plugins.module_utils.quick.bounded import Ended, ToolError
from ansible_collections.railyard.fabric.plugins.module_utils.quick.found import Found

_NAMES = {"--query-gpu": ("pci.bus_id", "name"), "--query-remapped-rows": ("gpu_bus_id",)}
# A driver that lacks one says which, and fails the whole query.
_FIELDS = {
    "--query-gpu": (
        "ecc.errors.uncorrected.volatile.total",
        "retired_pages.pending",
        "clocks_throttle_reasons.hw_thermal_slowdown",
        "clocks_throttle_reasons.hw_power_brake_slowdown",
        "pcie.link.width.current",
        "pcie.link.width.max",
    ),
    "--query-remapped-rows": ("remapped_rows.pending", "remapped_rows.failure"),
}
_NOT_A_FIELD = re.compile(r'Field "([a-z_.]+)" is not a valid field')
_TRIES = 4
# Each without being the other's: "Yes" and 1 are what versions say; "Not Active" is what most of them do.
_YES = ("yes", "1", "active")
_MEANS = {
    "retired_pages.pending": "a page waits to be retired: reset the GPU",
    "clocks_throttle_reasons.hw_thermal_slowdown": "slowed down by its temperature",
    "clocks_throttle_reasons.hw_power_brake_slowdown": "slowed down by the power brake",
    "remapped_rows.pending": "a row waits to be remapped: reset the GPU",
    "remapped_rows.failure": "a row could not be remapped",
}

Ask = Callable[[Sequence[str]], Ended]
Rows = dict[str, dict[str, Any]]


def look(expected: int | None, reader: Reader, ask: Ask, found: Found) -> None:
    """Look at the GPUs.

    Args:
        expected: how many there are to be; None where nobody said.
        reader: where sysfs and procfs are.
        ask: runs nvidia-smi; raises ToolError.
        found: takes what is found.
    """
    there = [one["pci"] for one in pci.functions(reader) if pci.is_gpu(one)]
    if expected is not None and len(there) != expected:
        found.wrong.append(f"gpus: {len(there)} NVIDIA GPUs on the PCI bus, {expected} expected")
    if not there:
        if expected == 0:
            found.good.append("no GPU, as expected")
        return
    driver = modules.loaded(reader)["version"]
    if driver is None:
        words = "gpus: NVIDIA's driver is not loaded, so nothing is known of their health"
        (found.wrong if expected else found.told).append(words)
        return
    try:
        rows = _rows(ask, "--query-gpu")
    except ToolError as error:
        # What was never promised is said; what hangs is no good either way.
        promised = bool(expected) or not error.absent
        (found.unknown if promised else found.told).append(f"gpus: {error}")
        return
    except _FailedError as error:
        found.wrong.append(f"gpus: {error}")
        return
    except ValueError as error:
        found.unknown.append(f"gpus: {error}")
        return
    wrong = len(found.wrong)
    for address in there:
        if address not in rows:
            found.wrong.append(f"GPU {address}: on the PCI bus, but nvidia-smi does not list it")
    _remapped(ask, rows, found)
    for address, row in rows.items():
        found.wrong += [f"GPU {address}: {words}" for words in faults(row)]
    if len(found.wrong) == wrong:
        found.good.append(f"{len(rows)} GPU{'s' if len(rows) > 1 else ''}")


def faults(row: Mapping[str, Any]) -> list[str]:
    """Return what nvidia-smi says against a GPU; what it does not tell (`[N/A]`) is said to nobody."""
    said = [means for key, means in _MEANS.items() if str(row.get(key)).lower() in _YES]
    errors = row.get("ecc.errors.uncorrected.volatile.total")
    if is_number(errors) and errors > 0:
        said.append(f"{errors:g} uncorrectable ECC errors since the driver was loaded")
    width, most = row.get("pcie.link.width.current"), row.get("pcie.link.width.max")
    if is_number(width) and is_number(most) and width < most:
        said.append(f"PCIe runs at {width:g} lanes, {most:g} are possible")
    return said


class _FailedError(Exception):
    """nvidia-smi answers that something is wrong."""


def _remapped(ask: Ask, rows: Rows, found: Found) -> None:
    try:
        more = _rows(ask, "--query-remapped-rows")
    except (ToolError, _FailedError, ValueError) as error:
        found.unknown.append(f"gpus: remapped rows: {error}")
        return
    for address, row in more.items():
        rows.setdefault(address, {}).update(row)


def _rows(ask: Ask, query: str) -> Rows:
    """Return nvidia-smi's rows by PCI address.

    Raises:
        ToolError: it gave no answer.
        _FailedError: its answer is that something failed.
        ValueError: its answer cannot be read.
    """
    fields = list(_FIELDS[query])
    for _attempt in range(_TRIES):
        names = _NAMES[query]
        ended = ask(["nvidia-smi", f"{query}={','.join((*names, *fields))}", "--format=csv"])
        unknown = _NOT_A_FIELD.search(ended.text)
        if unknown is not None and unknown.group(1) in fields:
            fields.remove(unknown.group(1))
            continue
        try:
            answer = nvidia_smi_query.parse(ended.text)
        except NotThisTool as error:
            raise ValueError(f"nvidia-smi ended with {ended.status}: {error}") from error
        problem = answer.get("error")
        if problem and problem["class"] == "tool_error":
            raise _FailedError(f"nvidia-smi: {problem['message']}")
        if problem or not answer["outputs"] or ended.status != 0:
            words = problem["message"] if problem else "no GPU in its answer"
            raise ValueError(f"nvidia-smi ended with {ended.status}: {words}")
        listed = answer["outputs"][0]["gpus"]
        return {pci.normal_address(str(row[names[0]])): row for row in listed if row.get(names[0])}
    raise ValueError("nvidia-smi: it knows too few of the fields that are asked for")
