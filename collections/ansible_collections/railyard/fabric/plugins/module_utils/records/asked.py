# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A question of a run, fixed before anything is measured: a line of asked.jsonl."""

from __future__ import annotations

from typing import Annotated, Literal, Optional, TypedDict

from .reader import NotEmpty, NotTwice

Direction = Literal["uni", "bi", "local"]


class _AskedOfSome(TypedDict, total=False):
    group: Optional[str]
    traffic_class: Optional[int]
    service_level: Optional[int]
    subject: Optional[str]
    parts: Annotated[list[str], NotTwice(), NotEmpty()]


class AskedLine(_AskedOfSome):
    """A question; what each key means is in `docs/schema`."""

    schema: Literal[1]
    id: str
    check: str
    tool: str
    node: str
    peer: Optional[str]
    rail: Optional[str]
    direction: Direction
    round: Optional[int]


def nodes_of(line: AskedLine) -> tuple[str, str]:
    """Return the two nodes of a test between two of them, or of a sum of such: node and peer."""
    return line["node"], str(line["peer"])
