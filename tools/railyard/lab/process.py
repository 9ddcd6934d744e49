"""Calls other programs with argv lists; an error has the command and its output."""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from railyard.base.errors import UserError

_PR_SET_PDEATHSIG = 1
_HELPER_DEADLINE_S = 15.0


class LabError(UserError):
    """The lab failed; the message names the lab, node or rail, and what helps.

    Its exit status is 1 unless the input was bad (2): a lab that fails has nothing to do with verdicts, but a
    caller must see that it failed.
    """

    def __init__(self, message: str, fix: str = "", exit_status: int = 1):
        super().__init__(message, fix, exit_status)


class CommandError(LabError):
    """A program that the lab called ended with a status other than 0."""

    def __init__(self, argv: Sequence[str], status: int, output: str):
        tail = "\n    ".join(output.strip().splitlines()[-12:]) or "(no output)"
        super().__init__(f"{' '.join(argv)}: exit status {status}\n    {tail}")


def run(
    argv: Sequence[str],
    *,
    stdin: bytes = b"",
    check: bool = True,
    timeout_s: float = 120,
    environment: Mapping[str, str] | None = None,
    folder: Path | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run `argv` to its end in a session of its own: Ctrl-C reaches only this process, which cleans up.

    Args:
        argv: program and arguments.
        stdin: bytes it reads; never this process's own input.
        check: raise when it ends with a status other than 0.
        timeout_s: seconds it may take.
        environment: variables that it gets in addition to this process's.
        folder: where it starts; None is where we are.

    Raises:
        CommandError: it failed and `check` is set.
        LabError: it is not installed, or took longer than `timeout_s` seconds.
    """
    try:
        done = subprocess.run(
            list(argv),
            input=stdin,
            capture_output=True,
            timeout=timeout_s,
            start_new_session=True,
            check=False,
            env=None if environment is None else {**os.environ, **environment},
            cwd=folder,
        )
    except FileNotFoundError:
        raise _missing(argv) from None
    except subprocess.TimeoutExpired:
        raise LabError(f"{' '.join(argv)}: no end after {timeout_s:g} s") from None
    text = subprocess.CompletedProcess(
        done.args, done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
    )
    if check and text.returncode != 0:
        raise CommandError(argv, text.returncode, text.stderr + text.stdout)
    return text


def read_json(argv: Sequence[str], *, check: bool = True) -> Any:
    """Return what a program prints as JSON, [] where it prints nothing; see `run`."""
    return json.loads(run(argv, check=check).stdout or "[]")


def popen(
    argv: Sequence[str], environment: Mapping[str, str] | None = None, **options: Any
) -> subprocess.Popen[bytes]:
    """Start a program without any input, in a session of its own.

    Args:
        argv: program and arguments.
        environment: variables that it gets in addition to this process's.
        options: further options of subprocess.Popen.

    Raises:
        LabError: it is not installed.
    """
    try:
        return subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            start_new_session=True,
            env={**os.environ, **(environment or {})},
            **options,
        )
    except FileNotFoundError:
        raise _missing(argv) from None


def _missing(argv: Sequence[str]) -> LabError:
    return LabError(f"the program {argv[0]} is missing", "run `tools/setup --lab`")


@contextmanager
def tied(
    argv: Sequence[str],
    environment: Mapping[str, str] | None = None,
    *,
    stdout: int = subprocess.DEVNULL,
) -> Iterator[subprocess.Popen[bytes]]:
    """Start a program that works for a while and must not outlive us; an error in the block ends it.

    Args:
        argv: program and arguments; it gets no input, and a session of its own.
        environment: variables that it gets in addition to this process's.
        stdout: where its output goes; its complaints are a pipe.

    Yields:
        The process; leaving the block waits for its end.

    Raises:
        LabError: it is not installed.
    """
    with popen(
        argv, environment, stdout=stdout, stderr=subprocess.PIPE, preexec_fn=die_with_parent
    ) as process:
        try:
            yield process
        except BaseException:
            process.kill()
            if process.stderr is not None and not process.stderr.closed:
                process.stderr.read()  # ends when the last of its children has gone
            raise


def start_helper(namespace: str, module: str, *words: str) -> None:
    """Start a helper in the background, and wait for its first line of output: then it works.

    Args:
        namespace: the network namespace that it works in.
        module: the program.
        words: its arguments; the namespace follows them, by which the program is found again.

    Raises:
        LabError: no word came; it has been killed.
    """
    program = [sys.executable, "-m", module, *words, namespace]
    path = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    argv = ["ip", "netns", "exec", namespace, *program]
    process = popen(argv, path, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if process.stdout is None:
        raise LabError("a requested pipe is missing")
    with process.stdout as said:
        ready, _, _ = select.select([said], [], [], _HELPER_DEADLINE_S)
        if not ready or not said.readline():
            process.kill()
            raise LabError(f"{' '.join(program)} did not start in namespace {namespace}")


def pids() -> Iterator[int]:
    """Return the id of all that runs on this host; it may have ended meanwhile."""
    return (int(entry.name) for entry in os.scandir("/proc") if entry.name.isdigit())


def command_lines() -> Iterator[tuple[int, bytes]]:
    """Return process id and command line (words that end in NUL) of all that runs on this host."""
    for pid in pids():
        with suppress(OSError):  # it ended meanwhile
            yield pid, Path(f"/proc/{pid}/cmdline").read_bytes()


def state_of(pid: int) -> str:
    """Return the kernel's letter for the state of a process (T: stopped, Z: dead); "" when it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def die_with_parent() -> None:
    """Ask the kernel to end this child when its parent is killed; for `preexec_fn`.

    A bootstrap that outlives its `lab up` (kill -9) would go on for half a minute and leave its folder
    behind.
    """
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
