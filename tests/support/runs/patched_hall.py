# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A hall of nodes whose ports are patched into switches, rightly or wrongly, and what each port hears."""

from __future__ import annotations

from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.rails import bind
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds import facts
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence.clock import Clock
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.rules import cabling

from support.runs.fake_run import RUN

EPOCH = "1970-01-01T00:00:00.000Z"
RAILS = {"rail0": ("ens6", "10.0.1"), "rail1": ("ens6d1", "10.0.0")}
Place = tuple[str, str]


class Hall:
    """Nodes with two rails each, and a patch panel: which switch each port is patched into."""

    def __init__(self, nodes: int, units: int = 1) -> None:
        self.nodes = [f"gpu{number}" for number in range(1, nodes + 1)]
        self.unit = {node: index % units for index, node in enumerate(self.nodes)}
        self.patched: dict[Place, str] = {
            (node, rail): f"{rail}/{self.unit[node]}" for node in self.nodes for rail in RAILS
        }
        self.deaf: set[tuple[Place, Place]] = set()
        self.listened: dict[Place, list[float]] = {}
        self.silent: dict[Place, dict[str, Any] | None] = {}

    def rail(self, node: str, rail: str) -> dict[str, Any]:
        netdev, prefix = RAILS[rail]
        number = self.nodes.index(node) // (max(self.unit.values()) + 1) + 1
        address = f"{prefix}.{self.unit[node] * 64 + number}/26"
        return {"name": rail, "netdev": netdev, "address": address, "address6": None, "leaf": None}

    def segment(self, place: Place) -> str:
        address = self.rail(*place)["address"]
        host = int(address.split("/", maxsplit=1)[0].rsplit(".", 1)[1])
        return f"{address.rsplit('.', 1)[0]}.{host // 64 * 64}/26"

    def heard(self, place: Place) -> list[Place]:
        return [
            other
            for other, switch in self.patched.items()
            if other != place and switch == self.patched[place] and (place, other) not in self.deaf
            and other not in self.silent
        ]  # fmt: skip

    def report(self, place: Place) -> dict[str, Any]:
        expected = [
            node
            for node in self.nodes
            if node != place[0] and self.segment((node, place[1])) == self.segment(place)
        ]
        heard = self.heard(place)
        missing = [node for node in expected if (node, place[1]) not in heard]
        foreign: dict[tuple[str, str], list[str]] = {}
        for node, rail in heard:
            if rail != place[1] or node not in expected:
                foreign.setdefault((rail, self.segment((node, rail))), []).append(node)
        return {
            "expected": len(expected),
            "heard": len(expected) - len(missing),
            "missing": missing[:16],
            "foreign": [
                {"rail": rail, "network": network, "count": len(nodes), "nodes": nodes[:16]}
                for (rail, network), nodes in foreign.items()
            ],
            "strangers": 0,
            "listened": self.listened.get(place, [1000.0, 1012.0]),
        }

    def chart(self) -> tuple[cabling.CablingMap, list[dict[str, Any]]]:
        plan = {"nodes": {node: {"rails": [self.rail(node, rail) for rail in RAILS]} for node in self.nodes}}
        fleet = facts.BoundFacts()
        for node in self.nodes:
            fleet.bound[node] = {
                rail: bind.Bound(self.rail(node, rail), {"netdev": RAILS[rail][0]}) for rail in RAILS
            }
        lines, rows = [], {}
        for number, place in enumerate(self.patched):
            line = {"id": f"c{number:05d}", "check": "cabling", "tool": "beacon", "node": place[0],
                    "rail": place[1], "peer": None, "direction": "local"}  # fmt: skip
            lines.append(line)
            row = {**line, "schema": 1, "run": RUN, "host": place[0], "end": "client", "status": "measured",
                   "proof": "proven", "error": None, "netdev": RAILS[place[1]][0], "started": EPOCH,
                   "address": self.rail(*place)["address"].split("/", maxsplit=1)[0]}  # fmt: skip
            if place not in self.silent:
                rows[str(line["id"])] = [{**row, "cabling": self.report(place)}]
            elif self.silent[place] is not None:
                rows[str(line["id"])] = [
                    {**row, "status": "unmeasured", "proof": None, "error": self.silent[place]}
                ]
        chart = cabling.CablingMap(RUN, plan, fleet, Clock({"start": {"at": EPOCH}}, {}))
        chart.read(lines, rows)
        return chart, lines

    def verdicts(self) -> dict[Place, tuple[str, str | None, str]]:
        chart, lines = self.chart()
        found = {}
        for line in lines:
            one = chart.judge(line, {})
            cause = one.cause.get("cause_class")
            found[line["node"], line["rail"]] = (one.outcome, cause, str(one.cause.get("cause")))
        return found
