"""Read a live fabric: `playbooks/fabric.yml` on one node, or on one node for each subnet that is declared."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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
from railyard.operate import ansible_args
from railyard.operate.ansible import AnsibleRun
from railyard.operate.display import Display

UNREADABLE = 3
_MODULE = "subnet_info"
#: Nodes that are tried where none is named: more do not help where the first ones cannot be reached.
_MOST_TRIED = 5


class Port(NamedTuple):
    """Where a subnet is read: an RDMA device and its port; None for the tools' own choice."""

    device: str | None = None
    port: int | None = None


@dataclass
class Answers(Progress):
    """Keeps what the module returned, and why it did not; of the rest, steps and warnings are shown.

    Attributes:
        results: what the module returned for each port.
        refused: the module's own reasons, which Ansible sums up as one for all ports.
    """

    results: list[object] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    def feed(self, event: Mapping[str, Any]) -> list[Line]:
        """Take one event and return the lines that it is worth."""
        lines = super().feed(event)
        data = event.get("event_data") or {}
        done = event.get("event") in ("runner_on_ok", "runner_item_on_ok")
        result = data.get("res") or {}
        if done and action_of(data) == _MODULE and isinstance(result.get("capture"), Mapping):
            self.results.append(result["capture"])
        elif event.get("event") == "runner_item_on_failed" and result.get("msg"):
            self.refused.append(str(result["msg"]))
        return [line for line in lines if line.style in ("warning", "task")]


def read_live(
    inventory: Inventory, sources: Sequence[str], argv: Sequence[str], host: str | None, interval_s: float,
    out: Console,
) -> list[Capture]:  # fmt: skip
    """Read each subnet from one node.

    Args:
        inventory: the inventory, without problems.
        sources: what stood behind `-i`.
        argv: options for ansible-playbook.
        host: the node to read from; None for the inventory's choice.
        interval_s: seconds between two readings of the error counters.
        out: where progress is shown.

    Raises:
        UserError: no node could be read from (exit status 3), or the node is not in the inventory (2).
    """
    arguments = ansible_args.parse(argv)
    passwords = ansible_args.ask_passwords(arguments)
    found: list[Capture] = []
    with Interrupts() as interrupts:
        for group in choose_nodes(inventory, host):
            reasons: list[str] = []
            for node, ports in group:
                answers = Answers(verbosity=arguments.verbosity)
                extra = _variables(node, ports, interval_s, _wants_partitions(inventory))
                with Display(answers, out) as display:
                    outcome = AnsibleRun(
                        paths.repo_root() / "playbooks" / "fabric.yml",
                        sources,
                        [*arguments.argv, "--extra-vars", json.dumps(extra)],
                        stops_asked=lambda: interrupts.count,
                        passwords=passwords,
                        progress=answers,
                        show=display.show,
                        ends_late=True,
                    ).run()
                if outcome.interrupted:
                    raise UserError("interrupted; nothing is known of the fabric", "run it again", UNREADABLE)
                if answers.results:
                    found += [_take(value, node) for value in answers.results]
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


def _variables(node: str, ports: Sequence[Port], interval_s: float, partitions: bool) -> dict[str, Any]:
    return {
        "railyard_fabric_host": node,
        "railyard_fabric_ports": [
            {key: value for key, value in one._asdict().items() if value is not None} for one in ports
        ],
        "railyard_fabric_interval_s": interval_s,
        "railyard_fabric_partitions": partitions,
    }


def _take(value: object, node: str) -> Capture:
    try:
        return captures.from_result(value, node)
    except captures.CaptureError as error:
        raise UserError(str(error), "install one version of Railyard", UNREADABLE) from error


def _reason(answers: Answers) -> str:
    messages = answers.refused or [failure.message for failure in answers.failures] or answers.messages
    return clean_line(messages[-1]) if messages else "it returned nothing"
