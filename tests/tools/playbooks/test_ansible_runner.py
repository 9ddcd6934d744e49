"""The one class that starts Ansible, with real playbooks on this machine, and what it makes of events."""

from __future__ import annotations

import base64
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import who_is_slow
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import waiting
from railyard.base import orphans
from railyard.base.errors import UserError
from railyard.base.progress import Line, Progress, message_of
from railyard.operate import ansible_args
from railyard.operate.ansible import AnsibleRun, ansible_environment

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
    assert failed == ["gpu2: Fail for good\n  first line\n  second line"]
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
    seen: list[str] = []
    lines: list[Line] = []

    def stops_asked() -> int:
        # Once the nodes are at work, the user presses Ctrl-C, once.
        seen.extend(sleepers(seconds))
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
    assert_none_sleeps(seconds)


def test_what_a_killed_ansible_leaves_is_ended(tmp_path, inventory, monkeypatch):
    # As on a busy machine, where it does not come to its own clean-up in time.
    monkeypatch.setattr("railyard.operate.ansible._INTERRUPT_GRACE_S", 1000)
    monkeypatch.setattr("railyard.operate.ansible.AnsibleRun._signal", lambda self, number: None)
    monkeypatch.setattr("railyard.operate.ansible._TERMINATE_GRACE_S", 0)
    seconds = f"4{os.getpid() % 1000:03d}.25"
    seen: list[str] = []

    def stops_asked() -> int:
        seen.extend(sleepers(seconds))
        return 2 if seen else 0

    run = AnsibleRun(write(tmp_path, SLOW.format(seconds=seconds)), [inventory], [], stops_asked=stops_asked)
    assert run.run().return_code == 254
    assert_none_sleeps(seconds)


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


