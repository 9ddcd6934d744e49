# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ping: iputils, busybox and BSD/macOS."""

from __future__ import annotations

import re
from typing import Any

from . import common
from .common import error, to_float, to_int

_HEADER = re.compile(r"^PING6?[ (]")
_STATISTICS = re.compile(r"^-{2,4} ?.* ping6? statistics -{2,4}\s*$|^----.*PING Statistics----\s*$")
# iputils is translated; whatever the language, this line has dashes around and "ping" within.
_STATISTICS_ABROAD = re.compile(r"^--- .{0,200}ping.{0,200} ---\s*$", re.I)
_COUNTS = re.compile(r"^([0-9]+) packets transmitted, ([0-9]+)(?: packets)? received\b(.*)$")
_DUPLICATES = re.compile(r"\+?([0-9]+) duplicates\b")
_ERRORS = re.compile(r"\+([0-9]+) errors\b")
_CORRUPTED = re.compile(r"\+[0-9]+ corrupted\b|^wrong data byte #")
# iputils prints it with %g, and up to 2023 with the locale's point.
_LOSS = re.compile(r"([0-9]+(?:[.,][0-9]+)?(?:e-[0-9]+)?)% packet loss\b")
_RTT = re.compile(
    r"^(?:rtt|round-trip)(?: \(ms\))? +min/avg/max(/mdev|/stddev|/std-dev)? = "
    r"([0-9.]+)/([0-9.]+)/([0-9.]+)(?:/([0-9.]+|nan))?( ms\b|$)"
)
_REPLY = re.compile(r"(?:^|\] )([0-9]+) bytes from .*\b(?:icmp_)?seq=[0-9]+")
_TROUBLE = (
    ("message_too_long", re.compile(r"message too long|Frag(?:mentation)? needed|Packet too big", re.I)),
    ("name_resolution", re.compile(r"Name or service not known|bad address|unknown host|cannot resolve|"
                                   r"name resolution|No address associated", re.I)),
    ("unreachable", re.compile(r"Unreachable|No route to host|Network is down|Host is down", re.I)),
    ("time_exceeded", re.compile(r"Time to live exceeded|Hop limit exceeded", re.I)),
    ("permission", re.compile(r"Operation not permitted|Permission denied|lacking privilege", re.I)),
    ("no_device", re.compile(r"SO_BINDTODEVICE|unknown iface|No such device|invalid interface", re.I)),
    ("bind", re.compile(r"Cannot assign requested address|bind: |can't bind", re.I)),
    ("usage", re.compile(r"^Usage: ping|invalid option|invalid argument|unrecognized option", re.I)),
)  # fmt: skip
_OWN_MESSAGE = re.compile(r"^ping6?: |^connect: |^Usage: ping|^BusyBox v.*multi-call binary")
_RTT_KEYS = ("rtt_min_us", "rtt_average_us", "rtt_max_us", "rtt_mdev_us")
_KEYS = ("transmitted", "received", "duplicates", "loss_percent", *_RTT_KEYS)


