# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""nvbandwidth's text (0.2 to 0.10), which people paste: a matrix per test, closed by a line with its sum."""

from __future__ import annotations

import re
from typing import Any

from .. import common
from ..common import error, to_float

_VERSION = re.compile(r"nvbandwidth Version: (\S{1,40})\s*\Z")
_DRIVER = re.compile(r"Driver Version: (\S{1,40})\s*\Z")
# On several nodes a process has a GPU, and the columns are processes.
_GPU = re.compile(
    r"(?:Device ([0-9]{1,4}): |Process +([0-9]{1,4}) \([^)]{1,255}\): device [0-9]{1,3}: )"
    r"(.{1,120}?)(?: \(([0-9a-f]{1,8}):([0-9a-f]{1,2}):([0-9a-f]{1,2})\))?\s*\Z"
)
_RUNNING = re.compile(r"(?:> ?)?Running (\w{1,100})\.?\s*\Z")
# Without other marks a line is a test of nvbandwidth only if its name is one of these.
_TEST = re.compile(r"(?:> ?)?Running \w{1,100}_(?:ce|sm|tma|copy)\.?\s*\Z")
_DESCRIPTION = re.compile(r"mem\S{1,10} .{0,200}\((GB/s|ns)\)\s*\Z")
_SUM = re.compile(r"SUM (\w{1,120}) ([0-9.]{1,30})\s*\Z")
# Up to 0.2 "Waiving NAME.", since then without a name.
_WAIVED = re.compile(r"Waiv(?:ed:|ing (\w{1,100})\.)")
_FAILED = re.compile(r"\[(?:CUDA|NVML|MPI)_\w{1,80}\]|ASSERT in expression |ERROR: |\[?Error\b")
# The pattern that was sent did not arrive.
_WRONG = ("Invalid value when checking the pattern", "h_errorFlag")
_NOTHING = "N/A"
PASSED, WAIVED, FAILED = "Passed", "Waived", "Error"
# Two digits are printed behind the point.
_HALF_DIGIT = 0.00501


class _Matrix:
    """A test's matrix while it is read."""

    def __init__(self, name: str | None, description: str) -> None:
        self.name = name
        self.description = description
        self.columns: int | None = None
        self.rows: list[list[float | None]] = []
        self.sum: float | None = None
        self.is_ended = False
        self.broken: str | None = None

    def read(self, line: str, number: int) -> None:
        cells = line.split()
        self.is_ended = self.is_ended or bool(self.rows and not cells)
        if self.is_ended or not cells:
            return
        if self.columns is None:
            self.columns = len(cells)
            return
        # Before 0.5 what was not copied is 0.00.
        row = [None if cell == _NOTHING else to_float(cell) or None for cell in cells[1:]]
        pairs = zip(cells[1:], row)  # noqa: B905 - nodes may have Python 3.9
        is_whole = len(row) == self.columns and all(
            seen is not None or cell == _NOTHING or to_float(cell) == 0 for cell, seen in pairs
        )
        if not is_whole or any(seen is not None and seen < 0 for seen in row):
            self.broken = self.broken or f"line {number}, {line.strip()[:60]!a}: this is no row of the matrix"
            return
        self.rows.append(row)

    def problem(self) -> dict[str, str] | None:
        """Return why the matrix is incomplete: its sum must be that of all cells."""
        if self.broken:
            return error("garbled", self.broken)
        if self.sum is None:
            return error(
                "truncated", f"{self.name or self.description}: the line SUM behind the matrix is missing"
            )
        cells = [cell for row in self.rows for cell in row if cell is not None]
        if not self.rows:
            return error("truncated", f"{self.name}: there is no row above its SUM")
        if abs(sum(cells) - self.sum) > _HALF_DIGIT * (len(cells) + 1):
            return error(
                "inconsistent", f"{self.name}: SUM is {self.sum:g}, that of the cells is {sum(cells):g}"
            )
        return None

    def test(self) -> dict[str, Any]:
        unit = _DESCRIPTION.match(self.description)
        return {
            "test": self.name,
            "status": PASSED if self.problem() is None else None,
            "description": self.description,
            "unit": unit.group(1) if unit else None,
            "matrix": self.rows or None,
        }


