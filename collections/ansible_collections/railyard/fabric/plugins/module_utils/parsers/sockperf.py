# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""sockperf: ping-pong, under-load and throughput, 2.x to 3.10; it exits 0 on failure, so the text decides."""

from __future__ import annotations

import re
from typing import Any

from . import common
from .common import error, to_float, to_int

_VERSION = re.compile(r"== version #?(\d+(?:\.\d+)*)(?=[\s=-])", re.A)
_SERVER = re.compile(r"\[SERVER\] listen on")
_MODE_WORD = re.compile(
    r"\bsockperf\s+(?:client\s+)?(pp|ping-pong|ul|under-load|tp|throughput|pb|playback)\b"
)
# -n ends the run by its count and not by the clock; 3.8 and later print another message.
_END = re.compile(
    r"Test end \((?:interrupted by ([^)]{1,40})|reached packet number|finished observation count)\)"
)
# The file of --full-log has the statistics and the options, not the messages of the test.
_PLANNED_S = re.compile(r"test was performed using the following parameters: .{0,400}--time=([0-9]{1,9})\b")
_TOTAL_S = re.compile(r"\[Total Run\] RunTime=([0-9.]{1,20}) sec")
_VALID = re.compile(r"\[Valid Duration\].{0,120}SentMessages=([0-9]+); ReceivedMessages=([0-9]+)\s*$")
_AVERAGE = re.compile(r"====> avg-(lat|latency|rtt) ?= {0,12}([0-9.]+) \(std-dev ?= {0,12}([0-9.]+)(?:, |\))")
_DROPPED = re.compile(r"# dropped (?:messages|packets) = ([0-9]+); "
                      r"# duplicated (?:messages|packets) = ([0-9]+); "
                      r"# out-of-order (?:messages|packets) = ([0-9]+)")  # fmt: skip
_SUMMARY = re.compile(r"Summary: (Latency|Round trip) is {1,12}([0-9.]+) usec")
_OBSERVATIONS = re.compile(r"Total ([0-9]+) observations; each percentile")
# Always three decimals: fewer mean that the line was cut.
# A web page may have taken the angle brackets for a tag's.
_EXTREME = re.compile(r"---> <?(MIN|MAX)>? observation = +([0-9]+\.[0-9]{3,})\s*$")
_PERCENTILE = re.compile(r"---> percentile ([0-9.]+) = +([0-9]+\.[0-9]{3,})\s*$")
_RATE = re.compile(r"Summary: Message Rate is ([0-9.]+) \[msg/sec\]")
_BANDWIDTH = re.compile(r"Summary: BandWidth is [0-9.]+ ([MG])Bps \(([0-9.]+) [MG]bps\)")
_MESSAGE_SIZE = re.compile(r"using msg-size=([0-9]{1,9})\b")
_TROUBLE = (
    ("no_reply", re.compile(r"No messages were received from the server")),
    ("no_data", re.compile(r"No valid observations found|Test end before test start")),
    ("timeout", re.compile(r"number of packets requested taking too long")),
    ("connection_refused", re.compile(r"Connection refused")),
    ("name_resolution", re.compile(r"Invalid address|Can`t resolve|Name or service not known")),
    ("address_in_use", re.compile(r"Address already in use")),
    ("bind", re.compile(r"Cannot assign requested address|Can`t bind")),
    ("no_route", re.compile(r"No route to host|Network is unreachable")),
    ("usage", re.compile(r"^Usage: sockperf|Invalid (?:option|value)|unrecognized option")),
    ("tool_error", re.compile(r"ERROR:")),
)
_TIMES = ("average_us", "min_us", "max_us", "p50_us", "p99_us", "p999_us")
_LATENCY_KEYS = ("metric", "average_us", "stdev_us", *_TIMES[1:], "observations", "dropped")
_RATE_KEYS = ("message_rate", "bandwidth_gbps")
_PERCENTILE_KEYS = {50.0: "p50_us", 99.0: "p99_us", 99.9: "p999_us"}
_MODES = {"pp": "ping-pong", "ul": "under-load", "tp": "throughput", "pb": "playback"}
# The number in parentheses is bytes / 2^20 x 8: a binary prefix printed as if it were decimal. --giga-size
# prints a thousandth of that, with three decimals.
_GBPS_PER_MEBIBIT = 2**20 / 1e9
# 3.7 writes G beside the nine decimals of --increase_output_precision; the numbers are those of M.
_DECIMALS_OF_M = 9
_FARTHEST_APART = 0.01
_HEADER_BYTES, _FRAGMENT_BYTES = 28, 1472
# A run that was ended early is shorter by more than the error of its clock.
_SHORTEST_SHARE = 0.95
# under-load requests a reply to every 100th message; ping-pong loses a few at most.
_UNDER_LOAD_REPLY_SHARE = 0.5


