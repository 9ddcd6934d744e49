from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask.suspects import (
    LEAF,
    NODE_RAIL,
    PAIR,
    Suspect,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import headline, suspects

PLAN: Any = {
    "transport": "tcp",
    "nodes": {name: {"rails": [{"name": "rail0"}, {"name": "rail1"}]} for name in ("a", "b", "c")},
}
PAIRS = {"pairs": 3, "of_pairs": 3}


def verdict(node: str, peer: str | None, check: str, outcome: str, rail: str = "rail0") -> Any:
    return {"node": node, "peer": peer, "rail": rail, "check": check, "outcome": outcome, "proof": "proven",
            "cause_class": None}  # fmt: skip


def write(verdicts: list[Any], found: tuple[Suspect, ...] = ()) -> str:
    counts = dict.fromkeys(("pass", "fail", "unmeasured", "recorded", "not_applicable"), 0)
    for one in verdicts:
        counts[one["outcome"]] += 1
    judged: Any = SimpleNamespace(torn=(), incomplete=None, findings=SimpleNamespace(suspects=found))
    return headline.write(PLAN, verdicts, counts, judged, PAIRS, suspects.find(verdicts))


@pytest.mark.parametrize(
    ("found", "expected"),
    [
        ((Suspect(NODE_RAIL, "a", "rail0", share=0.5),), "1 slow rail: a rail0. "),
        ((Suspect(NODE_RAIL, "a", "rail0"),), "1 silent rail: a rail0. "),
        (
            (Suspect(NODE_RAIL, "a", share=0.5), Suspect(NODE_RAIL, "b", share=0.5)),
            "2 slow nodes: a, all of its rails, b,",
        ),
        ((Suspect(LEAF, rail="rail0", leaf="leaf1", share=0.5),), "1 slow leaf: leaf leaf1 (rail0). "),
        ((Suspect(PAIR, "a", "rail0", "b", share=0.5),), "1 slow path: the path between a and b on rail0. "),
    ],
)
def test_what_is_slow_comes_first(found: tuple[Suspect, ...], expected: str) -> None:
    assert write([verdict("a", "b", "tcp_bandwidth", "fail")], found).startswith(expected)


def test_a_slow_part_hides_no_failure_that_a_node_shows_by_itself() -> None:
    bad = [verdict("a", "b", "tcp_bandwidth", "fail"), verdict("c", None, "mtu", "fail", "rail1")]
    text = write(bad, (Suspect(NODE_RAIL, "a", "rail0", share=0.5),))
    assert "2 of 2 checks failed (c rail1: MTU). " in text
    assert "a -> b" not in text


def test_a_node_that_only_met_a_slow_one_is_good() -> None:
    tests = [
        verdict(node, peer, "tcp_bandwidth", "fail" if "a" in (node, peer) else "pass")
        for node in "abc" for peer in "abc" if node != peer
    ]  # fmt: skip
    assert "2 of 3 nodes good. " in write(tests, (Suspect(NODE_RAIL, "a", "rail0", share=0.5),))
