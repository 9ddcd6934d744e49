"""`railyard validate --quick`: what is reported of the nodes, and the exit status of all of them."""

from __future__ import annotations

import io
import json
import sys

import pytest
from railyard.operate import quick
from railyard.operate.ansible import Outcome
from rich.console import Console
from support.programs import railyard

GOOD = {"status": 0, "line": "railyard quick: gpu1: good: 8 rails"}
WRONG = {"status": 1, "line": "railyard quick: gpu1: WRONG: link_down: rail0"}
UNKNOWN = {"status": 3, "line": "railyard quick: gpu1: UNKNOWN: not known: gpus"}
ODD = {"status": 0.0, "line": "railyard quick: gpu1: good: all"}
BROKEN = {"msg": "quick_check: gpus is 'x'"}


def looks(*results, action="railyard.fabric.quick_check", **progress):
    found = quick.Looks(started=True)
    for number, result in enumerate(results, 1):
        event = "runner_on_failed" if result.get("status") != 0 else "runner_on_ok"
        data = {"host": f"gpu{number}", "task": "Look", "task_action": action, "res": result}
        assert found.feed({"event": event, "event_data": data}) == []
    return found


def concluded(found, nodes, **ended):
    out = io.StringIO()
    outcome = Outcome(2, ended.get("interrupted", False), found)
    console = Console(file=out, width=200)
    status = quick.conclude([f"gpu{number}" for number in range(1, nodes + 1)], outcome, found, console)
    return status, out.getvalue().splitlines()


@pytest.mark.parametrize(
    ("results", "nodes", "status", "said"),
    [
        ([GOOD, GOOD], 2, 0, ["Quick look at 2 nodes: 2 good, 0 wrong, 0 not known."]),
        ([GOOD, WRONG], 2, 1, ["gpu1: WRONG: link_down: rail0", "1 good, 1 wrong, 0 not known."]),
        ([UNKNOWN], 1, 3, ["gpu1: UNKNOWN: not known: gpus", "0 good, 0 wrong, 1 not known."]),
        ([WRONG, UNKNOWN], 2, 1, ["WRONG", "UNKNOWN", "0 good, 1 wrong, 1 not known."]),
        # A node that gave nothing is no good node.
        ([GOOD], 2, 3, ["gpu2: UNKNOWN: no look was taken", "1 good, 0 wrong, 1 not known."]),
        ([BROKEN], 1, 3, ["gpu1: UNKNOWN: quick_check: gpus is 'x'", "1 not known."]),
        ([ODD], 1, 3, ["gpu1: UNKNOWN: no look was taken", "1 not known."]),
        ([], 1, 3, ["gpu1: UNKNOWN: no look was taken", "1 not known."]),
    ],
)
def test_a_line_for_each_node_that_is_not_good(results, nodes, status, said):
    found, lines = concluded(looks(*results), nodes)
    assert found == status
    assert len(lines) == len(said)
    assert [words in line for words, line in zip(said, lines, strict=True)] == [True] * len(said)


def test_the_json_object_has_every_node_good_ones_as_well():
    handed: list[dict[str, object]] = []
    console = Console(file=io.StringIO())
    outcome = Outcome(2, False, looks(GOOD, WRONG))
    assert quick.conclude(["gpu1", "gpu2", "gpu3"], outcome, outcome.progress, console, handed.append) == 1
    (found,) = handed
    assert (found["exit_status"], found["interrupted"]) == (1, False)
    assert {name: node["exit_status"] for name, node in found["nodes"].items()} == {
        "gpu1": 0,
        "gpu2": 1,
        "gpu3": 3,
    }
    assert found["nodes"]["gpu1"]["line"] == "gpu1: good: 8 rails"


def test_what_another_task_says_is_no_look():
    assert concluded(looks(GOOD, action="ansible.builtin.debug"), 1)[0] == 3


def test_an_interrupted_look_is_not_good():
    assert concluded(looks(GOOD), 1, interrupted=True)[0] == 3


def test_what_ansible_refuses_is_bad_input(capsys):
    found = quick.Looks()
    found.feed({"event": "error", "stdout": "the playbook could not be found"})
    assert concluded(found, 1) == (2, [])
    assert "could not be found" in capsys.readouterr().err


def test_on_nodes_by_ansible_with_nothing_kept(tmp_path):
    fabric = {"transport": "tcp", "node_class": "container", "mtu": 9000}
    fabric["rails"] = [{"name": "rail0", "netdev": "none0", "subnet": "10.0.0.0/24"}]
    well = {"quick_check_rails": [], "quick_check_governor": "", "quick_check_gpus": {"count": 0}}
    variables = {"ansible_connection": "local", "ansible_become": False, "fabric": fabric}
    variables["ansible_python_interpreter"] = sys.executable
    hosts = {"gpuserver1": {}, "gpuserver2": well}
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(json.dumps({"gpu_nodes": {"hosts": hosts, "vars": variables}}))
    done = railyard("validate", "--quick", "-i", inventory, "--", "--check")
    assert done.returncode == 1, done.stdout + done.stderr
    assert done.stdout.splitlines() == [
        "gpuserver1: WRONG: netdev_missing: rail0: no netdev none0",
        "Quick look at 2 nodes: 1 good, 1 wrong, 0 not known.",
    ]


@pytest.mark.parametrize(
    ("argv", "said"),
    [(["--loopback"], "add --quick"), (["--quick", "--launcher", "slurm"], "leave --launcher out")],
)
def test_options_that_do_not_fit(tmp_path, argv, said):
    done = railyard("validate", "-i", tmp_path, *argv)
    assert (done.returncode, said in done.stderr) == (2, True)
