# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""iperf3's table for people (without `-J`): rates of three digits, the sums of the last block."""

from __future__ import annotations

import re
from typing import Any

from .. import common
from ..common import error, to_float, to_int

# Not only at the beginning of a line: before them there may be the rest of a truncated run.
_CLIENT = re.compile(r"Connecting to host .{1,200}, port [0-9]+")
_SERVER = re.compile(r"Accepted connection from .{1,200}, port [0-9]+")
_SERVER_COPY = re.compile(r"^Server output:\s*$")
_LISTENING = re.compile(r"^Server listening on [0-9]+")
_REVERSE = re.compile(r"^Reverse mode\b|remote host \S{1,100} is sending\s*$")
_DONE = re.compile(r"^iperf Done\.\s*$")
_VERSION = re.compile(r"^iperf (3\.[0-9A-Za-z.+-]*)\s*(?:\(|$)")
_STARTING = re.compile(r"^Starting Test: protocol: (\w{3,4}), ([0-9]{1,4}) streams?, ")
_CONNECTED = re.compile(r"^\[ *([0-9]+)\](?:\[[RT]X-[CS]\])? local \S+ port [0-9]+ connected to ")
_COLUMNS = re.compile(r"^\[ ID\](?:\[Role\])? Interval +Transfer +(?:Bitrate|Bandwidth)")
_CPU = re.compile(r"^CPU Utilization: local/\w+ ([0-9.]+)% .{0,60}, remote/\w+ ([0-9.]+)%")
_ROW = re.compile(
    r"^\[ *(SUM|[0-9]+)\](?:\[([RT]X)-[CS]\])? +([0-9.]+)- ?([0-9.]+) +sec +([0-9.]+) +([KMGTP]?)Bytes"
    r" +([0-9.]+) +([KMGT]?)(bits|Bytes)/sec(.{0,120})$"
)
_ROLE = re.compile(r"\b(sender|receiver)\s*$")
_LOSS = re.compile(r"^ +([0-9.]+) ms +(-?[0-9]+)/([0-9]+) +\((-?[0-9.e+-]+|-?nan)%\)")
# With -O, of an older server: how many of the datagrams that count were lost is not known.
_UNKNOWN_LOSS = re.compile(r"^ +([0-9.]+) ms +Unknown/([0-9]+)\b")
_RETRANSMITS = re.compile(r"^\s*([0-9]+)\s")
# Rates in bits have decimal prefixes, rates in bytes (`-f K|M|G|T`) binary ones: iperf3's units.c.
_DECIMAL = {"": 1e-9, "K": 1e-6, "M": 1e-3, "G": 1.0, "T": 1e3}
_BINARY = {prefix: 8 * 1024**power / 1e9 for power, prefix in enumerate(("", "K", "M", "G", "T", "P"))}
# Three digits of each number, and a hundredth of a second.
_FARTHEST_APART, _SHORTEST_S = 1.1, 0.2
_ROW_KEYS = (
    "sent_gbps",
    "received_gbps",
    "retransmits",
    "lost_packets",
    "packets",
    "lost_percent",
    "jitter_ms",
)


class _Row:
    """One line of a table."""

    def __init__(self, match: re.Match[str]) -> None:
        self.is_sum = match.group(1) == "SUM"
        self.way = match.group(2)
        self.seconds = (to_float(match.group(4)) or 0.0) - (to_float(match.group(3)) or 0.0)
        factor = (_DECIMAL if match.group(9) == "bits" else _BINARY)[match.group(8)]
        self.gbps = common.scaled(to_float(match.group(7)), factor, 12)
        self.moved_gbit = common.scaled(to_float(match.group(5)), _BINARY[match.group(6)], 12)
        self.rest = match.group(10)
        role = _ROLE.search(self.rest)
        self.role = role.group(1) if role else None
        self.loss = _LOSS.search(self.rest)
        self.unknown_loss = _UNKNOWN_LOSS.search(self.rest)

    def counts_losses(self) -> bool:
        """Return whether it has the losses that each UDP sum has."""
        return bool(self.loss or self.unknown_loss)

    def contradicts_itself(self) -> bool:
        """Return whether the rate does not match bytes and time: a unit or a digit is wrong."""
        if not self.gbps or not self.moved_gbit or self.seconds < _SHORTEST_S:
            return False
        ratio = self.moved_gbit / self.seconds / self.gbps
        return not 1 / _FARTHEST_APART <= ratio <= _FARTHEST_APART


