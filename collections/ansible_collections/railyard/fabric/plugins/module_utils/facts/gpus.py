# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the state of a node's GPUs from the PCI bus, the driver and the kernel's log, and the nearest NICs.

nvidia-smi is run only where the driver is loaded, since it would load it otherwise, and with a time limit: a
program that hangs in a driver blocks nothing here.
"""

from __future__ import annotations

import itertools
import os
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, cast

from .. import bounded
from ..bounded import Ended, ToolError
from ..parsers import capture
from ..parsers.common import NotThisTool
from ..parsers.gpu import nvidia_smi_nvlink, nvidia_smi_query, nvidia_smi_topo, nvml_words
from ..records.facts import Gpus
from . import kernel_log, nvidia_pci, pcie
from .sysfs import Reader, numa_node

#: The time limits of all calls of nvidia-smi, and of one.
LIMIT_S = 25.0
EACH_S = 10.0
_NAMES = {"--query-gpu": ("pci.bus_id", "name"), "--query-remapped-rows": ("gpu_bus_id",)}
# A driver that lacks a field names it and fails the query.
_FIELDS = {
    "--query-gpu": (
        "index",
        "ecc.errors.uncorrected.volatile.total",
        "ecc.errors.uncorrected.aggregate.total",
        "ecc.errors.corrected.volatile.total",
        "retired_pages.pending",
        "clocks_throttle_reasons.hw_thermal_slowdown",
        "clocks_throttle_reasons.hw_power_brake_slowdown",
        "clocks_throttle_reasons.sw_thermal_slowdown",
        "temperature.gpu",
        "temperature.gpu.tlimit",
        "temperature.memory",
        "power.draw",
        "power.limit",
        "power.default_limit",
        "pcie.link.width.current",
        "pcie.link.width.max",
        "pcie.link.gen.current",
        "pcie.link.gen.max",
        "gpu_recovery_action",
    ),
    "--query-remapped-rows": ("remapped_rows.pending", "remapped_rows.failure"),
}
_NOT_A_FIELD = re.compile(r'Field "([a-z0-9_.]+)" is not a valid field')
# R535 has both names of a throttle's reasons, later ones may have the new one alone.
_OLD, _NEW = "clocks_throttle_reasons.", "clocks_event_reasons."
_TRIES = 8
_ERRORS = re.compile(r"^\s+Link ([0-9]{1,3}): (Replay|Recovery|CRC) Errors: ([0-9]{1,19})\s*$")
_ERRORS_OF = re.compile(r"^GPU ([0-9]{1,3}): ")
_AER = re.compile(r"^(\w{1,40}) ([0-9]{1,19})$", re.M)
#: The queries of nvidia-smi, in this order.
PARTS = ("rows", "nvlink", "nvlink_errors", "topology")
#: The error counters of an NVLink.
KINDS = ("replay", "recovery", "crc")

#: Why a part is missing: no such program or file, no answer in time, an error, or an answer that cannot be
#: read.
ABSENT: Final = "absent"
SILENT: Final = "silent"
FAILED: Final = "failed"
GARBLED: Final = "garbled"
#: How near a GPU is to a NIC, the nearest first.
SWITCH, ROOT, NODE, FAR = "switch", "root", "numa_node", "far"

Ask = Callable[[Sequence[str]], Ended]
Rows = dict[str, dict[str, Any]]


class FailedError(Exception):
    """nvidia-smi reports an error."""


def by_the_clock(limit_s: float = LIMIT_S) -> Ask:
    """Return a function that runs programs, with one time limit for all calls together."""
    deadline = time.monotonic() + limit_s

    def ask(argv: Sequence[str]) -> Ended:
        left_s = deadline - time.monotonic()
        if left_s <= 0:
            raise ToolError(f"{argv[0]}: no time was left to run it")
        return bounded.ask(argv, min(EACH_S, left_s))

    return ask


def read(
    reader: Reader,
    ask: Ask,
    cards: Iterable[str] = (),
    after: int = 0,
    parts: Sequence[str] = PARTS,
    records: list[kernel_log.Record] | None = None,
) -> Gpus:
    """Return what is known about the node's GPUs.

    Args:
        reader: where the kernel's files are.
        ask: runs nvidia-smi; raises ToolError.
        cards: PCI addresses of the NICs that GPUs may be near.
        after: the number of the first record of the kernel's log that counts.
        parts: the queries of nvidia-smi.
        records: takes the records of the kernel's log that `xids` sums up.

    Returns:
        `pci`, the addresses of the GPUs on the bus; `pci_paths`, their `pcie.path`; `driver`, the version of
        the loaded module; `rows`, nvidia-smi's values for each GPU, by its field names, with `pci` and the
        bus's `aer_correctable`; an error text (`nvml_words`) is kept as printed; `nvlink`, for each GPU with
        links `gpu` (its index), `active`, `inactive`, `speeds_gbytes_per_s` and `errors`; `topology`, the
        links between GPUs; `near`, the nearest GPUs of each NIC; `xids` as in `kernel_log.Log`. `errors` has
        the reason for each missing part: `class` is ABSENT, SILENT, FAILED or GARBLED, and a `message`.
    """
    folders = _on_the_bus(reader)
    driver = reader.text(reader.sys("module", "nvidia", "version"))
    found: dict[str, Any] = {
        "pci": list(folders), "pci_paths": _paths(reader, folders), "driver": driver,
        "rows": [], "nvlink": [], "topology": None,
        "near": near(reader, cards, folders), "xids": None, "errors": {},
    }  # fmt: skip
    if not folders and driver is None:
        return cast("Gpus", found)
    try:
        found["xids"] = kernel_log.read(os.path.dirname(reader.sys_root), after, records)._asdict()
    except kernel_log.LogError as error:
        found["errors"]["xids"] = {"class": ABSENT, "message": str(error)}
    if not folders or driver is None:
        return cast("Gpus", found)
    gone = None
    for part, question in (
        ("rows", lambda: _read_rows(ask, reader, folders, found)),
        ("nvlink", lambda: _read_nvlink(ask, found)),
        ("nvlink_errors", lambda: _read_nvlink_errors(ask, found)),
        ("topology", lambda: _read_topology(ask, found)),
    ):
        why = gone or (_why_not(question) if part in parts else None)
        if why is not None:
            found["errors"][part] = why
            # A program that is missing or hung once is not run again.
            gone = why if why["class"] in (ABSENT, SILENT) else None
    return cast("Gpus", found)


def _why_not(question: Callable[[], None]) -> dict[str, str] | None:
    """Run a query, and return why it has no answer, or None."""
    try:
        question()
    except ToolError as error:
        return {"class": ABSENT if error.absent else SILENT, "message": str(error)}
    except FailedError as error:
        return {"class": FAILED, "message": str(error)}
    except ValueError as error:
        return {"class": GARBLED, "message": str(error)}
    return None


def _read_rows(ask: Ask, reader: Reader, folders: Mapping[str, str], found: dict[str, Any]) -> None:
    rows = _rows(ask, "--query-gpu")
    found["rows"] = [{"pci": address, **row} for address, row in rows.items()]
    for row in found["rows"]:
        folder = folders.get(row["pci"])
        told = (
            dict(_AER.findall(reader.text(os.path.join(folder, "aer_dev_correctable")) or ""))
            if folder
            else {}
        )
        row["aer_correctable"] = int(told["TOTAL_ERR_COR"]) if "TOTAL_ERR_COR" in told else None
    more: Rows = {}
    why = _why_not(lambda: more.update(_rows(ask, "--query-remapped-rows")))
    if why is not None:
        found["errors"]["remapped"] = why
    for row in found["rows"]:
        row.update(more.get(row["pci"], {}))


def _rows(ask: Ask, query: str) -> Rows:
    """Return nvidia-smi's rows by PCI address.

    Raises:
        ToolError: it gave no answer.
        FailedError: its answer is that something failed.
        ValueError: its answer cannot be read.
    """
    fields = list(_FIELDS[query])
    names = _NAMES[query]
    for _attempt in range(_TRIES):
        ended = ask(["nvidia-smi", f"{query}={','.join((*names, *fields))}", "--format=csv"])
        unknown = _NOT_A_FIELD.search(ended.text)
        if unknown is not None:
            if unknown.group(1) not in fields:
                raise ValueError(f"nvidia-smi does not know {unknown.group(1)}")
            at = fields.index(unknown.group(1))
            fields[at : at + 1] = (
                [_NEW + fields[at].removeprefix(_OLD)] if fields[at].startswith(_OLD) else []
            )
            continue
        try:
            answer = capture.read(nvidia_smi_query.parse_keeping_trouble, ended.text)
        except NotThisTool as error:
            raise ValueError(f"nvidia-smi ended with {ended.status}: {error}") from error
        problem = answer.get("error")
        if problem and problem["class"] == "tool_error":
            raise FailedError(f"nvidia-smi: {problem['message']}")
        if problem or not answer["outputs"] or ended.status != 0:
            why = problem["message"] if problem else "no GPU in its answer"
            raise ValueError(f"nvidia-smi ended with {ended.status}: {why}")
        return {
            nvidia_pci.normal_address(str(row[names[0]])): {_old(key): value for key, value in row.items()
                                                            if key != names[0]}
            for row in answer["outputs"][0]["gpus"]
            if row.get(names[0]) and not nvml_words.is_trouble(row[names[0]])
        }  # fmt: skip
    raise ValueError("nvidia-smi knows too few of the queried fields")


def _old(name: str) -> str:
    return _OLD + name.removeprefix(_NEW) if name.startswith(_NEW) else name


def _read_nvlink(ask: Ask, found: dict[str, Any]) -> None:
    ended = ask(["nvidia-smi", "nvlink", "-s"])
    if not ended.text.strip() and ended.status == 0:
        return  # GPUs without NVLink
    try:
        answer = capture.read(nvidia_smi_nvlink.parse, ended.text)
    except NotThisTool as error:
        if ended.status == 0 and all(
            _ERRORS_OF.match(line) for line in ended.text.splitlines() if line.strip()
        ):
            return  # each GPU's name, and no link below it
        raise ValueError(f"nvidia-smi nvlink ended with {ended.status}: {error}") from error
    problem = answer["error"]
    # A GPU without NVLink among others is no error of the tool; a driver without any reports it the same way.
    has_none = problem and nvidia_smi_nvlink.is_without_nvlink(problem["message"])
    if (problem or ended.status != 0) and not has_none:
        why = problem["message"] if problem else "the answer is incomplete"
        raise ValueError(f"nvidia-smi nvlink ended with {ended.status}: {why}")
    found["nvlink"] = [
        {
            "gpu": one["gpu"],
            "active": sum(link["active"] for link in one["links"]),
            "inactive": [link["link"] for link in one["links"] if not link["active"]],
            "speeds_gbytes_per_s": sorted(
                {link["speed_gbytes_per_s"] for link in one["links"] if link["active"]}
            ),
            "errors": None,
        }
        for one in answer["outputs"]
        if one["links"]
    ]


def _read_nvlink_errors(ask: Ask, found: dict[str, Any]) -> None:
    """Add the sums of the error counters of each GPU's links; counters that a driver lacks stay None."""
    if not found["nvlink"]:
        return
    sums: dict[int, dict[str, int]] = {}
    gpu = None
    for line in ask(["nvidia-smi", "nvlink", "-e"]).text.splitlines():
        head, counter = _ERRORS_OF.match(line), _ERRORS.match(line)
        gpu = int(head.group(1)) if head else gpu
        if counter and gpu is not None:
            mine = sums.setdefault(gpu, dict.fromkeys(KINDS, 0))
            mine[counter.group(2).lower()] += int(counter.group(3))
    for one in found["nvlink"]:
        one["errors"] = sums.get(one["gpu"])


