"""Which node a live fabric is read from, and what is taken of Ansible's events."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import load
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet import captures
from railyard.base.errors import UserError
from railyard.fabric import live
from railyard.fabric.live import Port
from support.small_fabric import make_net, write_capture


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


def test_one_node_for_both_rails_is_queried_once(inventory):
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


def test_the_modules_own_reason_is_kept():
    """Ansible says `One or more items failed` for all of them."""
    answers = live.Answers()
    answers.feed(event("runner_item_on_failed", msg="ibnetdiscover: not found"))
    answers.feed(event("runner_item_on_ok", msg="fine"))
    assert live._reason(answers) == "ibnetdiscover: not found"


def test_what_was_kept_of_a_node_is_loaded(tmp_path):
    assert live._take(tmp_path / "0", "gpu01") is None
    folder = write_capture(tmp_path / "0", make_net())
    capture = captures.load(str(folder))
    captures.write(capture._replace(host="gpu01"), str(folder))
    assert live._take(folder, "gpu01").host == "gpu01"
    for name in ("ibnetdiscover.txt", "iblinkinfo.txt"):
        (folder / name).write_text("")
    with pytest.raises(UserError, match="gpu01: no file has the links") as error:
        live._take(folder, "gpu01")
    assert error.value.exit_status == 3
