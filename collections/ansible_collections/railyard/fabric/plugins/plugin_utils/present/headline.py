# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A run's result in one line: what is wrong, how many nodes are good, and what was measured."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from ansible_collections.railyard.fabric.plugins.plugin_utils.ask.suspects import (
    LEAF,
    NODE_RAIL,
    PAIR,
    RAIL,
    Suspect,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import catalogue
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict.rejudge import Judged
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict.verdicts import Divided, divide
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import suspects, who_is_slow, wording
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Plan, Verdict

#: How many places a line names before it says "and N more".
NAMED = 3
#: How many checks it names of a place.
CHECKS_NAMED = 2
_TRANSPORTS = {"roce": "RDMA over Ethernet", "infiniband": "RDMA over InfiniBand", "efa": "RDMA over EFA"}
_KINDS = {NODE_RAIL: "rail", RAIL: "rail", LEAF: "leaf", PAIR: "path"}


def write(
    plan: Plan,
    verdicts: Sequence[Verdict] | Divided,
    counts: Mapping[str, int],
    judged: Judged,
    coverage: Mapping[str, int],
    blame: suspects.Blame,
) -> str:
    """Return the result of a run in one line.

    Args:
        plan: what was planned.
        verdicts: of all planned checks.
        counts: outcome -> how many verdicts have it.
        judged: the judgement; slow parts and reasons for an incomplete run are named.
        coverage: as `pattern.coverage` returns it.
        blame: which end of a bad test is the cause.
    """
    verdicts = divide(verdicts)
    planned = sum(counts.values()) - counts[catalogue.NOT_APPLICABLE]
    bad = [one for one in verdicts.single if one["outcome"] in (catalogue.FAIL, catalogue.UNMEASURED)]
    incomplete = [f"{', '.join(judged.torn)} lost a line"] if judged.torn else []
    incomplete += [judged.incomplete] if judged.incomplete else []
    sentences = list(_slow(judged.findings.suspects)) if bad else []
    sentences += _failures(bad, planned, bool(sentences))
    if not planned:
        sentences.append("nothing was checked: no planned check applies")
    elif bad:
        sentences.append(_good_nodes(plan, bad, blame))
    else:
        outcomes = f"{counts['pass']} pass, {counts['recorded']} recorded"
        if incomplete:
            measured = f"{wording.count(planned, 'check')} measured ({outcomes}), not all that were planned"
        else:
            unproven = sum(
                one["outcome"] == catalogue.RECORDED and one["proof"] != "proven" for one in verdicts.single
            )
            confirmed = f", all but {unproven} confirmed" if unproven else " and confirmed"
            measured = f"all {wording.count(planned, 'check')} measured{confirmed} ({outcomes})"
        sentences.append(f"{_good_nodes(plan, bad, blame)}: {measured}")
    if incomplete:
        sentences.append(f"incomplete: {' and '.join(incomplete)}")
    sentences.append(_scope(plan, verdicts.examples, coverage))
    return " ".join(f"{sentence[:1].upper()}{sentence[1:]}." for sentence in sentences)


def place(verdict: Verdict) -> str:
    """Return the place of a verdict: node, peer and rail, or what was checked on the node."""
    if verdict["peer"] is None:
        what = verdict["rail"] or verdict.get("subject")
        return f"{verdict['node']} {what}" if what else str(verdict["node"])
    return f"{verdict['node']} -> {verdict['peer']} {verdict['rail'] or 'all rails'}"


def _slow(found: Iterable[Suspect]) -> Iterator[str]:
    """Yield a sentence for each kind of slow or silent part, with the first few names."""
    by_kind: dict[tuple[str, str], list[str]] = {}
    for one in found:
        kind = "node" if one.kind == NODE_RAIL and not one.rail else _KINDS.get(one.kind, "part")
        # Without a number it cannot be called slow.
        state = "slow" if one.share > 0 else "silent"
        by_kind.setdefault((state, kind), []).append(who_is_slow.name_suspect(one))
    for (state, kind), names in by_kind.items():
        plural = {"leaf": "leaves"}.get(kind, f"{kind}s")
        yield f"{len(names)} {state} {kind if len(names) == 1 else plural}: {_named(names)}"


