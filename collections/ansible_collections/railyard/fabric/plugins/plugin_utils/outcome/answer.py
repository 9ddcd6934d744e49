# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The part of a verdict that the judge adds to its planned test."""

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
    """What the judge adds to a planned test to make a verdict.

    Attributes:
        outcome: one of OUTCOMES.
        observed: metric -> measured value.
        floor: metric -> minimum (for a state, the required state).
        ceiling: metric -> maximum (for a state, the required state).
        basis: the sources of the thresholds.
        cause: `cause_class`, `cause` and `next`; empty when there is nothing to explain.
        proof: `proven` when the evidence is complete, else `unproven` or None.
        rows: ids of the tests that it rests on, if they differ from the planned test's.
        are_known: all of these are known to have rows.
        attempts: how often it was measured.
        reproduced: in how many attempts it was bad, as "2/3"; None if the first attempt was good.
        flaky: an attempt was bad, and the verdict is good all the same.
        tries: attempt -> observed values, of attempts without a threshold.
        conditions: of these, what two tests must have in common to be comparable, as text.
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
    conditions: dict[str, str] = field(default_factory=dict)

    @classmethod
    def passed(cls, observed: dict[str, Any], wanted: Mapping[str, Any], basis: str) -> Answer:
        """Return a pass for a required state; a later check may still turn it into a failure."""
        return cls(catalogue.PASS, observed, dict(wanted), dict(wanted), basis, proof="proven")

    @classmethod
    def not_applicable(cls, basis: str) -> Answer:
        """Return the answer for a test that does not apply, for the reason in `basis`."""
        return cls(catalogue.NOT_APPLICABLE, basis=basis)

    @classmethod
    def unmeasured(cls, cause: str, detail: str) -> Answer:
        """Return the answer for a test without a trusted result."""
        proof = "unproven" if cause in ("unproven", "counted_twice", "not_borne_out") else None
        return cls(catalogue.UNMEASURED, cause=causes.explain(cause, detail), proof=proof)

    @classmethod
    def from_ruling(cls, ruling: Ruling) -> Answer:
        """Return a rule's ruling on a node's facts with its cause explained."""
        cause = causes.explain(ruling.cause, ruling.detail) if ruling.cause else {}
        bounds = ruling.observed, ruling.floor, ruling.ceiling
        return cls(ruling.outcome, *bounds, ruling.basis, cause, ruling.proof)

    def recorded(self, basis: str) -> Answer:
        """Change the outcome to `recorded` and keep the observed values: there is no threshold."""
        self.outcome, self.floor, self.ceiling, self.basis = catalogue.RECORDED, {}, {}, basis
        return self

    def failed(self, cause: str, detail: str, proof: str | None = None) -> Answer:
        """Change the outcome to `fail` and keep the observed values; `proof` is of the failure itself."""
        self.outcome, self.cause, self.proof = catalogue.FAIL, causes.explain(cause, detail), proof
        return self

    def unknown(self, cause: str, detail: str) -> Answer:
        """Change the outcome to `unmeasured` and keep the observed values."""
        self.outcome, self.cause, self.proof = catalogue.UNMEASURED, causes.explain(cause, detail), None
        return self

    def to_verdict(self, asked: Mapping[str, Any], known: Container[str]) -> dict[str, Any]:
        """Return the complete verdict.

        Args:
            asked: the planned test.
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
            "observed": _drop_non_finite(self.observed) or None,
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


def _drop_non_finite(value: Any) -> Any:
    """Replace NaN, infinity and numbers beyond a float by null: bad input must not stop the judge."""
    if isinstance(value, (int, float)):
        return value if isinstance(value, bool) or is_number(value) else None
    return (
        {key: _drop_non_finite(inner) for key, inner in value.items()}
        if isinstance(value, Mapping)
        else value
    )
