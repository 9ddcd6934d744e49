# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a measurement will take, told before it begins: rounds, minutes, bytes on the rails. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.documents import AskedLine
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import rounds as schedule
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Inventory
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.plan import build_plan
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import pattern, requests

#: Above this a measurement wants the user's word, `railyard_allow_long`.
LONG_S = 1800.0
CONSENT = "railyard_allow_long"
FIX = (
    f"-e {CONSENT}=true, or measure fewer nodes at a time (--limit), or for a shorter time "
    "(iperf3_duration_s, rdma_duration_s and others of fabric_policy)"
)
_UNITS = ((1e18, "EB"), (1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"))


@dataclass(frozen=True)
class Cost:
    """What a run is expected to take.

    Attributes:
        nodes, rounds: how many there are; the pairs of a round are measured at the same time.
        pairs, of_pairs: how many meet, of how many.
        full_rounds: in so many rounds a pair is asked everything; None where in all.
        one_by_one: whether what is asked else is each rail alone, or all at once.
        duration_s: of the whole measurement, when nothing goes wrong.
        data_bytes: sent over all rails together at their declared rates; None where a rail declares none.
    """

    nodes: int
    pairs: int
    of_pairs: int
    rounds: int
    full_rounds: int | None
    one_by_one: bool
    duration_s: float
    data_bytes: float | None

    def text(self) -> str:
        """Return it as a sentence."""
        minutes = max(1, round(self.duration_s / 60))
        time = f"{minutes} min" if minutes < 120 else f"{self.duration_s / 3600:.1f} h"
        data = "an unknown amount of data (no rate_gbps is declared)"
        if self.data_bytes is not None:
            size, unit = next((one for one in _UNITS if self.data_bytes >= one[0]), _UNITS[-1])
            data = f"up to {self.data_bytes / size:.3g} {unit} over the rails"
        meet = _count(self.pairs, "pair")
        if self.pairs < self.of_pairs:
            meet = f"{self.pairs} of {_count(self.of_pairs, 'pair')}"
        rounds = _count(self.rounds, "round")
        least = "the path and each rail alone" if self.one_by_one else "the path and all rails at once"
        if self.full_rounds == 0:
            rounds += f" ({least})"
        elif self.full_rounds is not None:
            rounds += f" ({self.full_rounds} with every test, the others with {least})"
        return f"Measuring takes about {time}: {meet} in {rounds}, {data}."

    def refusal(self) -> str | None:
        """Return why this is not begun without the user's word, or None."""
        if self.duration_s <= LONG_S:
            return None
        return f"{self.text()} That is above {LONG_S / 60:.0f} min, and nobody has said that it may"


def of(inventory: Inventory) -> Cost:
    """Return what measuring the selected nodes of a sound inventory will take.

    Raises:
        PolicyError: the nodes cannot meet as the policy says.
    """
    nodes = inventory.selected_nodes()
    plan = build_plan(inventory)
    plan["nodes"] = {node.name: plan["nodes"][node.name] for node in nodes}
    rules = policy.merge(inventory.policy)
    names = [node.name for node in nodes]
    order = requests.work_order("", plan, {node.name: node.fabric for node in nodes}, rules, names)
    return of_order(order)


def of_order(order: Mapping[str, Any]) -> Cost:
    """Return what a work order (its common part) will take."""
    nodes, turns = len(order["roster"]), len(pattern.rounds_of(order))
    full = order.get("full_rounds")
    full_rounds = turns if full is None else min(full, turns)
    of_all = nodes * (nodes - 1) // 2
    met = [nodes // 2] * turns
    if order["pattern"] == schedule.LISTED:
        met = [len(turn) for turn in order["meetings"]]
    duration_s, data_bytes, known = pattern.AROUND_S, 0.0, True
    for whole, meetings in ((True, met[:full_rounds]), (False, met[full_rounds:])):
        if not meetings:
            continue
        duration_s += len(meetings) * pattern.meeting_s(order, whole)
        for node, _peer, count, tests in pattern.pairs(order, whole):
            each_bytes = _pair_bytes(tests, order, node)
            known = known and each_bytes is not None
            data_bytes += count * sum(meetings) / of_all * (each_bytes or 0.0)
    one_by_one = order["policy"].get("questions") == schedule.ONE_BY_ONE
    return Cost(
        nodes, min(sum(met), of_all), of_all, turns, full, one_by_one, duration_s,
        data_bytes if known else None,
    )  # fmt: skip


def _pair_bytes(pair: list[AskedLine], order: Mapping[str, Any], entry: Mapping[str, Any]) -> float | None:
    """Return what the bandwidth tests of one meeting send at most; the others send next to nothing."""
    rates = {rail["name"]: rail.get("rate_gbps") for rail in schedule.node_rails(order, entry)}
    total = 0.0
    for test in pair:
        if "bandwidth" not in test["check"]:
            continue
        rate_gbps = rates[str(test["rail"])]
        if rate_gbps is None:
            return None
        ways = 2 if test["direction"] == "bi" else 1
        total += ways * float(rate_gbps) * 1e9 / 8 * pattern.planned_s(test, order["policy"])
    return total


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