def _read_topology(ask: Ask, found: dict[str, Any]) -> None:
    ended = ask(["nvidia-smi", "topo", "-m"])
    try:
        answer = capture.read(nvidia_smi_topo.parse, ended.text)
    except NotThisTool as error:
        raise ValueError(f"nvidia-smi topo ended with {ended.status}: {error}") from error
    if not answer["valid"]:
        raise ValueError(f"nvidia-smi topo: {(answer['error'] or {}).get('message', 'no matrix')}")
    links = answer["outputs"][0]["links"]
    found["topology"] = {
        one: {other: link for other, link in row.items() if other.startswith("GPU")}
        for one, row in links.items() if one.startswith("GPU")
    }  # fmt: skip


def _on_the_bus(reader: Reader) -> dict[str, str]:
    return {one["pci"]: one["folder"] for one in nvidia_pci.functions(reader) if nvidia_pci.is_gpu(one)}


def _paths(reader: Reader, folders: Mapping[str, str]) -> dict[str, Any]:
    return {gpu: pcie.path(reader, os.path.realpath(folder)) for gpu, folder in folders.items()}


def nearest(reader: Reader, card: str) -> str | None:
    """Return the PCI address of the GPU nearest to a NIC, None where the node has none.

    Of several equally near ones it is the one that shares the most bridges with the NIC, else the first.
    """
    folders = _on_the_bus(reader)
    close = next((one["gpus"] for one in near(reader, [card], folders)), None) or list(folders)
    way = pcie.way(reader.sys("bus", "pci", "devices", card))
    return max(close, key=lambda gpu: _shared(way, pcie.way(folders[gpu])), default=None)


