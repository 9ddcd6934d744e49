# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The program that `srun` starts on a node: Ansible's modules, over standard input and output.

Nothing passes through a shared file system, which root on a node may not be able to read and other users may.
The runner is a child of this process in the step's control group: ending the step ends it and its tools.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any, BinaryIO

from .. import atomic_files, node_files
from ..channel.errors import MeasurementError
from ..facts import node as node_facts
from ..facts.sysfs import Reader
from ..schedule import work_order
from . import frames
from .control import Control
from .progress import STATUS_KEYS
from .record import STATUS

INSPECT, MEASURE = "inspect", "measure"
# Messages of the controller, one per line.
ALIVE, START, TAKEN = "alive", "start", "taken"
# Messages of a node.
HELLO, FACTS, STAGED, PROGRESS, ARCHIVE, ERROR, BYE = (
    "hello", "facts", "staged", "progress", "archive", "error", "bye",
)  # fmt: skip
_LAUNCHER = "direct"
_LOOK_S, _BEGIN_S, _START_S = 2.0, 20.0, 120.0
_TOOL_S = 30.0
# From sending the archive until the controller confirms that it is on its disk.
_TAKEN_S = 120.0
_STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main(arguments: Sequence[str], program: str) -> int:
    """Run this node's part of a step and return the exit status: 0 when it is done.

    Args:
        arguments: `inspect` or `measure`, and the launcher's name of this node.
        program: the file with this program and the runner.
    """
    what, name = arguments
    output = Output(sys.stdout.buffer)
    output.send(HELLO, {"name": name, "root": os.geteuid() == 0, **count_cpus()})
    if os.geteuid() != 0:
        return 1
    try:
        if what == INSPECT:
            output.send(FACTS, node_facts.collect(Reader(), _read_output, None))
        else:
            Measurement(name, program, sys.stdin.buffer, output).run()
    except MeasurementError as failure:
        output.send(ERROR, failure.as_error())
        return 1
    except (OSError, ValueError, KeyError) as error:
        output.send(ERROR, {"class": "not_staged", "message": f"{type(error).__name__}: {error}"})
        return 1
    output.send(BYE, {})
    return 0


def count_cpus(online: str = "/sys/devices/system/cpu/online") -> dict[str, int]:
    """Count the CPUs that this step may use, and those of the node (0 if unknown)."""
    total = 0
    with contextlib.suppress(OSError, ValueError), open(online, encoding="ascii") as handle:
        for part in handle.read().strip().split(","):
            first, _dash, last = part.partition("-")
            total += int(last or first) - int(first) + 1
    return {"usable_cpus": len(os.sched_getaffinity(0)), "cpus": total}


