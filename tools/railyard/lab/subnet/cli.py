"""`railyard lab subnet`: a simulated InfiniBand subnet on a node of the lab."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from railyard.base.errors import BAD_INPUT, numbered
from railyard.lab.prepare import report
from railyard.lab.process import LabError
from railyard.lab.subnet import faults, on_node
from railyard.lab.subnet.net import Net, from_plan
from railyard.lab.wiring import open_lab

app = typer.Typer(
    name="subnet",
    help="A simulated InfiniBand subnet (ibsim and opensm) on a node of the lab.",
    no_args_is_help=True,
)
NodeArgument = Annotated[str, typer.Argument(help="A node of the lab, which is one of the inventory's.")]
InventoryOption = Annotated[
    Path, typer.Option("--inventory", "-i", help="The inventory that says what the subnet is.")
]
SpinesOption = Annotated[int, typer.Option(min=1, max=64, help="Switches that join the leaves.")]
UplinksOption = Annotated[
    int | None, typer.Option(min=1, help="Cables from each leaf to all spines; default: one per node.")
]
NameOption = Annotated[
    str | None, typer.Option("--name", help="The lab's name; default: the built-in lab's.")
]


def net_of(inventory: Path, spines: int, uplinks: int | None) -> Net:
    """Return the net that an inventory declares.

    Raises:
        LabError: the inventory is wrong, or cannot be simulated.
    """
    # Ansible, which reads inventories, takes most of a second: other verbs of `lab` do not need it.
    from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import load
    from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.plan import build_plan

    read = load.load([str(inventory)])
    problems = load.validate(read)
    if problems:
        raise LabError(numbered(f"in {inventory}", [one.text() for one in problems]), "", BAD_INPUT)
    plan = build_plan(read)
    leaves = plan.get("subnet", {}).get("leaves", {})
    guids = {name: leaf["guid"] for name, leaf in leaves.items() if leaf.get("guid")}
    return from_plan(plan, spines, uplinks, guids)


@app.command()
def up(
    node: NodeArgument,
    inventory: InventoryOption,
    spines: SpinesOption = 2,
    uplinks: UplinksOption = None,
    name: NameOption = None,
) -> None:
    """Bring the subnet up; one that is there is replaced, and its faults are gone."""
    net = net_of(inventory, spines, uplinks)
    lab = open_lab(name)
    on_node.bring_up(lab, lab.topology.node(node), net)
    report(
        f"{node}: a simulated InfiniBand subnet is up: {len(net.adapters())} adapters,"
        f" {len(net.switches())} switches, {len(net.cables)} cables (ibsim and opensm; no hardware)"
    )


@app.command()
def fault(
    node: NodeArgument,
    kind: Annotated[str, typer.Argument(help=f"One of: {', '.join(faults.FORMS)}.")],
    words: Annotated[
        list[str],
        typer.Argument(help="Where: " + "; ".join(f"{kind}: {form}" for kind, form in faults.FORMS.items())),
    ],
    inventory: InventoryOption,
    spines: SpinesOption = 2,
    uplinks: UplinksOption = None,
    name: NameOption = None,
) -> None:
    """Make a fault in the subnet that is up; options as it was brought up with."""
    net = net_of(inventory, spines, uplinks)
    made = faults.parse(kind, words, net)
    lab = open_lab(name)
    on_node.make_fault(lab, lab.topology.node(node), net, made)
    report(f"{node}: in the simulated subnet {kind} {' '.join(words)} is made")


@app.command()
def down(node: NodeArgument, name: NameOption = None) -> None:
    """Take the subnet down, with what was installed for it; works where there is none."""
    lab = open_lab(name)
    on_node.take_down(lab, lab.topology.node(node))
    report(f"{node}: there is no simulated subnet any more")
