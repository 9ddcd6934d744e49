# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A verdict as the report shows it: where, what was seen, what was expected."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.present import wording
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.grouping import place_text


@dataclass(frozen=True)
class Measurement:
    """One verdict, with the data that its rows have about both nodes."""

    check: str
    node: str
    peer: str
    rail: str
    direction: str
    outcome: str
    observed: dict[str, Any]
    floor: dict[str, Any]
    ceiling: dict[str, Any]
    basis: str
    tool: str
    cpu: str
    id: str
    subject: str = ""
    """What was checked on the node, where the test is of one node alone."""
    cable: str = ""
    """The cable that the finding names, if any."""

    @property
    def where(self) -> str:
        """The place of the measurement."""
        return self.cable or place_text(self.node, self.peer, self.rail or self.subject)

    @cached_property
    def metric(self) -> str | None:
        """The key of the main number."""
        return wording.main_metric(self.observed)

    @cached_property
    def value(self) -> float | None:
        """The main number; None where there is none."""
        return float(self.observed[self.metric]) if self.metric else None

    @property
    def observed_text(self) -> str:
        """What was seen."""
        return wording.observed_text(self.observed)

    @property
    def bounds_text(self) -> str:
        """What was expected."""
        return wording.bounds_text(self.floor, self.ceiling)

    @cached_property
    def bounds(self) -> tuple[tuple[str, str], ...]:
        """Floor and ceiling separately, as (label, text); one entry where only one value is right."""
        if self.floor and self.floor == self.ceiling:
            return (("exactly", self.bounds_text),)
        labelled = (
            ("floor", wording.bounds_text(self.floor, {})),
            ("ceiling", wording.bounds_text({}, self.ceiling)),
        )
        return tuple((name, text) for name, text in labelled if text)
