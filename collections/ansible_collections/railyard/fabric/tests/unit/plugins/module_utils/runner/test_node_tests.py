# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node measures by itself ends in a row each, whatever its tool does; and nothing of it stays."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import Check
from ansible_collections.railyard.fabric.plugins.module_utils.channel.errors import MeasurementError
from ansible_collections.railyard.fabric.plugins.module_utils.channel.rendezvous import Cancelled
from ansible_collections.railyard.fabric.plugins.module_utils.measure import registry
from ansible_collections.railyard.fabric.plugins.module_utils.measure.node_tool import (
    NodeReading,
    NodeTool,
    NodeToolSession,
)
from ansible_collections.railyard.fabric.plugins.module_utils.runner import main
from ansible_collections.railyard.fabric.plugins.module_utils.runner import node_tests as runner_tests
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import node_tests
from support.nodes import node_run

LIGHT, HEAVY = (Check(name, name, source="node", tool="scale", asked="node", wanted="scales")
                for name in ("light", "heavy"))  # fmt: skip
ONCE = Check("once", "once", source="node", tool="scale", asked="node", wanted="weigh_all")


class Scale(NodeTool):
    """Prints; fails as its subject says."""

    name = "scale"
    released: ClassVar[list[Scale]] = []

    def __init__(self) -> None:
        self.seen: list[str] = []

    def limit_s(self, policy: Mapping[str, Any]) -> float:
        return 50.0

    def planned_s(self, policy: Mapping[str, Any]) -> float:
        return 5.0

    def measure(self, session: NodeToolSession, check: str) -> NodeReading:
        self.seen.append(check)
        done = session.run_with(["echo", check, str(session.subject)], 10.0)
        if session.subject == "broken":
            raise MeasurementError("tool_failed", "no scale", session.own.host, "mend it")
        if session.subject == "wrong":
            raise ValueError("of ours")
        if session.subject == "stopped":
            raise Cancelled()
        doubt = "it wobbles" if session.subject == "doubtful" else None
        return NodeReading({"words": len(done.text.split())}, [0.0, done.ended_s], {"grams": [1, 2]}, doubt)

    def release(self) -> None:
        Scale.released.append(self)


@pytest.fixture(autouse=True)
def scales(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_tests, "NODE_TESTS", (LIGHT, HEAVY, ONCE))
    scales = dict.fromkeys(("light", "heavy", "once"), Scale)
    monkeypatch.setattr(registry, "NODE_TOOLS", {**registry.NODE_TOOLS, **scales})
    monkeypatch.setattr(registry, "CHECKS", (*registry.CHECKS, "light", "heavy", "once"))
    monkeypatch.setattr(runner_tests.busy, "node_is_busy", lambda _node, _policy: None)
    monkeypatch.setattr(Scale, "released", [])


def order(**policy: Any) -> dict[str, Any]:
    rails = [{"name": "rail0", "netdev": "eth0", "subnet": "10.0.0.0/16"}]
    return node_run.order("gpu2", ("gpu1", "gpu2", "gpu3"), rails, **policy)


def played(folder: Path, **policy: Any) -> list[dict[str, Any]]:
    return node_run.play(order(**policy), folder)


def test_each_node_finds_its_share_and_ids_agree() -> None:
    made = order(scales=["a", "b"], weigh_all=True)
    whole = list(node_tests.asked_lines(made))
    assert [(one["id"], one["node"], one["check"], one["subject"]) for one in whole[:6]] == [
        ("n00000", "gpu1", "light", "a"), ("n00001", "gpu1", "heavy", "a"), ("n00002", "gpu1", "light", "b"),
        ("n00003", "gpu1", "heavy", "b"), ("n00004", "gpu1", "once", None), ("n00005", "gpu2", "light", "a"),
    ]  # fmt: skip
    assert list(node_tests.asked_lines(made, "gpu2")) == whole[5:10]
    assert [one for one in main.iter_planned(made) if one["peer"] is None and one["rail"] is None] == whole[
        5:10
    ]


@pytest.mark.parametrize("change", [{}, {"scales": []}, {"weigh_all": False}])
def test_nothing_runs_where_the_policy_wants_nothing(change: dict[str, Any]) -> None:
    assert list(node_tests.asked_lines(order(**change))) == []


def test_a_second_order_asks_no_node_by_itself_again() -> None:
    assert list(node_tests.asked_lines({**order(weigh_all=True), "first_id": 40})) == []


def test_a_nodes_own_tests_have_their_time_in_the_runs_deadline() -> None:
    without, beside = main.worst_case_s(order()), main.worst_case_s(order(scales=["a", "b"]))
    # Four tests of 50 s at most, and 6 s around each.
    assert beside - without == pytest.approx(4 * 56)


def test_every_test_has_its_row_and_what_was_measured_is_proven_or_not(tmp_path: Path) -> None:
    rows = played(tmp_path, scales=["a", "broken", "wrong", "doubtful"])
    assert [(row["subject"], row["check"], row["status"], row["proof"]) for row in rows] == [
        ("a", "light", "measured", "proven"), ("a", "heavy", "measured", "proven"),
        ("broken", "light", "failed", None), ("broken", "heavy", "failed", None),
        ("wrong", "light", "failed", None), ("wrong", "heavy", "failed", None),
        ("doubtful", "light", "measured", "unproven"), ("doubtful", "heavy", "measured", "unproven"),
    ]  # fmt: skip
    assert rows[0]["metrics"] == {"words": 2}
    assert rows[0]["counters"] == {"grams": [1, 2]}
    assert rows[2]["error"]["class"] == "tool_failed"
    assert rows[4]["error"]["class"] == "internal"
    assert rows[6]["proof_reason"] == "it wobbles"
    assert (tmp_path / "raw" / rows[1]["raw"]["name"]).read_text() == "heavy a\n"


def test_one_tool_serves_a_subject_and_is_released_after_its_last_test(tmp_path: Path) -> None:
    played(tmp_path, scales=["a", "broken"])
    assert [tool.seen for tool in Scale.released] == [["light", "heavy"], ["light", "heavy"]]


def test_a_runner_that_is_stopped_releases_the_tool_and_writes_no_row_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(Cancelled):
        played(tmp_path, scales=["stopped"])
    assert [tool.seen for tool in Scale.released] == [["light"]]
    assert (tmp_path / "results.jsonl").read_text() == ""


def test_a_node_at_work_is_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = MeasurementError("busy", "a job", "gpu2", "wait")
    monkeypatch.setattr(runner_tests.busy, "node_is_busy", lambda _node, _policy: taken)
    assert [(row["status"], row["error"]["class"]) for row in played(tmp_path, weigh_all=True)] == [
        ("unmeasured", "busy")
    ]


def test_a_tool_that_is_not_there_is_named_with_its_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Scale, "package", "scales")
    [row] = played(tmp_path, weigh_all=True)
    assert row["error"]["class"] == "tool_missing"
    assert "apt-get install scales" in row["error"]["fix"]
