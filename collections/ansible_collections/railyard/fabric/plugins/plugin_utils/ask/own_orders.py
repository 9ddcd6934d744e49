# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the node-specific part of each test schedule, one line per node in the run folder.

Plan and facts of a thousand nodes are megabytes: looking up a single node in them, for each
node, is quadratic.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.rails import bind
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds import baseline as against
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import baseline
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Order, Plan, Row
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder, RunFolderError

FILE = "own_orders.jsonl"


def keep(folder: RunFolder, plan: Plan, facts: Iterable[Row], order: Order) -> None:
    """Write the file.

    Args:
        folder: the run's.
        plan: the run's plan.
        facts: its facts rows.
        order: the part of the test schedule that all nodes share.

    Raises:
        RunFolderError: it cannot be written.
    """
    saved = baseline.kept(folder, folder.manifest(), plan)
    lines = _lines(plan, facts, order, saved)
    folder.write(FILE, "".join(f"{run_folder.line(one)}\n" for one in lines))


def read_node(folder: RunFolder, node: str) -> dict[str, Any]:
    """Read a node's part: `netdevs` and `hcas` by rail, and `bounds` where the run has a baseline.

    Raises:
        RunFolderError: the file is missing, cannot be read, or does not have the node.
    """
    for name, part in _rows(folder, json.dumps(node, ensure_ascii=False).encode()):
        if name == node:
            return part
    raise RunFolderError(f"{FILE} does not have node {node}")


def read_all(folder: RunFolder) -> dict[str, dict[str, Any]]:
    """Read the parts of all nodes, by node.

    Raises:
        RunFolderError: the file is missing or cannot be read.
    """
    return dict(_rows(folder))


def _rows(folder: RunFolder, name: bytes = b"") -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield node and row of the lines with a name; other lines are not parsed."""
    try:
        with (folder.path / FILE).open("rb") as stream:
            for row in (json.loads(line) for line in stream if name in line):
                yield row.pop("node"), row
    except (OSError, ValueError, LookupError) as error:
        raise RunFolderError(f"{FILE} cannot be read: {error}") from error


def _lines(
    plan: Plan, facts: Iterable[Row], order: Order, saved: baseline.Saved | None
) -> Iterator[dict[str, Any]]:
    rows: dict[str, Mapping[str, Any]] = {}
    for row in facts:
        rows.setdefault(str(row.get("node")), row)
    links: dict[str, dict[baseline.Link, baseline.Figure]] = {}
    for link, figure in saved.figures.items() if saved else ():
        for end in link[1:3]:
            links.setdefault(end, {})[link] = figure
    for node in (str(entry["name"]) for entry in order["roster"]):
        rails = plan["nodes"][node]["rails"]
        part: dict[str, Any] = {
            "node": node,
            "netdevs": bind.netdevs(rails, found) if (found := rows.get(node)) else {},
            "hcas": bind.hcas(rails, found) if found else {},
        }
        if saved is not None:
            mine = dataclasses.replace(saved, figures=links.get(node, {}))
            tolerance = float(order["policy"]["baseline_tolerance"])
            part["bounds"] = against.add_link_limits(order.get("bounds") or {}, mine, node, tolerance)
        yield part
