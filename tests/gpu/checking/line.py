"""A line of the table."""

from __future__ import annotations

from typing import NamedTuple

GOOD, FAIL, UNMEASURED = "good", "FAIL", "unmeasured"


class Line(NamedTuple):
    """What was found of one thing: the outcome (GOOD, FAIL, UNMEASURED), what it is, and details."""

    outcome: str
    what: str
    detail: str
