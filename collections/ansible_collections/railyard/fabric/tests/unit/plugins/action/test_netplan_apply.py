# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible_collections.railyard.fabric.plugins.action import netplan_apply

QUESTION = {"node": "gpuserver1", "token": "t"}


class Connection:
    transport = "ssh"

    def __init__(self):
        self.options = {"ssh_args": "-o ControlMaster=auto -o ControlPersist=120s -J jump", "timeout": 10}

    def get_option(self, name):
        return self.options[name]

    def set_option(self, name, value):
        self.options[name] = value


class Action(netplan_apply.ActionModule):
    """The action with a scripted node: each answer is a dict, or ssh's complaint."""

    def __init__(self, answers):
        self._connection = Connection()
        self.answers = list(answers)
        self.ssh_args = []
        self.timeouts_s = []
        self.states = []

    def _ask(self, args, _task_vars):
        self.states.append(args["state"])
        self.ssh_args.append(self._connection.get_option("ssh_args"))
        self.timeouts_s.append(self._connection.get_option("timeout"))
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, str):
            raise AnsibleConnectionFailure(answer)
        return answer


@pytest.fixture(autouse=True)
def no_pause(monkeypatch):
    monkeypatch.setattr(netplan_apply.time, "sleep", lambda _s: None)


def test_every_question_goes_over_a_connection_of_its_own():
    action = Action([{"outcome": "confirmed"}])
    before = action._connection.get_option("ssh_args")
    answer, unreachable = action._await(QUESTION, 5, {})
    assert (answer["outcome"], unreachable) == ("confirmed", None)
    # ssh takes the first value of an option
    assert action.ssh_args[0].index("ControlMaster=no") < action.ssh_args[0].index("ControlMaster=auto")
    assert "ControlPath=none" in action.ssh_args[0]
    assert "-J jump" in action.ssh_args[0]
    assert action._connection.get_option("ssh_args") == before


def test_confirmation_goes_over_a_connection_opened_after_netplan_was_done():
    action = Action(
        [{"outcome": "pending"}, "closed", {"outcome": "applied"}, "closed", {"outcome": "confirmed"}]
    )
    answer, _unreachable = action._await(QUESTION, 5, {})
    assert answer["outcome"] == "confirmed"
    assert action.states == ["applied", "applied", "applied", "confirmed", "confirmed"]


@pytest.mark.parametrize(
    ("answers", "key", "expected"),
    [
        (["timed out", "timed out", {"outcome": "confirmed"}], "outcome", "confirmed"),
        # A failure of the module itself is not retried.
        ([{"failed": True, "msg": "no such file"}], "proof_problems", ["no such file"]),
    ],
)
def test_connection_that_comes_back_in_time_is_enough(answers, key, expected):
    answer, _unreachable = Action(answers)._await(QUESTION, 5, {})
    assert answer[key] == expected


@pytest.mark.parametrize(
    ("rollback_after_s", "waits_s"),
    [
        (5, [5, 10, 20, 20]),
        (10, [5, 10, 20, 20]),
        (120, [5, 10, 20, 20]),
        (180, [8, 15, 30, 30]),
        (720, [30, 60, 120, 120]),
    ],
)
def test_a_busy_node_gets_longer_from_attempt_to_attempt_and_by_the_changes_time(rollback_after_s, waits_s):
    action = Action(["timed out"] * 3 + [{"outcome": "confirmed"}])
    action._await(QUESTION, rollback_after_s, {})
    # ssh's word for its own wait, then Ansible's for the answer of sudo.
    assert [int(args.split("ConnectTimeout=")[1].split()[0]) for args in action.ssh_args] == waits_s
    assert action._connection.get_option("timeout") == 10
    assert action.timeouts_s == [max(10, 2 * wait_s) for wait_s in waits_s]


