# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Describe slow components for people: the sentences of terminal, page and playbook."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ansible_collections.railyard.fabric.plugins.plugin_utils.ask.suspects import (
    LEAF,
    NODE_RAIL,
    PAIR,
    RAIL,
    Suspect,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution.slow_components import (
    Findings,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import named


def name_suspect(one: Suspect) -> str:
    """Return the name of a suspect for people."""
    if one.kind == PAIR:
        return f"the path between {one.node} and {one.peer} on {one.rail}"
    if one.kind == LEAF:
        return f"leaf {one.leaf}" + (f" ({one.rail})" if one.rail else "")
    if one.kind == RAIL:
        return f"{one.rail} of all nodes"
    return f"{one.node} {one.rail}" if one.rail else f"{one.node}, all of its rails"


def so_far(node: str, rails: Sequence[str]) -> str:
    """Describe a node's suspect rails while the run goes on."""
    suspects = named([name_suspect(Suspect(NODE_RAIL, node, rail)) for rail in rails])
    return f"suspect so far: {suspects}, slow or without numbers with every partner"


def lines(found: Findings, not_further: str | None = None) -> Iterator[str]:
    """Yield a sentence for each finding, suspects first.

    Args:
        found: the slow components.
        not_further: why uncertain suspects were not measured further, if they were not.
    """
    evidence = {RAIL: "nodes on it", PAIR: "meetings"}
    for one in found.suspects:
        on = f"{one.evidence} {evidence.get(one.kind, 'partners that are good with others')}"
        rate = f"carries {100 * one.share:.0f} % of what its peers do"
        seen = rate if one.share > 0 else "no number was measured"
        yield f"{name_suspect(one)}: {seen} ({one.confidence}, by {on})"
    for one in found.doubtful:
        if one not in found.suspects:
            yield f"{name_suspect(one)}: may be slow, but too few meetings confirm it ({one.evidence})"
    if not_further:
        yield f"possible suspects were not measured further: {not_further}"
    for open_ in found.cannot_tell:
        nodes = " or ".join(open_.nodes)
        yield f"{open_.rail}: {nodes}, a path between them, or the rail; too few partners to tell which"
    for way in found.crossing:
        yield (
            f"{way.rail}: between leaves {way.leaf} and {way.peer_leaf} the rate is {100 * way.share:.0f} % "
            "of that within one of them"
        )
