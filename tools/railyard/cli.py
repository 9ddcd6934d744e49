"""The `railyard` command: words and options only. What a verb does is in the module that it names.

Imports stand inside the verbs: `railyard --help` must not wait for Ansible or matplotlib to load.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

import railyard
from railyard import reckoning
from railyard.base import ending, paths
from railyard.base.ansible_options import takes_ansible_options
from railyard.base.errors import UserError
from railyard.base.verbs import ReportsDir, end, refuse_both, takes_inventory, with_fields_of
from railyard.continuous import verbs as continuous
from railyard.continuous.verbs import (
    DrainOption,
    IdleOption,
    LimitTime,
    MostDrained,
    refuse_without_idle,
    validate_idle,
)
from railyard.discover.wanted import Wanted as Discovery
from railyard.fabric.wanted import SlurmForm
from railyard.monitoring.verbs import app as monitoring
from railyard.new_inventory.wanted import Wanted

_EXIT_STATUSES = (
    "Exit status: 0 everything planned was measured and confirmed; 1 something failed; 2 bad input, no "
    "node was touched; 3 something planned is unmeasured, a node did not answer, or the run is incomplete."
)


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
        """List the commands by panel; one that no panel names comes last."""
        names: list[str] = super().list_commands(ctx)
        order = list(_PANEL_OF)
        return sorted(names, key=lambda name: order.index(name) if name in order else len(order))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command, which carries the panel that `--help` lists it in."""
        command: Any = super().get_command(ctx, cmd_name)
        if command is not None:
            command.rich_help_panel = _PANEL_OF.get(cmd_name)
        return command

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find the command to run; the list in `--help` does not come through here."""
        found: Any = super().resolve_command(ctx, args)
        name, command, rest = found
        if name == "lab":
            if not railyard.IS_CHECKOUT:
                raise UserError(
                    "the lab is part of a checkout, and this command is installed from a wheel",
                    "clone the repository and run `make demo` in it",
                )
            from railyard.lab.cli import app as lab

            command = typer.main.get_command(lab)
        elif name == "parse":
            command.params[0].help = f"Whose output it is: {', '.join(_tools())}; or run, see -i."
        return name, command, rest


def _tools() -> tuple[str, ...]:
    """Return the tools whose output can be parsed."""
    from ansible_collections.railyard.fabric.plugins.module_utils.parsers.registry import TOOLS

    return TOOLS


app = typer.Typer(
    cls=_Verbs,
    name="railyard",
    help="Takes GPU/RDMA nodes from racked to proven: provisions rails, measures and judges the fabric.",
    epilog=_EXIT_STATUSES,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


class Launcher(enum.StrEnum):
    """What starts the measuring on the nodes."""

    ANSIBLE = "ansible"
    SLURM = "slurm"


Inventories = Annotated[
    list[str],
    typer.Option(
        "-i", "--inventory", metavar="INV", help="Inventory folder or file; may be given several times."
    ),
]
AnsibleArgs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="-- ANSIBLE ARGS",
        help="More for ansible-playbook; its options may stand before -- as well.",
        show_default=False,
    ),
]
RunArgument = Annotated[
    str,
    typer.Argument(metavar="RUN", help="A run folder, CLUSTER/RUN, a run id, or CLUSTER (its latest run)."),
]


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


@app.command(epilog=_EXIT_STATUSES)
@takes_inventory
@takes_ansible_options()
def site(inventory: Inventories, args: AnsibleArgs = None, reports_dir: ReportsDir = None) -> None:
    """Provision the nodes, then measure and report."""
    _operate("site", inventory, args, reports_dir)


@app.command(epilog=_EXIT_STATUSES)
@takes_inventory
@takes_ansible_options()
def provision(inventory: Inventories, args: AnsibleArgs = None, reports_dir: ReportsDir = None) -> None:
    """Provision the nodes without measuring."""
    _operate("provision", inventory, args, reports_dir)


@app.command(epilog=_EXIT_STATUSES)
@takes_inventory
@takes_ansible_options()
def validate(
    inventory: Inventories,
    args: AnsibleArgs = None,
    reports_dir: ReportsDir = None,
    launcher: Annotated[
        Launcher | None,
        typer.Option(
            help="What reaches the nodes: ansible (SSH), or slurm (srun, inside an allocation). Default: "
            "ansible; with --idle slurm, where this machine has it.",
            show_default=False,
        ),
    ] = None,
    idle: IdleOption = False,
    limit_time: LimitTime = None,
    drain: DrainOption = False,
    most_drained: MostDrained = None,
    quick: Annotated[
        bool,
        typer.Option(
            "--quick",
            help="Look only, half a minute a node: rails, error counters since the last look, governor, "
            "GPUs; a line for each node that is not good.",
        ),
    ] = False,
    loopback: Annotated[
        bool, typer.Option("--loopback", help="With --quick: test each HCA with itself as well.")
    ] = False,
    with_fabric: Annotated[
        bool,
        typer.Option(
            "--fabric",
            help="Read the InfiniBand fabric before and after the tests, as `railyard fabric` does: error "
            "counters that grow then belong to a known load.",
        ),
    ] = False,
) -> None:
    """Measure and report. Changes no settings of the nodes."""
    if with_fabric and (quick or idle or launcher is Launcher.SLURM):
        raise UserError("--fabric excludes --quick, --idle and --launcher slurm", "leave one of them out")
    if loopback and not quick:
        raise UserError("--loopback is a part of --quick", "add --quick")
    if quick:
        if launcher is Launcher.SLURM:
            raise UserError("--quick reaches the nodes by ansible", "leave --launcher out")
        if idle:
            raise UserError("--quick and --idle exclude each other", "leave one of them out")
        from railyard.operate import quick as looking

        end(looking.quick(inventory, args or [], loopback))
    if not idle:
        refuse_without_idle(limit_time, drain, most_drained)
        if with_fabric:
            _validate_with_fabric(inventory, args or [], reports_dir or paths.reports_dir())
        _operate("validate", inventory, args, reports_dir, launcher=launcher or Launcher.ANSIBLE)
    reports = reports_dir or paths.reports_dir()
    chosen = launcher.value if launcher else None
    end(validate_idle(inventory, args or [], reports, limit_time, chosen, drain, most_drained))


@app.command(
    epilog="Exit status: 0 every part was read and no finding fails; 1 a finding fails; 2 bad input, no node "
    "was touched; 3 the fabric, or a part of it, could not be read."
)
@takes_inventory
@takes_ansible_options(reach_only=True)
def fabric(
    inventory: Inventories,
    args: AnsibleArgs = None,
    captures: Annotated[
        list[Path] | None,
        typer.Option(
            "--from",
            metavar="DIR",
            help="Read captured text in place of a live fabric, see docs/fabric.md; once for each subnet.",
        ),
    ] = None,
    host: Annotated[
        str | None,
        typer.Option(
            metavar="NODE",
            help="Read from this node. Default: the inventory's read_from, else the first that answers.",
        ),
    ] = None,
    interval: Annotated[
        float,
        typer.Option(
            metavar="S",
            min=0,
            max=3600,
            help="Seconds between two readings of the error counters; 0: one reading.",
        ),
    ] = 60,
    slurm_topology: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Write Slurm's topology.conf or topology.yaml into this folder."),
    ] = None,
    slurm_form: Annotated[
        SlurmForm,
        typer.Option(
            help="tree and block: topology.conf; yaml: topology.yaml with both, for Slurm 25.05 and newer."
        ),
    ] = SlurmForm.TREE,
    slurm_nodes: Annotated[
        str | None,
        typer.Option(
            metavar="NODES", help="Slurm's nodes, as gpu[01-16],login1. Default: the inventory's nodes."
        ),
    ] = None,
    rank_order: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write the hosts by rail group, for mpirun and srun."),
    ] = None,
    svg: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the drawing here too; - is standard output.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    reports_dir: ReportsDir = None,
) -> None:
    """Read a whole InfiniBand fabric from one node and judge it; change nothing."""
    from railyard.fabric import command
    from railyard.fabric.wanted import Wanted as Fabric

    refuse_both(as_json, svg)
    if captures and (host is not None or args):
        raise UserError("--from reads no node", "leave out --host and Ansible's options")
    wanted = Fabric(
        inventory, captures or [], host, interval, as_json, svg, slurm_topology, slurm_form, slurm_nodes,
        rank_order, reports_dir or paths.reports_dir(),
    )  # fmt: skip
    end(command.run(wanted, args or []))


@app.command(epilog=_EXIT_STATUSES)
@takes_inventory
@takes_ansible_options()
def sweep(
    inventory: Inventories,
    args: AnsibleArgs = None,
    pattern: Annotated[
        str,
        typer.Option(
            metavar="PATTERN", help="Which nodes meet: all_pairs, or another of fabric_policy.pattern."
        ),
    ] = "all_pairs",
    one_by_one: Annotated[
        bool, typer.Option("--one-by-one", help="Measure each rail alone, not all of a pair at once.")
    ] = False,
    reports_dir: ReportsDir = None,
) -> None:
    """Measure every pair of nodes: path MTU and the bandwidth of all rails at once."""
    questions = "one_by_one" if one_by_one else "together"
    policy = {"railyard_pattern": pattern, "railyard_questions": questions}
    _operate("sweep", inventory, args, reports_dir, policy)


@app.command(epilog=_EXIT_STATUSES)
@takes_inventory
@takes_ansible_options()
def resume(
    run: RunArgument, inventory: Inventories, args: AnsibleArgs = None, reports_dir: ReportsDir = None
) -> None:
    """Continue a run whose controller was interrupted: wait for the nodes, fetch and judge."""
    _operate("resume", inventory, args, reports_dir, again=run)


@app.command(epilog=_EXIT_STATUSES)
@takes_inventory
@takes_ansible_options(reach_only=True)
def verify(
    inventory: Inventories,
    args: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- ARGS",
            help="What stands after -- goes to pytest, but for what says how to reach the nodes (-K, -u, "
            "--limit, ...).",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Check the settings of the nodes with a second, independent program (testinfra)."""
    from railyard.operate import verify as verifying

    end(verifying.verify(inventory, args or []))


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


