# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two nodes of a machine with their inventory, and the real code of Railyard that runs on them."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.railyard.fabric.plugins.module_utils.bounded import Ended, ToolError
from ansible_collections.railyard.fabric.plugins.module_utils.facts import node as facts_node
from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import Reader
from ansible_collections.railyard.fabric.plugins.module_utils.gpu import facts as gpu_facts
from ansible_collections.railyard.fabric.plugins.module_utils.kernel import settings as kernel_settings
from ansible_collections.railyard.fabric.plugins.module_utils.qos import apply as qos_apply
from ansible_collections.railyard.fabric.plugins.module_utils.qos.tools import Answer
from ansible_collections.railyard.fabric.plugins.module_utils.quick import expectation, look
from ansible_collections.railyard.fabric.plugins.module_utils.quick.found import Found
from ansible_collections.railyard.fabric.plugins.module_utils.rails import bind
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import load
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Inventory
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.plan import build_plan

from support.machines import drivers as driver_files
from support.machines import kernel, machine, programs
from support.machines.fields import DataError, merged
from support.machines.roles import Role
from support.machines.tree import Tree
from support.nodes import qos_node
from support.runs.fake_run import RUN

GALLERY = Path(__file__).resolve().parents[2] / "machines"
_SYSTEM_PATH = "/usr/bin:/bin"


@functools.cache
def drivers() -> dict[str, driver_files.Driver]:
    """Return what each kernel driver shows, by name."""
    return {path.stem: driver_files.read_driver(path) for path in sorted((GALLERY / "drivers").glob("*.yml"))}


def names() -> list[str]:
    """Return the machines' names."""
    return sorted(path.parent.name for path in GALLERY.glob("*/machine.yml"))


@functools.cache
def read(name: str) -> machine.Machine:
    """Read a machine of the gallery."""
    return machine.read(GALLERY / name)


class NodeOn:
    """One node: its tree, its programs, and Railyard's own code on it."""

    def __init__(self, tree: Tree, name: str, plan: Mapping[str, Any]) -> None:
        self.tree, self.name, self.plan = tree, name, plan
        self.bin = tree.root / "bin"
        tree.build()
        programs.write(tree, self.bin)
        self.kernel = kernel.Machine(tree, f"{self.bin}:{_SYSTEM_PATH}")
        self._facts: dict[str, Any] | None = None

    def reader(self) -> Reader:
        """Return a reader of the node's files."""
        return Reader(*(str(self.tree.root / one) for one in ("sys", "proc", "etc")))

    def run(self, argv: Any) -> str | None:
        """Run one of the node's programs as `facts.tools.runner` does."""
        answer = self.answer(argv)
        return None if answer.status == 127 else f"{answer.out}\n{answer.error}"

    def answer(self, argv: Any) -> Answer:
        """Run one of the node's programs."""
        program = self.bin / argv[0]
        if not program.exists():
            return Answer(127, "", f"the node has no {argv[0]}")
        done = subprocess.run(
            [str(program), *argv[1:]], capture_output=True, text=True, check=False,
            env={"PATH": f"{self.bin}:{_SYSTEM_PATH}"},
        )  # fmt: skip
        return Answer(done.returncode, done.stdout, done.stderr)

    def ask(self, argv: Any) -> Ended:
        """Run one of the node's programs as `bounded.ask` does."""
        answer = self.answer(argv)
        if answer.status == 127:
            raise ToolError(f"{argv[0]}: not found", absent=True)
        return Ended(answer.status, f"{answer.out}{answer.error}")

    def facts(self) -> dict[str, Any]:
        """Return the node's facts row, as rail_info reads it."""
        if self._facts is None:
            with self.kernel.running():
                row = facts_node.collect(self.reader(), self.run, None, ask_optics=self.ask)
            self._facts = {**row, "node": self.name, "run": RUN, "collected": "2026-11-21T10:15:02.000Z"}
        return self._facts

    def bound(self) -> dict[str, bind.Bound]:
        """Return the plan's rails, bound to the facts."""
        return bind.bind(self.plan["rails"], self.facts())

    def gpu_info(self) -> dict[str, Any]:
        """Return what gpu_info says."""
        with self.kernel.running():
            return gpu_facts.collect(self.reader(), self.run, str(self.tree.root))

    def quick(self) -> Found:
        """Look at the node quickly."""
        wanted = {
            "schema": 1,
            "node": self.name,
            "transport": self.plan["transport"],
            "node_class": self.plan["node_class"],
            "rails": self.plan["rails"],
            "governor": self.tree.node.governor or "",
            "gpus": self.plan.get("gpus"),
        }
        how = look.How("gallery", str(self.tree.root / "var/lib/railyard/quick"), root=str(self.tree.root))
        os.makedirs(how.folder, exist_ok=True)
        with self.kernel.running():
            return look.bounded_look(expectation.parse(wanted), how)

    def hold_qos(self, variables: dict[str, Any]) -> dict[str, Any]:
        """Hold the RoCE QoS of the node's rails, as role roce_qos asks; raise QosError where it refuses."""
        params = {
            **qos_node.DEFAULTS,
            "rails": self.plan["rails"],
            "not_asked": Role("roce_qos", self, variables).variable("roce_qos_not_asked"),
            "folder": str(self.tree.root / "var/lib/railyard/roce_qos"),
            "root": str(self.tree.root),
        }
        which = functools.partial(shutil.which, path=str(self.bin))
        with self.kernel.running():
            return qos_apply.hold(params, self.answer, which, check_mode=False)

    def kernel_settings(self) -> dict[str, Any]:
        """Read what kernel_settings reads of the node."""
        wanted = kernel_settings.Wanted(
            governor="performance",
            irq_netdevs=[str(rail["netdev"]) for rail in self.plan["rails"] if rail["netdev"]],
        )
        with self.kernel.running():
            return kernel_settings.read(str(self.tree.root), wanted, None)


