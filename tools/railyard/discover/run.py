"""Read bare nodes by Ansible, and keep for each node its answer, or why there is none."""

from __future__ import annotations

import json
import math
import secrets
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.records import bare_node
from ansible_collections.railyard.fabric.plugins.module_utils.records.bare_node import BareNode
from ansible_collections.railyard.fabric.plugins.module_utils.records.reader import RefusedError
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean_line
from rich.console import Console

from railyard.base import paths
from railyard.base.errors import UserError
from railyard.base.progress import Line, Progress, action_of
from railyard.base.signals import Interrupts
from railyard.discover import why
from railyard.discover.hosts import Host, Hosts
from railyard.operate import ansible_args
from railyard.operate.ansible import AnsibleRun, Outcome
from railyard.operate.ansible_args import AnsibleArguments
from railyard.operate.display import Display

_MODULE = "bare_node_info"
# As in ansible.cfg.
_FORKS = 50
# A node is given so much longer than its share of the waiting, for an Ansible that is slow itself.
_MARGIN_S = 30
_AGAIN = "run the command again; if it stays, report it with the output of `railyard --version`"


@dataclass(frozen=True)
class Settings:
    """How nodes are reached and read.

    Attributes:
        ansible: Ansible's options, as typed.
        link_up: whether ports that are down are raised for the time of the beacons.
        listen_s: how long all nodes listen.
        limit_s: after how long a node that hangs is left alone.
    """

    ansible: AnsibleArguments = field(default_factory=lambda: AnsibleArguments([]))
    link_up: bool = False
    listen_s: int = 6
    limit_s: int = 60

    def longest_s(self, nodes: int) -> int:
        """Return after how long a node ends its beacons by itself: no node waits longer for the last one."""
        rounds = math.ceil(nodes / (self.ansible.forks or _FORKS))
        return rounds * self.limit_s * 2 + self.listen_s + _MARGIN_S


@dataclass
class Reading:
    """What came of reading the nodes.

    Attributes:
        nodes: key → what the node reported.
        failed: key → why there is nothing of it and what to do, one line.
        unheard: key → why its beacons could not be fetched; the node is among `nodes`.
        interrupted: whether the user stopped it.
    """

    nodes: dict[str, BareNode] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    unheard: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False


@dataclass
class Answers(Progress):
    """Keeps what the module returned on each node; of the rest only warnings and steps are shown.

    Attributes:
        rows: node → its answer as it came.
        beacons: node → what its ports heard, as it came.
    """

    rows: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    beacons: dict[str, Any] = field(default_factory=dict)

    def feed(self, event: Mapping[str, Any]) -> list[Line]:
        """Take one event and return the lines that it is worth; nodes that failed are listed at the end."""
        was_waiting = self.action == "pause"
        lines = super().feed(event)
        data = event.get("event_data") or {}
        if event.get("event") == "runner_on_ok" and action_of(data) == _MODULE:
            result, key = data.get("res") or {}, str(data.get("host"))
            if isinstance(result.get("bare_node"), Mapping):
                self.rows[key] = result["bare_node"]
            elif "beacons" in result:
                self.beacons[key] = result["beacons"]
        # Of the waiting there is nothing to know, and of nodes that failed more than the end has.
        shown = {
            "note",
            "raw",
            *(["task"] if not was_waiting else []),
            *(["warning"] if self.action != "pause" else []),
        }
        return [line for line in lines if line.style in shown]


def read(hosts: Hosts, settings: Settings, out: Console) -> Reading:
    """Read all nodes.

    Raises:
        UserError: Ansible refused to begin; no node was contacted.
    """
    passwords = ansible_args.ask_passwords(settings.ansible)
    with _inputs(hosts, settings) as (inventories, ours), Interrupts() as interrupts:
        argv = [*settings.ansible.argv, *ours]
        answers, outcome = _play(
            inventories, argv, settings.ansible.verbosity, passwords, lambda: interrupts.count, out
        )
        if answers.rows and (stops_before := interrupts.count) == 1:
            out.print("Ending the beacons on the nodes.", style="yellow")
            argv += ["--tags", "collect"]
            _play(inventories, argv, 0, passwords, lambda: interrupts.count - stops_before, out)
    if not answers.started and not outcome.interrupted:
        why_not = "\n".join(map(clean_line, answers.messages)) or f"it ended with {outcome.return_code}"
        raise UserError(f"Ansible refused to begin; no node was contacted: {why_not}")
    return conclude(hosts.hosts, answers, interrupted=outcome.interrupted)


