# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nccl-tests and rccl-tests: the columns depend on version, collective and options; the header shows them."""

from __future__ import annotations

import re
from typing import Any

from .. import common
from ..common import error, to_float, to_int
from . import nccl_tests_json

# `srun -l` writes "0: " before each line, `mpirun --tag-output` "[1,0]<stdout>:".
_PREFIX = re.compile(r"^(?:\[[0-9]+,[0-9]+\]<std(?:out|err)>: ?|[0-9]{1,5}: )")
# Up to 2018 the banner and the lines behind the table have no "#"; in HPC-X's build no line has.
_BANNER = re.compile(r"n[Tt]hread[s]? [0-9]+ .*\bminBytes [0-9]+")
# The list of ranks; a capture may lack what is above it.
_LIST = re.compile(r"^#?\s*Using devices\s*$")
_RANK = re.compile(r"^#?\s+Rank\s+([0-9]+)\b.*? on\s+(\S+) device")
_NAMES = "all_reduce|all_gather|reduce_scatter|alltoallv?|broadcast|reduce|gather|scatter|sendrecv|hypercube"
_COLLECTIVE = re.compile(rf"\b({_NAMES})_perf\b|^# Collective test (?:starting|concluded): (\w+)_perf")
_COLUMNS = re.compile(r"^#?\s*(?:size\s+count|bytes\s+N)\s.*\b(?:cpu)?time\s+algbw\s+busbw\b")
_CAPTION = re.compile(r"^#?\s*(?:out-of-place|in-place)")
_BOUNDS = re.compile(r"^#? ?Out of bounds values +: ([0-9.e+]+) (OK|FAILED)")
_AVERAGE = re.compile(r"^#? ?Avg bus bandwidth +: ([0-9.e+-]+|nan|inf)(?:\s+(?:(OK|FAILED)\b)?|$)")
_LAST_ERROR = re.compile(r"^# error: (\S.{0,300})")
_FAILURE = re.compile(r"Test (?:NCCL|CUDA) failure .*|(?:NCCL|CUDA|Cuda) failure .*|Test timeout .*|"
                      r"Test failure .*|unhandled (?:system|cuda) error.*|"
                      r"Invalid number of GPUs: .*")  # fmt: skip
_TYPE = re.compile(
    r"(?:u?int(?:8|32|64)|int|char|half|float(?:16|32|64)?|double|bfloat16|f8e[0-9]m[0-9]|fp8_e[0-9]m[0-9])\Z"
)
_TYPE_BYTES = {"char": 1, "half": 2, "int": 4, "float": 4, "double": 8}
_PART_OF_RANK = re.compile(r"^#?\s+Rank\s+[0-9]|\bPid\s+[0-9]+ on\s+\S+ device\s+[0-9]")
# A row, or a part of one that another process' message interrupts.
_LIKE_A_ROW = re.compile(r"^\s*\.?[0-9][0-9.]*(?:\s|$)")
_UNCHECKED = ("N/A", "nan", "-nan", "inf")
_TIMES = ("time", "cputime")
# A column of dates holds two words, day and clock.
_STAMP_CELLS = 2
# The out-of-place half where only the in-place half was run.
_BLANK_HALF = re.compile(r"\S {30,}\S")
# Rates are printed with two digits behind the point, above 1000 GB/s with four before it.
_HALF_DIGIT, _SHARE = 0.0051, 1e-4
_LEAST_OF_OTHER, _MOST_OF_OTHER = 0.45, 2.05


