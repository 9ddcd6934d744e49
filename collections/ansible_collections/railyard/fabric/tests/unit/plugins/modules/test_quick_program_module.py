# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module quick_program: one executable file, written once and only where something may be changed."""

from __future__ import annotations

import subprocess

import pytest
from ansible_collections.railyard.fabric.plugins.modules import quick_program
from support.nodes.module import FakeModule


@pytest.fixture
def put(tmp_path, monkeypatch):
    monkeypatch.setattr(quick_program, "ROOT", str(tmp_path))

    def hold(check_mode=False, role=None):
        params = {"path": str(tmp_path / "railyard-quick"), "program": "quick", "role": role}
        return quick_program.hold(FakeModule(params, check_mode=check_mode))

    return hold


def test_it_is_written_once_and_runs_by_its_own_name(put, tmp_path):
    program = tmp_path / "railyard-quick"
    seen = put(check_mode=True)
    assert (seen["changed"], program.exists(), seen["diff"][0]["before"]) == (True, False, "")
    assert (put()["changed"], put()["changed"]) == (True, False)
    done = subprocess.run(
        [program, "--expect", "/none", "--folder", tmp_path / "looks"],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",
    )
    assert (done.returncode, done.stderr) == (3, "")
    assert "expectation: /none: No such file or directory" in done.stdout
    done = subprocess.run([program, "--as", "../x"], capture_output=True, text=True, check=False, cwd="/")
    assert (done.returncode, done.stdout) == (2, "")


def test_what_was_changed_by_hand_is_written_again(put, tmp_path):
    program = tmp_path / "railyard-quick"
    put()
    program.chmod(0o644)
    assert put()["changed"]
    assert program.stat().st_mode & 0o777 == 0o755
    with program.open("ab") as handle:
        handle.write(b"#")
    assert put()["changed"]
    assert not put()["changed"]


def test_a_program_that_was_not_there_is_recorded_once(put, tmp_path):
    record = tmp_path / "var/lib/railyard/originals/quick_check.json"
    checked = put(check_mode=True, role="quick_check")
    assert not record.exists()
    assert put(role="quick_check")["diff"] == checked["diff"]
    kept = record.read_text()
    assert '"/' in kept
    (tmp_path / "railyard-quick").write_text("an earlier version\n")
    assert len(put(role="quick_check")["diff"]) == 1
    assert record.read_text() == kept


def test_an_earlier_program_without_a_record_is_no_original(put, tmp_path):
    (tmp_path / "railyard-quick").write_text("an earlier version\n")
    assert put(role="quick_check")["changed"]
    assert not (tmp_path / "var/lib/railyard/originals").exists()
