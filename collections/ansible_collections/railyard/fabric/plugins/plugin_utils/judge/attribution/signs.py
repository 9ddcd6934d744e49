# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run knows of its nodes and rails beside the tests between them, as causes of slow ones. Pure."""

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

#: Failures that say no more than that a number is bad.
SLOW = ("below_floor", "too_slow", "stands_apart")
#: What a node that could not meet its peer says where nothing came back: a runner that is not there refuses.
_SILENCE = re.compile(r"was not met at .*(?:timed out|No route to host)")
_BEST_GOVERNOR = "performance"
#: What may differ between nodes, how it is read of a rail's end, and the command that shows it.
_RAIL_FACTS: tuple[tuple[str, Callable[[Bound], object], str], ...] = (
    ("PCIe lanes", lambda end: _inner(end.netdev, "pci_link").get("width"), "lspci -vv -s PCI"),
    ("PCIe GT/s", lambda end: _inner(end.netdev, "pci_link").get("speed_gts"), "lspci -vv -s PCI"),
    ("link Mbit/s", lambda end: (end.netdev or {}).get("speed_mbps"), "ethtool NETDEV"),
    ("RDMA MTU", lambda end: (end.hca or {}).get("active_mtu_bytes"), "ibv_devinfo -d DEVICE"),
    ("GID", lambda end: getattr(rdma.choice(end), "type", None), "ibv_devinfo -v -d DEVICE"),
    ("the card's NUMA node", lambda end: _said(end.netdev, "numa_node"), "lspci -vv -s PCI"),
)


def _said(device: Row | None, key: str) -> str | None:
    """Return a number that is a name: none is better than another."""
    value = (device or {}).get(key)
    return None if value is None else str(value)


def _inner(device: Row | None, key: str) -> Mapping[str, Any]:
    inner = (device or {}).get(key)
    return inner if isinstance(inner, Mapping) else {}


class Signs:
    """What a run knows of its nodes and rails beside the tests between them."""

    def __init__(self, asked: Sequence[AskedLine], answers: Sequence[Answer], fleet: BoundFacts) -> None:
        self._fleet = fleet
        self._causes: dict[tuple[str, str], dict[str, str]] = {}
        #: Node and rail -> check -> its answer, of what is asked of a rail alone.
        self._local: dict[tuple[str, str], dict[str, Answer]] = {}
        for line, answer in zip(asked, answers, strict=True):
            if CHECKS[str(line["check"])].local and line["rail"] is not None:
                place = str(line["node"]), str(line["rail"])
                self._local.setdefault(place, {})[str(line["check"])] = answer

    def leaf_of(self, node: str, rail: str) -> str | None:
        """Return the leaf switch that a rail of a node is planned to end at."""
        end = self._fleet.bound.get(node, {}).get(rail)
        leaf = None if end is None else end.rail.get("leaf")
        return None if leaf is None else str(leaf)

    def cause(self, kind: str, said: str, nodes: Sequence[str], rail: str) -> dict[str, str]:
        """Return a slow test's cause, with what is known of the nodes that it names."""
        if (kind, said) not in self._causes:
            likely = next(self._signs(kind, nodes, rail), None)
            self._causes[kind, said] = causes.explain(kind, said, None, likely, self._known(nodes, rail))
        return self._causes[kind, said]

    def more(self, cause: dict[str, str], nodes: tuple[str, str], rail: str) -> dict[str, str]:
        """Return a cause that no pattern replaced, with what is known of both ends."""
        kind = str(cause["cause_class"])
        both = sorted(nodes)
        said = self.cause(kind, f"{' '.join(both)} {rail}", both, rail)
        return {**cause, "next": said["next"]}

    def explain(self, line: AskedLine, answer: Answer) -> None:
        """Say more of a test that met nobody, or whose packets are too large, where other checks do."""
        rail, kind = str(line["rail"]), answer.cause.get("cause_class")
        both = [str(line["node"]), str(line["peer"])]
        wanted = {"rendezvous_timeout": "reply_path", "path_mtu_small": "mtu"}.get(str(kind))
        answered = [self._local.get((node, rail), {}).get(str(wanted)) for node in both]
        if not all(one is not None and one.outcome == PASS for one in answered):
            return
        if wanted == "mtu":
            likely = f"what lies between {' and '.join(both)}: both have the planned MTU"
            command = causes.CAUSES["path_mtu_small"].command
        elif not _SILENCE.search(answer.cause["cause"]):
            return
        else:
            likely = f"a firewall that drops TCP on {' or '.join(both)}: pings pass on this rail"
            command = "nft list ruleset"
        # A row's own fix knows the ports that have to be open.
        fix = None if answer.cause["next"].startswith("Likely ") else answer.cause["next"]
        said = causes.explain(str(kind), "", fix, (likely, command), self._known(both[:1], rail))
        answer.cause = {**answer.cause, "next": said["next"]}

    def _signs(self, kind: str, nodes: Sequence[str], rail: str) -> Iterator[tuple[str, str]]:
        """Yield what speaks for a cause, and the command that shows it, the surest first."""
        rails = {one for node, one in self._local if node in nodes} if kind == "node_slow" else {rail}
        places = [(node, one) for node in nodes for one in sorted(rails) if (node, one) in self._local]
        for node, one in places:
            for check, answer in self._local[node, one].items():
                cause = causes.CAUSES.get(str(answer.cause.get("cause_class")))
                # What one node has does not slow the whole rail.
                if answer.outcome == FAIL and cause is not None and kind not in ("switch_slow", "leaf_slow"):
                    found = f"what the {CHECKS[check].title} check of {node} {one} says: {cause.sentence}"
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
        """Yield what one of the nodes has otherwise than the others of the fleet, and not better."""
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
        """Return what the placeholders of commands stand for, where that is the same on all these nodes."""
        told = []
        for node in nodes:
            end = self._fleet.bound.get(node, {}).get(rail)
            device, port = (end.netdev or {}, end.hca or {}) if end else ({}, {})
            hca = str(port.get("hca") or "").split(":", maxsplit=1)[0]
            told.append({"NETDEV": device.get("netdev"), "PCI": device.get("pci"), "DEVICE": hca})
        return {
            word: str(value)
            for word, value in told[0].items()
            if value and all(one[word] == value for one in told)
        }
