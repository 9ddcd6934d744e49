# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A verdict's own part, beside the asked line that it answers."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.rules.ruling import Ruling
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import catalogue
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_number
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome import causes


@dataclass(slots=True)
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
        are_known: all of these are known to have rows.
        attempts: how often it was measured.
        reproduced: in how many attempts of how many it was so bad, as "2/3"; None where the first was good.
        flaky: an attempt was bad, and it is none the less good.
        tries: attempt -> what was seen in it, of those that no authority bounds.
        like: of these, what makes another test like it, each in words.
    """

    outcome: str = catalogue.UNMEASURED
    observed: dict[str, Any] = field(default_factory=dict)
    floor: dict[str, Any] = field(default_factory=dict)
    ceiling: dict[str, Any] = field(default_factory=dict)
    basis: str = ""
    cause: dict[str, str] = field(default_factory=dict)
    proof: str | None = None
    rows: Iterable[str] | None = None
    are_known: bool = False
    attempts: int = 1
    reproduced: str | None = None
    flaky: bool = False
    tries: dict[int, dict[str, Any]] = field(default_factory=dict)
    like: dict[str, str] = field(default_factory=dict)

    @classmethod
    def passed(cls, observed: dict[str, Any], wanted: Mapping[str, Any], basis: str) -> Answer:
        """Return the pass of a state that must be exactly the wanted one; what speaks against comes after."""
        return cls(catalogue.PASS, observed, dict(wanted), dict(wanted), basis, proof="proven")

    @classmethod
    def not_applicable(cls, basis: str) -> Answer:
        """Return the answer to what the inventory or the site leaves out, as `basis` says."""
        return cls(catalogue.NOT_APPLICABLE, basis=basis)

    @classmethod
    def unmeasured(cls, cause: str, detail: str) -> Answer:
        """Return the answer of a test that says nothing to be trusted; `unproven` is its proof too."""
        proof = "unproven" if cause in ("unproven", "counted_twice", "not_borne_out") else None
        return cls(catalogue.UNMEASURED, cause=causes.explain(cause, detail), proof=proof)

    @classmethod
    def of(cls, ruling: Ruling) -> Answer:
        """Return what a rule says of a node's facts, its cause explained."""
        cause = causes.explain(ruling.cause, ruling.detail) if ruling.cause else {}
        bounds = ruling.observed, ruling.floor, ruling.ceiling
        return cls(ruling.outcome, *bounds, ruling.basis, cause, ruling.proof)

    def recorded(self, basis: str) -> Answer:
        """Turn it into `recorded`, keeping what was seen: nothing bounds it, as `basis` says."""
        self.outcome, self.floor, self.ceiling, self.basis = catalogue.RECORDED, {}, {}, basis
        return self

    def failed(self, cause: str, detail: str) -> Answer:
        """Turn it into a failure, keeping what was seen."""
        self.outcome, self.cause, self.proof = catalogue.FAIL, causes.explain(cause, detail), None
        return self

    def unknown(self, cause: str, detail: str) -> Answer:
        """Turn it into `unmeasured`, keeping what was seen."""
        self.outcome, self.cause, self.proof = catalogue.UNMEASURED, causes.explain(cause, detail), None
        return self

    def line(self, asked: Mapping[str, Any], known: Container[str]) -> dict[str, Any]:
        """Return the whole verdict.

        Args:
            asked: the asked line that it answers.
            known: ids of the tests that have rows.
        """
        parts = self.rows if self.rows is not None else asked.get("parts") or [asked["id"]]
        cause: dict[str, str | None] = {"cause_class": None, "cause": None, "next": None, **self.cause}
        if self.outcome not in (catalogue.FAIL, catalogue.UNMEASURED):
            cause = dict.fromkeys(cause)
        return {
            "schema": 1,
            **{key: asked[key] for key in ("id", "check", "tool", "node", "peer", "rail", "direction")},
            **({"subject": asked["subject"]} if "subject" in asked else {}),
            "outcome": self.outcome,
            "observed": _finite(self.observed) or None,
            "floor": self.floor or None,
            "ceiling": self.ceiling or None,
            "basis": self.basis or None,
            "proof": self.proof,
            **cause,
            "rows": parts if self.are_known else [part for part in parts if part in known],
            "attempts": self.attempts,
            "reproduced": self.reproduced,
            "flaky": self.flaky,
        }


def _finite(value: Any) -> Any:
    """Return a value with NaN, infinity and what no float can hold as null: garbage must not stop us."""
    if isinstance(value, (int, float)):
        return value if isinstance(value, bool) or is_number(value) else None
    return {key: _finite(inner) for key, inner in value.items()} if isinstance(value, Mapping) else value
