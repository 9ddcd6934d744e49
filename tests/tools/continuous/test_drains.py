"""`railyard drain` and `validate --idle --drain`: what Slurm has to do, and what it has not."""

from __future__ import annotations

import json

import pytest
from railyard.base.errors import UserError
from railyard.continuous import drains, verbs
from support.runs.run_series import slow

ALL = ("gpu001", "gpu002", "gpu003", "gpu004")


def updates(lab):
    return [call[1:] for call in lab.slurm.calls("scontrol") if call[0] == "update"]


def run(lab, most="2%", **how):
    return drains.run([str(lab.inventory)], lab.reports, most, **how)


@pytest.fixture
def failed(lab):
    """gpu001 failed with gpu002 and gpu003, then with gpu004 too."""
    lab.add(slow("gpu001", "rail1"), ALL[:3])
    lab.add(slow("gpu001", "rail1"), ALL)
    return lab


def test_a_node_that_failed_twice_is_drained_and_resumed_after_a_good_run(failed):
    assert run(failed) == 0
    [words] = updates(failed)
    assert words[:2] == ["NodeName=gpu001", "State=DRAIN"]
    assert words[2].startswith("Reason=Railyard: validation: rail1 rail_slow, runs 2026")
    assert failed.slurm.nodes()["gpu001"]["state"] == "drained"
    # A second call has nothing to do.
    assert run(failed) == 0
    assert len(updates(failed)) == 1
    failed.add(lambda row: row)
    assert run(failed) == 0
    assert updates(failed)[1] == ["NodeName=gpu001", "State=RESUME"]
    assert failed.slurm.nodes()["gpu001"]["state"] == "idle"


def test_a_node_with_a_job_is_drained_and_its_job_goes_on(failed):
    nodes = failed.slurm.nodes()
    nodes["gpu001"] |= {"state": "allocated", "cpus": "8/0/0/8"}
    failed.slurm.change(nodes=nodes)
    assert run(failed) == 0
    assert failed.slurm.nodes()["gpu001"]["state"] == "draining"
    assert not failed.slurm.calls("scancel")


def test_check_changes_nothing(failed, capsys):
    assert run(failed, check=True) == 0
    assert updates(failed) == []
    assert "Would be drained: gpu001: Railyard: validation: rail1 rail_slow" in capsys.readouterr().out


def test_another_tools_drain_is_left_alone(failed, capsys):
    nodes = failed.slurm.nodes()
    nodes["gpu001"] |= {"state": "drained", "reason": "NHC: fan"}
    failed.slurm.change(nodes=nodes)
    assert run(failed) == 0
    failed.add(lambda row: row)
    assert run(failed) == 0
    assert updates(failed) == []
    assert failed.slurm.nodes()["gpu001"]["reason"] == "NHC: fan"
    assert "Not drained: gpu001: it is drained already: NHC: fan" in capsys.readouterr().out


def test_one_that_another_tool_drained_between_the_look_and_the_change_is_left_alone(failed, monkeypatch):
    ask = drains.sinfo.ask

    def ask_first():
        listed = ask()
        nodes = failed.slurm.nodes()
        nodes["gpu001"] |= {"state": "drained", "reason": "NHC: fan"}
        failed.slurm.change(nodes=nodes)
        return listed

    monkeypatch.setattr(drains.sinfo, "ask", ask_first)
    run(failed)
    assert updates(failed) == []


def test_the_breaker_is_loud_and_its_exit_status_is_1(failed, capsys):
    nodes = failed.slurm.nodes()
    nodes["gpu004"] |= {"state": "drained", "reason": "Railyard: quick check: link_down"}
    failed.slurm.change(nodes=nodes)
    assert run(failed) == 1
    assert updates(failed) == []
    told = capsys.readouterr().out
    assert "STOPPED: more nodes failed than may be drained at once (1; drained now: gpu004)" in told
    assert run(failed, most="2") == 0
    assert [words[0] for words in updates(failed)] == ["NodeName=gpu001"]


def test_what_slurm_refuses_is_reported(failed, capsys):
    failed.slurm.change(broken={"scontrol": "slurm_update error: Access/permission denied"})
    assert run(failed) == 3
    assert "Slurm did not take it: gpu001" in capsys.readouterr().out


def test_json(failed, capsys):
    assert run(failed, as_json=True, check=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert list(found["drain"]) == ["gpu001"]
    assert (found["most"], found["is_open"], found["check"]) == (1, False, True)


def test_bad_input(failed):
    with pytest.raises(UserError, match="--most-drained"):
        run(failed, most="some")
    failed.slurm.change(broken={"sinfo": "no controller"})
    with pytest.raises(UserError, match="no controller"):
        run(failed)


def test_a_campaign_drains_the_slow_node_in_one_evening(lab, monkeypatch, capsys):
    monkeypatch.setattr("railyard.continuous.campaign.Campaign.fits", lambda _self, nodes: len(nodes) <= 3)
    lab.finds, lab.fails = slow("gpu001", "rail1"), True
    status = verbs.validate_idle([str(lab.inventory)], [], lab.reports, "30m", None, True, None)
    assert status == 1
    assert [words[0] for words in updates(lab)] == ["NodeName=gpu001"]
    assert "Drained: gpu001" in capsys.readouterr().out
    # A week later Slurm starts nothing on it: it is measured by SSH, beside nodes that a job holds for it.
    lab.measured.clear()
    lab.words.clear()
    status = verbs.validate_idle([str(lab.inventory)], [], lab.reports, "30m", None, True, None)
    [(again, launcher, job), *_idle] = lab.measured
    assert (again, launcher) == (["gpu001", "gpu002", "gpu003"], "ansible")
    assert f"railyard_slurm_job={job}" in lab.words[0]
    held = [call for call in lab.slurm.calls("salloc") if "--nodelist=gpu002,gpu003" in call]
    assert len(held) == 1
    assert [job] in lab.slurm.calls("scancel")
    assert lab.slurm.nodes()["gpu001"]["state"] == "drained", "it is as slow as before"
    # It was repaired.
    lab.finds, lab.fails = lambda row: row, False
    assert verbs.validate_idle([str(lab.inventory)], [], lab.reports, "30m", None, True, None) == 0
    assert lab.slurm.nodes()["gpu001"]["state"] == "idle"
    assert "Resumed: gpu001" in capsys.readouterr().out


def test_what_another_tool_drained_is_not_measured_either(lab):
    nodes = lab.slurm.nodes()
    nodes["gpu001"] |= {"state": "drained", "reason": "NHC: fan"}
    lab.slurm.change(nodes=nodes)
    verbs.validate_idle([str(lab.inventory)], [], lab.reports, "30m", None, True, None)
    assert [sorted(nodes) for nodes, _launcher, _job in lab.measured] == [["gpu002", "gpu003", "gpu004"]]


def test_a_drained_node_whose_job_still_runs_is_not_measured(lab):
    nodes = lab.slurm.nodes()
    reason = "Railyard: validation: rail1 rail_slow"
    nodes["gpu001"] |= {"state": "draining", "cpus": "8/0/0/8", "reason": reason}
    lab.slurm.change(nodes=nodes)
    verbs.validate_idle([str(lab.inventory)], [], lab.reports, "30m", None, True, None)
    assert "gpu001" not in [node for nodes, _launcher, _job in lab.measured for node in nodes]
