# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A look at a run is real shell on real files, one of them the link by which systemd marks a unit."""

from __future__ import annotations

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.runner import progress
from ansible_collections.railyard.fabric.plugins.module_utils.runner.lease import Lease

RUN = "20261121T101500Z-3f2a"
OTHER = "20261121T101501Z-77aa"
LEFT_S = 70
STATUS: dict[str, Any] = {
    "done": False,
    "finished_tests": 3,
    "total_tests": 10,
    "current": "m00003",
    "reason": None,
    "round": 2,
    "rounds": 7,
    "met": 1,
    "meetings": 6,
    "suspects": ["rail1"],
}


def make_status(left_s: float) -> dict[str, Any]:
    """Return what a runner says that has looked at the clock just now."""
    uptime_s = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
    return {**STATUS, "left_s": left_s + 0.2, "uptime_s": uptime_s}


class Node:
    """A node's folders, and systemd's link for the runner's unit."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = root / "var" / "runs" / RUN
        self.folder.mkdir(parents=True)
        self.unit = root / "units" / f"invocation:railyard-runner-{RUN}.service"
        self.unit.parent.mkdir()
        # systemd's link leads nowhere: its target is the invocation's id.
        self.unit.symlink_to("4b4c4b2ff9274f4c9a9ed4a5bd87e0a5")
        self.lease = Lease(str(root / "run"))

    def age(self, seconds: float) -> None:
        """Let the last sign of life be so long ago."""
        for path in (self.root / "run").iterdir():
            os.utime(path, (time.time() - seconds, time.time() - seconds))

    def look(self, only: str | None = None) -> dict[str, Any]:
        folders = [str(self.root / name) for name in ("var", "run", "units")]
        env = dict(os.environ) if only is None else {"PATH": only}
        done = subprocess.run(
            progress.command(RUN, *folders),
            input=progress.SCRIPT,
            capture_output=True,
            text=True,
            check=True,
            env=env,
        )
        assert done.stderr == ""
        return progress.read(done.stdout)


def looked(node: Node, **how: str) -> dict[str, Any]:
    """Look at a run whose runner has just reported `LEFT_S`: what is left is that, less the look's time."""
    seen = node.look(**how)
    assert LEFT_S - 60 < seen.pop("left_s") <= LEFT_S
    return seen


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


@pytest.mark.parametrize(
    ("said", "uptime", "left_s"),
    [
        ({"left_s": 70.4, "uptime_s": 800.0}, "812.44", 58),
        ({"left_s": 10.0, "uptime_s": 800.0}, "812.44", 0),
        ({}, "812.44", None),
        ({"left_s": None, "uptime_s": 800.0}, "812.44", None),
        ({"left_s": 70.4, "uptime_s": 800.0}, "", None),
    ],
)
def test_what_is_left_is_what_the_runner_reported_less_the_time_since(
    said: dict[str, Any], uptime: str, left_s: int | None
) -> None:
    assert progress.read(f"running\nrenewed\n{uptime}\n{json.dumps(said)}\n")["left_s"] == left_s


def test_a_run_that_goes_on(node: Node) -> None:
    node.lease.take(RUN, "me", 60, "gpu001")
    (node.folder / "status.json").write_text(json.dumps(make_status(LEFT_S)))
    assert looked(node) == {**STATUS, "running": True, "lease_renewed": True}


def test_a_runner_that_was_killed_is_done_and_says_why(node: Node) -> None:
    (node.folder / "status.json").write_text(json.dumps(make_status(LEFT_S)))
    node.unit.unlink()
    killed = node.look()
    assert (killed["done"], killed["running"], killed["finished_tests"]) == (True, False, 3)
    assert "killed" in killed["reason"]
    (node.folder / "status.json").write_text(json.dumps({**STATUS, "done": True, "reason": "completed"}))
    assert node.look()["reason"] == "completed"


def test_a_runner_without_a_report_yet(node: Node) -> None:
    started = node.look()
    assert (started["done"], started["running"], started["total_tests"]) == (False, True, 0)


def test_a_status_cut_off_in_the_middle_is_none(node: Node) -> None:
    (node.folder / "status.json").write_text('{"done": tr')
    assert node.look()["done"] is False


def test_looking_renews_the_lease(node: Node) -> None:
    node.lease.take(RUN, "me", 600, "gpu001")
    node.age(500)
    assert node.lease.left_s() < 110
    assert node.look()["lease_renewed"] is True
    assert node.lease.left_s() > 500
    assert node.lease.lost_by(RUN) is None


