# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm as launcher: the allocation that a run is in, and one `srun` that starts a program on its nodes.

What the nodes say comes as lines that srun itself marks with the task's number, so that no node can speak for
another. The task of a number runs on the node of that place in the allocation, and says which one it is.
"""

from __future__ import annotations

import os
import queue
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import IO, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.runner import frames

PROGRAMS = ("srun", "squeue", "scontrol")
FIX = (
    "run it inside an allocation of whole nodes: salloc --exclusive --no-kill --nodelist=gpu[1-4] "
    "railyard validate --launcher slurm -i INVENTORY"
)
_ASK_S = 60.0
# A node ends its runner, which writes its rows, and packs them.
_END_S = 40.0
_MOST_LINE_CHARACTERS, _MOST_WORDS_CHARACTERS = 4096, 4000
# Lines that are buffered for the reader; so many are still delivered after the deadline.
_MOST_LATE_LINES = 4096
_LABELLED = re.compile(r"\s*([0-9]+): ?(.*)", re.DOTALL)
# What srun says of `--cpu-bind=none` where no plugin binds anything.
_NO_NEWS = "cluster configuration lacks support for cpu binding"
# `srun: error: gpu[1-2]: tasks 0-1: Exited with exit code 1`, `srun: error: gpu1: task 0: Killed`.
_ENDED = re.compile(r"srun: error: \S+: tasks? ([0-9,\-]+): ")
# Becomes root by sudo without a password. $1 is the program to start.
_START = (
    "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; export PATH; "
    'set -- "$@" "$SLURMD_NODENAME"; '
    'if [ "$(id -u)" = 0 ]; then exec "$@"; else exec sudo -n -- "$@"; fi'
)
# Takes the program from standard input, into memory: nothing to clear away, and no file system to be shared.
_BOOT = """\
import os, sys
size = int(sys.argv[1])
data = sys.stdin.buffer.read(size)
if len(data) < size: sys.exit("the program came cut off")
handle = os.memfd_create("railyard")
with open(handle, "wb", closefd=False) as target: target.write(data)
path = "/proc/self/fd/%d" % handle
sys.path.insert(0, path)
from ansible_collections.railyard.fabric.plugins.module_utils.runner import agent
sys.exit(agent.main(sys.argv[2:], path))
"""


class SrunError(Exception):
    """There is no allocation, or Slurm fails; the message says what is wrong and what to do."""


class Allocation(NamedTuple):
    """A running job, and the names of its nodes in Slurm's order."""

    job: str
    nodes: tuple[str, ...]

    def name_of(self, node: str) -> str | None:
        """Return Slurm's name of an inventory's node: the same, or without its domain; None if not in it."""
        return next((name for name in (node, node.partition(".")[0]) if name in self.nodes), None)


class Message(NamedTuple):
    """A message of a node, or why one cannot be used."""

    name: str
    kind: str
    data: bytes
    wrong: str = ""


def allocation(environ: Mapping[str, str]) -> Allocation:
    """Return the allocation that this process is in.

    Raises:
        SrunError: there is none, Slurm's programs are not here, or it does not run (any more).
    """
    missing = [name for name in PROGRAMS if shutil.which(name, path=environ.get("PATH")) is None]
    if missing:
        raise SrunError(f"there is no {missing[0]} here. Fix: run it on a machine of the Slurm cluster")
    job = environ.get("SLURM_JOB_ID") or environ.get("SLURM_JOBID") or ""
    if not job.isdigit():
        raise SrunError(f"this is not inside a Slurm allocation (SLURM_JOB_ID is not set). Fix: {FIX}")
    argv = ["squeue", "--noheader", f"--jobs={job}", "--states=RUNNING", "--format=%N"]
    listed = _ask(argv).strip()
    if not listed:
        raise SrunError(f"job {job} does not run. Fix: {FIX}")
    nodes = tuple(_ask(["scontrol", "show", "hostnames", listed]).split())
    return Allocation(job, nodes)


def _ask(argv: Sequence[str]) -> str:
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_ASK_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise SrunError(f"{argv[0]}: {error}. Fix: check that `scontrol ping` answers") from error
    if done.returncode != 0:
        output = " ".join((done.stderr or done.stdout).split())[:300]
        raise SrunError(f"{argv[0]}: {output or done.returncode}. Fix: {FIX}")
    return done.stdout


def command(job: str, nodes: Sequence[str], program_bytes: int, what: str) -> list[str]:
    """Return the argv of one srun.

    Args:
        job: the allocation.
        nodes: Slurm's names of the nodes, in the allocation's order.
        program_bytes: the length of the program, which comes first on standard input.
        what: the agent's command.
    """
    count = len(nodes)
    return [
        "srun", f"--jobid={job}", "--job-name=railyard",
        f"--nodes={count}", f"--ntasks={count}", "--ntasks-per-node=1", f"--nodelist={','.join(nodes)}",
        "--distribution=block", "--label", "--input=all", "--chdir=/", "--export=NONE", "--mpi=none",
        # All that the job has of a node: one processor of many would be what is measured.
        "--overlap", "--cpu-bind=none", "--mem=0",
        # A node that fails or ends early takes no other with it.
        "--kill-on-bad-exit=0", "--wait=0", "--no-kill",
        "/bin/sh", "-c", _START, "sh", "python3", "-I", "-c", _BOOT, str(program_bytes), what,
    ]  # fmt: skip


