# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which nodes of an inventory are one machine, by the boot that their facts describe. Pure.

The kernel draws a boot id at random at each boot (random(4)), so that two machines never share one, whatever
was cloned. Containers of one host do share it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row


def find(nodes: Mapping[str, Mapping[str, Any]], facts: Iterable[Row]) -> dict[str, str]:
    """Return node -> another node that is the same machine.

    Args:
        nodes: the plan's nodes.
        facts: the facts rows.
    """
    by_boot: dict[str, dict[str, None]] = {}
    for row in facts:
        node, boot_id = row.get("node"), row.get("boot_id")
        if isinstance(node, str) and node in nodes and isinstance(boot_id, str) and boot_id:
            by_boot.setdefault(boot_id, {})[node] = None
    found = {}
    for names in map(list, by_boot.values()):
        if all(nodes[name].get("node_class") == "container" for name in names):
            continue
        for name in names if len(names) > 1 else ():
            found[name] = names[0] if name != names[0] else names[1]
    return found


def explain(node: str, other: str) -> str:
    """Return the sentence for it, with the fix."""
    return (
        f"{node} and {other} are one machine: both report the same boot id. Correct ansible_host of one of "
        "them, or remove one from the inventory; containers of one host are declared by "
        "`node_class: container`"
    )
