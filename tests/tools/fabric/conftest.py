"""An inventory of the small fabric, and the command on its captures."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from railyard.fabric import command
from railyard.fabric.wanted import SlurmForm, Wanted
from support.small_fabric import TAKEN_AT_S

INVENTORY = """\
fabric:
  transport: infiniband
  node_class: container
  rails:
    - {name: rail0, hca: "mlx5_0:1", rate_gbps: 400, leaf: leaf0}
    - {name: rail1, hca: "mlx5_1:1", rate_gbps: 400, leaf: leaf1}
  frontend: {netdev: enp5s0}
"""


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """Return an inventory of the fabric, older than its captures."""
    folder = tmp_path / "mine"
    (folder / "group_vars" / "all").mkdir(parents=True)
    (folder / "hosts.yml").write_text("gpu_nodes:\n  hosts:\n    gpu[01:04]:\n")
    (folder / "group_vars" / "all" / "fabric.yml").write_text(INVENTORY)
    for path in folder.rglob("*.yml"):
        os.utime(path, (TAKEN_AT_S, TAKEN_AT_S))
    return folder


@pytest.fixture
def read(inventory: Path, tmp_path: Path) -> Callable[..., int]:
    """Return the command, on captures."""

    def run(*captures: Path, **changes: object) -> int:
        wanted = {
            "inventory": [str(inventory)],
            "captures": list(captures),
            "host": None,
            "interval_s": 60.0,
            "as_json": False,
            "svg": None,
            "slurm_topology": None,
            "slurm_form": SlurmForm.TREE,
            "slurm_nodes": None,
            "rank_order": None,
            "reports_dir": tmp_path / "reports",
        }
        return command.run(Wanted(**{**wanted, **changes}), [])

    return run
