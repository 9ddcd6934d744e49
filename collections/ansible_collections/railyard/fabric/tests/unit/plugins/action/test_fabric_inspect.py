# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A node's facts are its word: whatever it says, it is one row of a sane size under the inventory's name."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import pytest
from ansible.plugins.action import ActionBase
from ansible_collections.railyard.fabric.plugins.action import fabric_inspect
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import summary
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder
from ansible_collections.railyard.fabric.tests.unit.plugins.plugin_utils.judge.test_folder import (
    write,
)
from support.runs.fake_run import NODES, FakeRun

HONEST, HOSTILE = NODES
WORDS = "\x1b[2J\x1b]0;mine\x07" + "gone\n" * 10**6


class Inspect(fabric_inspect.ActionModule):
    """The action with a node behind it that answers."""

    def __init__(self, folder: RunFolder, reply: dict[str, Any]) -> None:
        self._folder = folder
        self._reply = reply

    def validate_argument_spec(self, *_words: Any) -> Any:
        return None, {"folder": str(self._folder.path)}

    def _execute_module(self, **_words: Any) -> dict[str, Any]:
        return self._reply


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunFolder:
    """A run of which the honest node's facts are read."""
    monkeypatch.setattr(ActionBase, "run", lambda *_args, **_kwargs: {})
    run = FakeRun()
    folder = write(run, tmp_path)
    folder.write(run_folder.WORK_ORDER, run_folder.pretty(run.order))
    (folder.path / run_folder.FACTS).write_text(run_folder.line(run.facts[0]) + "\n", encoding="utf-8")
    return folder


def inspect(folder: RunFolder, reply: dict[str, Any]) -> Any:
    return Inspect(folder, reply).run(None, {"inventory_hostname": HOSTILE})


def facts(**changes: Any) -> dict[str, Any]:
    return {"rail_info": {**FakeRun().facts[1], **changes}, "ansible_facts": {"railyard_run": "mine"}}


def nested(depth: int) -> Any:
    value: Any = 1
    for _level in range(depth):
        value = [value]
    return value


def test_facts_are_of_the_node_that_was_queried(folder: RunFolder) -> None:
    result = inspect(
        folder, facts(node=HONEST, run="20251121T101500Z-3f2a", memlock_bytes=float("nan"), kernel="\ud800")
    )
    assert result == {"changed": False, "inspected": True}
    row = folder.rows(run_folder.FACTS)[0][1]
    assert (row["node"], row["run"], row["hostname"]) == (HOSTILE, folder.name, HONEST)
    assert (row["memlock_bytes"], row["kernel"]) == (None, "?")
    assert rejudge.rejudge(folder.path) == 0


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        (facts(warnings=["x" * 100] * 10**6), "facts of 1[0-9]{8} bytes"),
        (facts(warnings=nested(500)), "nested"),
        (facts(warnings=nested(30000)), "nested"),
        ({"rail_info": WORDS}, "no facts"),
        ({"failed": True, "msg": WORDS, "module_stdout": WORDS}, "gone"),
        ({"failed": True, "msg": ["no", {"text": "gone"}]}, "gone"),
    ],
)
def test_facts_beyond_sense_leave_the_node_unmeasured_and_named(
    folder: RunFolder, reply: dict[str, Any], told: str
) -> None:
    begun_s = time.process_time()
    result = inspect(folder, reply)
    assert time.process_time() - begun_s < 5
    assert set(result) == {"changed", "failed", "msg"}
    (row,) = folder.rows(run_folder.OBSTACLES)[0]
    assert (row["node"], row["error"]["class"]) == (HOSTILE, "not_inspected")
    for text in (result["msg"], row["error"]["message"]):
        assert re.search(told, text)
        assert text.isprintable()
        assert len(text) < 1000
    folder.write(run_folder.WORK_ORDER, run_folder.pretty({**FakeRun().order, "absent": [HOSTILE]}))
    said = summary.summarise(folder.path)
    assert said["exit_status"] == 3
    assert {one["cause_class"] for one in said["problems"] if one["node"] == HOSTILE} == {"not_inspected"}
    of_facts = ("link", "address", "mtu")
    assert not [one for one in said["problems"] if one["node"] == HONEST and one["check"] in of_facts]
