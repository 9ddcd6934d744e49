# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""perftest's text: header of `key : value` pairs, column line, rows, end line; also two sides mixed."""

from __future__ import annotations

import collections
import re
from typing import Any

from .. import common
from . import run as perftest_run

# 87 dashes as printed; people shorten them when they paste.
_LINE = re.compile(r"^\s*-{8,}\s*$")
_BANNER = re.compile(r"\* Waiting for client to connect")
# A shell's line with the program that it starts.
_COMMAND = re.compile(
    r"(?:[#$>%] ?|^)(?:sudo |numactl \S{1,40} |taskset \S{1,20} \S{1,20} )?"
    r"(?:[\w./-]{0,80}/)?(?:ib_(?:send|write|read|atomic)|raw_ethernet)_(?:bw|lat)(?: |$)"
)
# The keys of the header's second column: a page may have squeezed the blanks before them to one.
_SECOND = r"(?:Device|Transport type|Using SRQ|Lock-free|Using Enhanced Reorder|TOS)\s*:"
_PAIR = re.compile(
    rf"(?:^|\t| {{2,}}| (?={_SECOND}))\s*([A-Za-z][\w.*/ -]{{0,30}}?)\s*: +([^\t]*?)"
    rf"(?=\t|\s{{2,}}\S|\s{_SECOND}|\s*$)"
)
# Blanks by the hundred would take that pattern seconds a line.
_GAP = re.compile(r"[ \t]{3,}")
_GPU_NAME = re.compile(
    r"device name = \[([^\]]{1,80})\]|Using ROCm Device with ID: [0-9]{1,4}, Name: ([^,]{1,80}),"
)
_GPU_MAKER = re.compile(r"^\s*initializing (CUDA|MUSA|MLU)\b", re.I)
_GPU_NUMBER = re.compile(r"Picking (?:device No\.|GPU number) ([0-9]{1,4})")
_COLUMN = re.compile(
    r"#bytes|#sl|#iterations|BW peak\[[^\]]*\]|BW average\[[^\]]*\]|MsgRate\[Mpps\]"
    r"|t_(?:min|max|typical|avg|stdev)\[\w+\]|99(?:\.9)?% percentile\[\w+\]|tps average|CPU_Util\[%{1,2}\]"
)
# Allowed lines between the last row and the end line of the table: counters of -W, the kernel's log, warnings
# of standard error, the result of --data_validation.
_NOISE = re.compile(
    r"^\s*[\w./]{1,80}=[0-9]+\s*$|^\[ *[0-9]+\.[0-9]{6}\] |"
    r"Conflicting CPU frequency|\b(?:[Ww]arning|WARNING)\b|^VALIDATION: PASSED\b"
)
# Only a server prints it, after its header.
_CM_SERVER = re.compile(r"Waiting for client rdma_cm QP to connect")
# Messages of standard error follow the last number without a blank (`0.000516Error: BW result is below`).
_ROW = re.compile(
    r"^\s*([0-9]+\s+[0-9]+(?:\s+(?:-?[0-9]+(?:\.[0-9]*)?(?:[eE][-+]?[0-9]+)?|-?nan|-?inf|N/A)){1,16})"
    r"\s*(?:$|(?:Error|ERROR|Conflicting|WARNING|Warning|Completion|Failed|Couldn't|Unable)\b)"
)
# Lines that begin like a row: joined columns, decimal commas, parts of a row that standard error interrupts.
# Clocks, dates and the samples of -H and -U (`1, 1321.43`) are not rows.
_LIKE_A_ROW = re.compile(r"^\s*\.?[0-9]+(?![0-9:,-])")
# --report-both: the sum of both directions comes first, then each one under a separate title.
_PART_TITLE = re.compile(r"^\s*(?:Local|Remote) results:\s*$")
_UNITS = {"MB/sec": "MiB/s", "MiB/sec": "MiB/s", "Gb/sec": "Gbit/s", "usec": "us"}
_FIELDS = {
    "#bytes": "message_bytes",
    "#iterations": "iterations",
    "BW peak": "peak",
    "BW average": "average",
    "MsgRate": "message_rate_mpps",
    "CPU_Util": "cpu_percent",
    "t_min": "min_us",
    "t_max": "max_us",
    "t_typical": "typical_us",
    "t_avg": "average_us",
    "t_stdev": "stdev_us",
    "99% percentile": "p99_us",
    "99.9% percentile": "p999_us",
    "tps average": "transactions_per_s",
}

# What every header since 2012 has. The sending side also prints its TX depth.
_HEADER = {"number of qps", "connection type", "mtu", "link type", "data ex. method"}

# 1000.00: four integers in a row are no coincidence among times that large.
_LONGEST_WHOLE_US = len("999.00")


def _narrow(gap: re.Match[str]) -> str:
    return "\t" if "\t" in gap.group() else "  "


def _are_cycles(cells: dict[str, str]) -> bool:
    times = [cells.get(name, "") for name in ("t_min", "t_max", "t_typical", "99% percentile")]
    return all(one.endswith(".00") and len(one) > _LONGEST_WHOLE_US for one in times)


