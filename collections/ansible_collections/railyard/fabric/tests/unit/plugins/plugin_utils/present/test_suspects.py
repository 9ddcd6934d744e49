# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where failures concentrate on one node's rail, it is shown apart from the nodes that merely met it."""

from __future__ import annotations

from itertools import permutations

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import summary, suspects


def shown(nodes: str, bad: dict[tuple[str, str], str], alone: dict[str, str] | None = None) -> dict[str, str]:
    """Return node -> how its rail is shown: all tests are recorded, but for those of `bad` and `alone`."""
    fields = {"rail": "rail0", "direction": "uni"}
    verdicts = [
        {**fields, "check": "ping_rtt", "node": a, "peer": b, "outcome": bad.get((a, b), "recorded")}
        for a, b in permutations(nodes, 2)
    ]
    verdicts += [
        {**fields, "check": "mtu", "node": node, "peer": None, "outcome": (alone or {}).get(node, "pass")}
        for node in nodes
    ]
    plan = {"nodes": {node: {"rails": [{"name": "rail0"}]} for node in nodes}}
    rails = summary._rails(plan, verdicts, suspects.find(verdicts))
    return {one["node"]: one["shown"] + ("!" if one["suspect"] else "") for one in rails}


def outcomes(node: str, others: str, outcome: str, ways: str = "both") -> dict[tuple[str, str], str]:
    sends = {(node, other): outcome for other in others}
    receives = {(other, node): outcome for other in others}
    return {"both": {**sends, **receives}, "sends": sends, "receives": receives}[ways]


@pytest.mark.parametrize(
    ("nodes", "bad", "alone", "expected"),
    [
        ("abcd", outcomes("b", "acd", "fail"), {}, "met_suspect fail! met_suspect met_suspect"),
        ("abcd", outcomes("b", "acd", "fail", "receives"), {}, "met_suspect fail! met_suspect met_suspect"),
        ("abc", outcomes("a", "bc", "unmeasured", "sends"), {}, "unmeasured! met_suspect met_suspect"),
        # Two suspects spoil each other's tests; each is bad by itself.
        ("abcd", {**outcomes("a", "bcd", "fail"), **outcomes("b", "acd", "fail")}, {},
         "fail! fail! met_suspect met_suspect"),
        # What a node shows by itself is its own, whomever it met.
        ("abcd", outcomes("b", "acd", "fail"), {"c": "fail"}, "met_suspect fail! fail met_suspect"),
        # One test names two nodes, and neither can be identified; nor can any where nothing is good.
        ("abc", {("a", "b"): "fail"}, {}, "fail fail pass"),
        ("ab", outcomes("a", "b", "fail"), {}, "fail fail"),
        ("abc", dict.fromkeys(permutations("abc", 2), "fail"), {}, "fail fail fail"),
        ("abc", {}, {}, "pass pass pass"),
    ],
)  # fmt: skip
def test_a_suspect_is_apart_from_who_met_it(nodes, bad, alone, expected):
    assert list(shown(nodes, bad, alone).values()) == expected.split()
