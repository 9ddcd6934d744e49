"""`railyard compare` of two run folders: trusted numbers alone, exit statuses, words of nodes."""

from __future__ import annotations

import json

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import provenance
from railyard.base.errors import UserError
from railyard.report import compare
from support.programs import railyard
from support.runs.fake_run import RUN
from support.runs.run_builder import build_run


def with_qps(count):
    """A run whose RDMA bandwidth is of so many QPs, as its policy says."""

    def change(row):
        return row if row["tool"] != "ib_write_bw" else row | {"qps": count}

    rules = {"bidirectional": True, "rdma_tests": ["ib_write_bw", "ib_write_lat"], "rdma_qps": count}
    return {"change_result": change, "manifest": {"policy": policy.merge(rules)}}


def unproven(row):
    return row | {"proof": "unproven", "proof_reason": "no counter moved"}


@pytest.fixture
def two(tmp_path):
    def build(**after):
        paths = [tmp_path / run / "lab" / RUN for run in ("before", "after")]
        return [
            str(build_run(path, rdma=True, **change)) for path, change in zip(paths, ({}, after), strict=True)
        ]

    return build


def compare_as_json(capsys, *argv):
    status = compare.run(*argv, as_json=True)
    return status, json.loads(capsys.readouterr().out)


def test_two_healthy_runs_differ_in_nothing(two, tmp_path, capsys):
    status, found = compare_as_json(capsys, *two(), tmp_path)
    assert (status, found["compared"]) == (0, True)
    assert {row["word"] for row in found["rows"]} == {"no significant difference"}
    assert {row["check"] for row in found["rows"]} >= {"rdma_bandwidth", "tcp_latency", "aggregate_bandwidth"}
    assert [found[key] for key in ("not_compared", "without_number", "verdicts", "differs")] == [[]] * 4
    assert found["a"]["rdma_against_tcp"].startswith("RDMA is")


def test_rows_of_other_qps_are_refused_and_the_rest_compared(two, tmp_path, capsys):
    status, found = compare_as_json(capsys, *two(**with_qps(2)), tmp_path)
    assert status == 0
    [refused] = found["not_compared"]
    assert (refused["tool"], refused["differs"]) == ("ib_write_bw", [{"what": "qps", "a": "4", "b": "2"}])
    assert refused["rows"] == 12, "4 alone, 4 at once, 2 both ways, and the sum of each sender"
    rdma = {row["word"] for row in found["rows"] if row["check"].startswith("rdma_bandwidth")}
    assert rdma == {"not comparable"}
    assert {row["word"] for row in found["rows"] if row["check"].startswith("tcp")} == {
        "no significant difference"
    }
    assert ["fabric_policy.rdma_qps", "4", "2"] in [
        [one[key] for key in ("what", "a", "b")] for one in found["differs"]
    ]


def test_a_number_that_is_not_proven_is_none(two, tmp_path, capsys):
    before, after = two(change_result=unproven)
    status, found = compare_as_json(capsys, before, after, tmp_path)
    assert (status, found["compared"]) == (3, False)
    assert {(one["run"], *one["outcomes"]) for one in found["without_number"]} == {("b", "unmeasured")}
    assert all(row["b"] is None for row in found["rows"])


def test_a_number_that_no_link_carries_is_none(two, tmp_path, capsys):
    before, after = two()
    path = tmp_path / "after/lab" / RUN / "plan.json"
    plan = json.loads(path.read_text(encoding="utf-8").replace('"rate_gbps": 10.0', '"rate_gbps": 4.0'))
    manifest = json.loads(path.with_name("manifest.json").read_text(encoding="utf-8"))
    plan[provenance.FINGERPRINT] = provenance.fingerprint(plan, manifest["policy"])
    path.write_text(json.dumps(plan), encoding="utf-8")
    status, found = compare_as_json(capsys, before, after, tmp_path)
    assert status == 0
    gone = {row["check"] for row in found["rows"] if row["b"] is None}
    assert gone > {"rdma_bandwidth", "tcp_bandwidth_bi", "aggregate_bandwidth"}
    assert not gone & {"rdma_latency", "ping_rtt"}


def test_an_unknown_node_does_not_affect_how_it_was_measured(two, tmp_path, capsys):
    before, after = two()
    rows = [
        json.loads(line) for line in (tmp_path / "after/lab" / RUN / "results.jsonl").open(encoding="utf-8")
    ]
    with (tmp_path / "after/lab" / RUN / "results.jsonl").open("a", encoding="utf-8") as stream:
        stream.writelines(json.dumps(row | {"host": "mallory", "qps": 9}) + "\n" for row in rows)
    assert compare_as_json(capsys, before, after, tmp_path)[1]["not_compared"] == []


def test_an_edited_verdict_changes_nothing(two, tmp_path, capsys):
    before, after = two()
    status, found = compare_as_json(capsys, before, after, tmp_path)
    line = {
        "check": "tcp_bandwidth",
        "outcome": "pass",
        "proof": "proven",
        "observed": {"bandwidth_gbps": 99.0},
    }
    (tmp_path / "after/lab" / RUN / "verdicts.jsonl").write_text(json.dumps(line) + "\n", encoding="utf-8")
    assert compare_as_json(capsys, before, after, tmp_path) == (status, found)


def test_differences_are_reported_and_no_text_of_a_node_moves_the_cursor(two, tmp_path, capsys):
    before, after = two(change_fact=lambda row: row | {"kernel": "6.8\x1b[2J\n  Results"})
    assert compare.run(before, after, tmp_path) == 0
    out = capsys.readouterr().out
    assert "  kernel: 6.1.0 → 6.8 /   Results (gpuserver[1-2])" in out
    assert "\x1b" not in out


@pytest.mark.parametrize(
    ("names", "words"),
    [
        (("nowhere", "before/lab"), "nowhere is no run folder"),
        (("before/lab", "before/lab"), "are the same run"),
    ],
)
def test_bad_input(two, tmp_path, names, words):
    two()
    with pytest.raises(UserError, match=words):
        compare.run(*(name.replace("lab", f"lab/{RUN}") for name in names), tmp_path)


def test_the_command_line(two, tmp_path):
    before, after = two()
    done = railyard("compare", before, after)
    assert done.returncode == 0, done.stderr
    assert "Results" in done.stdout
    assert railyard("compare", before, tmp_path).returncode == 2
