"""The action subnet_capture, called by Ansible: what a node returned becomes a folder, or is refused."""

from __future__ import annotations

import json

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet import captures
from support.programs import playbook

COMMAND = {
    "argv": ["ibnetdiscover", "-p"], "file": "ibnetdiscover.txt",
    "stdout": "CA  {{ 6 * 7 }}\n", "stderr": "ibwarn\n", "rc": 0, "started_at_s": 1.5, "seconds": 0.5,
}  # fmt: skip
CAPTURE = {"schema": 1, "device": "mlx5_0", "port": 1, "started_at_s": 1.0, "commands": [COMMAND]}
PLAY = """\
- hosts: gpu01
  gather_facts: false
  connection: local
  tasks:
    - railyard.fabric.subnet_capture:
        capture: "{{ lookup('file', file) | from_json }}"
        folder: "{{ into }}"
"""


def keep(tmp_path, capture, *options):
    (tmp_path / "play.yml").write_text(PLAY)
    (tmp_path / "capture.json").write_text(json.dumps(capture))
    values = {"file": str(tmp_path / "capture.json"), "into": str(tmp_path / "into")}
    return playbook(tmp_path / "play.yml", "gpu01,", "-e", json.dumps(values), *options)


def test_what_a_node_returned_is_kept_as_it_is(tmp_path):
    done = keep(tmp_path, CAPTURE)
    assert done.returncode == 0, done.stdout + done.stderr
    capture = captures.load(str(tmp_path / "into"))
    assert (capture.host, capture.device, capture.port) == ("gpu01", "mlx5_0", 1)
    assert [(one.stdout, one.stderr) for one in capture.commands] == [("CA  {{ 6 * 7 }}\n", "ibwarn\n")]


def test_nothing_is_written_in_check_mode(tmp_path):
    assert keep(tmp_path, CAPTURE, "--check").returncode == 0
    assert not (tmp_path / "into").exists()


@pytest.mark.parametrize("file", ["../../evil.txt", "/tmp/evil.txt", "evil.txt", "capture.json"])
def test_a_node_names_no_path(tmp_path, file):
    done = keep(tmp_path, {**CAPTURE, "commands": [{**COMMAND, "file": file}]})
    assert done.returncode == 2
    assert "subnet_info" in done.stdout + done.stderr
    assert {path.name for path in tmp_path.rglob("*")} == {"play.yml", "capture.json"}
