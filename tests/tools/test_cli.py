"""The `railyard` command as a user types it: words, exit statuses, what it refuses before any node."""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys

import pytest
import typer
from railyard import cli
from rich.text import Text
from support.inventories.on_disk import make_hosts, write_groups
from support.programs import BIN, REPO, Done, railyard, run, wait_until
from support.runs.fake_run import NODES, RUN, fabric
from support.runs.run_builder import build_run


@pytest.fixture
def inventory(tmp_path):
    return write_groups(tmp_path / "mine", make_hosts(*NODES), fabric=fabric())


def refused(done: Done, *words: str) -> None:
    assert done.returncode == 2, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    for word in words:
        assert word in done.stderr, done.stderr


def test_help_names_the_verbs_and_loads_nothing_heavy():
    done = railyard("--help")
    assert done.returncode == 0
    for verb in (
        "plan",
        "discover",
        "site",
        "provision",
        "validate",
        "verify",
        "parse",
        "report",
        "judge",
        "compare",
        "bundle",
        "export",
        "estimate",
        "size",
        "lint-nccl",
        "lab",
        "idle",
        "drain",
        "runs",
    ):
        assert f" {verb} " in done.stdout
    heavy = ["ansible", "ansible_runner", "matplotlib", "pytest", "jinja2", "yaml", "duckdb"]
    code = f"import sys, railyard.cli; print([name for name in {heavy} if name in sys.modules])"
    loaded = run([sys.executable, "-c", code])
    assert loaded.stdout.strip() == "[]"


def test_parse_names_every_tool_in_its_help_and_to_the_shell():
    told = re.sub(r"\W+", " ", railyard("parse", "--help", COLUMNS="300", NO_COLOR="1").stdout)
    shell = {"_RAILYARD_COMPLETE": "complete_bash", "COMP_WORDS": "railyard parse ", "COMP_CWORD": "2"}
    offered = railyard(**shell).stdout.split()
    rows = re.findall(r"^\| (`.*?) \|", (REPO / "docs/parse.md").read_text(), re.MULTILINE)
    documented = re.findall(r"`([\w-]+)`", re.sub(r"\(.*?\)", "", " ".join(rows)))
    assert len(documented) >= 18
    for tool in documented:
        assert f" {tool.replace('-', ' ')} " in told
        assert tool in offered


def test_strict_parse_in_the_help_and_at_the_shell(tmp_path):
    told = re.sub(r"\W+", " ", railyard("parse", "--help", COLUMNS="300", NO_COLOR="1").stdout)
    assert "exit status 3 when valid is false" in told
    (tmp_path / "ping.txt").write_text("ping: nosuch.invalid: Name or service not known\n")
    assert railyard("parse", "--strict", "ping", tmp_path / "ping.txt").returncode == 3
    refused = railyard("parse", "--strict", "run", tmp_path)
    assert (refused.returncode, "leave it out" in refused.stderr) == (2, True)


def test_help_prints_brackets_as_they_are_written():
    # A word in brackets is markup to rich, which leaves it out.
    def options(command):
        yield from (one for one in command.params if getattr(one, "help", None))
        for inner in getattr(command, "commands", {}).values():
            yield from options(inner)

    texts = [one.help for one in options(typer.main.get_command(cli.app))]
    assert len(texts) > 100
    assert [text for text in texts if Text.from_markup(text).plain != text] == []


def test_version():
    assert railyard("--version").stdout.startswith("railyard 0.")


@pytest.mark.parametrize(
    "argv",
    [
        ["no-such-verb"],
        ["site"],
        ["site", "-i", "/no/such/inventory"],
        ["report", "/no/such/run"],
        ["judge", "no-such-run"],
        ["site", "--no-such-option", "-i", "x"],
    ],
)
def test_wrong_arguments_are_bad_input(argv):
    refused(railyard(*argv))


def test_every_problem_of_an_inventory_is_reported_at_once(inventory):
    file = inventory / "group_vars" / "all" / "fabric.yml"
    file.write_text(file.read_text().replace("10.0.0.0/24", "10.0.1.0/24").replace("ens6d1", "ens6"))
    done = railyard("site", "-i", inventory)
    refused(done, "fabric.yml", "rail1", "10.0.1.0/24", "ens6", "no node was touched")


