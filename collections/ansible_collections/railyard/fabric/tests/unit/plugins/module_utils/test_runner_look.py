# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A look at a run is real shell on real files; only systemctl is another one here."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils import runner_look
from ansible_collections.railyard.fabric.plugins.module_utils.lease import Lease

RUN = "20261121T101500Z-3f2a"
OTHER = "20261121T101501Z-77aa"
STATUS = {"done": False, "finished_tests": 3, "total_tests": 10, "current": "m00003", "reason": None}


class Node:
    """A node's folders, and the state of its runner's unit."""

    def __init__(self, root: Path) -> None:
        self.root, self.state = root, "active"
        self.folder = root / "var" / "runs" / RUN
        self.folder.mkdir(parents=True)
        self.lease = Lease(str(root / "run"))

    def look(self) -> dict[str, Any]:
        tools = self.root / "bin"
        tools.mkdir(exist_ok=True)
        asked = f"is-active railyard-runner-{RUN}.service"
        (tools / "systemctl").write_text(f'#!/bin/sh\n[ "$*" = "{asked}" ] && echo {self.state}\nexit 3\n')
        (tools / "systemctl").chmod(0o755)
        argv = runner_look.command(RUN, str(self.root / "var"), str(self.root / "run"))
        env = {**os.environ, "PATH": f"{tools}:{os.environ['PATH']}"}
        script = runner_look.SCRIPT
        done = subprocess.run(argv, input=script, capture_output=True, text=True, check=True, env=env)
        assert done.stderr == ""
        return runner_look.read(done.stdout)


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def test_a_run_that_goes_on(node: Node) -> None:
    node.lease.take(RUN, "me", 60, "gpu001")
    (node.folder / "status.json").write_text(json.dumps(STATUS))
    assert node.look() == {**STATUS, "running": True, "lease_renewed": True}


def test_a_runner_that_was_killed_is_done_and_says_why(node: Node) -> None:
    (node.folder / "status.json").write_text(json.dumps(STATUS))
    node.state = "inactive"
    killed = node.look()
    assert (killed["done"], killed["running"], killed["finished_tests"]) == (True, False, 3)
    assert "killed" in killed["reason"]
    (node.folder / "status.json").write_text(json.dumps({**STATUS, "done": True, "reason": "completed"}))
    assert node.look()["reason"] == "completed"


def test_a_runner_that_has_said_nothing_yet(node: Node) -> None:
    started = node.look()
    assert (started["done"], started["running"], started["total_tests"]) == (False, True, 0)


def test_a_status_cut_off_in_the_middle_is_none(node: Node) -> None:
    (node.folder / "status.json").write_text('{"done": tr')
    assert node.look()["done"] is False


def test_looking_renews_the_lease(node: Node) -> None:
    node.lease.take(RUN, "me", 60, "gpu001")
    os.utime(node.lease.path, (time.time() - 55, time.time() - 55))
    assert node.look()["lease_renewed"] is True
    assert node.lease.left_s() > 50
    assert node.lease.lost_by(RUN) is None


def test_the_lease_of_another_run_is_left_alone(node: Node) -> None:
    node.lease.take(OTHER, "me", 60, "gpu001")
    os.utime(node.lease.path, (time.time() - 55, time.time() - 55))
    assert node.look()["lease_renewed"] is False
    assert node.lease.left_s() < 10
    os.unlink(node.lease.path)
    assert node.look()["lease_renewed"] is False
    assert not os.path.exists(node.lease.path)


@pytest.mark.parametrize("run", ["", "../x", f"{RUN}; reboot", f"{RUN}\n"])
def test_what_is_no_run_id_reaches_no_shell(run: str) -> None:
    with pytest.raises(runner_look.LookError, match="no run id"):
        runner_look.command(run)


@pytest.mark.parametrize("output", ["", "active", "sudo: a password is required\n", "active\nhello\n{}"])
def test_an_answer_that_is_none_is_refused(output: str) -> None:
    with pytest.raises(runner_look.LookError, match="where a run's state was asked"):
        runner_look.read(output)
