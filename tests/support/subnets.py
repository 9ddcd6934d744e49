# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated InfiniBand subnets for tests: Debian's ibsim and opensm, which `tools/setup --check` unpacks."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from railyard.base import paths
from railyard.lab.subnet.net import Net, from_plan, render
from railyard.lab.subnet.simulator import Manager, Programs, RunningManager, Simulation

TREE = paths.repo_root() / ".cache/ibsim/tree"


def find_programs() -> Programs:
    """Return where ibsim and the tools are; skips the test where they are not, or no namespace is allowed."""
    programs = Programs(TREE if (TREE / "usr/bin/ibsim").exists() else Path("/"))
    if not shutil.which(programs.path("ibsim")):
        pytest.skip("ibsim is not here: `tools/setup --check` fetches it where apt-get is there")
    apart = ["unshare", "--net", *([] if os.geteuid() == 0 else ["--map-root-user"]), "true"]
    if subprocess.run(apart, capture_output=True, check=False).returncode:
        pytest.skip("no network namespace can be made here: a simulated subnet needs one of its own")
    return programs


def make_plan(
    nodes: int = 16, rails: int = 4, rate_gbps: float = 100, units: int = 1, leaves: bool = True
) -> dict[str, Any]:
    """Return a plan: nodes gpu001 ..., each rail on a leaf of its own in each scalable unit.

    Args:
        nodes: how many in all; as many in each unit.
        rails: of each node: mlx5_0 ...
        rate_gbps: of each rail.
        units: how many scalable units.
        leaves: whether the rails name their leaves; the net is made with them in any case.
    """
    planned = {}
    for number in range(nodes):
        unit = number * units // nodes + 1
        planned[f"gpu{number + 1:03}"] = {
            "scalable_unit": f"su{unit}" if units > 1 else None,
            "rail_overrides": {},
            "rails": [
                {
                    "name": f"rail{rail}",
                    "hca": f"mlx5_{rail}:1",
                    "leaf": f"su{unit}-leaf{rail + 1}" if leaves else None,
                    "rate_gbps": rate_gbps,
                }
                for rail in range(rails)
            ],
        }
    return {"schema": 1, "cluster": "simulated", "transport": "infiniband", "nodes": planned}


def make_net(spines: int = 2, uplinks: int | None = None, **plan: Any) -> Net:
    """Return the net of `make_plan(**plan)`."""
    return from_plan(make_plan(**plan), spines, uplinks)


class Subnet:
    """A simulated subnet that is up, with the subnet manager at its first adapter."""

    def __init__(self, net: Net, simulation: Simulation, manager: RunningManager | None):
        self.net, self.simulation, self.manager = net, simulation, manager
        self.first = net.adapters()[0]

    def make(self, *faults: Any, sweep: bool = False) -> None:
        """Make faults, and wait for the subnet manager where it has to do something about them."""
        before = self.manager.sweeps() if self.manager else 0
        for fault in faults:
            for line in fault.commands(self.net):
                self.simulation.command(line)
        if sweep:
            assert self.manager is not None
            self.manager.wait_for_sweep(before)

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run a tool as the first adapter."""
        return self.simulation.run_tool(self.first.name, *argv)

    def manager_at(self, name: str, *options: str) -> Manager:
        """Return a subnet manager at an adapter."""
        return Manager(name, self.net.devices[name].guid + 1, options)


@contextmanager
def simulate(net: Net, folder: Path, *options: str, manager: bool = True) -> Iterator[Subnet]:
    """Bring a net up; `options` are further ones of its opensm."""
    with Simulation(render(net), folder, find_programs()) as simulation:
        subnet = Subnet(net, simulation, None)
        if manager:
            subnet.manager = simulation.start_manager(subnet.manager_at(subnet.first.name, *options))
        yield subnet
