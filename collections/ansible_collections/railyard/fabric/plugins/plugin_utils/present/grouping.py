# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Group problems by cause, each with the places where it was seen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import fold_names
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import wording
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Verdict

# More places than this are folded.
_PLACES_SHOWN = 6
#: The check whose findings name a cable.
LINK_ERRORS = "link_errors"

Place = tuple[str, str, str]
"""Node, peer, rail (of a test of the node by itself its subject); empty where it has none."""


@dataclass
class Problem:
    """Verdicts with one outcome, one cause and one next step."""

    outcome: str
    cause: str
    next: str
    checks: list[str] = field(default_factory=list)
    places: dict[Place, str] = field(default_factory=dict)
    """Place → its text where that is a cable; empty where it is node, peer and rail."""
    ids: list[str] = field(default_factory=list)
    """Ids of the tests: not every check was planned at every place."""
    count: int = 0

    @property
    def places_text(self) -> str:
        """Each place where it was seen, or what the places have in common."""
        if len(self.places) <= _PLACES_SHOWN:
            return "; ".join(text or place_text(*place) for place, text in self.places.items())
        rails = ", ".join(sorted({rail for _node, _peer, rail in self.places if rail})) or "all rails"
        ends = [{node, peer} - {""} for node, peer, _rail in self.places]
        everywhere = set.intersection(*ends)
        nodes = set.union(*ends)
        if len(everywhere) == 1 and len(nodes) > 1:
            [common] = everywhere
            return f"{common} with {fold_names(sorted(nodes - everywhere))}, {rails}"
        return f"{fold_names(sorted(nodes))}, {rails} ({len(self.places)} places)"

    @property
    def checks_text(self) -> str:
        """The checks that found it."""
        return ", ".join(wording.check_title(name) for name in self.checks)


def place(verdict: Verdict) -> Place:
    """Return the place of a verdict."""
    node, peer, rail, subject = (str(verdict.get(key) or "") for key in ("node", "peer", "rail", "subject"))
    return node, peer, rail or subject


def place_text(node: str, peer: str, rail: str) -> str:
    """Return a place for people, such as `gpuserver1 → gpuserver2, rail0`."""
    where = f"{node} → {peer}" if peer else node or "the run"
    return f"{where}, {rail}" if rail else where


def group(verdicts: Iterable[Verdict], cables: Mapping[tuple[str, str], str] | None = None) -> list[Problem]:
    """Group verdicts by outcome, cause and next step; failures first, then the most frequent.

    Args:
        verdicts: those that report a problem.
        cables: (node, rail) → text of the cable there, which names the place of link errors.
    """
    problems: dict[tuple[str, str, str], Problem] = {}
    for verdict in verdicts:
        cause = str(verdict.get("cause") or "no cause is known")
        key = (str(verdict.get("outcome")), cause, str(verdict.get("next") or ""))
        problem = problems.setdefault(key, Problem(*key))
        problem.count += 1
        problem.ids.append(str(verdict.get("id") or ""))
        check, where = str(verdict.get("check")), place(verdict)
        if check not in problem.checks:
            problem.checks.append(check)
        cable = (cables or {}).get((where[0], where[2]), "") if check == LINK_ERRORS else ""
        problem.places[where] = cable or problem.places.get(where, "")
    return sorted(problems.values(), key=lambda problem: (_severity(problem.outcome), -problem.count))


def _severity(outcome: str) -> int:
    order = ("fail", "unmeasured")
    return order.index(outcome) if outcome in order else len(order)
