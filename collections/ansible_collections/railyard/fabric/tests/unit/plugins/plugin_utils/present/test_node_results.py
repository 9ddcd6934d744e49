"""A run by node: its own faults, those of its partners, and what proves it. Verdicts are written by hand."""

from __future__ import annotations

import json

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import node_results
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolderError

NAMES = ("n1", "n2", "n3", "n4")
MANIFEST = {
    "run": "20261121T101500Z-3f2a",
    "policy": {"mtu": 1, "pattern": "auto", "slurm_job": 7},
    "start": {"at": "2026-11-21T10:15:00.000Z"},
    "end": {"at": "2026-11-21T10:20:00.000Z", "reason": "completed"},
}


def plan(*rails):
    return {"nodes": {name: {"rails": [{"name": rail} for rail in rails]} for name in NAMES}}


def between(
    node, peer, rail="rail0", outcome="pass", check="tcp_bandwidth", gbps=9.0, proof="proven", cause=None
):
    return {
        "check": check, "node": node, "peer": peer, "rail": rail, "outcome": outcome, "proof": proof,
        "cause_class": cause, "observed": {"bandwidth_gbps": gbps},
    }  # fmt: skip


def alone(node, rail=None, outcome="pass", cause=None):
    return {**between(node, None, rail, outcome, "link", cause=cause), "proof": None, "observed": {}}


def all_pairs(**how):
    """Return a test of each pair, both ways; `bad` names a node whose tests all fail."""
    slow, bad = {"outcome": "fail", "gbps": 3.0, "cause": "rail_slow"}, how.pop("bad", None)
    pairs = [(one, other) for one in NAMES for other in NAMES if one != other]
    return [between(*pair, **how, **(slow if bad in pair else {})) for pair in pairs]


def summarise(verdicts, rails=("rail0",), *, is_whole=True):
    return node_results.summarise(MANIFEST, plan(*rails), verdicts, is_whole=is_whole, is_steady=True)


def good(found):
    return [name for name, one in found.nodes.items() if one.is_good]


def test_any_node_that_met_a_slow_node_is_good_all_the_same():
    found = summarise(all_pairs(bad="n4"))
    assert good(found) == ["n1", "n2", "n3"]
    [fault] = found.nodes["n4"].faults
    assert fault == node_results.Fault(
        "tcp_bandwidth", "rail0", "fail", "rail_slow", True, ("n1", "n2", "n3")
    )


def test_a_sum_of_all_rails_is_spoiled_by_the_slow_node_alone():
    sums = all_pairs(bad="n4", rail=None, check="tcp_bandwidth_aggregate")
    found = summarise([*all_pairs(), *sums])
    assert good(found) == ["n1", "n2", "n3"]
    assert {(fault.rail, fault.is_own) for fault in found.nodes["n4"].faults} == {("", True)}


def test_of_a_pair_no_one_can_say_whose_fault_it_is():
    verdicts = [between("n1", "n2", outcome="fail"), between("n2", "n1", outcome="fail")]
    verdicts += [between("n3", "n4"), between("n4", "n3")]
    found = summarise(verdicts)
    assert good(found) == ["n3", "n4"]
    assert [fault.is_own for name in ("n1", "n2") for fault in found.nodes[name].faults] == [False, False]


def test_tests_of_a_node_alone_are_its_own():
    found = summarise([*all_pairs(), alone("n2", "rail0", "fail", "link_down"), alone("n3")])
    assert good(found) == ["n1", "n3", "n4"]
    assert found.nodes["n2"].faults == (node_results.Fault("link", "rail0", "fail", "link_down", True),)


@pytest.mark.parametrize(
    ("change", "outcome"),
    [({"outcome": "unmeasured"}, "unmeasured"), ({"outcome": "recorded", "proof": "unproven"}, "unproven")],
)
def test_unmeasured_and_unproven_prove_no_node(change, outcome):
    verdicts = all_pairs()
    verdicts[0] = {**verdicts[0], **change}
    found = summarise(verdicts)
    assert good(found) == ["n3", "n4"]
    assert {fault.outcome for fault in found.nodes["n1"].faults} == {outcome}


def test_each_rail_has_to_be_tested():
    assert good(summarise(all_pairs(), ("rail0", "rail1"))) == []
    both = [*all_pairs(), *all_pairs(rail="rail1")]
    assert good(summarise(both, ("rail0", "rail1"))) == list(NAMES)


def test_a_look_alone_proves_no_node():
    found = summarise([alone(name, "rail0") for name in NAMES])
    assert good(found) == []
    assert not any(one.is_tested or one.faults for one in found.nodes.values())


def test_a_run_that_is_not_complete_proves_no_node():
    assert good(summarise(all_pairs(), is_whole=False)) == []


def test_numbers_are_medians_over_partners_without_what_a_slow_one_spoiled():
    found = summarise(all_pairs(bad="n4"))
    assert found.nodes["n1"].numbers == {("tcp_bandwidth", "rail0"): 9.0}
    assert found.nodes["n4"].numbers == {("tcp_bandwidth", "rail0"): 3.0}


def test_it_is_read_as_it_was_written():
    found = summarise(all_pairs(bad="n4"))
    assert node_results.parse(json.loads(json.dumps(node_results.document(found)))) == found


def test_who_meets_and_for_whom_changes_no_settings():
    def settings(**changed):
        manifest = {**MANIFEST, "policy": {**MANIFEST["policy"], **changed}}
        return node_results.summarise(manifest, plan("rail0"), [], is_whole=True, is_steady=True).settings

    assert settings(pattern="ring", slurm_job=8) == settings()
    assert settings(mtu=2) != settings()


@pytest.mark.parametrize(
    "document", [{}, {"schema": 2}, {"schema": 1, "nodes": []}, {"schema": 1, "run": "x", "nodes": {"n1": 3}}]
)
def test_a_damaged_file_is_an_error(document):
    with pytest.raises(RunFolderError, match=r"node_results\.json"):
        node_results.parse(document)
