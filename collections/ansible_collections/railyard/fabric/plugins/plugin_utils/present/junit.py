# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Write the report as JUnit XML, which CI systems read: a suite per check, a case per test.

In a large run only failed and unmeasured tests keep their own case: CI systems refuse or choke on files
of many megabytes. The others are one case per node and rail, or per rail where those are too many.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Iterable, Iterator
from xml.etree import ElementTree as Xml

from ansible_collections.railyard.fabric.plugins.plugin_utils.present import wording
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.measurement import (
    Measurement,
    PassedTests,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.model import CheckTable, Report

#: More tests than this are folded; a separate case is about 800 bytes.
_MOST_CASES = 1200
#: More cases of nodes and rails than this are folded to rails; such a case is about 150 bytes.
_MOST_PLACES = 4000
#: Number of bad cases, and of their characters, that are written in full; the others are counted.
_MOST_BAD = 500
_MOST_CHARACTERS = 400_000
#: Characters about the worst of many tests that share a case.
_MOST_MESSAGE = 300

_BAD = {"fail": "failure", "unmeasured": "error"}


def render(report: Report) -> str:
    """Return the document: `fail` is a failure, `unmeasured` an error, `not_applicable` is skipped.

    JUnit has no equivalent of `recorded`. Such a test was measured, so it is not skipped; the properties
    `outcome` and `basis` of the case show that no source gives a threshold.
    """
    root = Xml.Element("testsuites", name=f"railyard {report.cluster} {report.run}")
    causes = {
        identity: problem.cause + (f"\nNext: {problem.next}" if problem.next else "")
        for problem in report.problems
        for identity in problem.ids
    }
    cases: dict[str, list[Measurement]] = {table.check: [] for table in report.tables}
    for item in report.measurements:
        cases[item.check].append(item)
    fold = _Fold(report)
    for table in report.tables:
        passed = [tests for tests in report.passes if tests.first.check == table.check]
        root.append(_suite(report, table, cases[table.check], passed, causes, fold))
    if report.incomplete:
        root.append(_run_suite(report))
    for name in ("tests", "failures", "errors", "skipped"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    Xml.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"


def _run_suite(report: Report) -> Xml.Element:
    """Return an error for the run itself: it is incomplete even if all its cases are good."""
    suite = Xml.Element("testsuite", name="run", tests="1", failures="0", errors="1", skipped="0")
    case = Xml.SubElement(suite, "testcase", classname=f"{report.cluster}.run", name=report.run)
    Xml.SubElement(case, "error", message=f"the run is incomplete: {report.incomplete}", type="unmeasured")
    return suite


class _Fold:
    """Decides which tests share a case, and how much may still be written in full."""

    def __init__(self, report: Report) -> None:
        self._is_small = len(report.measurements) <= _MOST_CASES and not report.passes
        places = {(item.check, item.node, item.rail) for item in report.measurements}
        for tests in report.passes:
            places |= {(tests.first.check, node, tests.first.rail) for node, _count in tests.count_by_node()}
        bad = sum(item.outcome in _BAD for item in report.measurements)
        self._by_node = len(places) <= _MOST_PLACES and bad <= _MOST_BAD
        self._left = _MOST_CHARACTERS

    def has_own_case(self, item: Measurement, cause: str) -> bool:
        """Tell whether a test keeps its own case."""
        if self._is_small:
            return True
        if item.outcome not in _BAD:
            return False
        self._left -= 2 * len(cause) + 2 * len(item.basis) + 400
        return self._left > 0

    def place(self, item: Measurement) -> str:
        """Return the name of the case that a test shares."""
        return f"{item.node} {item.rail}".strip() if self._by_node else item.rail or "nodes"

    def count_passes(self, tests: PassedTests) -> Iterator[tuple[str, int]]:
        """Yield the names of the cases that passes share, and how many share each."""
        if not self._by_node:
            yield tests.first.rail, len(tests)
            return
        yield from ((f"{node} {tests.first.rail}", count) for node, count in tests.count_by_node())


def _suite(
    report: Report,
    table: CheckTable,
    items: list[Measurement],
    passed: Iterable[PassedTests],
    causes: dict[str, str],
    fold: _Fold,
) -> Xml.Element:
    suite = Xml.Element("testsuite", name=table.check)
    shared: dict[str, list[Measurement]] = {}
    passes: Counter[str] = Counter()
    for tests in passed:
        for place, count in fold.count_passes(tests):
            shared.setdefault(place, [])
            passes[place] += count
    for item in items:
        cause = causes.get(item.id, "")
        if fold.has_own_case(item, cause):
            suite.append(_case(report, item, cause))
        else:
            shared.setdefault(fold.place(item), []).append(item)
    for where, mine in sorted(shared.items(), key=operator.itemgetter(0)):
        suite.append(_shared_case(report, table.check, where, mine, passes[where], causes))
    suite.set("tests", str(len(suite)))
    for name, kind in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
        suite.set(name, str(sum(case.find(kind) is not None for case in suite)))
    suite.set("timestamp", report.started.removesuffix(" UTC").replace(" ", "T"))
    return suite


def _shared_case(
    report: Report, check: str, where: str, items: list[Measurement], passes: int, causes: dict[str, str]
) -> Xml.Element:
    """Return one case for many tests: as bad as the worst, with the number of each outcome.

    `passes` is how many more clearly pass.
    """
    case = Xml.Element("testcase", classname=f"{report.cluster}.{check}", name=where)
    counts = Counter(item.outcome for item in items)
    counts["pass"] += passes
    tally = ", ".join(
        f"{counts[outcome.name]} {outcome.word}"
        for outcome in wording.OUTCOMES.values()
        if counts[outcome.name]
    )
    worst = next((item for name in _BAD for item in items if item.outcome == name), None)
    if worst is not None:
        message = f"{tally}; such as {worst.where}: {causes.get(worst.id, worst.basis)}"
        Xml.SubElement(case, _BAD[worst.outcome], message=message[:_MOST_MESSAGE], type=worst.outcome)
    elif set(+counts) == {"not_applicable"}:
        Xml.SubElement(case, "skipped", message=f"{tally}: {items[0].basis}")
    else:
        Xml.SubElement(case, "system-out").text = tally
    return case


def _case(report: Report, item: Measurement, cause: str) -> Xml.Element:
    case = Xml.Element(
        "testcase", classname=f"{report.cluster}.{item.check}", name=f"{item.where} [{item.id}]"
    )
    properties = Xml.SubElement(case, "properties")
    for name, value in (("outcome", item.outcome), ("basis", item.basis)):
        if value:
            Xml.SubElement(properties, "property", name=name, value=value)
    details = "; ".join(
        part
        for part in (
            item.observed_text and f"seen: {item.observed_text}",
            item.bounds_text and f"expected: {item.bounds_text}",
            item.basis and f"source: {item.basis}",
        )
        if part
    )
    if item.outcome in _BAD:
        found = Xml.SubElement(case, _BAD[item.outcome], message=cause or details, type=item.outcome)
        found.text = "\n".join(part for part in (cause, details) if part)
    elif item.outcome == "not_applicable":
        Xml.SubElement(case, "skipped", message=f"{wording.outcome(item.outcome).word}: {item.basis}")
    if details and item.outcome in ("pass", "recorded"):
        Xml.SubElement(case, "system-out").text = details
    return case
