# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Summarise a run by node: whether it is proven, its faults, and the numbers of each rail.

It is made while all verdicts are in memory: verdicts.jsonl of a large run folds its passes into
counts. Metrics, the choice of nodes for the next run, a node's own history and drains all read this. Pure,
but for `read` and `each`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.arrays import Ints, np
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds import facts as fact_rows
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import catalogue, policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.evidence import clock
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import run_status
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict.verdicts import Divided, divide
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean_all
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import comparison, history, suspects
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import provenance
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Manifest, Plan, Verdict
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder

#: In a run folder; `rejudge.write` removes it, since it summarises the previous verdicts.
FILE = run_folder.NODE_RESULTS
SCHEMA = 1
UNPROVEN = "unproven"
_GOOD = (catalogue.PASS, catalogue.RECORDED)


@dataclass(frozen=True)
class Fault:
    """A bad check of a node.

    Attributes:
        check: the check.
        rail: the rail; empty for a check of the node, or of all rails together.
        outcome: `fail`, `unmeasured` or `unproven`.
        cause: the verdict's class of cause, or empty.
        is_own: the check is of this node alone, or the node's tests are bad with every partner.
        partners: the nodes that it was tested with; empty for a check of one node alone.
    """

    check: str
    rail: str
    outcome: str
    cause: str
    is_own: bool
    partners: tuple[str, ...] = ()


@dataclass(frozen=True)
class NodeResult:
    """What a run found of one node.

    Attributes:
        is_tested: it took part in a test between nodes.
        is_good: it was tested on each of its rails, and none of its checks was bad, unmeasured or unproven.
        faults: its bad checks, without those that only a partner caused.
        numbers: (check, rail) -> the median over its partners, in the unit of the check's metric.
    """

    is_tested: bool
    is_good: bool
    faults: tuple[Fault, ...] = ()
    numbers: Mapping[tuple[str, str], float] = field(default_factory=dict)


@dataclass(frozen=True)
class RunResult:
    """A run by node.

    Attributes:
        run: its id.
        ended_s: when it ended, Unix time; None where its manifest has no end.
        is_whole: it ended, and no line is lost.
        settings: a digest of what its numbers depend on; only runs with the same one are compared.
        is_steady: all its links are hardware.
        nodes: node -> what was found of it.
    """

    run: str
    ended_s: float | None
    is_whole: bool
    settings: str
    is_steady: bool
    nodes: Mapping[str, NodeResult]


def summarise(
    manifest: Manifest, plan: Plan, verdicts: Sequence[Verdict] | Divided, *, is_whole: bool, is_steady: bool
) -> RunResult:
    """Summarise a run's verdicts by node.

    Args:
        manifest: the run's.
        plan: the run's.
        verdicts: all of them, one for each planned test.
        is_whole: the run is complete and no line of its folder was lost.
        is_steady: all its links are hardware.
    """
    single, passes = divide(verdicts)
    single = [one for one in single if one["outcome"] != catalogue.NOT_APPLICABLE]
    blame = suspects.find(Divided(single, passes), in_sums=True)
    places: dict[str, dict[tuple[str, str, str, str, bool], set[str]]] = {name: {} for name in plan["nodes"]}
    good: dict[str, set[str]] = {name: set() for name in plan["nodes"]}
    tested: set[str] = set()
    #: Node -> (check, rail) -> its numbers, singly or as columns.
    values: dict[str, dict[tuple[str, str], list[Any]]] = {name: {} for name in plan["nodes"]}
    for one in single:
        guilty = blame.guilty(one)
        outcome = _outcome(one)
        for node, partner in _ends(one):
            if node not in places:
                continue
            tested |= {node} if partner else set()
            rail = str(one["rail"] or "")
            if not outcome:
                good[node] |= {rail} if partner and rail else set()
            elif partner is None or node in guilty or not guilty:
                is_own = partner is None or node in guilty
                key = str(one["check"]), rail, outcome, str(one.get("cause_class") or ""), is_own
                places[node].setdefault(key, set()).update([partner] if partner else [])
            else:
                continue  # only the partner caused it
            metric = comparison.metric(str(one["check"])) if partner else None
            value = comparison.trusted(one, metric) if metric else None
            if value is not None:
                values[node].setdefault((str(one["check"]), rail), []).append(value)
    for group in passes:
        check, rail = str(group.first["check"]), str(group.first["rail"])
        numbers = group.observed.get(comparison.metric(check) or "")
        for end in (group.node, group.peer):
            for place, mine in _split_by(end):
                name = group.names[place]
                tested.add(name)
                good[name].add(rail)
                if numbers is not None:
                    values[name].setdefault((check, rail), []).append(numbers[mine])
    rails = {name: {str(rail["name"]) for rail in node["rails"]} for name, node in plan["nodes"].items()}
    return RunResult(
        run=str(manifest.get("run")),
        ended_s=clock.parse_moment(manifest.get("end")),
        is_whole=is_whole,
        settings=_settings(manifest),
        is_steady=is_steady,
        nodes={
            name: NodeResult(
                is_tested=name in tested,
                is_good=is_whole and name in tested and not places[name] and rails[name] <= good[name],
                faults=tuple(
                    Fault(*key, partners=tuple(sorted(found))) for key, found in sorted(places[name].items())
                ),
                numbers={
                    key: float(np.median(np.hstack(found))) for key, found in sorted(values[name].items())
                },
            )
            for name in plan["nodes"]
        },
    )


def _split_by(end: Ints) -> Iterator[tuple[int, Ints]]:
    """Yield each number of a column with the places that have it."""
    turn = np.argsort(end, kind="stable")
    numbers, begins = np.unique(end[turn], return_index=True)
    yield from zip(numbers.tolist(), np.split(turn, begins[1:]), strict=True)


