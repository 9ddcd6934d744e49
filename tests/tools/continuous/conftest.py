"""A cluster of four nodes with stand-ins for Slurm's programs; runs are written instead of measured."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import cost
from railyard.continuous import campaign
from support.inventories.on_disk import make_hosts, write_groups
from support.nodes.fake_slurm import FakeSlurm
from support.runs.fake_run import fabric
from support.runs.run_builder import Change
from support.runs.run_series import add_run

NODES = ("gpu001", "gpu002", "gpu003", "gpu004")


class Lab:
    """The cluster: its inventory, its reports, its Slurm, and what a run finds.

    Attributes:
        measured: the nodes of each run, in order, with the launcher and Slurm's job.
        finds: what the next run finds; called with each result row.
        fails: whether the next run ends with exit status 1.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        declared = fabric(10, cabling="switched")
        self.inventory = write_groups(folder / "lab", make_hosts(*NODES), fabric=declared)
        self.reports = folder / "reports"
        self.slurm = FakeSlurm(folder, {name: {"state": "idle", "gres": "gpu:8"} for name in NODES})
        self.measured: list[tuple[list[str], str, str | None]] = []
        self.words: list[list[str]] = []
        self.finds: Change = lambda row: row
        self.fails = False
        self.day = 1
        self.while_measured: Callable[[], None] = lambda: None

    def operate(self, verb: str, _sources: Any, argv: list[str], reports: Path, **how: Any) -> int:
        """Stand in for commands.operate: write the folder of a run that measured what `--limit` names."""
        assert verb == "validate"
        [limit] = [word.removeprefix("--limit=") for word in argv if word.startswith("--limit=")]
        nodes = limit.split(",")
        self.measured.append((nodes, how["launcher"], os.environ.get("SLURM_JOB_ID")))
        self.words.append(argv)
        self.while_measured()
        self.add(self.finds, nodes)
        return int(self.fails)

    def add(self, finds: Change, nodes: Any = NODES) -> Path:
        """Add a run of the next day."""
        self.day += 1
        return add_run(self.reports, self.day, nodes=tuple(nodes), change_result=finds)

    def validate(self, *argv: str, limit_time: str = "30m", launcher: str | None = None, **how: Any) -> int:
        return campaign.run([str(self.inventory)], list(argv), self.reports, limit_time, launcher, **how)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    made = Lab(tmp_path)
    monkeypatch.setenv("PATH", f"{made.slurm.bin}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setattr(campaign.commands, "operate", made.operate)
    return made


@pytest.fixture
def minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let a run take a minute for each of its nodes."""
    estimate = cost.estimate_inventory

    def takes(inventory: Any) -> cost.Cost:
        found = estimate(inventory)
        return cost.Cost(**{**vars(found), "duration_s": 60.0 * len(inventory.selected_nodes())})

    monkeypatch.setattr(campaign.cost, "estimate_inventory", takes)
