"""`railyard simulate`: print what isolation finds in a simulated cluster, and what was wrong with it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.ask.suspects import Suspect
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution.slow_components import (
    Findings,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import who_is_slow

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
    result, found = simulate(nodes, rails, seed, pattern, leaves, fault)
    if as_json:
        print(json.dumps(result, indent=2))
    else:
        print("\n".join(_lines(result, found)))
    return 0


def simulate(
    nodes: int,
    rails: int,
    seed: int,
    pattern: str = clusters.ALL_PAIRS,
    leaves: int | None = None,
    fault: Sequence[str] = (),
    narrowest: bool = False,
) -> tuple[dict[str, Any], Findings]:
    """Return what `--json` prints, and whom isolation found.

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
    result = {
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
    return result, found


def _suspect(one: Suspect) -> dict[str, Any]:
    part = _part((one.kind, one.node, one.rail, one.peer, one.leaf))
    return {**part, "share": round(one.share, 3), "confidence": one.confidence, "evidence": one.evidence}


def _part(part: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(("kind", "node", "rail", "peer", "leaf"), part, strict=True))


def _lines(result: dict[str, Any], found: Findings) -> list[str]:
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
    lines += [f"  simulated: {told}" for told in who_is_slow.lines(found)]
    if not result["suspects"] and not result["cannot_tell"]:
        lines.append("  simulated: no suspects")
    for one in result["injected"]:
        seen = one["seen_as"]
        what = f"hidden: {one['why_not']}" if seen is None else ""
        if seen is not None:
            named = any(all(suspect[key] == seen[key] for key in seen) for suspect in result["suspects"])
            what = "found" if named else "not found"
            if any(seen[key] != one[key] for key in seen):
                what += f", as {_describe(seen)}"
        lines.append(f"  injected: {_describe(one)}; {100 * one['share']:.0f} % left: {what}")
    return lines


def _describe(part: dict[str, Any]) -> str:
    """Return how a person names a part."""
    return who_is_slow.name_suspect(Suspect(*(part[key] for key in ("kind", "node", "rail", "peer", "leaf"))))
