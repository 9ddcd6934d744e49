# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.action import fabric_stage


class Action(fabric_stage.ActionModule):
    """The action with a scripted node."""

    def __init__(self, replies):
        self.replies = list(replies)

    def _execute_module(self, **_arguments):
        return self.replies.pop(0)


def leased(left_s):
    return {"failed": True, "msg": "leased", "error": {"class": "lease"}, "lease_left_s": left_s}


@pytest.fixture
def slept(monkeypatch):
    pauses = []
    monkeypatch.setattr(fabric_stage.time, "sleep", pauses.append)
    return pauses


def test_lease_of_a_dead_controller_is_waited_for(slept):
    action = Action([leased(5.0), leased(2.0), {"changed": True}])
    assert action._stage({"node": "gpuserver1"}, {}) == {"changed": True}
    assert len(slept) == 2


def test_lease_that_is_renewed_is_refused_at_once(slept):
    action = Action([leased(80.0), leased(90.0), {"changed": True}])
    assert action._stage({"node": "gpuserver1"}, {})["failed"]
    assert len(slept) == 1


def test_waiting_for_a_lease_ends(slept):
    action = Action([leased(10_000.0)] * 1000)
    assert action._stage({"node": "gpuserver1"}, {})["failed"]
    assert 90 < sum(slept) < 110


def test_other_failures_are_not_waited_for(slept):
    failure = {"failed": True, "msg": "No space left on device"}
    assert Action([failure])._stage({"node": "gpuserver1"}, {}) == failure
    assert slept == []