class _Run:
    """One run of ping while it is read."""

    def __init__(self) -> None:
        self.output: dict[str, Any] = dict.fromkeys(_KEYS)
        self.has_header = False
        self.has_rtt = False
        self.replies = 0
        self.timed_replies = 0
        self.errors: int | None = None
        self.trouble: dict[str, str] | None = None
        self.interrupted = self.corrupted = False
        self.is_abroad = False

    def read_counts(self, match: re.Match[str]) -> None:
        rest = match.group(3)
        self.output["transmitted"] = to_int(match.group(1))
        self.output["received"] = to_int(match.group(2))
        duplicates = _DUPLICATES.search(rest)
        self.output["duplicates"] = to_int(duplicates.group(1)) if duplicates else None
        errors = _ERRORS.search(rest)
        self.errors = to_int(errors.group(1)) if errors else None
        loss = _LOSS.search(rest)
        self.output["loss_percent"] = to_float(loss.group(1).replace(",", ".")) if loss else None

    def read_rtt(self, match: re.Match[str]) -> None:
        for place, name in enumerate(_RTT_KEYS):
            self.output[name] = common.scaled(to_float(match.group(2 + place)), 1000, 6)
        self.has_rtt = True

    def verdict(self) -> tuple[dict[str, str] | None, list[str]]:
        """Return (error, warnings) of this run; no error means that it is complete."""
        out = self.output
        if self.interrupted:
            return error("interrupted", "the run was interrupted before its end"), []
        if self.is_abroad and out["transmitted"] is None:
            return error("language", "the statistics are not in English. Fix: run ping with LC_ALL=C"), []
        if out["transmitted"] is None or out["received"] is None or out["loss_percent"] is None:
            return self.trouble or error("truncated", "the statistics line is missing or cut short"), []
        if out["transmitted"] == 0:
            return self.trouble or error("no_probe_sent", "no probe was sent"), []
        if out["received"] > out["transmitted"]:
            return error("inconsistent", "more replies than probes"), []
        stated, counted = out["loss_percent"], 100.0 * (1 - out["received"] / out["transmitted"])
        if abs(stated - counted) > 1.0:
            return error("inconsistent", f"{stated:g} % loss is stated, the counts say {counted:.1f} %"), []
        if out["received"] == 0:
            return self.trouble or error("no_reply", f"none of {out['transmitted']} probes was answered"), []
        if self.corrupted:
            return error("corrupted", "replies came back with other data than was sent"), []
        return self._check_rtt()

    def _check_rtt(self) -> tuple[dict[str, str] | None, list[str]]:
        out = self.output
        if not self.has_rtt:
            if self.replies and not self.timed_replies:
                return None, ["no round-trip times: the payload is too small to hold a time stamp"]
            return error("truncated", "the round-trip line is missing or cut short"), []
        times = [out[name] for name in _RTT_KEYS[:3]]
        if None in times or not times[0] <= times[1] <= times[2]:
            return error("inconsistent", "round-trip times are not in the order min, average, max"), []
        warnings = []
        if self.errors:
            warnings.append(f"{self.errors} error replies")
        if out["duplicates"]:
            warnings.append(f"{out['duplicates']} duplicate replies: another host may own the address")
        return None, warnings


def _read_line(line: str, run: _Run) -> bool:
    """Read one line into the run; True when the line is ping's."""
    run.corrupted = run.corrupted or bool(_CORRUPTED.search(line[:400]))
    if _REPLY.search(line):
        run.replies += 1
        run.timed_replies += "time" in line
        return True
    if counts := _COUNTS.match(line):
        run.read_counts(counts)
        return True
    rtt = _RTT.match(line)
    if rtt and (rtt.group(6).strip() == "ms" or "(ms)" in line):
        run.read_rtt(rtt)
        return True
    run.is_abroad = run.is_abroad or bool(_STATISTICS_ABROAD.match(line) and not _STATISTICS.match(line))
    run.interrupted = run.interrupted or common.ended_by_signal(line)
    run.trouble = run.trouble or common.trouble(_TROUBLE, line)
    return bool(_STATISTICS.match(line) or _OWN_MESSAGE.match(line))


def parse(text: str) -> dict[str, Any]:
    """Parse the output of ping.

    Args:
        text: What ping printed, one run or several, standard error included or not.

    Returns:
        The common object; each output holds counts, loss in percent and round-trip times in microseconds.

    Raises:
        NotThisTool: No line of the text is ping's.
    """
    lines = common.split_lines(text)
    runs: list[_Run] = []
    run = _Run()
    recognised = False
    for line in lines:
        if _HEADER.match(line):
            # Lines before the first header (warnings, patterns) belong to the first run.
            if run.has_header or run.output["transmitted"] is not None:
                runs.append(run)
                run = _Run()
            run.has_header = recognised = True
        elif _COUNTS.match(line) and run.output["transmitted"] is not None:
            runs.append(run)
            run = _Run()
            _read_line(line, run)
        elif _read_line(line, run):
            recognised = True
    runs.append(run)
    if not recognised:
        raise common.refusal("no line of ping's output", lines)
    problem, warnings = None, []
    for one in runs:
        found, reported = one.verdict()
        problem = problem or found
        warnings += reported
    with_data = [one.output for one in runs if one.has_header or one.output["transmitted"] is not None]
    return common.result("ping", with_data, problem, warnings)