def test_failed_proof_is_followed_until_the_node_has_undone_it():
    answers = [
        {"outcome": "rolling_back", "proof_problems": ["rail0 (ens6): mtu is 1500, planned 9000"]},
        "closed",
        {"outcome": "rolling_back"},
        {"outcome": "rolled_back", "equal": True, "reason": "not confirmed"},
    ]
    answer, _unreachable = Action(answers)._await(QUESTION, 5, {})
    assert answer["outcome"] == "rolled_back"
    assert answer["proof_problems"] == ["rail0 (ens6): mtu is 1500, planned 9000"]


def test_node_that_never_answers_is_given_up_after_the_deadline(monkeypatch):
    now = iter(range(1000))
    monkeypatch.setattr(netplan_apply.time, "monotonic", lambda: next(now))
    answer, unreachable = Action(["no route to host"] * 1000)._await(QUESTION, 60, {})
    assert answer["proof_problems"] == []
    assert unreachable == "no route to host"


STAGED = {"state": "staged", "node": "gpuserver1", "rollback_after_s": 120}
IN_FLIGHT = {"failed": True, "outcome": "in_flight", "settled_within_s": 41.5, "msg": "neither confirmed nor"}


def test_change_that_another_controller_left_open_is_waited_for():
    action = Action([IN_FLIGHT, IN_FLIGHT, {"outcome": "unchanged"}])
    assert action._stage(STAGED, {}) == {"outcome": "unchanged"}


@pytest.mark.parametrize("settled_within_s", [3.2e7, float("inf"), float("nan")])
def test_node_does_not_say_how_long_the_controller_waits(monkeypatch, settled_within_s):
    now = iter(range(1000))
    monkeypatch.setattr(netplan_apply.time, "monotonic", lambda: next(now))
    action = Action([{**IN_FLIGHT, "settled_within_s": settled_within_s}] * 1000)
    assert action._stage(STAGED, {})["outcome"] == "in_flight"
    assert len(action.states) < 300


# As ansible-core 2.21 gave them, with the temporary folders of the node on a file system without room.
NO_TMP = (
    'Traceback (most recent call last):\n  File "<stdin>", line 266, in <module>\n'
    "FileNotFoundError: [Errno 2] No usable temporary directory found in ['/tmp', '/var/tmp', '/root']"
)
NO_DESERIALISATION = "Module result deserialization failed: No start of json char found"
NO_TRANSFER = (
    "Failed to transfer file to '/tmp/a-1/AnsiballZ.py': [Errno 28] No space left on device: b'/run/b'"
)
NO_MKDIR = (
    "mkdir: cannot create directory \u2018/home/railyard/.ansible/tmp/a-1\u2019: No space left on device\n"
)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"failed": True, "msg": NO_DESERIALISATION, "module_stderr": NO_TMP}, ["disk of /tmp (", "Errno 2"]),
        (AnsibleError(NO_TRANSFER), ["disk of /tmp/a-1/AnsiballZ.py (", "Errno 28"]),
        (NO_MKDIR, ["disk of /home/railyard/.ansible/tmp/a-1 (", "cannot create directory"]),
        (
            {"failed": True, "msg": "x", "module_stderr": "OSError: [Errno 28] No space left on device"},
            ["[Errno 28]", "the login user's ~/.ansible/tmp"],
        ),
    ],
)
def test_disk_on_which_no_module_can_be_laid_is_named(answer, words):
    staged = Action([answer])._stage(STAGED, {})
    assert staged["failed"]
    assert [word for word in words if word not in staged["msg"]] == []
    assert staged["msg"].startswith("gpuserver1: the disk is full")
    assert "nothing was changed. Make room" in staged["msg"]


def test_other_ends_are_reported_as_they_are():
    own = {
        "failed": True,
        "msg": "gpuserver1: ...: No space left on device; nothing was changed. Make room on /v",
    }
    other = {"failed": True, "msg": "no netplan", "module_stderr": ""}
    for answer in (own, other):
        assert Action([answer])._stage(STAGED, {}) == answer
    with pytest.raises(AnsibleConnectionFailure, match="no route"):
        Action(["no route to host"])._stage(STAGED, {})


