"""`railyard site`, `provision`, `validate`, `sweep`, `resume`: check the inventory, run the playbooks, judge.

What is done to the nodes is done by playbooks, the same that plain `ansible-playbook` runs. This adds what
belongs to a command: everything wrong with the input at once and before any node is touched, one run at a
time, a clean stop, and an exit status that can be relied on.
"""

from __future__ import annotations

import math
import os
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from railyard.base import output, paths, terminal
from railyard.base.errors import BAD_INPUT, UserError
from railyard.base.lock import cluster_lock
from railyard.base.progress import Progress
from railyard.base.signals import Interrupts
from railyard.operate import ansible_args
from railyard.operate.ansible import AnsibleRun, Outcome, ansible_environment
from railyard.operate.ansible_args import AnsibleArguments
from railyard.operate.display import Display
from railyard.operate.publish import publish_runs

if TYPE_CHECKING:
    from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Inventory
    from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict.rejudge import Judged
    from ansible_collections.railyard.fabric.plugins.plugin_utils.present.model import Report

OK, FAILED, INCOMPLETE = 0, 1, 3

#: Takes a run folder, its judgement and what was read of it for the report.
HandOver = Callable[[Path, "Judged", "Report"], None]


def operate(
    verb: str,
    sources: Sequence[str],
    argv: Sequence[str],
    reports_dir: Path,
    policy: Mapping[str, str] | None = None,
    again: str | None = None,
    launcher: str = "ansible",
    until_s: float = math.inf,
    stops: Interrupts | None = None,
    run_id: str | None = None,
    passwords: Mapping[str, str] | None = None,
    hand_over: HandOver | None = None,
) -> int:
    """Run `site`, `provision`, `validate`, `sweep` or `resume` on an inventory.

    Args:
        verb: one of the five.
        sources: the values of `-i`.
        argv: the arguments after `--`.
        reports_dir: the folder of `<cluster>/<run>` folders.
        policy: what this run lays over the inventory's policy, by the names of `policy.OF_RUN`.
        again: the run to go back to, as `rebuild.find` takes it; None for a new one.
        launcher: what reaches the nodes; `slurm` can `validate`.
        until_s: by the monotonic clock; a run that lasts longer is stopped as by Ctrl-C.
        stops: counts the signals that ask to stop, where the caller does more than this run.
        run_id: the id of a new run, where the caller has to know it.
        passwords: as `ask_passwords` returns them, where the caller has them already.
        hand_over: gets the judged run, where there is one.

    Returns:
        The exit status: 0, 1 or 3.

    Raises:
        UserError, RunFolderError: bad input; no node was touched.
    """
    arguments = ansible_args.parse(argv)
    inventory = checked_inventory(sources, arguments.limit)
    playbook = _playbook(verb if launcher == "ansible" else f"{verb}_{launcher}")
    if launcher == "slurm":
        _check_allocation()
    if arguments.only_lists:
        return list_only(playbook, sources, arguments)
    passwords = ansible_args.ask_passwords(arguments) if passwords is None else passwords
    from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import cost
    from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy as rules
    from ansible_collections.railyard.fabric.plugins.plugin_utils.run import baseline
    from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder

    run = run_id or run_folder.new_run_id()
    if again is not None:
        run = _existing(again, reports_dir, inventory.cluster)
    out = output.console()
    takes = ""
    begins = verb not in ("provision", "resume")
    if begins:
        baseline.beside(inventory.sources, inventory.cluster)  # bad input is named before a node is touched
    if begins and not arguments.check and not arguments.selects_tasks:
        # Ansible's preflight compares it with railyard_allow_long, wherever that is set.
        inventory.policy = rules.apply_run_variables(inventory.policy, policy or {})
        takes = cost.estimate_inventory(inventory).text()
        out.print(takes)
    with cluster_lock(reports_dir, inventory.cluster, run) as folder, _counted(stops) as interrupts:
        variables = [f"railyard_run={run}", f"railyard_reports_dir={reports_dir.absolute()}"]
        variables.append("railyard_keep_judgement=true")
        variables += [f"{name}={value}" for name, value in (policy or {}).items()]
        ours = [word for variable in variables for word in ("-e", variable)]
        progress = Progress(verbosity=arguments.verbosity, said=takes)
        with Display(progress, out) as display:
            outcome = AnsibleRun(
                playbook,
                sources,
                [*arguments.argv, *ours],
                stops_asked=lambda: interrupts.count + (time.monotonic() > until_s),
                passwords=passwords,
                progress=progress,
                show=display.show,
                measuring=verb in ("validate", "sweep", "resume"),
            ).run()
        if progress.stats:
            terminal.recap(progress.stats, out)
        # Without a summary Ansible died on the way (of a worker that was killed, of want of memory).
        # What srun started ends with it.
        cut_off = outcome.interrupted or progress.stats is None
        if cut_off and (folder / run).is_dir() and launcher == "ansible":
            _stop(sources, [*arguments.stop_argv, *ours], passwords, interrupts, out)
        status = conclude(verb, outcome, folder / run, arguments, out, hand_over)
        asked_before = interrupts.count
        if (folder / run).is_dir() and asked_before < 2:
            publish_runs(
                inventory, arguments.stop_argv, reports_dir, passwords,
                lambda: interrupts.count - asked_before, out,
            )  # fmt: skip
        return status


