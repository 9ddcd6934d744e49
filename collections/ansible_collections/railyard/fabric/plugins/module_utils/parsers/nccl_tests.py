# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nccl-tests' table; columns differ by age and collective, so that rows are read from the right."""

from __future__ import annotations

import re
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.parsers.common import (
    NotThisTool,
    ended_by_signal,
    error,
    first_text,
    result,
    split_lines,
    strip_ansi,
    to_float,
    to_int,
)

# `srun -l` writes "0: " before each line, `mpirun --tag-output` "[1,0]<stdout>:".
_PREFIX = re.compile(r"^(?:\[[0-9]+,[0-9]+\]<std(?:out|err)>: ?|[0-9]{1,5}: )")
_BANNER = re.compile(r"^# n[Tt]hread[s]? [0-9]+ .*\bminBytes [0-9]+")
_RANK = re.compile(r"^#\s+Rank\s+([0-9]+) .*? on\s+(\S+) device")
_NAMES = "all_reduce|all_gather|reduce_scatter|alltoallv?|broadcast|reduce|gather|scatter|sendrecv|hypercube"
_COLLECTIVE = re.compile(rf"\b({_NAMES})_perf\b|^# Collective test starting: (\w+)_perf")
_COLUMNS = re.compile(r"^#\s+size\s+count\s.*\bbusbw\b.*\bbusbw\b")
_BOUNDS = re.compile(r"^# Out of bounds values : ([0-9.e+]+) (OK|FAILED)")
_AVERAGE = re.compile(r"^# Avg bus bandwidth +: ([0-9.e+-]+|nan|inf)(?:\s+(?:(OK|FAILED)\b)?|$)")
_FAILURE = re.compile(r"Test (?:NCCL|CUDA) failure .*|NCCL failure .*|CUDA failure .*|"
                      r"Test failure .*|unhandled (?:system|cuda) error.*")  # fmt: skip
_TYPE = re.compile(r"(?:u?int(?:8|32|64)|half|float(?:16|32|64)?|double|bfloat16|f8e[0-9]m[0-9])\Z")
_SIDE_CELLS = 4


def _side(cells: list[str], old: bool) -> dict[str, Any]:
    names = ("time_us", "algbw_GBps", "busbw_GBps")
    side: dict[str, Any] = {name: to_float(cells[at]) for at, name in enumerate(names)}
    # N/A was not checked; up to 2.11 the column is the largest difference, which is no count.
    side["wrong"] = None if old else to_int(cells[3])
    return side


def _sides(cells: list[str], header: list[str]) -> tuple[int, list[list[str]]]:
    """Return where a row's two halves begin, and the four cells of each that all tables have."""
    first, second = [at for at, name in enumerate(header) if name == "busbw"][:2]
    # --per_iter_timing gives each half four columns more, -S ends a row in date and time.
    width = second - first
    begin = len(cells) - 2 * width - (2 if header[-1] == "timestamp" else 0)
    return begin, [cells[at : at + _SIDE_CELLS] for at in (begin, begin + width)]


def _row(cells: list[str], header: list[str]) -> dict[str, Any] | None:
    """Read one row, or return None when the line is none."""
    begin, sides = _sides(cells, header)
    if begin < 3 or to_int(cells[0]) is None or to_int(cells[1]) is None:
        return None
    head = cells[2:begin]
    if not _TYPE.match(head[0]) or any(to_float(cell) is None for side in sides for cell in side[:3]):
        return None
    old = "error" in header
    # Behind the type stand redop, root, both or none; a root is a number.
    words = [cell for cell in head[1:] if to_int(cell) is None]
    return {
        "bytes": to_int(cells[0]),
        "count": to_int(cells[1]),
        "dtype": head[0],
        "redop": words[0] if words and words[0] != "none" else None,
        "out_of_place": _side(sides[0], old),
        "in_place": _side(sides[1], old),
    }


