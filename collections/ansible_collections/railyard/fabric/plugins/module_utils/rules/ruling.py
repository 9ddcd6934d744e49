# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The result of a rule on a node's facts, for the node's quick check and for the verdicts of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

PASS, FAIL, UNMEASURED, NOT_APPLICABLE, RECORDED = "pass", "fail", "unmeasured", "not_applicable", "recorded"


@dataclass
class Ruling:
    """What a rule says.

    Attributes:
        outcome: as a verdict has it.
        observed: what was seen, metric -> value.
        floor: metric -> least value (for a state, the state itself).
        ceiling: metric -> greatest value (for a state, the state itself).
        basis: what the bounds rest on.
        cause: id in the cause table, None where there is nothing to explain.
        detail: what was found that contradicts it.
        proof: `proven` when the facts are complete, else None.
    """

    outcome: str = UNMEASURED
    observed: dict[str, Any] = field(default_factory=dict)
    floor: dict[str, Any] = field(default_factory=dict)
    ceiling: dict[str, Any] = field(default_factory=dict)
    basis: str = ""
    cause: str | None = None
    detail: str = ""
    proof: str | None = None

    @classmethod
    def passed(cls, observed: dict[str, Any], wanted: Mapping[str, Any], basis: str) -> Ruling:
        """Return the pass of a state that must be exactly the wanted one; what speaks against comes after."""
        return cls(PASS, observed, dict(wanted), dict(wanted), basis, proof="proven")

    @classmethod
    def not_applicable(cls, basis: str) -> Ruling:
        """Return the result of a check that the inventory excludes; `basis` is the reason."""
        return cls(NOT_APPLICABLE, basis=basis)

    def recorded(self, basis: str) -> Ruling:
        """Turn it into `recorded`, keeping what was seen: nothing bounds it, as `basis` says."""
        self.outcome, self.floor, self.ceiling, self.basis = RECORDED, {}, {}, basis
        return self

    def failed(self, cause: str, detail: str) -> Ruling:
        """Turn it into a failure, keeping what was seen."""
        self.outcome, self.cause, self.detail, self.proof = FAIL, cause, detail, None
        return self

    def unknown(self, cause: str, detail: str) -> Ruling:
        """Turn it into `unmeasured`, keeping what was seen."""
        self.outcome, self.cause, self.detail, self.proof = UNMEASURED, cause, detail, None
        return self
