# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvbandwidth's JSON (`-j`, 0.5 to 0.8): matrices of GB/s, as texts, `N/A` where nothing was copied.

Its text is read by `nvbandwidth_text`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .. import common, json_text
from ..common import error, to_float
from ..json_text import section
from . import nvbandwidth_text

# 0.8 has a list of "3: NVIDIA H100 80GB HBM3 (00000000:5d:00): (gpu17)"; before it, lines "Device 3: ..."
# come before the JSON.
_DEVICE = re.compile(
    r"(?:Device )?([0-9]{1,3}): (.{1,120}?)"
    r"(?: \([0-9a-f]{4}([0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2})\))?(?:: \(.*\))?\Z"
)
_UNIT = re.compile(r"\((GB/s|ns)\)\Z")
# The data did not arrive correctly: the comparing GPU prints one message, the program ends with the other.
_WRONG = ("Invalid value when checking the pattern", "h_errorFlag")
_DONE, _WAIVED = "Passed", "Waived"
_NOTHING = "N/A"
# The most cells of a matrix: the most GPUs of one process, squared.
_MOST = 128


def _text(value: object) -> str | None:
    return value[:400] if isinstance(value, str) else None


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _gpu(line: object) -> dict[str, Any] | None:
    match = _DEVICE.match(line[:400]) if isinstance(line, str) else None
    if match is None:
        return None
    pci = f"{match.group(3)}.0" if match.group(3) else None
    return {"index": int(match.group(1)), "name": match.group(2), "pci": pci}


def _matrix(value: object) -> list[list[float | None]] | None:
    """Return a matrix; None where it is not a matrix of bandwidths."""
    rows: list[list[float | None]] = []
    for cells in _list(value)[: _MOST + 1]:
        row: list[float | None] = []
        for cell in _list(cells)[: _MOST + 1]:
            # A number, in a text as a rule.
            seen = None if cell == _NOTHING else to_float(cell)
            if cell != _NOTHING and (seen is None or seen < 0):
                return None
            row.append(seen)
        rows.append(row)
    complete = rows and len(rows) <= _MOST and 0 < len(rows[0]) <= _MOST
    return rows if complete and len({len(row) for row in rows}) == 1 else None


def _test(value: object) -> dict[str, Any]:
    test = section(value)
    unit = _UNIT.search(_text(test.get("bandwidth_description")) or "")
    return {
        "test": _text(test.get("name")),
        "status": _text(test.get("status")),
        "description": _text(test.get("bandwidth_description")),
        "unit": unit.group(1) if unit else None,
        "matrix": _matrix(test.get("bandwidth_matrix")),
    }


def _output(data: dict[str, Any], lines: list[str]) -> dict[str, Any]:
    devices = data.get("GPU Device list", lines)
    return {
        "version": _text(data.get("version")),
        "driver_version": _text(data.get("Driver Version")),
        "gpus": [gpu for gpu in map(_gpu, _list(devices)) if gpu],
        "tests": [_test(one) for one in _list(data.get("testcases"))[: _MOST + 1]],
    }


def _problems(data: dict[str, Any], output: dict[str, Any]) -> Iterator[dict[str, str]]:
    reported = _text(data.get("error"))
    if reported is not None:
        yield error("wrong_values" if any(word in reported for word in _WRONG) else "tool_error", reported)
    if not output["tests"]:
        yield error("truncated", "there is no result")
    for test in output["tests"]:
        if test["status"] not in (_DONE, _WAIVED):
            yield error("tool_error", f"{test['test']} ended as {test['status']!r}")
        elif test["status"] == _DONE and (test["matrix"] is None or test["unit"] is None):
            yield error("garbled", f"the matrix of {test['test']} is none of GB/s")


def parse(text: str) -> dict[str, Any]:
    """Parse what nvbandwidth printed, with `-j` or without.

    Args:
        text: its output; text before and after the JSON is allowed.

    Returns:
        The common object; an output's `tests` have a `matrix` of GB/s (10^9 bytes/s), None where nothing was
        copied (`N/A`) and for a test that was waived, which needs what this machine does not have.

    Raises:
        NotThisTool: There is neither JSON nor text of nvbandwidth.
    """
    found = json_text.find_objects(text)
    runs = [section(one, "nvbandwidth") for one in found.objects if "nvbandwidth" in one]
    cut = found.cut is not None and '"nvbandwidth"' in found.cut
    if not runs and not cut:
        printed = nvbandwidth_text.parse(text)
        if printed is None:
            raise common.refusal("neither JSON nor text of nvbandwidth", common.split_lines(text))
        return printed
    lines = [line for line in common.split_lines(found.around) if line.startswith("Device ")]
    outputs = [_output(one, lines) for one in runs]
    pairs = zip(runs, outputs)  # noqa: B905 - 3.9
    problem = next((one for data, output in pairs for one in _problems(data, output)), None)
    if _WRONG[0] in found.around:
        problem = error("wrong_values", _WRONG[0])
    elif cut:
        problem = problem or error("truncated", "the JSON ends in the middle")
    elif any(common.ended_by_signal(line) for line in common.split_lines(found.around)):
        problem = problem or error("interrupted", "nvbandwidth was ended from outside")
    warnings = [reported for reported in (_text(one.get("warning")) for one in runs) if reported]
    return common.result("nvbandwidth", outputs, problem, warnings)
