# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Estimate a measurement before it begins: rounds, minutes, bytes on the rails. Pure."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import node_tests, together
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import rounds as schedule
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import pattern, requests
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Inventory
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.plan import build_plan
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Order

#: Above this a measurement wants the user's word, `railyard_allow_long`.
LONG_S = 1800.0
CONSENT = "railyard_allow_long"
FIX = (
    f"-e {CONSENT}=true, or measure fewer nodes at a time (--limit), or for a shorter time "
    "(iperf3_duration_s, rdma_duration_s and others of fabric_policy)"
)
#: How nodes may be measured: the default, everything of all pairs, and what playbooks/sweep.yml asks.
WAYS: Mapping[str, Mapping[str, str]] = {
    policy.AUTO: {"pattern": policy.AUTO, "questions": schedule.EVERY},
    policy.ALL_PAIRS: {"pattern": policy.ALL_PAIRS, "questions": schedule.EVERY},
    "sweep": {"pattern": policy.ALL_PAIRS, "questions": schedule.TOGETHER},
}
# A row of results.jsonl: 1.3 kB where a node has two rails, 2.5 kB where it has eight, with their counters.
_ROW_BYTES, _ROW_BYTES_OF_A_RAIL = 900, 200
# The packed row of a sweep, and what a rail of a node has of it only once.
_PACKED_ROW_BYTES, _FRAMES_BYTES = 260, 6 * 1000
_UNITS = ((1e18, "EB"), (1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"))


@dataclass(frozen=True)
class Cost:
    """What a run is expected to take.

    Attributes:
        nodes, rounds: how many there are; the pairs of a round are measured at the same time.
        pairs, of_pairs: how many meet, of how many.
        full_rounds: number of rounds with all tests; None for all rounds.
        parts: number of rounds in which each pair runs all tests of a part of the rails.
        one_by_one: whether the other rounds test each rail alone, not all at once.
        duration_s: of the whole measurement, when nothing goes wrong.
        data_bytes: sent over all rails together at their declared rates; None where a rail declares none.
        rows: of results that the tests leave.
        result_bytes: of these rows.
    """

    nodes: int
    pairs: int
    of_pairs: int
    rounds: int
    full_rounds: int | None
    parts: int
    one_by_one: bool
    duration_s: float
    data_bytes: float | None
    rows: int
    result_bytes: float

    def text(self) -> str:
        """Return it as a sentence."""
        data = "an unknown amount of data (no rate_gbps is declared)"
        if self.data_bytes is not None:
            data = f"up to {size_text(self.data_bytes)} over the rails"
        meet = _count(self.pairs, "pair")
        if self.pairs < self.of_pairs:
            meet = f"{self.pairs} of {_count(self.of_pairs, 'pair')}"
        rounds = _count(self.rounds, "round")
        least = "the path and each rail alone" if self.one_by_one else "the path and all rails at once"
        if self.parts:
            rounds += f" (every test in parts in {self.parts + 1} of them, and {least})"
        elif self.full_rounds == 0:
            rounds += f" ({least})"
        elif self.full_rounds is not None:
            rounds += f" ({self.full_rounds} with every test, the others with {least})"
        return f"Measuring takes about {self.time_text()}: {meet} in {rounds}, {data}."

    def time_text(self) -> str:
        """Return the duration as text; a minute or two in seconds, since minutes are too coarse for them."""
        if self.duration_s < 150:
            return f"{max(10, round(self.duration_s, -1)):.0f} s"
        minutes = round(self.duration_s / 60)
        return f"{minutes} min" if minutes < 120 else f"{self.duration_s / 3600:.1f} h"

    def refusal(self) -> str | None:
        """Return why this needs a confirmation, or None."""
        if self.duration_s <= LONG_S:
            return None
        return f"{self.text()} That is above {LONG_S / 60:.0f} min and needs a confirmation"


def estimate_inventory(inventory: Inventory) -> Cost:
    """Estimate the measurement of the selected nodes of a valid inventory.

    Raises:
        PolicyError: the nodes cannot meet as the policy says.
    """
    return estimate_order(_order(inventory))


def estimate_patterns(inventory: Inventory) -> dict[str, Cost]:
    """Estimate each pattern of measurement for the selected nodes of a valid inventory, by name.

    Raises:
        PolicyError: the nodes cannot meet as the policy says.
    """
    order = _order(inventory)
    own: dict[str, Mapping[str, str]] = {str(order["policy"]["pattern"]): {}}
    ways = {**own, **WAYS}
    return {name: estimate_order(pattern.by_policy(order, way)) for name, way in ways.items()}


def _order(inventory: Inventory) -> dict[str, Any]:
    nodes = inventory.selected_nodes()
    plan = build_plan(inventory)
    plan["nodes"] = {node.name: plan["nodes"][node.name] for node in nodes}
    rules = policy.merge(inventory.policy)
    names = [node.name for node in nodes]
    return requests.work_order("", plan, {node.name: node.fabric for node in nodes}, rules, names)


def estimate_order(order: Order) -> Cost:
    """Estimate a test schedule, given its common part."""
    nodes = len(order["roster"])
    whole = frozenset(pattern.rail_names(order))
    priced: dict[frozenset[str], _Meeting] = {}
    turns = pairs = full_rounds = 0
    alone = [*together.jobs(order), *node_tests.questions(order["policy"])]
    duration_s = float(order.get("start_skew_s", 0)) + pattern.beside_s(order)
    rows, data_bytes, known = float(nodes * len(alone)), 0.0, True
    for turn in pattern.count_pairs_by_rails(order):
        for full, met in turn.items():
            meeting = priced.get(full) or priced.setdefault(full, _meeting(order, full))
            known = known and meeting.data_bytes is not None
            data_bytes += met * (meeting.data_bytes or 0.0)
            # Both ends write one.
            rows += met * 2 * meeting.tests
        duration_s += max(priced[full].duration_s for full in turn)
        turns, pairs = turns + 1, pairs + turn.total()
        full_rounds += whole in turn
    rails = max((len(schedule.node_rails(order, entry)) for entry in _of_each_kind(order)), default=0)
    of_all = nodes * (nodes - 1) // 2
    result_bytes = rows * (_ROW_BYTES + _ROW_BYTES_OF_A_RAIL * rails)
    if order["policy"].get("questions") == schedule.TOGETHER:
        result_bytes = rows * _PACKED_ROW_BYTES + nodes * rails * _FRAMES_BYTES
    return Cost(
        nodes=nodes,
        pairs=min(pairs, of_all),
        of_pairs=of_all,
        rounds=turns,
        full_rounds=None if full_rounds == turns else full_rounds,
        parts=max(0, len(order.get("full_rails") or ()) - 1),
        one_by_one=order["policy"].get("questions") == schedule.ONE_BY_ONE,
        duration_s=duration_s,
        data_bytes=data_bytes if known else None,
        rows=round(rows),
        result_bytes=result_bytes,
    )


class _Meeting(NamedTuple):
    """Cost of one meeting: the longest of any two kinds of node, and the mean of all pairs."""

    duration_s: float
    tests: float
    data_bytes: float | None


def _meeting(order: Order, full: Collection[str]) -> _Meeting:
    duration_s = tests = data_bytes = 0.0
    known, of_all = True, 0
    for node, _peer, count, asked in pattern.pairs(order, full):
        each_bytes = _pair_bytes(asked, order, node)
        known = known and each_bytes is not None
        duration_s = max(duration_s, pattern.tests_s(asked, order["policy"]))
        tests, data_bytes = tests + count * len(asked), data_bytes + count * (each_bytes or 0.0)
        of_all += count
    return _Meeting(duration_s, tests / max(of_all, 1), data_bytes / max(of_all, 1) if known else None)


def _of_each_kind(order: Order) -> Collection[Mapping[str, Any]]:
    return {int(entry["fabric"]): entry for entry in order["roster"]}.values()


def _pair_bytes(pair: list[AskedLine], order: Order, entry: Mapping[str, Any]) -> float | None:
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


def size_text(size_bytes: float) -> str:
    """Return an amount of bytes as text in the largest fitting unit."""
    size, unit = next((one for one in _UNITS if size_bytes >= one[0]), _UNITS[-1])
    return f"{size_bytes / size:.3g} {unit}"


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
