"""`railyard validate --idle`: idle nodes alone, in groups, within its time; one at a time; jobs untouched."""

from __future__ import annotations

import os

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils import owner_lock
from railyard.base.errors import UserError
from railyard.continuous import allocation, campaign
from support.programs import railyard
from support.runs.run_series import slow


def option(call, name):
    [found] = [word.partition("=")[2] for word in call if word.startswith(f"--{name}=")]
    return found


def test_idle_nodes_are_allocated_exclusively_and_measured_by_srun(lab):
    assert lab.validate() == 0
    [(nodes, launcher, job)] = lab.measured
    assert sorted(nodes) == ["gpu001", "gpu002", "gpu003", "gpu004"]
    assert (launcher, job) == ("slurm", "41")
    [call] = lab.slurm.calls("salloc")
    assert "--exclusive" in call
    assert "--no-shell" in call
    assert option(call, "nodelist").split(",") == nodes
    assert option(call, "nodes") == "4"
    assert option(call, "gres") == "gpu:8"
    # Slurm ends the job when the time is over, whatever became of railyard.
    assert 29 <= int(option(call, "time")) <= 30
    assert lab.slurm.calls("scancel") == [["41"]]
    assert "SLURM_JOB_ID" not in os.environ
    # Who is idle, who is drained (for the run's metrics), and that no node is left.
    assert len(lab.slurm.calls("sinfo")) == 3


def test_a_node_with_a_job_is_not_touched(lab, capsys):
    nodes = lab.slurm.nodes()
    nodes["gpu002"] |= {"state": "mixed", "cpus": "1/7/0/8"}
    lab.slurm.change(nodes=nodes)
    lab.validate()
    [(measured, _launcher, _job)] = lab.measured
    assert sorted(measured) == ["gpu001", "gpu003", "gpu004"]
    assert "Busy: gpu002: Slurm: mixed" in capsys.readouterr().out


def test_too_few_idle_nodes_measure_nothing_and_that_is_no_success(lab, capsys):
    nodes = lab.slurm.nodes()
    for name in ("gpu001", "gpu002"):
        nodes[name]["state"] = "allocated"
    lab.slurm.change(nodes=nodes)
    assert lab.validate() == 3
    assert lab.measured == []
    assert lab.slurm.calls("salloc") == []
    assert "2 idle nodes. It takes 3" in capsys.readouterr().out


def test_a_node_that_a_job_took_in_the_meantime_is_left_to_it(lab):
    lab.slurm.change(taken=["gpu003"])
    assert lab.validate() == 0
    assert [sorted(nodes) for nodes, _launcher, _job in lab.measured] == [["gpu001", "gpu002", "gpu004"]]
    assert len(lab.slurm.calls("salloc")) == 2


def test_another_refusal_of_salloc_is_bad_input(lab):
    lab.slurm.change(broken={"salloc": "salloc: error: Job submit/allocate failed: Invalid account"})
    with pytest.raises(UserError, match="Invalid account") as caught:
        lab.validate()
    assert "SALLOC_ACCOUNT" in str(caught.value)
    assert lab.measured == []


def test_slurm_that_does_not_answer_measures_nothing(lab):
    lab.slurm.change(broken={"sinfo": "slurm_load_partitions: Unable to contact slurm controller"})
    with pytest.raises(UserError, match="Unable to contact slurm controller"):
        lab.validate()
    assert lab.measured == []


@pytest.mark.usefixtures("minutes")
def test_groups_are_as_large_as_the_time_allows_longest_unproven_first(lab):
    lab.add(lambda row: row, ("gpu001", "gpu002", "gpu003"))
    # Three nodes: 3 min and a margin; four would need 5.8.
    lab.validate(limit_time="5m")
    [first, *_rest] = lab.measured
    assert first[0][0] == "gpu004", "never proven"
    assert len(first[0]) == 3


