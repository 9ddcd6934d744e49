# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plan the tests of a node alone, without a peer and without a rail. Pure, for controller and nodes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..catalogue.tests import NODE_TESTS, Check
from ..records.asked import AskedLine
from . import together
from .request import local_line


def questions(policy: Mapping[str, Any]) -> Iterator[tuple[Check, str | None]]:
    """Yield each test that a policy plans for every node, with its subject.

    A boolean key plans a test once, for the node (None); a list once for each entry, so that all tests of one
    subject follow each other. A policy without the key plans none.
    """
    tests = [one for one in NODE_TESTS if not one.unless_off or policy.get(one.unless_off)]
    for wanted in dict.fromkeys(one.wanted for one in tests):
        value = policy.get(wanted) or ()
        for subject in value if isinstance(value, list) else (None,) * bool(value):
            yield from ((one, subject) for one in tests if one.wanted == wanted)


def asked_lines(order: Mapping[str, Any], node: str | None = None) -> Iterator[AskedLine]:
    """Yield the planned tests of nodes alone in a run, or those of one node; none in its second schedule.

    Args:
        order: the common part of a test schedule.
        node: a roster name.

    Yields:
        planned tests with `group` None and their `subject`; ids begin with `n`. First those of all nodes
        together, since tests alone may take different times on each node.
    """
    yield from together.asked_lines(order, node)
    planned = [] if "first_id" in order else list(questions(order["policy"]))
    for position, entry in enumerate(order["roster"] if planned else ()):
        name = str(entry["name"])
        if node in (None, name):
            for number, (check, subject) in enumerate(planned, position * len(planned)):
                if check.least_gpus and not _has_gpus(order, entry, check.least_gpus):
                    continue
                line = local_line(f"n{number:05d}", check.name, check.tool, name, None)
                yield {**line, "group": None, "subject": subject}


def _has_gpus(order: Mapping[str, Any], entry: Mapping[str, Any], least: int) -> bool:
    """Return whether a node should have at least this many GPUs: as declared, else all hardware nodes."""
    declared = entry.get("gpus")
    if declared is not None:
        return int(declared) >= least
    fabric = order["fabrics"][int(entry.get("fabric", 0))]
    return str(fabric.get("node_class") or "hardware") == "hardware"