class _Run:
    """One test while it is read."""

    def __init__(self) -> None:
        self.collective: str | None = None
        self.ranks: dict[int, str] = {}
        self.header: list[str] = []
        self.rows: list[dict[str, Any]] = []
        self.bounds: tuple[int | None, bool] | None = None
        self.average: float | None = None
        self.has_average = False
        self.is_too_low = False
        self.checked = False

    def output(self) -> dict[str, Any]:
        return {
            "collective": self.collective,
            "gpus": len(self.ranks) or None,
            "nodes": len(set(self.ranks.values())) or None,
            "rows": self.rows,
            "average_busbw_GBps": self.average,
            # Without validation the tool prints "0 OK" all the same, which counts nothing.
            "out_of_bounds": self.bounds[0] if self.bounds and self.checked else None,
        }

    def problem(self) -> dict[str, str] | None:
        if not self.rows:
            return error("truncated", "there is no result row")
        if not self.has_average or self.bounds is None:
            return error("truncated", "the lines behind the table are missing")
        if len(self.ranks) == 1 or self.average == 0:
            # Also what mpirun starts without MPI in the binary: each process is a run of its own.
            return error(
                "not_measured", "one GPU alone: no byte went from GPU to GPU, so there is no bus bandwidth"
            )
        if not self.bounds[1]:
            return error("wrong_values", f"{self.bounds[0]} values are out of bounds")
        wrong = sum((row[side]["wrong"] or 0) for row in self.rows for side in ("out_of_place", "in_place"))
        if not wrong and self.is_too_low:
            return error("below_limit", f"{self.average} GB/s are less than NCCL_TESTS_MIN_BW asks for")
        return error("wrong_values", f"{wrong} wrong values") if wrong else None


def parse(text: str) -> dict[str, Any]:
    """Parse the output of one or several nccl-tests.

    Args:
        text: What rank 0 printed, or all ranks under srun -l or mpirun --tag-output.

    Returns:
        The common object; bandwidths in GB/s (10^9 bytes), `redop` None where the collective has none.

    Raises:
        NotThisTool: There is neither a banner nor a table of nccl-tests.
    """
    runs: list[_Run] = []
    problem: dict[str, str] | None = None
    collective: str | None = None
    lines = [_PREFIX.sub("", line) for line in split_lines(strip_ansi(text))]
    if _AVERAGE.match(lines[-1]) and not lines[-1].endswith(" "):
        # A blank, a line end and another line follow the average: this may be the half of a number.
        lines.pop()
    for line in lines:
        named = _COLLECTIVE.search(line[:400])
        if named:
            collective = named.group(1) or named.group(2)
        failure = _FAILURE.search(line[:400])
        if failure:
            problem = problem or error("tool_error", failure.group(0))
        if ended_by_signal(line):
            problem = problem or error("interrupted", line)
        if _BANNER.match(line) or (_COLUMNS.match(line) and not runs):
            runs.append(_Run())
            runs[-1].collective, collective = collective, None
        if runs:
            runs[-1].collective = runs[-1].collective or collective
            _read(runs[-1], line)
    if not runs:
        raise NotThisTool(f"no banner or table of nccl-tests; the text begins with {first_text(lines)}")
    for run in runs:
        problem = problem or run.problem()
    unchecked = any(run.rows and not run.checked for run in runs)
    warnings = ["the values were not checked (-c 0)"] if unchecked else []
    return result("nccl-tests", [run.output() for run in runs], problem, warnings)


def _read(run: _Run, line: str) -> None:
    rank = _RANK.match(line)
    if rank:
        run.ranks[int(rank.group(1)[:9])] = rank.group(2)
    elif _COLUMNS.match(line):
        run.header = line.split()
    bounds, average = _BOUNDS.match(line), _AVERAGE.match(line)
    if bounds:
        run.bounds = (to_int(bounds.group(1)), bounds.group(2) == "OK")
    if average:
        run.has_average, run.average = True, to_float(average.group(1))
        run.is_too_low = average.group(2) == "FAILED"
    if run.header and not line.startswith("#"):
        cells = line.split()
        row = _row(cells, run.header)
        if row:
            run.rows.append(row)
            sides = _sides(cells, run.header)[1]
            run.checked = run.checked or any(to_float(side[3]) is not None for side in sides)
