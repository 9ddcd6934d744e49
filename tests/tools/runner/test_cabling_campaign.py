"""The cables' campaign: which cases are left, what counts as found, and that it is alone on its lab."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

FILE = Path(__file__).resolve().parents[3] / "benchmarks" / "cabling" / "campaign.py"
SPEC = importlib.util.spec_from_file_location("cabling_campaign", FILE)
campaign = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = campaign  # a dataclass looks for its module
SPEC.loader.exec_module(campaign)


def line(case, good, **more):
    faults = {fault: ["seen"] if good else [] for fault in case.faults}
    said = {"load": 3.2, "exit_status": 1 if faults else 0, "not_good": [], **more}
    return {"case": case.name, "repeat": case.number, "good": good, "found": faults, **said}


def test_what_never_ran_comes_before_what_was_not_good():
    first, second, third, fourth = campaign.CABLES[:4]
    results = [line(first, False), line(second, True), line(fourth, False), line(fourth, True)]
    left = campaign.left(campaign.CABLES, results)
    assert left[-1] == first
    assert left[0] == third
    assert not {second, fourth} & set(left)
    assert len(campaign.CABLES) == 31
    assert len(left) == 29


def test_what_is_not_good_three_times_is_left_at_that():
    case = campaign.CABLES[0]
    assert case in campaign.left(campaign.CABLES, [line(case, False)] * 2)
    assert case not in campaign.left(campaign.CABLES, [line(case, False)] * 3)


def test_the_table_shows_the_last_run_and_how_many_there_were():
    healthy = [case for case in campaign.CABLES if not case.faults]
    results = [line(campaign.CABLES[0], False), line(campaign.CABLES[0], True)]
    results += [line(healthy[0], True), line(healthy[1], False, not_good=["mtu gpuserver1 rail0: 1500"])]
    rows = campaign.table(results).splitlines()[2:]
    assert rows[0] == f"| {campaign.CABLES[0].name} | yes | 2 | 3.2 | 1 | seen |"
    assert rows[1] == "| healthy, 2 times | 1 of 2 | 2 | 3.2 to 3.2 | 0 | mtu gpuserver1 rail0: 1500 |"


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({}, True),
        ({"cause_class": "below_floor"}, False),
        ({"cause": "gpuserver2 rail1"}, False),
        ({"rail": "rail0"}, False),
        ({"node": "gpuserver2", "peer": "gpuserver3"}, False),
    ],
)
def test_a_slow_rail_is_found_by_its_own_cause_node_and_rail(change, found):
    one = {"cause_class": "rail_slow", "cause": "gpuserver1 rail1: 0.01", "check": "tcp_bandwidth"}
    one |= {"node": "gpuserver2", "peer": "gpuserver1", "rail": "rail1", **change}
    assert bool(campaign.names("slow_rail gpuserver1/rail1", [one])) == found


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """A lab that says of itself what `status` holds."""
    monkeypatch.setattr(campaign, "ROOT", tmp_path)
    file = tmp_path / "topology.yml"
    file.write_text("nodes: {n1: {}}\nrails: [{name: rail0, rate_gbps: 0.05}]\n")
    lab = campaign.Lab(file, tmp_path / "inventory")
    node = {"condition": "running", "rails": [{"rate_gbps": 0.05}]}
    status = {"name": "cb", "up": True, "topology": str(file), "nodes": {"n1": node}, "faults": []}
    monkeypatch.setattr(campaign.Lab, "run", lambda _self, *_words: json.dumps(status))
    return lab, status


def test_a_second_campaign_is_refused(lab):
    with lab[0].alone(), pytest.raises(SystemExit, match="another campaign"), lab[0].alone():
        pass
    with lab[0].alone():
        pass


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda status: status.update(topology="/elsewhere/topology.yml"), "another topology"),
        (lambda status: status["nodes"].update(n2=status["nodes"]["n1"]), "another topology"),
        (lambda status: status.update(up=False), "not up"),
        (lambda status: status["nodes"]["n1"].update(condition="hung"), "n1: hung"),
        (lambda status: status["nodes"]["n1"]["rails"][0].update(rate_gbps=0.01), r"\[0.01\] Gbit/s instead"),
    ],
)
def test_an_earlier_lab_of_the_same_name_is_not_measured(lab, spoil, said):
    lab[0].heal()
    spoil(lab[1])
    with pytest.raises(SystemExit, match=said):
        lab[0].heal()


def test_a_case_whose_faults_were_healed_meanwhile_does_not_count(lab, monkeypatch):
    folder = campaign.ROOT / "reports" / "cabling" / "inventory"
    done = campaign.subprocess.CompletedProcess([], 0, "", "")

    def validate(*_words):
        (folder / "run").mkdir(parents=True)
        (folder / "run" / "verdicts.jsonl").write_text("")
        (folder / "run" / "results.jsonl").write_text("")
        return done

    monkeypatch.setattr(campaign, "railyard", validate)
    with pytest.raises(SystemExit, match="does not count"):
        campaign.measure(lab[0], campaign.CABLES[0])
