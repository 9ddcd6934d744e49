# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Simulated InfiniBand subnets for tests: Debian's ibsim and opensm, which `tools/setup --check` unpacks."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet_capture import Capture, Command
from ansible_collections.railyard.fabric.plugins.module_utils.subnet import run
from ansible_collections.railyard.fabric.plugins.module_utils.subnet.commands import Port
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import load
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Inventory
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.plan import build_plan
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.expected import from_inventory
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Expected
from railyard.base import paths
from railyard.lab import process
from railyard.lab.subnet.faults import DeviceLost, Exchanged, LinkDown, LiveFault
from railyard.lab.subnet.net import Net, from_plan, render
from railyard.lab.subnet.simulator import Manager, Programs, RunningManager, Simulation

ROOT = paths.repo_root()
TREE = ROOT / ".cache/ibsim/tree"


def find_programs() -> Programs:
    """Return where ibsim and the tools are; skips the test where they are not, or no namespace is allowed."""
    programs = Programs(TREE if (TREE / "usr/bin/ibsim").exists() else Path("/"))
    if not shutil.which(programs.path("ibsim")):
        pytest.skip("ibsim is not here: `tools/setup --check` fetches it where apt-get is there")
    apart = ["unshare", "--net", *([] if os.geteuid() == 0 else ["--map-root-user"]), "true"]
    if subprocess.run(apart, capture_output=True, check=False).returncode:
        pytest.skip("no network namespace can be made here: a simulated subnet needs one of its own")
    return programs


