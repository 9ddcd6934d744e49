# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What came of reading a fabric, for people: the headline, and findings folded by their cause."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.causes import CAUSES
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import named
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Finding, Judgement, Severity

#: Cause -> what one is called in the headline, and several.
NOUNS = {
    "link_narrow": ("link too narrow", "links too narrow"),
    "link_lanes_slow": ("link too slow", "links too slow"),
    "link_lost": ("link lost", "links lost"),
    "link_down": ("link down", "links down"),
    "adapter_missing": ("adapter without a link", "adapters without a link"),
    "adapter_unknown": ("unknown adapter", "unknown adapters"),
    "host_misnamed": ("adapter with another node's name", "adapters with other nodes' names"),
    "name_not_unique": ("name used twice", "names used twice"),
    "switch_missing": ("switch missing", "switches missing"),
    "switch_guid_differs": ("switch exchanged", "switches exchanged"),
    "port_no_peer": ("port without a readable neighbor", "ports without a readable neighbor"),
    "guid_duplicate": ("GUID used twice", "GUIDs used twice"),
    "no_answer": ("device that does not answer", "devices that do not answer"),
    "errors_above_ber": ("link with too many errors", "links with too many errors"),
    "errors_counted": ("link with errors", "links with errors"),
    "flapped": ("link that went down and up", "links that went down and up"),
    "switch_errors": ("switch with errors on many links", "switches with errors on many links"),
    "errors_elsewhere": ("port with errors of another link", "ports with errors of other links"),
    "counter_saturated": ("error counter at its maximum", "error counters at their maximum"),
    "packets_discarded": ("group of ports that discard packets", "groups of ports that discard packets"),
    "pkey_limited": ("partition with limited members", "partitions with limited members"),
    "pkey_full": ("partition with members that are full", "partitions with members that are full"),
    "pkey_missing": ("partition that members are missing from", "partitions that members are missing from"),
    "pkey_extra": ("partition with members too many", "partitions with members too many"),
    "partitions_default": ("subnet in which all are one partition", "subnets in which all are one partition"),
    "two_masters": ("subnet with two masters", "subnets with two masters"),
    "no_master": ("subnet without a master", "subnets without a master"),
    "manager_unexpected": ("undeclared subnet manager", "undeclared subnet managers"),
    "manager_missing": ("subnet manager missing", "subnet managers missing"),
    "oversubscribed": ("leaf oversubscribed", "leaves oversubscribed"),
    "spines_unequal": ("leaf with unequal spines", "leaves with unequal spines"),
    "no_common_spine": ("pair of leaves without a path", "pairs of leaves without a path"),
    "same_level_link": ("link within a level", "links within a level"),
    "mixed_switch": ("switch with adapters and switches below", "switches with adapters and switches below"),
    "capture_old": ("capture older than the inventory", "captures older than the inventory"),
    "subnet_changed": ("change while reading", "changes while reading"),
    "subnet_denied": ("subnet that may not be read", "subnets that may not be read"),
    "subnet_damaged": ("part not understood", "parts not understood"),
    "subnet_unread": ("part not read", "parts not read"),
    "wrong_leaf": ("rail on a wrong leaf", "rails on a wrong leaf"),
    "cable_swapped": ("pair of exchanged cables", "pairs of exchanged cables"),
}  # fmt: skip
_CAUSES_NAMED, _PLACES_NAMED = 3, 2


class Folded(NamedTuple):
    """All findings of one cause and severity.

    Attributes:
        cause: its id.
        severity: how bad they are.
        sentence: what is wrong, from the cause table.
        findings: the findings, each with the number of its anchor.
        next: what to do, if all findings agree; else each has its own.
    """

    cause: str
    severity: Severity
    sentence: str
    findings: tuple[tuple[int, Finding], ...]
    next: str | None


def number_findings(judgements: Sequence[Judgement]) -> list[list[tuple[int, Finding]]]:
    """Number the findings of all subnets from 1, as the page's anchors are: a list for each subnet."""
    numbered, number = [], 0
    for judgement in judgements:
        numbered.append([(number + place, one) for place, one in enumerate(judgement.findings, 1)])
        number += len(judgement.findings)
    return numbered


def fold_findings(numbered: Sequence[tuple[int, Finding]]) -> list[Folded]:
    """Fold findings by cause: failures first, then what is unmeasured, then warnings."""
    order = ("fail", "unmeasured", "warn")
    groups: dict[tuple[str, Severity], list[tuple[int, Finding]]] = {}
    for number, one in sorted(numbered, key=lambda pair: order.index(pair[1].severity)):
        groups.setdefault((one.cause, one.severity), []).append((number, one))
    folded = []
    for (cause, severity), found in groups.items():
        steps = {one.next for _number, one in found}
        row = CAUSES.get(cause)
        sentence = row.sentence if row else cause.replace("_", " ")
        step = steps.pop() if len(steps) == 1 else None
        folded.append(Folded(cause, severity, sentence, tuple(found), step))
    return folded


def write_headline(judgements: Sequence[Judgement]) -> str:
    """Write what came of a reading in one line: what is wrong and where, then how much was read."""
    findings = [one for judgement in judgements for one in judgement.findings]
    parts = []
    for severity, lead, empty in (
        ("fail", "", "No fault found."),
        ("unmeasured", "Not decided: ", ""),
        ("warn", "Warnings: ", ""),
    ):
        if texts := _name_causes([one for one in findings if one.severity == severity]):
            parts.append(f"{lead}{texts}.")
        elif empty and all(one.severity != "unmeasured" for one in findings):
            parts.append(empty)
    return " ".join([*parts, write_coverage(judgements)])


def write_coverage(judgements: Sequence[Judgement]) -> str:
    """Write how much was read, such as `63 of 64 adapters, 4 leaves read`."""
    covered = [judgement.coverage for judgement in judgements]
    found, expected = sum(one.found_ports for one in covered), sum(one.expected_ports for one in covered)
    leaves = sum(len(judgement.leaves) for judgement in judgements)
    above = sum(one.switches for one in covered) - leaves
    tiers = {tier for judgement in judgements for tier in judgement.tiers.values()}
    higher = "spine" if max(tiers, default=0) <= 1 else "higher switch"
    plural = "s" if higher == "spine" else "es"
    parts = [
        f"{found} of {expected} adapter{'' if expected == 1 else 's'}",
        f"{leaves} lea{'f' if leaves == 1 else 'ves'}",
        f"{above} {higher}{'' if above == 1 else plural}",
    ]
    return f"{', '.join(parts)} read."


def _name_causes(findings: Sequence[Finding]) -> str:
    by_cause: dict[str, list[Finding]] = {}
    for one in findings:
        by_cause.setdefault(one.cause, []).append(one)
    texts = []
    for cause, found in list(by_cause.items())[:_CAUSES_NAMED]:
        places = [" ".join(filter(None, (one.node, one.rail))) for one in found]
        where = f": {named(places, _PLACES_NAMED)}" if all(places) else ""
        single, several = NOUNS.get(cause, (f"finding {cause}", f"findings {cause}"))
        texts.append(f"{len(found)} {single if len(found) == 1 else several}{where}")
    rest = sum(len(found) for found in list(by_cause.values())[_CAUSES_NAMED:])
    return "; ".join([*texts, *([f"{rest} more"] if rest else [])])
