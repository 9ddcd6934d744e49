# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A verdict's own part, beside the asked line that it answers."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import (
    FAIL,
    PASS,
    RECORDED,
    UNMEASURED,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_number
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge import causes


@dataclass
class Answer:
    """A verdict's own part: everything but the asked line it answers.

    Attributes:
        outcome: one of OUTCOMES.
        observed: what was seen, metric -> value.
        floor: metric -> least value (for a state, the state itself).
        ceiling: metric -> greatest value (for a state, the state itself).
        basis: what the bounds rest on.
        cause: `cause_class`, `cause` and `next`, empty when there is nothing to explain.
        proof: `proven` when the evidence is whole, else `unproven` or None.
        rows: ids of the tests that it rests on, where they are not the asked line's own.
    """

    outcome: str
    observed: dict[str, Any] = field(default_factory=dict)
    floor: dict[str, Any] = field(default_factory=dict)
    ceiling: dict[str, Any] = field(default_factory=dict)
    basis: str = ""
    cause: dict[str, Any] = field(default_factory=dict)
    proof: str | None = None
    rows: list[str] | None = None

    def line(self, asked: Mapping[str, Any], known: Container[str]) -> dict[str, Any]:
        """Return the whole verdict.

        Args:
            asked: the asked line that it answers.
            known: ids of the tests that have rows.
        """
        parts = self.rows if self.rows is not None else asked.get("parts") or [asked["id"]]
        cause = {"cause_class": None, "cause": None, "next": None, **self.cause}
        if self.outcome not in (FAIL, UNMEASURED):
            cause = dict.fromkeys(cause)
        return {
            "schema": 1,
            **{key: asked[key] for key in ("id", "check", "tool", "node", "peer", "rail", "direction")},
            "outcome": self.outcome,
            "observed": _finite(self.observed) or None,
            "floor": self.floor or None,
            "ceiling": self.ceiling or None,
            "basis": self.basis or None,
            "proof": self.proof,
            **cause,
            "rows": [part for part in parts if part in known],
        }


def passed(observed: dict[str, Any], wanted: Mapping[str, Any], basis: str) -> Answer:
    """Return the pass of a state that must be exactly the wanted one; what speaks against it comes after."""
    return Answer(PASS, observed, dict(wanted), dict(wanted), basis, proof="proven")


def recorded(answer: Answer, basis: str) -> Answer:
    """Turn an answer into `recorded`, keeping what was seen: nothing bounds it, as `basis` says."""
    answer.outcome, answer.floor, answer.ceiling, answer.basis = RECORDED, {}, {}, basis
    return answer


def failed(answer: Answer, cause: str, detail: str) -> Answer:
    """Turn an answer into a failure, keeping what was seen."""
    answer.outcome, answer.cause, answer.proof = FAIL, causes.explain(cause, detail), None
    return answer


def unknown(answer: Answer, cause: str, detail: str) -> Answer:
    """Turn an answer into `unmeasured`, keeping what was seen."""
    answer.outcome, answer.cause, answer.proof = UNMEASURED, causes.explain(cause, detail), None
    return answer


def unmeasured(cause: str, detail: str) -> Answer:
    """Return the answer of a test that says nothing that can be trusted; `unproven` is its proof too."""
    return Answer(
        UNMEASURED,
        cause=causes.explain(cause, detail),
        proof="unproven" if cause in ("unproven", "counted_twice") else None,
    )


def _finite(value: Any) -> Any:
    """Return a value with NaN, infinity and what no float can hold as null: garbage must not stop us."""
    if isinstance(value, Mapping):
        return {key: _finite(inner) for key, inner in value.items()}
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return None if number and not is_number(value) else value
