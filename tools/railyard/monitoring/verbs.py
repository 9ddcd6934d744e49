"""The verbs of `railyard monitoring`: words and options only, as in cli.py."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from railyard.base.verbs import end, takes_inventory

_STATUSES = "Exit status: 0 written; 2 bad input, or promtool refuses the files. No node is touched."

Inventories = Annotated[
    list[str],
    typer.Option(
        "-i", "--inventory", metavar="INV", help="Inventory folder or file; may be given several times."
    ),
]

app = typer.Typer(help="Write what Prometheus, Alertmanager and Grafana need to watch a cluster.")


@app.command(epilog=_STATUSES)
@takes_inventory
def targets(
    inventory: Inventories,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="FILE", help="File to write; - is standard output.")
    ] = "-",
    gpus: Annotated[
        bool,
        typer.Option(
            "--gpus", help="The targets of dcgm-exporter (monitoring_dcgm_port), not of node_exporter."
        ),
    ] = False,
) -> None:
    """Write the nodes as a target file for Prometheus (file_sd_configs)."""
    from railyard.monitoring import command

    end(command.write_targets(inventory, output, gpus))


@app.command(epilog=_STATUSES)
@takes_inventory
def export(
    inventory: Inventories,
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Folder to write; its files are replaced.")
    ],
    form: Annotated[
        str,
        typer.Option(
            "--format", help="rules: files of Prometheus; prometheusrule: objects of the Prometheus operator."
        ),
    ] = "rules",
    job: Annotated[
        str | None,
        typer.Option(
            metavar="REGEX",
            help="Your own job of node_exporter, for rules and dashboards. Default: the exported one.",
            show_default=False,
        ),
    ] = None,
    runs_target: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST:PORT", help="The exporter that serves railyard_runs.prom.", show_default=False
        ),
    ] = None,
    installed_at: Annotated[
        str, typer.Option(metavar="PATH", help="Where the folder will be on the host of Prometheus.")
    ] = "/etc/prometheus/railyard",
) -> None:
    """Write rules, dashboards, targets and scrape jobs for a Prometheus that you already have."""
    from ansible_collections.railyard.fabric.plugins.plugin_utils.monitoring.export import Wanted

    from railyard.monitoring import command

    wanted = Wanted(installed_at.rstrip("/") or installed_at, form, job, tuple(runs_target or ()))
    end(command.write_export(inventory, output, wanted))
