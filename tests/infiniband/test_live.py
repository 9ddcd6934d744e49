"""`railyard fabric` on a live subnet, by Ansible, with this machine as the node. It knows of no simulator."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from railyard.base.paths import repo_root
from railyard.lab.subnet.cli import net_of
from railyard.lab.subnet.faults import Exchanged, LinkDown
from railyard.lab.subnet.net import End
from railyard.lab.subnet.simulator import TOOLS
from support import simulated

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="reading as root without a login needs root")
# Root becomes root by su, which every machine has.
CONNECTION = """\
ansible_connection: local
ansible_python_interpreter: /usr/bin/python3
ansible_become_method: ansible.builtin.su
"""


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """The lab's own inventory, whose gpu01 is this machine."""
    folder = tmp_path / "lab-infiniband"
    shutil.copytree(repo_root() / "inventories/lab-infiniband", folder)
    (folder / "group_vars/all/connection.yml").write_text(CONNECTION)
    return folder


def test_a_live_subnet_is_read_judged_and_reported(inventory: Path, tmp_path: Path) -> None:
    net, reports = net_of(inventory, spines=2, uplinks=None), tmp_path / "reports"
    with simulated.simulate(net, tmp_path / "sim") as subnet:
        healthy = simulated.run_fabric(inventory, reports, "--interval", "0", subnet=subnet)
        assert healthy.returncode == 0, healthy.stdout + healthy.stderr
        assert "64 of 64" in healthy.stdout

        subnet.make(Exchanged(End("gpu05 mlx5_0", 1), End("gpu05 mlx5_1", 1)), LinkDown(End("leaf3", 20)))
        faulty = simulated.run_fabric(inventory, reports, "--interval", "1", subnet=subnet)
    assert faulty.returncode == 1, faulty.stdout + faulty.stderr
    for words in ("gpu05", "rail0", "rail1", "leaf1 port 5", "leaf3 port 20", "spine1"):
        assert words in faulty.stdout
    first, second = sorted((reports / "lab-infiniband" / "fabric").iterdir())
    assert str(second / "index.html") in faulty.stdout
    for folder in (first, second):
        assert {"index.html", "fabric.svg", "reading.json", "findings.json", "capture"} <= {
            one.name for one in folder.iterdir()
        }
    commands = json.loads((second / "capture/capture.json").read_text())["commands"]
    # Of the 64 adapters each P_Key table was read, and the counters twice.
    assert sum("pkeys" in one["argv"] for one in commands) == 64
    assert sum(one["argv"][0] == "ibqueryerrors" for one in commands) == 2


def test_a_node_without_infiniband_is_not_readable(
    inventory: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The tools are there, and no subnet: this machine has no InfiniBand.
    programs, folder = simulated.find_programs(), tmp_path / "bin"
    folder.mkdir()
    variables = " ".join(f"{name}={value}" for name, value in programs.environment().items())
    for name in TOOLS:
        (folder / name).write_text(f'#!/bin/sh\nexec env {variables} {programs.path(name)} "$@"\n')
        (folder / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    done = simulated.run_fabric(inventory, tmp_path / "reports", "--interval", "0")
    assert done.returncode == 3, done.stdout + done.stderr
    assert "No fault found" not in done.stdout
