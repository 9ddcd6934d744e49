# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A verdict as the report shows it: where, what was seen, what was expected."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.arrays import Floats, np
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import catalogue
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_number
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict.verdicts import Passes
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean_all
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import wording
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.grouping import LINK_ERRORS, place_text

# Fields of a verdict that are text or absent.
_TEXTS = ("node", "peer", "rail", "subject", "direction", "basis", "tool", "id")


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

    @classmethod
    def of_verdict(
        cls, verdict: Mapping[str, Any], cables: Mapping[tuple[str, str], str] | None = None
    ) -> Measurement:
        """Read a verdict, whose text is clean; `cables`: (node, rail) -> its cable."""
        observed, place = verdict.get("observed") or {}, (str(verdict.get("node")), str(verdict.get("rail")))
        return cls(
            **{key: str(verdict.get(key) or "") for key in _TEXTS},
            check=str(verdict.get("check")),
            outcome=wording.outcome(verdict.get("outcome")).name,
            observed={key: value for key, value in observed.items() if not key.endswith("cpu_percent")},
            floor=dict(verdict.get("floor") or {}),
            ceiling=dict(verdict.get("ceiling") or {}),
            cpu=_cpu(observed),
            cable=(cables or {}).get(place, "") if verdict.get("check") == LINK_ERRORS else "",
        )

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


@dataclass(frozen=True)
class PassedTests:
    """Measurements that clearly pass, and differ only in id, nodes and observed values; all text is clean."""

    first: Measurement
    passes: Passes

    def __len__(self) -> int:
        return self.passes.count

    @property
    def values(self) -> Floats:
        """The main numbers; NaN where there is none."""
        return self.passes.observed.get(self.first.metric or "", np.full(len(self), np.nan))

    def count_by_node(self) -> Iterator[tuple[str, int]]:
        """Yield each node that sent, and how many of them it sent."""
        for node, count in zip(*np.unique(self.passes.node, return_counts=True), strict=True):
            yield self.passes.names[node], int(count)

    def worst(self, most: int) -> Iterator[Measurement]:
        """Yield the worst of them, at most so many."""
        badly = -self.values if is_lower_better(self.first) else self.values
        for place in self.passes.places[np.argsort(badly, kind="stable")[:most]].tolist():
            yield Measurement.of_verdict(clean_all(self.passes.source[place]))


def badness(measurement: Measurement) -> tuple[int, float, str]:
    """Return the sort key, worst first: by outcome, then the lowest bandwidth or the highest latency."""
    rank = list(catalogue.OUTCOMES_WORST_FIRST).index(measurement.outcome)
    value = measurement.value if measurement.value is not None else 0.0
    return rank, -value if is_lower_better(measurement) else value, measurement.id


def is_lower_better(measurement: Measurement) -> bool:
    """Tell whether a lower main number is better."""
    return (measurement.metric or "").endswith(("_us", "_percent"))


def _cpu(observed: Mapping[str, Any]) -> str:
    """Return the CPU use at both nodes: of the tool, and of the node where it was counted."""
    parts = []
    for end, prefix in (("client", ""), ("server", "peer_")):
        tool, node = observed.get(f"{prefix}cpu_percent"), observed.get(f"{prefix}node_cpu_percent")
        shares = [f"{wording.number(tool)} %"] if is_number(tool) else []
        shares += [f"node {wording.number(node)} %"] if is_number(node) else []
        if shares:
            parts.append(f"{end} {', '.join(shares)}")
    return "; ".join(parts)
