"""One simulated run from schedule to suspects. Isolation gets the measured numbers and the schedule."""

from __future__ import annotations

from dataclasses import dataclass

from ansible_collections.railyard.fabric.plugins.module_utils.schedule import rounds
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import confirm, cost, pattern
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution import matrix, slow_components

from railyard.simulate.cluster import Cluster
from railyard.simulate.draw import Cables

#: So often what is doubtful is measured again.
_FURTHER_ORDERS = 4


@dataclass(frozen=True)
class Outcome:
    """What a simulated run found, and what it would have taken.

    Attributes:
        tests: planned tests, each of one rail in one direction, those of confirming rounds too.
        rounds: rounds of all orders; `confirming` of them were for what was doubtful.
        modelled_s: what they would take, as `railyard plan` calculates.
        findings: the slow components.
        met: the places of the pairs that met, the lesser first.
    """

    tests: int
    rounds: int
    confirming: int
    modelled_s: float
    findings: slow_components.Findings
    met: frozenset[tuple[int, int]]


def run(cluster: Cluster, cables: Cables) -> Outcome:
    """Measure, isolate, and measure again what is doubtful, until nothing is or it does not help."""
    order = cluster.order
    wiring = matrix.read_wiring(order)
    tests = cables.measure(order)
    turns = len(pattern.rounds_of(order))
    modelled_s, confirming = cost.estimate_order(order).duration_s, 0
    findings = slow_components.find_components(tests, wiring)
    for _ in range(_FURTHER_ORDERS):
        further = confirm.confirm(order, findings.doubtful, findings.suspects)
        if not further.rounds:
            break
        second = confirm.second_order(order, further)
        tests = matrix.join_tests([tests, cables.measure(second)])
        findings = slow_components.find_components(tests, wiring)
        confirming += len(further.rounds)
        modelled_s += cost.estimate_order(second).duration_s
    place = {name: number for number, name in enumerate(cluster.nodes)}
    met = frozenset((place[one.node], place[one.peer]) for one in rounds.meetings(order))
    return Outcome(len(tests.gbps), turns + confirming, confirming, modelled_s, findings, met)