def _counted(stops: Interrupts | None) -> AbstractContextManager[Interrupts]:
    return Interrupts() if stops is None else nullcontext(stops)


def _existing(run: str, reports_dir: Path, cluster: str) -> str:
    """Return the id of a run of this cluster.

    Raises:
        UserError: there is none, or it is another cluster's, or made of files.
    """
    from ansible_collections.railyard.fabric.plugins.plugin_utils.run import provenance
    from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder

    from railyard.report import rebuild

    found = rebuild.find(run, reports_dir).resolve()
    if found.parent != (reports_dir / cluster).resolve():
        raise UserError(
            f"{found} is no run of {cluster} in {reports_dir}", "name the inventory that it was made with"
        )
    if provenance.imported(RunFolder(found).manifest()):
        raise UserError(
            f"{found.name} was made of files by `railyard parse run`: no node has any of it",
            "measure with `railyard validate`",
        )
    return found.name


def checked_inventory(sources: Sequence[str], limit: str | None) -> Inventory:
    """Read and check an inventory.

    Raises:
        UserError: with everything that is wrong with it, or when the limit leaves no node.
    """
    from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import load as inventories

    for source in sources:
        if "," not in source and not Path(source).exists():
            raise UserError(f"inventory {source} does not exist", "name a folder, such as inventories/lab")
    inventory = inventories.load(list(sources), limit)
    problems = inventories.validate(inventory)
    if problems:
        listed = "\n".join(f"  {problem.text()}" for problem in problems)
        count = f"{len(problems)} problems" if len(problems) > 1 else "a problem"
        raise UserError(f"the inventory has {count}; no node was touched:\n{listed}")
    if not inventory.selected_nodes():
        raise UserError(
            f"--limit {limit} leaves no node of the inventory" if limit else "the inventory has no nodes",
            "nodes are the hosts of group gpu_nodes; see `railyard plan`",
        )
    return inventory


def conclude(
    verb: str,
    outcome: Outcome,
    run_dir: Path,
    arguments: AnsibleArguments,
    out: Console,
    hand_over: HandOver | None = None,
) -> int:
    """Judge what was measured, write the report, print the result, and return the exit status.

    The run folder decides. Ansible's own account counts for what the folder cannot know: a failure while
    provisioning, and a node that did not answer then.
    """
    statuses = [_provisioning_status(outcome, out)]
    if run_dir.is_dir():

        def combine(measured: int) -> int:
            return _worst(_with_ansible(outcome, [*statuses, measured]))

        known = outcome.progress.judgement
        statuses.append(
            judged(
                run_dir,
                out,
                finished=not outcome.interrupted,
                whole=combine,
                judgement=known,
                hand_over=hand_over,
            )
        )
    elif outcome.interrupted:
        out.print("Interrupted before anything was measured.", style="yellow")
    elif verb != "provision" and BAD_INPUT not in statuses and not (arguments.check and verb == "site"):
        out.print(_why_nothing(arguments), style="yellow")
        statuses.append(INCOMPLETE)
    elif arguments.check:
        out.print("Check mode: nothing was changed, nothing was measured.")
    if outcome.return_code and not outcome.interrupted and not any(statuses):
        out.print(f"Ansible ended with {outcome.return_code} and did not say why.", style="yellow")
    return _worst(_with_ansible(outcome, statuses))


def _with_ansible(outcome: Outcome, statuses: Sequence[int]) -> list[int]:
    """Add the statuses of Ansible itself: interrupted, or a failure that nothing else reports."""
    cut_off = outcome.interrupted or (outcome.return_code and not any(statuses))
    return [*statuses, INCOMPLETE] if cut_off else list(statuses)


def _worst(statuses: Iterable[int]) -> int:
    found = set(statuses)
    return next((status for status in (BAD_INPUT, FAILED, INCOMPLETE) if status in found), OK)


def _why_nothing(arguments: AnsibleArguments) -> str:
    if arguments.check:
        return "Check mode: nothing was measured, so nothing is proven."
    if arguments.selects_tasks:
        return (
            "Nothing was measured: the chosen tags or the start task leave the measurement out. "
            "`railyard provision` provisions without it."
        )
    return "Nothing was measured: there is no run folder."


