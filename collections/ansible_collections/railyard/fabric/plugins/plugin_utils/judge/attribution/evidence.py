# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Find evidence for the cause of slow tests in the run's facts, counters and local checks. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine
from ansible_collections.railyard.fabric.plugins.module_utils.rules import rdma
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.facts import BoundFacts
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS, FAIL, PASS
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_number
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome import causes
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

#: Failures that only report a bad result.
SLOW = ("below_floor", "too_slow", "stands_apart")
#: Message of a node whose peer did not respond at all; a peer without a runner refuses the connection.
_SILENCE = re.compile(r"was not met at .*(?:timed out|No route to host)")
_BEST_GOVERNOR = "performance"
#: Facts that may differ between nodes, how they are read from a rail's end, and the command that shows them.
_RAIL_FACTS: tuple[tuple[str, Callable[[Bound], object], str], ...] = (
    ("PCIe lanes", lambda end: _read_mapping(end.netdev, "pci_link").get("width"), "lspci -vv -s PCI"),
    ("PCIe GT/s", lambda end: _read_mapping(end.netdev, "pci_link").get("speed_gts"), "lspci -vv -s PCI"),
    ("link Mbit/s", lambda end: (end.netdev or {}).get("speed_mbps"), "ethtool NETDEV"),
    ("RDMA MTU", lambda end: (end.hca or {}).get("active_mtu_bytes"), "ibv_devinfo -d DEVICE"),
    ("GID", lambda end: getattr(rdma.choice(end), "type", None), "ibv_devinfo -v -d DEVICE"),
    ("the card's NUMA node", lambda end: _read_text(end.netdev, "numa_node"), "lspci -vv -s PCI"),
)


def _read_text(device: Row | None, key: str) -> str | None:
    """Return a number as text, so that none is better than another."""
    value = (device or {}).get(key)
    return None if value is None else str(value)


def _read_mapping(device: Row | None, key: str) -> Mapping[str, Any]:
    inner = (device or {}).get(key)
    return inner if isinstance(inner, Mapping) else {}


