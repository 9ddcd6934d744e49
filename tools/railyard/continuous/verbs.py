"""The verbs of continuous validation: words and options only, as in cli.py."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from railyard.base import paths
from railyard.base.ansible_options import takes_ansible_options
from railyard.base.errors import UserError
from railyard.base.verbs import ReportsDir, end, takes_inventory

_MOST_DRAINED = "2%"
_MOST_DRAINED_HELP = (
    "How many nodes Railyard may have drained at once: a share of the cluster, of which at least one node "
    f"comes, or a number. Default: {_MOST_DRAINED}."
)

IdleOption = Annotated[
    bool,
    typer.Option(
        "--idle",
        help="Only nodes without a job, longest unproven first, in groups of at least three. Under Slurm "
        "each group is allocated exclusively.",
    ),
]
LimitTime = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="With --idle: how long all of it may take, such as 30m or 1h30m. Default: 30m.",
        show_default=False,
    ),
]
DrainOption = Annotated[
    bool,
    typer.Option("--drain", help="With --idle: afterwards drain and resume nodes as `railyard drain` does."),
]
MostDrained = Annotated[
    str | None, typer.Option(metavar="SHARE", help=f"With --drain: {_MOST_DRAINED_HELP}", show_default=False)
]
_Inventory = Annotated[
    list[str],
    typer.Option(
        "-i", "--inventory", metavar="INV", help="Inventory folder or file; may be given several times."
    ),
]
_Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def refuse_without_idle(limit_time: str | None, drain: bool, most_drained: str | None) -> None:
    """Refuse options that belong to --idle.

    Raises:
        UserError: one of them is given.
    """
    for name, given in (("--limit-time", limit_time), ("--drain", drain), ("--most-drained", most_drained)):
        if given:
            raise UserError(f"{name} is a part of --idle", "add --idle")


def validate_idle(
    inventory: list[str],
    args: list[str],
    reports: Path,
    limit_time: str | None,
    launcher: str | None,
    drain: bool,
    most_drained: str | None,
) -> int:
    """Validate idle nodes, then drain and resume by the verdicts where that is wanted; return the status."""
    from railyard.continuous import campaign, drains

    if most_drained and not drain:
        raise UserError("--most-drained is a part of --drain", "add --drain")
    most = most_drained or _MOST_DRAINED
    return campaign.run(
        inventory,
        args,
        reports,
        limit_time or campaign.LIMIT_TIME,
        launcher,
        (lambda found: drains.apply(found, reports, most)) if drain else None,
    )


@takes_inventory
@takes_ansible_options(reach_only=True)
def _idle(
    inventory: _Inventory,
    args: Annotated[list[str] | None, typer.Argument(hidden=True)] = None,
    as_json: _Json = False,
    without_slurm: Annotated[
        bool, typer.Option("--without-slurm", help="Look at the nodes also where this machine has Slurm.")
    ] = False,
) -> None:
    """List the nodes without a job, from Slurm or from the nodes. Changes nothing."""
    from railyard.continuous import idle

    end(idle.run(inventory, args or [], as_json=as_json, without_slurm=without_slurm))


@takes_inventory
def _drain(
    inventory: _Inventory,
    check: Annotated[
        bool, typer.Option("-C", "--check", help="Change nothing; report what would be.")
    ] = False,
    most_drained: Annotated[
        str, typer.Option(metavar="SHARE", help=_MOST_DRAINED_HELP, show_default=False)
    ] = _MOST_DRAINED,
    as_json: _Json = False,
    reports_dir: ReportsDir = None,
) -> None:
    """Drain nodes in Slurm that failed twice with different partners; resume good ones."""
    from railyard.continuous import drains

    reports = reports_dir or paths.reports_dir()
    end(drains.run(inventory, reports, most_drained, check=check, as_json=as_json))


_runs = typer.Typer(help="Metrics and trends over runs; remove old run folders.")


@_runs.command(name="metrics")
def _metrics(
    output: Annotated[
        list[Path] | None,
        typer.Option("-o", "--output", help="Write it here as well, such as into node_exporter's folder."),
    ] = None,
    reports_dir: ReportsDir = None,
) -> None:
    """Write railyard_runs.prom for node_exporter's textfile collector: all clusters, in one step."""
    from railyard.continuous import runs

    end(runs.metrics(reports_dir or paths.reports_dir(), output or []))


@_runs.command(name="trends")
def _trends(
    cluster: Annotated[str, typer.Argument(metavar="CLUSTER", help="A folder of the reports folder.")],
    node: Annotated[str | None, typer.Option(metavar="NODE", help="Only this node.")] = None,
    as_json: _Json = False,
    reports_dir: ReportsDir = None,
) -> None:
    """Compare each node's newest run with its own last five good ones, rail by rail."""
    from railyard.continuous import runs

    end(runs.trends(reports_dir or paths.reports_dir(), cluster, node, as_json=as_json))


@_runs.command(name="prune")
def _prune(
    cluster: Annotated[
        str | None, typer.Argument(metavar="[CLUSTER]", help="Only this cluster; default: all.")
    ] = None,
    keep: Annotated[int, typer.Option(metavar="N", min=1, help="Keep the newest N runs of a cluster.")] = 100,
    days: Annotated[
        int, typer.Option(metavar="D", min=1, help="Keep runs of the last D days, however many.")
    ] = 90,
    check: Annotated[bool, typer.Option("-C", "--check", help="Remove nothing; list what would go.")] = False,
    reports_dir: ReportsDir = None,
) -> None:
    """Remove old run folders; never the baseline's run, and never the newest good run of a node."""
    from railyard.continuous import runs

    end(runs.prune(reports_dir or paths.reports_dir(), cluster, keep, days, check=check))


def add_to(app: typer.Typer) -> None:
    """Add the verbs to the command."""
    app.command(
        name="idle",
        epilog="Exit status: 0 the state of each node is known; 2 bad input, or Slurm does not answer; 3 a "
        "node's state is not known.",
    )(_idle)
    app.command(
        name="drain",
        epilog="Exit status: 0 done, or nothing to do; 1 more nodes failed than may be drained at once; 2 "
        "bad input, nothing was changed; 3 Slurm did not take a change.",
    )(_drain)
    app.add_typer(_runs, name="runs")