class _Layout:
    """The columns behind size, count, type, redop and root, as the header names them."""

    def __init__(self, header: str, caption: str) -> None:
        names = header.lstrip("# ").split()
        starts = [at for at, name in enumerate(names) if name in _TIMES]
        self.stamp = _STAMP_CELLS if names[-1] == "timestamp" else 0
        names = names[: len(names) - bool(self.stamp)]
        # Both or none of redop and root have a cell, whatever the header says.
        self.heads = (1, 1 + len({"redop", "op", "root"}.intersection(names)))
        self.halves = [names[at:end] for at, end in zip(starts, [*starts[1:], len(names)])]  # noqa: B905 - 3.9
        self.width = sum(map(len, self.halves))
        self.is_cpu_time = "cputime" in names
        # Of 2017 and 2018; their times are milliseconds.
        self.time_factor = 1000.0 if "bytes" in names else 1.0
        self.alone = "out_of_place" if "out-of-place" in caption and len(starts) == 1 else "in_place"

    def row(self, line: str) -> dict[str, Any] | None:
        """Read one row, or return None when the line is none."""
        cells = line.split()
        halves = self.halves
        if len(halves) > 1 and _BLANK_HALF.search(line.strip()):
            halves = halves[1:]
        width = sum(map(len, halves)) + self.stamp
        if len(cells) < 3 + width or to_int(cells[0]) is None or to_int(cells[1]) is None:
            return None
        head, tail = cells[2 : len(cells) - width], cells[len(cells) - width :]
        # After the type come redop, root, both or none; a root is a number.
        if len(head) not in self.heads or not _TYPE.match(head[0]):
            return None
        sides = []
        for names in halves:
            sides.append(self._side(dict(zip(names, tail))))  # noqa: B905 - 3.9
            tail = tail[len(names) :]
        if None in sides:
            return None
        words = [cell for cell in head[1:] if to_int(cell) is None]
        both = dict(zip(("out_of_place", "in_place"), sides))  # noqa: B905 - 3.9
        return {
            "bytes": to_int(cells[0]),
            "count": to_int(cells[1]),
            "dtype": head[0],
            "redop": words[0] if words and words[0] != "none" else None,
            "out_of_place": None,
            "in_place": None,
            **(both if len(sides) > 1 else {self.alone: sides[0]}),
        }

    def _side(self, cells: dict[str, str]) -> dict[str, Any] | None:
        time = cells.get("time", cells.get("cputime"))
        side: dict[str, Any] = {
            "time_us": common.scaled(to_float(time), self.time_factor, 6),
            "algbw_GBps": to_float(cells.get("algbw")),
            "busbw_GBps": to_float(cells.get("busbw")),
        }
        if None in side.values() or min(side.values()) < 0 or not side["time_us"]:
            return None
        if any(to_float(cell) is None and cell not in _UNCHECKED for cell in cells.values()):
            return None
        # N/A was not checked; up to 2.11 the column is the largest difference, which is no count.
        side["wrong"] = to_int(cells.get("#wrong"))
        return side


