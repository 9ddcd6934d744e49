# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible.plugins.action import ActionBase
from ansible_collections.railyard.fabric.plugins.action import fabric_open, fabric_stage
from ansible_collections.railyard.fabric.plugins.module_utils.rails import bind
from ansible_collections.railyard.fabric.plugins.module_utils.runner import main
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import own_orders
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import orders
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.tests.unit.plugins.plugin_utils.judge.test_folder import (
    write,
)
from support.runs.fake_run import NODES, FakeRun


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


@pytest.mark.parametrize(
    "left_s", [float("nan"), float("inf"), -1e308, 10**400, "90", True, [90], {"a": 1}, "\x1b[2J"]
)
def test_a_lease_of_no_time_is_not_waited_for(slept, left_s):
    reply = Action([leased(left_s)] * 1000)._stage({"node": "gpuserver1"}, {})
    assert reply["failed"]
    assert sum(slept) < 110


def test_what_a_node_answers_sets_nothing_but_whether_it_is_staged(tmp_path, monkeypatch):
    words = "\x1b[2Jno room\n" + "there\n" * 10**6
    bad = {"failed": True, "msg": words, "error": {"class": words, "message": words, "host": "gpuserver2"}}
    keys = {
        "ansible_facts": {"railyard_run": "x"},
        "lease_s": 10**9,
        "controller": words,
        "program_path": words,
    }
    run = FakeRun()
    folder = write(run, tmp_path)
    folder.write(run_folder.WORK_ORDER, run_folder.pretty(run.order))
    own_orders.keep(folder, run.plan, run.facts, run.order)
    monkeypatch.setattr(ActionBase, "run", lambda *_args, **_kwargs: {})
    arguments = {"folder": str(folder.path), "launcher": "systemd"}
    monkeypatch.setattr(Action, "validate_argument_spec", lambda *_args: (None, arguments), raising=False)
    results = [
        Action([{**keys, **reply}]).run(None, {"inventory_hostname": "gpuserver1"})
        for reply in ({"changed": True}, bad, {**bad, "error": words})
    ]
    for result in results:
        assert set(result) <= {
            "changed", "uploaded", "program_sha256", "controller", "lease_s", "deadline_s", "failed", "msg",
        }  # fmt: skip
        assert (result["lease_s"], result["controller"]) == (90, orders.controller_name())
    rows = folder.rows(run_folder.OBSTACLES)[0]
    assert len(rows) == 2
    for text in (*(result["msg"] for result in results[1:]), *(row["error"]["message"] for row in rows)):
        assert text.isprintable()
        assert text.endswith("there")
        assert len(text) < 500
    assert {(row["node"], row["error"]["host"]) for row in rows} == {("gpuserver1", "gpuserver1")}
    assert {one["outcome"] for one in rejudge.judge_folder(folder.path).verdicts} <= {"pass", "recorded"}


def test_each_nodes_order_has_what_its_own_facts_say(tmp_path):
    run = FakeRun()
    folder = write(run, tmp_path)
    folder.write(run_folder.WORK_ORDER, run_folder.pretty(run.order))
    own_orders.keep(folder, run.plan, run.facts[1:], run.order)
    rails = run.plan["nodes"][NODES[1]]["rails"]
    for made in (orders.Orders(folder), orders.Orders(folder, of_all=True)):
        assert made.build(NODES[0])["netdevs"] == {}
        assert made.build(NODES[1])["netdevs"] == bind.netdevs(rails, run.facts[1]) != {}
        with pytest.raises(orders.OrderError, match=r"gpu: .* has no test schedule"):
            made.build("gpu")


def test_of_more_nodes_than_are_looked_at_the_leases_last_until_all_is_done():
    order = {"policy": {"lease_s": 90}, "roster": [{}] * 50}
    assert fabric_stage.lease_s(order, 2400, forks=50) == 90
    assert fabric_stage.lease_s(order, 2400, forks=49) == 2400
    assert fabric_stage.lease_s(order, 60, forks=49) == 90


def test_a_run_is_waited_for_as_its_nodes_plan_it_and_an_empty_one_is_not(tmp_path):
    run = FakeRun()
    folder = write(run, tmp_path)
    waits = fabric_open.waits(folder)
    longest_s = max(main.worst_case_s({**run.order, "node": node}) for node in NODES)
    assert waits == {"lease_s": run.order["policy"]["lease_s"], "deadline_s": int(longest_s)}
    for text in ("", "[]", '{"roster": 5}', '{"roster": [{"name": "gpuserver1", "fabric": 7}]}'):
        (folder.path / "work_order.json").write_text(text)
        assert fabric_open.waits(folder) == {"lease_s": 0, "deadline_s": 0}
    (folder.path / "work_order.json").unlink()
    assert fabric_open.waits(folder) == {"lease_s": 0, "deadline_s": 0}
