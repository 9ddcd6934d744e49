# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan the tests of all nodes together. Pure, for controller and nodes.

Each node writes a row, since each has its own counters as proof.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..catalogue.tests import ALL_RAILS, GROUP_TESTS, Check
from ..records.asked import AskedLine
from . import rounds
from .request import local_line

_ALLREDUCE, *_OPERATIONS, _TRAINING = GROUP_TESTS
#: `collective_operations` of a policy -> check.
OPERATIONS = {one.name.rpartition("_")[2]: one for one in (_ALLREDUCE, *_OPERATIONS)}
# The value for policies without the key.
_FIRST = ["allreduce"]


def jobs(order: Mapping[str, Any]) -> list[tuple[Check, str]]:
    """Return each test of all nodes with its subject, in order.

    There are none in the second schedule of a run, for a single node, or for a policy without the key.
    All-reduce is also run on each rail alone, to compare them; the tests after it use all rails.

    Args:
        order: the common part of a test schedule.
    """
    if (
        order["policy"].get("collectives", "none") == "none"
        or "first_id" in order
        or len(order["roster"]) < 2
    ):
        return []
    rails, operations = rails_of_all(order), order["policy"].get("collective_operations", _FIRST)
    if not rails:
        return []
    found = [(check, ALL_RAILS) for name, check in OPERATIONS.items() if name in operations]
    if found and found[0][0] is _ALLREDUCE:
        alone = [(_ALLREDUCE, rail) for rail in rails]
        found = [*alone, *(found if len(rails) > 1 else found[1:])]
    return [*found, (_TRAINING, ALL_RAILS)]


def rails_of_all(order: Mapping[str, Any]) -> list[str]:
    """Return the rails that every node has with an address, for tests of all nodes."""
    entries = {int(entry.get("fabric", 0)): entry for entry in order["roster"]}
    names = rounds.RailNames(order)
    every = [
        [
            str(rail["name"])
            for rail in rounds.node_rails(order, entry)
            if rail["name"] in names.list_rails(str(entry["name"]))
            and (rail.get("address") or rail.get("address6"))
        ]
        for entry in entries.values()
    ]
    return [rail for rail in every[0] if all(rail in others for others in every)] if every else []


def asked_lines(order: Mapping[str, Any], node: str | None = None) -> Iterator[AskedLine]:
    """Yield the planned tests of all nodes together, one for each node, or those of one node.

    Args:
        order: the common part of a test schedule.
        node: a roster name.

    Yields:
        planned tests with `group` None and their `subject`; ids begin with `j`. The tool includes the
        backend.
    """
    planned = jobs(order)
    tool = "torch_{}".format(order["policy"].get("collective_backend"))
    for position, entry in enumerate(order["roster"] if planned else ()):
        name = str(entry["name"])
        if node in (None, name):
            for number, (check, subject) in enumerate(planned, position * len(planned)):
                line = local_line(f"j{number:05d}", check.name, tool, name, None)
                yield {**line, "group": None, "subject": subject}
