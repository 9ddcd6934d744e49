# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json

import pytest
from ansible_collections.railyard.fabric.plugins.action import fabric_srun
from ansible_collections.railyard.fabric.plugins.module_utils.runner import agent
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import own_orders
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch.srun import Allocation, Message
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.tests.unit.plugins.plugin_utils.judge.test_folder import (
    write,
)
from support.runs.fake_run import NODES, FakeRun


class Step:
    """An srun whose nodes have printed everything at once."""

    ended, gone = False, frozenset()

    def __init__(self, said):
        self.said = said
        self.sent = []

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        pass

    def send(self, data):
        self.sent.append(data)

    def messages(self, _limit_s):
        self.ended = True
        return iter(self.said)

    def last_output(self, _name):
        return "srun: error: Killed\x1b[2J"


@pytest.fixture
def measure(tmp_path, monkeypatch):
    """Measure the nodes of a run by an srun that brings these words; return what was done, and the step."""
    run = FakeRun()
    folder = write(run, tmp_path)
    folder.write(run_folder.WORK_ORDER, run_folder.pretty(run.order))
    own_orders.keep(folder, run.plan, run.facts, run.order)

    def measured(said):
        step = Step([Message(name, kind, data) for name, kind, data in said])
        work = fabric_srun._Measure(folder, Allocation("614", NODES), {name: name for name in NODES})
        monkeypatch.setattr(work, "start", lambda _most: step)
        work.run()
        return work, step

    return measured


def hello(task, **more):
    return (task, agent.HELLO, json.dumps({"name": task, "root": True, **more}).encode())


def test_each_node_is_sent_its_own_order_and_the_secret_once(measure):
    work, step = measure([])
    message = json.loads(step.sent[0])
    assert list(message["nodes"]) == list(NODES)
    order = {**message["common"], **message["nodes"][NODES[1]], "secret": message["secret"]}
    assert order == fabric_srun.orders.Orders(work.folder).build(NODES[1])
    assert step.sent[0].count(message["secret"].encode()) == 1


ENDLESS = b'{"finished_tests":1%s,"total_tests":1}' % (b"0" * 400)
ANOTHERS = b'{"message": "\\u001b[2J", "host": "gpuserver2", "class": 7}'


def test_how_far_the_slowest_is_and_who_is_suspect_so_far_are_reported(measure, monkeypatch):
    told = []
    monkeypatch.setattr(fabric_srun, "_SAY_EVERY_S", -1.0)
    monkeypatch.setattr(fabric_srun.display, "display", told.append)
    far = {"total_tests": 9, "round": 2, "rounds": 7, "met": 2, "meetings": 6, "suspects": ["rail1"]}
    said = [(name, {**far, "finished_tests": place}) for place, name in enumerate(NODES, 3)]
    measure([(name, agent.PROGRESS, json.dumps(words).encode()) for name, words in said])
    assert told[0] == "measuring: 3 of 9 tests done, 2 of 7 rounds, 2 of 6 pairs"
    assert [line.partition(",")[0] for line in told[1:]] == [
        f"suspect so far: {name} rail1" for name in NODES
    ]


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ([hello(NODES[0]), (NODES[0], agent.ARCHIVE, b"no archive")], "archive"),
        ([(NODES[0], agent.ARCHIVE, b"before it said who it is")], "Killed"),
        ([hello(NODES[0], name=NODES[1])], "it says it is"),
        ([hello(NODES[0], root=1)], "not root"),
        ([hello(NODES[0], words="x" * 2**20)], "None"),
        ([hello(NODES[0]), (NODES[0], agent.PROGRESS, ENDLESS)], "Killed"),
        ([hello(NODES[0]), (NODES[0], agent.ERROR, ANOTHERS)], ""),
    ],
)
def test_text_of_a_node_is_ascribed_to_that_node_alone(measure, monkeypatch, said, why):
    monkeypatch.setattr(fabric_srun, "_SAY_EVERY_S", -1.0)
    work, step = measure(said)
    assert work.done == set()
    assert why in work.failed[NODES[0]]
    assert not any(sent.startswith(agent.TAKEN.encode()) for sent in step.sent)
    rows = work.folder.rows(run_folder.OBSTACLES)[0]
    assert [(row["node"], row["error"]["host"]) for row in rows if row["node"] == NODES[0]] == [
        (NODES[0],) * 2
    ]
    assert all(row["error"]["message"].isprintable() and len(row["error"]["message"]) < 500 for row in rows)