@pytest.mark.usefixtures("minutes")
def test_a_time_that_is_too_short_measures_nothing(lab, capsys):
    assert lab.validate(limit_time="2m") == 3
    assert lab.measured == []
    assert "Give more with --limit-time" in capsys.readouterr().out


def test_a_node_that_failed_is_measured_again_with_other_partners(lab, monkeypatch):
    groups = []

    def of_three(_self, nodes):
        return len(nodes) <= 3

    monkeypatch.setattr(campaign.Campaign, "fits", of_three)
    lab.finds = slow("gpu001", "rail1")
    lab.fails = True
    assert lab.validate() == 1
    groups = [nodes for nodes, _launcher, _job in lab.measured]
    assert groups[0] == ["gpu001", "gpu002", "gpu003"]
    assert groups[1][:2] == ["gpu001", "gpu004"]
    assert len(groups) == 2, "two runs decide; there is no third"
    assert len(lab.slurm.calls("scancel")) == 2


def test_the_allocation_is_given_back_when_a_run_breaks(lab):
    def breaks():
        raise UserError("the disk is full")

    lab.while_measured = breaks
    with pytest.raises(UserError, match="disk is full"):
        lab.validate()
    assert lab.slurm.calls("scancel") == [["41"]]
    assert "SLURM_JOB_ID" not in os.environ


def test_ctrl_c_ends_the_campaign_after_the_run(lab, monkeypatch):
    monkeypatch.setattr(campaign.Campaign, "fits", lambda _self, nodes: len(nodes) <= 3)
    lab.finds, lab.fails = slow("gpu001", "rail1"), True
    lab.while_measured = lambda: os.kill(os.getpid(), 2)
    lab.validate()
    assert len(lab.measured) == 1


def test_a_second_one_at_the_same_time_is_refused(lab):
    lab.reports.joinpath("lab").mkdir(parents=True)
    refused = pytest.raises(UserError, match="another validation of idle nodes of lab is going on")
    # A second descriptor of the file is as foreign to flock as another process.
    with owner_lock.held(lab.reports / "lab" / ".idle.lock", 0), refused:
        lab.validate()
    assert lab.slurm.calls("salloc") == []


def test_ssh_without_an_allocation_is_refused_where_slurm_is(lab):
    with pytest.raises(UserError, match="this machine has Slurm"):
        lab.validate(launcher="ansible")


def test_check_mode_tells_and_measures_nothing(lab, capsys):
    assert lab.validate("--check") == 3
    assert lab.measured == []
    assert "Idle: 4 of 4 nodes: gpu[001-004]" in capsys.readouterr().out


def test_a_rail_that_became_worse_than_it_was_is_named(lab, capsys):
    for _run in range(2):
        lab.add(lambda row: row)
    lab.finds, lab.fails = slow("gpu001", "rail1"), True
    lab.validate()
    told = capsys.readouterr().out
    assert "gpu001 rail1: TCP bandwidth 2.8" in told
    assert "before 9.3" in told
    assert "gpu003 rail0: TCP bandwidth" not in told


@pytest.mark.parametrize(
    ("text", "found"), [("30m", 1800), ("1h30m", 5400), ("90s", 90), ("2h", 7200), (" 5m ", 300)]
)
def test_spans_of_time(text, found):
    assert campaign.seconds(text) == found


@pytest.mark.parametrize("text", ["", "30", "m", "0m", "-5m", "1d", "30min"])
def test_another_span_is_refused(text):
    with pytest.raises(UserError, match="--limit-time"):
        campaign.seconds(text)


def test_minutes_of_an_allocation_are_rounded_up():
    assert option(allocation.argv(["a"], 0, 61.0), "time") == "2"
    assert not any(word.startswith("--gres") for word in allocation.argv(["a"], 0, 61.0))


def test_options_of_idle_alone_are_refused(lab):
    for words in (["--limit-time", "5m"], ["--drain"], ["--most-drained", "1"]):
        done = railyard("validate", "-i", lab.inventory, *words)
        assert done.returncode == 2
        assert "add --idle" in done.stderr
