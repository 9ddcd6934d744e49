# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""iperf3: its JSON (`-J` of 3.0 to 3.21, `--json-stream`), with rates in bit/s, and its table for people."""

from __future__ import annotations

import re
from typing import Any

from .. import common, json_text
from ..common import error, to_float, to_int
from ..json_text import REPEATED, section
from . import text_form

_VERSION = re.compile(r"iperf ([0-9][0-9A-Za-z.+-]*)")
_OWN_LINE = re.compile(r"^iperf3: ")
# 3.0 and 3.1 report every late datagram in JSON under "error".
_OUT_OF_ORDER = re.compile(r"(?:iperf3: )?OUT OF ORDER - ")
_OWN_WARNING = re.compile(r"^iperf3: (?:\[?warning|OUT OF ORDER - )", re.I)
_CUT_MARK = re.compile(r'"start"\s*:|"event"\s*:\s*"(?:start|interval|end|error)"')
_KINDS = (
    ("interrupted", re.compile(r"interrupt|terminated", re.I)),
    ("connection_refused", re.compile(r"connection refused", re.I)),
    ("busy", re.compile(r"server is busy", re.I)),
    ("address_in_use", re.compile(r"address already in use|unable to start listener", re.I)),
    ("no_route", re.compile(r"no route to host|network is unreachable|host is unreachable", re.I)),
    ("timeout", re.compile(r"timed? ?out", re.I)),
    ("name_resolution", re.compile(r"name or service not known|name resolution|nodename nor servname", re.I)),
    ("bind", re.compile(r"cannot assign requested address|no such device", re.I)),
    ("peer_lost", re.compile(r"control socket|connection reset|broken pipe|server has terminated|"
                             r"unexpectedly|unable to receive", re.I)),
    ("usage", re.compile(r"parameter error|unrecognized option|invalid option|bogus|usage:", re.I)),
)  # fmt: skip
_PARTS = ("start", "intervals", "end", "error")
_OUTPUT_KEYS = (
    "version",
    "protocol",
    "streams",
    "duration_s",
    "directions",
    "cpu_host_percent",
    "cpu_remote_percent",
)
# The keys under which a stream states its bytes.
_HALVES = ("sender", "receiver", "udp")
_LOSSES = ("lost_packets", "packets", "lost_percent", "jitter_ms")
_PER_GIGA = 1e-9
# A complete run may be a little shorter than configured; one that lost a tenth of its time was interrupted.
_SHORTEST_SHARE = 0.9
# A rate must match its bytes and time; the oldest versions round the time.
_FARTHEST_APART = 1.1


def _classify(message: str) -> dict[str, str]:
    for kind, pattern in _KINDS:
        if pattern.search(message[:1000]):
            return error(kind, message)
    return error("tool_error", message)