class Pair:
    """Two nodes of a machine, of a variant where one is given."""

    def __init__(
        self,
        of: machine.Machine,
        folder: Path,
        variant: machine.Variant | None = None,
        healthy: Pair | None = None,
    ) -> None:
        """Read the inventory.

        Args:
            of: the machine.
            folder: where the nodes' trees are made.
            variant: what is sick of it.
            healthy: the machine's healthy pair, which lends the nodes that the variant leaves as they are.
        """
        self.machine, self.folder, self.variant, self.healthy = of, folder, variant, healthy
        #: The rows of the healthy pair's run, once there is one.
        self.results: list[dict[str, Any]] = []
        self.inventory = self._inventory()
        self.problems = load.validate(self.inventory)

    @functools.cached_property
    def plan(self) -> dict[str, Any]:
        """Return the plan of both nodes."""
        plan = build_plan(self.inventory)
        if len(plan["nodes"]) != 2:
            raise DataError(f"{self.machine.name}/inventory: needs two nodes, not {len(plan['nodes'])}")
        return plan

    @functools.cached_property
    def nodes(self) -> dict[str, NodeOn]:
        """Return both nodes, by name."""
        found = {}
        for number, (name, plan) in enumerate(self.plan["nodes"].items(), start=1):
            is_sick = self.variant is not None and number in self.variant.on_nodes
            changed = is_sick and self.variant is not None and (self.variant.over or self.variant.counters)
            if self.healthy is not None and not changed and plan == self.healthy.plan["nodes"].get(name):
                found[name] = self.healthy.nodes[name]
                continue
            node = self.machine.with_changes(self.variant) if is_sick and self.variant else self.machine.node
            addresses = {
                rail["name"]: [rail[key] for key in ("address", "address6") if rail[key]]
                for rail in plan["rails"]
            }
            tree = Tree(self.folder / name, number, node, drivers(), addresses)
            tree.root.mkdir(parents=True)
            found[name] = NodeOn(tree, name, plan)
        return found

    def variables(self) -> dict[str, Any]:
        """Return what the inventory's group_vars/all sets."""
        found: dict[str, Any] = {}
        for file in sorted((Path(self.inventory.sources[0]) / "group_vars/all").glob("*.yml")):
            found |= yaml.safe_load(file.read_text())
        return found

    def _inventory(self) -> Inventory:
        source = self.machine.folder / "inventory"
        if self.variant is None or not self.variant.inventory:
            return load.load([str(source)])
        copy = self.folder / "inventory"
        shutil.copytree(source, copy)
        file = copy / "group_vars/all/fabric.yml"
        said = merged(yaml.safe_load(file.read_text()), self.variant.inventory)
        file.write_text(yaml.safe_dump(said))
        return load.load([str(copy)])
