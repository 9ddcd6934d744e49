"""The metrics of a run reach the monitoring host by themselves, and never change what the run came to."""

from __future__ import annotations

import io
import os
import sys

import pytest
from railyard.base.progress import Progress
from railyard.operate import commands, publish
from railyard.operate.ansible import Outcome
from rich.console import Console
from support.inventories.on_disk import make_hosts, write_groups
from support.programs import railyard
from support.runs.run_builder import build_run

METRICS = "railyard_run_exit_status 0\n"


@pytest.fixture
def inventory(tmp_path):
    """Write an inventory with these monitoring hosts; return its folder."""

    def write(hosts, nodes=None, **variables):
        group = {"hosts": hosts, "vars": {"monitoring_state": "present", **variables}}
        groups = {} if hosts is None else {"monitoring": group}
        return str(write_groups(tmp_path / "lab", nodes, groups, node_metrics_state="present"))

    return write


@pytest.fixture
def out():
    return Console(file=io.StringIO(), width=100)


def publish_now(folder, reports, out, *reach):
    publish.publish_runs(commands.checked_inventory([folder], None), reach, reports, {}, lambda: 0, out)
    return out.file.getvalue()


@pytest.fixture
def reports(tmp_path):
    folder = tmp_path / "reports"
    folder.mkdir()
    (folder / "railyard_runs.prom").write_text(METRICS)
    return folder


@pytest.mark.skipif(os.geteuid() != 0, reason="the file belongs to root")
def test_the_file_is_copied_to_each_host_that_answers_and_one_line_names_the_other(
    inventory, reports, tmp_path, out
):
    served = tmp_path / "served"
    served.mkdir()
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    # Nothing listens on port 1 of the loopback.
    gone = {"ansible_host": "127.0.0.1", "ansible_port": 1, "monitoring_listen": "192.0.2.8"}
    folder = inventory({"monitor1": {**here, "monitoring_listen": "192.0.2.9"}, "monitor2": gone})
    where = f"-e=__monitoring_runs_folder={served}"
    # The limit is the run's; it names no monitoring host.
    told = publish_now(folder, reports, out, "--limit=gpu1", where)
    assert (served / "railyard_runs.prom").read_text() == METRICS
    assert told.count("\n") == 1, told
    assert told.startswith(
        "monitor2 did not get the metrics of this run, which changes nothing in its result"
    )
    assert "Connection refused" in told
    assert f"ansible-playbook -i {folder} " in told
    assert f"playbooks/monitoring.yml -e railyard_reports_dir={reports}\n" in told


class FakeRun:
    """Stands in for ansible-playbook, after a run that was good."""

    def __init__(self, events, return_code, interrupted=False):
        self.events, self.return_code, self.interrupted, self.calls = events, return_code, interrupted, []

    def __call__(self, playbook, sources, argv, **_how):
        self.calls.append((playbook.name, list(sources), list(argv)))
        return self

    def run(self):
        progress = Progress(started=True)
        for event in self.events:
            progress.feed(event)
        return Outcome(self.return_code, self.interrupted, progress)


def failing(event, host, message):
    return {"event": event, "event_data": {"host": host, "task": "Copy", "res": {"msg": message}}}


TIMED_OUT = "Connection timed out\nmore"
NO_FOLDER = "Destination directory /var/lib/prometheus/railyard-runs does not exist"


@pytest.mark.parametrize(
    ("fake", "reason"),
    [
        (FakeRun([failing("runner_on_unreachable", "monitor1", TIMED_OUT)], 4), "Connection timed out."),
        (FakeRun([failing("runner_on_failed", "monitor1", NO_FOLDER)], 2), NO_FOLDER),
        (FakeRun([{"event": "verbose", "stdout": "ERROR! no vault password"}], 4), "no vault password"),
        (FakeRun([], 254, interrupted=True), "it was stopped, or took too long"),
        (FakeRun([], 1), "Ansible ended with 1"),
    ],
)  # fmt: skip
def test_any_obstruction_is_one_line(inventory, reports, out, monkeypatch, fake, reason):
    monkeypatch.setattr(publish, "AnsibleRun", fake)
    told = publish_now(inventory({"monitor1": {"ansible_host": "192.0.2.9"}}), reports, out)
    assert told.count("\n") == 1, told
    assert reason in told
    assert "monitor1 did not get" in told
    assert "more" not in told.partition("Fix")[0].replace("metrics of", "")


def test_a_full_disk_is_one_line_too(inventory, reports, out, monkeypatch):
    def fails(*_argv, **_how):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(publish, "AnsibleRun", fails)
    told = publish_now(inventory({"monitor1": {"ansible_host": "192.0.2.9"}}), reports, out)
    assert "No space left on device" in told