def test_waiting_for_an_open_change_ends(monkeypatch):
    now = iter(range(0, 10000, 10))
    monkeypatch.setattr(netplan_apply.time, "monotonic", lambda: next(now))
    action = Action([IN_FLIGHT] * 1000)
    assert action._stage(STAGED, {})["failed"]
    assert len(action.states) < 10


def test_nodes_confirmed_in_this_run_are_known_to_its_later_workers(tmp_path):
    assert netplan_apply.committed_in_this_run(str(tmp_path)) == []
    rails = [{"name": "rail0", "netdev": "ens6", "address": "10.0.1.1/24", "mtu": 9000, "hca": None}]
    netplan_apply.remember_committed("gpuserver1", rails, str(tmp_path))
    netplan_apply.remember_committed("gpuserver2", [], str(tmp_path))
    assert netplan_apply.committed_in_this_run(str(tmp_path)) == [
        {"node": "gpuserver1", "rails": [{"name": "rail0", "address": "10.0.1.1/24", "mtu": 9000}]},
        {"node": "gpuserver2", "rails": []},
    ]


def test_reading_of_confirmed_nodes_does_not_grow_with_the_cluster(tmp_path):
    for number in range(50):
        netplan_apply.remember_committed(f"gpu{number:03}", [], str(tmp_path))
    assert len(netplan_apply.committed_in_this_run(str(tmp_path))) < 10


BACK = {"outcome": "rolled_back", "equal": True}


@pytest.mark.parametrize(
    ("answer", "unreachable", "words"),
    [
        (
            {**BACK, "proof_problems": ["rail0 (ens6): mtu is 1500"]},
            None,
            ["gpuserver1", "rail0 (ens6): mtu is 1500", "files and running network are as before"],
        ),
        (
            {**BACK, "equal": False, "differences": ["rule X is gone"], "reason": "late"},
            None,
            ["late", "could not be brought back: rule X is gone"],
        ),
        ({**BACK, "reason": "not confirmed"}, None, ["no confirmation reached the node", "as before"]),
        (
            {**BACK, "reason": "not confirmed"},
            "timed out",
            ["no fresh SSH connection could be made after the change: timed out", "as before"],
        ),
        ({}, "timed out", ["has not answered since", "journalctl"]),
    ],
)
def test_failure_says_why_and_what_became_of_it(answer, unreachable, words):
    text = netplan_apply.failure_text("gpuserver1", answer, unreachable)
    assert [word for word in words if word not in text] == []


AWAY = "gpuserver1, rail1 (ens6d1): no carrier; its address is set when the link comes up"
LOOSE = "gpuserver1, Permissions for /etc/netplan/50.yaml are too open"
SILENT = "gpuserver1, rail0 (ens6): gpuserver2 (10.0.1.2) does not answer"


@pytest.mark.parametrize(
    ("outcome", "later", "told"),
    [
        ("confirmed", [AWAY, LOOSE, LOOSE, SILENT], [AWAY, LOOSE, SILENT]),
        ("confirmed", [], [AWAY, LOOSE]),
        ("rolled_back", [], [AWAY, LOOSE]),
    ],
)
def test_each_finding_is_reported_once_and_returned(monkeypatch, tmp_path, outcome, later, told):
    warned = []
    monkeypatch.setattr(netplan_apply.display, "warning", warned.append)
    monkeypatch.setattr(netplan_apply.ActionBase, "run", lambda *_all: {})
    monkeypatch.setattr(netplan_apply.constants, "DEFAULT_LOCAL_TMP", str(tmp_path))
    staged = {"changed": True, "outcome": "pending", "token": "t", "findings": [AWAY, LOOSE]}
    action = Action([staged, {"outcome": outcome, "equal": True, "findings": later}])
    action.validate_argument_spec = lambda **_spec: (None, {"rails": [], "rollback_after_s": 5})
    result = action.run(None, {"inventory_hostname": "gpuserver1"})
    assert warned == told
    assert result["findings"] == told
    assert result["outcome"] == outcome
