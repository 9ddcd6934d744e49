"""The `railyard` command: options and help only. What a verb does is in the module that it imports.

Imports are inside the verbs: `railyard --help` must not wait for Ansible or matplotlib to load.
"""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from railyard import calculators, operations
from railyard.base import ending, paths
from railyard.base.ansible_options import takes_ansible_options
from railyard.base.errors import UserError
from railyard.base.examples import add_examples
from railyard.base.verbs import (
    EXIT_STATUSES,
    Inventories,
    ReportsDir,
    RunArgument,
    end,
    refuse_both,
    takes_inventory,
    with_fields_of,
)
from railyard.continuous import verbs as continuous
from railyard.discover.wanted import Wanted as Discovery
from railyard.monitoring.verbs import app as monitoring
from railyard.new_inventory.wanted import Wanted

#: The commands by what they are for, in the order in which `--help` lists them.
PANELS = {
    "Plan": ("discover", "new-inventory", "plan"),
    "Provision": ("site", "provision", "verify"),
    "Measure": ("validate", "sweep", "resume", "fabric", "idle", "drain"),
    "Results": ("report", "judge", "compare", "baseline", "runs", "export", "bundle", "parse", "monitoring"),
    "Calculators": ("estimate", "size", "simulate", "lint-nccl"),
    "Lab": ("lab",),
}
_PANEL_OF = {name: panel for panel, names in PANELS.items() for name in names}


class _Verbs(TyperGroup):
    """The commands; the help of `lab` and `parse` is loaded only when they are called."""

    def list_commands(self, ctx: Any) -> list[str]:
        """List the commands by panel; one that no panel names comes last, and the lab only in a checkout."""
        names: list[str] = super().list_commands(ctx)
        if not _is_checkout():
            names.remove("lab")
        order = list(_PANEL_OF)
        return sorted(names, key=lambda name: order.index(name) if name in order else len(order))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command with the panel that `--help` lists it in, and with its examples."""
        command: Any = super().get_command(ctx, cmd_name)
        if command is not None:
            command.rich_help_panel = _PANEL_OF.get(cmd_name)
            add_examples(command, cmd_name)
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command to run; the list in `--help` does not come through here."""
        found: Any = super().resolve_command(ctx, args)
        name, command, rest = found
        if name == "lab":
            if not _is_checkout():
                raise UserError(
                    "the lab is part of a checkout, and this command is installed from a wheel",
                    "clone the repository and run `make demo` in it",
                )
            from railyard.lab.cli import app as lab

            command = typer.main.get_command(lab)
        elif name == "parse":
            command.params[0].help = f"Whose output it is: {', '.join(_tools())}; or run, see -i."
        return name, command, rest


def _is_checkout() -> bool:
    from ansible_collections.railyard.fabric.plugins.plugin_utils.run.places import find_checkout

    return find_checkout() is not None


def _tools() -> tuple[str, ...]:
    """Return the tools whose output can be parsed."""
    from ansible_collections.railyard.fabric.plugins.module_utils.parsers.registry import TOOLS

    return TOOLS


app = typer.Typer(
    cls=_Verbs,
    name="railyard",
    help="Provision GPU/RDMA nodes, then measure and judge the fabric between them.",
    epilog=EXIT_STATUSES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version and end.")] = False,
) -> None:
    if version:
        from importlib import metadata

        typer.echo(f"railyard {metadata.version('railyard')}")
        raise typer.Exit


@app.command()
@takes_inventory
def plan(
    inventory: Inventories,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    svg: Annotated[
        str | None, typer.Option(metavar="FILE", help="Draw nodes, rails and leaves; - is standard output.")
    ] = None,
    every_row: Annotated[
        bool,
        typer.Option("--all", help="Print a row for each rail of each node, also where nodes are alike."),
    ] = False,
) -> None:
    """Show the address of every rail that an inventory plans. Touches no node."""
    from railyard.plan import view as plan_view

    refuse_both(as_json, svg)
    end(plan_view.run(inventory, as_json, svg=svg, every_row=every_row))


def _new_inventory(
    folder: Annotated[
        Path | None, typer.Argument(help="Folder to write. Default: inventories/ and the nodes' name.")
    ] = None,
    **wanted: Any,
) -> None:
    """Write an inventory from a few options. Overwrites nothing, touches no node."""
    from railyard.new_inventory import command as writing

    end(writing.run(Wanted(**wanted), folder))


_new_inventory.__signature__ = with_fields_of(_new_inventory, Wanted)  # type: ignore[attr-defined] # read by typer
app.command(name="new-inventory")(_new_inventory)


def _discover(args: list[str] | None = None, **wanted: Any) -> None:
    """Write an inventory from the nodes themselves, over SSH. Changes nothing on them."""
    from railyard.discover import command as discovering

    end(discovering.discover(Discovery(**wanted), args or []))


_discover.__signature__ = inspect.signature(Discovery, eval_str=True)  # type: ignore[attr-defined] # read by typer
app.command(
    name="discover",
    epilog="Exit status: 0 written, or no difference; 1 --diff found differences; 2 bad input or open "
    "questions, nothing is written; 3 a node did not answer or something is not known, the rest is written.",
)(takes_inventory(takes_ansible_options(reach_only=True)(_discover)))


