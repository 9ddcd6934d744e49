"""validate.yml by plain ansible-playbook, on stand-ins of nodes: collected and judged whatever happens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from support.inventories.on_disk import make_hosts, write_groups
from support.programs import REPO, Done, playbook, replace_plugins

STAND_IN = """
import os
from pathlib import Path
from ansible.errors import AnsibleConnectionFailure
from ansible.plugins.action import ActionBase

NAME = Path(__file__).stem


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        node = task_vars["inventory_hostname"]
        diary = Path(os.environ["DIARY"], f"{NAME}.{node}")
        with diary.open("a") as stream:
            stream.write(".")
        return {"changed": False, **getattr(self, NAME)(node, diary.stat().st_size)}

    def fabric_inspect(self, node, count):
        with Path(self._task.args["folder"], "facts.jsonl").open("a") as stream:
            stream.write('{"node": "%s"}\\n' % node)
        return {"inspected": True}

    def fabric_stage(self, node, count):
        return {"program_sha256": "00", "controller": "me", "lease_s": 90, "deadline_s": 2400}

    def fabric_run(self, node, count):
        return {"unit": "railyard-runner", "deadline_s": 365 * 86400.0}

    def fabric_watch(self, node, count):
        if node == "lost2":
            raise AnsibleConnectionFailure("Connection timed out")
        if node == "slow3":
            return {"failed": True, "msg": "it answers something else"}
        return {"done": True, "finished_tests": 9, "total_tests": 9}

    def fabric_collect(self, node, count):
        with Path(self._task.args["folder"], "results.jsonl").open("a") as stream:
            stream.write('{"host": "%s"}\\n' % node)
        return {"rows": 1}
"""


@pytest.fixture
def validate(tmp_path):
    """Run validate.yml as site.yml does, on nodes; return the process and the run folder."""
    names = ("inspect", "stage", "run", "watch", "collect")
    actions = {f"fabric_{name}": STAND_IN for name in names}
    replace_plugins(tmp_path / "collections", "action", actions)
    (tmp_path / "diary").mkdir()
    play = {"import_playbook": str(REPO / "playbooks" / "validate.yml")}
    (tmp_path / "site.yml").write_text(yaml.safe_dump([play]))

    def run(*nodes: str, argv: tuple[str, ...] = ()) -> tuple[Done, Path]:
        write_groups(tmp_path, make_hosts(*nodes))
        environment = {
            "ANSIBLE_COLLECTIONS_PATH": str(tmp_path / "collections"),
            "PYTHONPATH": str(tmp_path),
            "DIARY": str(tmp_path / "diary"),
        }
        reports = f"railyard_reports_dir={tmp_path / 'reports'}"
        done = playbook(tmp_path / "site.yml", tmp_path / "hosts.yml", "-e", reports, *argv, **environment)
        folders = [found.parent for found in (tmp_path / "reports").glob("*/*/manifest.json")]
        assert len(folders) == 1, done.stdout + done.stderr
        return done, folders[0]

    return run


@pytest.mark.minutes
def test_all_is_collected_and_judged_whatever_the_waiting_comes_to(validate):
    nodes = ("quick1", "lost2", "slow3")
    done, folder = validate(*nodes, argv=("--tags", "validate"))
    assert "Traceback" not in done.stdout + done.stderr
    assert done.returncode == 2, done.stdout[-3000:] + done.stderr  # of the judge
    rows = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    assert {row["host"] for row in rows if "run" not in row} == set(nodes)
    assert json.loads((folder / "manifest.json").read_text())["end"]["reason"] == "completed"
    for name in ("verdicts.jsonl", "report.md", "index.html", "junit.xml", "railyard.prom"):
        assert (folder / name).stat().st_size, name
