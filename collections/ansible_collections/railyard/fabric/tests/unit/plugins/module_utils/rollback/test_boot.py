# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import shutil
import subprocess

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils import atomic_files
from ansible_collections.railyard.fabric.plugins.module_utils.rollback import boot, restore, transaction
from support.nodes.network_change import NEW, OLD, STATE


def units(folder):
    return sorted(
        os.path.relpath(os.path.join(place, name), folder)
        for place, _folders, names in os.walk(folder)
        for name in names
    )


ARMED = [
    "multi-user.target.wants/railyard-rail-network-settle.service",
    "railyard-rail-network-boot.service",
    "railyard-rail-network-settle.service",
    "sysinit.target.wants/railyard-rail-network-boot.service",
]


@pytest.fixture
def reset(monkeypatch, node):
    """Reset the node: its running network is gone, its files are what is on disk, its boot is another."""

    def press(running=None):
        monkeypatch.setattr(transaction, "boot_id", lambda: "the next one")
        node.commands.clear()
        node.state = {**STATE, **(running or {})}

    return press


@pytest.mark.parametrize("end", [transaction.confirm, transaction.expire])
def test_next_boot_is_armed_from_staging_until_confirmation_or_undo(change, tmp_path, end):
    folder, token, _path = change()
    assert units(tmp_path / "system") == ARMED
    transaction.apply(folder, token)
    end(folder, token)
    assert units(tmp_path / "system") == []


def test_files_are_restored_before_networkd_and_generated_anew(applied, node, reset):
    folder, token, path = applied()
    reset()
    assert transaction.boot(folder) == 0
    assert (path.read_text(), path.stat().st_mode & 0o777) == (OLD, 0o640)
    assert node.commands == [["netplan", "generate"]]
    assert transaction.outcome(folder, token)["outcome"] == "rolling_back"
    # a controller that calls now has to wait; it does not get the answer that nothing will finish it
    assert not transaction.is_stale(transaction.in_flight(folder))


def test_running_network_is_checked_and_replayed_after_networkd(applied, node, reset, tmp_path, monkeypatch):
    monkeypatch.setattr(restore, "BOOT_PASSIVE_S", 0.0)
    folder, token, _path = applied()
    # networkd leaves an MTU alone that the old file does not set
    reset({"links": {"ens6": {**STATE["links"]["ens6"], "mtu_bytes": 4000}}})
    transaction.boot(folder)
    assert transaction.settle(folder) == 0
    assert node.state["links"]["ens6"]["mtu_bytes"] == 1500
    last = transaction.outcome(folder, token)
    assert (last["outcome"], last["equal"]) == ("rolled_back", True)
    assert "reset" in last["reason"]
    assert units(tmp_path / "system") == []
    assert transaction.in_flight(folder) is None


def test_what_others_did_since_the_boot_is_left_alone(applied, node, reset):
    folder, _token, _path = applied()
    route = {"dst": "10.9.0.0/16", "dev": "docker0", "family": "inet", "table": "main"}
    reset({"routes": [{**route, "type": "unicast", "protocol": "boot"}]})
    transaction.boot(folder)
    assert transaction.settle(folder) == 0
    assert not [argv for argv in node.commands if "route" in argv and "del" in argv]


def test_second_reset_before_the_check_is_survived(applied, reset):
    folder, token, path = applied()
    reset()
    transaction.boot(folder)
    assert transaction.boot(folder) == 0
    transaction.settle(folder)
    assert path.read_text() == OLD
    assert transaction.outcome(folder, token)["outcome"] == "rolled_back"


def test_boot_after_a_confirmation_changes_nothing(applied, node, reset, tmp_path):
    folder, token, path = applied()
    transaction.confirm(folder, token)
    boot.arm(folder, "python3", "program.pyz")  # as if the reset had come between rename and removal
    reset()
    assert (transaction.boot(folder), transaction.settle(folder)) == (0, 0)
    assert (path.read_text(), node.commands) == (NEW, [])
    assert units(tmp_path / "system") == []


