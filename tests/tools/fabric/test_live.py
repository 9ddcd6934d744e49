"""Which node a live fabric is read from, and what is taken of Ansible's events."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import load
from railyard.base.errors import UserError
from railyard.fabric import live
from railyard.fabric.live import Port


def loaded(folder, more: str = ""):
    file = folder / "group_vars" / "all" / "fabric.yml"
    file.write_text(file.read_text() + more)
    inventory = load.load([str(folder)])
    assert load.validate(inventory) == []
    return inventory


def test_without_a_declaration_the_first_nodes_are_tried_one_after_the_other(inventory):
    (group,) = live.choose_nodes(loaded(inventory), None)
    assert group == [(f"gpu0{number}", [Port()]) for number in (1, 2, 3, 4)]


def test_at_most_five_nodes_are_tried(inventory):
    (inventory / "hosts.yml").write_text("gpu_nodes:\n  hosts:\n    gpu[01:64]:\n")
    (group,) = live.choose_nodes(loaded(inventory), None)
    assert len(group) == 5


def test_the_declared_node_alone_is_read_from(inventory):
    assert live.choose_nodes(loaded(inventory, "  read_from: gpu03\n"), None) == [[("gpu03", [Port()])]]


def test_a_node_for_each_rail_is_a_reading_for_each_node(inventory):
    more = "  read_from: {rail0: gpu02, rail1: gpu03}\n"
    assert live.choose_nodes(loaded(inventory, more), None) == [
        [("gpu02", [Port("mlx5_0", 1)])],
        [("gpu03", [Port("mlx5_1", 1)])],
    ]


def test_one_node_for_both_rails_is_asked_once(inventory):
    more = "  read_from: {rail0: gpu02, rail1: gpu02}\n"
    found = live.choose_nodes(loaded(inventory, more), None)
    assert found == [[("gpu02", [Port("mlx5_0", 1), Port("mlx5_1", 1)])]]


def test_the_named_node_wins(inventory):
    more = "  read_from: gpu03\n"
    assert live.choose_nodes(loaded(inventory, more), "gpu04") == [[("gpu04", [Port()])]]
    with pytest.raises(UserError, match="gpu99 is no InfiniBand node"):
        live.choose_nodes(loaded(inventory), "gpu99")


def event(kind: str, **result):
    return {
        "event": kind,
        "event_data": {"host": "gpu01", "task_action": "railyard.fabric.subnet_info", "res": result},
    }


def test_captures_and_reasons_are_taken_port_by_port():
    answers = live.Answers()
    answers.feed(event("runner_item_on_ok", capture={"schema": 1}))
    answers.feed(event("runner_item_on_failed", msg="ibnetdiscover: not found"))
    answers.feed(event("runner_item_on_ok", capture="no mapping"))
    answers.feed(
        {"event": "runner_item_on_ok", "event_data": {"task_action": "debug", "res": {"capture": {}}}}
    )
    assert answers.results == [{"schema": 1}]
    assert live._reason(answers) == "ibnetdiscover: not found"


def test_what_is_no_capture_is_refused():
    with pytest.raises(UserError, match="gpu01: subnet_info") as error:
        live._take({"schema": 2}, "gpu01")
    assert error.value.exit_status == 3
