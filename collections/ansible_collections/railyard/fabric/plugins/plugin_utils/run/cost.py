# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a measurement will take, told before it begins: rounds, minutes, bytes on the rails. Pure.

One pair of each two kinds of node stands for all of its like, so the work does not grow with the nodes.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.documents import AskedLine
from ansible_collections.railyard.fabric.plugins.module_utils.measure import registry
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import rounds as schedule
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Inventory
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.plan import build_plan
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import requests

#: Above this a measurement wants the user's word, `railyard_allow_long`.
LONG_S = 1800.0
CONSENT = "railyard_allow_long"
#: Staging, the phase of cables, the first meeting, collecting: seen on real runs beside the tests themselves.
_AROUND_S = 30.0
FIX = (
    f"-e {CONSENT}=true, or measure fewer nodes at a time (--limit), or for a shorter time "
    "(iperf3_duration_s, rdma_duration_s and others of fabric_policy)"
)
_UNITS = ((1e18, "EB"), (1e15, "PB"), (1e12, "TB"), (1e9, "GB"), (1e6, "MB"))


@dataclass(frozen=True)
class Cost:
    """What a run is expected to take.

    Attributes:
        nodes, pairs, rounds: how many there are; the pairs of a round are measured at the same time.
        duration_s: of the whole measurement, when nothing goes wrong.
        data_bytes: sent over all rails together at their declared rates; None where a rail declares none.
    """

    nodes: int
    pairs: int
    rounds: int
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
        return (
            f"Measuring takes about {time}: {_count(self.pairs, 'pair')} in "
            f"{_count(self.rounds, 'round')}, {data}."
        )

    def refusal(self) -> str | None:
        """Return why this is not begun without the user's word, or None."""
        if self.duration_s <= LONG_S:
            return None
        return f"{self.text()} That is above {LONG_S / 60:.0f} min, and nobody has said that it may"


def of(inventory: Inventory) -> Cost:
    """Return what measuring the selected nodes of a sound inventory will take."""
    nodes = inventory.selected_nodes()
    plan = build_plan(inventory)
    plan["nodes"] = {node.name: plan["nodes"][node.name] for node in nodes}
    rules = policy.merge(inventory.policy)
    names = [node.name for node in nodes]
    order = requests.work_order("", plan, {node.name: node.fabric for node in nodes}, rules, names)
    return of_order(order)


def of_order(order: Mapping[str, Any]) -> Cost:
    """Return what a work order (its common part) will take."""
    share = schedule.Share(order)
    kinds: dict[int, list[Mapping[str, Any]]] = {}
    for entry in order["roster"]:
        kinds.setdefault(int(entry["fabric"]), []).append(entry)
    longest_s, data_bytes = 0.0, 0.0
    known = True
    for first, second in itertools.combinations_with_replacement(kinds.values(), 2):
        alike = first is second
        count = len(first) * (len(first) - 1) // 2 if alike else len(first) * len(second)
        if not count:
            continue
        ends = (first[0], first[1] if alike else second[0])
        pair = list(share.tests(schedule.Meeting(0, 0, str(ends[0]["name"]), str(ends[1]["name"]))))
        longest_s = max(longest_s, _pair_s(pair, order["policy"]))
        each_bytes = _pair_bytes(pair, order, ends[0])
        known = known and each_bytes is not None
        data_bytes += count * (each_bytes or 0.0)
    nodes = len(order["roster"])
    rounds = nodes - 1 + nodes % 2 if nodes > 1 else 0
    pairs = nodes * (nodes - 1) // 2
    duration_s = _AROUND_S + rounds * longest_s
    return Cost(nodes, pairs, rounds, duration_s, data_bytes if known else None)


def _planned_s(test: Mapping[str, Any], rules: Mapping[str, Any]) -> float:
    return float(registry.TOOL_OF_CHECK[str(test["check"])]().planned_s(rules))


def _pair_s(pair: list[AskedLine], rules: Mapping[str, Any]) -> float:
    """Return the time of one meeting; the tests of a group are one turn."""
    groups: Counter[str] = Counter()
    seconds = 0.0
    for test in pair:
        if test["group"] is not None:
            groups[test["group"]] += 1
            if groups[test["group"]] > 1:
                continue
        seconds += _planned_s(test, rules) + requests.START_S
    return seconds


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
        total += ways * float(rate_gbps) * 1e9 / 8 * _planned_s(test, order["policy"])
    return total


def _count(number: int, what: str) -> str:
    return f"{number} {what}" + ("" if number == 1 else "s")
