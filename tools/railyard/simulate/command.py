"""`railyard simulate`: print what isolation finds in a simulated cluster, and what was wrong with it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.isolate.culprits import Suspect
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import named

from railyard.simulate import cluster as clusters
from railyard.simulate import faults, trial, visible
from railyard.simulate.draw import Cables


def run(
    nodes: int, rails: int, seed: int, pattern: str, leaves: int | None, fault: Sequence[str], as_json: bool
) -> int:
    """Simulate a run and print what it finds.

    Returns:
        0: a simulation says nothing of any cluster, so that it neither passes nor fails.

    Raises:
        UserError: there is no such cluster, or a fault is none of it.
    """
    result = simulate(nodes, rails, seed, pattern, leaves, fault)
    if as_json:
        print(json.dumps(result, indent=2))
    else:
        print("\n".join(_lines(result)))
    return 0


def simulate(
    nodes: int,
    rails: int,
    seed: int,
    pattern: str = clusters.ALL_PAIRS,
    leaves: int | None = None,
    fault: Sequence[str] = (),
    narrowest: bool = False,
) -> dict[str, Any]:
    """Return what `--json` prints.

    Args:
        nodes: see `cluster.make`.
        rails: the same.
        seed: of the noise.
        pattern: see `cluster.make`.
        leaves: the same.
        fault: faults, as the command line writes them.
        narrowest: see `faults.Shares`.

    Raises:
        UserError: there is no such cluster, or a fault is none of it.
    """
    cluster = clusters.make(nodes, rails, leaves, pattern)
    shares = faults.Shares(cluster, faults.parse_all(fault, cluster), narrowest)
    outcome = trial.run(cluster, Cables(cluster, shares, seed))
    found = outcome.findings
    return {
        "simulated": True,
        "nodes": nodes,
        "rails": rails,
        "seed": seed,
        "pattern": pattern,
        "tests": outcome.tests,
        "rounds": outcome.rounds,
        "confirming_rounds": outcome.confirming,
        "pairs": len(outcome.met),
        "of_pairs": nodes * (nodes - 1) // 2,
        "modelled_minutes": round(outcome.modelled_s / 60, 1),
        "suspects": [_suspect(one) for one in found.suspects],
        "cannot_tell": [{"rail": one.rail, "nodes": list(one.nodes)} for one in found.cannot_tell],
        "crossing": [{**one._asdict(), "share": round(one.share, 3)} for one in found.crossing],
        "injected": [
            {**_part(one[:-1]), "share": one.share, "seen_as": part and _part(part), "why_not": why_not}
            for one, (part, why_not) in zip(
                shares.faults, visible.seen(cluster, shares, outcome.met), strict=True
            )
        ],
    }


def _suspect(one: Suspect) -> dict[str, Any]:
    part = _part((one.kind, one.node, one.rail, one.peer, one.leaf))
    return {**part, "share": round(one.share, 3), "confidence": one.confidence, "evidence": one.evidence}


def _part(part: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(("kind", "node", "rail", "peer", "leaf"), part, strict=True))


def _lines(result: dict[str, Any]) -> list[str]:
    head = (
        f"simulated: {result['nodes']} nodes, {result['rails']} rails, pattern {result['pattern']}, "
        f"seed {result['seed']}; nothing was measured"
    )
    confirming = result["confirming_rounds"]
    lines = [
        head,
        f"simulated {result['tests']} tests of {result['pairs']} of {result['of_pairs']} pairs in "
        f"{result['rounds']} rounds ({confirming} of them to confirm); a real run would take about "
        f"{result['modelled_minutes']} min",
    ]
    lines += [
        f"  simulated suspect: {_words(one)}, {100 * one['share']:.0f} % left, {one['confidence']}"
        f" ({one['evidence']} {_EVIDENCE.get(one['kind'], 'good partners')})"
        for one in result["suspects"]
    ]
    lines += [
        f"  simulated, cannot tell which: {named(one['nodes'])} {one['rail']}, the paths between them, "
        "or the rail"
        for one in result["cannot_tell"]
    ]
    lines += [
        f"  simulated: between {one['leaf']} and {one['peer_leaf']} goes {100 * one['share']:.0f} % of "
        "what goes behind one of them"
        for one in result["crossing"]
    ]
    if not result["suspects"] and not result["cannot_tell"]:
        lines.append("  simulated: no suspects")
    for one in result["injected"]:
        seen = one["seen_as"]
        what = f"hidden: {one['why_not']}" if seen is None else ""
        if seen is not None:
            found = any(all(suspect[key] == seen[key] for key in seen) for suspect in result["suspects"])
            what = "found" if found else "not found"
            if any(seen[key] != one[key] for key in seen):
                what += f", as {_words(seen)}"
        lines.append(f"  injected: {_words(one)}, {100 * one['share']:.0f} % left: {what}")
    return lines


_EVIDENCE = {"rail": "nodes on it", "pair": "meetings"}


def _words(one: dict[str, Any]) -> str:
    """Return how a person names a part."""
    if one["kind"] == "pair":
        return f"pair {one['node']} and {one['peer']}, {one['rail']}"
    if one["kind"] == "leaf":
        return f"leaf {one['leaf']}"
    names = [str(one[key]) for key in ("node", "rail") if one[key] is not None]
    return f"{one['kind'].replace('_', ' ')} {' '.join(names)}"
