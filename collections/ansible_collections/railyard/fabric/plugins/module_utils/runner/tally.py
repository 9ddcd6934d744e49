# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How many of its meetings a node has behind it, and which of its rails look bad in all of them. Pure.

It is told while the run goes on, of a node by itself: who is slow is for isolation to say, from all nodes'
numbers. So a rail looks bad only where nothing healthy is like it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.runner import confirm
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import rounds

#: Of the least that the controller expects of a bandwidth: on a healthy rail a stall takes a tenth.
_LOW = 0.5
#: With one partner nobody knows whose fault it is.
_LEAST_PARTNERS = 2
#: Of a test that was not run for one of these nothing follows about its rail.
_NO_FAULT = ("busy", "lease", "interrupted", "internal")

Row = Mapping[str, Any]


class Tally:
    """Counts a node's meetings, repetitions not among them."""

    def __init__(self, order: Mapping[str, Any]) -> None:
        meetings = list(rounds.meetings(order, str(order["node"])))
        self._bounds: confirm.Bounds = order.get("bounds") or {}
        self._meetings = len(meetings)
        self._rounds = 1 + max((meeting.round for meeting in meetings), default=-1)
        self._met = self._round = 0
        # Rail -> pair -> whether it looked bad each time: in a second order a pair meets again and again.
        self._partners: dict[str, dict[tuple[str, str], bool]] = {}

    def over(self, meeting: rounds.Meeting, rows: Sequence[Row]) -> None:
        """Note that a meeting is over, with this end's rows of it."""
        self._met += 1
        self._round = meeting.round + 1
        pair = meeting.node, meeting.peer
        for rail, bad in _looks(rows, self._bounds).items():
            partners = self._partners.setdefault(rail, {})
            partners[pair] = bad and partners.get(pair, True)

    def told(self) -> dict[str, Any]:
        """Return what a node says: `round` of `rounds` and `met` of `meetings` (those over), `suspects`.

        A suspect is a rail of this node that looked bad with each partner so far, two at least.
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


def _looks(rows: Sequence[Row], bounds: confirm.Bounds) -> dict[str, bool]:
    """Return of each rail of a meeting of which something can be told whether it looks bad.

    A number is bad below half of what is expected at least. None at all is where another rail of the same two
    nodes gave one for the same check: both of them are there, and have the tool.
    """
    found: dict[str, bool] = {}
    gave: dict[str, set[str]] = {}
    gave_none: list[tuple[str, str]] = []
    for row in rows:
        check, rail = str(row["check"]), str(row["rail"])
        if row["status"] == "measured":
            gave.setdefault(check, set()).add(rail)
            found[rail] = found.get(rail, False) or _is_low(row, bounds)
        elif (row.get("error") or {}).get("class") not in _NO_FAULT:
            gave_none.append((check, rail))
    for check, rail in gave_none:
        if gave.get(check, set()) - {rail}:
            found[rail] = True
    return found


def _is_low(row: Row, bounds: confirm.Bounds) -> bool:
    least = confirm.limits_of(row, bounds).get("bandwidth_gbps", (None,))[0]
    seen = (row.get("metrics") or {}).get("bandwidth_gbps")
    return seen is not None and least is not None and bool(seen < _LOW * least)
