"""`railyard plan`: show what the inventory says each node's rails should be, or what is wrong with it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from railyard.base import output, paths
from railyard.base.errors import BAD_INPUT, numbered
from railyard.plan import svg_model

# Ansible reads its configuration when it is imported; without ours it would take other files for inventories.
os.environ.setdefault("ANSIBLE_CONFIG", str(paths.repo_root() / "ansible.cfg"))

from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import cost
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import load, qos_notes
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import plan as fabric_plan
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import node_summary

# Above this, a row for each rail of each node helps nobody.
_ROWS_MAX = 512
_READABLE_NODES, _PIECE = 64, 1 << 14
# With these every pattern is the same single meeting.
_NODES_OF_ONE_PAIR = 2


def run(inventory: list[str], as_json: bool, limit: str | None = None, svg: str | None = None) -> int:
    """Print the plan of an inventory, or draw it.

    Args:
        inventory: inventory sources, as given to `-i`.
        as_json: print the plan as JSON (docs/schema/plan.schema.json) in place of a table.
        limit: host pattern, as given to `--limit`.
        svg: file for a drawing, in place of a table; `-` for standard output.

    Returns:
        0, or 2 when the inventory has problems, which are then on standard error, all of them.

    Raises:
        UserError: the drawing cannot be written.
    """
    loaded, problems = _load(inventory, limit)
    if problems:
        print_problems(problems)
        return BAD_INPUT
    plan = fabric_plan.build_plan(loaded)
    if svg is not None:
        from railyard.plan import svg as plan_svg

        uplinks = plan_svg.uplinks_of([node.fabric for node in loaded.nodes])
        plan_svg.write(plan_svg.draw(plan, uplinks), svg)
    if as_json:
        # Indented it takes six times as long, and of a thousand nodes nobody reads it.
        indent = 2 if len(plan["nodes"]) <= _READABLE_NODES else None
        text = json.dumps(plan, indent=indent) + "\n"
        # Unbuffered, Python does not notice that a single write was cut short.
        for start in range(0, len(text), _PIECE):
            sys.stdout.write(text[start : start + _PIECE])
    elif svg is None:
        _print_table(plan)
        said = {
            node.name: node_summary.qos_plan_lines(qos_notes.plan(node.fabric, node.qos))
            for node in loaded.selected_nodes()
        }
        for line in node_summary.folded(said):
            print(line)
        if note := qos_notes.default_class_note(policy.merge(loaded.policy), loaded):
            print(note)
        if loaded.selected_nodes():
            print(cost.of(loaded).text())
        if len(loaded.selected) > _NODES_OF_ONE_PAIR:
            _console().print(_cost_table(cost.of_patterns(loaded)))
    return 0


def plan_or_problems(
    inventory: list[str], limit: str | None = None
) -> tuple[dict[str, Any] | None, list[load.Problem]]:
    """Load, validate and plan: (plan, []) for a good inventory, else (None, its problems)."""
    loaded, problems = _load(inventory, limit)
    return (None, problems) if problems else (fabric_plan.build_plan(loaded), [])


def _load(inventory: list[str], limit: str | None) -> tuple[load.Inventory, list[load.Problem]]:
    loaded = load.load(inventory, limit)
    return loaded, load.validate(loaded)


def print_problems(problems: Sequence[load.Problem]) -> None:
    """Print every problem, one a line, to standard error."""
    texts = [problem.text() for problem in problems]
    sys.stderr.write(numbered("in the inventory; no node was touched", texts) + "\n")


def _console() -> Console:
    # The width of a pipe is unknown: there, no cell may be cut.
    return output.console(width=None if sys.stdout.isatty() else 200, outlives_reader=False)


def _cost_table(ways: Mapping[str, cost.Cost]) -> Table:
    """Make a table of what each way to measure takes."""
    numbers = ("rounds", "pairs", "time", "rows of results", "size")
    table = _table(("way to measure", *numbers), numbers)
    for name, one in ways.items():
        pairs = f"{one.pairs} of {one.of_pairs}"
        size = cost.size_text(one.result_bytes)
        table.add_row(name, str(one.rounds), pairs, one.time_text(), str(one.rows), size)
    return table


def _print_table(plan: dict[str, Any]) -> None:
    console = _console()
    nodes: dict[str, Any] = plan["nodes"]
    console.print(Text.assemble((clean(plan["cluster"]), "bold"), f": {_head(plan)}"))
    rows = sum(len(node["rails"]) for node in nodes.values())
    console.print(_rail_table(nodes) if rows > _ROWS_MAX else _node_table(nodes))
    if rows > _ROWS_MAX:
        console.print("First and last node of each rail; all of them: --json")
    for line in _nvlink_lines(nodes):
        console.print(line)
    if any(_beside(node) for node in nodes.values()):
        console.print(_network_table(nodes, ends_only=rows > _ROWS_MAX))


def _head(plan: dict[str, Any]) -> str:
    nodes: dict[str, Any] = plan["nodes"]
    rails = {len(node["rails"]) for node in nodes.values()}
    each = f"{rails.pop()} rails each" if len(rails) == 1 else "a differing number of rails"
    return (
        f"{len(nodes)} nodes, {each}, transport {plan['transport']}, {plan['node_class']}, {plan['cabling']}"
    )


_COLUMNS = (
    "netdev",
    "mac",
    "pci",
    "hca",
    "address",
    "address6",
    "gateway",
    "gateway6",
    "mtu",
    "vlan",
    "rate_gbps",
    "shares_wire_with",
)
_TITLES = {"mtu": "MTU (bytes)", "rate_gbps": "Gbit/s", "shares_wire_with": "one wire with"}
_NUMBERS = ("MTU (bytes)", "Gbit/s")


def _node_table(nodes: dict[str, Any]) -> Table:
    every_rail = [rail for node in nodes.values() for rail in node["rails"]]
    columns = _used(every_rail)
    table = _table(["node", "index", "rail", *(_TITLES.get(column, column) for column in columns)])
    for name, node in nodes.items():
        for position, rail in enumerate(node["rails"]):
            first = position == 0
            head = [name if first else "", _text(node["node_index"]) if first else "", rail["name"]]
            last = position == len(node["rails"]) - 1
            table.add_row(*head, *(_text(rail.get(column)) for column in columns), end_section=last)
    return table


def _rail_table(nodes: dict[str, Any]) -> Table:
    """Make a table of the first and last node of each rail."""
    ends: dict[str, list[tuple[str, dict[str, Any]]]] = {}
    for name, node in nodes.items():
        for rail in node["rails"]:
            pair = ends.setdefault(rail["name"], [(name, rail), (name, rail)])
            pair[1] = (name, rail)
    columns = _used(rail for pair in ends.values() for _name, rail in pair)
    table = _table(["rail", "node", *(_TITLES.get(column, column) for column in columns)])
    for rail_name, pair in ends.items():
        for position, (name, rail) in enumerate(pair):
            cells = (_text(rail.get(column)) for column in columns)
            table.add_row(rail_name if position == 0 else "", name, *cells, end_section=position == 1)
    return table


def _nvlink_lines(nodes: dict[str, Any]) -> list[Text]:
    """Return of each NVLink domain which nodes are in it."""
    domains: dict[str, list[str]] = {}
    for name, node in nodes.items():
        if node.get("nvlink_domain"):
            domains.setdefault(node["nvlink_domain"], []).append(name)
    return [
        Text(clean(f"NVLink domain {domain}: {len(names)} nodes, {svg_model.folded(names)}"))
        for domain, names in domains.items()
    ]


def _beside(node: dict[str, Any]) -> list[tuple[str, str, str, str, str]]:
    """Return what a node has beside its rails: network, interface, address, MTU, and who writes it."""
    rows = []
    for network in node["networks"]:
        netdev = network["netdev"]
        if netdev is not None and network["vlan"] is not None:
            netdev = f"{netdev}.{network['vlan']}"
        address = node["bmc_address"] if network["bmc"] else network["address"]
        if address is not None:
            written = "Railyard" if network["manage"] else "others"
            rows.append((network["name"], _text(netdev), str(address), _text(network["mtu"]), written))
    if node["bmc_address"] is not None and not any(network["bmc"] for network in node["networks"]):
        rows.append(("bmc", "-", str(node["bmc_address"]), "-", "others"))
    return rows


def _network_table(nodes: dict[str, Any], ends_only: bool) -> Table:
    """Make a table of the addresses that are on no rail: of all nodes, or of the first and the last."""
    table = _table(("node", "network", "netdev", "address", "MTU (bytes)", "written by"))
    named = list(nodes.items())
    for name, node in (named[0], named[-1]) if ends_only else named:
        for position, cells in enumerate(rows := _beside(node)):
            table.add_row("" if position else name, *cells, end_section=position == len(rows) - 1)
    return table


def _used(rails: Iterable[dict[str, Any]]) -> list[str]:
    """Return the columns in which any rail has something to say."""
    known = {column for rail in rails for column in _COLUMNS if rail.get(column) is not None}
    return [column for column in _COLUMNS if column in known]


def _table(titles: Iterable[str], numbers: Sequence[str] = _NUMBERS) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for title in titles:
        table.add_column(title, justify="right" if title in numbers else "left", no_wrap=True)
    return table


def _text(value: Any) -> str:
    return "-" if value is None else str(value)
