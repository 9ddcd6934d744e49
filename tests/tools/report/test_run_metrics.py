"""railyard_runs.prom: all clusters in one file, who was proven when, what is not good."""

from __future__ import annotations

import json

from ansible_collections.railyard.fabric.plugins.module_utils.metrics import catalogue
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import node_results, run_metrics
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.documents import write_report
from support.exposition import parse
from support.runs.run_series import THREE, add_run, run_id, slow

# `date -u -d "2026-11-21 10:15" +%s`
DAY_S = 86400
END_OF_21ST_S = 1795256100


def text(reports):
    return (reports / run_metrics.FILE).read_text(encoding="utf-8")


def proven(reports, cluster="lab"):
    series = parse(text(reports)).get("railyard_node_proven_timestamp_seconds", {})
    return {dict(labels)["node"]: value for labels, value in series.items() if ("cluster", cluster) in labels}


def not_good(reports):
    series = parse(text(reports)).get("railyard_rail_not_good", {})
    keys = ("node", "rail", "outcome", "cause")
    return {tuple(dict(labels)[key] for key in keys) for labels, value in series.items() if value == 1}


def test_a_slow_rail_is_named_and_its_node_keeps_the_time_at_which_it_was_proven(tmp_path):
    add_run(tmp_path, 18)
    before = proven(tmp_path)
    assert set(before) == set(THREE)
    assert not_good(tmp_path) == set()
    add_run(tmp_path, 20, change_result=slow("gpu003", "rail1"))
    after = proven(tmp_path)
    # The partners of the slow rail are as good as before: what it spoiled is its own.
    assert not_good(tmp_path) == {("gpu003", "rail1", "fail", "rail_slow")}
    assert after["gpu003"] == before["gpu003"]
    assert after["gpu001"] == after["gpu002"] == before["gpu001"] + 2 * DAY_S
    assert before["gpu001"] // DAY_S == END_OF_21ST_S // DAY_S - 3


def test_a_run_of_some_nodes_says_nothing_new_of_the_others(tmp_path):
    add_run(tmp_path, 18, change_result=slow("gpu003", "rail1"))
    run_metrics.keep_inventory(tmp_path / "lab", ["gpu001", "gpu002", "gpu003", "gpu004"])
    add_run(tmp_path, 20, nodes=("gpu001", "gpu002", "gpu004"))
    assert not_good(tmp_path) == {("gpu003", "rail1", "fail", "rail_slow")}
    assert "gpu003" not in proven(tmp_path)
    assert proven(tmp_path)["gpu004"] == proven(tmp_path)["gpu001"]


def test_a_node_that_left_the_inventory_has_no_series_any_more(tmp_path):
    add_run(tmp_path, 18, change_result=slow("gpu003", "rail1"))
    run_metrics.keep_inventory(tmp_path / "lab", ["gpu001", "gpu002"])
    run_metrics.write(tmp_path)
    assert not_good(tmp_path) == set()
    assert set(proven(tmp_path)) == {"gpu001", "gpu002"}


def test_what_is_unmeasured_or_unproven_proves_no_node(tmp_path):
    def silent(row):
        mine = row["check"] == "tcp_bandwidth" and row["rail"] == "rail0" and row["host"] == "gpu002"
        return None if mine else row

    add_run(tmp_path, 18, change_result=silent)
    assert ("gpu002", "rail0", "unmeasured", "one_ended") in not_good(tmp_path)
    assert "gpu002" not in proven(tmp_path)


