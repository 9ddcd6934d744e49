# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What `srun` starts on a node: does what Ansible's modules do there, by standard input and output.

Nothing passes through a shared file system, which root on a node may not read and others may. The runner is
this process's child in the step's control group: what ends the step ends it and its tools.
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

from ansible_collections.railyard.fabric.plugins.module_utils import atomic_files, node_files
from ansible_collections.railyard.fabric.plugins.module_utils.channel.errors import MeasurementError
from ansible_collections.railyard.fabric.plugins.module_utils.facts import node as node_facts
from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import Reader
from ansible_collections.railyard.fabric.plugins.module_utils.runner import frames
from ansible_collections.railyard.fabric.plugins.module_utils.runner.control import Control
from ansible_collections.railyard.fabric.plugins.module_utils.runner.progress import TOLD
from ansible_collections.railyard.fabric.plugins.module_utils.runner.record import STATUS
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import work_order

INSPECT, MEASURE = "inspect", "measure"
# What the controller says, a line each.
ALIVE, START, TAKEN = "alive", "start", "taken"
# What a node says.
HELLO, FACTS, STAGED, PROGRESS, ARCHIVE, ERROR, BYE = (
    "hello", "facts", "staged", "progress", "archive", "error", "bye",
)  # fmt: skip
_LAUNCHER = "direct"
_LOOK_S, _BEGIN_S, _START_S = 2.0, 20.0, 120.0
_TOOL_S = 30.0
# From the archive's way to the controller to its word that it is on its disk.
_TAKEN_S = 120.0
_STOPS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def main(arguments: Sequence[str], program: str) -> int:
    """Do a step's part on this node.

    Args:
        arguments: `inspect` or `measure`, and the launcher's name of this node.
        program: the file with this program and the runner.

    Returns:
        The exit status: 0 when the part is done.
    """
    what, name = arguments
    output = Output(sys.stdout.buffer)
    output.say(HELLO, {"name": name, "root": os.geteuid() == 0, **processors()})
    if os.geteuid() != 0:
        return 1
    try:
        if what == INSPECT:
            output.say(FACTS, node_facts.collect(Reader(), _printed, None))
        else:
            Measurement(name, program, sys.stdin.buffer, output).run()
    except MeasurementError as obstacle:
        output.say(ERROR, obstacle.as_error())
        return 1
    except (OSError, ValueError, KeyError) as error:
        output.say(ERROR, {"class": "not_staged", "message": f"{type(error).__name__}: {error}"})
        return 1
    output.say(BYE, {})
    return 0


def processors(online: str = "/sys/devices/system/cpu/online") -> dict[str, int]:
    """Return how many processors this step may use, and how many the node has (0 when it does not say)."""
    total = 0
    with contextlib.suppress(OSError, ValueError), open(online, encoding="ascii") as handle:
        for part in handle.read().strip().split(","):
            first, _dash, last = part.partition("-")
            total += int(last or first) - int(first) + 1
    return {"usable_cpus": len(os.sched_getaffinity(0)), "cpus": total}


class Output:
    """Standard output, by which the node speaks; one that nobody reads any more is not an error of ours."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def say(self, kind: str, content: Any) -> None:
        """Send a message: bytes as they are, anything else as JSON."""
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        with contextlib.suppress(BrokenPipeError):
            for line in frames.lines(kind, data):
                self._stream.write(line.encode("ascii") + b"\n")
            self._stream.flush()


class Measurement:
    """One run on this node, from the order on standard input to the archive on standard output."""

    def __init__(self, name: str, program: str, stream: BinaryIO, output: Output) -> None:
        self._name = name
        self._program = program
        self._stream = stream
        self._output = output
        # None: nothing more is to come.
        self._words: queue.Queue[str | None] = queue.Queue()
        # Nobody is there any more, or somebody wants an end.
        self._stop = threading.Event()

    def run(self) -> None:
        """Stage, start, wait, hand over.

        Raises:
            MeasurementError: the node is not to be had; what was laid ready is cleared.
            KeyError, ValueError: what was sent is no order.
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
            self._output.say(STAGED, {})
            # All nodes are staged before any begins to wait for its partner.
            if not self._heard(START, _START_S):
                raise MeasurementError(
                    "interrupted",
                    "not measured: the controller gave no word to begin",
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
            self._words.put(line.decode("utf-8", "replace").strip())
        self._words.put(None)
        self._stop.set()

    def _heard(self, word: str, limit_s: float) -> bool:
        """Wait for a word of the controller's; False when it is not to come."""
        deadline = time.monotonic() + limit_s
        while True:
            # What was said is heard after the deadline too: it was this end that was held up.
            over = time.monotonic() >= deadline
            try:
                said = self._words.get(timeout=0.0 if over else _LOOK_S)
                if said is None or said == word:
                    return said == word
            except queue.Empty:
                if over:
                    return False
            # Who is to stop hands over what there is: that word is waited for all the same.
            if word == START and self._stop.is_set():
                return False

    def _wait(self, control: Control, limit_s: float) -> None:
        """Wait for the runner's end; each sign of the controller's life renews the lease."""
        begun = time.monotonic()
        while not self._stop.is_set() and time.monotonic() < begun + limit_s:
            # For a while after it was started a node that is held up does not show it yet.
            if not control.running() and (
                os.path.exists(os.path.join(control.folder, STATUS)) or time.monotonic() > begun + _BEGIN_S
            ):
                return
            with contextlib.suppress(queue.Empty):
                if self._words.get(timeout=_LOOK_S) == ALIVE:
                    # One that is gone was taken over: the runner sees that for itself.
                    with contextlib.suppress(OSError):
                        os.utime(control.lease.alive_path(control.run))
                    self._output.say(PROGRESS, _status(os.path.join(control.folder, STATUS)))

    def _hand_over(self, control: Control) -> None:
        """End what still runs, send what was measured, and clear the node once the controller has it."""
        packed = control.collect(False)
        if not packed["archive"]:
            return
        with open(packed["archive"], "rb") as handle:
            self._output.say(ARCHIVE, handle.read())
        if self._heard(f"{TAKEN} {self._name}", _TAKEN_S):
            control.remove(False)


def _status(path: str) -> dict[str, Any]:
    said = atomic_files.read_json(path)
    return {key: said.get(key) for key in TOLD} if said is not None else {}


def _unlimit_locked_memory() -> None:
    """Let the tools register memory: Slurm hands on the limits of whoever called srun."""
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    with contextlib.suppress(OSError, ValueError):  # where root may not, RDMA tools say what they lack
        resource.setrlimit(resource.RLIMIT_MEMLOCK, unlimited)


def _run_command(argv: Sequence[str]) -> tuple[int, str, str]:
    # This is a program of its own, where there is no AnsibleModule whose run_command could do it.
    done = subprocess.run(  # pylint: disable=ansible-bad-function
        list(argv), stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    return done.returncode, done.stdout.decode("utf-8", "replace"), done.stderr.decode("utf-8", "replace")


def _printed(argv: Sequence[str]) -> str | None:
    """Return what a tool prints for the facts; None when there is no such tool, or it hangs."""
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
