# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A runner that plays the tests of one node, without the controller that started it."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.runner import main, node_tests
from ansible_collections.railyard.fabric.plugins.module_utils.runner.context import RunContext
from ansible_collections.railyard.fabric.plugins.module_utils.runner.launcher import DirectLauncher
from ansible_collections.railyard.fabric.plugins.module_utils.runner.record import Record
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import policy_keys


def order(node: str, names: tuple[str, ...], rails: list[dict[str, Any]], **policy: Any) -> dict[str, Any]:
    """Return the test schedule of a node of a fabric with nodes of these names, numbered from 1."""
    entry = {"scalable_unit": None, "rail_overrides": {}, "fabric": 0}
    defaults = {name: key.default for name, key in policy_keys.KEYS.items()}
    return {
        "run": "20261121T101500Z-3f2a",
        "node": node,
        "fabrics": [{"transport": "tcp", "mtu": 9000, "rails": rails, "node_class": "container"}],
        "pattern": "all_pairs",
        "seed": 0,
        "roster": [{**entry, "name": name, "node_index": n} for n, name in enumerate(names, 1)],
        "rails": None,
        "absent": [],
        "policy": {**defaults, **policy},
    }


def play(made: dict[str, Any], folder: Path) -> list[dict[str, Any]]:
    """Play the tests of the order's node in a run folder; return the rows that it wrote."""
    record = Record(str(folder), made, 0, main.build_pace(made))
    context = RunContext(made, record, DirectLauncher("railyard-runner-x"), threading.Event())
    node_tests.NodeTests(context).run()
    return [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
