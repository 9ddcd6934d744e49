"""`railyard lab`: up, down, status, fault, heal, subnet, host-settings."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from railyard.base.errors import BAD_INPUT, UserError
from railyard.lab import faults, host, host_settings, lifecycle, status, topology
from railyard.lab.prepare import report
from railyard.lab.process import LabError
from railyard.lab.subnet import cli as subnet_cli
from railyard.lab.wiring import kinds_of, open_lab

app = typer.Typer(
    name="lab",
    help="The built-in lab: nodes with systemd and SSH, on rails of their own.",
    no_args_is_help=True,
    add_completion=False,
)
app.add_typer(subnet_cli.app)
TopologyOption = Annotated[
    Path | None, typer.Option("--topology", help="Topology file; default: the built-in lab's.")
]
NameOption = Annotated[str | None, typer.Option("--name", help="The lab's name; default: the topology's.")]
_INTERRUPTED = 130


def _which(name: str) -> str:
    """Return the option that names a lab, where it is not the one that is meant without."""
    return "" if name == topology.load(topology.default_file()).name else f" --name {name}"


@app.callback()
def _as_root() -> None:
    """Start again through sudo: namespaces and links are root's."""
    arguments = sys.argv[1:]
    if Path(sys.argv[0]).resolve() != Path(__file__).resolve() and "lab" in arguments:  # `railyard lab ...`
        arguments = arguments[arguments.index("lab") + 1 :]
    if "--help" not in arguments:
        host.become_root(arguments)


@app.command()
def up(
    topology_file: TopologyOption = None,
    name: NameOption = None,
    suite: Annotated[
        str | None,
        typer.Option(help="What the nodes run, such as trixie or noble; default: the topology's."),
    ] = None,
) -> None:
    """Start the lab, or repair the running one."""
    wanted = topology.load(topology_file or topology.default_file(), name, suite)
    lab = lifecycle.up(wanted, report)
    first = wanted.nodes[0]
    look = shlex.join(lab.keys.ssh_argv(first))
    print(f"look around: {look}   take it down: railyard lab down{_which(wanted.name)}")


@app.command()
def down(
    topology_file: TopologyOption = None,
    name: NameOption = None,
    force: Annotated[bool, typer.Option(help="Also when another checkout brought it up.")] = False,
    images: Annotated[
        bool, typer.Option("--images", help="Remove cached node images that are not in use as well.")
    ] = False,
) -> None:
    """Take the lab down; works on half a lab and on none."""
    if name is None:
        name = topology.load(topology_file or topology.default_file()).name
    elif not topology.LAB_NAME.fullmatch(name):
        raise LabError(f"{name!r} is no lab's name", f"it matches {topology.LAB_NAME.pattern}", BAD_INPUT)
    lifecycle.down(name, report, force=force)
    if images:
        removed = [image for kind in kinds_of(name).values() for image in kind.remove_unused_images()]
        report(f"images removed: {', '.join(removed) or 'none (none there, or in use)'}")


@app.command(name="status")
def show_status(
    topology_file: TopologyOption = None,
    name: NameOption = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Show nodes, rails, shaped rates and faults."""
    found = status.collect(open_lab(name, topology_file))
    print(json.dumps(found, indent=2) if as_json else status.text(found))


@app.command()
def fault(
    kind: Annotated[str, typer.Argument(help=f"One of: {', '.join(faults.KINDS)}.")],
    target: Annotated[
        list[str],
        typer.Argument(
            help="NODE RAIL (or NODE/RAIL); node_gone, node_hung, governor, older_iperf3: NODE; swap: NODE"
            " RAIL RAIL; miswire: NODE RAIL and the rail or node where the cable goes; slow_pair: NODE RAIL"
            " and the other node; join_rails: RAIL RAIL; wrong_leaf: NODE RAIL NAME."
        ),
    ],
    topology_file: TopologyOption = None,
    name: NameOption = None,
    rate_gbps: Annotated[
        float, typer.Option(min=0.001, help="What a fault that slows leaves.")
    ] = faults.SLOW_RATE_GBPS,
) -> None:
    """Make a fault."""
    lab = open_lab(name, topology_file)
    made = faults.apply(lab, kind, "/".join(target), rate_gbps)
    again = f"railyard lab heal {made.kind} {made.target}{_which(lab.name)}"
    report(f"{made.kind} {made.target} is made; undo it with: {again}")


@app.command()
def heal(
    kind: Annotated[str | None, typer.Argument(help="As given to fault.")] = None,
    target: Annotated[list[str] | None, typer.Argument(help="As given to fault.")] = None,
    topology_file: TopologyOption = None,
    name: NameOption = None,
    everything: Annotated[bool, typer.Option("--all", help="Undo every fault.")] = False,
) -> None:
    """Undo one fault, or all."""
    if everything == bool(kind) or bool(kind) != bool(target):
        raise LabError("heal what?", "give KIND and TARGET, or --all", BAD_INPUT)
    healed = faults.heal(open_lab(name, topology_file), kind, "/".join(target or []) or None)
    report(f"healed: {', '.join(f'{each.kind} {each.target}' for each in healed) or 'there was no fault'}")


@app.command(name="host-settings")
def show_host_settings() -> None:
    """Print this host's settings as JSON, to compare before and after a lab."""
    print(json.dumps(host_settings.snapshot(), indent=1, sort_keys=True))


def main() -> None:
    """Run `python -m railyard.lab.cli`, with messages in place of tracebacks."""
    try:
        app()
    except UserError as error:
        print(f"lab: {error}", file=sys.stderr)
        sys.exit(error.exit_status)
    except KeyboardInterrupt:
        print("lab: interrupted", file=sys.stderr)
        sys.exit(_INTERRUPTED)


if __name__ == "__main__":
    main()
