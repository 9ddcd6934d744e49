# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A look becomes root only where the login user is refused; two that come to nothing end the waiting."""

from __future__ import annotations

import json
import threading
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail, AnsibleConnectionFailure
from ansible.plugins.action import ActionBase
from ansible_collections.railyard.fabric.plugins.action import fabric_watch
from ansible_collections.railyard.fabric.plugins.action.fabric_watch import ActionModule
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import waiting

RUN = "20261121T101500Z-3f2a"
STATUS = json.dumps({"done": False, "finished_tests": 2, "total_tests": 4})
SEEN = f"running\nrenewed\n812.44\n{STATUS}\n"
REFUSED = f"running\nlost\n812.44\n{STATUS}\n"
NOTHING_YET = "running\nrenewed\n812.44\n\n"
WAIT = {"run": RUN, "wait": {"lease_s": 90, "deadline_s": 600}}


def watch(monkeypatch: pytest.MonkeyPatch, execute: Any, arguments: dict[str, Any]) -> Any:
    """Run the action on a node on which commands are answered by a function; nothing waits."""
    monkeypatch.setattr(ActionBase, "run", lambda *_words: {})
    monkeypatch.setattr(ActionModule, "validate_argument_spec", lambda *_words: (None, arguments))
    monkeypatch.setattr(ActionModule, "_low_level_execute_command", execute)
    monkeypatch.setattr(fabric_watch.time, "sleep", lambda _seconds: None)
    return object.__new__(ActionModule).run(None, {"inventory_hostname": "gpu001"})


@pytest.mark.parametrize(
    ("as_user", "as_root", "asked", "renewed"),
    [
        (SEEN, None, [False], True),
        (REFUSED, SEEN, [False, True], True),
        (NOTHING_YET, SEEN, [False, True], True),
        (REFUSED, REFUSED, [False, True], False),
    ],
)
def test_root_is_tried_where_the_user_is_refused(
    monkeypatch: pytest.MonkeyPatch, as_user: str, as_root: str | None, asked: list[bool], renewed: bool
) -> None:
    seen: list[bool] = []

    def execute(_self: Any, _words: str, sudoable: bool, in_data: bytes) -> dict[str, Any]:
        assert in_data
        seen.append(sudoable)
        return {"stdout": as_root if sudoable else as_user}

    result = watch(monkeypatch, execute, {"run": RUN})
    assert (seen, result["lease_renewed"], result["total_tests"]) == (asked, renewed, 4)


@pytest.mark.parametrize("error", [AnsibleConnectionFailure("Connection timed out"), None])
def test_waiting_ends_with_what_kept_it_from_looking_twice(
    monkeypatch: pytest.MonkeyPatch, error: Exception | None
) -> None:
    looks = []

    def execute(_self: Any, _words: str, sudoable: bool, in_data: bytes) -> dict[str, Any]:
        looks.append(sudoable)
        if error:
            raise error
        return {"stdout": "garbage"}

    with pytest.raises(type(error) if error else AnsibleActionFail):
        watch(monkeypatch, execute, {**WAIT, "tell": True})
    assert len(looks) == 2


def test_the_watch_shows_a_suspect_of_a_node_without_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    said = json.dumps({"done": True, "total_tests": 4, "suspects": ["rail1\x1b[2J"]})
    told: list[str] = []
    answer = {"stdout": f"ended\nrenewed\n812.44\n{said}\n"}
    monkeypatch.setattr(fabric_watch.display, "display", told.append)
    watch(monkeypatch, lambda *_words, **_more: answer, {**WAIT, "tell": False})
    assert [line.partition(",")[0] for line in told] == ["suspect so far: gpu001 rail1"]


def test_a_look_that_hangs_is_a_missed_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def execute(_self: Any, _words: str, sudoable: bool, in_data: bytes) -> dict[str, Any]:
        threading.Event().wait(30)
        raise AssertionError

    action = object.__new__(ActionModule)
    action._node = "gpu001"
    monkeypatch.setattr(ActionModule, "_low_level_execute_command", execute)
    with pytest.raises(waiting.MissedError, match="did not answer for 1 s"):
        action._patiently(RUN, 1)
