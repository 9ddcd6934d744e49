# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A planned test of one node alone (docs/schema/asked.schema.json). Pure, for controller and nodes."""

from __future__ import annotations

from typing import Final

from ..records.asked import AskedLine

SCHEMA: Final = 1


def local_line(identity: str, check: str, tool: str, node: str, rail: str | None) -> AskedLine:
    """Return a planned test of one node without a peer.

    Args:
        identity: its id: a letter for the source of the result, and a number.
        check: the check.
        tool: its tool.
        node: the node.
        rail: its rail; None for a test of the node.
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