def test_arguments_for_ansible_are_checked_before_anything_happens(inventory):
    refused(railyard("site", "-i", inventory, "--", "--limit", "gpuserver9"), "gpuserver9")
    refused(railyard("site", "-i", inventory, "--", "-K"), "standard input is not a terminal")


def test_a_reports_folder_that_cannot_be_written_is_bad_input(inventory, tmp_path):
    file = tmp_path / "a-file"
    file.write_text("")
    refused(railyard("validate", "-i", inventory, RAILYARD_REPORTS_DIR=str(file)), "a-file")
    refused(railyard("validate", "-i", inventory, "--reports-dir", file / "below"), "a-file")


def test_a_full_disk_is_bad_input(inventory):
    # /dev/full answers every write with "no space left"; a folder cannot be made under it either.
    refused(railyard("validate", "-i", inventory, "--reports-dir", "/dev/full/reports"), "/dev/full")


def test_a_second_run_reports_the_first(inventory, tmp_path):
    folder = tmp_path / "reports" / "mine"
    folder.mkdir(parents=True)
    with (folder / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        json.dump({"pid": 4242, "run": RUN, "since": "2026-11-21T10:15:00Z"}, lock)
        lock.flush()
        done = railyard("validate", "-i", inventory, "--reports-dir", tmp_path / "reports")
        refused(done, "4242", RUN, "2026-11-21T10:15:00Z", "cluster mine")
    assert [path.name for path in folder.iterdir()] == [".lock"]


def test_a_lock_that_a_killed_run_left_behind_is_no_lock(tmp_path):
    from railyard.base.lock import cluster_lock

    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / ".lock").write_text('{"pid": 1, "run": "old", "since": "long ago"}')
    with cluster_lock(tmp_path, "mine", RUN) as folder:
        assert json.loads((folder / ".lock").read_text())["pid"] == os.getpid()


def test_too_little_room_is_refused_before_the_run(tmp_path, monkeypatch):
    import shutil

    from railyard.base.errors import UserError
    from railyard.base.lock import cluster_lock

    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage._replace(free=10 * 2**20))
    with pytest.raises(UserError, match="10 MiB"), cluster_lock(tmp_path, "mine", RUN):
        pass


def slow(row):
    if (row["check"], row["node"], row["rail"]) == ("tcp_bandwidth", "gpuserver2", "rail1"):
        row["metrics"].update(bandwidth_gbps=3.1, sent_gbps=3.11)
    return row


def silent(row):
    return None if row["rail"] == "rail1" and row["end"] == "server" else row


@pytest.mark.parametrize(
    ("change", "status", "words"),
    [
        (lambda row: row, 0, ["TCP only, RDMA was not planned"]),
        (slow, 1, ["gpuserver2 → gpuserver1, rail1", "below its floor", "next:"]),
        (silent, 3, ["rail1", "unmeasured"]),
    ],
)
def test_judge_and_report_rebuild_a_run_from_its_folder(tmp_path, change, status, words):
    folder = build_run(tmp_path / "reports" / "lab" / RUN, change_result=change)
    reports = tmp_path / "reports"
    judged = railyard("judge", folder)
    reported = railyard("report", f"lab/{RUN}", "--reports-dir", reports)
    assert (judged.returncode, reported.returncode) == (status, status), judged.stdout + judged.stderr
    for word in words:
        assert word in judged.stdout
        assert word in reported.stdout
    assert reported.stdout.rstrip().endswith("index.html")


def test_judge_prints_its_result_as_one_json_object(tmp_path):
    folder = build_run(tmp_path / "reports" / "lab" / RUN, change_result=slow)
    done = railyard("judge", folder, "--json")
    assert done.returncode == 1
    result = json.loads(done.stdout)
    assert (result["run"], result["exit_status"]) == (RUN, 1)
    assert {one["cause_class"] for one in result["problems"]} == {"below_floor"}
    (bad,) = [one for one in result["rails"] if one["node"] == "gpuserver2" and one["rail"] == "rail1"]
    assert bad["outcome"] == "fail"


