"""Four nodes, two rails, real frames, the real judge: each fault of cables, pairs of them, and none.

Only the checks before the tests, so that a case takes seconds; whole runs are benchmarks/faults.
"""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import cable_checks, rounds
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import verdict
from support.nodes.rail_namespaces import MARKS, NETDEVS, RUN, Rails, entries, ip, listen, order, two_nodes
from support.runs.fake_run import FakeRun

pytestmark = MARKS
NODES = tuple(f"gpuserver{number}" for number in range(1, 5))
Verdict = dict[str, Any]


def make(rails: Rails, fault: str) -> None:
    """Make a fault as `railyard lab fault` makes it."""
    kind, *words = fault.split()
    switch, node = rails.namespace("switch"), words[0] if words else ""
    place = int(words[1][-1]) if len(words) > 1 else 0
    if kind == "swap":
        rails.move(node, 0, "rail1")
        rails.move(node, 1, "rail0")
    elif kind == "crossed":
        rails.move(node, place, f"rail{1 - place}")
    elif kind in ("direct", "elsewhere"):  # a bridge with the other end of the cable, or with none
        ip("-n", switch, "link", "add", kind, "type", "bridge")
        ip("-n", switch, "link", "set", kind, "up")
        for end in (node, *words[2:]):
            rails.move(end, place, kind)
    elif kind == "joined":
        ip("-n", switch, "link", "add", "j0", "type", "veth", "peer", "name", "j1")
        for rail in range(2):
            ip("-n", switch, "link", "set", f"j{rail}", "master", f"rail{rail}", "up")
    elif kind == "flux":
        rails.sysctl(node, f"net.ipv4.conf.{NETDEVS[words[1]]}.arp_ignore=0")
    elif kind == "other_way":
        own, other = NETDEVS[words[1]], NETDEVS[f"rail{1 - place}"]
        shown = json.loads(ip("-n", rails.namespace(node), "-j", "-4", "route", "show", "dev", own))[0]
        ip("-n", rails.namespace(node), "route", "add", shown["dst"], "dev", other, "table", "77")
        ip("-n", rails.namespace(node), "rule", "add", "from", shown["prefsrc"], "lookup", "77", "pref", "50")
    elif kind == "twice":
        rails.make("thief")
        rails.plug("thief", "eth0", place, rails.address(NODES.index(node) + 1, place))


def validate(rails: Rails, folder: Path) -> list[Verdict]:
    """Let all nodes listen at once and judge what they wrote."""
    common = order(policy=policy.merge(None), roster=entries(NODES))
    common["fabrics"][0]["cabling"] = "switched"
    start = {"at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
    rows, _settled_s = listen(rails, folder, common, hear_s=12)
    plan = {
        "schema": 1,
        "nodes": {
            str(entry["name"]): {"transport": "tcp", "rails": rounds.node_rails(common, entry)}
            for entry in common["roster"]
        },
    }
    of_one = FakeRun().facts[0]
    netdevs = [
        {**of_one["netdevs"][0], "netdev": name, "mac": None, "addresses": []} for name in NETDEVS.values()
    ]
    whole = {**of_one, "run": RUN, "netdevs": netdevs, "collected": start["at"].replace("Z", ".000Z")}
    facts = [{**whole, "node": node, "boot_id": f"boot of {node}"} for node in NODES]
    end = {"at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
    manifest = {"schema": 1, "run": RUN, "policy": common["policy"], "start": start, "end": end}
    return verdict.judge(manifest, plan, list(cable_checks.asked_lines(common)), facts, rows)


#: fault -> the cause of a failing verdict, the words in it, and whose verdict it is (None: anybody's)
SAYS: dict[str, tuple[str, tuple[str, ...], str | None]] = {
    "swap gpuserver2": ("rails_swapped", ("rail0 and rail1 of gpuserver2",), "gpuserver2"),
    "swap gpuserver1": ("rails_swapped", ("rail0 and rail1 of gpuserver1",), "gpuserver1"),
    "crossed gpuserver3 rail0": ("rail_crossed", ("gpuserver3 rail0", "rail1"), "gpuserver3"),
    "crossed gpuserver4 rail1": ("rail_crossed", ("gpuserver4 rail1", "rail0"), "gpuserver4"),
    "direct gpuserver1 rail1 gpuserver4": ("wrong_peer", ("gpuserver1 rail1", "gpuserver4"), "gpuserver1"),
    "elsewhere gpuserver2 rail0": ("rail_isolated", ("gpuserver2 rail0",), "gpuserver2"),
    "joined": ("rails_joined", ("gpuserver1 rail0", "rail1"), "gpuserver1"),
    "flux gpuserver4 rail1": ("arp_flux", ("gpuserver4 rail1",), None),
    "flux gpuserver3 rail0": ("arp_flux", ("gpuserver3 rail0",), None),
    "other_way gpuserver3 rail1": ("reply_other_rail", ("gpuserver3 rail1",), "gpuserver3"),
    "twice gpuserver4 rail0": ("address_in_use", ("gpuserver4 rail0",), None),
}
PAIRS = (
    ("swap gpuserver2", "flux gpuserver3 rail0"),
    ("swap gpuserver2", "crossed gpuserver4 rail1"),
    ("swap gpuserver1", "other_way gpuserver3 rail1"),
    ("crossed gpuserver3 rail0", "flux gpuserver4 rail1"),
    ("crossed gpuserver3 rail0", "twice gpuserver4 rail0"),
    ("direct gpuserver1 rail1 gpuserver4", "elsewhere gpuserver2 rail0"),
    ("elsewhere gpuserver2 rail0", "other_way gpuserver3 rail1"),
    ("joined", "other_way gpuserver3 rail1"),
    ("flux gpuserver4 rail1", "twice gpuserver4 rail0"),
    ("flux gpuserver3 rail0", "other_way gpuserver3 rail1"),
)


@pytest.mark.parametrize(
    "faults", [*((fault,) for fault in SAYS), *PAIRS], ids=lambda faults: " + ".join(faults)
)
def test_each_fault_is_found_and_named(tmp_path: Path, faults: tuple[str, ...]) -> None:
    with two_nodes(nodes=NODES, arp_ignore=True) as rails:
        for fault in faults:
            make(rails, fault)
        verdicts = validate(rails, tmp_path)
    bad = [one for one in verdicts if one["outcome"] == "fail"]
    for fault in faults:
        cause, words, whose = SAYS[fault]
        found = [
            one
            for one in bad
            if one["cause_class"] == cause
            and all(word in one["cause"] for word in words)
            and whose in (None, one["node"])
        ]
        assert found, (fault, [(one["check"], one["node"], one["rail"], one["cause"]) for one in bad])
    assert all(one["cause"] and one["next"] for one in verdicts if one["outcome"] in ("fail", "unmeasured"))


@pytest.mark.parametrize("number", range(int(os.environ.get("RAILYARD_HEALTHY_RUNS", "2"))))
def test_a_healthy_hall_has_no_finding(tmp_path: Path, number: int) -> None:
    with two_nodes(nodes=NODES, arp_ignore=True) as rails:
        verdicts = validate(rails, tmp_path)
    assert len(verdicts) == 4 * 2 * 3
    assert {one["outcome"] for one in verdicts} == {"pass"}