@app.command(epilog=_EXIT_STATUSES)
def report(run: RunArgument, reports_dir: ReportsDir = None) -> None:
    """Write the report of a run again, from its folder alone."""
    from railyard.report import rebuild

    end(rebuild.report(run, reports_dir or paths.reports_dir()))


@app.command(epilog=_EXIT_STATUSES)
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
    end(exporting.run(folder, form, output, verdicts=verdicts))


app.add_typer(monitoring, name="monitoring")
reckoning.add_to(app)
continuous.add_to(app)


@app.command(name="lab", add_help_option=False)
def _lab() -> None:
    """Start, break, heal and remove the built-in lab cluster."""


def main() -> None:
    """Run the command and end the process with its exit status."""
    ending.run(app)


def _validate_with_fabric(inventory: list[str], args: list[str], reports: Path) -> None:
    from railyard.fabric import around
    from railyard.fabric.wanted import Wanted as Fabric
    from railyard.operate.commands import operate

    wanted = Fabric(
        inventory, [], None, 0.0, False, None, None, SlurmForm.TREE, None, None, reports
    )  # fmt: skip

    def run_tests(run: str, passwords: Mapping[str, str]) -> int:
        return operate("validate", inventory, args, reports, run_id=run, passwords=passwords)

    end(around.validate(wanted, args, run_tests))


def _operate(
    verb: str,
    inventory: list[str],
    args: list[str] | None,
    reports_dir: Path | None,
    policy: Mapping[str, str] | None = None,
    again: str | None = None,
    launcher: Launcher = Launcher.ANSIBLE,
) -> None:
    from railyard.operate.commands import operate

    reports = reports_dir or paths.reports_dir()
    end(operate(verb, inventory, args or [], reports, policy, again, launcher=launcher.value))