class Run:
    """One run while it is read: a client's, or one that a server accepted."""

    def __init__(self, is_server: bool | None) -> None:
        """Begin a run; None means that its beginning is not in the text."""
        self.is_server = is_server
        self.reverse = False
        self.done = False
        self.bidirectional = False
        self.version: str | None = None
        self.protocol: str | None = None
        self.streams: set[str] = set()
        self.is_glued = False
        self.stated_streams: int | None = None
        self.cpu: tuple[float | None, float | None] = (None, None)
        self.is_udp = False
        # Before 3.7 a UDP client's sum carries no role; it is the last line before "Sent N datagrams".
        self.last: list[_Row] = []
        self.summary: list[_Row] = []

    def read(self, line: str) -> None:
        """Take what one line says."""
        if row := _ROW.match(line):
            is_known = row.group(1) in self.streams or row.group(1) == "SUM" or self.is_server is None
            self.is_glued = self.is_glued or not is_known
            self._row(_Row(row))
            return
        # The end of a row whose beginning a message tore off.
        self.is_glued = self.is_glued or bool(_ROLE.search(line))
        self.reverse = self.reverse or bool(_REVERSE.search(line))
        if connected := _CONNECTED.match(line):
            # Behind a row it is another run's.
            self.is_glued = self.is_glued or bool(self.last or self.summary)
            self.streams.add(connected.group(1))
        starting, cpu = _STARTING.match(line), _CPU.match(line)
        if starting:
            self.protocol, self.stated_streams = starting.group(1), to_int(starting.group(2))
        if cpu:
            self.cpu = (to_float(cpu.group(1)), to_float(cpu.group(2)))
        if _COLUMNS.match(line):
            self.is_udp = self.is_udp or "Datagrams" in line
            self.last = []

    def _row(self, row: _Row) -> None:
        self.bidirectional = self.bidirectional or row.way is not None
        self.is_udp = self.is_udp or row.loss is not None or row.unknown_loss is not None
        if "(omitted)" in row.rest:
            return
        if row.role:
            self.summary.append(row)
        else:
            self.last.append(row)

    def _rows(self, way: str | None) -> list[_Row]:
        """Return the sums of one direction: those over all streams where there are any."""
        rows = self.summary
        excerpt = self.is_server is None and len(self.last) == 1
        if not rows and ((self.is_udp and self.done) or excerpt):
            rows = self.last
        rows = [row for row in rows if row.way == way]
        return [row for row in rows if row.is_sum] or rows

    def _says_twice(self, way: str | None) -> bool:
        roles = [row.role for row in self._rows(way) if row.role]
        return len(roles) > len(set(roles))

    def _direction(self, reverse: bool | None, rows: list[_Row]) -> dict[str, Any]:
        found: dict[str, Any] = {"direction": None}
        found.update(dict.fromkeys(_ROW_KEYS))
        if reverse is not None:
            found["direction"] = "reverse" if reverse else "forward"
        for row in rows:
            half = "received" if row.role == "receiver" else "sent"
            own = ("sent" if bool(self.is_server) == bool(reverse) else "received") == half
            # Zeros mean that the other end's result never came; only UDP can really lose every byte.
            known = own or row.gbps or (self.is_udp and not self.is_server)
            found[half + "_gbps"] = row.gbps if known else None
            retransmits = _RETRANSMITS.match(row.rest)
            if half == "sent" and retransmits and not row.loss:
                found["retransmits"] = to_int(retransmits.group(1))
            if row.loss and (half == "received" or row.role is None):
                found["jitter_ms"] = to_float(row.loss.group(1))
                found["lost_packets"], found["packets"] = to_int(row.loss.group(2)), to_int(row.loss.group(3))
                found["lost_percent"] = to_float(row.loss.group(4))
            elif row.unknown_loss and half == "received":
                found["jitter_ms"] = to_float(row.unknown_loss.group(1))
                found["packets"] = to_int(row.unknown_loss.group(2))
        return found

    def _directions(self) -> list[dict[str, Any]]:
        if self.bidirectional:
            # What the client sends goes forward, whichever end prints it.
            ways = ("RX", "TX") if self.is_server else ("TX", "RX")
            return [
                self._direction(at == 1, self._rows(way)) for at, way in enumerate(ways) if self._rows(way)
            ]
        alone = self._rows(None)
        if not alone:
            return []
        reverse: bool | None = self.reverse
        if self.is_server:
            # A server does not get it; what it has sent shows it.
            reverse = any(row.role == "sender" and row.gbps for row in alone)
        elif self.is_server is None:
            reverse = None
        return [self._direction(reverse, alone)]

    def output(self) -> dict[str, Any]:
        """Return what `iperf3.parse` gives for a run."""
        rows = self._rows("TX" if self.bidirectional else None)
        streams = len(self.streams) // 2 if self.bidirectional else len(self.streams)
        protocol = self.protocol or ("UDP" if self.is_udp else "TCP" if self.summary or self.last else None)
        return {
            "version": self.version,
            "protocol": protocol,
            "streams": self.stated_streams or streams or None,
            "duration_s": round(rows[0].seconds, 6) if rows else None,
            "directions": self._directions(),
            "cpu_host_percent": self.cpu[0],
            "cpu_remote_percent": self.cpu[1],
        }

    def problem(self, output: dict[str, Any]) -> tuple[dict[str, str] | None, str | None]:
        """Return (error, warning); a warning alone means that this end cannot know the result."""
        if self.is_server is None:
            return error("truncated", "the beginning of the run is missing"), None
        if not output["directions"]:
            return error("truncated", "the sums at the end are missing"), None
        if not self.done and not self.is_server:
            return error("truncated", "'iperf Done.' is missing behind the sums: they may not be all"), None
        if self.is_glued:
            return error("garbled", "rows and streams are not of one run"), None
        if any(row.contradicts_itself() for row in self.summary or self.last):
            return error("inconsistent", "a rate is not that of its bytes in its time"), None
        streams = {row.way for row in self.summary if row.is_sum}
        if (output["streams"] or 1) > 1 and self.summary and not streams:
            return error("truncated", "the sums over the streams are missing"), None
        if any(self._says_twice(way) for way in ("TX", "RX", None)):
            return error("garbled", "a direction has two sums of one end"), None
        if self.is_udp and any(row.role == "receiver" and not row.counts_losses() for row in self.summary):
            return error("garbled", "a receiver's sum states no losses"), None
        if self.bidirectional and len(output["directions"]) < 2:
            return error("truncated", "the sums of one direction are missing"), None
        for row in output["directions"]:
            where = f"the {row['direction']} direction"
            if self.is_server and row["direction"] == "reverse":
                if not row["sent_gbps"]:
                    return error("no_data", f"{where}: nothing was sent"), None
                return None, f"{where}: a sending server does not learn what was received"
            old_udp = self.is_udp and not self.summary
            if row["received_gbps"] is None and not old_udp:
                return error("incomplete", f"{where} has no rate"), None
            if not (row["sent_gbps"] if old_udp else row["received_gbps"]):
                return error("no_data", f"{where}: nothing was received"), None
        return None, None