def sleepers(seconds: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            words = path.read_bytes().split(b"\0")
        except OSError:
            continue
        if words[:2] == [b"sleep", seconds.encode()]:
            found.append(path.parent.name)
    return found


def assert_none_sleeps(seconds: str) -> None:
    """Assert that what was to sleep so long is gone; what was killed may wait for a processor to die on."""
    until = time.monotonic() + 60
    while sleepers(seconds) and time.monotonic() < until:
        time.sleep(0.1)
    assert sleepers(seconds) == []


def test_a_password_that_was_asked_for_reaches_ansible(tmp_path, inventory):
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
    run = AnsibleRun(write(tmp_path, text), [inventory], ["-K"], passwords={pattern: "secret"})
    began = time.monotonic()
    assert run.run().return_code == 0
    assert time.monotonic() - began < 300


def test_the_environment_keeps_host_keys_checked(monkeypatch):
    monkeypatch.delenv("ANSIBLE_HOST_KEY_CHECKING", raising=False)
    environment = ansible_environment()
    assert environment["ANSIBLE_HOST_KEY_CHECKING"] == "True"
    assert environment["ANSIBLE_CONFIG"].endswith("/ansible.cfg")
    assert environment["PATH"].startswith(str(Path(sys.executable).parent))


def event(name: str, **data: object) -> dict[str, object]:
    return {"event": name, "event_data": data}


def looked_at(progress: Progress, text: str) -> list[str]:
    progress.feed(event("playbook_on_task_start", task="Wait", task_action="railyard.fabric.fabric_watch"))
    return [line.text for line in progress.feed({"event": "verbose", "stdout": text})]


def test_how_far_the_nodes_are_is_what_the_first_of_them_says():
    progress = Progress()
    seen = {"finished_tests": 2, "total_tests": 10, "left_s": 400, "done": False, "current": "m1 ping_rtt"}
    seen |= {"round": 3, "rounds": 7, "met": 2, "meetings": 6}
    told = waiting.progress_line(seen)
    assert looked_at(progress, told) == [
        "measuring: 2/10 tests, 3 of 7 rounds, 2 of 6 pairs, about 7 min left, m1 ping_rtt"
    ]
    assert (progress.tests_done, progress.tests_total, progress.current_test) == (2, 10, "m1 ping_rtt")
    over = {"finished_tests": 10, "left_s": 0, "done": True, "current": None, "meetings": 1}
    last = waiting.progress_line({**seen, **over})
    assert looked_at(progress, last) == ["measuring: 10/10 tests"]
    assert (progress.tests_done, progress.current_test) == (10, "")


def test_a_suspect_so_far_is_told_and_is_no_trouble_of_ansible_s():
    progress = Progress()
    told = who_is_slow.so_far("gpu003", ["rail0", "rail1"])
    looked_at(progress, "measuring: 2/10 tests")
    assert [(line.style, line.text) for line in progress.feed({"event": "verbose", "stdout": told})] == [
        ("warning", "suspect so far: gpu003 rail0, gpu003 rail1, slow or without numbers with every partner")
    ]
    assert progress.messages == []
    assert progress.tests_total == 10


def test_what_was_said_already_is_not_said_again():
    progress = Progress(said="Measuring takes about 3 min: 1 pair in 1 round.")
    texts = progress.said, "3 nodes are busy"
    told = [progress.feed({"event": "verbose", "stdout": text}) for text in texts]
    assert [[line.text for line in lines] for lines in told] == [[], ["3 nodes are busy"]]


def test_a_long_silence_is_broken_by_what_is_under_way():
    progress = Progress()
    assert progress.still() == []
    progress.feed(event("playbook_on_task_start", task="Install the tools", task_action="apt"))
    for host in ("gpu001", "gpu002"):
        progress.feed(event("runner_on_start", host=host))
    progress.feed(event("runner_on_ok", host="gpu001", res={}))
    assert [line.text for line in progress.still()] == ["still at it: Install the tools, 1 of 2 hosts"]
    progress.feed(event("runner_on_ok", host="gpu002", res={}))
    assert progress.still() == []
    progress.clock = lambda: 100.0
    looked_at(progress, "measuring: 3/40 tests")
    progress.clock = lambda: 120.4
    assert [line.text for line in progress.still()] == ["still measuring: 3/40 tests 20 s ago"]
    looked_at(progress, "measuring: 3/40 tests, about 2 min left, m1 ping_rtt")
    progress.clock = lambda: 180.0
    assert [line.text for line in progress.still()] == [
        "still measuring: 3/40 tests 60 s ago, about 1 min left"
    ]
    progress.clock = lambda: 240.0
    assert "less than a minute left" in progress.still()[0].text
    looked_at(progress, "measuring: 40/40 tests")
    assert progress.still() == []


def test_failures_while_measuring_are_left_to_the_judge():
    progress = Progress()
    progress.feed(
        event("runner_on_failed", host="gpu1", task="Install", task_action="apt", res={"msg": "no"})
    )
    progress.feed(event("runner_on_ok", host="gpu1", task_action="railyard.fabric.fabric_open", res={}))
    progress.feed(
        event("runner_on_failed", host="gpu2", task="Stage", task_action="fabric_stage", res={"msg": "no"})
    )
    lines = progress.feed(judge_failed({"exit_status": 1, "msg": "2 of 38 asked checks failed"}))
    progress.feed(event("playbook_on_stats", failures={"gpu1": 1, "gpu2": 1, "gpu3": 1}, dark={}))
    assert lines == []
    assert progress.failed_hosts() == ["gpu1"]
    assert [one.host for one in progress.failures_while_measuring()] == ["gpu2"]


def judge_failed(result):
    action = "railyard.fabric.fabric_judge"
    return event("runner_on_failed", host="gpu3", task="Judge", task_action=action, res=result)


def test_a_judge_that_breaks_down_is_no_judgement():
    # Without an exit status it came to no verdict: what it says must be seen, and no silence be a pass.
    lines = Progress().feed(judge_failed({"msg": "No space left on device"}))
    assert len(lines) == 1
    assert "No space left on device" in lines[0].text


@pytest.mark.parametrize("name", ["runner_on_ok", "runner_on_start", "verbose", "playbook_on_stats", ["x"]])
@pytest.mark.parametrize(
    "data",
    ["x", ["x"], {"res": "x"}, {"host": ["x"], "res": {"warnings": 5, "total_tests": "x"}}, {"failures": 5}],
)
def test_an_event_of_another_shape_says_nothing(name, data):
    progress = Progress()
    assert progress.feed({"event": name, "event_data": data, "pid": 1}) == []
    assert (progress.failures, progress.failed_hosts(), progress.unreachable_hosts()) == ([], [], [])


def test_a_node_cannot_write_to_the_terminal():
    message = message_of({"msg": "red \x1b[31malert\x1b[0m\r\nnext\u202e", "stderr": "x\x07y"})
    assert message == "red alert\nnext\nstderr:\nxy"


def test_a_censored_result_stays_censored():
    assert message_of({"censored": "hidden", "msg": "secret"}) == "hidden"


def test_long_output_is_cut_and_says_so():
    shown = message_of({"msg": "failed", "stdout": "\n".join(str(number) for number in range(100))})
    assert "80 lines more above" in shown
    assert shown.endswith("99")


@pytest.mark.parametrize(
    ("argv", "complaint"),
    [
        (["--no-such-option"], "--no-such-option"),
        (["-i", "other"], "before `--`"),
        (["-e", "railyard_run=x"], "railyard_run"),
        (["-e", '{"railyard_reports_dir": "/tmp"}'], "--reports-dir"),
        (["--limit"], "--limit"),
        (["playbook.yml"], "playbook.yml"),
    ],
)
def test_arguments_that_ansible_would_refuse_are_refused_before(argv, complaint):
    with pytest.raises(UserError, match=complaint) as raised:
        ansible_args.parse(argv)
    assert raised.value.exit_status == 2


def test_arguments_are_understood_as_ansible_does():
    arguments = ansible_args.parse(["-CDl", "gpu1,gpu2", "-vv", "-bK"])
    assert (arguments.check, arguments.limit, arguments.verbosity) == (True, "gpu1,gpu2", 2)
    assert [question for _, question in arguments.prompts] == ["BECOME password"]


def test_the_clean_up_reaches_the_same_nodes_and_is_not_kept_from_its_work():
    words = "--check --tags tools --limit gpu1 -e 'a=b c' -e @v.yml -u me -K --diff"
    stop = ansible_args.parse(shlex.split(words)).stop_argv
    again = ansible_args.parse(stop)
    assert not again.check
    assert again.limit == "gpu1"
    assert [question for _, question in again.prompts] == ["BECOME password"]
    assert not [word for word in stop if word.startswith(("--tags", "--check", "--diff"))]
    assert "--extra-vars=a=b c" in stop
    assert "--user=me" in stop


def test_nobody_to_ask_is_said(monkeypatch):
    arguments = ansible_args.parse(["-K"])
    with open(os.devnull) as nobody:
        monkeypatch.setattr("sys.stdin", nobody)
        with pytest.raises(UserError, match="BECOME password"):
            ansible_args.ask_passwords(arguments)


def test_what_a_result_warns_of_is_shown_once():
    progress = Progress()
    feed = {"event": "runner_on_ok", "event_data": {"task": "t", "task_action": "x"}}

    def shown(host, *warnings):
        data = {**feed["event_data"], "host": host, "res": {"warnings": list(warnings)}}
        return progress.feed({**feed, "event_data": data})

    assert shown("gpu1", "gpu1: rail0 has drifted", "old python") == [
        Line("warning", "gpu1: rail0 has drifted"),
        Line("warning", "gpu1: old python"),
    ]
    assert shown("gpu2", "old python") == []


def test_ansible_ends_when_what_started_it_is_killed(tmp_path):
    playbook = tmp_path / "sleep.yml"
    seconds = f"300.{os.getpid()}"
    task = {"name": "Sleep", "ansible.builtin.command": f"sleep {seconds}"}
    playbook.write_text(json.dumps([{"hosts": "all", "gather_facts": False, "tasks": [task]}]))
    script = (
        "import pathlib, sys; from railyard.operate.ansible import AnsibleRun; "
        "AnsibleRun(pathlib.Path(sys.argv[1]), ['localhost,'], ['-c', 'local']).run()"
    )
    caller = subprocess.Popen([sys.executable, "-c", script, str(playbook)], stdout=subprocess.DEVNULL)
    try:
        assert wait_for(lambda: running("sleep", seconds), 300)
    finally:
        caller.kill()
        caller.wait()
    assert wait_for(lambda: not running("ansible-playbook", str(playbook)), 60)


def running(program: str, word: str) -> list[int]:
    """Return the processes of a program that were told a word."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            words = entry.read_bytes().decode(errors="replace").split("\0")
            if word in words and program in map(os.path.basename, words):
                found.append(int(entry.parent.name))
    return found


def wait_for(condition: Callable[[], bool], patience_s: float) -> bool:
    deadline = time.monotonic() + patience_s
    while not (met := bool(condition())) and time.monotonic() < deadline:
        time.sleep(0.2)
    return met
