# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils import program
from ansible_collections.railyard.fabric.plugins.module_utils.rollback import restore, snapshot, transaction
from support.nodes.network_change import NEW, OLD, STATE


def test_apply_writes_the_candidate_for_root_alone(change):
    folder, token, path = change()
    assert path.read_text() == OLD, "staging touches no file of netplan"
    assert transaction.apply(folder, token) == 0
    assert (path.read_text(), path.stat().st_mode & 0o777) == (NEW, 0o600)
    assert transaction.outcome(folder, token)["outcome"] == "pending"


def test_confirmed_change_stays_and_its_timer_goes(applied, node):
    folder, token, path = applied()
    assert transaction.confirm(folder, token)
    assert transaction.outcome(folder, token)["outcome"] == "confirmed"
    assert ["systemctl", "stop", "railyard-rail-network-expire-0123456789ab.timer"] in node.commands
    transaction.expire(folder, token)  # the timer fires a moment later all the same
    assert path.read_text() == NEW
    assert transaction.in_flight(folder) is None
    # Nothing is left beside its files.
    assert [entry.name for entry in path.parent.iterdir()] == [path.name]
    backups = [entry for entry in Path(folder, "backup").rglob("*") if entry.is_file()]
    assert [entry.read_text() for entry in backups] == [OLD]


def test_expired_change_is_undone_files_and_running_network(applied, node):
    folder, token, path = applied()
    assert node.state != STATE
    assert transaction.expire(folder, token) == 0
    assert (path.read_text(), path.stat().st_mode & 0o777) == (OLD, 0o640)
    assert node.state == STATE
    result = transaction.outcome(folder, token)
    assert (result["outcome"], result["equal"], result["differences"]) == ("rolled_back", True, [])
    assert not transaction.confirm(folder, token)
    assert transaction.in_flight(folder) is None


def test_file_that_was_not_there_is_gone_again(applied):
    folder, token, path = applied(before=None)
    assert path.exists()
    transaction.expire(folder, token)
    assert not path.exists()


def test_removed_file_comes_back(change):
    folder, token, path = change(files=[{"path": str(change.path), "text": None, "mode": 0o600}])
    transaction.apply(folder, token)
    assert not path.exists()
    transaction.expire(folder, token)
    assert path.read_text() == OLD


def test_several_files_are_written_in_order_and_all_come_back(change, tmp_path, node):
    foreign, aside, ours = (tmp_path / "etc/netplan" / name for name in ("50.yaml", "50.yaml.off", "60.yaml"))
    foreign.parent.mkdir(parents=True, exist_ok=True)
    foreign.write_text("theirs")
    foreign.chmod(0o644)
    files = [(foreign, None), (aside, "theirs"), (ours, NEW)]
    listing = sorted(path.name for path in foreign.parent.iterdir())
    folder, token, _path = change(
        before=None, files=[{"path": str(path), "text": text, "mode": 0o600} for path, text in files]
    )
    transaction.apply(folder, token)
    assert (foreign.exists(), aside.read_text(), ours.read_text()) == (False, "theirs", NEW)
    transaction.expire(folder, token)
    assert (foreign.read_text(), foreign.stat().st_mode & 0o777) == ("theirs", 0o644)
    assert sorted(path.name for path in foreign.parent.iterdir()) == listing


def test_sysctls_are_set_after_netplan_and_come_back(change, node, monkeypatch):
    kernel = {"net/ipv4/conf/ens6/arp_ignore": "0"}
    node.state["sysctls"] = kernel  # the snapshot reads the same kernel
    monkeypatch.setattr(restore, "set_sysctls", kernel.update)
    folder, token, _path = change(sysctls={"net/ipv4/conf/ens6/arp_ignore": "1"}, snapshot=node.snapshot([]))
    transaction.apply(folder, token)
    assert kernel == {"net/ipv4/conf/ens6/arp_ignore": "1"}
    transaction.expire(folder, token)
    assert kernel == {"net/ipv4/conf/ens6/arp_ignore": "0"}
    assert transaction.outcome(folder, token)["equal"]


