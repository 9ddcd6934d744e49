# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A lock that only its owner can hold, with a time limit, and an error that names file and process."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils import owner_lock
from ansible_collections.railyard.fabric.plugins.module_utils.channel.errors import MeasurementError
from ansible_collections.railyard.fabric.plugins.module_utils.quick import last_look
from ansible_collections.railyard.fabric.plugins.module_utils.rollback import transaction
from ansible_collections.railyard.fabric.plugins.module_utils.runner import lease as lease_module
from ansible_collections.railyard.fabric.plugins.module_utils.runner.lease import Lease
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import history, run_lists
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder, RunFolderError

HOLD = """\
import fcntl, os, sys, time
fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(600)
"""
NOBODY = 65534


@pytest.fixture
def hold() -> Iterator[object]:
    """Return what starts a process that holds a file's lock as long as the test lasts."""
    started: list[subprocess.Popen[str]] = []

    def begin(path: object) -> int:
        process = subprocess.Popen(
            [sys.executable, "-S", "-c", HOLD, str(path)], text=True, stdout=subprocess.PIPE
        )
        started.append(process)
        assert process.stdout.readline() == "held\n"
        return process.pid

    yield begin
    for process in started:
        process.kill()
        process.wait()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_the_file_is_the_owners_alone_and_an_old_one_becomes_so(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    umask = os.umask(0)
    try:
        with owner_lock.held(path, 0):
            assert mode(path) == 0o600
    finally:
        os.umask(umask)
    path.chmod(0o644)
    with owner_lock.held(path, 0):
        assert mode(path) == 0o600


def test_a_process_that_waits_too_long_learns_of_file_process_and_time(tmp_path: Path, hold) -> None:
    path = tmp_path / "lock"
    path.touch()
    pid = hold(path)
    begun = time.monotonic()
    with pytest.raises(owner_lock.LockedError) as raised, owner_lock.held(path, 1.0):
        pass
    assert 1.0 <= time.monotonic() - begun < 30
    assert raised.value.holder == pid
    assert str(raised.value).startswith(f"process {pid} still holds the lock {path} after ")


def test_without_the_kernels_table_the_file_is_named(tmp_path: Path, hold, monkeypatch) -> None:
    path = tmp_path / "lock"
    path.touch()
    hold(path)
    monkeypatch.setattr(owner_lock, "_LOCKS", str(tmp_path / "none"))
    with pytest.raises(owner_lock.LockedError, match=f"does not name, still holds the lock {path}"):
        owner_lock.held(path, 0).__enter__()


@pytest.mark.parametrize("make", ["link", "pipe", "folder"])
def test_what_is_no_plain_file_is_refused_at_once(tmp_path: Path, make: str) -> None:
    path = tmp_path / "lock"
    {
        "link": lambda: path.symlink_to(tmp_path / "other"),
        "pipe": lambda: os.mkfifo(path),
        "folder": path.mkdir,
    }[make]()
    with pytest.raises(OSError, match="lock"), owner_lock.held(path, 0):
        pass
    assert not (tmp_path / "other").exists()


def test_an_error_under_the_lock_stays_what_it_is(tmp_path: Path) -> None:
    folder = str(tmp_path)
    for held in (transaction.locked(folder), last_look.alone(folder, "local"), Lease(folder)._locked()):
        with pytest.raises(OSError, match=r"^No room$"), held:
            raise OSError("No room")


def test_no_reader_of_reports_holds_up_a_run(tmp_path: Path, hold) -> None:
    """A user who can read a folder and its files can lock all of them: none of these is Railyard's."""
    folder = run_folder.create(tmp_path / "reports", "lab", None, {"policy": {}})
    folder.append("results.jsonl", [{"a": 1}])
    run_lists.write(folder.path)
    readable = [tmp_path / "reports", *(tmp_path / "reports").rglob("*")]
    for path in readable:
        if path.is_dir() or mode(path) & 0o077:
            hold(path)
    begun = time.monotonic()
    folder.append("results.jsonl", [{"a": 2}])
    assert run_lists.write(folder.path) == []
    assert time.monotonic() - begun < 60
    assert [row["a"] for row in folder.rows("results.jsonl")[0]] == [1, 2]
    assert (tmp_path / "reports" / history.PAGE).is_file()
    locks = [path for path in readable if path.name.endswith("lock")]
    assert len(locks) == 3, locks
    assert {mode(path) for path in locks} == {0o600}


def test_an_append_that_cannot_lock_says_who_does(tmp_path: Path, hold, monkeypatch) -> None:
    monkeypatch.setattr(run_folder, "_LOCK_PATIENCE_S", 0.2)
    folder = RunFolder(tmp_path)
    folder.append("facts.jsonl", [{"a": 1}])
    pid = hold(tmp_path / ".lock")
    with pytest.raises(RunFolderError, match=rf"facts\.jsonl cannot be written: process {pid} still holds"):
        folder.append("facts.jsonl", [{"a": 2}])


def test_no_other_user_of_a_node_holds_up_its_lease(tmp_path: Path, hold, monkeypatch) -> None:
    monkeypatch.setattr(lease_module, "_LOCK_PATIENCE_S", 0.2)
    umask = os.umask(0o022)
    try:
        Lease(str(tmp_path)).take("run", "controller", 60, "gpu001")
    finally:
        os.umask(umask)
    lock = tmp_path / "lease.lock"
    assert mode(lock) == 0o600
    pid = hold(lock)
    with pytest.raises(MeasurementError, match=f"process {pid} still holds the lock {lock}") as raised:
        Lease(str(tmp_path)).release("run")
    assert raised.value.error_class == "lease"
    assert f"ps -fp {pid}" in raised.value.fix


def test_the_lock_on_network_changes_names_its_holder(tmp_path: Path, hold) -> None:
    with transaction.locked(str(tmp_path)):
        assert mode(tmp_path / "lock") == 0o600
    pid = hold(tmp_path / "lock")
    with (
        pytest.raises(transaction.BusyError, match=f"process {pid} "),
        transaction.locked(str(tmp_path), 0.1),
    ):
        pass


@pytest.mark.skipif(os.geteuid() != 0, reason="only root becomes another user")
def test_another_user_cannot_even_open_it(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)  # its parents are passed by the descriptor
    with owner_lock.held(tmp_path / "lock", 0):
        pass
    into = f"at = os.open({str(tmp_path)!r}, os.O_RDONLY); os.setuid({NOBODY})"
    probe = f"import os; {into}; os.listdir(at); os.open('lock', os.O_RDONLY, dir_fd=at)"
    done = subprocess.run([sys.executable, "-S", "-c", probe], capture_output=True, text=True, check=False)
    assert "PermissionError" in done.stderr