class _Run:
    """One test while it is read."""

    def __init__(self) -> None:
        self.collective: str | None = None
        self.ranks: dict[int, str] = {}
        self.has_torn_rank = False
        self.layout: _Layout | None = None
        self.caption = ""
        self.broken: str | None = None
        self.warnings: list[str] = []
        self.rows: list[dict[str, Any]] = []
        self.bounds: tuple[int | None, bool] | None = None
        self.average: float | None = None
        self.has_average = False
        self.is_too_low = False
        self.checked = False

    def is_past(self, line: str) -> bool:
        """Return whether this test's line of this type was read, so that another test begins."""
        return bool(self.has_average if _RANK.match(line) else self.layout)

    def output(self) -> dict[str, Any]:
        return {
            "collective": self.collective,
            "gpus": len(self.ranks) if self.knows_all() else None,
            "nodes": len(set(self.ranks.values())) if self.knows_all() else None,
            "rows": self.rows,
            "average_busbw_GBps": self.average,
            # Without validation the tool prints "0 OK" too.
            "out_of_bounds": self.bounds[0] if self.bounds and self.checked else None,
        }

    def knows_all(self) -> bool:
        """Return whether the list of ranks is complete, with none truncated or missing."""
        return bool(self.ranks) and max(self.ranks) == len(self.ranks) - 1 and not self.has_torn_rank

    def problem(self) -> dict[str, str] | None:
        if not self.rows:
            return error("truncated", "there is no result row")
        if self.broken:
            return error("garbled", f"{self.broken}: this is no complete row of the table")
        if not self.has_average or self.bounds is None:
            return error("truncated", "the lines behind the table are missing")
        if len(self.ranks) == 1 or self.average == 0:
            return error("not_measured", nccl_tests_json.ONE_GPU)
        if not self.bounds[1]:
            return error("wrong_values", f"{self.bounds[0]} values are out of bounds")
        wrong = sum(side["wrong"] or 0 for side in nccl_tests_json.sides(self.rows))
        if not wrong and self.is_too_low:
            return nccl_tests_json.below_limit(self.average)
        if wrong:
            return error("wrong_values", f"{wrong} wrong values")
        return self._check_sizes() or self._check_ratio() or self._check_average()

    def _check_sizes(self) -> dict[str, str] | None:
        """Return an error if a size lost digits: in all rows it is the elements of one rank, or of all."""
        shares = set()
        for row in self.rows:
            bits = re.search("8|16|32|64", row["dtype"])
            each = row["count"] * (int(bits.group()) // 8 if bits else _TYPE_BYTES[row["dtype"]])
            if each == row["bytes"] == 0:
                continue
            shares.add(row["bytes"] // each if each else 0)
            if len(shares) > 1 or not each or row["bytes"] % each or row["bytes"] < each:
                reported = f"{row['bytes']} bytes are not {row['count']} elements of {row['dtype']}"
                return error("inconsistent", f"{reported}, or not of as many ranks as in the rows before")
        return None

    def _check_ratio(self) -> dict[str, str] | None:
        """Return an error if columns are swapped or a digit is lost: the rates differ by at most 2 times."""
        for row in self.rows:
            for side in nccl_tests_json.sides([row]):
                other, bus, time_us = side["algbw_GBps"], side["busbw_GBps"], side["time_us"]
                if other >= 1 and bus and not _LEAST_OF_OTHER <= bus / other <= _MOST_OF_OTHER:
                    return error("inconsistent", f"{bus:g} GB/s on the bus do not follow from {other:g} GB/s")
                # The CPU's time (-C 1) is not that of the rate; of alltoallv the slowest rank has its own.
                wall = not (self.layout and self.layout.is_cpu_time) and self.collective != "alltoallv"
                rate = row["bytes"] / time_us / 1e3
                slow, fast = sorted((rate, other))
                if wall and fast >= 1 and fast > slow * _MOST_OF_OTHER:
                    reported = f"{row['bytes']} bytes in {time_us:g} us are not {other:g} GB/s"
                    return error("inconsistent", reported)
        return None

    def _check_average(self) -> dict[str, str] | None:
        """Return an error if rows are missing: the average must be that of all bus bandwidths."""
        rates = [side["busbw_GBps"] for side in nccl_tests_json.sides(self.rows)]
        mean = sum(rates) / len(rates)
        if self.average is None or abs(self.average - mean) <= _HALF_DIGIT + _SHARE * mean:
            return None
        return error(
            "inconsistent", f"an average of {self.average:g} is stated, that of the rows is {mean:g}"
        )


def parse(text: str) -> dict[str, Any]:
    """Parse the output of one or several nccl-tests.

    Args:
        text: What rank 0 printed, or all ranks under srun -l or mpirun --tag-output.

    Returns:
        The common object; bandwidths in GB/s (10^9 bytes), `redop` None where the collective has none.

    Raises:
        NotThisTool: There is neither a banner nor a table of nccl-tests.
    """
    found = nccl_tests_json.parse(text)
    if found is not None:
        if any(map(_COLUMNS.match, common.split_lines(text))):
            found["warnings"].append(common.not_read("a table"))
        return found
    runs: list[_Run] = []
    problem: dict[str, str] | None = None
    collective: str | None = None
    lines = [_PREFIX.sub("", line) for line in common.split_lines(text)]
    if _AVERAGE.match(lines[-1]) and not lines[-1].endswith(" "):
        # A blank, a line end and another line follow the average: this may be the half of a number.
        lines.pop()
    for number, line in enumerate(lines, 1):
        if named := _COLLECTIVE.search(line[:400]):
            name = named.group(1) or named.group(2)
            # After a table comes the command of the next one.
            if runs and (runs[-1].layout is None or "concluded" in line):
                runs[-1].collective = runs[-1].collective or name
            else:
                collective = name
        if failure := _FAILURE.search(line[:400]):
            problem = problem or error("tool_error", failure.group(0))
        if common.ended_by_signal(line):
            problem = problem or error("interrupted", line)
        is_head = _COLUMNS.match(line) or _LIST.match(line) or _RANK.match(line)
        if _BANNER.search(line[:400]) or (is_head and (not runs or runs[-1].is_past(line))):
            runs.append(_Run())
            runs[-1].collective, collective = collective, None
        if runs:
            _read(runs[-1], line, number)
    if not runs:
        raise common.refusal("no banner or table of nccl-tests", lines)
    for run in runs:
        problem = problem or run.problem()
    unchecked = any(run.rows and not run.checked for run in runs)
    warnings = ["the values were not checked (-c 0)"] if unchecked else []
    warnings += [reported for run in runs for reported in run.warnings]
    return common.result("nccl-tests", [run.output() for run in runs], problem, warnings)


def _read(run: _Run, line: str, number: int) -> None:
    if rank := _RANK.match(line):
        name = run.ranks.setdefault(int(rank.group(1)[:9]), rank.group(2))
        run.has_torn_rank = run.has_torn_rank or name != rank.group(2)
    elif _PART_OF_RANK.search(line[:400]):
        run.has_torn_rank = True
    elif _COLUMNS.match(line):
        run.layout = _Layout(line, run.caption)
        if run.layout.is_cpu_time:
            run.warnings.append("the times are those of the CPU (-C 1)")
    elif _CAPTION.match(line):
        run.caption = line
    bounds, average, reported = _BOUNDS.match(line), _AVERAGE.match(line), _LAST_ERROR.match(line)
    if reported:
        run.warnings.append(reported.group(1))
    if bounds:
        run.bounds = (to_int(bounds.group(1)), bounds.group(2) == "OK")
    row = run.layout.row(line) if run.layout and not line.startswith("#") else None
    is_torn = row is None and run.layout and not run.has_average and _LIKE_A_ROW.match(line)
    if is_torn or (run.has_average and (row or average)):
        run.broken = run.broken or f"line {number}, {line.strip()[:60]!a}"
    elif row:
        run.rows.append(row)
        # A half of a row has a result of the check, be it a number or the older largest difference. What
        # alltoall and sendrecv do in place is never checked.
        run.checked = run.checked or line.split().count("N/A") < len(nccl_tests_json.sides([row]))
    if average:
        run.has_average, run.average = True, to_float(average.group(1))
        run.is_too_low = average.group(2) == "FAILED"
