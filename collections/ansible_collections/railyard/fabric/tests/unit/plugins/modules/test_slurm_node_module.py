# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module: it drains once, resumes only what it drained, and never in check mode."""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.state.slurm import SlurmError
from ansible_collections.railyard.fabric.plugins.modules import slurm_node
from support.nodes.module import FakeModule

NO_CONTROLLER = "slurm_load_node error: Unable to contact slurm controller (connect failure)\n"


class Cluster:
    """A scontrol that holds one node."""

    def __init__(self):
        self.state, self.reason = "IDLE", None
        self.calls = []
        self.installed, self.answers, self.lies = True, True, False

    def run(self, argv):
        self.calls.append(argv[1:])
        if not self.answers:
            return 1, "", NO_CONTROLLER
        if argv[1] == "show":
            if argv[3] != "gpuserver1":
                return 1, f"Node {argv[3]} not found\n", ""
            reason = f"   Reason={self.reason} [root@2026-11-21T10:15:03]\n" if self.reason else ""
            return (
                0,
                f"NodeName=gpuserver1\n   CPUAlloc=0 CPUTot=2\n   State={self.state} Weight=1\n{reason}",
                "",
            )
        words = dict(word.split("=", 1) for word in argv[2:])
        assert words["NodeName"] == "gpuserver1"
        if not self.lies:
            if words["State"] == "DRAIN":
                self.state, self.reason = self.state + "+DRAIN", words["Reason"]
            else:
                self.state, self.reason = "IDLE", None
        return 0, "", ""


def hold(cluster, state="read", name="gpuserver1", check_mode=False, reason="reboot"):
    module = FakeModule({"state": state, "name": name, "reason": reason}, cluster.run, check_mode)
    module.installed = cluster.installed
    return slurm_node.hold(module)


@pytest.fixture
def cluster():
    return Cluster()


def updates(cluster):
    return [call for call in cluster.calls if call[0] == "update"]


def test_drain_and_resume_check_real_check_real(cluster):
    for state, drained in (("drained", True), ("resumed", False)):
        before = len(updates(cluster))
        checked = hold(cluster, state, check_mode=True)
        assert (checked["changed"], checked["drained"], len(updates(cluster))) == (True, drained, before)
        done = hold(cluster, state)
        assert (done["changed"], done["drained"], len(updates(cluster))) == (True, drained, before + 1)
        assert done["diff"] == checked["diff"]
        for check_mode in (True, False):
            assert not hold(cluster, state, check_mode=check_mode)["changed"]
    assert updates(cluster)[0] == ["update", "NodeName=gpuserver1", "State=DRAIN", "Reason=Railyard: reboot"]


def test_a_drain_of_somebody_else_stays(cluster):
    cluster.state, cluster.reason = "IDLE+DRAIN", "Kill task failed"
    for state in ("drained", "resumed"):
        done = hold(cluster, state)
        assert (done["changed"], done["drained"], done["ours"]) == (False, True, False)
    assert updates(cluster) == []


def test_a_drain_of_an_earlier_run_that_broke_off_is_railyards(cluster):
    cluster.state, cluster.reason = "DOWN+DRAIN", "Railyard: reboot"
    assert hold(cluster, "resumed")["changed"]
    assert cluster.state == "IDLE"


@pytest.mark.parametrize(("reason", "resumes"), [("restart of the modules", False), (None, True)])
def test_a_drain_for_another_reason_is_another_works_to_end(cluster, reason, resumes):
    cluster.state, cluster.reason = "IDLE+DRAIN", "Railyard: reboot"
    for check_mode in (True, False):
        done = hold(cluster, "resumed", check_mode=check_mode, reason=reason)
        assert (done["changed"], done["drained"]) == (resumes, not resumes)
    assert len(updates(cluster)) == int(resumes)


def test_jobs_are_reported_and_not_ended(cluster):
    cluster.state = "MIXED"
    done = hold(cluster, "drained")
    assert (done["busy"], done["node_state"]) == (True, "MIXED+DRAIN")


@pytest.mark.parametrize("missing", ["program", "node"])
def test_where_slurm_is_not_there_is_nothing_to_do(cluster, missing):
    cluster.installed = missing != "program"
    name = "elsewhere" if missing == "node" else "gpuserver1"
    for state in ("read", "drained", "resumed"):
        done = hold(cluster, state, name=name)
        assert (done["changed"], done["in_cluster"], done["busy"]) == (False, False, False)
    assert updates(cluster) == []


def test_a_controller_that_does_not_answer_is_no_node_without_slurm(cluster):
    cluster.answers = False
    with pytest.raises(SlurmError, match=r"Unable to contact slurm controller.*Fix:.*slurm_drain_enabled"):
        hold(cluster, "drained")


@pytest.mark.parametrize(("state", "before"), [("drained", "IDLE"), ("resumed", "IDLE+DRAIN")])
def test_success_is_read_back(cluster, state, before):
    cluster.state, cluster.reason, cluster.lies = before, "Railyard: reboot", True
    with pytest.raises(SlurmError, match="and shows"):
        hold(cluster, state)
