# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The headline of a fabric, and findings folded by cause."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.cause_table import subnets
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet import summary
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import (
    Coverage,
    Finding,
    Judgement,
    LeafState,
)

COVERAGE = Coverage(6, 64, 0, 128, 256, 64, 63, 60.0, None, 1)
LEAF = LeafState("0xa", "leaf0", 16, 1600, None, 1600, None, None, 1.0, None, None, {})


def judged(*findings: Finding, status: int = 0) -> Judgement:
    return Judgement(
        findings, {"a": 0, "b": 1}, True, (LEAF,) * 4, (), {}, {}, (), COVERAGE, status
    )  # fmt: skip


def narrow(node: str, severity: str = "fail", step: str = "reseat") -> Finding:
    return Finding("link_narrow", severity, "text", node=node, rail="rail2", next=step)


def test_each_cause_of_a_subnet_has_a_noun() -> None:
    rest = {cause.name for cause in subnets.TABLE} - set(summary.NOUNS)
    assert not rest


def test_the_headline_names_what_is_wrong_and_where_then_what_was_read() -> None:
    """The example of the design."""
    assert summary.write_headline([judged(narrow("gpu05"))]) == (
        "1 link too narrow: gpu05 rail2. 63 of 64 adapters, 4 leaves, 2 spines read."
    )


def test_many_places_are_counted() -> None:
    found = summary.write_headline([judged(*(narrow(f"gpu{number}") for number in range(5)))])
    assert found.startswith("5 links too narrow: gpu0 rail2, gpu1 rail2 and 3 more. ")


def test_many_causes_are_counted() -> None:
    causes = ("two_masters", "no_master", "flapped", "wrong_leaf", "no_answer")
    found = summary.write_headline([judged(*(Finding(one, "fail", "text") for one in causes))])
    assert "; 2 more. " in found


def test_warnings_are_no_fault_and_what_is_not_decided_is_no_all_clear() -> None:
    assert summary.write_headline([judged(narrow("gpu1", "warn"))]).startswith(
        "No fault found. Warnings: 1 link too narrow: gpu1 rail2. "
    )
    assert summary.write_headline([judged(narrow("gpu1", "unmeasured"))]).startswith(
        "Not decided: 1 link too narrow: gpu1 rail2. 63 of"
    )
    assert summary.write_headline([judged()]) == "No fault found. 63 of 64 adapters, 4 leaves, 2 spines read."


def test_several_subnets_are_summed_up() -> None:
    assert summary.write_coverage([judged(), judged()]) == "126 of 128 adapters, 8 leaves, 4 spines read."


def test_switches_of_three_tiers_are_not_all_spines() -> None:
    three = judged()._replace(tiers={"a": 0, "b": 1, "c": 2})
    assert summary.write_coverage([three]) == "63 of 64 adapters, 4 leaves, 2 higher switches read."


def test_findings_fold_by_cause_failures_first() -> None:
    findings = (narrow("a", "warn"), Finding("flapped", "fail", "text"), narrow("b"), narrow("c"))
    ((first, second, third),) = [summary.fold_findings(list(enumerate(findings, 1)))]
    assert (first.cause, second.cause, third.cause) == ("flapped", "link_narrow", "link_narrow")
    assert [number for number, _finding in second.findings] == [3, 4]
    assert second.next == "reseat"
    assert summary.fold_findings([(1, narrow("a")), (2, narrow("b", step="other"))])[0].next is None


def test_numbers_go_on_over_subnets() -> None:
    numbered = summary.number_findings([judged(narrow("a"), narrow("b")), judged(narrow("c"))])
    assert [[number for number, _finding in mine] for mine in numbered] == [[1, 2], [3]]
