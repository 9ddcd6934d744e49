"""The one class that starts Ansible, with real playbooks on this machine, and what it makes of events."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
from railyard.base import orphans
from railyard.base.progress import Line
from railyard.operate import ansible_args
from railyard.operate.ansible import AnsibleRun, ansible_environment
from support.programs import wait_until

INVENTORY = """
gpu_nodes:
  hosts:
    gpu1: {}
    gpu2: {}
  vars:
    ansible_connection: local
    ansible_python_interpreter: "%s"
"""
PLAYBOOK = r"""
- name: First play
  hosts: gpu_nodes
  gather_facts: false
  tasks:
    - name: Read it from the command line
      ansible.builtin.assert:
        that: spoken == 'a "b" $c'
        quiet: true
    - name: Change something
      ansible.builtin.command: "true"
      changed_when: inventory_hostname == 'gpu1'
    - name: Fail and be rescued
      block:
        - name: Fail for a while
          ansible.builtin.fail:
            msg: not for long
      rescue:
        - name: Mend it
          ansible.builtin.debug:
            msg: mended
    - name: Fail without harm
      ansible.builtin.command: "false"
      changed_when: false
      ignore_errors: true
    - name: Fail for good
      ansible.builtin.fail:
        msg: "first line\nsecond line"
      when: inventory_hostname == 'gpu2'
"""
SLOW = """
- name: Slow play
  hosts: gpu_nodes
  gather_facts: false
  tasks:
    - name: Sleep
      ansible.builtin.command: sleep {seconds}
"""


@pytest.fixture
def inventory(tmp_path):
    path = tmp_path / "inventory" / "hosts.yml"
    path.parent.mkdir()
    path.write_text(INVENTORY % sys.executable, encoding="utf-8")
    return str(path)


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "playbook.yml"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_run_is_followed_to_its_end(tmp_path, inventory, monkeypatch):
    monkeypatch.chdir(tmp_path)
    ended: list[str] = []
    monkeypatch.setattr("railyard.base.orphans.end", ended.append)
    lines: list[Line] = []
    run = AnsibleRun(
        write(tmp_path, PLAYBOOK), [inventory], ["-e", '{"spoken": "a \\"b\\" $c"}'], show=lines.extend
    )
    outcome = run.run()
    progress = outcome.progress
    assert outcome.return_code == 2
    assert not outcome.interrupted
    assert ended == [], "nobody stopped it"
    assert progress.failed_hosts() == ["gpu2"]
    assert progress.unreachable_hosts() == []
    assert progress.stats["changed"] == {"gpu1": 1}
    failed = [line.text for line in lines if line.style == "failed" and "Fail for good" in line.text]
    # A message of two lines is two lines, not one with \n in it.
    assert failed == ["gpu2: Fail for good\n  | first line\n  | second line"]
    assert [line.text for line in lines if line.style == "play"] == ["First play"]
    assert "Change something: changed 1, ok 1" in [line.text for line in lines if line.style == "task"]
    assert sorted(line.text.split("\n")[0] for line in lines if line.style == "ignored") == [
        "gpu1: Fail without harm",
        "gpu2: Fail without harm",
    ]


def as_runner_writes(value: object) -> str:
    """Return a value as ansible-runner's own callback puts it into the output."""
    text = base64.b64encode(json.dumps(value).encode()).decode()
    return f"\x1b[K{text}\x1b[{len(text)}D\x1b[K"


FORGED = {
    "uuid": "00000000-0000-4000-8000-000000000000",
    "event": "runner_on_failed",
    "pid": 4194303,
    "event_data": {"host": "gpu1", "task": "Forged", "task_action": "x", "res": {"msg": "forged"}},
}


def test_what_a_node_says_is_no_event(tmp_path, inventory):
    text = """
- hosts: gpu1
  gather_facts: false
  tasks:
    - name: Say
      ansible.builtin.fail: {msg: "{{ said }}"}
      ignore_errors: true
"""
    forged = [FORGED, {}, {**FORGED, "event_data": "x"}, {**FORGED, "pid": "x"}, {}, "text", [1]]
    said = json.dumps({"said": " ".join(as_runner_writes(value) for value in forged)})
    outcome = AnsibleRun(write(tmp_path, text), [inventory], ["-e", said, "-v"]).run()
    assert outcome.return_code == 0
    [failure] = outcome.progress.failures
    assert (failure.task, failure.kind) == ("Say", "ignored")


