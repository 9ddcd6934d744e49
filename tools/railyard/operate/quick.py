"""`railyard validate --quick`: the nodes' own quick check on all of them, a line for each that is bad."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.quick.found import PREFIX
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean_line, quoted
from rich.console import Console

from railyard.base import output, paths
from railyard.base.errors import BAD_INPUT
from railyard.base.progress import Line, Progress, action_of
from railyard.base.signals import Interrupts
from railyard.operate import ansible_args
from railyard.operate.ansible import AnsibleRun, Outcome
from railyard.operate.commands import FAILED, INCOMPLETE, OK, checked_inventory, list_only
from railyard.operate.display import Display

_STYLES = {FAILED: "red", INCOMPLETE: "yellow"}


@dataclass
class Looks(Progress):
    """Keeps what each node's look came to.

    Attributes:
        told: node -> exit status of its look, and its line.
    """

    told: dict[str, tuple[int, str]] = field(default_factory=dict)

    def feed(self, event: Mapping[str, Any]) -> list[Line]:
        """Take one event and return its lines; the line of a look is printed at the end."""
        lines = super().feed(event)
        data = event.get("event_data") or {}
        result = data.get("res") or {}
        ended = event.get("event") in ("runner_on_ok", "runner_on_failed")
        if ended and action_of(data) == "quick_check" and _is_look(result):
            # Whatever a node answers, it is good by a 0 alone.
            status = {OK: OK, FAILED: FAILED}.get(result["status"], INCOMPLETE)
            self.told[str(data.get("host"))] = status, result["line"]
        return [line for line in lines if line.style == "warning"]


def _is_look(result: Mapping[str, Any]) -> bool:
    return isinstance(result.get("line"), str) and isinstance(result.get("status"), int)


def quick(
    sources: Sequence[str],
    argv: Sequence[str],
    loopback: bool = False,
    hand_over: Callable[[dict[str, Any]], None] | None = None,
) -> int:
    """Look at all nodes.

    Args:
        sources: the values of `-i`.
        argv: the arguments after `--`.
        loopback: whether each HCA is tested with itself as well.
        hand_over: gets the result, as `--json` prints it.

    Returns:
        1 where something is wrong on a node, else 3 where a node could not be looked at whole, else 0.

    Raises:
        UserError: bad input; no node was touched.
    """
    arguments = ansible_args.parse(argv)
    inventory = checked_inventory(sources, arguments.limit)
    playbook = paths.repo_root() / "playbooks" / "quick.yml"
    if arguments.only_lists:
        return list_only(playbook, sources, arguments)
    passwords = ansible_args.ask_passwords(arguments)
    out = output.console()
    looks = Looks(verbosity=arguments.verbosity)
    ours = ["-e", "quick_check_loopback=true"] if loopback else []
    with Interrupts() as interrupts, Display(looks, out) as display:
        outcome = AnsibleRun(
            playbook,
            sources,
            [*arguments.argv, *ours],
            stops_asked=lambda: interrupts.count,
            passwords=passwords,
            progress=looks,
            show=display.show,
        ).run()
    return conclude([node.name for node in inventory.selected_nodes()], outcome, looks, out, hand_over)


def conclude(
    nodes: Sequence[str],
    outcome: Outcome,
    looks: Looks,
    out: Console,
    hand_over: Callable[[dict[str, Any]], None] | None = None,
) -> int:
    """Say a line for each node that is not good, then the count; return the exit status."""
    refused = not looks.started or any(failure.of_preflight for failure in looks.failures)
    if refused and not outcome.interrupted:
        said = [failure.message for failure in looks.failures] or looks.messages
        print(
            "\n".join(["Ansible refused to begin; no node was touched.", *map(quoted, said)]), file=sys.stderr
        )
        return BAD_INPUT
    why = {failure.host: failure.message for failure in looks.failures}
    counts = dict.fromkeys((OK, FAILED, INCOMPLETE), 0)
    by_node: dict[str, dict[str, int | str]] = {}
    for node in nodes:
        silence = why.get(node, "no look was taken").split("\n", 1)[0]
        status, line = looks.told.get(node, (INCOMPLETE, f"{PREFIX}{node}: UNKNOWN: {silence}"))
        counts[status] += 1
        by_node[node] = {"exit_status": status, "line": clean_line(line).removeprefix(PREFIX)}
        if status != OK:
            out.print(by_node[node]["line"], style=_STYLES[status])
    out.print(
        f"Quick look at {len(nodes)} node{'s' if len(nodes) > 1 else ''}: {counts[OK]} good, "
        f"{counts[FAILED]} wrong, {counts[INCOMPLETE]} not known."
        + (" Interrupted." if outcome.interrupted else "")
    )
    complete = counts[OK] == len(nodes) and not outcome.interrupted
    status = FAILED if counts[FAILED] else OK if complete else INCOMPLETE
    if hand_over:
        hand_over({"exit_status": status, "interrupted": outcome.interrupted, "nodes": by_node})
    return status