class Step:
    """One srun under way; a context, at whose end nothing of it is left."""

    def __init__(self, argv: Sequence[str], nodes: Sequence[str], most_bytes: Callable[[str], int]) -> None:
        """Start it.

        Args:
            argv: `command`.
            nodes: as given to it.
            most_bytes: how much a message of a node may hold.

        Raises:
            SrunError: it cannot be started.
        """
        self._nodes = tuple(nodes)
        self._readers = {name: frames.Reader(most_bytes(name)) for name in nodes}
        self._output: dict[str, str] = {}
        self._srun_output = ""
        #: Nodes whose task has ended, by srun's messages.
        self.gone: set[str] = set()
        self._lines: queue.Queue[tuple[bool, str] | None] = queue.Queue(maxsize=_MOST_LATE_LINES)
        try:
            self._process = subprocess.Popen(
                list(argv),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=environment(os.environ),
                # A kill of the command's process group must not kill srun: Slurm would then kill the
                # nodes' tasks, and leave schedule and lease behind. The end of its input ends it.
                start_new_session=True,
            )
        except OSError as error:
            raise SrunError(f"srun cannot be started: {error}") from error
        if self._process.stdin is None:
            raise SrunError("srun has no standard input, although a pipe was requested")
        self._input = self._process.stdin
        # srun reads nothing while it waits for the step to begin, and would block the writer.
        self._to_send: queue.Queue[bytes | None] = queue.Queue()
        threading.Thread(target=self._write, daemon=True).start()
        for stream, is_error in ((self._process.stdout, False), (self._process.stderr, True)):
            threading.Thread(target=self._read, args=(stream, is_error), daemon=True).start()
        self._open = 2

    def __enter__(self) -> Step:
        return self

    def __exit__(self, *_error: object) -> None:
        """Let srun end, as the nodes do without input; then terminate it, and after a while kill it."""
        self.close_input()
        self._drain(_END_S)
        for end in (self._process.terminate, self._process.kill):
            if self._process.poll() is None:
                end()
                self._drain(_END_S)
        self._process.wait()

    def send(self, data: bytes) -> None:
        """Send bytes to all nodes, at once or when srun takes them; to none when it is gone."""
        self._to_send.put(data)

    def close_input(self) -> None:
        """Tell the nodes that nothing more comes."""
        self._to_send.put(None)

    def messages(self, limit_s: float) -> Iterator[Message]:
        """Yield the nodes' messages within so many seconds, or until srun ends."""
        deadline = time.monotonic() + limit_s
        late = 0
        # Lines that have arrived are delivered after the deadline, too: this process was late.
        while self._open and late < _MOST_LATE_LINES:
            left_s = deadline - time.monotonic()
            late += left_s <= 0
            try:
                entry = self._lines.get(timeout=max(left_s, 0.0))
            except queue.Empty:
                return
            if entry is None:
                self._open -= 1
            elif (message := self._take(*entry)) is not None:
                yield message

    @property
    def ended(self) -> bool:
        """Whether srun has ended and all of its output was read."""
        return not self._open

    def last_output(self, name: str) -> str:
        """Return the last output of a node besides messages, else of srun: the cause of the failure."""
        return (self._output.get(name) or self._srun_output).strip()

    def _take(self, is_error: bool, line: str) -> Message | None:
        found = _LABELLED.fullmatch(line)
        if found is None or int(found[1]) >= len(self._nodes):
            if not line.endswith(_NO_NEWS):
                self._srun_output = (self._srun_output + line + "\n")[-_MOST_WORDS_CHARACTERS:]
            if is_error and (ended := _ENDED.match(line)):
                self.gone |= {self._nodes[task] for task in _numbers(ended[1]) if task < len(self._nodes)}
            return None
        name, text = self._nodes[int(found[1])], found[2]
        try:
            if is_error:
                raise LookupError
            message = self._readers[name].feed(text)
        except LookupError:
            self._output[name] = (self._output.get(name, "") + text + "\n")[-_MOST_WORDS_CHARACTERS:]
            return None
        except frames.FrameError as error:
            return Message(name, "", b"", str(error))
        return Message(name, *message) if message else None

    def _read(self, stream: IO[bytes] | None, is_error: bool) -> None:
        whole = True
        while stream and (line := stream.readline(_MOST_LINE_CHARACTERS)):
            # The rest of a line that is too long has no label of srun: it could impersonate another node.
            if whole:
                self._lines.put((is_error, line.decode("utf-8", "replace").rstrip("\n")))
            whole = line.endswith(b"\n")
        self._lines.put(None)

    def _write(self) -> None:
        with suppress(OSError, ValueError), self._input:
            while (data := self._to_send.get()) is not None:
                self._input.write(data)
                self._input.flush()

    def _drain(self, limit_s: float) -> None:
        """Read on, so that srun does not block on unread output."""
        for _message in self.messages(limit_s):
            pass


def environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment for srun: without what sets options of its own."""
    return {
        name: value
        for name, value in environ.items()
        if not name.startswith(("SRUN_", "SLURM_")) or name in ("SLURM_CONF", "SLURM_CLUSTERS")
    }


def _numbers(text: str) -> Iterator[int]:
    """Yield the numbers of `0-2,5`."""
    for part in text.split(","):
        first, _dash, last = part.partition("-")
        if first.isdigit() and (last or first).isdigit():
            yield from range(int(first), min(int(last or first), int(first) + 65536) + 1)