def test_looking_starts_no_program(node: Node) -> None:
    node.lease.take(RUN, "me", 60, "gpu001")
    (node.folder / "status.json").write_text(json.dumps(make_status(LEFT_S)) + "\n")
    assert looked(node, only="/nowhere") == {**STATUS, "running": True, "lease_renewed": True}


def test_the_sign_of_life_belongs_to_the_user_that_sudo_names(
    node: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    owners = []
    monkeypatch.setenv("SUDO_UID", "1000")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(os, "fchown", lambda _handle, user, group: owners.append((user, group)))
    node.lease.take(RUN, "me", 60, "gpu001")
    found = os.stat(node.lease.alive_path(RUN))
    assert (owners, found.st_mode & 0o777) == ([(1000, -1)], 0o600)


def test_no_sign_of_life_is_left_of_a_run_that_is_over(node: Node) -> None:
    node.lease.take(RUN, "me", 0.01, "gpu001")
    time.sleep(0.05)
    node.lease.take(OTHER, "me", 60, "gpu001")
    assert not os.path.exists(node.lease.alive_path(RUN))
    node.lease.release(OTHER)
    assert not os.path.exists(node.lease.alive_path(OTHER))


def test_the_lease_of_another_run_is_left_alone(node: Node) -> None:
    node.lease.take(OTHER, "me", 60, "gpu001")
    node.age(55)
    assert node.look()["lease_renewed"] is False
    assert node.lease.left_s() < 10
    os.unlink(node.lease.path)
    assert node.look()["lease_renewed"] is False
    assert not os.path.exists(node.lease.path)


@pytest.mark.parametrize("run", ["", "../x", f"{RUN}; reboot", f"{RUN}\n"])
def test_what_is_no_run_id_reaches_no_shell(run: str) -> None:
    with pytest.raises(progress.LookError, match="not a run id"):
        progress.command(run)


@pytest.mark.parametrize(
    "output", ["", "active", "sudo: a password is required\n", "running\nhello\n{}", "active\nlost\n{}"]
)
def test_an_answer_that_is_none_is_refused(output: str) -> None:
    with pytest.raises(progress.LookError, match="instead of the state of a run"):
        progress.read(output)


MADE_UP: list[Any] = [float("nan"), float("inf"), 10**400, -5, "9", True, [], {}, None]


@pytest.mark.parametrize("value", MADE_UP, ids=[str(value)[:6] for value in MADE_UP])
@pytest.mark.parametrize("key", ["finished_tests", "total_tests", "left_s", "uptime_s", "done"])
def test_a_number_that_a_node_made_up_is_none(key: str, value: Any) -> None:
    status = {"left_s": 70.4, "uptime_s": 800.0, "total_tests": 4, "finished_tests": 1, "done": False}
    status[key] = value
    seen = progress.read(f"running\nrenewed\n812.44\n{json.dumps(status)}\n")
    assert {type(seen[name]) for name in ("finished_tests", "total_tests")} == {int}
    assert 0 <= seen["finished_tests"] <= 1
    assert 0 <= seen["total_tests"] <= 4
    assert seen["left_s"] is None or 0 <= seen["left_s"] <= 871
    assert seen["done"] is (key == "done" and value is True)


def test_a_status_beyond_sense_is_none() -> None:
    begun_s = time.process_time()
    for text in ("[" * 10**6, '{"current":' * 10**5, json.dumps({"current": "x\x1b[2J" * 10**7})):
        seen = progress.read(f"running\nrenewed\n812.44\n{text}\n")
        assert (seen["total_tests"], seen["current"], seen["suspects"]) == (0, None, [])
    assert time.process_time() - begun_s < 3
    said = json.dumps({"current": "m1 " + "x" * 5000, "reason": {"a": 1}, "done": True})
    seen = progress.read(f"ended\nlost\n812.44\n{said}\n")
    assert (len(seen["current"]), seen["reason"]) == (300, None)


@pytest.mark.parametrize(
    ("value", "seen"),
    [
        (["rail1", 7, None, "x" * 500], ["rail1", "x" * 40]),
        ([f"rail{number}" for number in range(10**3)], [f"rail{number}" for number in range(64)]),
        ({"rail1": 1}, []),
        ("rail1", []),
    ],
)
def test_suspects_that_a_node_made_up_are_names_and_few(value: Any, seen: list[str]) -> None:
    assert progress.read_progress({"suspects": value}, "1")["suspects"] == seen