def _join_stream(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Turn `--json-stream` events into the object that `-J` would have printed, one per run."""
    runs: list[dict[str, Any]] = []
    for item in events:
        name, data = item.get("event"), item.get("data")
        if name == "start" or not runs:
            runs.append({"intervals": []})
        if name == "interval":
            runs[-1]["intervals"].append(data)
        elif name in ("start", "end", "error") and isinstance(name, str):
            runs[-1][name] = data
    return runs


def _cookie(run: dict[str, Any]) -> str | None:
    cookie = section(run, "start").get("cookie")
    return cookie if isinstance(cookie, str) else None


def _bytes(sums: dict[str, Any]) -> float:
    return to_float(sums.get("bytes")) or 0.0


class _Run:
    """One JSON object of iperf3, read."""

    def __init__(self, data: dict[str, Any]) -> None:
        self.data = data
        self.start = section(data, "start")
        self.end = section(data, "end")
        self.test = section(self.start, "test_start")
        # The server knows only its half, and prints zeros for the client's half.
        self.is_server = "accepted_connection" in self.start
        self.warnings: list[str] = []

    def is_udp(self) -> bool:
        return self.test.get("protocol") == "UDP"

    def is_reverse(self) -> bool:
        return to_int(self.test.get("reverse")) == 1

    def is_bidirectional(self) -> bool:
        return to_int(self.test.get("bidir")) == 1 or any(key.endswith(REPEATED) for key in self.end)

    def own_end(self, reverse: bool) -> str:
        """Return the half of a direction that this end measured: `sent` or `received`."""
        return "sent" if self.is_server == reverse else "received"

    def direction(self, reverse: bool, suffix: str) -> dict[str, Any]:
        sent = section(self.end, "sum_sent" + suffix)
        received = section(self.end, "sum_received" + suffix)
        if self.is_udp() and not sent and not received:
            # Up to 3.9 there is one `sum`: the sender's rate with the receiver's losses.
            sent = section(self.end, "sum" + suffix)
        losses = received if "lost_packets" in received else sent if self.is_udp() else {}
        row: dict[str, Any] = {
            "direction": "reverse" if reverse else "forward",
            "sent_gbps": common.scaled(to_float(sent.get("bits_per_second")), _PER_GIGA, 12),
            "received_gbps": common.scaled(to_float(received.get("bits_per_second")), _PER_GIGA, 12),
            "retransmits": to_int(sent.get("retransmits")),
            "lost_packets": to_int(losses.get("lost_packets")),
            "packets": to_int(losses.get("packets")),
            "lost_percent": to_float(losses.get("lost_percent")),
            "jitter_ms": to_float(losses.get("jitter_ms")),
        }
        for half, sums in (("sent", sent), ("received", received)):
            # Zeros mean that the other end's result never came; only UDP can really lose every byte.
            if half != self.own_end(reverse) and not _bytes(sums) and (self.is_server or not self.is_udp()):
                row[half + "_gbps"] = None
                if losses is sums:
                    row.update(dict.fromkeys(_LOSSES))
        return row

    def directions(self) -> list[dict[str, Any]]:
        if not any(key.startswith("sum") for key in self.end):
            return []
        if self.is_bidirectional():
            return [self.direction(False, ""), self.direction(True, REPEATED)]
        return [self.direction(self.is_reverse(), "")]

    def seconds(self) -> float | None:
        """Return the time that the sums cover."""
        for name in ("sum_sent", "sum_received", "sum"):
            value = to_float(section(self.end, name).get("seconds"))
            if value:
                return value
        return None

    def ran_s(self) -> float:
        """Return how long the test ran by its intervals, including the omitted start.

        iperf3 resets its sums after the omitted start, on a busy node late, while the end is in time.
        """
        intervals = self.data.get("intervals")
        sums = (
            [section(one, "sum") for one in intervals if isinstance(one, dict)]
            if isinstance(intervals, list)
            else []
        )
        return sum(to_float(one.get("seconds")) or 0.0 for one in sums)

    def output(self) -> dict[str, Any]:
        version = _VERSION.match(str(self.start.get("version", ""))[:200])
        cpu = section(self.end, "cpu_utilization_percent")
        # Three zeros are printed when the other end's numbers never came.
        remote_known = any(to_float(cpu.get("remote_" + part)) for part in ("total", "user", "system"))
        protocol = self.test.get("protocol")
        return {
            "version": version.group(1) if version else None,
            "protocol": protocol if isinstance(protocol, str) else None,
            "streams": to_int(self.test.get("num_streams")),
            "duration_s": to_float(self.test.get("duration")) or self.seconds(),
            "directions": self.directions(),
            "cpu_host_percent": to_float(cpu.get("host_total")),
            "cpu_remote_percent": to_float(cpu.get("remote_total")) if remote_known else None,
        }

    def failures(self) -> list[str]:
        """Return the entries under "error" that are errors."""
        reported = [str(self.data[key])[:1000] for key in ("error", "error" + REPEATED) if key in self.data]
        failures = [one for one in reported if not _OUT_OF_ORDER.match(one)]
        if len(failures) < len(reported):
            self.warnings.append("datagrams arrived out of order")
        return failures

    def problem(self, output: dict[str, Any]) -> tuple[bool, dict[str, str] | None]:
        """Return (complete, error); an end that cannot know the result is incomplete with a warning."""
        failures = self.failures()
        if failures:
            return False, _classify(failures[0])
        if not self.start:
            return False, error("incomplete", "the JSON has no start section")
        if not self.test or not output["directions"]:
            return False, error("incomplete", "the JSON has no sums: the test did not reach its end")
        asked, got = to_float(self.test.get("duration")), self.seconds()
        by_amount = any(to_int(self.test.get(name)) for name in ("bytes", "blocks"))
        missing_s = asked + (to_float(self.test.get("omit")) or 0.0) - self.ran_s() if asked else 0.0
        short = asked and got and got < asked * _SHORTEST_SHARE and missing_s > asked * (1 - _SHORTEST_SHARE)
        if short and not by_amount:
            return False, error("interrupted", f"the sums cover {got:.1f} s of {asked:g} s")
        streams, wanted = self.end.get("streams"), to_int(self.test.get("num_streams"))
        if isinstance(streams, list) and streams:
            if wanted and len(streams) < wanted:
                return False, error("incomplete", f"{len(streams)} of {wanted} streams have a result")
            idle = sum(not any(_bytes(section(one, half)) for half in _HALVES) for one in streams)
            if idle:
                self.warnings.append(f"{idle} of {len(streams)} streams moved nothing")
        for name in self.end:
            sums = section(self.end, name) if name.startswith("sum") else {}
            rate, seconds = to_float(sums.get("bits_per_second")), to_float(sums.get("seconds"))
            follows = _bytes(sums) * 8 / seconds if seconds else None
            if rate and follows and not 1 / _FARTHEST_APART <= follows / rate <= _FARTHEST_APART:
                reported = f"{name}: {_bytes(sums):g} bytes in {seconds:g} s are not {rate:g} bit/s"
                return False, error("inconsistent", reported)
        return self._check_rates(output["directions"])

    def _check_rates(self, rows: list[dict[str, Any]]) -> tuple[bool, dict[str, str] | None]:
        complete = True
        for row in rows:
            where = f"the {row['direction']} direction"
            half = self.own_end(row["direction"] == "reverse") if self.is_server else "received"
            key = f"{half}_gbps"
            if half == "received" and row[key] is None and self.is_udp():
                key = "sent_gbps"
            if row[key] is None:
                return False, error("incomplete", f"{where} has no rate")
            if row[key] <= 0:
                return False, error("no_data", f"{where}: nothing was {key[:-5]}")
            if self.is_udp() and row["packets"] is not None and row["packets"] <= 0:
                return False, error("no_data", f"{where}: no packet was counted")
            if half == "sent" and row["received_gbps"] is None:
                complete = False
                self.warnings.append(f"{where}: a sending server does not learn what was received")
        return complete, None


def _noise(text: str) -> tuple[dict[str, str] | None, list[str]]:
    """Judge the text around the JSON: iperf3's own messages and signals are errors, the rest is a warning."""
    for line in common.split_lines(text):
        if _OWN_LINE.match(line) and not _OWN_WARNING.match(line):
            return _classify(line[len("iperf3: ") :]), []
        if common.ended_by_signal(line):
            return error("interrupted", line), []
    return None, (["text around the JSON was ignored"] if text.strip() else [])


def _parse_table(lines: list[str]) -> dict[str, Any] | None:
    """Read the human-readable table; None when the text is none."""
    runs, others = text_form.read(lines)
    if not runs:
        return None
    problem, _ignored = _noise("\n".join(others))
    warnings = ["the rates have three digits: use -J for more"]
    if any(map(_OUT_OF_ORDER.match, others)):
        warnings.append("datagrams arrived out of order")
    valid = True
    outputs = []
    for run in runs:
        output = run.output()
        wrong, reported = run.problem(output)
        problem = problem or wrong
        warnings += [reported] if reported else []
        valid = valid and reported is None
        outputs.append(output)
    return common.result("iperf3", outputs, problem, warnings, valid)


def parse(text: str) -> dict[str, Any]:
    """Parse iperf3's output.

    Args:
        text: What iperf3 printed; several objects and standard error in between are allowed.

    Returns:
        The common object; each output has the rates per direction in Gbit/s (10^9 bit/s); `forward` is from
        client to server.

    Raises:
        NotThisTool: The text holds no object or message of iperf3.
    """
    found = json_text.find_objects(text)
    events = [one for one in found.objects if "event" in one and "data" in one]
    data = [one for one in found.objects if any(part in one for part in _PARTS) and "event" not in one]
    # --json-stream-full-output writes a run's object behind its events.
    known = {_cookie(one) for one in data if "end" in one} - {None}
    data += [one for one in _join_stream(events) if _cookie(one) not in known]
    cut = found.cut if found.cut is not None and _CUT_MARK.search(found.cut) else None
    problem, warnings = _noise(found.around if found.cut is None else found.around + "\n" + found.cut)
    runs = [_Run(one) for one in data if isinstance(one.get("start", {}), dict)]
    ours = any(
        _VERSION.match(str(run.start.get("version", ""))[:200]) or run.data.keys() <= set(_PARTS)
        for run in runs
    )
    if not ours and cut is None:
        lines = common.split_lines(text)
        table = _parse_table(lines)
        if table is not None:
            return table
        if not any(_OWN_LINE.match(line) for line in lines):
            raise common.refusal("neither JSON nor a table of iperf3", lines)
    outputs, valid = [], True
    for run in runs:
        output = run.output()
        complete, wrong = run.problem(output)
        valid, problem = valid and complete, problem or wrong
        warnings += run.warnings
        outputs.append(output)
    if found.cut is not None:
        version = _VERSION.search(found.cut[:100000])
        outputs.append(
            {**dict.fromkeys(_OUTPUT_KEYS), "version": version and version.group(1), "directions": []}
        )
        problem = problem or error("truncated", "the JSON ends in the middle")
    return common.result("iperf3", outputs, problem, warnings, valid)