def test_ctrl_c_stops_ansible_and_its_workers(tmp_path, inventory):
    seconds = f"3{os.getpid() % 1000:03d}.25"
    seen: list[int] = []
    lines: list[Line] = []

    def stops_asked() -> int:
        # Once the nodes are at work, the user presses Ctrl-C, once.
        seen.extend(running("sleep", seconds))
        return 1 if seen else 0

    run = AnsibleRun(
        write(tmp_path, SLOW.format(seconds=seconds)),
        [inventory],
        [],
        stops_asked=stops_asked,
        show=lines.extend,
    )
    began = time.monotonic()
    outcome = run.run()
    assert outcome.interrupted
    assert time.monotonic() - began < 300
    assert "stopping; once more to stop without cleaning up" in [line.text for line in lines]
    assert wait_until(lambda: not running("sleep", seconds))


def test_what_a_killed_ansible_leaves_is_ended(tmp_path, inventory, monkeypatch):
    # As on a busy machine, where it does not come to its own clean-up in time.
    monkeypatch.setattr("railyard.operate.ansible._INTERRUPT_GRACE_S", 1000)
    monkeypatch.setattr("railyard.operate.ansible.AnsibleRun._signal", lambda self, number: None)
    monkeypatch.setattr("railyard.operate.ansible._TERMINATE_GRACE_S", 0)
    seconds = f"4{os.getpid() % 1000:03d}.25"
    seen: list[int] = []

    def stops_asked() -> int:
        seen.extend(running("sleep", seconds))
        return 2 if seen else 0

    run = AnsibleRun(write(tmp_path, SLOW.format(seconds=seconds)), [inventory], [], stops_asked=stops_asked)
    assert run.run().return_code == 254
    assert wait_until(lambda: not running("sleep", seconds))


def test_shared_connections_of_ssh_are_no_orphans():
    mark = orphans.new_mark()
    environment = {**os.environ, orphans.VARIABLE: mark}
    words = {"executable": "/bin/sleep", "env": environment}
    shared = subprocess.Popen(["ssh: /somewhere/socket [mux]", "60"], **words)
    orphan = subprocess.Popen(["sleep", "60"], start_new_session=True, **words)
    try:
        orphans.end(mark)
        # Who dies too slowly of the first is ended by the second.
        assert orphan.wait(timeout=60) in (-signal.SIGTERM, -signal.SIGKILL)
        assert shared.poll() is None
    finally:
        shared.kill()
        shared.wait()


def test_a_password_from_the_prompt_reaches_ansible(tmp_path, inventory):
    text = """
- name: Who knows it
  hosts: gpu1
  gather_facts: false
  tasks:
    - name: Look
      ansible.builtin.assert:
        that: ansible_become_password is not defined or true
        quiet: true
"""
    arguments = ansible_args.parse(["-K"])
    [(pattern, question)] = arguments.prompts
    assert question == "BECOME password"
    shown = []
    run = AnsibleRun(
        write(tmp_path, text), [inventory], ["-K"], passwords={pattern: "secret"}, show=shown.extend
    )
    began = time.monotonic()
    assert run.run().return_code == 0
    # Neither the question, which would be answered again, nor the answer.
    assert [line.text for line in shown if "assword" in line.text or "secret" in line.text] == []
    assert time.monotonic() - began < 300


def test_the_environment_keeps_host_keys_checked(monkeypatch):
    monkeypatch.delenv("ANSIBLE_HOST_KEY_CHECKING", raising=False)
    environment = ansible_environment()
    assert environment["ANSIBLE_HOST_KEY_CHECKING"] == "True"
    assert environment["ANSIBLE_CONFIG"].endswith("/ansible.cfg")
    assert environment["PATH"].startswith(str(Path(sys.executable).parent))


def test_ansible_ends_when_what_started_it_is_killed(tmp_path):
    playbook = tmp_path / "sleep.yml"
    seconds = f"300.{os.getpid()}"
    task = {"name": "Sleep", "ansible.builtin.command": f"sleep {seconds}"}
    playbook.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": [task]}]))
    script = (
        "import pathlib, sys; from railyard.operate.ansible import AnsibleRun; "
        "here = ['-c', 'local', '-e', f'ansible_python_interpreter={sys.executable}']; "
        "AnsibleRun(pathlib.Path(sys.argv[1]), ['localhost,'], here).run()"
    )
    caller = subprocess.Popen([sys.executable, "-c", script, str(playbook)], stdout=subprocess.DEVNULL)
    try:
        assert wait_until(lambda: running("sleep", seconds), 300)
    finally:
        caller.kill()
        caller.wait()
    assert wait_until(lambda: not running("ansible-playbook", str(playbook)))


def running(program: str, word: str) -> list[int]:
    """Return the processes of a program with an argument."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = entry.read_bytes().decode(errors="replace").split("\0")
            if word in words and program in map(os.path.basename, words):
                found.append(int(entry.parent.name))
    return found