def test_an_interrupted_run_proves_no_node_and_a_run_under_way_leaves_the_older_one(tmp_path):
    add_run(tmp_path, 18)
    before = text(tmp_path)
    folder = add_run(tmp_path, 19, end={"at": "2026-11-19T10:20:00.000Z", "reason": "interrupted"})
    assert {value // DAY_S for value in proven(tmp_path).values()} == {END_OF_21ST_S // DAY_S - 3}
    manifest = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    (folder / "manifest.json").write_text(json.dumps({**manifest, "end": None}), encoding="utf-8")
    (folder / "node_results.json").unlink()
    run_metrics.write(tmp_path)
    assert text(tmp_path) == before


def test_all_clusters_are_in_one_file_with_each_family_once(tmp_path):
    add_run(tmp_path, 18, nodes=("a1", "a2"))
    add_run(tmp_path, 19, cluster="other", nodes=("b1", "b2"))
    found = parse(text(tmp_path))  # refuses a family in two pieces, and a series twice
    for name in ("railyard_run_complete", "railyard_run_exit_status", "railyard_run_info"):
        assert {dict(labels)["cluster"] for labels in found[name]} == {"lab", "other"}, name
    runs = {dict(labels)["cluster"]: dict(labels)["run"] for labels in found["railyard_run_info"]}
    assert runs == {"lab": run_id(18), "other": run_id(19)}
    assert set(proven(tmp_path, "other")) == {"b1", "b2"}


def test_labels_and_help_are_those_of_the_catalogue(tmp_path):
    add_run(tmp_path, 18, change_result=slow("gpu003", "rail1"))
    for name in ("railyard_node_proven_timestamp_seconds", "railyard_rail_not_good", "railyard_run_info"):
        [labels, *_rest] = parse(text(tmp_path))[name]
        assert {key for key, _value in labels} == set(catalogue.METRICS[name].labels)
    causes = {outcome for _node, _rail, outcome, _cause in not_good(tmp_path)}
    assert causes <= set(catalogue.NOT_GOOD_OUTCOMES)


def test_an_unknown_line_in_a_runs_own_file_does_not_spoil_the_rest(tmp_path):
    folder = add_run(tmp_path, 18)
    own = folder / "railyard.prom"
    lines = own.read_text(encoding="utf-8").split("\n")
    lines.insert(3, 'other_metric{cluster="lab"} 1')
    lines.insert(5, 'railyard_run_complete{cluster="lab"} 0')
    lines.insert(6, "railyard_run_complete{")
    own.write_text("\n".join(lines), encoding="utf-8")
    run_metrics.write(tmp_path)
    found = parse(text(tmp_path))
    assert "other_metric" not in found
    assert list(found["railyard_run_complete"].values()) == [1]


def test_the_file_is_written_to_node_exporters_folder_as_well(tmp_path, monkeypatch):
    textfiles = tmp_path / "textfiles"
    textfiles.mkdir()
    monkeypatch.setenv("RAILYARD_TEXTFILE_DIR", str(textfiles))
    reports = tmp_path / "reports"
    add_run(reports, 18)
    assert (textfiles / run_metrics.FILE).read_text(encoding="utf-8") == text(reports)
    assert [path.name for path in textfiles.iterdir()] == [run_metrics.FILE], "nothing half-written beside it"
    assert (textfiles / run_metrics.FILE).stat().st_mode & 0o777 == 0o644


def test_a_folder_that_cannot_be_written_is_a_note_and_the_report_is_kept(tmp_path, monkeypatch):
    folder = add_run(tmp_path / "reports", 18)
    (folder / "index.html").unlink()
    monkeypatch.setenv("RAILYARD_TEXTFILE_DIR", str(tmp_path / "missing"))
    [note] = write_report(folder)
    assert "railyard_runs.prom was not written" in note
    assert str(tmp_path / "missing") in note
    assert (folder / "index.html").exists()


def test_new_verdicts_remove_the_summary_of_the_old_ones(tmp_path):
    folder = add_run(tmp_path, 18)
    kept = node_results.read(folder)
    assert kept.nodes["gpu001"].is_good
    rejudge.rejudge(folder)
    assert not (folder / node_results.FILE).exists()
    # From the verdicts alone the same comes out.
    assert node_results.read(folder) == kept