@app.command(
    epilog="Exit status: 0 the text is this tool's (a failure that it reports included); 2 it is not, or "
    "cannot be read; 3 with --strict: it is, and `valid` is false."
)
@takes_inventory
def parse(
    tool: Annotated[str, typer.Argument(metavar="TOOL", autocompletion=_tools)],
    file: Annotated[str, typer.Argument(metavar="FILE", help="The tool's output; - reads standard input.")],
    inventory: Annotated[
        list[str] | None,
        typer.Option(
            "-i",
            "--inventory",
            metavar="INV",
            help="With TOOL `run`: FILE is a folder of outputs, NODE/PEER/RAIL/TOOL.txt (ib_write_bw.txt, "
            "iperf3.txt, ...); make a run folder of them for compare. Nothing of it is proven.",
        ),
    ] = None,
    reports_dir: ReportsDir = None,
    strict: Annotated[
        bool,
        typer.Option(
            "--strict",
            help="End with exit status 3 when `valid` is false: the output is incomplete, reports an error, "
            "or holds nothing that a verdict may rest on. The JSON object is printed as without it.",
        ),
    ] = False,
) -> None:
    """Print a tool's output as one JSON object, or make a run folder of outputs (TOOL `run`)."""
    from railyard.report import parse as parsing

    if tool == "run":
        if strict:
            raise UserError("--strict is for the output of one tool", "leave it out with TOOL `run`")
        end(parsing.as_run(file, inventory or [], reports_dir or paths.reports_dir()))
    end(parsing.run(tool, file, strict=strict))


@app.command(epilog=EXIT_STATUSES)
def report(run: RunArgument, reports_dir: ReportsDir = None) -> None:
    """Write the report of a run again, from its folder alone."""
    from railyard.report import rebuild

    end(rebuild.report(run, reports_dir or paths.reports_dir()))


@app.command(epilog=EXIT_STATUSES)
def judge(
    run: RunArgument,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    reports_dir: ReportsDir = None,
) -> None:
    """Decide the verdicts of a run again, from its folder or bundle alone."""
    from railyard.report import rebuild

    end(rebuild.judge(run, reports_dir or paths.reports_dir(), as_json=as_json))


@app.command(epilog="Exit status: 0 something was compared; 2 bad input; 3 no two numbers are alike.")
def compare(
    run_a: Annotated[str, typer.Argument(metavar="RUN_A", help="The run before; as for report.")],
    run_b: Annotated[str, typer.Argument(metavar="RUN_B", help="The run after.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    reports_dir: ReportsDir = None,
) -> None:
    """Show what became better or worse between two runs, and what is noise."""
    from railyard.report import compare as comparing

    end(comparing.run(run_a, run_b, reports_dir or paths.reports_dir(), as_json=as_json))


_baseline = typer.Typer(help="Save a run as the reference for later runs, where no source gives a limit.")
app.add_typer(_baseline, name="baseline")


@_baseline.command(name="save")
@takes_inventory
def _save(run: RunArgument, inventory: Inventories, reports_dir: ReportsDir = None) -> None:
    """Save the numbers of a run that ends with 0 as baseline.json beside the inventory."""
    from railyard.report import baseline as saving

    end(saving.save(run, inventory, reports_dir or paths.reports_dir()))


@app.command(epilog="Exit status: 0 written; 2 bad input, nothing is written.")
def bundle(
    run: RunArgument,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File to write. Default: RUN.bundle.tar.gz here.")
    ] = None,
    table: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Also write what each stand-in replaces; keep this file."),
    ] = None,
    reports_dir: ReportsDir = None,
) -> None:
    """Pack a run for somebody else: names, addresses, serials and keys are replaced."""
    from railyard.bundle import command
    from railyard.report import rebuild

    end(command.run(rebuild.find(run, reports_dir or paths.reports_dir()), output, table))


@app.command(epilog="Exit status: 0 written; 2 bad input, nothing is written.")
def export(
    run: RunArgument,
    tests: Annotated[
        list[str] | None, typer.Argument(metavar="TEST", help="Ids of tests. Default: all.")
    ] = None,
    form: Annotated[str, typer.Option("--format", help="jsonl, csv or parquet.")] = "jsonl",
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="File to write. Default: standard output.")
    ] = None,
    verdicts: Annotated[
        bool, typer.Option("--verdicts", help="All verdicts in place of the rows, of large runs too.")
    ] = False,
    reports_dir: ReportsDir = None,
) -> None:
    """Write all results of a run as JSON Lines, CSV or Parquet."""
    from railyard.report import export as exporting
    from railyard.report import rebuild

    folder = rebuild.find(run, reports_dir or paths.reports_dir())
    end(exporting.run(folder, form, output, verdicts=verdicts, tests=tests))


app.add_typer(monitoring, name="monitoring")
calculators.add_to(app)
app.registered_commands += operations.app.registered_commands
continuous.add_to(app)


@app.command(name="lab", add_help_option=False)
def _lab() -> None:
    """Start, break, heal and remove the built-in lab cluster."""


def main() -> None:
    """Run the command and end the process with its exit status."""
    ending.run(app)