def test_netplan_that_fails_is_undone_at_once_with_its_words(change, node):
    folder, token, path = change()
    node.apply_status = 78
    transaction.apply(folder, token)
    result = transaction.outcome(folder, token)
    assert result["outcome"] == "rolled_back"
    assert "78: bang" in result["reason"]
    assert path.read_text() == OLD


def test_what_cannot_be_brought_back_is_reported(change, node, monkeypatch):
    folder, token, _path = change()
    monkeypatch.setattr(restore, "PATIENCE_S", 0.05)
    monkeypatch.setattr(snapshot, "replay", lambda *_arguments: [])
    assert transaction.expire(folder, token) == 1
    result = transaction.outcome(folder, token)
    assert (result["equal"], result["differences"]) == (False, ["ens6: mtu_bytes 1500 is 9000"])


def test_interrupted_undo_is_finished_by_the_next(applied):
    folder, token, path = applied()
    os.rename(os.path.join(folder, "pending.json"), os.path.join(folder, "rolling_back.json"))
    assert transaction.outcome(folder, token)["outcome"] == "rolling_back"
    transaction.expire(folder, token)
    assert path.read_text() == OLD


def test_late_apply_of_an_undone_change_does_nothing(change):
    folder, token, path = change()
    transaction.expire(folder, token)
    assert transaction.apply(folder, token) == 1
    assert path.read_text() == OLD


def test_another_token_changes_nothing(change):
    folder, _token, path = change()
    assert not transaction.confirm(folder, "another")
    assert transaction.expire(folder, "another") == 0
    assert transaction.apply(folder, "another") == 1
    assert transaction.outcome(folder, "another")["outcome"] == "unknown"
    assert path.read_text() == OLD
    assert transaction.in_flight(folder) is not None


@pytest.mark.parametrize("_round", range(10))
def test_confirm_and_expire_never_both_win(applied, monkeypatch, _round):
    # The lock's usual two seconds are over at once in a process that is held up while the other one has it.
    monkeypatch.setattr(transaction.locked, "__defaults__", (60.0,))
    folder, token, path = applied()
    won = {}
    start = threading.Barrier(2)

    def confirm():
        start.wait()
        won["confirm"] = transaction.confirm(folder, token)

    def expire():
        start.wait()
        transaction.expire(folder, token)

    threads = [threading.Thread(target=confirm), threading.Thread(target=expire)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    result = transaction.outcome(folder, token)["outcome"]
    assert (won["confirm"], path.read_text(), result) in [
        (True, NEW, "confirmed"),
        (False, OLD, "rolled_back"),
    ]


@pytest.mark.parametrize(
    ("boot_id", "left_s", "stale"),
    [("this", 20, False), ("this", -1, False), ("this", -100, True), ("the one before", 20, True)],
)
def test_change_that_no_one_will_finish(monkeypatch, boot_id, left_s, stale):
    monkeypatch.setattr(transaction, "boot_id", lambda: "this")
    record = {"boot_id": boot_id, "expires_monotonic_s": time.monotonic() + left_s}
    assert transaction.is_stale(record) is stale


def test_swept_in_edits_of_others_are_taken_out_again(tmp_path, node, monkeypatch):
    ours, theirs = tmp_path / "10-netplan-ens6.network", tmp_path / "10-netplan-enp5s0.network"
    ours.write_text("new")
    theirs.write_text("edited")
    monkeypatch.setattr(restore, "generated_files", lambda: {str(ours): "new", str(theirs): "edited"})
    restore.restore_generated({str(theirs): "loaded"})
    assert not ours.exists()
    assert theirs.read_text() == "loaded"
    assert ["networkctl", "reload"] in node.commands


def test_program_runs_alone_with_the_standard_library(tmp_path):
    packed = program.build("rollback.transaction", program.loaded)
    (tmp_path / "program.pyz").write_bytes(packed)
    done = subprocess.run(
        [sys.executable, "-I", str(tmp_path / "program.pyz"), "status", "nothing"],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"token": "nothing", "outcome": "unknown"}