@pytest.mark.parametrize(
    ("hosts", "variables"),
    [
        (None, {}),
        ({"monitor1": {"ansible_host": "192.0.2.9"}}, {"monitoring_state": "absent"}),
        ({"monitor1": {"ansible_host": "192.0.2.9"}}, {"monitoring_state": "ignored"}),
        # Its Prometheus is the site's, and so is what serves it the metrics of runs.
        ({"monitor1": {"ansible_host": "192.0.2.9"}}, {"monitoring_mode": "export"}),
    ],
)
def test_no_host_is_queried_where_none_serves_metrics_of_runs(
    inventory, reports, out, monkeypatch, hosts, variables
):
    fake = FakeRun([], 0)
    monkeypatch.setattr(publish, "AnsibleRun", fake)
    assert publish_now(inventory(hosts, **variables), reports, out) == ""
    assert fake.calls == []


def test_without_metrics_no_host_is_queried(inventory, tmp_path, out, monkeypatch):
    fake = FakeRun([], 0)
    monkeypatch.setattr(publish, "AnsibleRun", fake)
    assert publish_now(inventory({"monitor1": {"ansible_host": "192.0.2.9"}}), tmp_path, out) == ""
    assert fake.calls == []


@pytest.mark.parametrize("status", [0, 1, 3])
def test_a_run_keeps_its_exit_status_when_the_host_is_unreachable(
    inventory, tmp_path, monkeypatch, capsys, status
):
    folder = inventory({"monitor1": {"ansible_host": "192.0.2.9"}})
    reports = tmp_path / "reports"

    class Validates(FakeRun):
        def __call__(self, playbook, sources, argv, **how):
            run = next(word for word in argv if word.startswith("railyard_run=")).partition("=")[2]
            build_run(reports / "lab" / run)
            return super().__call__(playbook, sources, argv, **how)

    unreachable = [failing("runner_on_unreachable", "monitor1", "No route to host")]
    validates, publishes = Validates([], 0), FakeRun(unreachable, 4)
    monkeypatch.setattr(commands, "AnsibleRun", validates)
    monkeypatch.setattr(commands, "_stop", lambda *_args: None)
    monkeypatch.setattr(commands, "conclude", lambda *_args: write_metrics(reports) or status)
    monkeypatch.setattr(publish, "AnsibleRun", publishes)
    argv = ["--limit", "gpu1", "-u", "admin", "--diff"]
    assert commands.operate("validate", [folder], argv, reports) == status
    [(name, sources, words)] = publishes.calls
    assert (name, sources) == ("monitoring.yml", [folder])
    # The last limit is the one that Ansible takes.
    assert [word for word in words if "limit" in word or word == "monitoring"][-2:] == [
        "--limit",
        "monitoring",
    ]
    assert words[words.index("--tags") + 1] == "runs"
    assert "--user=admin" in words
    assert f"railyard_reports_dir={reports}" in words
    assert "monitor1 did not get the metrics of this run" in capsys.readouterr().out


def write_metrics(reports):
    (reports / "railyard_runs.prom").write_text(METRICS)


@pytest.mark.parametrize("verb", ["provision", "validate"])
def test_where_nothing_was_measured_nothing_is_copied(inventory, reports, monkeypatch, verb):
    fake = FakeRun([], 0)
    monkeypatch.setattr(commands, "AnsibleRun", FakeRun([], 0))
    monkeypatch.setattr(publish, "AnsibleRun", fake)
    commands.operate(verb, [inventory({"monitor1": {"ansible_host": "192.0.2.9"}})], ["--check"], reports)
    assert fake.calls == []


@pytest.mark.minutes
@pytest.mark.skipif(os.geteuid() != 0, reason="the file belongs to root")
def test_a_run_that_proves_nothing_is_published_and_its_status_kept(inventory, tmp_path):
    """By the command itself: no node answers, one monitoring host does."""
    served = tmp_path / "served"
    served.mkdir()
    here = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    gone = {"ansible_host": "127.0.0.3", "ansible_port": 1, "monitoring_listen": "192.0.2.8"}
    nodes = make_hosts()
    for name, node in nodes.items():
        node |= {
            "ansible_host": f"127.0.0.{name[-1]}",
            "ansible_port": 1,
            "management_address": f"192.0.2.{name[-1]}",
        }
    folder = inventory({"monitor1": {**here, "monitoring_listen": "192.0.2.9"}, "monitor2": gone}, nodes)
    where = f"__monitoring_runs_folder={served}"
    done = railyard("validate", "-i", folder, "--reports-dir", tmp_path / "reports", "--", "-e", where)
    assert done.returncode == 3, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].startswith("monitor2 did not get the metrics of this run")
    text = (served / "railyard_runs.prom").read_text()
    assert text == (tmp_path / "reports" / "railyard_runs.prom").read_text()
    assert 'railyard_run_exit_status{cluster="lab"' in text
