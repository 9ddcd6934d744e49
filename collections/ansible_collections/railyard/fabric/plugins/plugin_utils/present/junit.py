# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The report as JUnit XML, which CI systems read: a suite per check, a case per question."""

from __future__ import annotations

from xml.etree import ElementTree as Xml

from ansible_collections.railyard.fabric.plugins.plugin_utils.present import wording
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.measurement import Measurement
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.model import CheckTable, Report


def render(report: Report) -> str:
    """Return the document: fail is a failure, unmeasured an error, what was not asked is skipped.

    JUnit has no word for `recorded`. It was asked and measured, so that it is not skipped; that no authority
    says whether its number is good stands in the case's properties `outcome` and `basis`.
    """
    root = Xml.Element("testsuites", name=f"railyard {report.cluster} {report.run}")
    causes = {
        identity: problem.cause + (f"\nNext: {problem.next}" if problem.next else "")
        for problem in report.problems
        for identity in problem.ids
    }
    for table in report.tables:
        cases = [item for item in report.measurements if item.check == table.check]
        root.append(_suite(report, table, cases, causes))
    if report.incomplete:
        root.append(_run_suite(report))
    for name in ("tests", "failures", "errors", "skipped"):
        root.set(name, str(sum(int(suite.get(name, "0")) for suite in root)))
    Xml.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + Xml.tostring(root, encoding="unicode") + "\n"


def _run_suite(report: Report) -> Xml.Element:
    """An error for the run itself: its cases may all be good, and it is not proven all the same."""
    suite = Xml.Element("testsuite", name="run", tests="1", failures="0", errors="1", skipped="0")
    case = Xml.SubElement(suite, "testcase", classname=f"{report.cluster}.run", name=report.run)
    Xml.SubElement(case, "error", message=f"the run is incomplete: {report.incomplete}", type="unmeasured")
    return suite


def _suite(
    report: Report, table: CheckTable, cases: list[Measurement], causes: dict[str, str]
) -> Xml.Element:
    counts = table.counts
    suite = Xml.Element(
        "testsuite",
        name=table.check,
        tests=str(len(cases)),
        failures=str(counts.get("fail", 0)),
        errors=str(counts.get("unmeasured", 0)),
        skipped=str(counts.get("not_applicable", 0)),
        timestamp=report.started.removesuffix(" UTC").replace(" ", "T"),
    )
    for item in cases:
        case = Xml.SubElement(
            suite, "testcase", classname=f"{report.cluster}.{item.check}", name=f"{item.where} [{item.id}]"
        )
        properties = Xml.SubElement(case, "properties")
        for name, value in (("outcome", item.outcome), ("basis", item.basis)):
            if value:
                Xml.SubElement(properties, "property", name=name, value=value)
        cause = causes.get(item.id, "")
        told = "; ".join(
            part
            for part in (
                item.observed_text and f"seen: {item.observed_text}",
                item.bounds_text and f"expected: {item.bounds_text}",
                item.basis and f"authority: {item.basis}",
            )
            if part
        )
        if item.outcome in ("fail", "unmeasured"):
            kind = "failure" if item.outcome == "fail" else "error"
            found = Xml.SubElement(case, kind, message=cause or told, type=item.outcome)
            found.text = "\n".join(part for part in (cause, told) if part)
        elif item.outcome == "not_applicable":
            Xml.SubElement(case, "skipped", message=f"{wording.outcome(item.outcome).word}: {item.basis}")
        if told and item.outcome in ("pass", "recorded"):
            Xml.SubElement(case, "system-out").text = told
    return suite
