# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Work that ends in time whatever the kernel does: in a child that is given up, and programs that are killed.

A program that hangs in a driver cannot be killed, and who reads a file of that driver hangs with it. So the
parent reads nothing itself; it waits for words, and when its time is over says what the child was at.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

# Where programs are, whatever Slurm or systemd say; the last is where some images mount NVIDIA's.
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/usr/local/nvidia/bin"
_MOST_BYTES = 1 << 20
# What was killed and hangs in the kernel is not waited for any longer.
_FAREWELL_S = 0.5

At = Callable[[str], None]


class ToolError(Exception):
    """A program gave no answer; `absent` tells whether there is none of its name."""

    def __init__(self, message: str, absent: bool = False) -> None:
        super().__init__(message)
        self.absent = absent


class Ended(NamedTuple):
    """How a program ended: its exit status and what it printed on both streams."""

    status: int
    text: str


def start(argv: Sequence[str], stderr: int = subprocess.STDOUT) -> subprocess.Popen[bytes]:
    """Start a program, its output one pipe; what it says on `stderr` is in it unless that is DEVNULL.

    Raises:
        ToolError: there is no such program, or the kernel does not start it.
    """
    # An empty part of it would be the folder that we are in.
    path = ":".join(filter(None, (os.environ.get("PATH"), PATH)))
    environment = {**os.environ, "LC_ALL": "C", "PATH": path}
    try:
        # Of a process group with its parent, which ends both.
        return subprocess.Popen(  # pylint: disable=ansible-bad-function
            list(argv), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=stderr, env=environment
        )
    except FileNotFoundError as error:
        raise ToolError(f"{argv[0]}: not found", absent=True) from error
    except OSError as error:
        raise ToolError(f"{argv[0]}: {error.strerror or error}") from error


def finish(process: subprocess.Popen[bytes], name: str, limit_s: float) -> Ended:
    """Wait for a program's end.

    Raises:
        ToolError: it did not end in time; it is killed.
    """
    try:
        output, _none = process.communicate(timeout=max(limit_s, 0.1))
    except subprocess.TimeoutExpired as error:
        late = _late(process)
        if late is None:
            end(process)
            raise ToolError(f"{name}: no answer within {limit_s:.0f} s") from error
        output = late
    return Ended(process.returncode, output[:_MOST_BYTES].decode("utf-8", errors="replace"))


def _late(process: subprocess.Popen[bytes]) -> bytes | None:
    """Return what a program printed that had ended when this process, held up, saw that time was over."""
    if process.poll() is None:
        return None
    try:
        return process.communicate(timeout=_FAREWELL_S)[0]
    except subprocess.TimeoutExpired:
        return None


def end(process: subprocess.Popen[bytes]) -> None:
    """Kill a program; one that hangs in the kernel is left behind."""
    process.kill()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.wait(_FAREWELL_S)
    if process.stdout is not None:
        process.stdout.close()


def ask(argv: Sequence[str], limit_s: float, stderr: int = subprocess.STDOUT) -> Ended:
    """Run a program to its end; `stderr` as in `start`.

    Raises:
        ToolError: there is none, or it did not end in time.
    """
    return finish(start(argv, stderr), argv[0], limit_s)


def call(work: Callable[[At], Mapping[str, Any]], limit_s: float) -> tuple[dict[str, Any] | None, str]:
    """Have a child do something, for a bounded time.

    Args:
        work: what it does; it says what it is at by calling its argument, and returns a JSON object.
        limit_s: when the child is killed and given up.

    Returns:
        What it returned; or None, and why.
    """

    def tell(say: Callable[[Any], None]) -> None:
        try:
            say({"done": work(lambda at: say({"at": at}))})
        except Exception as error:  # a bug is reported too: silence would look like a hang
            say({"broke": f"it failed: {error.__class__.__name__}: {error}"})

    try:
        said, over = listen(tell, limit_s)
    except OSError as error:
        return None, f"no process could be started: {error.strerror or error}"
    words: dict[str, Any] = {"at": "its start"}
    for one in said:
        words.update(one)
    if "done" in words:
        return words["done"], ""
    if over:
        return None, f"not done within {limit_s:.0f} s: it hung at {words['at']}"
    return None, words.get("broke") or f"it was killed at {words['at']}"


def listen(work: Callable[[Callable[[Any], None]], None], limit_s: float) -> tuple[list[Any], bool]:
    """Run something in a child process with a time limit, and return its messages until then.

    Args:
        work: what it does; it says a JSON value by calling its argument.
        limit_s: when the child is killed and given up.

    Returns:
        Its messages, and whether its time was over.

    Raises:
        OSError: no process could be started.
    """
    read_end, write_end = os.pipe()
    try:
        with warnings.catch_warnings():
            # Python 3.12 and later warn about a fork with threads; the child here takes none of their locks.
            warnings.simplefilter("ignore", DeprecationWarning)
            child = os.fork()
        if child == 0:
            os.close(read_end)
            _work(work, write_end)
    except OSError:
        os.close(read_end)
        raise
    finally:
        os.close(write_end)
    data, over = _read(read_end, time.monotonic() + limit_s)
    os.close(read_end)
    _end_all(child)
    return [json.loads(line) for line in data.split(b"\n")[:-1]], over


def _work(work: Callable[[Callable[[Any], None]], None], write_end: int) -> None:
    """Do it and end; never return into the parent's code, whatever happens."""

    def say(word: Any) -> None:
        data = json.dumps(word).encode() + b"\n"
        while data:
            data = data[os.write(write_end, data) :]

    try:
        os.setsid()
        quiet = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            # A reader of this process's output must not wait for a child that hangs.
            os.dup2(quiet, stream)
        work(say)
    except BaseException:  # noqa: S110 - there is no one to report to
        pass
    finally:
        os._exit(0)


def _read(read_end: int, deadline: float) -> tuple[bytes, bool]:
    """Return what came until the other end closed or time was over, and whether it was."""
    data = b""
    while True:
        ready, _write, _error = select.select([read_end], [], [], max(0.0, deadline - time.monotonic()))
        part = os.read(read_end, 65536) if ready else b""
        if not part:
            return data, not ready
        data += part


def _end_all(child: int) -> None:
    """Kill the child with all that it started, and reap it where the kernel lets it go."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    deadline = time.monotonic() + _FAREWELL_S
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(child, os.WNOHANG)[0] == 0 and time.monotonic() < deadline:
            time.sleep(0.01)
