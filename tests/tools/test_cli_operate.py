"""What a finished run means: the exit status of site, provision and validate, and what they print."""

from __future__ import annotations

import io
import json
import re

import pytest
from railyard.base import output, paths
from railyard.base.progress import Failure, Progress
from railyard.base.verbs import one_json_object
from railyard.operate import ansible_args, commands
from railyard.operate.ansible import Outcome
from railyard.report import rebuild
from rich.console import Console
from support.runs.fake_run import RUN
from support.runs.run_builder import build_run


def ended(return_code=0, *, failures=None, dark=None, interrupted=False, started=True, stats=True):
    """How Ansible ended, as its events would have shown it."""
    progress = Progress(started=started)
    for host in failures or {}:
        data = {"host": host, "task": "Install things", "task_action": "apt", "res": {"msg": "no"}}
        progress.feed({"event": "runner_on_failed", "event_data": data})
    if stats:
        data = {"failures": failures or {}, "dark": dark or {}, "ok": {"gpu1": 1}}
        progress.feed({"event": "playbook_on_stats", "event_data": data})
    return Outcome(return_code, interrupted, progress)


def slow(row):
    if row["check"] == "tcp_bandwidth" and row["rail"] == "rail1":
        row["metrics"].update(bandwidth_gbps=3.1, sent_gbps=3.11)
    return row


def silent(row):
    return None if row["end"] == "server" else row


def same(row):
    return row


GOOD, SLOW, SILENT, NONE = same, slow, silent, None


@pytest.fixture
def out():
    return Console(file=io.StringIO(), width=120)


@pytest.mark.parametrize(
    ("verb", "folder", "outcome", "argv", "status"),
    [
        ("site", GOOD, ended(), [], 0),
        ("validate", GOOD, ended(), [], 0),
        ("site", SLOW, ended(2), [], 1),
        ("site", SILENT, ended(2), [], 3),
        # The folder is good, provisioning was not: gpu2 fell out before anything was measured.
        ("site", GOOD, ended(2, failures={"gpu2": 1}), [], 1),
        ("site", GOOD, ended(4, dark={"gpu2": 1}), [], 3),
        ("site", SLOW, ended(4, dark={"gpu2": 1}), [], 1),
        ("provision", NONE, ended(), [], 0),
        ("provision", NONE, ended(2, failures={"gpu2": 1}), [], 1),
        ("provision", NONE, ended(4, dark={"gpu2": 1}), [], 3),
        ("provision", NONE, ended(4, failures={"gpu1": 1}, dark={"gpu2": 1}), [], 1),
        ("provision", NONE, ended(99, interrupted=True, stats=False), [], 3),
        # Ansible died without a word: no pass.
        ("provision", NONE, ended(250, stats=False), [], 1),
        # Something went wrong without a known cause: no pass either.
        ("validate", GOOD, ended(2), [], 3),
        ("provision", NONE, ended(2), [], 3),
        # Nothing was measured, whatever Ansible says of it.
        ("validate", NONE, ended(), [], 3),
        ("site", NONE, ended(), [], 3),
        ("validate", NONE, ended(), ["--check"], 3),
        ("site", NONE, ended(), ["--check"], 0),
        # It never began: no node was touched.
        ("site", NONE, ended(1, started=False, stats=False), [], 2),
        ("validate", GOOD, ended(99, interrupted=True, stats=False), [], 3),
        ("validate", SLOW, ended(99, interrupted=True, stats=False), [], 1),
    ],
)
def test_exit_status(tmp_path, verb, folder, outcome, argv, status, out):
    run_dir = tmp_path / "lab" / RUN
    if folder:
        build_run(run_dir, change_result=folder, end={} if outcome.interrupted else None)
    found = commands.conclude(verb, outcome, run_dir, ansible_args.parse(argv), out)
    assert found == status, out.file.getvalue()
    if folder:
        assert (run_dir / "index.html").exists()
        assert str(run_dir / "index.html") in out.file.getvalue().replace("\n", "")


def test_a_judged_run_is_handed_over_and_a_missing_one_is_not(tmp_path, out):
    handed = []

    def keep(folder, judged, read):
        handed.append((folder, rebuild.make_document(folder, judged, read)))

    run_dir = build_run(tmp_path / "lab" / RUN, change_result=SLOW)
    assert commands.conclude("validate", ended(), run_dir, ansible_args.parse([]), out, keep) == 1
    ((folder, document),) = handed
    assert folder == run_dir
    assert (document["run"], document["exit_status"]) == (RUN, 1)
    assert document["counts"]["fail"] > 0
    commands.conclude("validate", ended(), tmp_path / "lab" / "none", ansible_args.parse([]), out, keep)
    assert len(handed) == 1


def test_with_json_standard_output_has_the_object_alone(capsys):
    with one_json_object(as_json=True) as print_json:
        print("a message")
        output.console().print("another one")
        print_json({"exit_status": 0})
    printed = capsys.readouterr()
    assert json.loads(printed.out) == {"exit_status": 0}
    assert printed.err == "a message\nanother one\n"
    with one_json_object(as_json=False) as print_json:
        assert print_json is None
        print("a message")
    assert capsys.readouterr().out == "a message\n"


