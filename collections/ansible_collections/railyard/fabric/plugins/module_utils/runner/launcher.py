# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start a tool so that it cannot outlive its test: as a transient systemd unit, or as a process group.

The launcher is configured, never chosen silently. `direct` is for machines without systemd.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from ..channel import peer_filter
from ..channel.errors import MeasurementError
from ..channel.rendezvous import raise_if_stopped

_POLL_S = 0.02
# How soon a wait notices that the runner has to stop; each look costs CPU time of the node under test.
_SLICE_S = 1.0
_STOP_S = 2
_SYSTEMCTL_S = 20
# The user id of a tool that needs no privileges: systemd and Debian do not assign 65520 to 65533. Not
# DynamicUser, whose seccomp filter restricts CPU speculation on kernels before 5.16 and so slows down what it
# measures.
_UNUSED_ID = "65533"
_UNPRIVILEGED = ("setpriv", "--reuid", _UNUSED_ID, "--regid", _UNUSED_ID, "--clear-groups", "--")
# Restrictions that suit every tool, also as root.
_SANDBOX = {"NoNewPrivileges": "yes", "ProtectSystem": "strict", "ProtectHome": "yes", "PrivateTmp": "yes"}


def tool_unit(run: str, test_id: str, end: str, number: int = 0) -> str:
    """Return the name of a tool's unit; `stop` finds all of a run by `railyard-RUN-*`."""
    which = f"-{number}" if number else ""
    return f"railyard-{run}-{test_id}-{end}{which}"


def runner_unit(run: str) -> str:
    """Return the name of the runner's own unit."""
    return f"railyard-runner-{run}"


class Launched:
    """A started tool; its output goes to a file."""

    def __init__(self, process: subprocess.Popen[bytes], unit: str) -> None:
        self._process = process
        self.unit = unit

    def poll(self) -> int | None:
        """Return the exit status, or None while it runs."""
        return self._process.poll()

    def wait(self, limit_s: float, stop: threading.Event) -> int | None:
        """Return the exit status, or None when it still runs after `limit_s`.

        Raises:
            Cancelled: the runner has to stop.
        """
        deadline = time.monotonic() + limit_s
        with _watch_exit(self._process) as wait_exit:
            while self.poll() is None:
                raise_if_stopped(stop)
                left = deadline - time.monotonic()
                if left < 0:
                    # Look once more: this process may have been the one that was delayed.
                    return self.poll()
                wait_exit(min(left, _SLICE_S))
        return self.poll()

    def accept_only(self, peer: str) -> bool:
        """Restrict the listening tool to packets from one address; return whether that worked."""
        raise NotImplementedError

    def end(self) -> None:
        """Stop the tool and everything that it started; returns when it is gone."""
        raise NotImplementedError


class Launcher:
    """Starts tools; they end with the runner's unit, `own_unit`."""

    launched: type[Launched]

    def __init__(self, own_unit: str) -> None:
        self.own_unit = own_unit

    def argv(
        self, unit: str, argv: Sequence[str], limit_s: float, capabilities: str | None, only_peer: str | None
    ) -> list[str]:
        """Return the full command line; the arguments are those of `start`."""
        raise NotImplementedError

    def start(
        self,
        unit: str,
        argv: Sequence[str],
        limit_s: float,
        output: str,
        capabilities: str | None = None,
        only_peer: str | None = None,
        stdin: int = subprocess.DEVNULL,
    ) -> Launched:
        """Start a tool.

        Args:
            unit: its name.
            argv: the command line.
            limit_s: seconds after which it is ended.
            output: the file that its standard output and error are appended to.
            capabilities: the capabilities that it needs; with "" it does not run as root, with None it has
                all.
            only_peer: the only address that may connect, where the launcher can enforce that at the start;
                once it listens, `accept_only` can.
            stdin: what it reads from; `--pipe` passes it on to a unit.

        Raises:
            OSError: it could not be started.
        """
        command = self.argv(unit, argv, limit_s, capabilities, only_peer)
        return self.launched(_popen(command, output, stdin), unit)


class SystemdLaunched(Launched):
    """A transient unit, with the `systemd-run` that waits for it."""

    def accept_only(self, _peer: str) -> bool:
        """Return True: the unit was started with the filter."""
        return True

    def end(self) -> None:
        """Stop the unit: systemd ends its whole control group."""
        # 0 means that the unit has ended. Any other status may come from systemd-run itself (the bus
        # connection was lost), which leaves its unit running.
        if self.poll() != 0:
            name = self.unit + ".service"
            if not _systemctl("stop", name):
                _systemctl("kill", "--signal=KILL", name)
        _finish(self._process)