class Output:
    """Standard output, framed. A reader that has gone away is not an error."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def send(self, kind: str, content: Any) -> None:
        """Send a message: bytes as they are, anything else as JSON."""
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        with contextlib.suppress(BrokenPipeError):
            for line in frames.lines(kind, data):
                self._stream.write(line.encode("ascii") + b"\n")
            self._stream.flush()


class Measurement:
    """One run on this node, from the test schedule on standard input to the archive on standard output."""

    def __init__(self, name: str, program: str, stream: BinaryIO, output: Output) -> None:
        self._name = name
        self._program = program
        self._stream = stream
        self._output = output
        # None marks the end of the input.
        self._messages: queue.Queue[str | None] = queue.Queue()
        # Set when the controller is gone, or a signal asks for the end.
        self._stop = threading.Event()

    def run(self) -> None:
        """Stage, start, wait, hand over.

        Raises:
            MeasurementError: the node is not available; what was staged is removed.
            KeyError, ValueError: the input is not a test schedule.
        """
        for number in _STOPS:
            signal.signal(number, lambda _number, _frame: self._stop.set())
        sent = json.loads(self._stream.readline())
        own = sent["nodes"][self._name]
        order = {**sent["common"], **own, "secret": sent["secret"]}
        threading.Thread(target=self._listen, daemon=True, name="listen").start()
        control = Control(str(order["run"]), str(order["node"]), _run_command, _LAUNCHER)
        sha256 = str(node_files.sha256_of(self._program))
        lease_s = float(order["policy"]["lease_s"])
        control.stage(work_order.pack(order), sha256, self._program, str(sent["controller"]), lease_s, False)
        try:
            self._output.send(STAGED, {})
            # All nodes are staged before any begins to wait for its partner.
            if not self._receive(START, _START_S):
                raise MeasurementError(
                    "interrupted",
                    "not measured: the controller did not send the start message",
                    control.node,
                    "start the validation again",
                )
            _unlimit_locked_memory()
            control.start(
                sys.executable, sha256, str(sent["controller"]), lease_s, float(sent["deadline_s"]), False
            )
        except BaseException:
            control.remove(False)
            raise
        try:
            self._wait(control, float(sent["deadline_s"]))
        finally:
            self._hand_over(control)

    def _listen(self) -> None:
        for line in self._stream:
            self._messages.put(line.decode("utf-8", "replace").strip())
        self._messages.put(None)
        self._stop.set()

    def _receive(self, wanted: str, limit_s: float) -> bool:
        """Wait for a message of the controller; return False when it will not come."""
        deadline = time.monotonic() + limit_s
        while True:
            # Look once more after the deadline: this process may have been the one that was delayed.
            over = time.monotonic() >= deadline
            try:
                message = self._messages.get(timeout=0.0 if over else _LOOK_S)
                if message is None or message == wanted:
                    return message == wanted
            except queue.Empty:
                if over:
                    return False
            # A stopped node still hands over its results, so it keeps waiting for `TAKEN`.
            if wanted == START and self._stop.is_set():
                return False

    def _wait(self, control: Control, limit_s: float) -> None:
        """Wait until the runner ends; each sign of life of the controller renews the lease."""
        begun = time.monotonic()
        while not self._stop.is_set() and time.monotonic() < begun + limit_s:
            # On a busy node a runner that was just started is not visible yet.
            if not control.running() and (
                os.path.exists(os.path.join(control.folder, STATUS)) or time.monotonic() > begun + _BEGIN_S
            ):
                return
            with contextlib.suppress(queue.Empty):
                if self._messages.get(timeout=_LOOK_S) == ALIVE:
                    # A lease without the file was taken over, which the runner notices itself.
                    with contextlib.suppress(OSError):
                        os.utime(control.lease.alive_path(control.run))
                    self._output.send(PROGRESS, _read_status(os.path.join(control.folder, STATUS)))

    def _hand_over(self, control: Control) -> None:
        """End what still runs, send the results, and clean up the node once the controller has them."""
        packed = control.collect(False)
        if not packed["archive"]:
            return
        with open(packed["archive"], "rb") as handle:
            self._output.send(ARCHIVE, handle.read())
        if self._receive(f"{TAKEN} {self._name}", _TAKEN_S):
            control.remove(False)


def _read_status(path: str) -> dict[str, Any]:
    status = atomic_files.read_json(path)
    return {key: status.get(key) for key in STATUS_KEYS} if status is not None else {}


def _unlimit_locked_memory() -> None:
    """Let the tools register memory: Slurm passes on the limits of the user who called srun."""
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    with contextlib.suppress(OSError, ValueError):  # where root may not, RDMA tools report the limit
        resource.setrlimit(resource.RLIMIT_MEMLOCK, unlimited)


def _run_command(argv: Sequence[str]) -> tuple[int, str, str]:
    # There is no AnsibleModule here, and so no run_command.
    done = subprocess.run(  # pylint: disable=ansible-bad-function
        list(argv), stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


def _read_output(argv: Sequence[str]) -> str | None:
    """Return what a tool prints for the facts; None when it is missing or hangs."""
    path = shutil.which(argv[0])
    if path is None:
        return None
    try:
        done = subprocess.run(  # pylint: disable=ansible-bad-function
            [path, *argv[1:]],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_TOOL_S,
            env={**os.environ, "LC_ALL": "C"},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return "\n".join(text.decode("utf-8", "replace") for text in (done.stdout, done.stderr))
