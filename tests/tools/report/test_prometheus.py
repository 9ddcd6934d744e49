"""railyard.prom: what node_exporter's textfile collector takes, always with railyard_run_complete."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest
from ansible_collections.railyard.fabric.plugins.action import fabric_open
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import model, prometheus
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.documents import write_report
from support.exposition import parse
from support.runs.fake_run import RUN
from support.runs.run_builder import build_run


def one(families, name):
    [value] = families[name].values()
    return value


def gauges(folder):
    return parse(prometheus.render(model.read(folder)))


def test_the_file_tells_the_run(tmp_path):
    folder = build_run(tmp_path / "lab" / RUN)
    write_report(folder)
    text = (folder / "railyard.prom").read_text(encoding="utf-8")
    assert text == prometheus.render(model.read(folder))
    found = parse(text)
    assert one(found, "railyard_run_complete") == 1
    assert one(found, "railyard_run_exit_status") == 0
    assert one(found, "railyard_run_timestamp_seconds") == 1795256100  # 2026-11-21T10:15:00Z
    verdicts = {key: value for key, value in found["railyard_verdicts"].items() if value}
    counts = model.read(folder).counts
    for outcome in ("pass", "recorded"):
        of = [value for key, value in verdicts.items() if ("outcome", outcome) in key]
        assert sum(of) == counts[outcome] > 0
    place = {"cluster": "lab", "check": "tcp_bandwidth", "node": "gpuserver1", "peer": "gpuserver2"}
    place |= {"rail": "rail0", "direction": "uni"}
    assert found["railyard_bandwidth_gbps"][frozenset(place.items())] == pytest.approx(9.37)
    # The unit is in every name, and the run's id in no series that lasts.
    for name, series in found.items():
        if name.startswith("railyard_run_") or name == "railyard_verdicts":
            continue
        assert re.search(r"_(gbps|mpps|us|percent|bytes|count|mbps|s)$", name), name
        assert not [labels for labels in series if "run" in dict(labels)]


def test_a_run_says_that_it_is_not_complete_from_its_first_moment(tmp_path, monkeypatch):
    """As one that is killed leaves it."""
    monkeypatch.setattr(fabric_open.plan, "build_plan", lambda _inventory: {"nodes": {}})
    inventory = SimpleNamespace(
        cluster="lab", policy={}, selected=(), nodes=(), sources=(), selected_nodes=list
    )
    folder = fabric_open._new(str(tmp_path), None, inventory)
    found = parse((folder.path / prometheus.FILE).read_text(encoding="utf-8"))
    assert found["railyard_run_complete"] == {frozenset({("cluster", "lab")}): 0}


def test_a_run_without_end_or_without_an_answer_is_not_complete(tmp_path):
    assert one(gauges(build_run(tmp_path / "lab" / RUN, end={})), "railyard_run_complete") == 0
    found = parse(prometheus.unjudged('a"b\\c\nd'))
    assert one(found, "railyard_run_complete") == 0
    assert one(found, "railyard_run_exit_status") == 3

    def silent(row):
        return None if row["check"] == "tcp_bandwidth" else row

    found = gauges(build_run(tmp_path / "silent" / RUN, change_result=silent))
    assert one(found, "railyard_run_complete") == 1
    assert one(found, "railyard_run_exit_status") == 3
    told = {dict(labels)["check"] for labels in found["railyard_bandwidth_gbps"]}
    assert "tcp_bandwidth" not in told, "no number of what is unmeasured"


def test_a_node_invents_no_gauge_and_no_label(tmp_path):
    def inventive(row):
        row["metrics"]['x{y="z"} 1\nrailyard_run_complete'] = 1
        row["metrics"]["mine_gbps"] = 5
        return row

    nodes = ('a"}\n# TYPE x', "b\\")
    found = gauges(build_run(tmp_path / "lab" / RUN, nodes=nodes, change_result=inventive))
    assert "railyard_mine_gbps" not in found
    assert {dict(labels)["peer"] for labels in found["railyard_bandwidth_gbps"]} == {
        'a\\"} / # TYPE x',
        "b\\\\",
    }


def test_many_series_are_folded_to_rails_with_a_note(tmp_path, monkeypatch):
    folder = build_run(tmp_path / "lab" / RUN, nodes=("a1", "a2", "a3"))
    whole = gauges(folder)
    monkeypatch.setattr(prometheus, "MOST_SERIES", 200)
    text = prometheus.render(model.read(folder))
    found = parse(text)
    assert re.search(r"^# [0-9]+ series of nodes and peers are folded", text, flags=re.M)
    values = [
        value
        for labels, value in whole["railyard_bandwidth_gbps"].items()
        if {("check", "tcp_bandwidth"), ("rail", "rail1")} <= labels
    ]
    labels = {"cluster": "lab", "check": "tcp_bandwidth", "rail": "rail1", "direction": "uni"}
    for stat, value in (("min", min(values)), ("max", max(values))):
        key = frozenset({**labels, "stat": stat}.items())
        assert found["railyard_bandwidth_gbps"][key] == value
    monkeypatch.setattr(prometheus, "MOST_SERIES", 3)
    text = prometheus.render(model.read(folder))
    assert one(parse(text), "railyard_run_complete") == 1
    assert "is left out" in text
