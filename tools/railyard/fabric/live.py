"""Read a live fabric: `playbooks/fabric.yml` on one node, or on one node for each subnet that is declared."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet_capture import Capture
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Inventory
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.plan import plans_of
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean_line
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet import captures
from rich.console import Console

from railyard.base import paths
from railyard.base.errors import UserError
from railyard.base.progress import Line, Progress, action_of
from railyard.base.signals import Interrupts
from railyard.fabric.wanted import Wanted
from railyard.operate import ansible_args
from railyard.operate.ansible import AnsibleRun
from railyard.operate.ansible_args import AnsibleArguments
from railyard.operate.display import Display

UNREADABLE = 3
PLAYBOOK = paths.repo_root() / "playbooks" / "fabric.yml"
_MODULE = "subnet_info"
#: Nodes that are tried where none is named: more do not help where the first ones cannot be reached.
_MOST_TRIED = 5


class Port(NamedTuple):
    """Where a subnet is read: an RDMA device and its port; None for the tools' own choice."""

    device: str | None = None
    port: int | None = None


@dataclass
class Answers(Progress):
    """Keeps why the module failed; of the rest, steps and warnings are shown.

    What it returned does not come this way: ansible-runner cuts results above 700 kB out of its events.

    Attributes:
        refused: the module's own reasons, which Ansible sums up as one for all ports.
    """

    refused: list[str] = field(default_factory=list)

    def feed(self, event: Mapping[str, Any]) -> list[Line]:
        """Take one event and return the lines that it is worth."""
        lines = super().feed(event)
        data = event.get("event_data") or {}
        if event.get("event") == "runner_item_on_failed" and action_of(data) == _MODULE:
            message = (data.get("res") or {}).get("msg")
            self.refused += [str(message)] if message else []
        return [line for line in lines if line.style in ("warning", "task")]


def read_live(
    inventory: Inventory,
    wanted: Wanted,
    arguments: AnsibleArguments,
    out: Console,
    passwords: Mapping[str, str] | None = None,
    pairs: Sequence[tuple[str, str]] = (),
    *,
    with_partitions: bool = True,
) -> list[Capture]:
    """Read each subnet from one node.

    Args:
        inventory: the inventory, without problems.
        wanted: the options.
        arguments: options for ansible-playbook.
        out: where progress is shown.
        passwords: as `ask_passwords` returns them; None to ask for them here.
        pairs: pairs of GUIDs of ports, whose paths are read as well.
        with_partitions: read the partitions, if the inventory declares any.

    Raises:
        UserError: no node could be read from (exit status 3), or the node is not in the inventory (2).
    """
    if passwords is None:
        passwords = ansible_args.ask_passwords(arguments)
    partitions = with_partitions and _wants_partitions(inventory)
    found: list[Capture] = []
    with tempfile.TemporaryDirectory(prefix="railyard-fabric-") as place, Interrupts() as interrupts:
        folder = Path(place)
        for group in choose_nodes(inventory, wanted.host):
            reasons: list[str] = []
            for node, ports in group:
                answers = Answers(verbosity=arguments.verbosity)
                into = folder / str(len(found))
                extra = {
                    **_variables(node, ports, wanted.interval_s, partitions, into),
                    "railyard_fabric_paths": [list(pair) for pair in pairs],
                }
                with Display(answers, out) as display:
                    outcome = AnsibleRun(
                        PLAYBOOK,
                        wanted.inventory,
                        [*arguments.argv, "--extra-vars", json.dumps(extra)],
                        stops_asked=lambda: interrupts.count,
                        passwords=passwords,
                        progress=answers,
                        show=display.show,
                        ends_late=True,
                    ).run()
                if outcome.interrupted:
                    raise UserError("interrupted; nothing is known of the fabric", "run it again", UNREADABLE)
                read = [_take(into / str(place), node) for place in range(len(ports))]
                if all(read):
                    found += [capture for capture in read if capture]
                    break
                reasons.append(f"  {node}: {_reason(answers)}")
            else:
                raise UserError(
                    "the fabric could not be read:\n" + "\n".join(reasons),
                    "correct what is named, or name another node with --host",
                    UNREADABLE,
                )
    return found


def choose_nodes(inventory: Inventory, host: str | None) -> list[list[tuple[str, list[Port]]]]:
    """Return which nodes are read from: a list for each reading, of candidates with the ports to read.

    Raises:
        UserError: the named node is not in the inventory, or has no InfiniBand.
    """
    nodes = {node.name: node for node in inventory.nodes if node.fabric.get("transport") == "infiniband"}
    if host is not None:
        if host not in nodes:
            raise UserError(f"{host} is no InfiniBand node of the inventory", "see `railyard plan`")
        return [[(host, [Port()])]]
    declared = [node.fabric.get("read_from") for node in nodes.values() if node.fabric.get("read_from")]
    readings: list[list[tuple[str, list[Port]]]] = []
    for one in {json.dumps(value, sort_keys=True): value for value in declared}.values():
        if isinstance(one, Mapping):
            by_node: dict[str, list[str]] = {}
            for rail, node in one.items():
                by_node.setdefault(str(node), []).append(str(rail))
            readings += [[(node, _ports(inventory, node, rails))] for node, rails in by_node.items()]
        else:
            readings.append([(str(one), [Port()])])
    if readings:
        return readings
    selected = [node.name for node in inventory.selected_nodes() if node.name in nodes]
    return [[(node, [Port()]) for node in selected[:_MOST_TRIED]]]


def _ports(inventory: Inventory, node: str, rails: Sequence[str]) -> list[Port]:
    """Return the RDMA ports of a node's rails.

    Raises:
        UserError: the inventory does not say which device a rail is.
    """
    planned = plans_of([one for one in inventory.nodes if one.name == node])
    hcas = {rail["name"]: rail["hca"] for rail in (planned.get(node) or {"rails": []})["rails"]}
    ports = []
    for rail in rails:
        device, _colon, port = str(hcas.get(rail) or "").partition(":")
        if not device:
            raise UserError(
                f"read_from: {rail} of {node} has no `hca` in the inventory, so its port is not known",
                "declare `hca: mlx5_0:1` of the rail, or name the node alone: `read_from: gpu01`",
            )
        ports.append(Port(device, int(port) if port.isdecimal() else 1))
    return list(dict.fromkeys(ports))


def _wants_partitions(inventory: Inventory) -> bool:
    return any(node.fabric.get("partitions") is not None for node in inventory.nodes)


def _variables(
    node: str, ports: Sequence[Port], interval_s: float, partitions: bool, into: Path
) -> dict[str, Any]:
    return {
        "railyard_fabric_host": node,
        "railyard_fabric_ports": [
            {key: value for key, value in one._asdict().items() if value is not None} for one in ports
        ],
        "railyard_fabric_interval_s": interval_s,
        "railyard_fabric_partitions": partitions,
        "railyard_fabric_into": str(into),
    }


def _take(folder: Path, node: str) -> Capture | None:
    """Return what was kept of a node; None where there is nothing.

    Raises:
        UserError: it names no link.
    """
    if not (folder / captures.INDEX).is_file():
        return None
    try:
        return captures.load(str(folder))
    except captures.CaptureError as error:
        why = str(error).replace(f"{folder}: ", "")
        raise UserError(f"{node}: {why}", "see whether its InfiniBand port is active", UNREADABLE) from error


def _reason(answers: Answers) -> str:
    messages = answers.refused or [failure.message for failure in answers.failures] or answers.messages
    return clean_line(messages[-1]) if messages else "it returned nothing"
