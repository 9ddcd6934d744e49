"""The lists of runs and of clusters: newest first, each rail's history; what is no run is skipped."""

from __future__ import annotations

import json
import os
import re
import statistics

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import folded, rejudge
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import history, run_lists
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.documents import write_report
from support.runs.fake_run import RUN
from support.runs.report_page import HOSTILE, Page
from support.runs.run_builder import build_run, slow_and_silent

IDS = [f"2026112{day}T101500Z-3f2a" for day in range(2, 6)]


def renamed(folder, name):
    """Let a run be of another id."""
    for path in folder.iterdir():
        if path.is_file():
            path.write_text(path.read_text(encoding="utf-8").replace(RUN, name), encoding="utf-8")
    return folder.rename(folder.with_name(name))


@pytest.fixture
def lab(tmp_path):
    """A cluster with three judged runs; the second is bad, the last has its page."""
    for name, change in zip(IDS[:3], (lambda row: row, slow_and_silent, lambda row: row), strict=True):
        folder = renamed(build_run(tmp_path / "lab" / RUN, change_result=change), name)
        rejudge.rejudge(folder)
    (folder / "index.html").touch()
    assert run_lists.write(folder) == []
    return tmp_path / "lab"


def page_of(folder):
    return Page((folder / "index.html").read_text(encoding="utf-8"))


def is_harmless(folder):
    assert "script" not in {tag for tag, _of in page_of(folder).tags}
    assert not re.search(
        r"[\x00-\x08\x0b-\x1f\x7f\u202e]", (folder / "index.html").read_text(encoding="utf-8")
    )


def links(page):
    return [attributes["href"] for tag, attributes in page.tags if tag == "a"]


def test_runs_are_listed_newest_first_with_what_came_out(lab):
    text = page_of(lab).text
    found = history.read_cluster(lab)
    assert [(run.run, run.outcome, run.has_page) for run in found.runs] == [
        (IDS[2], "pass", True),
        (IDS[1], "fail", False),
        (IDS[0], "pass", False),
    ]
    assert found.runs[1].counts["fail"] == 1
    assert links(page_of(lab)) == ["../index.html", f"{IDS[2]}/index.html"]
    assert text.index(IDS[2]) < text.index(IDS[1]) < text.index(IDS[0])
    # A slow number is proven, and is part of the history; a missing one is a gap and no number.
    [tcp] = [one for one in found.history if one.title == "TCP bandwidth"]
    assert (tcp.unit, tcp.rails) == ("Gbit/s", ("rail0", "rail1"))
    before, slow, after = tcp.values(1)
    assert before == after == pytest.approx(9.35)
    assert slow == pytest.approx((9.36 + 3.1) / 2, abs=0.02)
    assert "<path" in (lab / "index.html").read_text(encoding="utf-8")


def test_a_run_whose_passes_are_counts_is_listed_as_with_a_line_for_each(lab, monkeypatch):
    before = history.read_cluster(lab)
    monkeypatch.setattr(folded.fold_verdicts, "__defaults__", (0,))
    for name in IDS[:2]:
        whole = (lab / name / "verdicts.jsonl").read_text(encoding="utf-8")
        rejudge.rejudge(lab / name)
        assert len((lab / name / "verdicts.jsonl").read_text(encoding="utf-8")) < len(whole)
    after = history.read_cluster(lab)
    assert [run.counts for run in after.runs] == [run.counts for run in before.runs]
    assert [run.outcome for run in after.runs] == ["pass", "fail", "pass"]
    # Both senders of a rail are alike but for the slow one: the median of medians is that of the others.
    assert [run.numbers for run in after.runs] == [
        pytest.approx(run.numbers, rel=0.01) for run in before.runs
    ]


@pytest.mark.parametrize(
    "counts", [{3.5: 1}, {2.0: 1, 4.0: 1}, {9.0: 2, 1.0: 3}, {1.0: 2, 9.0: 2, 5.0: 1}, {7.0: 3, 8.0: 3}]
)
def test_a_median_counts_each_value_as_often_as_it_was_seen(counts):
    written_out = [value for value, count in counts.items() for _each in range(count)]
    assert history._find_median(counts) == statistics.median(written_out)


def test_the_list_of_clusters_has_the_newest_run_of_each(lab, tmp_path):
    name = "odd <b>&\u00e9:"
    (tmp_path / "no cluster").mkdir()
    other = build_run(tmp_path / name / RUN)
    rejudge.rejudge(other)
    assert run_lists.write(other) == []
    page = page_of(tmp_path)
    assert sorted(links(page)) == ["lab/index.html", "odd%20%3Cb%3E%26%C3%A9%3A/index.html"]
    assert {"b"} & {tag for tag, _of in page_of(tmp_path / name).tags} == {"b"}
    assert name in page.text
    assert "1 folder beside them without a run" in page.text


