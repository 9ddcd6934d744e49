# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Start and end the runner itself: as a transient systemd unit, or as a process with a pid file."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Sequence

from . import launcher as units

# The runner writes the missing rows before it ends.
_FAREWELL_S = 20
_SHOWS_S = 20.0
# There while systemd is (sd_booted(3)).
_SYSTEMD = "/run/systemd/system"
RunCommand = Callable[[Sequence[str]], "tuple[int, str, str]"]


class RunnerProcess:
    """The runner of one run; `name` is its unit."""

    def __init__(self, run: str, folder: str, run_command: RunCommand) -> None:
        self.run = run
        self.name = units.runner_unit(run)
        self.log = os.path.join(folder, "runner.log")
        self._folder = folder
        self._command = run_command

    def start(self, argv: Sequence[str], limit_s: float) -> None:
        """Start it; it outlives the caller."""
        raise NotImplementedError

    def running(self) -> bool:
        """Return whether it runs."""
        raise NotImplementedError

    def anything(self) -> bool:
        """Return whether it or one of its tools runs."""
        raise NotImplementedError

    def stop(self) -> None:
        """End it, then any tool that is left."""
        raise NotImplementedError


class SystemdProcess(RunnerProcess):
    """A transient unit; its end takes its tools' units along (BindsTo)."""

    def start(self, argv: Sequence[str], limit_s: float) -> None:
        """Start the unit.

        Raises:
            OSError: systemd refused.
        """
        properties = {
            "Type": "exec",
            "RuntimeMaxSec": f"{limit_s:.0f}",
            "TimeoutStopSec": str(_FAREWELL_S),
            "KillMode": "control-group",
            "LimitMEMLOCK": "infinity",
            "StandardOutput": "append:" + self.log,
            "StandardError": "append:" + self.log,
        }
        command = ["systemd-run", "--collect", "--quiet", "--unit", self.name]
        for name, value in properties.items():
            command += ["-p", f"{name}={value}"]
        status, output, error = self._command([*command, "--", *argv])
        if status != 0:
            raise OSError(f"systemd-run failed: {(error or output).strip()}")

    def running(self) -> bool:
        """Query systemd for the runner."""
        return bool(self._units([self.name + ".service"]))

    def anything(self) -> bool:
        """Query systemd for the runner and the tools."""
        return bool(self._units(self._patterns()))

    def stop(self) -> None:
        """Stop the runner first, so that it can write its rows, then any tool that is left."""
        self._command(["systemctl", "stop", self.name + ".service"])
        for unit in self._units(self._patterns()):
            self._command(["systemctl", "stop", unit])

    def _patterns(self) -> list[str]:
        return [self.name + ".service", f"railyard-{self.run}-*.service"]

    def _units(self, patterns: Sequence[str]) -> list[str]:
        """Return the existing units of these names.

        Raises:
            OSError: systemd does not answer.
        """
        states = "--state=active,activating,deactivating,reloading"
        argv = ["systemctl", "list-units", "--plain", "--no-legend", "--full", states, *patterns]
        status, output, error = self._command(argv)
        # No answer does not mean that nothing runs: a runner would continue without its lease. Without
        # systemd no unit runs.
        if status != 0 and os.path.isdir(_SYSTEMD):
            raise OSError(f"systemctl list-units failed: {(error or output).strip()}")
        return [line.split()[0] for line in output.splitlines() if line.strip()]


class DirectProcess(RunnerProcess):
    """A process of its own session with a pid file, for machines without systemd."""

    def start(self, argv: Sequence[str], limit_s: float) -> None:
        """Start it; the runner enforces its deadline itself."""
        with open(self.log, "ab") as log:
            # It outlives the module; run_command would wait for it.
            process = subprocess.Popen(  # pylint: disable=ansible-bad-function
                list(argv), stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/"
            )
        with open(self._pid_file(), "w", encoding="ascii") as handle:
            handle.write(str(process.pid))
        # Just after exec the kernel shows no command line yet, and `running` would not recognize the process.
        deadline = time.monotonic() + _SHOWS_S
        while self._pid() is None and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.01)

    def running(self) -> bool:
        """Return whether the process of the pid file is this run's runner."""
        return self._pid() is not None

    def anything(self) -> bool:
        """Return the same: the tools are the runner's children and die with it."""
        return self.running()

    def stop(self) -> None:
        """End it: SIGTERM, then SIGKILL."""
        for number, patience_s in ((signal.SIGTERM, float(_FAREWELL_S)), (signal.SIGKILL, 5.0)):
            pid = self._pid()
            if pid is None:
                return
            with contextlib.suppress(ProcessLookupError):  # it has just ended by itself
                os.kill(pid, number)
            deadline = time.monotonic() + patience_s
            while self._pid() is not None and time.monotonic() < deadline:
                time.sleep(0.05)

    def _pid_file(self) -> str:
        return os.path.join(self._folder, "runner.pid")

    def _pid(self) -> int | None:
        try:
            with open(self._pid_file(), encoding="ascii") as handle:
                pid = int(handle.read())
            with open(f"/proc/{pid}/cmdline", "rb") as handle:
                # The kernel reuses pids: the run's folder on the command line identifies the runner.
                return pid if self._folder.encode() in handle.read() else None
        except (OSError, ValueError):
            return None


def process(launcher: str, run: str, folder: str, run_command: RunCommand) -> RunnerProcess:
    """Return the runner's process by the launcher's name."""
    kinds: dict[str, type[RunnerProcess]] = {"systemd": SystemdProcess, "direct": DirectProcess}
    return kinds[launcher](run, folder, run_command)