class Evidence:
    """The evidence of a run on its nodes and rails."""

    def __init__(self, asked: Sequence[AskedLine], answers: Sequence[Answer], fleet: BoundFacts) -> None:
        self._fleet = fleet
        self._causes: dict[tuple[str, str], dict[str, str]] = {}
        #: (node, rail) -> check -> its answer, of local checks.
        self._local: dict[tuple[str, str], dict[str, Answer]] = {}
        for line, answer in zip(asked, answers, strict=True):
            if CHECKS[str(line["check"])].local and line["rail"] is not None:
                place = str(line["node"]), str(line["rail"])
                self._local.setdefault(place, {})[str(line["check"])] = answer

    def find_leaf(self, node: str, rail: str) -> str | None:
        """Return the planned leaf switch of a node's rail."""
        end = self._fleet.bound.get(node, {}).get(rail)
        leaf = None if end is None else end.rail.get("leaf")
        return None if leaf is None else str(leaf)

    def build_cause(self, kind: str, detail: str, nodes: Sequence[str], rail: str) -> dict[str, str]:
        """Return a slow test's cause, with the evidence on the nodes that it names."""
        if (kind, detail) not in self._causes:
            likely = next(self._list_evidence(kind, nodes, rail), None)
            self._causes[kind, detail] = causes.explain(kind, detail, None, likely, self._known(nodes, rail))
        return self._causes[kind, detail]

    def add_evidence(self, cause: dict[str, str], nodes: tuple[str, str], rail: str) -> dict[str, str]:
        """Return a cause with the evidence on both ends in its next step."""
        kind = str(cause["cause_class"])
        both = sorted(nodes)
        explained = self.build_cause(kind, f"{' '.join(both)} {rail}", both, rail)
        return {**cause, "next": explained["next"]}

    def explain(self, line: AskedLine, answer: Answer) -> None:
        """Add evidence from other checks to a test without a peer, or with too large packets."""
        rail, kind = str(line["rail"]), answer.cause.get("cause_class")
        both = [str(line["node"]), str(line["peer"])]
        wanted = {"rendezvous_timeout": "reply_path", "path_mtu_small": "mtu"}.get(str(kind))
        answered = [self._local.get((node, rail), {}).get(str(wanted)) for node in both]
        if not all(one is not None and one.outcome == PASS for one in answered):
            return
        if wanted == "mtu":
            likely = f"a switch port between {' and '.join(both)}: both have the planned MTU"
            command = causes.CAUSES["path_mtu_small"].command
        elif not _SILENCE.search(answer.cause["cause"]):
            return
        else:
            likely = f"a firewall that drops TCP on {' or '.join(both)}: pings pass on this rail"
            command = "nft list ruleset"
        # The row's fix names the ports that must be open.
        fix = None if answer.cause["next"].startswith("Likely ") else answer.cause["next"]
        explained = causes.explain(str(kind), "", fix, (likely, command), self._known(both[:1], rail))
        answer.cause = {**answer.cause, "next": explained["next"]}

    def _list_evidence(self, kind: str, nodes: Sequence[str], rail: str) -> Iterator[tuple[str, str]]:
        """Yield the evidence for a cause, and the command that shows it, the most reliable first."""
        rails = {one for node, one in self._local if node in nodes} if kind == "node_slow" else {rail}
        places = [(node, one) for node in nodes for one in sorted(rails) if (node, one) in self._local]
        for node, one in places:
            for check, answer in self._local[node, one].items():
                cause = causes.CAUSES.get(str(answer.cause.get("cause_class")))
                # A fault of one node does not slow down the complete rail.
                if answer.outcome == FAIL and cause is not None and kind not in ("switch_slow", "leaf_slow"):
                    found = f"the {CHECKS[check].title} check of {node} {one}: {cause.sentence}"
                    yield found, cause.command
        if kind in ("node_slow", *SLOW):
            yield from self._differs(nodes, self._fleet.governors, "CPU governor", "cpupower frequency-info")
            yield from self._differs(nodes, self._fleet.iperf3, "iperf3", "iperf3 --version")
        for node, one in places:
            errors = self._local[node, one].get("link_errors", Answer()).observed
            paused = next((name for name in errors if "pause" in name), None)
            if paused is not None:
                yield f"pauses: {paused} of {node} {one} grew by {errors[paused]}", "ethtool -S NETDEV"
        if kind in ("rail_slow", "node_slow", *SLOW):
            for what, read, command in _RAIL_FACTS:
                ends = {node: mine[rail] for node, mine in self._fleet.bound.items() if rail in mine}
                yield from self._differs(
                    nodes, {node: read(end) for node, end in ends.items()}, what, command
                )

    def _differs(
        self, nodes: Sequence[str], values: Mapping[str, object], what: str, command: str
    ) -> Iterator[tuple[str, str]]:
        """Yield a value of one of the nodes that differs from the others', and is not better."""
        for node in nodes:
            mine = values.get(node)
            others = [value for other, value in values.items() if other != node and value is not None]
            if mine is None or not others:
                continue
            by_text = {repr(value): value for value in others}
            usual = by_text[max(by_text, key=list(map(repr, others)).count)]
            better = mine > usual if is_number(mine) and is_number(usual) else mine == _BEST_GOVERNOR
            if mine != usual and not better:
                yield f"{what} {mine} on {node}, {usual} on the others", command

    def _known(self, nodes: Sequence[str], rail: str) -> dict[str, str]:
        """Return the values of placeholders in commands that are the same on all these nodes."""
        each = []
        for node in nodes:
            end = self._fleet.bound.get(node, {}).get(rail)
            device, port = (end.netdev or {}, end.hca or {}) if end else ({}, {})
            hca = str(port.get("hca") or "").split(":", maxsplit=1)[0]
            each.append({"NETDEV": device.get("netdev"), "PCI": device.get("pci"), "DEVICE": hca})
        return {
            word: str(value)
            for word, value in each[0].items()
            if value and all(one[word] == value for one in each)
        }
