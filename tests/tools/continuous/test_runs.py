"""`railyard runs`: metrics with who is drained in Slurm, trends, and what prune removes."""

from __future__ import annotations

import json
import time

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils import owner_lock
from railyard.base.errors import UserError
from railyard.continuous import runs
from support.exposition import parse
from support.runs.run_series import add_run, run_id, slow

THREE = ("gpu001", "gpu002", "gpu003")


def test_metrics_say_who_is_drained_and_by_whom(lab, tmp_path):
    nodes = lab.slurm.nodes()
    nodes["gpu002"] |= {"state": "drained", "reason": "Railyard: validation: rail1 rail_slow"}
    nodes["gpu003"] |= {"state": "draining", "reason": "fan"}
    nodes["elsewhere"] = {"state": "drained", "reason": "not of this inventory"}
    lab.slurm.change(nodes=nodes)
    lab.add(lambda row: row)
    before = len(lab.slurm.calls("sinfo"))
    place = tmp_path / "textfiles" / "railyard_runs.prom"
    place.parent.mkdir()
    assert runs.metrics(lab.reports, [place]) == 0
    assert len(lab.slurm.calls("sinfo")) == before + 1, "one call for all nodes"
    found = parse(place.read_text(encoding="utf-8"))["railyard_slurm_node_drained"]
    keys = {tuple(dict(labels)[key] for key in ("cluster", "node", "by")) for labels in found}
    assert keys == {("lab", "gpu002", "railyard"), ("lab", "gpu003", "other")}


def test_a_slurm_that_is_silent_leaves_the_family_out(lab):
    lab.slurm.change(broken={"sinfo": "no controller"})
    lab.add(lambda row: row)
    assert "railyard_slurm_node_drained" not in parse(
        (lab.reports / "railyard_runs.prom").read_text(encoding="utf-8")
    )


def test_metrics_refuse_what_is_not_there(tmp_path):
    with pytest.raises(UserError, match="does not exist"):
        runs.metrics(tmp_path / "none", [])
    add_run(tmp_path, 3)
    with pytest.raises(UserError, match="none"):
        runs.metrics(tmp_path, [tmp_path / "none" / "x.prom"])


def test_trends(tmp_path, capsys):
    for day in (3, 4, 5):
        add_run(tmp_path, day)
    add_run(tmp_path, 6, change_result=slow("gpu003", "rail1"))
    assert runs.trends(tmp_path, "lab", "gpu003", as_json=False) == 0
    told = capsys.readouterr().out
    [line] = [one for one in told.splitlines() if "rail1 TCP bandwidth:" in one]
    assert line.endswith(": worse")
    assert "in 3 good runs" in line
    assert "gpu001" not in told
    assert runs.trends(tmp_path, "lab", None, as_json=True) == 0
    found = json.loads(capsys.readouterr().out)
    mine = [
        one
        for one in found
        if (one["node"], one["rail"], one["check"]) == ("gpu003", "rail1", "tcp_bandwidth")
    ]
    assert [(one["metric"], one["word"], len(one["before"])) for one in mine] == [
        ("bandwidth_gbps", "worse", 3)
    ]


def test_trends_of_a_single_run_compare_nothing(tmp_path):
    add_run(tmp_path, 3)
    assert runs.trends(tmp_path, "lab", None, as_json=True) == 3
    with pytest.raises(UserError, match="no run has numbers of node gpu009"):
        runs.trends(tmp_path, "lab", "gpu009", as_json=True)
    with pytest.raises(UserError, match="has no cluster other"):
        runs.trends(tmp_path, "other", None, as_json=True)


@pytest.fixture
def old(tmp_path, monkeypatch):
    """Eight good runs of years ago."""
    for day in range(3, 11):
        add_run(tmp_path, day, nodes=("a1", "a2"))
    monkeypatch.setattr(time, "time", lambda: 1.9e9)
    return tmp_path


def left(reports):
    return sorted(int(path.name[6:8]) for path in (reports / "lab").iterdir() if path.name.startswith("2026"))


def test_prune_keeps_the_newest_and_what_nodes_are_compared_with(old, capsys):
    assert runs.prune(old, None, keep=1, days=1, check=True) == 0
    assert left(old) == list(range(3, 11))
    assert "Would remove" in capsys.readouterr().out
    assert runs.prune(old, "lab", keep=1, days=1, check=False) == 0
    assert left(old) == [6, 7, 8, 9, 10]
    assert not [path for path in (old / "lab").iterdir() if path.name.endswith(".removed")]
    # The list of runs is that of what is left.
    assert run_id(3) not in (old / "lab" / "index.html").read_text(encoding="utf-8")


def test_prune_keeps_the_baselines_run(old):
    (old / "lab" / run_id(3) / ".baseline").touch()
    path = old / "lab" / run_id(9) / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    manifest["baseline"] = {"run": run_id(4), "sha256": "0"}
    path.write_text(json.dumps(manifest), encoding="utf-8")
    runs.prune(old, "lab", keep=1, days=1, check=False)
    assert left(old) == [3, 4, 6, 7, 8, 9, 10]


def test_prune_keeps_young_runs_and_does_not_work_under_a_run(old, monkeypatch):
    monkeypatch.undo()
    runs.prune(old, "lab", keep=1, days=36500, check=False)
    assert left(old) == list(range(3, 11))
    with owner_lock.held(old / "lab" / ".lock", 0), pytest.raises(UserError, match="is going on"):
        runs.prune(old, "lab", keep=1, days=1, check=False)
