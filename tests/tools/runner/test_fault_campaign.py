"""The campaign of faults: which cases are left, what counts as found, and that it is alone on its lab."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.causes import CAUSES
from railyard.lab import faults

HERE = Path(__file__).resolve().parents[3] / "benchmarks" / "faults"
sys.path.insert(0, str(HERE))  # where its script finds them
fault_cases, fault_tables = map(importlib.import_module, ("fault_cases", "fault_tables"))
# Other campaigns have a script of this name.
SPEC = importlib.util.spec_from_file_location("fault_campaign", HERE / "campaign.py")
campaign = importlib.util.module_from_spec(SPEC)
sys.modules[SPEC.name] = campaign  # a dataclass looks for its module
SPEC.loader.exec_module(campaign)

CASES = [case for case in fault_cases.CASES if case.lab == "containers"]


def line(case, good, at="2026-11-24", **more):
    found = {fault: ["seen"] if good else [] for fault in case.faults}
    said = {"load": 3.2, "exit_status": 1 if found else 0, "not_good": [], "at": at, **more}
    return {"lab": case.lab, "case": case.name, "repeat": case.number, "good": good, "found": found, **said}


def test_every_fault_of_the_lab_has_a_case_and_an_end():
    made = {
        one
        for case in fault_cases.CASES
        for fault in case.faults
        for one in fault_cases.made(fault, case.lab)
    }
    assert {one.split(" ")[0] for one in made} == set(faults.KINDS)
    assert {name for one in fault_cases.WANTED.values() for name in (*one.causes, *one.of_two)} <= set(CAUSES)
    assert {fault_cases.target_of(fault)[0] for case in CASES for fault in case.faults} <= set(
        fault_cases.WANTED
    )


def test_the_pages_are_those_of_the_results():
    for file, text in campaign.pages(campaign.done_already()).items():
        assert file.read_text() == text


def test_what_never_ran_comes_before_what_was_not_good():
    first, second, third, fourth = CASES[:4]
    results = [line(first, False), line(second, True), line(fourth, False), line(fourth, True)]
    left = campaign.left("containers", results)
    assert left[0] == third
    assert left[-1] == first
    assert not {second, fourth} & set(left)
    assert len(left) == len(CASES) - 2


def test_what_was_good_before_a_day_is_run_again():
    results = [line(CASES[0], True, "2026-11-22"), line(CASES[1], True, "2026-11-24")]
    left = campaign.left("containers", results, "2026-11-24")
    assert CASES[0] in left
    assert CASES[1] not in left


def test_what_is_not_good_three_times_is_left_at_that():
    case = CASES[0]
    assert case in campaign.left("containers", [line(case, False)] * 2)
    assert case not in campaign.left("containers", [line(case, False)] * 3)


def test_the_table_shows_the_last_run_and_how_many_there_were():
    healthy = [case for case in CASES if not case.faults]
    results = [line(CASES[0], False), line(CASES[0], True)]
    results += [line(healthy[0], True), line(healthy[1], False, not_good=["mtu gpuserver1 rail0: 1500"])]
    rows = fault_tables.table(results).splitlines()[2:]
    assert rows[0] == f"| containers | {CASES[0].name} | yes | 2 | 2026-11-24 | 3.2 | 1 | seen |"
    assert rows[1].startswith(
        "| containers | healthy, 2 times | 1 of 2 | 2 | 2026-11-24 | 3.2 to 3.2 | 0 | mtu "
    )


@pytest.mark.parametrize(
    ("change", "found"),
    [
        ({}, True),
        ({"cause_class": "below_floor"}, False),
        ({"cause": "gpuserver2 rail1"}, False),
        ({"rail": "rail0"}, False),
        ({"outcome": "recorded"}, False),
        ({"node": "gpuserver2", "peer": "gpuserver3"}, False),
    ],
)
def test_a_slow_rail_is_found_by_its_own_cause_node_and_rail(change, found):
    one = {"cause_class": "rail_slow", "cause": "gpuserver1 rail1: 0.01", "check": "tcp_bandwidth"}
    one |= {"outcome": "fail", "node": "gpuserver2", "peer": "gpuserver1", "rail": "rail1", **change}
    assert bool(fault_cases.named("containers", "slow_rail gpuserver1/rail1", [one], "")) == found


def test_of_two_nodes_a_slow_one_need_not_be_named():
    one = {"cause_class": "below_floor", "cause": "0.01", "outcome": "fail", "rail": "rail0"}
    one |= {"node": "gpuserver1", "peer": "gpuserver2"}
    assert fault_cases.named("vms", "slow_node gpuserver2", [one], "")
    assert not fault_cases.named("containers", "slow_node gpuserver2", [one], "")


def test_a_note_has_to_name_the_node_that_differs():
    said = "note: the nodes differ in iperf3: 3.12 on gpuserver[1-2]; 3.9 on gpuserver3"
    assert fault_cases.named("containers", "older_iperf3 gpuserver3", [], said)
    assert not fault_cases.named("containers", "older_iperf3 gpuserver2", [], said)


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
    folder = campaign.ROOT / "reports" / "faults" / "inventory"
    done = campaign.subprocess.CompletedProcess([], 0, "", "")

    def validate(*_words):
        (folder / "run").mkdir(parents=True)
        (folder / "run" / "verdicts.jsonl").write_text("")
        (folder / "run" / "results.jsonl").write_text("")
        return done

    monkeypatch.setattr(campaign, "railyard", validate)
    with pytest.raises(SystemExit, match="does not count"):
        campaign.measure(lab[0], CASES[0])