@dataclass(frozen=True)
class Cluster:
    """A cluster by its inventory: nodes gpu001 ..., each rail on a leaf of its own in each scalable unit.

    Attributes:
        nodes: how many in all; as many in each unit.
        rails: of each node: mlx5_0 ...
        rate_gbps: of each rail.
        units: how many scalable units.
        spines: how many the simulated net has; the inventory says nothing about them.
        uplinks: of each leaf; None for as many as it has nodes.
        more: further keys of `fabric`.
    """

    nodes: int = 16
    rails: int = 4
    rate_gbps: int = 100
    units: int = 1
    spines: int = 2
    uplinks: int | None = None
    more: tuple[tuple[str, Any], ...] = ()

    def text(self) -> str:
        """Return the inventory, one file: YAML is a superset of JSON."""
        units = [f"su{number}" for number in range(1, self.units + 1)]
        rails = [
            {
                "name": f"rail{rail}",
                "hca": f"mlx5_{rail}:1",
                "rate_gbps": self.rate_gbps,
                "leaves": {unit: f"{unit}-leaf{rail + 1}" for unit in units},
            }
            for rail in range(self.rails)
        ]
        fabric = {
            "transport": "infiniband",
            "rails": rails,
            "frontend": {"netdev": "eno1", "dhcp4": True, "manage": False},
            **dict(self.more),
        }
        hosts = {
            f"gpu{number + 1:03}": {"scalable_unit": units[number * self.units // self.nodes]}
            for number in range(self.nodes)
        }
        return json.dumps({"gpu_nodes": {"hosts": hosts, "vars": {"fabric": fabric}}}, indent=1)

    def read(self) -> Inventory:
        """Read the inventory as Railyard does; it has no problems."""
        return _read_inventory(self.text())

    def net(self) -> Net:
        """Return the net that the inventory declares."""
        plan = build_plan(self.read())
        leaves = plan.get("subnet", {}).get("leaves", {})
        guids = {name: leaf["guid"] for name, leaf in leaves.items() if "guid" in leaf}
        return from_plan(plan, self.spines, self.uplinks, guids)

    def expected(self, *, with_leaves: bool = True) -> Expected:
        """Return what the inventory expects of the subnet."""
        expected = from_inventory(self.read())
        if with_leaves:
            return expected
        return expected._replace(ports=tuple(port._replace(leaf=None) for port in expected.ports), leaves={})


@lru_cache
def _read_inventory(text: str) -> Inventory:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "hosts.yml")
        file.write_text(text, encoding="utf-8")
        inventory = load.load([str(file)])
        assert [problem.text() for problem in load.validate(inventory)] == []
    return inventory


def make_net(**cluster: Any) -> Net:
    """Return the net of `Cluster(**cluster)`."""
    return Cluster(**cluster).net()


class Subnet:
    """A simulated subnet that is up, with the subnet manager at its first adapter."""

    def __init__(self, net: Net, simulation: Simulation, manager: RunningManager | None):
        self.net, self.simulation, self.manager = net, simulation, manager
        self.first = net.adapters()[0]

    def make(self, *faults: LiveFault) -> None:
        """Make faults; of links first, since opensm sweeps after these and cannot with a GUID used twice."""
        links = [one for one in faults if isinstance(one, (LinkDown, DeviceLost, Exchanged))]
        before = self.manager.sweeps() if self.manager else 0
        self._command(links)
        if links and self.manager is not None:
            self.manager.wait_for_sweep(before)
        self._command(one for one in faults if one not in links)

    def _command(self, faults: Iterable[LiveFault]) -> None:
        for fault in faults:
            for line in fault.commands(self.net):
                self.simulation.command(line)

    def run(self, *argv: str) -> subprocess.CompletedProcess[str]:
        """Run a tool as the first adapter."""
        simulation = self.simulation
        return process.run(
            [*simulation.prefix, simulation.programs.path(argv[0]), *argv[1:]],
            check=False,
            timeout_s=60,
            environment=simulation.programs.environment(self.first.name),
            folder=simulation.folder,
        )

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


def read(subnet: Subnet, *, partitions: bool = False, interval_s: float = 0) -> Capture:
    """Read a subnet as Railyard does on a node: its commands, which find the tools by the PATH."""
    folder = subnet.simulation.folder / "tools"
    if not folder.exists():
        node, _, device = subnet.first.name.partition(" ")
        subnet.simulation.write_wrappers(folder, node, device)
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{folder}:{before}"
    try:
        found = run.read_subnet(Port(None, None), partitions, interval_s)
    finally:
        os.environ["PATH"] = before
    return found._replace(host=subnet.first.name.split()[0])


def count_between(before: Capture, after: Capture, seconds: float) -> Capture:
    """Return the second of two captures as if the error counters of the first were read so long before it."""

    def is_count(command: Command) -> bool:
        return command.file.startswith("ibqueryerrors")

    second = next(one for one in after.commands if is_count(one))
    first = next(one for one in before.commands if is_count(one))
    first = first._replace(file="ibqueryerrors.1.txt", started_at_s=second.started_at_s - seconds)
    rest = [one for one in after.commands if not is_count(one)]
    return after._replace(commands=(*rest, first, second._replace(file="ibqueryerrors.2.txt")))


#: Tests of a run that is put in place of one that measures: gpu003 is slow on rail0, and meanwhile ibsim gets
#: the commands of SIMULATED_EVENTS.
_TESTED = """
import os
from pathlib import Path
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import model
from railyard.lab.subnet.simulator import send
from railyard.operate import commands
from support.runs import run_series

def operate(verb, sources, argv, reports, run_id, passwords, hand_over):
    slow = run_series.slow("gpu003", "rail0")
    cluster = Path(sources[0]).name
    run_series.add_run(reports, 21, cluster=cluster, name=run_id, change_result=slow)
    judged = rejudge.judge_folder(reports / cluster / run_id)
    hand_over(reports / cluster / run_id, judged, model.read(reports / cluster / run_id, judged))
    for line in os.environ["SIMULATED_EVENTS"].splitlines():
        send(Path(os.environ["SIMULATION"]), line)
    return 1

commands.operate = operate
"""


def run_fabric(
    inventory: Path, reports: Path, *words: str, subnet: Subnet | None = None, node: str = "gpu01"
) -> subprocess.CompletedProcess[str]:
    """Run `railyard fabric`; with a subnet, its tools are on the PATH, as if this machine were a node."""
    return run_railyard(reports, "fabric", "-i", str(inventory), *words, subnet=subnet, node=node)


def run_validate(
    inventory: Path, reports: Path, subnet: Subnet, *events: LiveFault, node: str = "gpu001"
) -> subprocess.CompletedProcess[str]:
    """Run `railyard validate --fabric` with a run that is put in place, while which the events happen."""
    lines = "\n".join(line for event in events for line in event.commands(subnet.net))
    variables = {"SIMULATED_EVENTS": lines, "SIMULATION": str(subnet.simulation.folder)}
    words = ("validate", "--fabric", "-i", str(inventory))
    return run_railyard(reports, *words, subnet=subnet, node=node, before=_TESTED, variables=variables)


def run_railyard(
    reports: Path,
    *words: str,
    subnet: Subnet | None = None,
    node: str = "gpu01",
    before: str = "",
    variables: Mapping[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run the command; `before` is Python that changes parts of it."""
    environment = {
        **os.environ, "RAILYARD_REPORTS_DIR": str(reports), "COLUMNS": "200", **(variables or {}),
    }  # fmt: skip
    # Not all of this process's: the node's interpreter is another one, and inherits it.
    environment["PYTHONPATH"] = f"{ROOT / 'tools'}:{ROOT / 'collections'}:{ROOT / 'tests'}"
    if subnet is not None:
        folder = subnet.simulation.folder / "tools"
        subnet.simulation.write_wrappers(folder, node, "mlx5_0")
        environment["PATH"] = f"{folder}:{environment['PATH']}"
    program = f"{before}\nimport sys; from railyard.cli import main; sys.argv[0] = 'railyard'; main()"
    return subprocess.run(
        [sys.executable, "-c", program, *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
