# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvidia-smi --query-gpu (CSV with its header), and the driver and GPUs of `nvidia-smi [-q]`."""

from __future__ import annotations

import csv
import re
from typing import Any

from .. import common
from ..common import error, to_float, to_int
from . import nvml_words

_COLUMN = re.compile(r"([a-z][\w.]{0,80})(?: \[([^\]]{1,12})\])?\Z")
# A single word is a header only if it is one of these.
_SINGLE = ("name", "uuid", "index", "driver_version", "count", "pstate", "pci.bus_id", "serial")
# The columns that identify a GPU, the most reliable first.
_NAMING = ("uuid", "gpu_uuid", "pci.bus_id", "gpu_bus_id", "serial", "index")
_UNIT = re.compile(r"(-?[0-9]+(?:\.[0-9]+)?)(?: (?:MiB|GiB|%|W|MHz|C|ms|us))?\Z")
_TROUBLE = re.compile(r"NVIDIA-SMI has failed|No devices were found|couldn't communicate|not a valid field|"
                      r"Failed to initialize NVML|Unable to determine", re.I)  # fmt: skip
_Q_START = re.compile(r"^\s*=+NVSMI LOG=+\s*$")
# The lines after the banner, which a capture may lack: the first of these that is present begins a log.
_Q_HEADS = tuple(re.compile(rf"^{name} +: ") for name in ("Timestamp", "Driver Version", "Attached GPUs"))
_TABLE = re.compile(r"^\| NVIDIA-SMI \S{1,20} +Driver Version: (\S{1,20}) ")
_TABLE_GPU = re.compile(r"^\| +([0-9]{1,3}) +(\S.{0,60}?) +(?:On|Off|N/A) +\| +([0-9A-Fa-f:.]{12,16}) ")
_TABLE_ERROR = re.compile(r"^\|.{0,120}\bERR!.{0,120}\|\s*$")
_Q_PAIR = re.compile(r"^( *)([A-Za-z][\w .()/-]{0,60}?) +: (.{0,200})$")
_Q_GPU = re.compile(r"^GPU ([0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9])\s*$")
# The fields at the first level below a GPU, by the column of --query-gpu for the same value.
_Q_COLUMNS = {
    "Product Name": "name",
    "GPU UUID": "uuid",
    "Serial Number": "serial",
    "VBIOS Version": "vbios_version",
}
# The last section of a GPU in all versions; a capture that was cut lacks it.
_Q_LAST = re.compile(r"^ {4}(?:Processes|Capabilities)\b")


def _value(text: str) -> str | int | float | None:
    text = text.strip()
    if not text or nvml_words.is_absent(text):
        return None
    number = _UNIT.match(text)
    if number is None:
        return text
    complete = to_int(number.group(1))
    return complete if complete is not None and "." not in number.group(1) else to_float(number.group(1))


def _is_value(cell: object) -> bool:
    return cell is not None and not nvml_words.is_trouble(cell)


def _is_word(cell: str) -> bool:
    """Return whether the cell has text instead of a number."""
    return nvml_words.is_absent(cell) or nvml_words.is_trouble(cell)


def _cut_cell(cells: list[str], units: list[str | None]) -> int | None:
    """Return the index of a cell that is truncated or lacks its column's unit, or None.

    With `nounits` no cell has a unit: then a cell without it is not truncated.
    """
    stated = [at for at, unit in enumerate(units) if unit and not _is_word(cells[at])]
    complete = [at for at in stated if to_float(cells[at].partition(f" {units[at]}")[0]) is not None]
    if len(complete) < len(stated):
        return next(at for at in stated if at not in complete)
    bare = [at for at in stated if to_float(cells[at]) is not None]
    return bare[0] if bare and len(bare) < len(stated) else None


def _read_csv(lines: list[str]) -> tuple[list[list[dict[str, Any]]], dict[str, str] | None]:
    """Read the GPUs of each run, which begins with its header or, with `-l`, with a repeated GPU."""
    parts: list[list[dict[str, Any]]] = []
    columns: list[str] = []
    units: list[str | None] = []
    problem = None
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            cells = [cell.strip() for cell in next(csv.reader([line]))]
        except (csv.Error, StopIteration):
            continue
        names = [_COLUMN.match(cell) for cell in cells]
        if all(names) and (len(cells) > 1 or cells[0] in _SINGLE):
            columns = [name.group(1) for name in names if name]
            units = [name.group(2) for name in names if name]
            parts.append([])
        elif columns and len(cells) == len(columns):
            parts[-1].append(dict(zip(columns, map(_value, cells))))  # noqa: B905 - 3.9
            cut = _cut_cell(cells, units)
            if cut is not None:
                reported = (
                    f"line {number}: {columns[cut]} is {cells[cut][:40]!r}, no whole number of {units[cut]}"
                )
                problem = problem or error("garbled", reported)
        elif columns and "," in line:
            problem = problem or error(
                "truncated", f"line {number}: it has {len(cells)} of {len(columns)} columns"
            )
    if not all(parts):
        problem = problem or error("truncated", "a header has no rows")
    runs = []
    for part in parts:
        known = set.intersection(*({key for key in row if _is_value(row[key])} for row in part or [{}]))
        name = next((one for one in _NAMING if one in known), None)
        runs += common.runs(part, name) if name else [part]
    return runs, problem


