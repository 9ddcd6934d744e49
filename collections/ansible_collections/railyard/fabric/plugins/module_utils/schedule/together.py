# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What all nodes are asked together: pure, for controller and nodes alike.

Each node writes a row of its own, since each has its own counters to prove it with.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import (
    ALL_RAILS,
    GROUP_TESTS,
    Check,
)
from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import rounds
from ansible_collections.railyard.fabric.plugins.module_utils.schedule.request import local_line

_ALLREDUCE, *_OPERATIONS, _TRAINING = GROUP_TESTS
#: What of a policy's `collective_operations` each check is asked for.
OPERATIONS = {one.name.rpartition("_")[2]: one for one in (_ALLREDUCE, *_OPERATIONS)}
# What was asked before there was the key.
_FIRST = ["allreduce"]


def jobs(order: Mapping[str, Any]) -> list[tuple[Check, str]]:
    """Return each test of all nodes with its subject, in the order in which they are done.

    There are none in a second order of a run, whose first had them, nor of a single node. A policy of before
    there was the key has nothing asked. All-reduce is asked of each rail alone too, which tells them apart;
    what comes after it is of all of them.

    Args:
        order: the common part of a work order.
    """
    if (
        order["policy"].get("collectives", "none") == "none"
        or "first_id" in order
        or len(order["roster"]) < 2
    ):
        return []
    rails, asked = rails_of_all(order), order["policy"].get("collective_operations", _FIRST)
    if not rails:
        return []
    found = [(check, ALL_RAILS) for name, check in OPERATIONS.items() if name in asked]
    if found and found[0][0] is _ALLREDUCE:
        alone = [(_ALLREDUCE, rail) for rail in rails]
        found = [*alone, *(found if len(rails) > 1 else found[1:])]
    return [*found, (_TRAINING, ALL_RAILS)]


def rails_of_all(order: Mapping[str, Any]) -> list[str]:
    """Return the rails that every node has, with an address: those that a test of all may run over."""
    entries = {int(entry.get("fabric", 0)): entry for entry in order["roster"]}
    names = rounds.RailNames(order)
    every = [
        [
            str(rail["name"])
            for rail in rounds.node_rails(order, entry)
            if rail["name"] in names.of(str(entry["name"])) and (rail.get("address") or rail.get("address6"))
        ]
        for entry in entries.values()
    ]
    return [rail for rail in every[0] if all(rail in others for others in every)] if every else []


def asked_lines(order: Mapping[str, Any], node: str | None = None) -> Iterator[AskedLine]:
    """Yield every question to all nodes together, a line for each of them, or those of one node.

    Args:
        order: the common part of a work order.
        node: a roster name.

    Yields:
        asked lines with `group` None and their `subject`; ids begin with `j`. The tool says the backend too.
    """
    asked = jobs(order)
    tool = "torch_{}".format(order["policy"].get("collective_backend"))
    for position, entry in enumerate(order["roster"] if asked else ()):
        name = str(entry["name"])
        if node in (None, name):
            for number, (check, subject) in enumerate(asked, position * len(asked)):
                line = local_line(f"j{number:05d}", check.name, tool, name, None)
                yield {**line, "group": None, "subject": subject}