def conclude(hosts: Sequence[Host], answers: Answers, *, interrupted: bool = False) -> Reading:
    """Sort what came into answers that can be used and reasons why there is none."""
    reading = Reading(interrupted=interrupted)
    failures = {failure.host: failure for failure in reversed(answers.failures)}
    for host in hosts:
        key, row = host.key, answers.rows.get(host.key)
        failure = failures.get(clean_line(key))
        where = host.address or key
        reason = why.line("it did not answer", "run the command again")
        if failure is not None:
            login = f"{host.user}@{where}" if host.user else where
            reason = why.explain(failure, login, where)
        if row is None:
            reading.failed[key] = reason
            continue
        try:
            node = bare_node.read({**row, "beacons": answers.beacons.get(key)})
        except RefusedError as error:
            reading.failed[key] = why.line(f"its answer cannot be used: {clean_line(str(error))}", _AGAIN)
            continue
        if node["key"] != key:
            reading.failed[key] = why.line(f"it answers as {clean_line(node['key'])}", _AGAIN)
            continue
        reading.nodes[key] = node
        if node["beacons"] is None:
            reading.unheard[key] = reason
    return reading


def _play(
    inventories: Sequence[str],
    argv: Sequence[str],
    verbosity: int,
    passwords: Mapping[str, str],
    stops_asked: Callable[[], int],
    out: Console,
) -> tuple[Answers, Outcome]:
    playbook = paths.repo_root() / "playbooks" / "discover.yml"
    answers = Answers(verbosity=verbosity)
    with Display(answers, out) as display:
        outcome = AnsibleRun(
            playbook,
            inventories,
            argv,
            stops_asked=stops_asked,
            passwords=passwords,
            progress=answers,
            show=display.show,
            ends_late=True,
        ).run()
    return answers, outcome


@contextmanager
def _inputs(hosts: Hosts, settings: Settings) -> Iterator[tuple[list[str], list[str]]]:
    """Yield the inventories and further arguments; their files are this user's alone, and soon gone."""
    with tempfile.TemporaryDirectory(prefix="railyard-discover-") as folder:
        variables = {
            "railyard_discover_secret": secrets.token_hex(16),
            "railyard_discover_run": secrets.token_hex(8),
            "railyard_discover_link_up": settings.link_up,
            "railyard_discover_longest_s": settings.longest_s(len(hosts.hosts)),
            "railyard_discover_listen_s": settings.listen_s,
            "railyard_discover_limit_s": settings.limit_s,
        }
        Path(folder, "variables.json").write_text(json.dumps(variables), encoding="utf-8")
        argv = ["--extra-vars", f"@{folder}/variables.json"]
        # Else Ansible looks for Python by requests of its own; an existing inventory's value wins over this.
        ours: dict[str, Any] = {"vars": {"ansible_python_interpreter": "/usr/bin/python3"}}
        if hosts.inventories:
            Path(folder, "nodes").write_text(
                "".join(f"{host.key}\n" for host in hosts.hosts), encoding="utf-8"
            )
            argv += ["--limit", f"@{folder}/nodes"]
        else:
            ours["hosts"] = {host.key: _variables(host) for host in hosts.hosts}
        Path(folder, "hosts.json").write_text(json.dumps({"all": ours}), encoding="utf-8")
        yield [f"{folder}/hosts.json", *hosts.inventories], argv


def _variables(host: Host) -> dict[str, str]:
    known = {"ansible_host": host.address, "ansible_user": host.user}
    return {name: value for name, value in known.items() if value is not None}
