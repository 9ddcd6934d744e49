"""The action that asks BMCs, by plain ansible-playbook: rows of real answers, and it logs in to no node."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from xml.etree import ElementTree as Xml

import pytest
import yaml
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import requests
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import load, plan
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import model
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.documents import write_report
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from support.inventories.on_disk import FABRIC, make_hosts, write_groups
from support.programs import REPO, playbook

RUN = "20261121T101500Z-3f2a"


@pytest.fixture
def bmc():
    """A BMC's TCP port on the loopback."""
    with socket.create_server(("127.0.0.2", 0)) as server:
        yield server.getsockname()[1]


def opened(tmp_path: Path, port: int) -> tuple[Path, run_folder.RunFolder]:
    """Write an inventory of two nodes, of whose BMCs one is there, and a run folder that asks for both."""
    hosts = make_hosts()
    hosts["gpu1"]["bmc_address"], hosts["gpu2"]["bmc_address"] = "127.0.0.2", "127.0.0.3"
    write_groups(tmp_path, hosts)
    planned = plan.build_plan(load.load([str(tmp_path / "hosts.yml")], None))
    rules = policy.merge({"bmc_check": "tcp", "bmc_tcp_ports": [port], "bmc_timeout_s": 1})
    order = requests.work_order(RUN, planned, dict.fromkeys(hosts, FABRIC), rules, hosts)
    lines = requests.asked_lines(planned, order)
    folder = run_folder.create(
        tmp_path / "reports", "lab", RUN, {"policy": rules, "asked": requests.fingerprint(lines)}
    )
    folder.write("plan.json", run_folder.pretty(planned))
    folder.append("asked.jsonl", lines)
    return tmp_path / "hosts.yml", folder


def test_each_bmc_gets_a_row_and_a_verdict(tmp_path, bmc):
    hosts, folder = opened(tmp_path, bmc)
    play = {
        "name": "P",
        "hosts": "gpu_nodes",
        "gather_facts": False,
        "tasks": [
            {
                "name": "Check that the BMCs answer",
                "railyard.fabric.fabric_bmc": {"folder": str(folder.path)},
                "register": "railyard_bmcs",
                "run_once": True,
            },
            {"name": "Say", "ansible.builtin.debug": {"var": "railyard_bmcs"}, "run_once": True},
        ],
    }
    (tmp_path / "play.yml").write_text(yaml.safe_dump([play], sort_keys=False))
    done = playbook(tmp_path / "play.yml", hosts)
    assert done.returncode == 0, done.stdout + done.stderr
    assert '"answered": 1' in done.stdout
    rows, torn = folder.rows("results.jsonl")
    assert not torn
    assert [(row["node"], row["bmc"]["state"], row["host"]) for row in rows] == [
        ("gpu1", "answered", "controller"),
        ("gpu2", "refused", "controller"),
    ]
    assert json.dumps(rows, allow_nan=False)
    found = {one["node"]: one for one in rejudge.judge_folder(folder.path).verdicts if one["check"] == "bmc"}
    assert found["gpu1"]["outcome"] == "pass"
    assert found["gpu2"]["outcome"] == "recorded"

    # What a person reads of it: by the node, since no rail is concerned.
    rejudge.rejudge(folder.path)
    write_report(folder.path, model.read(folder.path))
    told = (folder.path / "report.md").read_text()
    assert "a machine is at the BMC's address; it refuses all of fabric_policy.bmc_tcp_ports" in told
    cases = Xml.parse(folder.path / "junit.xml").getroot().findall(".//testsuite[@name='bmc']//testcase")
    assert len(cases) == 2
    assert [case for case in cases if case.find("failure") is not None] == []


def test_validate_asks_them_before_the_measurement_and_goes_on_without():
    tasks = yaml.safe_load((REPO / "playbooks" / "validate.yml").read_text())[0]["tasks"][1]["block"]
    names = [next(key for key in task if "." in key) for task in tasks]
    assert names.index("railyard.fabric.fabric_ask") < names.index("railyard.fabric.fabric_bmc")
    asks = tasks[names.index("railyard.fabric.fabric_bmc")]
    assert asks["ignore_errors"] is True
    assert asks["run_once"] is True
