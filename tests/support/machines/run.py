# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run between two nodes of a machine: facts and proof by the real code, numbers from the machine's figures.

What a tool would print is made up at the published figure; what the counters show of it is moved in the
node's tree as its driver counts, and read and proven by the runner's own code.
"""

from __future__ import annotations

import contextlib
import copy
import types
from collections.abc import Mapping
from typing import Any
from unittest import mock

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import class_of
from ansible_collections.railyard.fabric.plugins.module_utils.facts import link_errors
from ansible_collections.railyard.fabric.plugins.module_utils.rules import rdma
from ansible_collections.railyard.fabric.plugins.module_utils.runner import counters as runner_counters
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import requests
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import qos_notes
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import run_status, verdict
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import management
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import provenance

from support.machines.fields import DataError
from support.machines.machine import Change
from support.machines.pair import NodeOn, Pair
from support.machines.slots import narrowest_gbps
from support.machines.traffic import Moved, move
from support.runs import fake_rdma, fake_tcp
from support.runs.fake_run import RUN, exchanged, in_sequence, manifest_of, measured_row
from support.runs.run_builder import FAKE_GBPS, LATENCIES, scale

Row = dict[str, Any]
_READ_ERRORS = link_errors.read
#: Transport -> the GID index that perftest is given; InfiniBand has none, RoCE that of the address.
_ONLY_GID = {"efa": 0}
#: What a healthy machine reaches where nothing is published: this share of the narrower of port and slot.
ASSUMED_SHARE = 0.9


class GalleryRun:
    """All that the judge reads of a run between two nodes."""

    def __init__(self, pair: Pair) -> None:
        self.pair, self.plan = pair, pair.plan
        merged = policy.merge({"beacon": False, **(pair.inventory.policy or {})})
        self.policy = qos_notes.with_traffic_class(merged, pair.inventory)
        fabrics = {node.name: node.fabric for node in pair.inventory.nodes}
        self.facts = [node.facts() for node in pair.nodes.values()]
        entries = management.entries(pair.inventory.nodes, self.plan, self.facts, lambda name: [name])
        self.order = requests.work_order(
            RUN, self.plan, fabrics, self.policy, reached=self.plan["nodes"], management=entries
        )
        self.asked = requests.asked_lines(self.plan, self.order)
        self.bound = {name: node.bound() for name, node in pair.nodes.items()}
        self.manifest: Row = manifest_of(self.policy, self.asked, self.plan["cluster"])
        self._errors: dict[tuple[str, str], dict[str, int]] = {}
        self._counted: set[tuple[str, str, str]] = set()
        self._idle: dict[str, Row] = {name: {} for name in pair.nodes}
        self.results = self._lent() or [
            self._row(line, end)
            for line in self.asked
            if line["peer"] and not line.get("parts") and self._has_row(line)
            for end in ("client", "server")
        ]
        if pair.variant is None:
            pair.results = self.results
        in_sequence(self.results)
        changes = pair.variant.results if pair.variant else []
        for change in changes:
            self._change(change)
        # More traffic than the healthy machine's, and the next test's counters begin later.
        if any(change.gbps is not None for change in changes):
            in_sequence(self.results)

    def judge(self) -> list[Row]:
        """Return the verdicts."""
        results = exchanged(self.results)
        return verdict.judge(self.manifest, self.plan, self.asked, self.facts, results)

    def status(self, verdicts: list[Row]) -> int:
        """Return the exit status that `railyard judge` has."""
        sealed = {**self.plan, provenance.FINGERPRINT: provenance.fingerprint(self.plan, self.policy)}
        incomplete = run_status.explain_incomplete(self.manifest, self.asked, sealed, self.order)
        return run_status.find_exit_status({one["outcome"] for one in verdicts}, incomplete is None)

    def gbps(self, check: str, rail: str) -> float:
        """Return what one direction carries: published, or assumed of the narrower of port and slot."""
        for name in (check, check.removesuffix("_concurrent").removesuffix("_unpinned").removesuffix("_bi")):
            figure = self.pair.machine.figures.get(name)
            if figure is not None and (name == check or not check.endswith("_concurrent")):
                return figure.value
        together = check.endswith("_concurrent")
        slots = [
            narrowest_gbps(node.tree.node, self._pcis(node), rail if not together else None)
            for node in self.pair.nodes.values()
        ]
        rates = [
            one["rate_gbps"]
            for node in self.plan["nodes"].values()
            for one in node["rails"]
            if one["name"] == rail
        ]
        return ASSUMED_SHARE * min(
            [one[rail] for one in slots if rail in one] + [rate for rate in rates if rate]
        )

    def _pcis(self, node: NodeOn) -> dict[str, str]:
        found = {}
        for name, one in self.bound[node.name].items():
            pci = (one.hca or one.netdev or {}).get("pci")
            if pci:
                found[name] = pci
        return found

    def _lent(self) -> list[Row]:
        """Return the rows of the healthy pair where nothing of the variant's nodes is another."""
        lender, variant = self.pair.healthy, self.pair.variant
        if lender is None or variant is None or variant.over or variant.counters or variant.inventory:
            return []
        return copy.deepcopy(lender.results)

    def _has_row(self, line: Row) -> bool:
        """Tell whether a test is measured: without IP only RDMA's are."""
        rail = next(one for one in self.plan["nodes"][line["node"]]["rails"] if one["name"] == line["rail"])
        return bool(rail["address"] or rail["address6"]) or str(line["check"]).startswith("rdma")

    def _row(self, line: Row, end: str) -> Row:
        host, other = (line["node"], line["peer"]) if end == "client" else (line["peer"], line["node"])
        check, rail = str(line["check"]), str(line["rail"])
        bound = self.bound[host].get(rail)
        hca = (bound.hca if bound else None) or {}
        of_rdma = check.startswith("rdma")
        metrics, moved, window = (
            fake_rdma.measured(check, end, "hardware") if of_rdma else fake_tcp.measured(check, end)
        )
        plan_rail = next(one for one in self.plan["nodes"][host]["rails"] if one["name"] == rail)
        address = str(plan_rail["address"] or plan_rail["address6"] or "").partition("/")[0] or None
        if check in ("path_mtu", "path_mtu_one_way") and metrics:
            metrics["path_mtu_bytes"] = plan_rail["mtu"]
        row: Row = measured_row(
            line, end, host, self.policy,
            tool_version="3.16",
            netdev=((bound.netdev if bound else None) or {}).get("netdev"),
            address=address,
            window_s=window,
            mtu_bytes=plan_rail["mtu"],
            metrics=metrics,
            counters=moved,
            other_rails={},
            other_end={"boot_id": self.pair.nodes[other].facts()["boot_id"]},
        )  # fmt: skip
        if of_rdma:
            row |= fake_rdma.fields(check, str(hca.get("hca") or ":"), end, "hardware")
            chosen = rdma.choice(bound) if bound and self.plan["nodes"][host]["transport"] == "roce" else None
            row |= {
                "tool_version": "6.20",
                **class_of(check, self.policy)._asdict(),
                "hca": hca.get("hca"),
                "gid_index": chosen.index if chosen else _ONLY_GID.get(self.plan["nodes"][host]["transport"]),
                "gid_type": chosen.type if chosen else None,
                "active_mtu_bytes": hca.get("active_mtu_bytes"),
                "numa_node": hca.get("numa_node"),
            }
            if address is None:
                peer = self.bound[other].get(rail)
                row["exchange"] = {
                    "over": "management",
                    "port_guid": hca.get("port_guid"),
                    "peer_port_guid": ((peer.hca if peer else None) or {}).get("port_guid"),
                }
        self._at_figures(row)
        if of_rdma or rail == self.plan["nodes"][host]["rails"][0]["name"]:
            self._count(row)
        else:
            # As the first rail's, which was counted by the runner's code.
            others = [name for name in self.bound[host] if name != rail]
            spans = {key: [7, 7] for key in ("tx_bytes", "rx_bytes")}
            row["link_errors"] = self._still(host, rail)
            row["other_rails"] = {} if row["group"] else dict.fromkeys(others, spans)
        return row

    def _still(self, host: str, rail: str) -> Row:
        """Return a rail's error counters, none of which grew."""
        seen = self._seen(host, rail)
        return link_errors.spans(seen, seen)

    def _seen(self, host: str, rail: str) -> dict[str, int]:
        """Return a rail's error counters, read once: they are the same before and after each test."""
        if (host, rail) not in self._errors:
            node, bound = self.pair.nodes[host], self.bound[host][rail]
            names = str((bound.netdev or {}).get("netdev") or ""), (bound.hca or {}).get("hca")
            with node.kernel.running():
                self._errors[host, rail] = _READ_ERRORS(*names, str(node.tree.root / "sys"))
        return self._errors[host, rail]

    def _at_figures(self, row: Row) -> None:
        check, rail = str(row["check"]), str(row["rail"])
        if "bandwidth" in check:
            scale(row, self.gbps(check, rail))
        elif figure := self.pair.machine.figures.get(check):
            base = LATENCIES.get(check, {})
            times = figure.value / float(base.get("latency_p50_us", 1.0))
            told = {name: one * times if name.endswith("_us") else one for name, one in base.items()}
            scale(row, None, told)

    def _count(self, row: Row) -> None:
        """Move the counters of the rail in its node's tree, and read and prove them as the runner does."""
        node = self.pair.nodes[row["host"]]
        rdma_test = str(row["check"]).startswith("rdma")
        moved = Moved.from_row(row)
        variant = self.pair.variant
        sick = variant is not None and node.tree.number in variant.on_nodes
        # All rails that are idle meanwhile are read once for each check and end: they stay as they are.
        rails, idle = self.bound[row["host"]], self._idle[row["host"]]
        test_of = row["host"], row["check"], row["end"]
        if not row["group"] and test_of in self._counted and rails.keys() - idle.keys() <= {row["rail"]}:
            rails = {row["rail"]: rails[row["rail"]]}
        self._counted.add(test_of)
        context = types.SimpleNamespace(
            places={
                name: types.SimpleNamespace(netdev=str((one.netdev or {}).get("netdev") or ""))
                for name, one in rails.items()
            },
            rails={
                name: {"hca": (one.hca or {}).get("hca"), "driver": (one.hca or {}).get("driver")}
                for name, one in rails.items()
            },
            counts_late=set(),
            background_bytes_per_s={},
            policy=self.policy,
        )
        test, root = {"rail": row["rail"]}, str(node.tree.root / "sys")
        group = tuple(context.places) if row["group"] else (row["rail"],)
        counters = variant.counters if sick and variant else {}
        still = mock.Mock(side_effect=lambda *_of: self._seen(row["host"], row["rail"]))
        errors = contextlib.nullcontext() if counters else mock.patch.object(link_errors, "read", still)
        with node.kernel.running(), mock.patch.object(runner_counters, "time", _Clock()), errors:
            watch = runner_counters.Watch(context, test, group, rdma_test, root)
            move(node.tree, self.bound[row["host"]][row["rail"]], moved, rdma_test, counters)
            watch.finish()
            watch.finish_cpu_count()
            claim = moved.claim(row, self.policy)
            proof, reason = watch.prove(claim, row["end"], self.policy) if rdma_test else ("proven", None)
        row |= {
            "proof": proof,
            "proof_reason": reason,
            "counters": watch.rail_counters(),
            "link_errors": watch.link_errors(),
        }
        idle |= {} if row["group"] else watch.idle_counters()
        others = self.bound[row["host"]].keys() - {row["rail"]}
        row["other_rails"] = {} if row["group"] else {name: idle[name] for name in sorted(others)}

    def _change(self, change: Change) -> None:
        touched = [
            row for row in self.results
            if row["check"] == change.check
            and change.rail in (None, row["rail"])
            and change.end in (None, row["end"])
            and change.node in (None, row["host"], row["node"], row["peer"])
        ]  # fmt: skip
        if not touched:
            checks = ", ".join(sorted({row["check"] for row in self.results}))
            raise DataError(
                f"{self.pair.machine.name}: results: no result of check {change.check} has this rail, node "
                f"and end; checks with results are {checks}"
            )
        for row in touched:
            if change.gbps is not None:
                ratio = change.gbps / self.gbps(row["check"], row["rail"])
                unread = {name: span for name, span in row["counters"].items() if None in span}
                row["counters"] = {
                    name: row["counters"][name] for name in row["counters"].keys() - unread.keys()
                }
                scale(row, FAKE_GBPS * ratio)
                row["counters"] |= unread
            if change.us is not None and row["metrics"]:
                ratio = change.us / row["metrics"]["latency_p50_us"]
                row["metrics"] |= {
                    key: one * ratio for key, one in row["metrics"].items() if key.endswith("_us")
                }
            for path, value in change.values.items():
                _set(row, path.split("."), value)


class _Clock:
    """A clock that costs no time: a sleep moves it."""

    def __init__(self) -> None:
        self._now_s = 1000.0

    def monotonic(self) -> float:
        """Return the seconds so far."""
        return self._now_s

    def sleep(self, seconds: float) -> None:
        """Let the time pass."""
        self._now_s += max(seconds, 0.01)


def _set(row: Any, path: list[str], value: Any) -> None:
    *parents, last = path
    for key in parents:
        row = row.setdefault(key, {})
    if value is None:
        row.pop(last, None)
    else:
        row[last] = value


def summary(verdicts: list[Mapping[str, Any]]) -> list[str]:
    """Return what of the verdicts is neither a pass nor recorded, as text."""
    return [
        f"{one['outcome']} {one['check']} {one['node']} {one['rail']}: {one['cause_class']}: {one['cause']}"
        for one in verdicts
        if one["outcome"] in ("fail", "unmeasured")
    ]
