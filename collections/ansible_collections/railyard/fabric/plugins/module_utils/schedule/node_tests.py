# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node is asked by itself, without a peer and on no rail: pure, for controller and nodes alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import NODE_TESTS, Check
from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import together
from ansible_collections.railyard.fabric.plugins.module_utils.schedule.request import local_line


def questions(policy: Mapping[str, Any]) -> Iterator[tuple[Check, str | None]]:
    """Yield each test that a policy has every node asked, with its subject.

    A switch has it asked once, of the whole node (None); a list once about each of its entries, so that all
    tests of one subject follow on each other. A policy of before there was the key has nothing asked.
    """
    tests = [one for one in NODE_TESTS if not one.unless_off or policy.get(one.unless_off)]
    for wanted in dict.fromkeys(one.wanted for one in tests):
        said = policy.get(wanted) or ()
        for subject in said if isinstance(said, list) else (None,) * bool(said):
            yield from ((one, subject) for one in tests if one.wanted == wanted)


def asked_lines(order: Mapping[str, Any], node: str | None = None) -> Iterator[AskedLine]:
    """Yield every question to a node by itself of a run, or those to one node.

    There are none in a second order of a run, whose first had them.

    Args:
        order: the common part of a work order.
        node: a roster name.

    Yields:
        asked lines with `group` None and their `subject`; ids begin with `n`. First those of all nodes
        together: by itself each may take another time.
    """
    yield from together.asked_lines(order, node)
    asked = [] if "first_id" in order else list(questions(order["policy"]))
    for position, entry in enumerate(order["roster"] if asked else ()):
        name = str(entry["name"])
        if node in (None, name):
            for number, (check, subject) in enumerate(asked, position * len(asked)):
                if check.least_gpus and not _has_gpus(order, entry, check.least_gpus):
                    continue
                line = local_line(f"n{number:05d}", check.name, check.tool, name, None)
                yield {**line, "group": None, "subject": subject}


def _has_gpus(order: Mapping[str, Any], entry: Mapping[str, Any], least: int) -> bool:
    """Tell whether a node is to have so many GPUs: as declared, else as every node of hardware is."""
    declared = entry.get("gpus")
    if declared is not None:
        return int(declared) >= least
    fabric = order["fabrics"][int(entry.get("fabric", 0))]
    return str(fabric.get("node_class") or "hardware") == "hardware"
