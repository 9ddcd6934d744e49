"""Role slurm_drain, by plain ansible-playbook on this machine, with a program that answers as scontrol."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
from support.programs import REPO, Done, play_on_hosts

PLAY = """\
- hosts: all
  connection: local
  gather_facts: false
  environment:
    PATH: "{{ programs }}:{{ lookup('env', 'PATH') }}"
  vars:
    ansible_python_interpreter: "{{ ansible_playbook_python }}"
    slurm_drain_reason: reboot
    slurm_drain_wait_s: 1
  tasks:
    - ansible.builtin.include_role: {name: slurm_drain}
    # Two tasks: ansible-core 2.19 gives all hosts the file that the first of them names in one.
    - ansible.builtin.include_role: {name: slurm_drain, tasks_from: give_back}
      when: gives_back | default(false)
    - ansible.builtin.include_role: {name: slurm_drain, tasks_from: resume}
      when: not gives_back | default(false)
"""
OURS = {"drained": True, "reason": "Railyard: reboot"}
ANOTHERS = {"drained": True, "reason": "Railyard: restart of openibd.service"}
SOMEBODYS = {"drained": True, "reason": "Kill task failed"}
DRAIN = ["State=DRAIN", "Reason=Railyard: reboot"]
RESUME = ["State=RESUME"]
# By name: what Slurm says before, the role's variables, and what Slurm gets then.
CASES = {
    "a_job_that_ends": ({"jobs": 3}, {}, [DRAIN, RESUME]),
    "not_begun": ({}, {"gives_back": True}, [DRAIN, RESUME]),
    "broken_off_before": (OURS, {}, [RESUME]),
    "broken_off_before_and_not_begun": (OURS, {"gives_back": True}, []),
    "for_another_reason": (ANOTHERS, {}, []),
    "for_any_reason": (ANOTHERS, {"slurm_drain_any_reason": True}, [RESUME]),
    "by_somebody_else": (SOMEBODYS, {"slurm_drain_any_reason": True}, []),
    "not_asked": ({}, {"slurm_drain_enabled": "false"}, []),
    "a_job_that_does_not_end": ({"jobs": 99}, {}, [DRAIN, RESUME]),
    "a_job_on_a_drained_node": ({**OURS, "jobs": 99}, {}, []),
}
OUTLASTED = ["a_job_that_does_not_end", "a_job_on_a_drained_node"]


def make_node(folder: Path, state: dict[str, object]) -> Path:
    """Give a node its scontrol; return the folder of it."""
    folder.mkdir()
    program = (REPO / "tests/support/nodes/fake_scontrol.py").read_text().partition("\n")[2]
    (folder / "scontrol").write_text(f"#!{sys.executable}\n{program}")
    (folder / "scontrol").chmod(0o755)
    (folder / "scontrol.json").write_text(json.dumps(state))
    return folder


def play(folder: Path, hosts: dict[str, dict[str, object]], *options: str) -> Done:
    """Drain all of them, and do then what each says."""
    done = play_on_hosts(folder, PLAY, hosts, *options)
    print(done.stdout, done.stderr)
    return done


def read(programs: Path) -> tuple[list[list[str]], bool]:
    """Return what Slurm was sent, and whether the node is drained."""
    state = json.loads((programs / "scontrol.json").read_text())
    updates = [call[2:] for call in state.get("calls", []) if call[0] == "update"]
    return updates, state.get("drained", False)


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """All cases in one run, each a node of its own."""
    folder = tmp_path_factory.mktemp("nodes")
    hosts = {
        name: {"programs": str(make_node(folder / name, state)), **variables}
        for name, (state, variables, _told) in CASES.items()
    }
    hosts["without_slurm"] = {"programs": str(folder)}
    return folder, play(folder, hosts)


@pytest.mark.parametrize("name", CASES)
def test_what_was_drained_for_this_is_resumed_and_nothing_else(done, name):
    folder, _done = done
    state, _variables, told = CASES[name]
    assert read(folder / name) == (told, bool(state.get("drained")) and not told)


def test_jobs_that_outlast_the_bound_stop_the_work(done):
    _folder, run = done
    failed = [line.split()[0] for line in run.stdout.splitlines() if "ok=" in line and "failed=0" not in line]
    assert sorted(failed) == sorted(OUTLASTED)
    for name in OUTLASTED:
        assert f"{name} (" in run.stdout
    assert "still runs jobs after 1 s: what would end them is not begun (reboot)" in run.stdout
    assert "Fix: wait for them" in run.stdout


def test_a_node_without_slurm_goes_on(done):
    _folder, run = done
    (line,) = [line for line in run.stdout.splitlines() if line.startswith("without_slurm ")]
    assert "changed=0" in line
    assert "failed=0" in line


def test_check_mode_reports_the_drain_and_waits_for_no_job(tmp_path):
    programs = make_node(tmp_path / "node", {"jobs": 99})
    run = play(tmp_path, {"node": {"programs": str(programs)}}, "--check", "--diff")
    assert run.returncode == 0
    assert "+drained: True" in run.stdout
    assert "changed=1" in run.stdout
    assert read(programs) == ([], False)
