"""The commands of `railyard` that provision, measure and verify: options and help only, as in cli.py."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from railyard.base import paths
from railyard.base.ansible_options import takes_ansible_options
from railyard.base.errors import UserError
from railyard.base.verbs import (
    EXIT_STATUSES,
    AsJson,
    Inventories,
    ReportsDir,
    RunArgument,
    end,
    one_json_object,
    refuse_both,
    takes_inventory,
)
from railyard.continuous.verbs import (
    DrainOption,
    IdleOption,
    LimitTime,
    MostDrained,
    refuse_without_idle,
    validate_idle,
)
from railyard.fabric.wanted import SlurmForm

if TYPE_CHECKING:
    from railyard.operate.commands import HandOver

app = typer.Typer()


class Launcher(enum.StrEnum):
    """What starts the measuring on the nodes."""

    ANSIBLE = "ansible"
    SLURM = "slurm"


AnsibleArgs = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="-- ANSIBLE ARGS",
        help="More for ansible-playbook; its options may also come before --.",
        show_default=False,
    ),
]


@app.command(epilog=EXIT_STATUSES)
@takes_inventory
@takes_ansible_options()
def site(inventory: Inventories, args: AnsibleArgs = None, reports_dir: ReportsDir = None) -> None:
    """Provision the nodes, then measure and report."""
    _operate("site", inventory, args, reports_dir)


@app.command(epilog=EXIT_STATUSES)
@takes_inventory
@takes_ansible_options()
def provision(inventory: Inventories, args: AnsibleArgs = None, reports_dir: ReportsDir = None) -> None:
    """Provision the nodes without measuring."""
    _operate("provision", inventory, args, reports_dir)


@app.command(epilog=EXIT_STATUSES)
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
    as_json: AsJson = False,
) -> None:
    """Measure and report. Changes no settings of the nodes."""
    if as_json and idle:
        raise UserError("--json is the result of one run, and --idle makes several", "leave one of them out")
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

        with one_json_object(as_json=as_json) as print_json:
            end(looking.quick(inventory, args or [], loopback, print_json))
    if not idle:
        refuse_without_idle(limit_time, drain, most_drained)
        with one_json_object(as_json=as_json) as print_json:
            hand_over = _print_run_by(print_json) if print_json else None
            if with_fabric:
                _validate_with_fabric(inventory, args or [], reports_dir or paths.reports_dir(), hand_over)
            reach = launcher or Launcher.ANSIBLE
            _operate("validate", inventory, args, reports_dir, launcher=reach, hand_over=hand_over)
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


@app.command(epilog=EXIT_STATUSES)
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


@app.command(epilog=EXIT_STATUSES)
@takes_inventory
@takes_ansible_options()
def resume(
    run: RunArgument, inventory: Inventories, args: AnsibleArgs = None, reports_dir: ReportsDir = None
) -> None:
    """Continue a run whose controller was interrupted: wait for the nodes, fetch and judge."""
    _operate("resume", inventory, args, reports_dir, again=run)


@app.command(epilog=EXIT_STATUSES)
@takes_inventory
@takes_ansible_options(reach_only=True)
def verify(
    inventory: Inventories,
    args: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="-- ARGS",
            help="Arguments after -- go to pytest, except options to reach the nodes (-K, -u, --limit, ...).",
            show_default=False,
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Check the settings of the nodes with a second, independent program (testinfra)."""
    from railyard.operate import verify as verifying

    with one_json_object(as_json=as_json) as print_json:
        end(verifying.verify(inventory, args or [], print_json))


def _print_run_by(print_json: Callable[[dict[str, Any]], None]) -> HandOver:
    from railyard.report.rebuild import make_document

    return lambda folder, judged, read: print_json(make_document(folder, judged, read))


def _validate_with_fabric(
    inventory: list[str], args: list[str], reports: Path, hand_over: HandOver | None
) -> None:
    from railyard.fabric import around
    from railyard.fabric.wanted import Wanted as Fabric
    from railyard.operate.commands import operate

    wanted = Fabric(
        inventory, [], None, 0.0, False, None, None, SlurmForm.TREE, None, None, reports
    )  # fmt: skip

    def run_tests(run: str, passwords: Mapping[str, str], keep: HandOver) -> int:
        return operate("validate", inventory, args, reports, run_id=run, passwords=passwords, hand_over=keep)

    end(around.validate(wanted, args, run_tests, hand_over))


def _operate(
    verb: str,
    inventory: list[str],
    args: list[str] | None,
    reports_dir: Path | None,
    policy: Mapping[str, str] | None = None,
    again: str | None = None,
    launcher: Launcher = Launcher.ANSIBLE,
    hand_over: HandOver | None = None,
) -> None:
    from railyard.operate.commands import operate

    reports = reports_dir or paths.reports_dir()
    end(
        operate(
            verb, inventory, args or [], reports, policy, again, launcher=launcher.value, hand_over=hand_over
        )
    )
