# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Check single values of an InfiniBand subnet; as in `values`, checks return an error text or None."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.records.guid import normalize_guid
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import values
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.values import show

#: The subnet manager that runs on a switch, or beside all nodes (UFM).
SWITCH = "switch"


def guid(value: Any) -> str | None:
    """Check for a GUID, however it is written."""
    return None if normalize_guid(value) is not None else f"{show(value)} is not a GUID"


def subnet_managers(value: Any) -> str | None:
    """Check for a list of nodes, or `switch`, each once."""
    if not isinstance(value, list) or not value:
        return f"it is {show(value)}, not a list of nodes"
    wrong = next((found for found in map(values.text, value) if found is not None), None)
    return wrong or (None if len(set(value)) == len(value) else f"{show(value)} has a duplicate")


def read_from(value: Any) -> str | None:
    """Check for a node, or a mapping of rails to nodes."""
    if isinstance(value, Mapping):
        named = [*value, *value.values()]
        wrong = next((found for found in map(values.text, named) if found is not None), None)
        return wrong or (None if value else "it names no rail")
    return values.text(value)