def _systemctl(*words: str) -> bool:
    """Run systemctl; return whether it ended in time."""
    try:
        # There is no AnsibleModule here, and so no run_command.
        subprocess.run(  # pylint: disable=ansible-bad-function
            ["systemctl", *words],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=_SYSTEMCTL_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return True


class SystemdLauncher(Launcher):
    """Runs each tool in a transient unit of its own."""

    launched = SystemdLaunched

    def argv(
        self,
        unit: str,
        argv: Sequence[str],
        limit_s: float,
        capabilities: str | None = None,
        only_peer: str | None = None,
    ) -> list[str]:
        """Return the command line; a kernel that cannot filter a unit's packets ignores `only_peer`."""
        command = ["systemd-run", "--collect", "--pipe", "--wait", "--quiet", "--unit", unit]
        for name, value in self._properties(limit_s, capabilities, only_peer).items():
            command += ["-p", f"{name}={value}"]
        # `--` keeps a tool's own options from being read as systemd-run's.
        return [*command, "--", *(_UNPRIVILEGED if capabilities == "" else ()), *argv]

    def _properties(self, limit_s: float, capabilities: str | None, only_peer: str | None) -> dict[str, str]:
        filtered = {"IPAddressDeny": "any", "IPAddressAllow": only_peer} if only_peer else {}
        return {
            **filtered,
            **({"CapabilityBoundingSet": capabilities} if capabilities else {}),
            **_SANDBOX,
            "RuntimeMaxSec": f"{limit_s:.0f}",
            "TimeoutStopSec": str(_STOP_S),
            "KillMode": "control-group",
            "LimitMEMLOCK": "infinity",
            # When the runner dies for any reason, systemd stops its tools.
            "BindsTo": self.own_unit + ".service",
            "After": self.own_unit + ".service",
        }


class DirectLaunched(Launched):
    """A process group, and session, of its own."""

    def accept_only(self, peer: str) -> bool:
        """Filter the sockets that its processes have opened."""
        return peer_filter.confine(self._process.pid, peer)

    def end(self) -> None:
        """End the group: SIGTERM, then SIGKILL."""
        for number, patience_s in ((signal.SIGTERM, 1.0), (signal.SIGKILL, 2.0)):
            try:
                os.killpg(self._process.pid, number)
            except (ProcessLookupError, PermissionError):
                break
            deadline = time.monotonic() + patience_s
            while self.poll() is None and time.monotonic() < deadline:
                time.sleep(_POLL_S)
        _finish(self._process)


class DirectLauncher(Launcher):
    """Runs each tool as a child; the kernel kills the child when the runner dies (setpriv --pdeathsig)."""

    launched = DirectLaunched

    def argv(
        self, unit: str, argv: Sequence[str], limit_s: float, capabilities: str | None, only_peer: str | None
    ) -> list[str]:
        """Return the command line; the caller enforces `limit_s`, privileges are not restricted."""
        guard = ["setpriv", "--pdeathsig", "KILL"] if shutil.which("setpriv") else []
        return [*guard, *argv]


LAUNCHERS: dict[str, type[Launcher]] = {"systemd": SystemdLauncher, "direct": DirectLauncher}


def launcher(kind: str, run: str, host: str) -> Launcher:
    """Return the named launcher.

    Raises:
        MeasurementError: the name is unknown, or this machine does not support it.
    """
    if kind not in LAUNCHERS:
        raise MeasurementError("internal", f"launcher {kind!r} is unknown", host, "use systemd or direct")
    if kind == "systemd" and not os.path.isdir("/run/systemd/system"):
        raise MeasurementError(
            "internal",
            "systemd does not run here",
            host,
            "set launcher: direct for a machine without systemd",
        )
    return LAUNCHERS[kind](runner_unit(run))


@contextlib.contextmanager
def _watch_exit(process: subprocess.Popen[bytes]) -> Iterator[Callable[[float], object]]:
    """Yield a function that waits up to a number of seconds for the end of a process.

    It uses a pidfd: polling every few milliseconds would take CPU time from the running test.
    """
    try:
        descriptor = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # a kernel before 5.3, or a process that is gone
        yield lambda limit_s: time.sleep(min(limit_s, _POLL_S))
        return
    try:
        yield lambda limit_s: select.select([descriptor], [], [], limit_s)
    finally:
        os.close(descriptor)


def _popen(argv: Sequence[str], output: str, stdin: int) -> subprocess.Popen[bytes]:
    with open(output, "ab") as handle:
        # The tool runs in the background; run_command would wait for it.
        return subprocess.Popen(  # pylint: disable=ansible-bad-function
            list(argv),
            stdin=stdin,
            stdout=handle,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, "LC_ALL": "C"},
        )


def _finish(process: subprocess.Popen[bytes]) -> None:
    try:
        process.wait(timeout=5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
