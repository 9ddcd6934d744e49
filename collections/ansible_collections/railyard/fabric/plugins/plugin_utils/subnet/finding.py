# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Make a finding: its text cleaned, its next step from the cause table."""

from __future__ import annotations

from collections.abc import Iterable

from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import PortKey, Source
from ansible_collections.railyard.fabric.plugins.plugin_utils import plain_text
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.causes import CAUSES, explain
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Finding, Severity

#: How much of a text a finding holds, and how much of one name that a device gave itself.
_MOST_CHARACTERS = 1500
_MOST_OF_A_NAME = 64
#: Causes that Ethernet's checks have too, whose command is for Ethernet: what to type here.
_HERE = {"wrong_leaf": "ibnetdiscover -p"}


def build_finding(
    cause: str,
    severity: Severity,
    text: str,
    *,
    inferred: bool = False,
    node: str | None = None,
    rail: str | None = None,
    ports: Iterable[PortKey] = (),
    sources: Iterable[Source] = (),
) -> Finding:
    """Make a finding of a cause of the table.

    Raises:
        KeyError: the table has no such cause.
    """
    row = CAUSES[cause]
    command = _HERE.get(cause)
    likely = (row.likely, command) if command else None
    return Finding(
        cause=cause,
        severity=severity,
        text=plain_text.clean_line(text)[:_MOST_CHARACTERS],
        inferred=inferred,
        node=node,
        rail=rail,
        ports=tuple(dict.fromkeys(ports)),
        sources=tuple(dict.fromkeys(sources)),
        next=explain(cause, likely=likely)["next"],
    )


def show_name(text: str) -> str:
    """Return what a device calls itself, cleaned, short, and never empty."""
    name = " ".join(plain_text.clean_line(text).split())[:_MOST_OF_A_NAME]
    return name or "without a name"