class _Run:
    """What one call of nvbandwidth printed, while it is read."""

    def __init__(self) -> None:
        self.version: str | None = None
        self.driver: str | None = None
        self.gpus: list[dict[str, Any]] = []
        self.tests: list[dict[str, Any]] = []
        self.problem: dict[str, str] | None = None
        # A test that was begun and has printed nothing yet.
        self.pending: str | None = None
        self.name: str | None = None
        self.matrix: _Matrix | None = None

    def read(self, line: str, number: int) -> None:
        version, driver, gpu = _VERSION.match(line), _DRIVER.match(line), _GPU.match(line)
        running, total, waived = _RUNNING.match(line), _SUM.match(line), _WAIVED.match(line)
        if version:
            self.version = version.group(1)
        elif driver:
            self.driver = driver.group(1)
        elif gpu:
            self._take_gpu(gpu)
        elif running:
            self.close()
            self.pending = self.name = running.group(1)
        elif _DESCRIPTION.match(line):
            self._end_matrix()
            self.matrix, self.pending = _Matrix(self.name, line.strip()), None
        elif total:
            self._take_sum(total.group(1), total.group(2))
        elif waived:
            self._end_matrix()
            self.tests.append(_without_matrix(waived.group(1) or self.pending, WAIVED))
            self.pending = None
        elif _FAILED.match(line) or any(word in line for word in _WRONG):
            self._fail(line)
        elif self.matrix is not None:
            self.matrix.read(line, number)

    def close(self) -> None:
        """End the test that was begun: it has a matrix, was waived, or printed nothing."""
        self._end_matrix()
        if self.pending:
            self.tests.append(_without_matrix(self.pending, None))
            self.problem = self.problem or error("truncated", f"{self.pending} has no result")
        self.pending = None

    def output(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "driver_version": self.driver,
            "gpus": self.gpus,
            "tests": self.tests,
        }

    def _take_gpu(self, gpu: re.Match[str]) -> None:
        domain, bus, device = gpu.group(4, 5, 6)
        pci = f"{int(domain, 16):04x}:{bus:0>2}:{device:0>2}.0" if domain else None
        self.gpus.append({"index": int(gpu.group(1) or gpu.group(2)), "name": gpu.group(3), "pci": pci})

    def _take_sum(self, name: str, total: str) -> None:
        if self.matrix is None:
            self.problem = self.problem or error("truncated", f"{name}: the matrix above its SUM is missing")
            self.pending = None
            return
        # In a bidirectional test each matrix has its own name, that of the test with a suffix.
        self.matrix.name, self.matrix.sum = name, to_float(total)
        self._end_matrix()

    def _end_matrix(self) -> None:
        if self.matrix is not None:
            self.problem = self.problem or self.matrix.problem()
            self.tests.append(self.matrix.test())
        self.matrix = None

    def _fail(self, line: str) -> None:
        is_wrong = any(word in line for word in _WRONG)
        if is_wrong or self.problem is None or self.problem["class"] != "wrong_values":
            self.problem = error("wrong_values" if is_wrong else "tool_error", line)
        if self.matrix is not None:
            self._end_matrix()
        elif self.pending:
            self.tests.append(_without_matrix(self.pending, FAILED))
            self.pending = None


def _without_matrix(name: str | None, status: str | None) -> dict[str, Any]:
    return {"test": name, "status": status, "description": None, "unit": None, "matrix": None}


def parse(text: str) -> dict[str, Any] | None:
    """Parse nvbandwidth's text.

    Args:
        text: what it printed without `-j`, or a part of it with a complete matrix.

    Returns:
        The common object, its outputs as those of the JSON; None where no line is nvbandwidth's.
    """
    runs: list[_Run] = []
    killed = False
    for number, line in enumerate(common.split_lines(text), 1):
        killed = killed or common.ended_by_signal(line)
        begins = _VERSION.match(line) or (not runs and (_TEST.match(line) or _DESCRIPTION.match(line)))
        if begins:
            if runs:
                runs[-1].close()
            runs.append(_Run())
        if runs:
            runs[-1].read(line, number)
    if not runs:
        return None
    runs[-1].close()
    problem = next((run.problem for run in runs if run.problem), None)
    if not all(run.tests for run in runs):
        problem = problem or error("truncated", "there is no result")
    if killed and (problem is None or problem["class"] in ("garbled", "truncated")):
        problem = error("interrupted", "nvbandwidth was ended from outside")
    return common.result("nvbandwidth", [run.output() for run in runs], problem)