class _Run:
    """One side of one test while it is read."""

    def __init__(self, title: dict[str, Any] | None) -> None:
        self.title = title or {}
        self.values: dict[str, str] = {}
        self.columns: list[str] | None = None
        self.odd_columns = self.more_columns = False
        self.rows: list[list[str]] = []
        self.sizes: set[str] = set()
        self.closed = False
        self.server = False
        self.gpu: str | None = None
        # That of the other side, with which it is mixed; whether it began before the end of the one before.
        self.mate: _Run | None = None
        self.is_inside = False

    def is_mixed_up(self) -> bool:
        """Return whether the run that it is mixed with is of the same side: both clients, or both servers."""
        if self.mate is None or self.title.get("bidirectional"):
            return False
        return ("tx depth" in self.values) == ("tx depth" in self.mate.values)

    def output(self, whole_file_has_banner: bool) -> dict[str, Any]:
        output: dict[str, Any] = dict.fromkeys(perftest_run.OUTPUT_KEYS)
        output.update(self.title)
        perftest_run.apply_parameters(output, self.values)
        output["gpu"] = self.gpu
        # A server prints its TX depth only when it sends, too.
        if self.server and ("tx depth" not in self.values or output["bidirectional"]):
            output["role"] = "server"
        elif self.title and "tx depth" in self.values:
            output["role"] = "client"
        elif self.title and self.values and (whole_file_has_banner or self.values.keys() >= _HEADER):
            output["role"] = "server"
        names = [re.sub(r"\[.*", "", column) for column in self.columns or []]
        units = [column.partition("[")[2].rstrip("]") for column in self.columns or []]
        measured = [unit for unit in units if unit and unit != "Mpps"]
        output["reported_unit"] = _UNITS.get(measured[0]) if measured else None
        if output["kind"] is None and names:
            output["kind"] = "bandwidth" if "BW average" in names else "latency"
        output["rows"] = []
        for row in self.rows:
            # In a row that lost or gained a number it is unknown which one: the row is ignored.
            fits = len(row) > len(names) if self.more_columns else len(row) == len(names)
            whole = [] if self.odd_columns else row if fits else row[:2]
            output["rows"].append(self._row(output, dict(zip(names, whole))))  # noqa: B905 - 3.9
        return output

    @staticmethod
    def _row(output: dict[str, Any], cells: dict[str, str]) -> dict[str, Any]:
        seen = {_FIELDS[name]: cell for name, cell in cells.items() if name in _FIELDS}
        # With -C the columns are CPU cycles, not times. Some versions print "usec" above them: then all
        # numbers are large integers.
        if output["reported_unit"] != "us" or _are_cycles(cells):
            seen = {name: cell for name, cell in seen.items() if name not in perftest_run.LATENCY_KEYS}
        return perftest_run.row(output, seen)


