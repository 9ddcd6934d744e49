"""`railyard idle`: who has no job, from one sinfo or from a look at each node."""

from __future__ import annotations

import json
import os
import sys

import pytest
from railyard.continuous import idle
from support.inventories.on_disk import write
from support.programs import railyard


def test_by_one_sinfo(lab):
    nodes = lab.slurm.nodes()
    nodes["gpu002"] |= {"state": "drained", "reason": "fan broken", "partitions": 2}
    nodes["gpu003"]["state"] = "planned"
    del nodes["gpu004"]
    lab.slurm.change(nodes=nodes)
    done = railyard("idle", "-i", lab.inventory, "--json")
    assert done.returncode == 3, done.stderr
    found = json.loads(done.stdout)
    assert (found["cluster"], found["source"], found["idle"]) == ("lab", "slurm", ["gpu001"])
    states = {one["node"]: (one["state"], one["why"]) for one in found["nodes"]}
    assert states["gpu002"] == ("busy", "Slurm: drained (fan broken)")
    assert states["gpu003"] == ("busy", "Slurm: planned")
    assert states["gpu004"] == ("unknown", "Slurm does not know it")
    assert lab.slurm.calls("sinfo") == [["--noheader", "--all", "--Node", "--format=%N|%T|%C|%G|%E"]]


def test_all_known_is_0_and_people_get_folded_names(lab):
    done = railyard("idle", "-i", lab.inventory)
    assert done.returncode == 0, done.stderr
    assert done.stdout == "Idle: 4 of 4 nodes: gpu[001-004]\n"


def test_slurm_that_does_not_answer_is_an_error_and_no_look_at_the_nodes(lab):
    lab.slurm.change(broken={"sinfo": "Unable to contact slurm controller"})
    done = railyard("idle", "-i", lab.inventory, "--json")
    assert done.returncode == 2
    assert "Unable to contact slurm controller" in done.stderr


def feed(host, result, event="runner_on_ok", action="railyard.fabric.busy_info"):
    looks = idle.Looks(started=True)
    looks.feed(
        {"event": event, "event_data": {"host": host, "task": "x", "task_action": action, "res": result}}
    )
    return looks.states.get(host)


@pytest.mark.parametrize(
    ("result", "state"),
    [
        ({"state": "idle", "why": ""}, "idle"),
        ({"state": "busy", "why": "GPU processes"}, "busy"),
        ({"state": "unknown", "why": "nvidia-smi"}, "unknown"),
        ({"state": "IDLE", "why": ""}, "unknown"),
        ({}, "unknown"),
    ],
)
def test_what_a_node_answers(result, state):
    assert feed("gpu001", result).state == state


def test_another_task_is_no_look():
    assert feed("gpu001", {"state": "idle", "why": ""}, action="ansible.builtin.debug") is None


def test_without_slurm_a_node_looks_at_itself(lab, monkeypatch):
    """On this machine: no job runs, and no nvidia-smi is there; a node that does not answer is not idle."""
    without = os.pathsep.join(os.environ["PATH"].split(os.pathsep)[1:])
    here = f"ansible_connection: local\nansible_become: false\nansible_python_interpreter: {sys.executable}\n"
    write(lab.inventory, {"host_vars/gpu001.yml": here})
    done = railyard("idle", "-i", lab.inventory, "--json", "--limit", "gpu001", PATH=without)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert (found["source"], found["idle"]) == ("nodes", ["gpu001"])
