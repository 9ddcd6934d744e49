"""`railyard plan`: show what the inventory says each node's rails should be, or what is wrong with it."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from rich import box
from rich.table import Table
from rich.text import Text

from railyard.base import paths
from railyard.base.errors import BAD_INPUT, numbered
from railyard.plan import table

# Ansible reads its configuration at import; without this one it would read other files as inventories.
os.environ.setdefault("ANSIBLE_CONFIG", str(paths.repo_root() / "ansible.cfg"))

from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import cost
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import load, qos_notes
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import plan as fabric_plan
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Inventory, Problem
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import node_summary

_READABLE_NODES, _PIECE = 64, 1 << 14
# With these every pattern is the same single meeting.
_NODES_OF_ONE_PAIR = 2


def run(
    inventory: list[str],
    as_json: bool,
    limit: str | None = None,
    svg: str | None = None,
    every_row: bool = False,
) -> int:
    """Print the plan of an inventory, or draw it.

    Args:
        inventory: inventory sources, as given to `-i`.
        as_json: print the plan as JSON (docs/schema/plan.schema.json) in place of a table.
        limit: host pattern, as given to `--limit`.
        svg: file for a drawing, in place of a table; `-` for standard output.
        every_row: in the table a row for each rail of each node; else nodes that are alike are folded.

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
        from railyard.plan import svg_parts

        uplinks = plan_svg.uplinks_of([node.fabric for node in loaded.nodes])
        svg_parts.write(plan_svg.draw(plan, uplinks), svg)
    if as_json:
        # Indented it takes six times as long, and no one reads it for a thousand nodes.
        indent = 2 if len(plan["nodes"]) <= _READABLE_NODES else None
        text = json.dumps(plan, indent=indent) + "\n"
        # Unbuffered, Python does not notice that a single write was cut short.
        for start in range(0, len(text), _PIECE):
            sys.stdout.write(text[start : start + _PIECE])
    elif svg is None:
        table.console().print(Text.assemble((clean(plan["cluster"]), "bold"), f": {_head(plan)}"))
        table.print_plan(plan, every_row)
        said = {
            node.name: node_summary.describe_qos_plan(qos_notes.plan(node.fabric, node.qos))
            for node in loaded.selected_nodes()
        }
        for line in node_summary.fold_nodes(said):
            print(line)
        if note := qos_notes.default_class_note(policy.merge(loaded.policy), loaded):
            print(note)
        if loaded.selected_nodes():
            print(cost.estimate_inventory(loaded).text())
        if len(loaded.selected) > _NODES_OF_ONE_PAIR:
            table.print_uncut(_cost_table(cost.estimate_patterns(loaded)))
    return 0


def plan_or_problems(
    inventory: list[str], limit: str | None = None
) -> tuple[dict[str, Any] | None, list[Problem]]:
    """Load, validate and plan: (plan, []) for a good inventory, else (None, its problems)."""
    loaded, problems = _load(inventory, limit)
    return (None, problems) if problems else (fabric_plan.build_plan(loaded), [])


def _load(inventory: list[str], limit: str | None) -> tuple[Inventory, list[Problem]]:
    loaded = load.load(inventory, limit)
    return loaded, load.validate(loaded)


def print_problems(problems: Sequence[Problem]) -> None:
    """Print every problem, one a line, to standard error."""
    texts = [problem.text() for problem in problems]
    sys.stderr.write(numbered("in the inventory; no node was touched", texts) + "\n")


def _cost_table(ways: Mapping[str, cost.Cost]) -> Table:
    """Make a table of what each way to measure takes."""
    numbers = ("rounds", "pairs", "time", "rows of results", "size")
    made = Table(box=box.SIMPLE_HEAD)
    for title in ("way to measure", *numbers):
        made.add_column(title, justify="right" if title in numbers else "left", no_wrap=True)
    for name, one in ways.items():
        pairs = f"{one.pairs} of {one.of_pairs}"
        size = cost.size_text(one.result_bytes)
        made.add_row(name, str(one.rounds), pairs, one.time_text(), str(one.rows), size)
    return made


def _head(plan: dict[str, Any]) -> str:
    nodes: dict[str, Any] = plan["nodes"]
    rails = {len(node["rails"]) for node in nodes.values()}
    each = f"{rails.pop()} rails each" if len(rails) == 1 else "a differing number of rails"
    return (
        f"{len(nodes)} nodes, {each}, transport {plan['transport']}, {plan['node_class']}, {plan['cabling']}"
    )
