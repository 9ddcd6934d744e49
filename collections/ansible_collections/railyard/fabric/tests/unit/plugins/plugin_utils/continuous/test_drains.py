"""What is drained: what failed in two runs with other partners, up to a share of the cluster."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.continuous import drains
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch.sinfo import Listed
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.node_results import (
    Fault,
    NodeResult,
    RunResult,
)

GOOD = NodeResult(is_tested=True, is_good=True)
OURS = "Railyard: validation: rail1 rail_slow, runs a and b"


def bad(*partners, rail="rail1", outcome="fail", own=True, check="rdma_bandwidth", cause="rail_slow"):
    return NodeResult(True, False, (Fault(check, rail, outcome, cause, own, partners),))


def runs(*results):
    """Return runs, newest first, from what each found of its nodes, oldest first."""
    return [
        RunResult(f"202611{day:02d}T000000Z-0000", day * 86400.0, True, "s", True, nodes)
        for day, nodes in reversed(list(enumerate(results, 1)))
    ]


def slurm(**reasons):
    """Return nodes n1 to n4, idle but for those with a reason, which are drained."""
    listed = {}
    for name in ("n1", "n2", "n3", "n4"):
        reason = reasons.get(name)
        state = "idle" if reason is None else "drained"
        listed[name] = Listed(name, state, reason is None, reason is not None, False, 8, reason or "")
    return listed


def decide(found, listed=None, most=1):
    return drains.decide(found, slurm() if listed is None else listed, most)


TWICE = runs({"n1": bad("n2", "n3")}, {"n1": bad("n4", "n2")})


def test_two_runs_with_different_partners_drain():
    done = decide(TWICE)
    assert list(done.drain) == ["n1"]
    reason = done.drain["n1"]
    assert reason.startswith("Railyard: validation: rail1 rail_slow")
    assert "20261101T000000Z-0000 and 20261102T000000Z-0000" in reason
    assert not done.is_open


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(runs({"n1": bad("n2", "n3")}), id="one run"),
        pytest.param(runs({"n1": bad("n2", "n3")}, {"n1": bad("n3", "n2")}), id="the same partners"),
        pytest.param(runs({"n1": bad("n2")}, {"n1": GOOD}, {"n1": bad("n3")}), id="good in between"),
        pytest.param(runs({"n1": bad("n2")}, {"n1": bad("n3", outcome="unmeasured")}), id="unmeasured"),
        pytest.param(runs({"n1": bad("n2")}, {"n1": bad("n3", outcome="unproven")}), id="unproven"),
        pytest.param(runs({"n1": bad("n2")}, {"n1": bad("n3", own=False)}), id="not its own fault"),
        pytest.param(runs({"n1": bad("n2")}, {"n1": bad("n3", rail="rail2")}), id="another rail"),
        pytest.param(runs({"n1": bad("n2")}, {"n1": bad("n3")}, {"n1": GOOD}), id="good again"),
    ],
)
def test_nothing_less_drains(found):
    assert decide(found).drain == {}


def test_what_no_partner_explains_needs_two_runs_alone():
    link = {"check": "link", "cause": "link_down"}
    assert decide(runs({"n1": bad(**link)}, {"n1": bad(**link)})).drain.keys() == {"n1"}
    assert decide(runs({"n1": bad(**link)})).drain == {}


def test_a_run_that_did_not_measure_the_node_does_not_count():
    found = runs({"n1": bad("n2")}, {"n1": bad("n3", outcome="unmeasured")}, {"n2": GOOD}, {"n1": bad("n4")})
    assert list(decide(found).drain) == ["n1"]


def test_a_node_that_another_tool_drained_is_left_alone():
    done = decide(TWICE, slurm(n1="NHC: check_fs failed"))
    assert done.drain == {}
    assert done.resume == []
    assert "NHC: check_fs failed" in done.held["n1"]


def test_a_node_that_slurm_does_not_know_is_named():
    assert decide(TWICE, {}).held == {"n1": "Slurm does not know it"}


def test_a_node_is_drained_once():
    done = decide(TWICE, slurm(n1=OURS))
    assert (done.drain, done.held, done.resume) == ({}, {}, [])


def two_bad():
    return runs(
        {"n1": bad("n3"), "n2": bad("n3")},
        {"n1": bad("n4"), "n2": bad("n4")},
    )


def test_the_breaker_opens_when_more_fail_than_may_be_drained():
    done = decide(two_bad(), most=1)
    assert list(done.drain) == ["n1"]
    assert done.is_open
    assert "may have 1 drained at once" in done.held["n2"]
    assert len(decide(two_bad(), most=2).drain) == 2
    assert not decide(two_bad(), most=2).is_open
    assert decide(two_bad(), most=0).drain == {}


def test_what_is_drained_already_counts_no_matter_which_part_drained_it():
    done = decide(TWICE, slurm(n3="Railyard: quick check: link_down"), most=1)
    assert done.drain == {}
    assert done.is_open
    # What others drained is their business.
    assert list(decide(TWICE, slurm(n3="maintenance"), most=1).drain) == ["n1"]


def test_a_good_run_resumes_what_validation_drained_and_nothing_else():
    good = runs({"n1": bad("n2")}, {"n1": bad("n3")}, {"n1": GOOD})
    assert decide(good, slurm(n1=OURS)).resume == ["n1"]
    for reason in (
        "Railyard: quick check: link_down",
        "Railyard: reboot",
        "NHC: x",
        "Railyard validation: x",
    ):
        assert decide(good, slurm(n1=reason)).resume == [], reason
    assert decide(runs({"n1": GOOD}, {"n1": bad("n2")}), slurm(n1=OURS)).resume == []
    assert decide(runs({"n2": GOOD}), slurm(n1=OURS)).resume == []


def test_a_node_that_is_resumed_makes_room_for_another():
    found = runs({"n1": bad("n3"), "n2": bad("n3")}, {"n2": bad("n4"), "n1": GOOD})
    done = decide(found, slurm(n1=OURS), most=1)
    assert (done.resume, list(done.drain), done.is_open) == (["n1"], ["n2"], False)


def test_a_node_that_failed_once_is_named():
    assert "second one" in decide(runs({"n1": bad("n2")})).held["n1"]


@pytest.mark.parametrize(
    ("text", "nodes", "most"),
    [("2%", 1000, 20), ("2%", 100, 2), ("2%", 99, 1), ("2%", 3, 1), ("1", 8, 1), ("0", 8, 0), ("0%", 8, 0)],
)
def test_the_share_that_may_be_drained(text, nodes, most):
    assert drains.most_drained(text, nodes) == most


@pytest.mark.parametrize("text", ["", "two", "-1", "200%", "1.5", "2 percent"])
def test_another_word_for_the_share_is_refused(text):
    with pytest.raises(ValueError, match="neither"):
        drains.most_drained(text, 8)