def judged(
    run_dir: Path,
    out: Console,
    *,
    finished: bool = True,
    whole: Callable[[int], int] = lambda measured: measured,
    judgement: str = "",
    hand_over: HandOver | None = None,
) -> int:
    """Print the end of a run; judge it and write its report where `fabric_judge` has not come to that.

    Args:
        run_dir: the run folder.
        out: where to print.
        finished: False when the user stopped it; then it is judged with what came, as an interrupted run.
        whole: converts the folder's exit status to the command's, which is printed.
        judgement: the digest of what `fabric_judge` kept of its judgement.
        hand_over: gets the judgement as well.

    Returns:
        The exit status that the folder means.
    """
    from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
    from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import (
        rejudge,
        stored_judgement,
        verdict,
    )
    from ansible_collections.railyard.fabric.plugins.plugin_utils.present import documents, model
    from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder

    folder = run_folder.RunFolder(run_dir)
    try:
        folder.forget_secret()
        if not finished:
            folder.finish("interrupted")
        there = (run_dir / run_folder.VERDICTS).exists() and (run_dir / documents.PAGE).exists()
        found = stored_judgement.load(folder, judgement) or rejudge.judge_folder(run_dir)
        stored_judgement.remove(folder)
        if not there:
            rejudge.write(run_dir, found)
        report = model.read(run_dir, found)
        terminal.summary(report, out, whole(report.exit_status))
        if hand_over:
            hand_over(run_dir, found, report)
        notes = [] if there else documents.write_report(run_dir, report)
    except (run_folder.RunFolderError, verdict.JudgeError, policy.PolicyError) as error:
        # Cut off before it knew what to ask, or the disk is full: whatever it is, it is not proven.
        out.print(f"The run cannot be judged: {error}", style="red")
        return INCOMPLETE
    terminal.report_place(run_dir, out, notes)
    return report.exit_status


def _provisioning_status(outcome: Outcome, out: Console) -> int:
    progress = outcome.progress
    if not progress.started and outcome.return_code and not outcome.interrupted:
        # Ansible refused to begin (a bad argument, a playbook that does not parse): no node was touched.
        out.print("Ansible did not start; no node was touched.", style="red")
        return BAD_INPUT
    if any(failure.of_preflight for failure in progress.failures):
        # What only Ansible sees of the input, such as a fabric given by -e. The play ends before any node.
        return BAD_INPUT
    failed, unreachable = progress.failed_hosts(), progress.unreachable_hosts()
    before = [each for each in progress.failures if each.host in failed and each.kind == "failed"]
    for failure in [*before[:12], *progress.failures_while_measuring()[:12]]:
        out.print(f"✗ {failure.host} failed in task: {failure.task}", style="red")
    if unreachable:
        from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import fold_names

        out.print(f"! did not answer: {fold_names(unreachable)}", style="magenta")
    if failed:
        return FAILED
    if unreachable or progress.failures_while_measuring():
        return INCOMPLETE
    if progress.stats is None and outcome.return_code and not outcome.interrupted:
        out.print(f"Ansible ended with {outcome.return_code} and without a summary.", style="red")
        return FAILED
    return OK


def _stop(
    sources: Sequence[str],
    argv: Sequence[str],
    passwords: Mapping[str, str],
    interrupts: Interrupts,
    out: Console,
) -> None:
    """Stop what runs on the nodes and fetch what was measured, unless the user has no patience for that."""
    if interrupts.count > 1:
        out.print(
            "Not cleaned up, as requested. Programs on the nodes end by themselves when their lease is over.",
            style="yellow",
        )
        return
    playbook, asked_before = paths.repo_root() / "playbooks" / "stop.yml", interrupts.count
    out.print("Stopping what runs on the nodes and fetching what was measured.", style="yellow")
    progress = Progress()
    with Display(progress, out) as display:
        AnsibleRun(
            playbook,
            sources,
            argv,
            # A Ctrl-C may be why we are here; the next one stops this as well.
            stops_asked=lambda: interrupts.count - asked_before,
            passwords=passwords,
            progress=progress,
            show=display.show,
        ).run()


def _check_allocation() -> None:
    """Refuse to begin outside of a Slurm allocation.

    Raises:
        UserError: the playbook is missing.
    """
    from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import srun

    try:
        srun.allocation(os.environ)
    except srun.SrunError as error:
        what, _fix, fix = str(error).partition(" Fix: ")
        raise UserError(what.rstrip("."), fix) from error


def _playbook(verb: str) -> Path:
    from ansible_collections.railyard.fabric.plugins.plugin_utils.run import places

    playbook = paths.repo_root() / ("site.yml" if verb == "site" else f"playbooks/{verb}.yml")
    if not playbook.is_file():
        raise UserError(
            f"playbook {playbook} is missing",
            "the checkout is incomplete: see `git status`"
            if places.find_checkout()
            else "the installed package is not complete: install the wheel again",
        )
    return playbook


def list_only(playbook: Path, sources: Sequence[str], arguments: AnsibleArguments) -> int:
    """Run ansible-playbook with `--list-hosts`, `--list-tasks` or `--syntax-check`, and print its output."""
    inventory = [word for source in sources for word in ("-i", source)]
    argv = ["ansible-playbook", *inventory, *arguments.argv, str(playbook)]
    done = subprocess.run(argv, env={**os.environ, **ansible_environment()}, check=False)
    return OK if done.returncode == 0 else BAD_INPUT
