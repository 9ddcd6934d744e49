# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An asked line of one node alone (docs/schema/asked.schema.json): pure, for controller and nodes alike."""

from __future__ import annotations

from typing import Final

from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine

SCHEMA: Final = 1


def local_line(identity: str, check: str, tool: str, node: str, rail: str | None) -> AskedLine:
    """Return a line that is asked of one node, without a peer.

    Args:
        identity: its id: a letter for where the answer comes from, and a number.
        check: what is asked.
        tool: by what.
        node: the node.
        rail: its rail; None where none is concerned.
    """
    return {
        "schema": SCHEMA,
        "id": identity,
        "check": check,
        "tool": tool,
        "node": node,
        "peer": None,
        "rail": rail,
        "direction": "local",
        "round": None,
    }