def test_files_come_before_networkd_and_the_check_after_it(tmp_path, monkeypatch):
    monkeypatch.setattr(boot, "SYSTEM_DIR", str(tmp_path))
    boot.arm("/var/lib/railyard/rail_network", "/usr/bin/python3", "/var/lib/program.pyz")
    files, running = ((tmp_path / name).read_text() for name in ARMED[1:3])
    before = next(line for line in files.splitlines() if line.startswith("Before="))
    assert {"systemd-networkd.service", "network-pre.target", "sysinit.target"} <= set(before[7:].split())
    assert "DefaultDependencies=no" in files
    assert "systemd-networkd.service" in next(line for line in running.splitlines() if "After=" in line)
    if shutil.which("systemd-analyze"):
        done = subprocess.run(
            ["systemd-analyze", "verify", "--man=no", str(tmp_path / ARMED[1]), str(tmp_path / ARMED[2])],
            capture_output=True,
            text=True,
            check=False,
        )
        assert "Unknown" not in done.stderr, done.stderr
        assert "ordering cycle" not in done.stderr, done.stderr


class FullDisk:
    """A disk on which the n-th thing written, and all after it, finds no space."""

    def __init__(self, monkeypatch, room):
        self.room = room
        for holder, name in (
            (atomic_files, "_write"),
            (atomic_files, "_copy"),
            (os, "symlink"),
            (os, "mkdir"),
        ):
            self._guard(monkeypatch, holder, name)

    def _guard(self, monkeypatch, holder, name):
        real = getattr(holder, name)

        def guarded(*arguments, **more):
            if self.room <= 0:
                raise OSError(28, "No space left on device")
            self.room -= 1
            return real(*arguments, **more)

        monkeypatch.setattr(holder, name, guarded)


def everything(folder):
    return {
        path.relative_to(folder): path.read_text()
        for path in folder.rglob("*")
        if path.is_file() and "state" not in path.parts
    }


def test_disk_that_is_full_at_any_step_of_staging_leaves_the_node_as_it_was(change, tmp_path, monkeypatch):
    change.path.write_text(OLD)
    before = everything(tmp_path)
    (tmp_path / "state").mkdir()
    left = None
    for room in range(60):
        with monkeypatch.context() as patch:
            FullDisk(patch, room)
            try:
                folder, token, _path = change(before=None)
                break
            except OSError:
                left = (everything(tmp_path), transaction.in_flight(str(tmp_path / "state")))
        assert left == (before, None)
    # old and new file, backup, program, two results, two units with links and folders, the record
    assert room > 10
    assert transaction.outcome(folder, token)["outcome"] == "pending"


def test_disk_that_fills_up_inside_the_window_stops_no_undo(change, node, tmp_path, monkeypatch):
    folder, token, path = change()
    FullDisk(monkeypatch, 0)
    assert transaction.apply(folder, token) == 0
    assert path.read_text() == NEW
    assert transaction.expire(folder, token) == 0
    assert (path.read_text(), path.stat().st_mode & 0o777) == (OLD, 0o640)
    assert node.state == STATE
    assert transaction.outcome(folder, token)["outcome"] == "rolled_back"
    assert units(tmp_path / "system") == []


def test_disk_that_fills_up_inside_the_window_stops_no_confirmation(change, monkeypatch):
    folder, token, path = change()
    FullDisk(monkeypatch, 0)
    transaction.apply(folder, token)
    assert transaction.confirm(folder, token)
    assert transaction.outcome(folder, token)["outcome"] == "confirmed"
    assert path.read_text() == NEW


def test_change_that_cannot_be_applied_is_undone_at_once(change, monkeypatch):
    folder, token, path = change()

    def broken(_entry):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(atomic_files, "put", broken)
    transaction.apply(folder, token)
    last = transaction.outcome(folder, token)
    assert (last["outcome"], path.read_text()) == ("rolled_back", OLD)
    assert "Read-only" in last["reason"]


def test_outcome_is_known_without_the_result_file(change, monkeypatch):
    folder, token, _path = change()

    def nothing(_path, _value):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(atomic_files, "write_reserved", nothing)
    transaction.expire(folder, token)
    assert transaction.outcome(folder, token)["outcome"] == "rolled_back"
