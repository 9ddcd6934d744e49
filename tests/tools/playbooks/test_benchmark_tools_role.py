"""Role benchmark_tools: which daemons it stops, and when it reads the health of drives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from support.programs import REPO, of_role, play_on_hosts

PLAY = """\
- hosts: all
  connection: local
  gather_facts: false
  vars_files: [ROLE/vars/main.yml]
  tasks:
    - ansible.builtin.assert:
        that:
          - __benchmark_tools_daemons == daemons
          - (benchmark_tools_health | bool) == health
          - __benchmark_tools_pins == pins
        fail_msg: "{{ __benchmark_tools_daemons }}, {{ benchmark_tools_health }}"
"""
OURS, BOTH = ["iperf3.service"], ["iperf3.service", "smartmontools.service"]
NCCL = "2.28.3-1+cuda12.9"
MOUNTS = {"storage_mounts": ["/data"]}


def planned(*moves: tuple[str, str | None]) -> dict[str, Any]:
    """Return the fact that apt_packages leaves of what it moved: name, and the version before."""
    told = [{"name": name, "before": before, "after": "7.3"} for name, before in moves]
    return {"__apt_packages_planned": {"changed": False, "plan": {"moves": told}}}


# By name: what a host has, which daemons are stopped there, and whether drives are read.
HOSTS: dict[str, tuple[dict[str, Any], list[str], bool]] = {
    "nothing_moved": ({"fabric_policy": MOUNTS}, OURS, True),
    "brought_now": ({"fabric_policy": MOUNTS, **planned(("fio", None), ("smartmontools", None))}, BOTH, True),
    # The site's own monitoring, whose package is merely newer now.
    "was_there": ({"fabric_policy": MOUNTS, **planned(("smartmontools", "7.2"))}, OURS, True),
    "nothing_planned": ({"__apt_packages_planned": {"changed": False}}, OURS, False),
    "with_nccl": ({"benchmark_tools_nccl": NCCL}, OURS, False),
    "switched_off": ({"fabric_policy": {**MOUNTS, "storage_health": False}}, OURS, False),
}


def test_smartd_is_stopped_where_the_role_brought_it_and_nowhere_else(tmp_path: Path) -> None:
    # As variables of the hosts: those of a play would win over them.
    defaults = yaml.safe_load((REPO / "roles/benchmark_tools/defaults/main.yml").read_text())
    hosts = {
        name: {
            **defaults,
            **variables,
            "daemons": daemons,
            "health": health,
            "pins": {"libnccl2": NCCL} if name == "with_nccl" else {},
            "fabric": {"transport": "tcp"},
        }
        for name, (variables, daemons, health) in HOSTS.items()
    }
    done = play_on_hosts(tmp_path, of_role(PLAY, "benchmark_tools"), hosts)
    assert done.returncode == 0, done.stdout + done.stderr