def test_what_was_lost_is_made_again_byte_for_byte(tmp_path):
    reports = tmp_path / "reports"
    folder = build_run(reports / "lab" / RUN, change_result=slow)
    names = ("verdicts.jsonl", "index.html", "report.md", "junit.xml")
    railyard("report", folder)
    made = {name: (folder / name).read_bytes() for name in names}
    for name in names:
        (folder / name).unlink()
    # By run id, and as the cluster's latest run.
    railyard("judge", RUN, "--reports-dir", reports)
    railyard("report", "lab", RAILYARD_REPORTS_DIR=str(reports))
    assert {name: (folder / name).read_bytes() for name in names} == made


def test_a_run_without_tests_is_no_pass(tmp_path):
    folder = build_run(tmp_path / "lab" / RUN)
    (folder / "asked.jsonl").write_text("")
    done = railyard("judge", folder)
    assert done.returncode == 3, done.stdout
    assert "Traceback" not in done.stderr


def test_a_reader_that_goes_away_is_no_error(tmp_path):
    folder = build_run(tmp_path / "lab" / RUN)
    process = subprocess.Popen(
        [BIN / "railyard", "judge", folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    process.stdout.close()
    assert process.stderr.read() == ""
    assert process.wait(300) in (0, 3)


def test_ctrl_c_before_the_run_is_no_traceback(inventory, tmp_path):
    # An inventory script that does not end: the command waits in the midst of reading it.
    script, begun = inventory / "slow.sh", tmp_path / "begun"
    script.write_text(f"#!/bin/sh\ntouch {begun}\nexec sleep 600\n")
    script.chmod(0o755)
    process = subprocess.Popen(
        [BIN / "railyard", "validate", "-i", script, "--trust-inventory", "--reports-dir", tmp_path],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    assert wait_until(begun.exists, 300)
    os.killpg(process.pid, 2)
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 3, output
    assert "Traceback" not in output


@pytest.mark.parametrize("words", [("plan", "--json"), ("plan", "--svg", "-"), ("plan",)])
def test_a_full_disk_behind_standard_output_is_reported(inventory, words):
    verb, *options = words
    with open("/dev/full", "w", encoding="utf-8") as full:
        done = subprocess.run(
            [BIN / "railyard", verb, "-i", inventory, *options],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=600,
            check=False,
        )
    assert done.returncode == 3
    assert done.stderr.startswith("railyard: standard output cannot be written: No space left on device")
    assert "fix: " in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("form", [["--json"], []])
def test_a_reader_that_went_away_ends_a_plan_as_it_does_any_program(form):
    # 128 + SIGPIPE, as the shell reports it for `cat`: none of the statuses about the fabric.
    argv = [BIN / "railyard", "plan", "-i", REPO / "inventories" / "computed-512", *form]
    # Into a small pipe: a larger one holds all of the plan until the reader, held up, has gone away.
    small = {"stdout": subprocess.PIPE, "pipesize": 4096}
    with subprocess.Popen(argv, stderr=subprocess.PIPE, text=True, **small) as process:
        process.stdout.read(1)
        process.stdout.close()
        said = process.stderr.read()
    assert (process.returncode, said) == (141, "")


def test_a_locale_without_utf_8_is_taken(tmp_path):
    build_run(tmp_path / "lab" / RUN)
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
    done = railyard("judge", "lab", RAILYARD_REPORTS_DIR=str(tmp_path), **plain)
    assert done.returncode == 0, done.stdout + done.stderr
    planned = railyard("plan", "-i", REPO / "inventories" / "lab", **plain)
    assert planned.returncode == 0, planned.stdout + planned.stderr
    # Ansible's command line is pickier than its inventory code.
    listed = railyard("validate", "-i", REPO / "inventories" / "lab", "--", "--list-hosts", **plain)
    assert listed.returncode == 0, listed.stdout + listed.stderr


def test_a_home_that_cannot_be_written_is_an_error_with_a_way_out(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("ANSIBLE_HOME", str(tmp_path / "file/.ansible"))
    done = railyard("plan", "-i", "inventories/v100-pair")
    assert done.returncode == 2
    assert f"Ansible cannot write its folder {tmp_path}/file/.ansible" in done.stderr
    assert "set ANSIBLE_HOME" in done.stderr
