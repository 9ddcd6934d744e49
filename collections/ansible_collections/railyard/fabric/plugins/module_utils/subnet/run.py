# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Runs the commands that read a subnet, within limits of time and size."""

from __future__ import annotations

import os
import selectors
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .. import bounded
from ..parsers.subnet import capture
from ..records.subnet_capture import Capture, Command
from . import commands
from .commands import Port, Step

COMMAND_LIMIT_S = 60.0
READING_LIMIT_S = 300.0
MOST_AT_A_TIME = 8
# Of 10,000 adapters the longest output has 8 MiB.
MOST_OUTPUT_BYTES = 32 * 1024 * 1024
MOST_ERROR_BYTES = 1024 * 1024


class MissingToolsError(Exception):
    """infiniband-diags is not installed; the text says what to do."""


class Clock:
    """The time that is left for a reading, without what is waited between two readings of counters."""

    def __init__(self, limit_s: float) -> None:
        self._left_s = limit_s
        self._at_s = time.monotonic()

    def left_s(self) -> float:
        """Return how much is left."""
        now = time.monotonic()
        self._left_s -= now - self._at_s
        self._at_s = now
        return self._left_s

    def wait(self, seconds: float) -> None:
        """Wait without using the time."""
        self.left_s()
        time.sleep(max(seconds, 0.0))
        self._at_s = time.monotonic()


def read_subnet(
    port: Port,
    partitions: bool,
    interval_s: float,
    paths: Sequence[tuple[str, str]] = (),
    limit_s: float = READING_LIMIT_S,
) -> Capture:
    """Read the subnet of a port of this node.

    Where the texts about links disagree, links are read a second time: the subnet may have changed meanwhile.

    Args:
        port: where to read from.
        partitions: read the P_Keys of each adapter port, too: one command a port.
        interval_s: time between two readings of the error counters; 0 for one reading.
        paths: pairs of GUIDs of adapter ports, whose paths are traced both ways.
        limit_s: time for all commands together.

    Raises:
        MissingToolsError: the tools are not installed.
    """
    started_at_s, clock = time.time(), Clock(limit_s)
    links = [_run(step, clock) for step in commands.plan_links(port)]
    counters = [_run(commands.plan_counters(port, 1), clock)]
    single = [_run(step, clock) for step in commands.plan_single(port)]
    reading = capture.parse(Capture(None, port.device, port.number, started_at_s, tuple(links)))
    if any(problem.kind == "changed" for problem in reading.problems):
        links = [_run(step, clock) for step in commands.plan_links(port)]
        reading = capture.parse(Capture(None, port.device, port.number, started_at_s, tuple(links)))
    saquery = next(one.stdout for one in single if one.file == "saquery-s.txt")
    single += [_run(step, clock) for step in commands.plan_managers(port, saquery)]
    if partitions:
        single += _run_many(commands.plan_partitions(port, reading), clock)
    if interval_s > 0:
        clock.wait(counters[0].started_at_s + interval_s - time.time())
        counters.append(_run(commands.plan_counters(port, 2), clock))
    single += _run_many(commands.plan_paths(port, reading, paths), clock)
    return Capture(None, port.device, port.number, started_at_s, (*links, *counters, *single))


def _run_many(steps: Sequence[Step], clock: Clock) -> list[Command]:
    with ThreadPoolExecutor(MOST_AT_A_TIME) as pool:
        return list(pool.map(lambda step: _run(step, clock), steps))


def _run(step: Step, clock: Clock) -> Command:
    """Run one command, and once more if it crashed, as ibqueryerrors 44.0 did in 2 of 200 readings."""
    done = _run_once(step, clock)
    return _run_once(step, clock) if done.rc is not None and done.rc < 0 else done


def _run_once(step: Step, clock: Clock) -> Command:
    """Run one command; what is left of the time for all of them limits it further."""
    started_at_s, limit_s = time.time(), min(COMMAND_LIMIT_S, clock.left_s())
    if limit_s <= 0:
        return Command(step.argv, step.file, "", "", None, started_at_s, 0.0, timed_out=True)
    began = time.monotonic()
    try:
        process = bounded.start(step.argv, stderr=subprocess.PIPE)
    except bounded.ToolError as error:
        if error.absent:
            raise MissingToolsError(
                f"{error}. Install the package infiniband-diags on this node (Debian, Ubuntu, RHEL), or the"
                " vendor's OFED"
            ) from error
        return Command(step.argv, step.file, "", str(error), 127, started_at_s, 0.0)
    stdout, stderr, status = _collect(process, began + limit_s)
    seconds = time.monotonic() - began
    return Command(step.argv, step.file, stdout, stderr, status, started_at_s, seconds, status is None)


def _collect(process: subprocess.Popen[bytes], deadline: float) -> tuple[str, str, int | None]:
    """Return both outputs, each no longer than its limit, and the exit status; None where time was over."""
    limits = {process.stdout: MOST_OUTPUT_BYTES, process.stderr: MOST_ERROR_BYTES}
    data: dict[Any, bytearray] = {stream: bytearray() for stream in limits}
    with selectors.DefaultSelector() as selector:
        for stream in limits:
            if stream is not None:
                selector.register(stream, selectors.EVENT_READ)
        while selector.get_map() and time.monotonic() < deadline:
            for key, _events in selector.select(deadline - time.monotonic()):
                part = os.read(key.fd, 65536)
                if not part:
                    selector.unregister(key.fileobj)
                # Typed as an object or a number; here it is always one of the two streams.
                kept = data[key.fileobj]
                kept += part[: max(0, limits[key.fileobj] - len(kept))]  # type: ignore[index]
    status = _wait(process, deadline)
    if status is None:
        bounded.end(process)
    for stream in limits:
        if stream is not None:
            stream.close()
    stdout, stderr = (bytes(one).decode("utf-8", "replace") for one in data.values())
    return stdout, stderr, status


def _wait(process: subprocess.Popen[bytes], deadline: float) -> int | None:
    try:
        return process.wait(max(deadline - time.monotonic(), 0.01))
    except subprocess.TimeoutExpired:
        return None


def as_document(read: Capture) -> dict[str, Any]:
    """Return a capture as JSON with the texts in it, which `plugin_utils/subnet/captures.py` reads."""
    return {
        "schema": 1,
        "device": read.device,
        "port": read.port,
        "started_at_s": read.started_at_s,
        "commands": [
            {
                "argv": list(one.argv),
                "file": one.file,
                "stdout": one.stdout,
                "stderr": one.stderr,
                "rc": one.rc,
                "started_at_s": one.started_at_s,
                "seconds": round(one.seconds, 3),
            }
            for one in read.commands
        ],
    }