def judge_broke(**how):
    """Ansible's end when the task that judges broke down: it came to no exit status."""
    outcome = ended(2, failures={"gpu1": 1}, **how)
    outcome.progress.failures = [
        Failure("gpu1", "Judge", "fabric_judge", "No space left on device", "failed", True)
    ]
    return outcome


@pytest.mark.parametrize(
    ("verb", "folder", "outcome", "status"),
    [
        ("site", GOOD, judge_broke(), 3),
        ("site", GOOD, ended(2, failures={"gpu2": 1}), 1),
        ("site", GOOD, ended(4, dark={"gpu2": 1}), 3),
        ("validate", GOOD, ended(2), 3),
        ("validate", SLOW, judge_broke(), 1),
        ("validate", GOOD, ended(), 0),
    ],
)
def test_the_announced_exit_status_is_the_one_that_comes(tmp_path, verb, folder, outcome, status, out):
    run_dir = build_run(tmp_path / "lab" / RUN, change_result=folder)
    assert commands.conclude(verb, outcome, run_dir, ansible_args.parse([]), out) == status
    told = out.file.getvalue()
    assert re.findall(r"Exit status (\d)", told) == [str(status)]
    measured = json.loads((run_dir / "verdicts.jsonl").read_text().splitlines()[0])
    assert measured  # judged all the same
    if status == 3:
        assert "would be exit status 0" in told
    if outcome.progress.failures and outcome.progress.failures[0].measuring:
        assert "gpu1 failed in task: Judge" in told


def test_an_interrupted_run_is_judged_with_what_came_and_keeps_no_secret(tmp_path, out):
    run_dir = build_run(tmp_path / "lab" / RUN, end={})
    (run_dir / ".secret").write_text("secret")
    assert commands.judged(run_dir, out, finished=False) == 3
    manifest = json.loads((run_dir / "manifest.json").read_text())
    assert manifest["end"]["reason"] == "interrupted"
    assert (run_dir / "verdicts.jsonl").read_text().count('"outcome":"pass"') > 20
    assert not (run_dir / ".secret").exists()
    assert "interrupted" in out.file.getvalue()


def test_what_a_dead_ansible_left_on_the_nodes_is_collected(tmp_path, monkeypatch):
    begun = []

    class Dies:
        def __init__(self, playbook, _sources, argv, **_how):
            run = next(word for word in argv if word.startswith("railyard_run=")).split("=")[1]
            (tmp_path / "v100-pair" / run).mkdir(parents=True, exist_ok=True)
            begun.append(playbook.name)

        def run(self):
            return ended(250, stats=False)

    monkeypatch.setattr(commands, "AnsibleRun", Dies)
    inventory = str(paths.repo_root() / "inventories" / "v100-pair")
    assert commands.operate("validate", [inventory], [], tmp_path) != 0
    assert begun == ["validate.yml", "stop.yml"]


def test_a_run_cut_off_before_it_knew_what_to_ask_is_no_pass_and_no_traceback(tmp_path, out):
    run_dir = build_run(tmp_path / "lab" / RUN, end={})
    for name in ("asked.jsonl", "results.jsonl", "facts.jsonl"):
        (run_dir / name).unlink()
    assert commands.judged(run_dir, out, finished=False) == 3
    assert "cannot be judged" in out.file.getvalue()


def test_input_that_only_the_preflight_sees_is_bad_input(tmp_path, out):
    outcome = ended(2, failures={"gpu1": 1})
    outcome.progress.failures.append(
        Failure("gpu1", "Check the inventory", "preflight", "1 problem in the inventory", "failed")
    )
    arguments = ansible_args.parse([])
    assert commands.conclude("site", outcome, tmp_path / "none", arguments, out) == 2


@pytest.mark.parametrize(
    ("argv", "word"),
    [
        (["--check"], "Check mode"),
        (["--tags", "network"], "tags"),
        (["--skip-tags", "validate"], "tags"),
        (["--tags", "all"], "no run folder"),
        ([], "no run folder"),
    ],
)
def test_the_reason_why_nothing_was_measured_is_reported(tmp_path, argv, word, out):
    assert commands.conclude("validate", ended(), tmp_path / "none", ansible_args.parse(argv), out) == 3
    assert word in out.file.getvalue()


def test_the_failing_host_and_task_are_named(tmp_path, out):
    outcome = ended(2, failures={"gpu2": 1})
    commands.conclude("provision", outcome, tmp_path / "none", ansible_args.parse([]), out)
    assert "gpu2 failed in task: Install things" in out.file.getvalue()


def test_the_recap_says_what_changed(tmp_path, out):
    from railyard.base import terminal

    stats = {"ok": {"gpu1": 9, "gpu2": 9}, "changed": {"gpu1": 2}, "dark": {}, "failures": {}}
    terminal.recap(stats, out)
    assert out.file.getvalue().splitlines() == [
        "gpu1  ok=9 changed=2 unreachable=0 failed=0",
        "gpu2  ok=9 changed=0 unreachable=0 failed=0",
    ]
