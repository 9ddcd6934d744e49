"""Role nvidia_driver: what its variables make of a node's facts, by ansible-playbook on this machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from railyard.base import paths

REPO = paths.repo_root()
PLAY = """\
- hosts: all
  connection: local
  gather_facts: false
  vars_files: [ROLE/defaults/main.yml, ROLE/vars/main.yml]
  tasks:
    - ansible.builtin.assert:
        that: shown == expected
        fail_msg: "{{ shown | to_json }}"
      vars:
        shown:
          wanted: "{{ __nvidia_driver_wanted | map(attribute='path') | map('basename') }}"
          text: "{{ lookup('ansible.builtin.template', 'ROLE/templates/' ~ template) }}"
"""
MODULES = "etc/modules-load.d/railyard-nvidia.conf.j2"
MODPROBE_FILE, MODULES_FILE = "railyard-nvidia.conf", "railyard-nvidia.conf"
HEAD = "# Managed by Railyard (role nvidia_driver): change the inventory, not this file.\n"
PEERMEM = "# How an HCA reaches GPU memory: asked.\nnvidia-peermem\n"
UMAD = "# How the Fabric Manager reaches the NVSwitches, which are behind a ConnectX-7 bridge.\nib_umad\n"


def choice(path: str = "none", modules: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return what the role chose, as far as these files go."""
    return {
        "flavour": "open",
        "gpudirect": {"path": path, "why": "asked"},
        "switch_modules": list(modules),
    }


def host(expected_text: str, wanted: list[str], **variables: Any) -> dict[str, Any]:
    """Return a host's variables."""
    return {
        "fabric": {"transport": "tcp"},
        "template": MODULES,
        "expected": {"wanted": wanted, "text": expected_text},
        "__nvidia_driver_layout": {},
        **variables,
    }


HOSTS = {
    "plain": host(HEAD, [MODPROBE_FILE], __nvidia_driver_choice=choice()),
    "peermem": host(
        HEAD + PEERMEM, [MODPROBE_FILE, MODULES_FILE], __nvidia_driver_choice=choice("nvidia_peermem")
    ),
    "hgx_b200_over_tcp": host(
        HEAD + UMAD, [MODPROBE_FILE, MODULES_FILE], __nvidia_driver_choice=choice("dma_buf", ("ib_umad",))
    ),
    "hgx_b200_with_peermem": host(
        HEAD + PEERMEM + UMAD,
        [MODPROBE_FILE, MODULES_FILE],
        __nvidia_driver_choice=choice("nvidia_peermem", ("ib_umad",)),
    ),
}


def test_the_files_follow_from_what_was_chosen(tmp_path: Path) -> None:
    (tmp_path / "hosts.json").write_text(json.dumps({"all": {"hosts": HOSTS}}))
    (tmp_path / "play.yml").write_text(PLAY.replace("ROLE", str(REPO / "roles/nvidia_driver")))
    program = Path(sys.executable).with_name("ansible-playbook")
    done = subprocess.run(
        [program, "-i", tmp_path / "hosts.json", tmp_path / "play.yml"],
        env={**os.environ, "ANSIBLE_CONFIG": str(REPO / "ansible.cfg")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
