"""JUnit: the same counts as the verdicts, each failure with its cause, many questions folded."""

from __future__ import annotations

import re
from xml.etree import ElementTree as Xml

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import junit, model
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.documents import write_report
from support.runs.fake_run import RUN
from support.runs.run_builder import build_run, slow_and_silent


@pytest.fixture
def bad(tmp_path):
    return build_run(tmp_path / "lab" / RUN, change_result=slow_and_silent)


def test_junit_says_the_same_as_the_counts(bad):
    write_report(bad)
    read = model.read(bad)
    root = Xml.parse(bad / "junit.xml").getroot()
    assert len(root.findall(".//testcase")) == sum(read.counts.values()) == int(root.get("tests"))
    assert len(root.findall(".//failure")) == read.counts["fail"] == int(root.get("failures")) == 1
    assert len(root.findall(".//error")) == read.counts["unmeasured"] == int(root.get("errors")) == 4
    # A recorded test was measured: it is not skipped, and its properties show that it has no threshold.
    recorded = [
        case for case in root.iter("testcase") if case.find(".//property[@value='recorded']") is not None
    ]
    assert len(recorded) == read.counts["recorded"] > 0
    for case in recorded:
        assert [child.tag for child in case] == ["properties", "system-out"]
        assert case.find(".//property[@name='basis']").get("value")
    assert root.get("skipped") == str(read.counts["not_applicable"]) == str(len(root.findall(".//skipped")))
    assert "below its floor" in root.find(".//failure").get("message")


def test_junit_of_many_questions_folds_what_is_good_and_tells_what_is_not(bad, monkeypatch):
    write_report(bad)
    read = model.read(bad)
    whole = Xml.parse(bad / "junit.xml").getroot()
    monkeypatch.setattr(junit, "_MOST_CASES", 10)
    monkeypatch.setattr(junit, "_MOST_PLACES", 0)
    folded = Xml.fromstring(junit.render(read))
    for kind in ("failure", "error"):
        full, told = (
            [
                (case.get("name"), case.find(kind).attrib, case.find(kind).text)
                for case in root.findall(f".//{kind}/..")
            ]
            for root in (whole, folded)
        )
        assert told == full
    assert len(folded.findall(".//testcase")) == int(folded.get("tests")) < int(whole.get("tests"))
    said = [one.text for one in folded.iter("system-out")]
    for outcome in ("pass", "recorded"):
        counted = sum(int(found) for text in said for found in re.findall(rf"(\d+) {outcome}", text))
        assert counted == read.counts[outcome]
    # Where what is not good is too much to tell, it still fails, and is counted.
    monkeypatch.setattr(junit, "_MOST_CHARACTERS", 0)
    monkeypatch.setattr(junit, "_MOST_BAD", 0)
    shut = Xml.fromstring(junit.render(read))
    assert int(shut.get("failures")) >= 1
    assert any("1 fail" in one.get("message") for one in shut.iter("failure"))


def test_junit_tells_the_cause_of_each_question_and_no_others(tmp_path):
    """One cause at two checks of two rails is not the cause of what those checks met at the other rail."""
    told = {("tcp_bandwidth", "rail0"): "a job", ("tcp_latency", "rail1"): "a job"}
    told |= dict.fromkeys(
        (("tcp_bandwidth", "rail1"), ("ping_rtt", "rail0"), ("ping_rtt", "rail1")), "another job"
    )

    def busy(row):
        said = told.get((row["check"], row["rail"]))
        if said and row["node"] == "gpuserver1":
            error = {"class": "busy", "message": said, "host": row["host"], "fix": None}
            row.update(status="unmeasured", metrics={}, proof=None, error=error)
        return row

    folder = build_run(tmp_path / "lab" / RUN, change_result=busy)
    write_report(folder)
    root = Xml.parse(folder / "junit.xml").getroot()
    for (check, rail), said in told.items():
        cases = root.findall(f"./testsuite[@name='{check}']/testcase")
        where = f"gpuserver1 → gpuserver2, {rail} "
        [case] = [one for one in cases if one.get("name", "").startswith(where)]
        message = case.find("error").get("message")
        assert f": {said}" in message, (check, rail)
