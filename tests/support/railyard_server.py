# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start the railyard command in processes of its own that need not load it: a second of each is loading.

Run as a program with the number of a socket, this file loads the command, and forks for each call that comes
through the socket. The child gets the call's folder, environment, output files and limits, and ends as the
command does.
"""

from __future__ import annotations

import atexit
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

#: What Python and Ansible read when they start: a call with other values needs a new interpreter.
_READ_AT_START = ("ANSIBLE_", "PYTHON", "LANG", "LC_", "HOME", "RAILYARD_", "VIRTUAL_ENV", "MPL", "XDG_")


def at_start(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that are read when a program starts."""
    return {name: value for name, value in environment.items() if name.startswith(_READ_AT_START)}


_OURS = at_start(os.environ)


def can_run(environment: Mapping[str, str]) -> bool:
    """Tell whether a command with this environment would start as the server did."""
    return at_start(environment) == _OURS


class Ended(NamedTuple):
    """How a call ended and what it took."""

    exit_status: int
    peak_kib: int
    wall_s: float
    cpu_s: float


class _Server:
    def __init__(self, program: Path) -> None:
        ours, theirs = socket.socketpair()
        argv = [sys.executable, str(Path(__file__).resolve()), str(theirs.fileno()), str(program)]
        self.process = subprocess.Popen(argv, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        theirs.close()
        self.lines = ours.makefile("rw")
        self.socket = ours
        atexit.register(self.end)

    def end(self) -> None:
        self.lines.close()
        self.socket.close()
        self.process.wait()

    def ask(self, call: dict[str, Any], timeout_s: float) -> Ended:
        self.lines.write(json.dumps(call) + "\n")
        self.lines.flush()
        child = int(self.lines.readline())
        self.socket.settimeout(timeout_s)
        try:
            return Ended(*json.loads(self.lines.readline()))
        except TimeoutError:
            os.kill(child, signal.SIGKILL)
            raise


@cache
def _server(program: Path) -> _Server:
    return _Server(program)


def run(
    program: Path,
    argv: list[str],
    cwd: Path,
    environment: Mapping[str, str],
    address_space_bytes: int | None = None,
    timeout_s: float = 600,
) -> tuple[Ended, str, str]:
    """Run the command to its end without a terminal; return how it ended, its output and its errors."""
    with tempfile.TemporaryDirectory(prefix="railyard-call-") as place:
        files = [Path(place, name) for name in ("stdout", "stderr")]
        call = {
            "argv": argv, "cwd": str(cwd), "environment": dict(environment), "files": [*map(str, files)],
            "address_space_bytes": address_space_bytes,
        }  # fmt: skip
        ended = _server(program).ask(call, timeout_s)
        return ended, *(path.read_text() for path in files)


def _become(program: str, call: dict[str, Any]) -> None:
    """Make this process, which was just forked, what a new one would be."""
    null = os.open(os.devnull, os.O_RDONLY)
    for place, handle in enumerate(
        [null, *(os.open(path, os.O_WRONLY | os.O_CREAT) for path in call["files"])]
    ):
        os.dup2(handle, place)
        os.close(handle)
    os.chdir(call["cwd"])
    os.environ.clear()
    os.environ.update(call["environment"])
    tempfile.tempdir = None
    if call["address_space_bytes"]:
        resource.setrlimit(resource.RLIMIT_AS, (call["address_space_bytes"],) * 2)
    sys.argv = [program, *call["argv"]]


def _serve(connection: socket.socket, program: str) -> None:
    """Fork for each call; returns in the child, and ends with the last caller."""
    with connection, connection.makefile("rw") as lines:
        for line in lines:
            call = json.loads(line)
            begun_s = time.monotonic()
            child = os.fork()
            if not child:
                _become(program, call)
                return
            lines.write(f"{child}\n")
            lines.flush()
            _child, status, usage = os.wait4(child, 0)
            ended = Ended(
                os.waitstatus_to_exitcode(status), usage.ru_maxrss, time.monotonic() - begun_s,
                usage.ru_utime + usage.ru_stime,
            )  # fmt: skip
            lines.write(json.dumps(ended) + "\n")
            lines.flush()
    sys.exit()


if __name__ == "__main__":
    del sys.path[0]  # the modules beside this one are none of the command's
    from railyard import cli
    from railyard.base import paths

    os.environ["ANSIBLE_CONFIG"] = str(paths.repo_root() / "ansible.cfg")  # as the command itself does
    import railyard.fabric.command
    import railyard.operate.commands
    import railyard.plan.view
    import railyard.report.rebuild  # noqa: F401 - loaded once for all

    _serve(socket.socket(fileno=int(sys.argv[1])), sys.argv[2])
    cli.main()
