"""The commands of `railyard` that calculate and touch no node: options and help only, as in cli.py."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from railyard.base import paths
from railyard.base.verbs import ReportsDir, end, refuse_both, takes_inventory, with_fields_of
from railyard.estimate.job import Job
from railyard.size.fabric import Wanted

_NOTHING_MEASURED = "2 bad input. No node is touched, and nothing is measured."


def _simulate(
    nodes: Annotated[int, typer.Option(metavar="N", help="Nodes, named gpu001 and on.")],
    rails: Annotated[int, typer.Option(metavar="R", help="Rails of each node, named rail0 and on.")],
    seed: Annotated[int, typer.Option(metavar="S", min=0, help="The same seed draws the same noise.")],
    pattern: Annotated[
        str, typer.Option(metavar="PATTERN", help="Which nodes meet: all_pairs, or auto as validate does.")
    ] = "all_pairs",
    leaves: Annotated[
        int | None,
        typer.Option(metavar="L", help="Leaves of each rail. Default: one for 32 nodes.", show_default=False),
    ] = None,
    fault: Annotated[
        list[str] | None,
        typer.Option(
            metavar="F",
            help="node:gpu017@0.6, node_rail:gpu017/rail3@0.5, rail:rail3, leaf:rail3-leaf0, "
            "pair:gpu001,gpu009/rail2; @ is the share of the rate that is left, without it nothing is.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Simulate a run with faults, and show which of them its numbers reveal."""
    from railyard.simulate import command as simulating

    end(simulating.run(nodes, rails, seed, pattern, leaves, fault or [], as_json))


def _estimate(
    source: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="RUN",
            help="What was measured: nccl-tests' output, a folder of it, or a run for its latencies.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    reports_dir: ReportsDir = None,
    **job: Any,
) -> None:
    """Estimate how long a training job's gradients take between its GPUs."""
    from railyard.estimate import command as estimating

    end(estimating.run(Job(**job), source, reports_dir or paths.reports_dir(), as_json=as_json))


_estimate.__signature__ = with_fields_of(_estimate, Job)  # type: ignore[attr-defined] # read by typer


def _size(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    svg: Annotated[
        str | None, typer.Option(metavar="FILE", help="Draw spines, leaves and nodes; - is standard output.")
    ] = None,
    **wanted: Any,
) -> None:
    """Calculate leaf switches, spines and cables of a rail-optimized fabric."""
    from railyard.size import command as sizing

    refuse_both(as_json, svg)
    end(sizing.run(Wanted(**wanted), as_json=as_json, file=svg))


_size.__signature__ = with_fields_of(_size, Wanted)  # type: ignore[attr-defined] # read by typer


def _lint_nccl(
    file: Annotated[
        str,
        typer.Argument(metavar="FILE", help="nccl.conf, an env file, a script, a Dockerfile, YAML; or -."),
    ],
    inventory: Annotated[
        list[str] | None,
        typer.Option("-i", "--inventory", metavar="INV", help="Whose rails the settings are for."),
    ] = None,
    nccl: Annotated[
        str,
        typer.Option(metavar="VERSION", help="The NCCL that reads them. Default: the newest that is known."),
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Check NCCL settings in job scripts, env files and images for mistakes."""
    from railyard.nccl import command as linting

    end(linting.run(file, inventory or [], nccl, as_json))


def add_to(app: typer.Typer) -> None:
    """Give the command these verbs, in the order in which its help lists them."""
    app.command(name="simulate", epilog=f"Exit status: 0 simulated; {_NOTHING_MEASURED}")(_simulate)
    app.command(name="estimate", epilog=f"Exit status: 0 calculated; {_NOTHING_MEASURED}")(_estimate)
    app.command(name="size", epilog=f"Exit status: 0 calculated; {_NOTHING_MEASURED}")(_size)
    app.command(
        name="lint-nccl",
        epilog="Exit status: 0 no error; 1 an error; 2 bad input; 3 no error, but something is not known.",
    )(takes_inventory(_lint_nccl))