def _ends(one: Verdict) -> list[tuple[str, str | None]]:
    """Return each node that a verdict is about, with its partner."""
    if one["peer"] is None:
        return [(str(one["node"]), None)]
    return [(str(one["node"]), str(one["peer"])), (str(one["peer"]), str(one["node"]))]


def _outcome(one: Verdict) -> str:
    """Return the bad outcome of a verdict; empty where it is good."""
    if one["outcome"] in _GOOD:
        return UNPROVEN if one.get("proof") == UNPROVEN else ""
    return catalogue.FAIL if one["outcome"] == catalogue.FAIL else catalogue.UNMEASURED


def _settings(manifest: Manifest) -> str:
    """Return a digest of the policy, without keys that only select pairs and waiting times."""
    rules = manifest.get("policy")
    settings = (
        {key: value for key, value in rules.items() if key not in policy.RUN_VARIABLES}
        if isinstance(rules, Mapping)
        else {}
    )
    return hashlib.sha256(json.dumps(settings, sort_keys=True).encode("utf-8")).hexdigest()[:16]


def document(found: RunResult) -> dict[str, Any]:
    """Return the summary as the run folder keeps it."""
    return {
        "schema": SCHEMA,
        **vars(found),
        "nodes": {
            name: {
                **vars(one),
                "faults": [{**vars(fault), "partners": list(fault.partners)} for fault in one.faults],
                "numbers": [
                    {"check": check, "rail": rail, "metric": comparison.metric(check), "value": value}
                    for (check, rail), value in one.numbers.items()
                ],
            }
            for name, one in found.nodes.items()
        },
    }


def parse(content: Mapping[str, Any]) -> RunResult:
    """Parse such a document.

    Raises:
        RunFolderError: it is of another schema, or something is missing.
    """
    try:
        if content["schema"] != SCHEMA:
            raise run_folder.RunFolderError(f"{FILE} is of schema {content['schema']!r}, not {SCHEMA}")
        ended = content["ended_s"]
        return RunResult(
            run=str(content["run"]),
            ended_s=float(ended) if policy.is_number(ended) else None,
            is_whole=content["is_whole"] is True,
            settings=str(content["settings"]),
            is_steady=content["is_steady"] is True,
            nodes={str(name): _node(one) for name, one in content["nodes"].items()},
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise run_folder.RunFolderError(f"{FILE} cannot be understood: {error!r}") from error


def _node(one: Mapping[str, Any]) -> NodeResult:
    return NodeResult(
        is_tested=one["is_tested"] is True,
        is_good=one["is_good"] is True,
        faults=tuple(
            Fault(
                check=str(fault["check"]),
                rail=str(fault["rail"]),
                outcome=str(fault["outcome"]),
                cause=str(fault["cause"]),
                is_own=fault["is_own"] is True,
                partners=tuple(map(str, fault["partners"])),
            )
            for fault in one["faults"]
        ),
        numbers={
            (str(number["check"]), str(number["rail"])): float(number["value"])
            for number in one["numbers"]
            if number["check"] in catalogue.CHECKS and number["value"] > 0
        },
    )


def read(path: Path) -> RunResult:
    """Read the results by node; of a run by an older version, from its verdicts.

    Raises:
        RunFolderError: it is no run folder, is not judged, or only counts of its passes are left.
    """
    folder = RunFolder(path)
    if (path / FILE).exists():
        return parse(clean_all(folder.document(FILE)))
    manifest, plan = clean_all(folder.manifest()), clean_all(folder.plan())
    rows, torn = folder.rows(run_folder.VERDICTS)
    if not rows:
        raise run_folder.RunFolderError(f"{path} is not judged")
    if any("count" in row for row in rows):
        raise run_folder.RunFolderError(
            f"{path} has no {FILE}, and its verdicts are folded; write it with `railyard report {path}`"
        )
    stated = manifest.get("asked")
    count = stated.get("count") if isinstance(stated, Mapping) else None
    is_whole = not torn and count == len(rows) and not _why_incomplete(manifest)
    try:
        return summarise(manifest, plan, clean_all(rows), is_whole=is_whole, is_steady=False)
    except (KeyError, TypeError, AttributeError) as error:
        raise run_folder.RunFolderError(
            f"{path / run_folder.VERDICTS} cannot be understood: {error!r}"
        ) from error


def is_all_hardware(plan: Plan, facts: Iterable[Mapping[str, Any]], run: str) -> bool:
    """Tell whether all links of a run are hardware, so that its numbers are stable."""
    ends = [
        one for rails in fact_rows.bind_facts(plan, list(facts), run).bound.values() for one in rails.values()
    ]
    devices = [device for end in ends for device in (end.netdev, end.hca) if device is not None]
    return (
        plan.get("node_class") == "hardware"
        and bool(devices)
        and all(device.get("driver_class") == "hardware" for device in devices)
    )


def _why_incomplete(manifest: Manifest) -> str | None:
    return run_status.explain_not_ended(manifest) or provenance.imported(manifest)


def each(cluster: Path, most: int = history.RUNS_READ) -> Iterator[RunResult]:
    """Yield a cluster's judged runs, newest first; folders that are no readable run are skipped.

    Args:
        cluster: `<reports>/<cluster>`.
        most: how many runs are read.
    """
    try:
        names = sorted(filter(run_folder.is_run_id, history.folders(cluster)), reverse=True)
    except OSError:
        return
    for name in names[:most]:
        try:
            found = read(cluster / name)
        except run_folder.RunFolderError:
            continue
        if found.run == name:
            yield found