def read(lines: list[str]) -> tuple[list[Run], list[str]]:
    """Find the runs in the table.

    Args:
        lines: The text's lines without terminal escapes.

    Returns:
        One run per connection (none when the text has neither a beginning nor sums of iperf3), and the other
        lines, with messages and signals. The message of a server that is stopped while it waits for its next
        client is left out.
    """
    runs: list[Run] = []
    others: list[str] = []
    current: Run | None = None
    client: Run | None = None
    idle = served = False
    version = None
    for line in lines:
        line = line.rstrip()
        stated = _VERSION.match(line)
        version = stated.group(1) if stated else version
        served = served or bool(current and current.is_server and current.summary)
        if _CLIENT.search(line) or _SERVER.search(line) or _SERVER_COPY.match(line):
            current = Run(not _CLIENT.search(line))
            client = client if current.is_server else current
            current.version = version
            runs.append(current)
            idle = False
        elif _LISTENING.match(line):
            # A server that listens again has ended the run before.
            idle = served
        elif _DONE.match(line):
            if client is not None:
                client.done = True
        else:
            row = _ROW.match(line)
            if current is None and (_COLUMNS.match(line) or (row and _ROLE.search(row.group(10)))):
                current = client = Run(None)
                runs.append(current)
            if current is not None:
                current.read(line)
            if row is None and not idle:
                others.append(line)
    # A connection that was accepted and never used, and the beginning of a copy of the server's output.
    return [run for run in runs if run.streams or run.summary or run.last or not run.is_server], others
