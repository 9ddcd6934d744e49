# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""perftest's JSON output, 4.5 to 26.x; up to 23.x not valid JSON: bare keys and values, trailing commas."""

from __future__ import annotations

import re
from typing import Any

from ..common import error, to_float, to_int
from . import run

_START = re.compile(r"^[ \t]*\{\s*\"?test_info\"?\s*:", re.M)
# A section's name or a pair anywhere in a line: other programs reformat the file, in one line or indented.
# A bare value takes a decimal comma with it (no key begins with a digit), and is then no number.
_PART = re.compile(
    r"\"?(?<![\w.])([A-Za-z][\w. ]{0,40}?)\"?\s{0,20}:\s{0,20}"
    r"(?:(\{)|\"([^\"\n]{0,200})\"|([^\",{}\n]{0,200}?(?:,[0-9][^\",{}\n]{0,40}?)?)"
    r"(?=\s{0,20}[,}\n]))",
    re.A,
)
_FIELDS = {
    "MsgSize": "message_bytes",
    "n_iterations": "iterations",
    "BW_peak": "peak",
    "BW_average": "average",
    # Where both are there, the latter counts.
    "msgRate_avg": "message_rate_mpps",
    "MsgRate": "message_rate_mpps",
    "CPU_util": "cpu_percent",
}
_LATENCY = {
    "t_min": "min_us",
    "t_max": "max_us",
    "t_typical": "typical_us",
    "t_avg": "average_us",
    "avg_lat": "average_us",
    "t_stdev": "stdev_us",
    "percentile_99": "p99_us",
    "percentile_99.9": "p999_us",
    "tps_average": "transactions_per_s",
}
_NAMES = {**_FIELDS, **_LATENCY}
_NOT_MEASURED = ("", "N/A", "nan", "-nan", "inf", "-inf")


def is_json(text: str) -> bool:
    """Tell whether the text holds perftest's JSON."""
    return bool(_START.search(text))


def _unit(results: dict[str, str]) -> str | None:
    """Find the unit in which bandwidth, message rate and size agree; the file has none."""
    size, rate = to_int(results.get("MsgSize")), to_float(results.get("MsgRate"))
    average = to_float(results.get("BW_average"))
    if not size or not rate or not average:
        return None
    # Both are rounded when printed: the rate to 6 digits, the bandwidth to 2 (6 when it is small).
    digits = len(results["BW_average"].partition(".")[2])
    fitting = []
    for unit, factor in run.GBPS_PER_UNIT.items():
        expected = rate * 1e6 * size * 8 / 1e9 / factor
        margin = 0.6 * 10**-digits + expected * 0.6e-6 / rate
        if abs(expected - average) <= margin:
            fitting.append(unit)
    return fitting[0] if len(fitting) == 1 else None


def _one(text: str, start: int, end: int) -> tuple[dict[str, Any], bool, tuple[int, str] | None]:
    """Read one object: (output, whether it is closed, position and text of a result that is no number)."""
    info: dict[str, str] = {}
    results: dict[str, str] = {}
    target: dict[str, str] = {}
    wrong: tuple[int, str] | None = None
    for part in _PART.finditer(text, start, end):
        key = part.group(1).strip()
        if part.group(2):
            # Newer versions have `results_local` and `results_remote` beside the sum.
            target = {"test_info": info, "results": results}.get(key, {})
        else:
            value = (part.group(3) or part.group(4) or "").strip()
            target.setdefault(key, value)
            is_number = value in _NOT_MEASURED or to_float(value) is not None
            if target is results and key in _NAMES and not is_number:
                wrong = wrong or (part.start(), f"{key} is {value[:60]!a}, no number")
    output: dict[str, Any] = dict.fromkeys(run.OUTPUT_KEYS)
    output.update(run.read_title(info.get("test", "")) or {})
    values = {key.replace("_", " ").lower(): value for key, value in info.items()}
    run.apply_parameters(output, values)
    if output["bidirectional"] is False:
        # Only the sending side, or both of a bidirectional run, write their TX depth.
        output["role"] = "client" if "tx depth" in values else "server"
    for maker in ("CUDA", "MUSA"):
        number = values.get(f"{maker.lower()} device")
        if number is not None:
            output["gpu"] = f"{maker} device {number}"
    if output["kind"] is None:
        output["kind"] = "latency" if any(key in results for key in _LATENCY) else "bandwidth"
    is_bandwidth = output["kind"] == "bandwidth"
    if is_bandwidth or results:
        output["reported_unit"] = _unit(results) if is_bandwidth else "us"
    reported = {name: results[key] for key, name in _NAMES.items() if key in results}
    output["rows"] = [run.row(output, reported)] if results else []
    return output, text.count("{", start, end) == text.count("}", start, end) and bool(results), wrong


def read(text: str) -> tuple[list[tuple[dict[str, Any], bool]], dict[str, str] | None]:
    """Read all objects in the text.

    Args:
        text: One or several of perftest's JSON files.

    Returns:
        (output, whether its object is complete) per object; and the error of the first result that is no
        number.
    """
    starts = [match.start() for match in _START.finditer(text)]
    found = [_one(text, *place) for place in zip(starts, [*starts[1:], len(text)])]  # noqa: B905 - 3.9
    outputs = [(output, closed) for output, closed, _wrong in found]
    wrong = next((one[2] for one in found if one[2]), None)
    if wrong is None:
        return outputs, None
    return outputs, error("garbled", f"line {text.count(chr(10), 0, wrong[0]) + 1}: {wrong[1]}")
