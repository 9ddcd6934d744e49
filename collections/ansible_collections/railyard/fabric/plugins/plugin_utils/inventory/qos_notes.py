# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What role roce_qos will not ask of a node's driver, as far as the inventory says it in literals. Pure.

The defaults are those of roles rdma_stack and roce_qos.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.qos import settings
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.values import literal

VARIABLES = ("rdma_stack_provider", "roce_qos_dscp", "roce_qos_enabled", "roce_qos_not_asked")
_INBOX = ("ecn", "traffic_class")


def plan(fabric: Mapping[str, Any], said: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `node_notes.qos_plan_lines` tells of: nothing where QoS is not asked, or not said here.

    Args:
        fabric: a sound one.
        said: those of `VARIABLES` that the inventory sets.
    """
    wanted = {"transport": "roce", "node_class": "hardware", "cabling": "switched"}
    asked = all(fabric.get(key, value) == value for key, value in wanted.items())
    names = _INBOX if said.get("rdma_stack_provider", "inbox") == "inbox" else ()
    names = said.get("roce_qos_not_asked", names)
    dscp = said.get("roce_qos_dscp", 26)
    known = isinstance(names, (list, tuple)) and isinstance(dscp, int) and not any(literal(dict(said)))
    if not asked or not known or said.get("roce_qos_enabled", True) is not True:
        names, dscp = (), 0
    return {"reason": "", "not_asked": list(names), "traffic_class": settings.traffic_class(dscp)}
