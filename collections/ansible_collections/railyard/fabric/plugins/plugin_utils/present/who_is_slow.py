# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a person is told of who is slow; terminal, page and playbook take their words from here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ansible_collections.railyard.fabric.plugins.plugin_utils.ask.suspects import (
    LEAF,
    NODE_RAIL,
    PAIR,
    RAIL,
    Suspect,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution.isolate import Findings
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import named


def words(one: Suspect) -> str:
    """Return how a person names a suspect."""
    if one.kind == PAIR:
        return f"the path between {one.node} and {one.peer} on {one.rail}"
    if one.kind == LEAF:
        return f"leaf {one.leaf}" + (f" ({one.rail})" if one.rail else "")
    if one.kind == RAIL:
        return f"{one.rail} of all nodes"
    return f"{one.node} {one.rail}" if one.rail else f"{one.node}, all of its rails"


def so_far(node: str, rails: Sequence[str]) -> str:
    """Return what a person is told of a node's rails while the run goes on."""
    suspects = named([words(Suspect(NODE_RAIL, node, rail)) for rail in rails])
    return f"suspect so far: {suspects}, slow or without numbers with every partner"


def lines(found: Findings, not_further: str | None = None) -> Iterator[str]:
    """Yield what a person is told of findings, a sentence each, suspects first.

    Args:
        found: who is slow.
        not_further: why those in doubt did not measure further, where they did not.
    """
    evidence = {RAIL: "nodes on it", PAIR: "meetings"}
    for one in found.suspects:
        on = f"{one.evidence} {evidence.get(one.kind, 'partners that are good with others')}"
        some = f"carries {100 * one.share:.0f} % of what its like do"
        yield f"{words(one)}: {some if one.share > 0 else 'no number came of it'} ({one.confidence}, by {on})"
    for one in found.doubtful:
        if one not in found.suspects:
            yield f"{words(one)}: may be slow, but too few meetings say so ({one.evidence})"
    if not_further:
        yield f"who may be slow was not measured further: {not_further}"
    for open_ in found.cannot_tell:
        nodes = " or ".join(open_.nodes)
        yield f"{open_.rail}: {nodes}, a path between them, or the rail; too few partners to tell which"
    for way in found.crossing:
        yield (
            f"{way.rail}: between {way.leaf} and {way.peer_leaf} goes {100 * way.share:.0f} % of what goes "
            "behind one of them"
        )