class _Run:
    """One run of sockperf while it is read."""

    def __init__(self, mode: str | None) -> None:
        self.version: str | None = None
        self.mode = mode
        self.is_server = False
        self.latency: dict[str, Any] = dict.fromkeys(_LATENCY_KEYS)
        self.rate: dict[str, Any] = dict.fromkeys(_RATE_KEYS)
        self.ends: list[str] = []
        self.trouble: dict[str, str] | None = None
        self.killed = False
        self.average_seen = 0
        self.summary: float | None = None
        self.late_signal = False
        self.planned_s: float | None = None
        self.total_s: float | None = None
        self.message_bytes: int | None = None
        self.slack_gbps = 0.0
        self.warnings: list[str] = []

    def read(self, line: str) -> None:
        if version := _VERSION.search(line):
            self.version = version.group(1)
        self.is_server = self.is_server or bool(_SERVER.search(line))
        self.killed = self.killed or common.ended_by_signal(line)
        self._read_course(line)
        self._read_latency(line)
        self._read_rate(line)
        reported = re.sub(r"^sockperf: (?:ERROR: )?", "", line)
        self.trouble = self.trouble or common.trouble(_TROUBLE, line, reported)

    def _read_course(self, line: str) -> None:
        if end := _END.search(line):
            reason = end.group(1) or "packet number"
            if self.ends and "signal" in reason:
                self.late_signal = True
            self.ends.append(reason)
        planned_s, total_s = _PLANNED_S.search(line), _TOTAL_S.search(line)
        if planned_s:
            self.planned_s = to_float(planned_s.group(1))
        if total_s:
            self.total_s = to_float(total_s.group(1))
        sent = _VALID.search(line)
        if sent and self.mode is None:
            asked, answered = to_int(sent.group(1)), to_int(sent.group(2))
            if asked and answered is not None:
                loaded = answered < asked * _UNDER_LOAD_REPLY_SHARE
                self.mode = _MODES["ul"] if loaded else _MODES["pp"]

    def _read_latency(self, line: str) -> None:
        if average := _AVERAGE.search(line):
            self.average_seen += 1
        if self.average_seen > 1:
            return
        out = self.latency
        if average:
            out["metric"] = "round_trip" if average.group(1) == "rtt" else "one_way"
            out["average_us"], out["stdev_us"] = to_float(average.group(2)), to_float(average.group(3))
        if summary := _SUMMARY.search(line):
            out["metric"] = "round_trip" if summary.group(1) == "Round trip" else "one_way"
            self.summary = to_float(summary.group(2))
            # The same number; the line above it may have been left out of a capture.
            out["average_us"] = self.summary if out["average_us"] is None else out["average_us"]
        if dropped := _DROPPED.search(line):
            out["dropped"] = to_int(dropped.group(1))
            for place, what in enumerate(("dropped", "duplicated", "out-of-order")):
                if to_int(dropped.group(1 + place)):
                    self.warnings.append(f"{dropped.group(1 + place)[:20]} {what} messages")
        if total := _OBSERVATIONS.search(line):
            out["observations"] = to_int(total.group(1))
        if extreme := _EXTREME.search(line):
            out[extreme.group(1).lower() + "_us"] = to_float(extreme.group(2))
        if percentile := _PERCENTILE.search(line):
            key = _PERCENTILE_KEYS.get(to_float(percentile.group(1)) or 0.0)
            if key:
                out[key] = to_float(percentile.group(2))

    def _read_rate(self, line: str) -> None:
        if rate := _RATE.search(line):
            self.rate["message_rate"] = to_float(rate.group(1))
        if size := _MESSAGE_SIZE.search(line):
            self.message_bytes = to_int(size.group(1))
        if bandwidth := _BANDWIDTH.search(line):
            decimals = len(bandwidth.group(2).partition(".")[2])
            giga = bandwidth.group(1) == "G" and decimals < _DECIMALS_OF_M
            factor = _GBPS_PER_MEBIBIT * (1000 if giga else 1)
            self.rate["bandwidth_gbps"] = common.scaled(to_float(bandwidth.group(2)), factor, 9)
            self.slack_gbps = 0.5 * 10**-decimals * factor
        if rate or bandwidth:
            self.mode = _MODES["tp"]

    def output(self) -> dict[str, Any]:
        """Return the numbers; under-load normally ends with a second signal."""
        if self.mode == _MODES["pp"] and self.late_signal:
            self.mode = _MODES["ul"]
        head = {"version": self.version, "mode": self.mode}
        return {**head, **(self.rate if self.mode == _MODES["tp"] else self.latency)}

    def problem(self) -> dict[str, str] | None:
        """Return the reason why this run is incomplete."""
        # "by user" is the message after SIGINT.
        if self.killed or (self.ends and ("signal" in self.ends[0] or "user" in self.ends[0])):
            return error("interrupted", "the run was interrupted before its end")
        if self.trouble:
            return self.trouble
        if self.mode == _MODES["tp"]:
            if None in self.rate.values():
                return error("truncated", "the summary of rate and bandwidth is missing or cut short")
            return self._rate_problem()
        out = self.latency
        if self.average_seen > 1:
            return error("several_servers", "statistics of several servers in one run are not supported")
        if None in (out["observations"], *(out[key] for key in _TIMES)):
            return error("truncated", "the statistics are missing or cut short")
        if not (self.ends or self._is_log()):
            return error("truncated", "no line says that the test ended: it may have been interrupted")
        if not out["observations"] or not out["average_us"]:
            return error("no_data", "no round trip was observed")
        order = [out[key] for key in ("min_us", "p50_us", "p99_us", "p999_us", "max_us")]
        if order != sorted(order) or not order[0] <= out["average_us"] <= order[-1]:
            return error("inconsistent", "the percentiles are not in order")
        if self.summary is not None and abs(self.summary - out["average_us"]) > 0.01:
            return error("inconsistent", "the summary and the average differ")
        return None

    def _is_log(self) -> bool:
        """Return whether this is a file of --full-log whose test ran for the configured time."""
        return bool(self.planned_s and self.total_s and self.total_s >= self.planned_s * _SHORTEST_SHARE)

    def _rate_problem(self) -> dict[str, str] | None:
        rate, stated = self.rate["message_rate"], self.rate["bandwidth_gbps"]
        if not rate:
            return error("no_data", "no message was sent")
        if self.message_bytes is None:
            return None
        # Up to 2.2 the headers of IP and UDP are included, for each fragment.
        headers = _HEADER_BYTES * -(-self.message_bytes // _FRAGMENT_BYTES)
        least, most = (rate * size * 8 / 1e9 for size in (self.message_bytes, self.message_bytes + headers))
        slack = _FARTHEST_APART * most + self.slack_gbps
        if least - slack <= stated <= most + slack:
            return None
        sent = f"{rate:g} messages of {self.message_bytes} bytes a second"
        return error("inconsistent", f"{stated:g} Gbit/s are not {sent}")


def parse(text: str) -> dict[str, Any]:
    """Parse the output of a sockperf client.

    Args:
        text: What sockperf printed, standard error and terminal colours included.

    Returns:
        The common object; each output says whether its latencies are one way (half the round trip) or not.

    Raises:
        NotThisTool: No line of the text is sockperf's.
    """
    lines = common.split_lines(text)
    runs: list[_Run] = []
    run = _Run(None)
    recognised = False
    for line in lines:
        word = _MODE_WORD.search(line[:400])
        mode = _MODES.get(word.group(1), word.group(1)) if word and not line.startswith(" ") else None
        if _VERSION.search(line) and (run.version or run.is_server or run.ends or run.trouble):
            runs.append(run)
            run = _Run(None)
        if mode and "Usage" not in line:
            run.mode = mode
        is_ours = (
            line.startswith(("sockperf: ", "sockperf[")) or _AVERAGE.search(line) or _SUMMARY.search(line)
        )
        recognised = recognised or bool(is_ours)
        run.read(line)
    runs.append(run)
    if not recognised:
        raise common.refusal("no line of sockperf's output", lines)
    clients = [one for one in runs if not one.is_server]
    problem, warnings = None, []
    for one in runs:
        warnings += one.warnings
        if one.is_server:
            warnings.append("a server prints no result")
            problem = problem or one.trouble
        else:
            one.output()
            problem = problem or one.problem()
    return common.result("sockperf", [one.output() for one in runs], problem, warnings, bool(clients))
