# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An action takes the options that the module of its name documents, and no others."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from ansible.errors import AnsibleActionFail
from ansible.plugins.action import ActionBase
from ansible_collections.railyard.fabric.plugins.action import fabric_judge, fabric_watch
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import documented_action, folder


def act(
    monkeypatch: pytest.MonkeyPatch, kind: type[ActionBase], given: dict[str, Any], **more: Any
) -> dict[str, Any]:
    """Run an action with these options, and return them as it gets them."""
    monkeypatch.setattr(ActionBase, "run", lambda *_args: {})
    monkeypatch.setattr(kind, "act", lambda _self, args, _variables: {"args": args, **more})
    action = kind.__new__(kind)
    action._task, action._load_name = SimpleNamespace(args=given), "it"
    return action.run()


def test_options_have_their_documented_types_and_defaults(monkeypatch: pytest.MonkeyPatch) -> None:
    wait = {"lease_s": "90", "deadline_s": 600}
    assert act(monkeypatch, fabric_watch.ActionModule, {"run": "x", "wait": wait}) == {
        "changed": False,
        "args": {"run": "x", "wait": {"lease_s": 90, "deadline_s": 600}, "tell": False},
    }


def test_an_action_may_say_that_it_changed_something(monkeypatch: pytest.MonkeyPatch) -> None:
    assert act(monkeypatch, fabric_watch.ActionModule, {"run": "x"}, changed=True)["changed"] is True


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({}, "missing required arguments: run"),
        ({"run": "x", "walt": {}}, "Unsupported parameters for .*: walt"),
        ({"run": "x", "wait": {"lease_s": 1}}, "missing required arguments: deadline_s found in wait"),
        ({"run": "x", "tell": "maybe"}, "tell"),
    ],
)
def test_other_options_are_refused(monkeypatch: pytest.MonkeyPatch, given: dict[str, Any], told: str) -> None:
    with pytest.raises(AnsibleActionFail, match=told):
        act(monkeypatch, fabric_watch.ActionModule, given)


def test_the_documented_reasons_are_those_of_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    assert documented_action.read_options("fabric_judge")["reason"]["choices"] == list(folder.REASONS)
    with pytest.raises(AnsibleActionFail, match="value of reason must be one of"):
        act(monkeypatch, fabric_judge.ActionModule, {"folder": "x", "reason": "bored"})
