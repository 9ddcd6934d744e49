# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The file that nccl-tests writes with `-J`, from 2.17 on: one object per test."""

from __future__ import annotations

import re
from typing import Any

from .. import common, json_text
from ..common import error, to_float, to_int
from ..json_text import section

_PROGRAM = re.compile(r"(?:^|/)(\w{1,40})_perf(?:_mpi)?\Z")
#: Also where mpirun starts a binary without MPI: each process is a separate run.
ONE_GPU = "only one GPU: no data went from GPU to GPU, so there is no bus bandwidth"
_CUT = re.compile(r'"nccl_version"\s*:|"minimum_bytes"\s*:')


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _side(value: object) -> dict[str, Any] | None:
    side = section(value)
    if not side:
        return None
    return {
        "time_us": to_float(side.get("time", side.get("cpu_time"))),
        "algbw_GBps": to_float(side.get("alg_bw")),
        "busbw_GBps": to_float(side.get("bus_bw")),
        "wrong": to_int(side.get("nwrong")),
    }


def _text(value: object) -> str | None:
    return value if isinstance(value, str) and value != "none" else None


def _row(value: object) -> dict[str, Any]:
    row = section(value)
    return {
        "bytes": to_int(row.get("size")),
        "count": to_int(row.get("count")),
        "dtype": _text(row.get("type")),
        "redop": _text(row.get("redop")),
        "out_of_place": _side(row.get("out_of_place")),
        "in_place": _side(row.get("in_place")),
    }


def sides(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return what was measured in each row, out of place and in place."""
    return [row[half] for row in rows for half in ("out_of_place", "in_place") if row[half]]


def below_limit(average: float | None) -> dict[str, str]:
    """Return the error of a test below its configured limit."""
    return error("below_limit", f"{average} GB/s are less than NCCL_TESTS_MIN_BW")


def _output(data: dict[str, Any]) -> dict[str, Any]:
    config = section(data, "config")
    devices = [section(one) for one in _list(config.get("devices"))]
    # Of each process only the first device is listed.
    each = (to_int(config.get("nthreads")) or 0) * (to_int(config.get("ngpus")) or 0)
    hosts = {str(one.get("hostname")) for one in devices}
    program = _PROGRAM.search(str(next(iter(_list(data.get("args"))), ""))[:4096])
    rows = [_row(one) for one in _list(data.get("results"))]
    checked = any(side["wrong"] is not None for side in sides(rows))
    return {
        "collective": program.group(1) if program else None,
        "gpus": len(devices) * each or None,
        "nodes": len(hosts) or None,
        "rows": rows,
        "average_busbw_GBps": to_float(section(data, "average_bus_bandwidth").get("bandwidth")),
        "out_of_bounds": to_int(section(data, "out_of_bounds").get("count")) if checked else None,
    }


def _problem(data: dict[str, Any], output: dict[str, Any]) -> dict[str, str] | None:
    rows, bounds = output["rows"], section(data, "out_of_bounds")
    if "end_time" not in data or not bounds or output["average_busbw_GBps"] is None:
        return error("truncated", "the test did not reach its end")
    measured = sides(rows)
    if not measured:
        return error("truncated", "there is no result")
    if any(None in (side["time_us"], side["algbw_GBps"], side["busbw_GBps"]) for side in measured):
        return error("garbled", "a result has no time or bandwidth")
    if output["gpus"] == 1 or output["average_busbw_GBps"] == 0:
        return error("not_measured", ONE_GPU)
    wrong = sum(side["wrong"] or 0 for side in measured)
    if wrong or bounds.get("okay") != "true":
        return error("wrong_values", f"{wrong or bounds.get('count')} wrong values")
    if section(data, "average_bus_bandwidth").get("okay") == "false":
        return below_limit(output["average_busbw_GBps"])
    return None


def parse(text: str) -> dict[str, Any] | None:
    """Parse the JSON of nccl-tests.

    Args:
        text: What nccl-tests wrote into the file named with `-J`.

    Returns:
        The common object, or None when the text holds no such JSON.
    """
    found = json_text.find_objects(text)
    runs = [one for one in found.objects if "nccl_version" in one and "config" in one]
    cut = found.cut if found.cut is not None and _CUT.search(found.cut) else None
    if not runs and cut is None:
        return None
    outputs = [_output(one) for one in runs]
    pairs = zip(runs, outputs)  # noqa: B905 - 3.9
    problem = next(filter(None, (_problem(data, output) for data, output in pairs)), None)
    if cut is not None:
        problem = problem or error("truncated", "the JSON ends in the middle")
    reported = [str(one)[:300] for data in runs for one in _list(data.get("errors")) if one]
    if any(side["wrong"] is None for output in outputs for side in sides(output["rows"])):
        reported.append("the values were not checked (-c 0)")
    return common.result("nccl-tests", outputs, problem, reported)