def spoil_manifest(run):
    (run / "manifest.json").write_text("{", encoding="utf-8")


def spoil_id(run):
    other = json.loads((run / "manifest.json").read_text(encoding="utf-8")) | {"run": HOSTILE}
    (run / "manifest.json").write_text(json.dumps(other), encoding="utf-8")


def pipe(run):
    (run / "manifest.json").unlink()
    os.mkfifo(run / "manifest.json")


def empty(run):
    for path in [path for path in run.iterdir() if path.is_file()]:
        path.unlink()


@pytest.mark.parametrize(
    "spoil",
    [spoil_manifest, spoil_id, pipe, empty, lambda run: run.rename(run.parent / HOSTILE.replace("/", ""))],
)
def test_a_torn_or_foreign_folder_is_reported_and_skipped(lab, spoil):
    spoil(lab / IDS[1])
    assert run_lists.write(lab / IDS[2]) == []
    assert [run.run for run in history.read_cluster(lab).runs] == [IDS[2], IDS[0]]
    assert page_of(lab).text.count("Skipped: ") == 1
    is_harmless(lab)


NUMBER = {"check": "tcp_bandwidth", "proof": "proven", "observed": {"bandwidth_gbps": 7}}
GARBAGE = [
    {"check": [], "rail": {}, "outcome": {}, "observed": 1},
    NUMBER | {"rail": {"a": 1}, "outcome": "pass"},
    NUMBER | {"rail": "rail0", "outcome": ["pass"], "observed": [1]},
    NUMBER | {"rail": HOSTILE, "outcome": "recorded"},
]


@pytest.mark.parametrize(
    ("lines", "note"),
    [
        (None, "it is not judged"),
        (lambda text: text[: len(text) // 2], "verdicts.jsonl lost a line"),
        (lambda text: "".join(text.splitlines(keepends=True)[3:]), "verdicts.jsonl lost a line"),
        (lambda text: text + "".join(json.dumps(row) + "\n" for row in GARBAGE), ""),
    ],
)
def test_a_run_with_incomplete_verdicts_is_no_pass(lab, lines, note):
    verdicts = lab / IDS[0] / "verdicts.jsonl"
    text = verdicts.read_text(encoding="utf-8")
    verdicts.unlink()
    if lines:
        verdicts.write_text(lines(text), encoding="utf-8")
    assert run_lists.write(lab / IDS[2]) == []
    run = history.read_cluster(lab).runs[-1]
    assert (run.run, run.outcome) == (IDS[0], "unmeasured")
    assert note in " ".join(run.notes)
    assert note in page_of(lab).text
    is_harmless(lab)


def test_what_another_program_wrote_is_left_and_a_copy_elsewhere_makes_no_list(lab, tmp_path):
    (lab / "index.html").write_text("mine", encoding="utf-8")
    [note] = run_lists.write(lab / IDS[2])
    assert "was left as it is" in note
    assert (lab / "index.html").read_text(encoding="utf-8") == "mine"
    copy = (lab / IDS[0]).rename(lab / "elsewhere")
    (lab / "index.html").unlink()
    assert run_lists.write(copy) == []
    assert not (lab / "index.html").exists()


def test_a_list_that_cannot_be_written_stops_no_report(lab, monkeypatch):
    def full(*_arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(run_lists.history, "read_cluster", full)
    (lab / IDS[2] / "index.html").unlink()
    assert "No space left" in " ".join(write_report(lab / IDS[2]))
    assert (lab / IDS[2] / "index.html").is_file()


def test_a_changed_policy_is_marked(lab):
    path = lab / IDS[1] / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    manifest["policy"] |= {"rdma_qps": 2}
    path.write_text(json.dumps(manifest), encoding="utf-8")
    run_lists.write(lab / IDS[2])
    assert [run.changed for run in history.read_cluster(lab).runs] == [
        ("rdma_qps 2 → 4",),
        ("rdma_qps 4 → 2",),
        (),
    ]
    assert "* policy: rdma_qps 4 → 2" in page_of(lab).text


def test_many_runs_are_read_up_to_a_number(lab):
    found = history.read_cluster(lab, most=2)
    assert ([run.run for run in found.runs], found.older) == ([IDS[2], IDS[1]], 1)


def test_a_gap_breaks_the_line():
    newest_first = tuple((None, (value,)) for value in (3.0, None, 1.0))
    assert history.CheckHistory("", "", ("rail0",), newest_first).values(0) == [1.0, None, 3.0]
    drawn = run_lists.trend([1.0, 2.0, None, 2.0])
    path = re.findall(r'<path d="([^"]*)"', drawn)[0]
    assert re.sub(r"[\d.,]", "", path) == "MLM"
    assert drawn.count("<circle") == 3
    assert run_lists.trend([None]).count("<circle") == 0
