# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Control a run on its node, from the test schedule to the archive; module fabric_run without Ansible.

A run has two folders: the schedule with its secret under /run, removed by a reboot; the results under
/var/lib, which stay until they are fetched.
"""

from __future__ import annotations

import json
import os
import shutil
import tarfile
import time
from collections.abc import Callable, Sequence
from typing import Any

from .. import node_files
from ..channel.errors import MeasurementError
from ..schedule import work_order
from . import process
from .lease import Lease
from .packed_rows import count_rows
from .record import RAW, RESULTS, STATUS

STATE_FOLDER = "/var/lib/railyard"
RUN_FOLDER = "/run/railyard"
_COLLECTED = "collected"

RunCommand = Callable[[Sequence[str]], "tuple[int, str, str]"]


class Control:
    """One run on this node.

    Args:
        run: the run id.
        node: the node's inventory name, for messages and the archive's name.
        run_command: runs an argv list and returns (exit status, output, error output).
        launcher: `systemd` or `direct`.
        state_folder: where results are kept.
        run_folder: where the order and the lease are.
    """

    def __init__(
        self,
        run: str,
        node: str,
        run_command: RunCommand,
        launcher: str = "systemd",
        state_folder: str = STATE_FOLDER,
        run_folder: str = RUN_FOLDER,
    ) -> None:
        self.run = run
        self.node = node
        if not work_order.RUN_ID.match(run):
            raise self._refusal(f"{run!r} is not a run id", "use one like 20261121T101500Z-3f2a")
        self.folder = os.path.join(state_folder, "runs", run)
        self._runs = os.path.join(state_folder, "runs")
        self._programs = os.path.join(state_folder, "bin")
        self._secret_folder = os.path.join(run_folder, run)
        self.order_path = os.path.join(self._secret_folder, "work_order.json")
        self.archive = os.path.join(self.folder, f"{node}.tar.gz")
        self.lease = Lease(run_folder)
        self._run_folder = run_folder
        self._process = process.process(launcher, run, self.folder, run_command)
        self._launcher = launcher

    def _refusal(self, message: str, fix: str) -> MeasurementError:
        return MeasurementError("internal", message, self.node, fix)

    def program_path(self, sha256: str) -> str:
        """Return where the program of this hash is kept."""
        return os.path.join(self._programs, f"runner-{sha256[:16]}.pyz")

    def has_program(self, sha256: str) -> bool:
        """Return whether the program is here and intact."""
        return node_files.sha256_of(self.program_path(sha256)) == sha256

    def stage(
        self, packed_order: str, sha256: str, source: str | None, controller: str, lease_s: float, check: bool
    ) -> dict[str, Any]:
        """Take the lease and stage the schedule and the program.

        Args:
            packed_order: this node's test schedule (`work_order.pack`).
            sha256: the program that the run needs.
            source: a file with it; None only reports whether it is needed.
            controller: the controller's name, for messages on other controllers.
            lease_s: how long the lease lasts without a sign of life.
            check: report what would change, change nothing.

        Returns:
            `changed`, `program_needed`, `program_path`.

        Raises:
            MeasurementError: the node is leased to another run, or the schedule or the program is invalid.
        """
        order_text = self._unpack_order(packed_order)
        needed = not self.has_program(sha256)
        same_order = node_files.read_text(self.order_path) == order_text
        changed = needed or not same_order
        if check:
            self._refuse_if_leased()
            return {"changed": changed, "program_needed": False, "program_path": self.program_path(sha256)}
        self.lease.take(self.run, controller, lease_s, self.node)
        self._remove_other_secrets()
        if source is not None and needed:
            self._place_program(source, sha256)
            needed = False
        # Outputs of tools and their archive are for root alone. makedirs sets the mode of the last folder
        # only.
        for folder in (self._runs, self.folder, os.path.join(self.folder, RAW), self._secret_folder):
            os.makedirs(folder, mode=0o700, exist_ok=True)
            os.chmod(folder, 0o700)
        if not same_order:
            _write_secret(self.order_path, order_text)
        return {"changed": changed, "program_needed": needed, "program_path": self.program_path(sha256)}

    def start(
        self, python: str, sha256: str, controller: str, lease_s: float, deadline_s: float, check: bool
    ) -> dict[str, Any]:
        """Start the runner, unless it runs already or has finished.

        Args:
            python: the interpreter.
            sha256: the staged program.
            controller: the controller's name.
            lease_s: seconds without a sign of life of the controller until the runner stops itself.
            deadline_s: seconds after which the run is certainly over (`worst_case_s`), calculated by the
                controller: here the module would have to bring every tool and parser to the node.
            check: only report what would be done.

        Returns:
            `changed`, `unit`, `leftovers` (runs whose results were not fetched).
        """
        self._load_order()  # raises for one that cannot be read
        begun = self._process.running() or os.path.exists(os.path.join(self.folder, STATUS))
        result = {"changed": not begun, "unit": self._process.name, "leftovers": self.leftovers()}
        if check:
            return result
        self.lease.take(self.run, controller, lease_s, self.node)
        if not begun:
            if not self.has_program(sha256):
                raise self._refusal("the runner is not staged", "run state: staged first")
            argv = [python, self.program_path(sha256), self.order_path, "--folder", self.folder]
            argv += ["--launcher", self._launcher, "--lease", self._run_folder]
            self._process.start(argv, deadline_s + 60.0)
        return result

    def running(self) -> bool:
        """Return whether the runner runs."""
        return self._process.running()

    def stop(self, check: bool) -> bool:
        """End the runner and its tools; return whether something was running."""
        running = self._process.anything()
        if running and not check:
            self._process.stop()
        return running

    def collect(self, check: bool) -> dict[str, Any]:
        """End everything of the run, pack its results, remove its secret and release the lease.

        Returns:
            `changed`, `archive`, `sha256`, `size_bytes`, `rows`; archive None when there is nothing to pack.
        """
        nothing = {"archive": None, "sha256": None, "size_bytes": 0, "rows": 0}
        stopped = self.stop(check)
        if not os.path.isdir(self.folder):
            self._release(check)
            return {"changed": stopped, **nothing}
        again = os.path.exists(os.path.join(self.folder, _COLLECTED)) and not stopped
        if check:
            return {"changed": not again, **nothing}
        if not again or not os.path.exists(self.archive):
            _pack(self.folder, self.archive)
            with open(os.path.join(self.folder, _COLLECTED), "w", encoding="utf-8") as handle:
                handle.write(f"{int(time.time())}\n")
        self._release(check)
        return {
            "changed": not again,
            "archive": self.archive,
            "sha256": node_files.sha256_of(self.archive),
            "size_bytes": os.path.getsize(self.archive),
            "rows": _count_rows(os.path.join(self.folder, RESULTS)),
        }

    def remove(self, check: bool) -> bool:
        """End everything of the run and remove its folders; return whether there was something to remove."""
        there = self.stop(check) or os.path.isdir(self.folder) or os.path.isdir(self._secret_folder)
        if there and not check:
            shutil.rmtree(self.folder, ignore_errors=True)
        self._release(check)
        return there

    def leftovers(self) -> list[str]:
        """Return the other runs on this node whose results were not fetched."""
        try:
            names = sorted(os.listdir(self._runs))
        except FileNotFoundError:
            return []
        return [
            name
            for name in names
            if name != self.run and not os.path.exists(os.path.join(self._runs, name, _COLLECTED))
        ]

    def _unpack_order(self, packed: str) -> str:
        try:
            text = work_order.unpack(packed)
            order = json.loads(text)
        except ValueError as error:
            raise self._refusal(f"the test schedule cannot be read: {error}", "stage it again") from None
        problems = work_order.check(order)
        if not problems and order["run"] != self.run:
            problems = [f"it is for run {order['run']}, not {self.run}"]
        if problems:
            raise self._refusal(f"test schedule: {'; '.join(problems)}", "stage it again")
        return text

    def _load_order(self) -> dict[str, Any]:
        try:
            return work_order.load(self.order_path)
        except work_order.WorkOrderError as error:
            raise self._refusal(str(error), "run state: staged first") from error

    def _refuse_if_leased(self) -> None:
        held = self.lease.holder()
        if held and held["run"] != self.run:
            raise MeasurementError("lease", f"leased to run {held['run']}", self.node, "wait for that run")

    def _place_program(self, source: str, sha256: str) -> None:
        found = node_files.sha256_of(source)
        if found != sha256:
            raise self._refusal(f"the uploaded runner has SHA-256 {found}, not {sha256}", "upload it again")
        os.makedirs(self._programs, mode=0o755, exist_ok=True)
        # This run holds the lease, so no older program is running.
        for name in os.listdir(self._programs):
            os.unlink(os.path.join(self._programs, name))
        draft = self.program_path(sha256) + ".new"
        shutil.copyfile(source, draft)
        os.chmod(draft, 0o644)
        os.replace(draft, self.program_path(sha256))

    def _remove_other_secrets(self) -> None:
        """Remove the secrets of other runs: this run holds the lease, so their controllers are gone."""
        for name in os.listdir(self._run_folder):
            if name != self.run and work_order.RUN_ID.match(name):
                shutil.rmtree(os.path.join(self._run_folder, name), ignore_errors=True)

    def _release(self, check: bool) -> None:
        if check:
            return
        shutil.rmtree(self._secret_folder, ignore_errors=True)
        self.lease.release(self.run)


def _pack(folder: str, archive: str) -> None:
    """Pack rows, raw outputs and the log, flat, so that a member's name is the row's `raw.name`.

    The GNU format has one header per member; the controller rejects additional headers.
    """
    # Whatever the umask is, only root can read the archive and what is unpacked from it.
    handle = os.open(archive + ".new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "wb") as stream:
        os.fchmod(handle, 0o600)
        with tarfile.open(fileobj=stream, mode="w:gz", format=tarfile.GNU_FORMAT) as packed:
            for name in (RESULTS, STATUS, "runner.log"):
                path = os.path.join(folder, name)
                if os.path.exists(path):
                    packed.add(path, arcname=name, recursive=False, filter=_private)
            raw = os.path.join(folder, RAW)
            for name in sorted(os.listdir(raw)) if os.path.isdir(raw) else []:
                packed.add(os.path.join(raw, name), arcname=name, recursive=False, filter=_private)
    os.replace(archive + ".new", archive)


def _private(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.mode = 0o600
    return member


def _write_secret(path: str, text: str) -> None:
    draft = path + ".new"
    if os.path.exists(draft):
        os.unlink(draft)
    handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(text)
    os.replace(draft, path)


def _count_rows(path: str) -> int:
    try:
        with open(path, "rb") as handle:
            return sum(map(count_rows, handle))
    except OSError:
        return 0
