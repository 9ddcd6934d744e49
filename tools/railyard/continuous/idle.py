"""`railyard idle`: which nodes of an inventory have no job, from Slurm or from the nodes themselves."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.plugin_utils.continuous.drains import REASON
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import sinfo
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean_line, fold_names

from railyard.base import output, paths
from railyard.base.errors import UserError
from railyard.base.progress import Line, Progress, action_of
from railyard.base.signals import Interrupts
from railyard.operate import ansible_args
from railyard.operate.ansible import AnsibleRun
from railyard.operate.ansible_args import AnsibleArguments
from railyard.operate.commands import INCOMPLETE, OK, checked_inventory, list_only
from railyard.operate.display import Display

SLURM, NODES = "slurm", "nodes"
IDLE, BUSY, UNKNOWN = "idle", "busy", "unknown"
SCHEMA = 1


class NodeState(NamedTuple):
    """Whether a node has a job.

    Attributes:
        state: `idle`, `busy` or `unknown`; Railyard measures only idle nodes.
        why: what keeps it busy, or why that is unknown.
        gpus: its GPUs by Slurm's GRES; 0 without Slurm.
        name: its name in Slurm; empty without Slurm.
        is_ours: `railyard drain` drained it, and no job is left on it.
    """

    state: str
    why: str = ""
    gpus: int = 0
    name: str = ""
    is_ours: bool = False


@dataclass
class Looks(Progress):
    """Keeps what each node's look came to.

    Attributes:
        states: node -> its state.
    """

    states: dict[str, NodeState] = field(default_factory=dict)

    def feed(self, event: Mapping[str, Any]) -> list[Line]:
        """Take one event and return the lines that it is worth."""
        lines = super().feed(event)
        data = event.get("event_data") or {}
        result = data.get("res") or {}
        if event.get("event") == "runner_on_ok" and action_of(data) == "busy_info":
            state, why = str(result.get("state")), str(result.get("why"))
            # Whatever else a node answers, it is not idle by it.
            known = state in (IDLE, BUSY, UNKNOWN)
            self.states[str(data.get("host"))] = NodeState(
                *((state, why) if known else (UNKNOWN, "no answer"))
            )
        return [line for line in lines if line.style == "warning"]


def has_slurm() -> bool:
    """Tell whether Slurm's programs are on this machine."""
    return sinfo.is_here()


def run(sources: Sequence[str], argv: Sequence[str], *, as_json: bool, without_slurm: bool) -> int:
    """Print which nodes have no job.

    Args:
        sources: the values of `-i`.
        argv: Ansible's options.
        as_json: print one JSON object.
        without_slurm: look at the nodes, also where this machine has sinfo.

    Returns:
        0 when the state of every node is known, else 3.

    Raises:
        UserError: bad input, or Slurm is here and does not answer.
    """
    arguments = ansible_args.parse(argv)
    inventory = checked_inventory(sources, arguments.limit)
    if arguments.only_lists:
        return list_only(_playbook(), sources, arguments)
    names = [node.name for node in inventory.selected_nodes()]
    slurm = has_slurm() and not without_slurm
    states = of_slurm(names) if slurm else of_nodes(sources, arguments, names, is_quiet=as_json)
    if as_json:
        print(json.dumps(document(inventory.cluster, SLURM if slurm else NODES, states), indent=2))
    else:
        show(states)
    return OK if all(one.state != UNKNOWN for one in states.values()) else INCOMPLETE


def of_slurm(names: Iterable[str]) -> dict[str, NodeState]:
    """Return the nodes' states by one sinfo.

    Raises:
        UserError: Slurm does not answer. There is no fallback to the nodes: a job may begin there at
            any moment.
    """
    try:
        listed = sinfo.ask()
    except sinfo.SinfoError as error:
        what, _fix, fix = str(error).partition(" Fix: ")
        raise UserError(what.rstrip("."), fix) from error
    names = list(names)
    known = sinfo.of_inventory(names, listed)
    return {name: _of_listed(known.get(name)) for name in names}


def _of_listed(one: sinfo.Listed | None) -> NodeState:
    if one is None:
        return NodeState(UNKNOWN, "Slurm does not know it")
    if one.is_idle:
        return NodeState(IDLE, gpus=one.gpus, name=one.name)
    why = f"Slurm: {one.state}" + (f" ({one.reason})" if one.reason else "")
    is_ours = one.is_drained_by(REASON) and not one.has_jobs
    return NodeState(BUSY, clean_line(why), one.gpus, one.name, is_ours)


def of_nodes(
    sources: Sequence[str],
    arguments: AnsibleArguments,
    names: Iterable[str],
    stops: Interrupts | None = None,
    *,
    is_quiet: bool = False,
) -> dict[str, NodeState]:
    """Return the nodes' states by a look at each of them.

    Args:
        sources: the values of `-i`.
        arguments: Ansible's options.
        names: the nodes.
        stops: counts the signals that ask to stop, where the caller does more than this.
        is_quiet: print nothing meanwhile.
    """
    passwords = ansible_args.ask_passwords(arguments)
    out, looks = output.console(), Looks(verbosity=arguments.verbosity)
    counted = Interrupts() if stops is None else nullcontext(stops)
    with counted as interrupts, Display(looks, out) as display:
        AnsibleRun(
            _playbook(),
            sources,
            arguments.argv,
            stops_asked=lambda: interrupts.count,
            passwords=passwords,
            progress=looks,
            show=(lambda lines: None) if is_quiet else display.show,
        ).run()
    if not looks.started or any(failure.of_preflight for failure in looks.failures):
        said = [failure.message for failure in looks.failures] or looks.messages
        raise UserError("Ansible refused to begin; no node was touched: " + clean_line("; ".join(said)))
    why = {failure.host: failure.message.split("\n", 1)[0] for failure in looks.failures}
    return {
        name: looks.states.get(name, NodeState(UNKNOWN, clean_line(why.get(name, "it did not answer"))))
        for name in names
    }


def document(cluster: str, source: str, states: Mapping[str, NodeState]) -> dict[str, Any]:
    """Return the answer for programs."""
    return {
        "schema": SCHEMA,
        "cluster": cluster,
        "source": source,
        "idle": [name for name, one in states.items() if one.state == IDLE],
        "nodes": [{"node": name, "state": one.state, "why": one.why} for name, one in states.items()],
    }


def show(states: Mapping[str, NodeState]) -> None:
    """Print idle nodes folded, and the others by what keeps them."""
    out = output.console()
    idle = [name for name, one in states.items() if one.state == IDLE]
    out.print(f"Idle: {len(idle)} of {len(states)} nodes" + (f": {fold_names(idle)}" if idle else ""))
    others: dict[tuple[str, str], list[str]] = {}
    for name, one in states.items():
        if one.state != IDLE:
            others.setdefault((one.state, one.why.replace(name, "the node")), []).append(name)
    for (state, why), found in others.items():
        style = "yellow" if state == UNKNOWN else None
        out.print(f"{state.capitalize()}: {fold_names(found)}: {why}", style=style)


def _playbook() -> Any:
    return paths.repo_root() / "playbooks" / "idle.yml"
