"""`railyard validate --fabric`: the fabric before and after the tests, and what the whole ends with."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import PortKey
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet import captures, judge
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.rank_order import Subnet
from railyard.base.errors import UserError
from railyard.fabric import around, documents, live
from railyard.fabric.command import Written
from railyard.fabric.wanted import SlurmForm, Wanted
from support.fake_subnets import Net
from support.programs import REPO, railyard
from support.small_fabric import LEAF, TAKEN_AT_S, make_net, write_capture

HOUR_S = 3600.0
ERRORS = f'Errors for 0x{LEAF:016x} "leaf0"\n   GUID 0x{LEAF:016x} port 1: [SymbolErrorCounter == {{}}]\n'


def capture_of(folder, taken_at_s, symbol_errors=0):
    """Capture the small fabric once, as the module does with one reading of the counters."""
    capture = captures.load(str(write_capture(folder, make_net(), taken_at_s)))
    commands = []
    for one in capture.commands:
        if one.file == "ibqueryerrors.1.txt" and symbol_errors:
            commands.append(one._replace(stdout=ERRORS.format(symbol_errors) + one.stdout))
        elif one.file != "ibqueryerrors.2.txt":
            commands.append(one)
    return capture._replace(host="gpu01", commands=tuple(commands))


@pytest.fixture
def validate(inventory, tmp_path, monkeypatch):
    """Return the verb with readings and tests that are given."""

    def run(readings, tested=0):
        left = [[one] for one in readings]
        monkeypatch.setattr(live, "read_live", lambda *_arguments, **_more: left.pop(0))
        status = around.validate(wanted(inventory, tmp_path / "reports"), [], lambda *_given: tested)
        return status, len(left)

    return run


def wanted(inventory, reports):
    return Wanted(
        [str(inventory)], [], None, 0.0, False, None, None, SlurmForm.TREE, None, None, reports
    )  # fmt: skip


@pytest.mark.parametrize(("tested", "expected"), [(0, 0), (1, 1), (3, 3)])
def test_a_healthy_fabric_leaves_the_tests_status(validate, tmp_path, capsys, tested, expected):
    readings = [
        capture_of(tmp_path / name, at) for name, at in (("b", TAKEN_AT_S), ("a", TAKEN_AT_S + HOUR_S))
    ]
    assert validate(readings, tested) == (expected, 0)
    assert "two readings, 3600 s apart" in capsys.readouterr().out


@pytest.mark.parametrize(("before", "after", "expected"), [(0, 100_000, 1), (100_000, 100_000, 0)])
def test_errors_count_that_came_during_the_tests(validate, tmp_path, capsys, before, after, expected):
    readings = [
        capture_of(tmp_path / "before", TAKEN_AT_S, before),
        capture_of(tmp_path / "after", TAKEN_AT_S + HOUR_S, after),
    ]
    assert validate(readings) == (expected, 0)
    assert ("1 link with too many errors" in capsys.readouterr().out) is bool(expected)


def test_a_failing_fabric_fails_what_the_tests_leave_open(validate, tmp_path):
    readings = [
        capture_of(tmp_path / "before", TAKEN_AT_S),
        capture_of(tmp_path / "after", TAKEN_AT_S + HOUR_S, 100_000),
    ]
    assert validate(readings, tested=3) == (1, 0)


@pytest.mark.parametrize(("tested", "expected"), [(0, 3), (1, 1), (3, 3)])
def test_a_fabric_that_cannot_be_read_afterwards_hides_no_failed_test(
    inventory, tmp_path, monkeypatch, tested, expected
):
    before = [capture_of(tmp_path / "before", TAKEN_AT_S)]

    def read(*_arguments, **_more):
        if not before:
            raise UserError("gpu01 does not answer", exit_status=3)
        return [before.pop()]

    monkeypatch.setattr(live, "read_live", read)
    with pytest.raises(UserError, match="gpu01 does not answer") as caught:
        around.validate(wanted(inventory, tmp_path / "reports"), [], lambda *_given: tested)
    assert caught.value.exit_status == expected


def test_wrong_input_of_the_tests_is_the_end(validate, tmp_path):
    readings = [capture_of(tmp_path / name, TAKEN_AT_S) for name in ("before", "after")]
    assert validate(readings, tested=2) == (2, 1)


def test_readings_of_other_ports_keep_their_own_counters(tmp_path):
    one = capture_of(tmp_path / "one", TAKEN_AT_S)
    assert around.join_counters([one._replace(device="mlx5_3")], [one]) == [one]
    assert around.join_counters([], [one]) == [one]


def test_the_user_is_prompted_for_a_password_once(inventory, tmp_path, monkeypatch, capsys):
    asked, given = [], []
    monkeypatch.setattr("sys.stdin", SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr("getpass.getpass", lambda prompt: asked.append(prompt) or "secret")

    class Ansible:
        """Keeps a reading where the playbook does."""

        def __init__(self, _playbook, _inventories, argv, **more):
            given.append(more["passwords"])
            self.extra = json.loads(argv[-1])

        def run(self):
            place = tmp_path / f"read-{len(given)}"
            capture = capture_of(place, TAKEN_AT_S + HOUR_S * len(given))
            captures.write(capture, f"{self.extra['railyard_fabric_into']}/0")
            return SimpleNamespace(interrupted=False)

    def run_tests(_run, passwords, _hand_over):
        given.append(passwords)
        return 0

    monkeypatch.setattr(live, "AnsibleRun", Ansible)
    assert around.validate(wanted(inventory, tmp_path / "reports"), ["-K"], run_tests) == 0
    assert len(asked) == 1
    assert len(given) == 3
    assert all("secret" in one.values() for one in given)


def test_a_run_keeps_the_worst_findings_and_counts_the_others(tmp_path):
    net = Net(units=4, nodes_each=20, rails=1)
    net.disconnect(PortKey(net.spine(0), 1))
    for node in range(70):
        net.disconnect(net.adapter_key(node, 0))
    before = Net(units=4, nodes_each=20, rails=1).reading(taken_at_s=net.taken_at_s - 60)
    reading, expected = net.reading(), net.expected()
    judgement = judge.judge(reading, expected, before)
    report = documents.build_report("mine", [Subnet(reading, judgement)], expected, ["inventories/mine"])
    kept = around.describe_fabric(Written(report, tmp_path / "20261121T101530Z"), 40)
    assert len(judgement.findings) > 60
    assert {one.severity for one in judgement.findings} == {"fail", "warn"}
    assert len(kept["findings"]) == 60
    assert kept["findings_left_out"] == len(judgement.findings) - 60
    assert {one["severity"] for one in kept["findings"]} == {"fail"}
    numbers = {one["number"]: one["text"] for one in kept["findings"]}
    assert all(f'<li id="finding-{number}">{text}' in report.page for number, text in numbers.items())
    assert (kept["paths"], kept["paths_left_out"]) == ([], 40)


def test_it_is_for_ansible_and_infiniband(inventory):
    for more in (["--quick"], ["--idle"], ["--launcher", "slurm"]):
        done = railyard("validate", "-i", inventory, "--fabric", *more)
        assert (done.returncode, "--fabric excludes" in done.stderr) == (2, True)
    done = railyard("validate", "-i", REPO / "inventories" / "hgx-h100-roce", "--fabric")
    assert (done.returncode, "has InfiniBand" in done.stderr) == (2, True)
