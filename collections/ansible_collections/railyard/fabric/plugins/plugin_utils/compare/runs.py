# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read from a run folder what is compared: trusted results by place, and how each was measured.

The run is judged again from its folder, so an edited verdicts.jsonl changes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds import facts as fact_rows
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.facts import BoundFacts
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS, RECORDED
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean_all
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import comparison, comparison_text
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import provenance
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import (
    Manifest,
    Plan,
    Row,
    Verdict,
)

#: Keys that must be equal in the rows of two results; the sender shows the direction.
CONDITIONS = (
    "tool",
    "message_bytes",
    "qps",
    "traffic_class",
    "service_level",
    "streams",
    "mtu_bytes",
    "active_mtu_bytes",
    "direction",
    "latency_is",
    "bandwidth_is",
)


class Place(NamedTuple):
    """The ends of a result: `node` sends; a sum over rails has no rail."""

    check: str
    node: str
    peer: str
    rail: str | None


@dataclass(frozen=True)
class Number:
    """A proven result, in its metric's unit, and its conditions: key -> the values of both ends."""

    value: float
    conditions: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True)
class Run:
    """The part of a run that is compared.

    Attributes:
        folder: its path.
        name: `CLUSTER/RUN`.
        manifest: manifest.json.
        plan: plan.json.
        nodes: node -> its facts row, if it can be trusted.
        fleet: the facts, bound to the plan.
        numbers: the trusted results.
        outcomes: place -> outcome, of all planned tests.
        against_tcp: RDMA compared with TCP within the run, in one sentence; empty if it was not planned.
        notes: reasons why the verdicts do not cover the complete run.
        table: RDMA beside TCP, for imported outputs, which have no report.
    """

    folder: Path
    name: str
    manifest: Manifest
    plan: Plan
    nodes: Mapping[str, Mapping[str, Any]]
    fleet: BoundFacts
    numbers: Mapping[Place, Number]
    outcomes: Mapping[Place, str]
    against_tcp: str
    notes: tuple[str, ...]
    table: tuple[str, ...] = ()

    def is_steady(self, check: str) -> bool:
        """Tell whether a check was measured on hardware; emulated links and nodes are not steady.

        Imported outputs have no facts, so that the inventory decides.
        """
        if provenance.imported(self.manifest):
            return self.plan.get("node_class") == "hardware"
        ends = [one for rails in self.fleet.bound.values() for one in rails.values()]
        devices = [one.hca if CHECKS[check].rdma else one.netdev for one in ends]
        return (
            self.plan.get("node_class") == "hardware"
            and bool(devices)
            and all(device is not None and device.get("driver_class") == "hardware" for device in devices)
        )


def read_run(path: Path) -> Run:
    """Read a run folder.

    Raises:
        RunFolderError, JudgeError, PolicyError: it is not a run folder, cannot be read, or is empty.
    """
    folder = run_folder.RunFolder(path)
    judged = rejudge.judge_folder(path)
    manifest, plan = clean_all(folder.manifest()), clean_all(folder.plan())
    run = str(manifest.get("run"))
    facts = clean_all(folder.rows(run_folder.FACTS)[0])
    fleet = fact_rows.bind_facts(plan, facts, run)
    verdicts = clean_all(list(judged.verdicts))
    results = folder.rows(run_folder.RESULTS)[0]
    measured = _read_conditions(results)
    outcomes, numbers = {_build_place(one): str(one["outcome"]) for one in verdicts}, {}
    imported = provenance.imported(manifest)
    if imported:
        verdicts = _trust_stated_numbers(verdicts, results)
    for one in verdicts:
        place = _build_place(one)
        value = comparison.trusted(one, str(comparison.metric(place.check)))
        if one["peer"] is not None and value is not None:
            hosts = one["node"], one["peer"]
            rows = [measured.get((test, host), {}) for test in one["rows"] for host in hosts]
            numbers[place] = Number(value, _merge_conditions(rows))
    incomplete = [judged.incomplete] if judged.incomplete else []
    compared = comparison.compare_run(plan, verdicts, facts)
    torn = [f"{name} lost a line" for name in judged.torn]
    return Run(
        folder=path,
        name=f"{manifest.get('cluster')}/{run}",
        manifest=manifest,
        plan=plan,
        nodes={
            str(row.get("node")): row
            for row in facts
            if row.get("run") == run and str(row.get("node")) in fleet.bound
        },
        fleet=fleet,
        numbers=numbers,
        outcomes=outcomes,
        against_tcp=compared.sentence,
        notes=tuple(clean_all([*incomplete, *provenance.remarks(manifest), *torn, *judged.notes])),
        table=tuple(comparison_text.lines(compared)) if imported else (),
    )


def _build_place(verdict: Verdict) -> Place:
    node, peer = str(verdict["node"]), str(verdict["peer"] or "")
    return Place(str(verdict["check"]), node, peer, verdict["rail"] or verdict.get("subject"))


def _trust_stated_numbers(verdicts: Iterable[Verdict], rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return verdicts on imported outputs as if they were proven; reports mark them as not proven."""
    stated = {str(row.get("id")): row["metrics"] for row in rows if isinstance(row.get("metrics"), Mapping)}
    return [
        {**one, "outcome": RECORDED, "proof": "proven", "observed": clean_all(stated[one["id"]])}
        for one in verdicts
        if one["id"] in stated
    ]


def _read_conditions(rows: Iterable[Row]) -> dict[tuple[str, str], dict[str, str]]:
    """Return (test, host) -> condition -> its value in the host's row."""
    return {
        (str(row.get("id")), str(row.get("host"))): {
            key: str(clean_all(row[key])) for key in CONDITIONS if row.get(key) is not None
        }
        for row in rows
    }


def _merge_conditions(ends: Iterable[Mapping[str, str]]) -> dict[str, tuple[str, ...]]:
    """Merge the conditions of all rows that a result rests on; a sum rests on several tests."""
    merged: dict[str, set[str]] = {}
    for end in ends:
        for key, value in end.items():
            merged.setdefault(key, set()).add(value)
    return {key: tuple(sorted(values)) for key, values in merged.items()}
