"""Which idle nodes are validated together: longest unproven first, at least three, within the time."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.plugin_utils.continuous import choose
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.node_results import (
    Fault,
    NodeResult,
    RunResult,
)

GOOD = NodeResult(is_tested=True, is_good=True)
NODES = ["n1", "n2", "n3", "n4", "n5", "n6"]


def failed(*partners, own=True, outcome="fail"):
    fault = Fault("rdma_bandwidth", "rail1", outcome, "rail_slow", own, partners)
    return NodeResult(is_tested=True, is_good=False, faults=(fault,))


def run(day, **nodes):
    return RunResult(f"202611{day:02d}T000000Z-0000", day * 86400.0, True, "s", True, nodes)


def test_longest_unproven_first():
    runs = [run(20, n1=GOOD), run(10, n1=GOOD, n2=GOOD), run(5, n3=GOOD)]
    # n4 was never proven; of the others the oldest proof is n3's.
    assert choose.order(["n1", "n2", "n3", "n4"], runs) == ["n4", "n3", "n2", "n1"]


def test_a_node_that_failed_by_itself_comes_before_all():
    runs = [run(20, n1=GOOD, n2=failed("n1")), run(10, n2=GOOD)]
    assert choose.order(["n1", "n2", "n3"], runs) == ["n2", "n3", "n1"]
    # What is not its own fault, or unmeasured, is no hurry.
    for result in (failed("n1", own=False), failed("n1", outcome="unmeasured")):
        assert choose.order(["n1", "n2", "n3"], [run(20, n1=GOOD, n2=result)])[-1] == "n1"


def test_a_failure_that_a_later_run_cleared_is_no_failure_any_more():
    runs = [run(20, n2=GOOD), run(10, n2=failed("n1"))]
    assert choose.order(["n1", "n2"], runs) == ["n1", "n2"]


def test_as_many_as_fit_and_never_fewer_than_three():
    for most, wanted in ((6, NODES), (4, NODES[:4]), (3, NODES[:3]), (2, [])):
        assert choose.group(NODES, {}, lambda nodes, most=most: len(nodes) <= most) == wanted
    assert choose.group(NODES[:2], {}, lambda _nodes: True) == []
    assert choose.group(NODES[:2], {}, lambda _nodes: True, least=2) == ["n1", "n2"]


def test_a_failed_node_gets_partners_that_it_has_not_failed_with():
    met = {"n1": {"n2", "n3"}}
    assert choose.group(NODES, met, lambda nodes: len(nodes) <= 3) == ["n1", "n4", "n5"]
    # Where there is one other, it is taken.
    assert choose.group(NODES[:4], met, lambda nodes: len(nodes) <= 3) == ["n1", "n4", "n2"]


def test_partners_of_a_nodes_own_failures():
    found = run(20, n1=failed("n2", "n3"), n2=failed("n3", own=False))
    assert choose.failed_with("n1", found) == {"n2", "n3"}
    assert choose.failed_with("n2", found) == choose.failed_with("n9", found) == set()