def _read_q(lines: list[str]) -> tuple[str | None, list[dict[str, Any]], dict[str, str] | None]:
    driver = None
    stated = None
    complete = 0
    gpus: list[dict[str, Any]] = []
    for line in lines:
        gpu, pair = _Q_GPU.match(line), _Q_PAIR.match(line)
        if gpu:
            gpus.append({"pci.bus_id": gpu.group(1), **dict.fromkeys(_Q_COLUMNS.values())})
        elif _Q_LAST.match(line) and gpus:
            complete += 1
        elif pair and not pair.group(1) and pair.group(2) == "Driver Version":
            driver = pair.group(3).strip()
        elif pair and not pair.group(1) and pair.group(2) == "Attached GPUs":
            stated = to_int(pair.group(3))
        elif pair and gpus and len(pair.group(1)) == len("    ") and pair.group(2) in _Q_COLUMNS:
            words = pair.group(3).strip()
            gpus[-1][_Q_COLUMNS[pair.group(2)]] = None if nvml_words.is_absent(words) else words
        elif pair and gpus and nvml_words.is_trouble(pair.group(3)):
            gpus[-1].setdefault(pair.group(2), pair.group(3).strip())
    problem = None
    if driver is None or stated is None or stated != len(gpus) or complete < len(gpus):
        problem = error("truncated", f"{len(gpus)} of {stated} GPUs, {complete} of them to their end")
    return driver, gpus, problem


def _log_starts(lines: list[str]) -> list[int]:
    """Return where each log of -q begins: at its banner, or at the line after it where that is missing."""
    gpus = [at for at, line in enumerate(lines) if _Q_GPU.match(line)]
    for head in (_Q_START, *(_Q_HEADS if gpus else ())):
        starts = [at for at, line in enumerate(lines) if head.match(line)]
        if starts:
            return starts
    return gpus[:1]


def _read_table(lines: list[str]) -> tuple[str | None, list[dict[str, Any]], dict[str, str] | None]:
    """Read the GPUs of plain `nvidia-smi`; its list of processes comes last."""
    head = _TABLE.match(lines[0])
    gpus: list[dict[str, Any]] = []
    for line in lines:
        if match := _TABLE_GPU.match(line):
            gpus.append(
                {"index": to_int(match.group(1)), "name": match.group(2), "pci.bus_id": match.group(3)}
            )
        if gpus and _TABLE_ERROR.search(line):
            gpus[-1]["Field of the table"] = "ERR!"
    complete = bool(gpus) and any(line.startswith("| Processes:") for line in lines)
    problem = None if complete else error("truncated", "the list of processes at the end is missing")
    return head and head.group(1), gpus, problem


def _without_trouble(outputs: list[dict[str, Any]]) -> list[str]:
    """Replace error texts by None; return a warning for each with GPU, query and text."""
    warnings = []
    for gpus in (output["gpus"] for output in outputs):
        for place, row in enumerate(gpus):
            name = next((str(row[one]) for one in _NAMING if _is_value(row.get(one))), f"in row {place + 1}")
            for key in [key for key, value in row.items() if nvml_words.is_trouble(value)]:
                warnings.append(f"GPU {name}: {key} is {row[key]}, which is an error instead of a value")
                if key[0].isupper():
                    del row[key]  # a line of -q or the table that is no column of the output
                else:
                    row[key] = None
    return warnings


def parse(text: str) -> dict[str, Any]:
    """Parse `nvidia-smi --query-gpu=... --format=csv`, or the driver and GPUs of `nvidia-smi [-q]`.

    Args:
        text: What nvidia-smi printed; the CSV with its header.

    Returns:
        The common object with an output per run: `driver_version` and `gpus`, each by the query's column
        names without their units; `[N/A]` and similar are None. An error (`[GPU is lost]`) is None too, and a
        warning has GPU, query and text.

    Raises:
        NotThisTool: There is neither a header nor a log of nvidia-smi.
    """
    found = parse_keeping_trouble(text)
    found["warnings"] += _without_trouble(found["outputs"])
    return found


def parse_keeping_trouble(text: str) -> dict[str, Any]:
    """Parse like `parse`, but keep error texts instead of values (see `nvml_words`).

    Raises:
        NotThisTool: There is neither a header nor a log of nvidia-smi.
    """
    lines = common.split_lines(text)
    reported = next((line for line in lines if _TROUBLE.search(line[:400])), None)
    problem = error("tool_error", reported) if reported else None
    outputs: list[dict[str, Any]] = []
    warnings: list[str] = []
    tables = [at for at, line in enumerate(lines) if _TABLE.match(line)]
    forms = (("the log of -q", _read_q, _log_starts(lines)), ("the table", _read_table, tables))
    for form, read, starts in forms:
        if outputs and starts:
            warnings.append(common.not_read(form))
            continue
        for start, end in zip(starts, [*starts[1:], len(lines)]):  # noqa: B905 - 3.9
            driver, gpus, wrong = read(lines[start:end])
            problem = problem or wrong
            outputs.append({"driver_version": driver, "gpus": gpus})
    runs, wrong = ([], None) if reported else _read_csv(lines)
    if outputs:
        warnings += [common.not_read("CSV")] if any(runs) else []
        return common.result("nvidia-smi-query", outputs, problem, warnings)
    if not runs and not reported:
        raise common.refusal("no header of nvidia-smi --query-gpu", lines)
    for run in filter(None, runs):
        versions = {str(row["driver_version"]) for row in run if _is_value(row.get("driver_version"))}
        outputs.append({"driver_version": versions.pop() if len(versions) == 1 else None, "gpus": run})
    return common.result("nvidia-smi-query", outputs, problem or wrong)