def _failures(bad: Sequence[Verdict], planned: int, explained: bool) -> Iterator[str]:
    """Yield how many checks failed or were not measured, and where.

    A slow part explains tests between nodes only: failures of a single node are still named.
    """
    failed = [one for one in bad if one["outcome"] == catalogue.FAIL]
    unmeasured = [one for one in bad if one["outcome"] == catalogue.UNMEASURED]
    if failed:
        named = [one for one in failed if one["peer"] is None] if explained else failed
        where = f" ({_places(named)})" if named else ""
        yield f"{len(failed)} of {wording.count(planned, 'check')} failed{where}"
    if unmeasured:
        silent = _unreachable(unmeasured)
        # Failures explain most of what was not measured; without failures, name the places.
        where = "" if failed or explained else f" ({_places(unmeasured)})"
        where = f" (no answer from {_named(silent)})" if silent else where
        yield f"{len(unmeasured)} of {wording.count(planned, 'check')} unmeasured{where}"


def _good_nodes(plan: Plan, bad: Iterable[Verdict], blame: suspects.Blame) -> str:
    """Return how many nodes have no bad check of their own; one that only met a slow peer is good."""
    bad_nodes = {
        node for one in bad for node in (one["node"], one["peer"]) if node and not blame.only_met(one, node)
    }
    nodes = len(plan["nodes"])
    good = nodes - len(bad_nodes & set(plan["nodes"]))
    return f"{good} of {wording.count(nodes, 'node')} good"


def _scope(plan: Plan, verdicts: Iterable[Verdict], coverage: Mapping[str, int]) -> str:
    """Return what was measured: rails, transport, and pairs where not all could be."""
    rails = len({rail["name"] for node in plan["nodes"].values() for rail in node["rails"]})
    transport = plan.get("transport")
    rdma = any(
        catalogue.CHECKS[one["check"]].rdma and not catalogue.CHECKS[one["check"]].local for one in verdicts
    )
    if transport == "tcp":
        what = "TCP only, RDMA was not planned"
    elif rdma:
        what = _TRANSPORTS.get(str(transport), "RDMA and TCP")
    else:
        what = f"TCP only, RDMA was not measured though the inventory declares {transport}"
    pairs = ""
    if coverage["pairs"] < coverage["of_pairs"]:
        pairs = f", {coverage['pairs']} of {wording.count(coverage['of_pairs'], 'pair')}"
    return f"{wording.count(rails, 'rail')}{pairs}, {what}"


def _unreachable(verdicts: Iterable[Verdict]) -> list[str]:
    """Return the nodes that did not answer, by their own checks."""
    found = [
        one["node"] for one in verdicts if one["cause_class"] == "node_unreachable" and one["peer"] is None
    ]
    return list(dict.fromkeys(found))


def _places(verdicts: Sequence[Verdict]) -> str:
    places: dict[str, list[str]] = {}
    for one in verdicts:
        titles = places.setdefault(place(one), [])
        title = catalogue.CHECKS[one["check"]].title
        if title not in titles:
            titles.append(title)
    # Checks of one node first: a link that is down explains the tests that did not run over it.
    ordered = sorted(places, key=lambda name: "->" in name)
    return _named([f"{name}: {_titles(places[name])}" for name in ordered], "; ")


def _titles(titles: Sequence[str]) -> str:
    more = len(titles) - CHECKS_NAMED
    return ", ".join(titles[:CHECKS_NAMED]) + (
        f" and {wording.count(more, 'more check')}" if more > 0 else ""
    )


def _named(names: Sequence[str], between: str = ", ") -> str:
    more = len(names) - NAMED
    return between.join(names[:NAMED]) + (f"{between}and {more} more" if more > 0 else "")