def near(reader: Reader, cards: Iterable[str], gpus: Mapping[str, str]) -> list[dict[str, Any]]:
    """Return for each NIC (`nic`) the nearest `gpus`, and by what they are near.

    `by` is `switch` (below the same root port), `root` (the same root complex), `numa_node` or `far`; None
    where the kernel shows neither path nor NUMA node.
    """
    found = []
    for card in dict.fromkeys(cards):
        folder = reader.sys("bus", "pci", "devices", card)
        if not gpus or not os.path.exists(folder):
            continue
        ways = {gpu: _nearness(reader, folder, place) for gpu, place in gpus.items()}
        known = [by for by in (SWITCH, ROOT, NODE, FAR) if by in ways.values()]
        by = known[0] if known else None
        found.append({"nic": card, "by": by, "gpus": [gpu for gpu, way in ways.items() if by and way == by]})
    return found


def _nearness(reader: Reader, one: str, other: str) -> str | None:
    shared = _shared(pcie.way(one), pcie.way(other))
    if shared:
        return SWITCH if shared > 1 else ROOT
    nodes = [numa_node(reader, folder) for folder in (one, other)]
    if None in nodes:
        return None
    return NODE if nodes[0] == nodes[1] else FAR


def _shared(one: Sequence[str], other: Sequence[str]) -> int:
    """Return the length of the common prefix of two paths."""
    both = zip(one, other)  # noqa: B905 - 3.9
    return sum(1 for _same in itertools.takewhile(lambda pair: pair[0] == pair[1], both))
