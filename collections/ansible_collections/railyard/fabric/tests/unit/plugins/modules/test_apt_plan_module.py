# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The plan comes with the first look where apt's lists are young and suffice, and only there."""

from __future__ import annotations

import json
import os
import time

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.apt import query
from ansible_collections.railyard.fabric.plugins.modules import apt_plan
from support.nodes.module import FakeModule

SIMULATED = "Inst perftest (4.5-1 Debian:12.15/oldstable [amd64])\n"
HOUR_S = 3600


class Node(FakeModule):
    """What `look` uses of AnsibleModule: a dpkg, and an apt that can or cannot plan."""

    def __init__(self, finds=True, simulated=SIMULATED, packages="", **params):
        lists = {name: [] for name in ("names", "hold", "unhold", "conflicts", "remove_allow")}
        super().__init__(
            {**lists, "pins": {}, "names": ["perftest"], "simulate": True, "spare_mib": 1}, self.answer
        )
        self.params |= {
            "role": None,
            "units": [],
            "undo_plan": None,
            "failure_text": "",
            "lists_valid_s": HOUR_S,
            **params,
        }
        self.finds = finds
        self.moves, self.packages = simulated, packages
        self.simulated = 0

    def answer(self, argv):
        if argv[0].endswith("/systemctl"):
            return 0, "UnitFileState=disabled\nActiveState=inactive\n", ""
        if argv[0] != "apt-get":
            return 0, self.packages if argv[0] == "dpkg-query" else "", ""
        self.simulated += 1
        return (0, self.moves, "") if self.finds else (100, "", "E: Unable to locate package perftest\n")


@pytest.fixture
def lists(tmp_path, monkeypatch):
    """Return a function that gives the lists, or the mark of their last fetching, an age."""
    paths = [tmp_path / "stamp", tmp_path / "lists"]
    monkeypatch.setattr(query, "LISTS_FETCHED", tuple(map(str, paths)))

    def age(lists_s=None, stamp_s=None):
        for path, value_s in zip(paths, (stamp_s, lists_s), strict=True):
            if value_s is not None:
                path.touch()
                os.utime(path, (time.time() - value_s,) * 2)

    return age


def test_young_lists_are_queried_at_once(lists):
    lists(lists_s=HOUR_S / 2)
    result = apt_plan.look(Node())
    assert [move["name"] for move in result["plan"]["moves"]] == ["perftest"]


@pytest.mark.parametrize(
    "ages",
    [{"lists_s": 2 * HOUR_S}, {"lists_s": -HOUR_S}, {}, {"lists_s": 1, "stamp_s": 2 * HOUR_S}],
    ids=["old", "of the future", "none", "young but not fetched whole"],
)
def test_other_lists_are_not_queried(lists, ages):
    lists(**ages)
    node = Node()
    result = apt_plan.look(node)
    assert "plan" not in result
    assert result["specs"] == ["perftest"]
    assert node.simulated == 0


def test_young_lists_that_lack_the_package_give_neither_plan_nor_refusal(lists):
    lists(lists_s=1)
    result = apt_plan.look(Node(finds=False))
    assert "plan" not in result
    assert result["refusals"] == []


def test_without_a_limit_any_lists_are_queried_and_what_they_lack_is_refused(lists):
    lists(lists_s=100 * HOUR_S)
    result = apt_plan.look(Node(finds=False, lists_valid_s=None))
    assert result["plan"]["possible"] is False
    assert "Unable to locate package perftest" in result["refusals"][0]


def test_what_the_plan_of_young_lists_is_refused_for_comes_with_it(lists):
    lists(lists_s=1)
    held = "libibverbs1\t44.0-2\thold ok installed\nold-tools\t2.0\tinstall ok installed\n"
    moves = "Inst libibverbs1 [44.0-2] (50.0-2 Debian:12.15/oldstable [amd64])\nPurg old-tools [2.0]\n"
    result = apt_plan.look(Node(simulated=SIMULATED + moves, packages=held))
    assert result["plan"]["moves_held"] is True
    assert [line.split(". Fix:")[0] for line in result["refusals"]] == [
        "apt would remove old-tools 2.0",
        "on hold, and not by this request: libibverbs1 (held at 44.0-2, would become 50.0-2)",
    ]


@pytest.mark.parametrize("finds", [True, False])
def test_a_dpkg_that_is_not_done_is_refused_with_or_without_a_plan(lists, finds):
    lists(lists_s=1)
    half = "iperf3\t3.12-1\tinstall ok half-configured\n"
    result = apt_plan.look(Node(finds=finds, packages=half))
    assert ("plan" in result) is finds
    assert "dpkg has not finished with iperf3 (half-configured)" in result["refusals"][0]


DPKG = "python3-apt\t2.6.0\thold ok installed\nlibibverbs1\t44.0-2\tinstall ok installed\n"
MOVES = SIMULATED + "Inst libibverbs1 [44.0-2] (44.0-3 Debian [amd64])\n"


@pytest.fixture
def record(tmp_path, monkeypatch):
    """Return a function that reads the record of a role; None where there is none."""
    monkeypatch.setattr(apt_plan, "ROOT", str(tmp_path))

    def read(role="rdma_stack"):
        path = tmp_path / f"var/lib/railyard/originals/{role}.json"
        return json.loads(path.read_text())["record"] if path.exists() else None

    return read


def test_what_may_move_is_recorded_with_the_same_request(lists, record):
    lists(lists_s=1)
    wish = {"role": "rdma_stack", "packages": DPKG, "simulated": MOVES}
    node = Node(**wish)
    node.check_mode = True
    checked = apt_plan.look(node)
    assert checked["changed"]
    assert record() is None
    done = apt_plan.look(Node(**wish))
    assert done == checked
    assert record() == {
        "packages": {
            "perftest": None,
            "python3-apt": {"version": "2.6.0", "hold": True},
            "libibverbs1": {"version": "44.0-2", "hold": False},
        },
        "installed_before": ["libibverbs1", "python3-apt"],
    }
    before = record()
    again = apt_plan.look(
        Node(
            **wish,
        )
    )
    assert (again["changed"], again["diff"], record()) == (False, [], before)


def test_nothing_is_recorded_where_nothing_moves_or_something_is_refused(lists, record):
    lists(lists_s=1)
    there = DPKG + "perftest\t4.5\tinstall ok installed\n"
    assert not apt_plan.look(Node(role="rdma_stack", packages=there))["changed"]
    refused = Node(role="rdma_stack", packages=DPKG, conflicts=["libibverbs1"])
    assert apt_plan.look(refused)["refusals"]
    assert not apt_plan.look(Node(packages=DPKG))["changed"]
    assert record() is None


def test_without_a_plan_the_packages_themselves_are_recorded(lists, record):
    lists(lists_s=2 * HOUR_S)
    assert apt_plan.look(Node(role="rdma_stack", packages=DPKG))["changed"]
    assert set(record()["packages"]) == {"perftest", "python3-apt"}


def test_the_state_of_units_comes_with_the_packages(lists):
    states = {"iperf3.service": {"unit_file_state": "disabled", "active_state": "inactive"}}
    assert apt_plan.look(Node(units=["iperf3.service"]))["units"] == states
    assert apt_plan.look(Node())["units"] == {}
