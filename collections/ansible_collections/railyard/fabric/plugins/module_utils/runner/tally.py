# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Count a node's meetings that are over, and find rails that look bad in all of them. Pure.

This is a live view from one node: the slow component is found later by isolation, from the numbers of all
nodes. So a rail looks bad only at values that no healthy rail has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..schedule import rounds
from . import confirm

#: A share of the minimum bandwidth that the controller expects: on a healthy rail a stall costs a tenth.
_LOW = 0.5
#: With one partner either of the two may be the cause.
_LEAST_PARTNERS = 2
#: Errors that mean nothing for the rail of the test.
_NO_FAULT = ("busy", "lease", "interrupted", "internal")

Row = Mapping[str, Any]


class Tally:
    """Counts a node's meetings, without repetitions."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        meetings = list(rounds.meetings(order, str(order["node"])))
        self._bounds: confirm.Bounds = order.get("bounds") or {}
        self._meetings = len(meetings)
        self._rounds = 1 + max((meeting.round for meeting in meetings), default=-1)
        self._met = self._round = 0
        # Rail -> pair -> whether it looked bad each time: with a second schedule a pair meets repeatedly.
        self._partners: dict[str, dict[tuple[str, str], bool]] = {}

    def over(self, meeting: rounds.Meeting, rows: Sequence[Row]) -> None:
        """Note that a meeting is over, with this end's rows of it."""
        self._met += 1
        self._round = meeting.round + 1
        pair = meeting.node, meeting.peer
        for rail, bad in _find_bad_rails(rows, self._bounds).items():
            partners = self._partners.setdefault(rail, {})
            partners[pair] = bad and partners.get(pair, True)

    def summarize(self) -> dict[str, Any]:
        """Return the status keys: `round` of `rounds`, `met` of `meetings` (those over), and `suspects`.

        A suspect is a rail of this node that looked bad with each partner so far, at least two.
        """
        return {
            "round": self._round,
            "rounds": self._rounds,
            "met": self._met,
            "meetings": self._meetings,
            "suspects": [
                rail
                for rail, bad in self._partners.items()
                if len(bad) >= _LEAST_PARTNERS and all(bad.values())
            ],
        }


def _find_bad_rails(rows: Sequence[Row], bounds: confirm.Bounds) -> dict[str, bool]:
    """Map each rail of a meeting that has data to whether it looks bad.

    A number is bad below half of the expected minimum. A missing number is bad where another rail of the same
    two nodes has one for the same check: both nodes are there and have the tool.
    """
    found: dict[str, bool] = {}
    measured: dict[str, set[str]] = {}
    missing: list[tuple[str, str]] = []
    for row in rows:
        check, rail = str(row["check"]), str(row["rail"])
        if row["status"] == "measured":
            measured.setdefault(check, set()).add(rail)
            found[rail] = found.get(rail, False) or _is_low(row, bounds)
        elif (row.get("error") or {}).get("class") not in _NO_FAULT:
            missing.append((check, rail))
    for check, rail in missing:
        if measured.get(check, set()) - {rail}:
            found[rail] = True
    return found


def _is_low(row: Row, bounds: confirm.Bounds) -> bool:
    least = confirm.find_limits(row, bounds).get("bandwidth_gbps", (None,))[0]
    seen = (row.get("metrics") or {}).get("bandwidth_gbps")
    return seen is not None and least is not None and bool(seen < _LOW * least)
