# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The state of choosing a node's driver: decisions and refusals."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

AUTO = "auto"
#: What `gpu_info` returned, and what `choice.choose` made of it.
Facts = Mapping[str, Any]
Choice = Mapping[str, Any]


@dataclasses.dataclass
class Work:
    """Decisions so far, and refusals."""

    facts: Facts
    asked: Mapping[str, Any]
    layout: Mapping[str, Any]
    refusals: list[dict[str, str]] = dataclasses.field(default_factory=list)
    findings: list[dict[str, str]] = dataclasses.field(default_factory=list)

    def refuse(self, code: str, what: str, fix: str) -> None:
        """Add a reason why nothing can be installed."""
        self.refusals.append({"code": code, "text": f"{what}. Fix: {fix}."})

    def find(self, code: str, text: str) -> None:
        """Add what the person should know, and which does not stop the installation."""
        self.findings.append({"code": code, "text": text})