class _Reader:
    """Distributes lines to runs; two sides that print into one file may be mixed line by line."""

    def __init__(self) -> None:
        self.runs: list[_Run] = []
        self.open: list[_Run] = []
        self.unclosed: collections.deque[_Run] = collections.deque()
        self.banner = False
        self.any_banner = False
        self.after_row = False
        self.in_parts = False
        self.gpu: str | None = None
        self.gpu_maker = "CUDA"
        # For a header whose beginning is not in the text.
        self.headless: dict[str, str] = {}
        self.line_number = 0
        self.unread: dict[str, str] | None = None

    def begin(self, title: dict[str, Any] | None) -> _Run:
        run = _Run(title)
        if title is None and not self.runs and "link type" in self.headless:
            run.values = self.headless
        self.headless = {}
        self.in_parts = False
        # A title before the previous run has its columns: the other side has begun to print too.
        mixed = len(self.open) == 1 and self.open[0].columns is None and title is not None
        # A closed header without columns is the complete output of a READ or ATOMIC server.
        # Both sides run the same test.
        mixed = mixed and title is not None and title.get("test") == self.open[-1].title.get("test")
        if mixed and self.open[-1].closed and perftest_run.is_one_sided(self.open[-1].title.get("test")):
            mixed = False
        self.open = [*self.open, run] if mixed else [run]
        # In mixed output it is unknown whose the banner is; the TX depth identifies the client.
        run.server = self.banner and not mixed
        if mixed:
            self.open[0].server = False
            run.mate = self.open[0]
        else:
            run.is_inside = bool(self.unclosed)
        self.banner = False
        run.gpu, self.gpu = self.gpu, None
        self.runs.append(run)
        return run

    def read(self, line: str, next_line: str) -> None:
        self.line_number += 1
        row = _ROW.match(line)
        # It is far indented; before it there may be the rest of a truncated run.
        title = perftest_run.read_title(line.rpartition(" " * 8)[2].strip())
        if _BANNER.search(line):
            self.banner = self.any_banner = True
        elif _CM_SERVER.search(line[:400]):
            if self.open:
                self.open[-1].server = True
        elif _COMMAND.search(line[:400]):
            # The next program's command: a server that waited above it has printed nothing but its banner.
            self.banner = False
        elif _LINE.match(line):
            # The line above a title opens that table; one after a row ends the row's table.
            if perftest_run.read_title(next_line) is None:
                self._close()
            return
        elif not row and _LIKE_A_ROW.match(line) and any(one.columns and not one.closed for one in self.open):
            where = f"line {self.line_number}, {line.strip()[:60]!a}"
            wrong = common.error("garbled", f"{where}: a line that begins like a row was not read")
            self.unread = self.unread or wrong
            return
        elif not line.strip() or (self.after_row and not row and _NOISE.search(line[:400])):
            return
        elif _PART_TITLE.match(line) and self.open:
            self.open = []
            self.in_parts = True
        elif title is not None:
            self.begin(title)
        elif "#bytes" in line and "#iterations" in line:
            self._columns(line)
        elif row and any(run.columns for run in self.open):
            self._row(row.group(1).split())
            return
        else:
            self._header(line)
        self.after_row = False

    def _close(self) -> None:
        if self.after_row and self.unclosed:
            run = self.unclosed.pop() if self.unclosed[-1].is_inside else self.unclosed.popleft()
            run.closed = True
            return
        if self.open and not self.after_row and "remote address" in self.open[-1].values:
            # A side without rows ends after the addresses.
            self.open[-1].closed = self.open[-1].closed or self.open[-1].columns is None

    def _columns(self, line: str) -> None:
        if self.in_parts and not self.open:
            return
        if self.open and self.open[-1].columns and not self.open[-1].rows:
            # -H and -U print the samples below the columns, and the columns once more above the row.
            self.open[-1].columns = None
        run = next((one for one in self.open if one.columns is None), None)
        if run is None:
            # A further table under the same header, as --report-both prints, or a header that was cut away.
            last = self.open[-1] if self.open else None
            run = self.begin(dict(last.title) if last else None)
            self.open = [run]
            if last:
                run.values, run.server, run.gpu = dict(last.values), last.server, last.gpu
        run.columns = _COLUMN.findall(line)
        # A version may add columns after the last one; columns before it would move the numbers.
        between = [bool(part.strip()) for part in _COLUMN.split(line)[1:]]
        run.odd_columns, run.more_columns = any(between[:-1]), between[-1]
        run.closed = False

    def _row(self, cells: list[str]) -> None:
        ready = [run for run in self.open if run.columns]
        fresh = [run for run in ready if cells[0] not in run.sizes]
        # A repeated size is of the other side or, in the output of one side, its next report.
        run = (fresh or ready)[0]
        if run.is_inside and (run.closed or cells[0] in run.sizes):
            seen = f"line {self.line_number}, {' '.join(cells)[:60]!a}: a row of the run before, or of none"
            self.unread = self.unread or common.error("garbled", seen)
        if not run.rows:
            self.unclosed.append(run)
        run.rows.append(cells)
        run.sizes.add(cells[0])
        self.after_row = True

    def _header(self, line: str) -> None:
        self._gpu(line[:400])
        if not self.open and self.runs:
            return
        if line.strip().startswith("remote address:") and self.open:
            self.open[-1].values.setdefault("remote address", "")
            return
        for match in _PAIR.finditer(_GAP.sub(_narrow, line[:400])):
            key = match.group(1).strip().replace("_", " ").lower()
            run = next((one for one in self.open if key not in one.values), None)
            if run is not None and run.columns is None:
                run.values[key] = match.group(2).strip()
            elif not self.runs:
                self.headless[key] = match.group(2).strip()

    def _gpu(self, line: str) -> None:
        maker, name, number = _GPU_MAKER.match(line), _GPU_NAME.search(line), _GPU_NUMBER.search(line)
        if maker:
            self.gpu_maker = maker.group(1).upper()
        elif name:
            self.gpu = name.group(1) or name.group(2)
        elif number:
            self.gpu = f"{self.gpu_maker} device {number.group(1)}"


def read(lines: list[str]) -> tuple[list[tuple[dict[str, Any], bool]], dict[str, str] | None]:
    """Read all runs in the text.

    Args:
        lines: What perftest printed, without terminal escapes.

    Returns:
        (output, whether its end is in the text) per run and side, of mixed sides the client first; and the
        error of the first line that should be a row and is none.
    """
    reader = _Reader()
    following = [*lines[1:], ""]
    upcoming = ""
    ahead = []
    for line in reversed(following):
        upcoming = line.strip() or upcoming
        ahead.append(upcoming)
    for line, next_line in zip(lines, reversed(ahead)):  # noqa: B905 - 3.9
        reader.read(line, next_line)
    if any(run.is_mixed_up() for run in reader.runs):
        seen = "two runs of one side are mixed: it is unknown whose row is whose"
        reader.unread = reader.unread or common.error("garbled", seen)
    return [(run.output(reader.any_banner), run.closed) for run in reader.runs], reader.unread
