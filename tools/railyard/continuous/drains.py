"""`railyard drain`: Slurm drains nodes that failed in two runs, and resumes those that are good again."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ansible_collections.railyard.fabric.plugins.module_utils.state import slurm
from ansible_collections.railyard.fabric.plugins.plugin_utils.continuous import drains
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import sinfo
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean_line, fold_names
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import node_results

from railyard.base import output
from railyard.base.errors import UserError
from railyard.operate.commands import FAILED, INCOMPLETE, OK, checked_inventory

if TYPE_CHECKING:
    from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Inventory

_LIMIT_S = 30.0
_FIX = "see to it that `scontrol ping` answers here, and that this user may change nodes"


def run(
    sources: Sequence[str], reports_dir: Path, most: str, *, check: bool = False, as_json: bool = False
) -> int:
    """Decide by the cluster's runs, and do it unless `check`.

    Args:
        sources: the values of `-i`.
        reports_dir: the folder of all clusters' runs.
        most: how many nodes may be drained at once: a share such as `2%`, or a number.
        check: change nothing.
        as_json: print one JSON object.

    Returns:
        1 when more nodes failed than may be drained, 3 when Slurm did not take a change, else 0.

    Raises:
        UserError: bad input, or Slurm does not answer.
    """
    return apply(checked_inventory(sources, None), reports_dir, most, check=check, as_json=as_json)


def apply(
    inventory: Inventory, reports_dir: Path, most: str, *, check: bool = False, as_json: bool = False
) -> int:
    """Do what `run` does, of an inventory that was read and checked."""
    names = [node.name for node in inventory.nodes]
    try:
        bound = drains.most_drained(most, len(names))
        listed = sinfo.of_inventory(names, sinfo.ask())
    except ValueError as error:
        raise UserError(f"--most-drained: {error}", "write 2% or 1") from error
    except sinfo.SinfoError as error:
        what, _fix, fix = str(error).partition(" Fix: ")
        raise UserError(what.rstrip("."), fix) from error
    runs = list(node_results.each(reports_dir / inventory.cluster))
    decision = drains.decide(runs, listed, bound)
    wrong: dict[str, str] = {}
    if not check:
        for node, reason in decision.drain.items():
            with _noted(wrong, node):
                _drain(listed[node].name, reason)
        for node in decision.resume:
            with _noted(wrong, node):
                _resume(listed[node].name)
    if as_json:
        print(json.dumps({"schema": 1, **decision._asdict(), "wrong": wrong, "check": check}, indent=2))
    else:
        _show(decision, wrong, check)
    if wrong:
        return INCOMPLETE
    return FAILED if decision.is_open else OK


@contextmanager
def _noted(wrong: dict[str, str], node: str) -> Iterator[None]:
    """Note what Slurm does not take of a node, and go on with the others."""
    try:
        yield
    except slurm.SlurmError as error:
        wrong[node] = clean_line(str(error))


def _drain(name: str, reason: str) -> None:
    """Drain a node, unless somebody else has drained it in the meantime.

    Raises:
        SlurmError: Slurm does not take it.
    """
    if not _node(name).is_drained:
        _scontrol("update", f"NodeName={name}", "State=DRAIN", f"Reason={reason}")


def _resume(name: str) -> None:
    """End a drain that Railyard set, unless its reason was changed in the meantime.

    Raises:
        SlurmError: Slurm does not take it.
    """
    node = _node(name)
    if node.is_drained and node.reason.startswith(drains.REASON):
        _scontrol("update", f"NodeName={name}", "State=RESUME")


def _node(name: str) -> slurm.Node:
    return slurm.parse_node(_scontrol("show", "node", name))


def _scontrol(*words: str) -> str:
    """Call scontrol and return what it printed.

    Raises:
        SlurmError: it is not here, does not answer, or refuses.
    """
    argv = ["scontrol", *words]
    try:
        done = subprocess.run(
            argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_LIMIT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise slurm.SlurmError(f"{' '.join(argv[:3])}: {error}. Fix: {_FIX}") from error
    if done.returncode != 0:
        said = " ".join((done.stderr or done.stdout).split())[:300]
        raise slurm.SlurmError(f"{' '.join(argv[:3])}: {said or done.returncode}. Fix: {_FIX}")
    return done.stdout


def _show(decision: drains.Decision, wrong: dict[str, str], check: bool) -> None:
    out = output.console()
    for verb, nodes in (("Drained", list(decision.drain)), ("Resumed", decision.resume)):
        for node in nodes:
            if node in wrong:
                continue
            what = clean_line(decision.drain.get(node, "good again"))
            out.print(f"{'Would be ' + verb.lower() if check else verb}: {node}: {what}")
    for node, why in sorted(decision.held.items()):
        out.print(clean_line(f"Not drained: {node}: {why}"), style="yellow")
    for node, why in sorted(wrong.items()):
        out.print(f"Slurm did not take it: {node}: {why}", style="red")
    if decision.is_open:
        out.print(
            f"STOPPED: more nodes failed than may be drained at once ({decision.most}; drained now: "
            f"{fold_names(decision.drained) or 'none'}). Nothing more is drained. Look for a common cause (a "
            "switch, an update), then drain by hand or raise --most-drained.",
            style="bold red",
        )
    if not (decision.drain or decision.resume or decision.held):
        out.print("Nothing to drain or to resume.")
