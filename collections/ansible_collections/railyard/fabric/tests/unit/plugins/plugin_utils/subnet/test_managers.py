# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Subnet managers: one master, where it is declared."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.judge import judge
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Judgement
from support.fake_subnets import Net, manager


def add_manager(state: str | None, priority: int = 0) -> Net:
    """Return a subnet in which a second manager runs on gpu002."""
    net = Net()
    net.managers = [*(net.managers or ()), manager(net.port_guid(net.adapter(1, 0)), state, priority)]
    return net


def judge_managers(net: Net, *, managers: tuple[str, ...] | None = None) -> Judgement:
    return judge(net.reading(), net.expected(managers=managers))


def test_one_master_and_a_standby_are_healthy() -> None:
    net = add_manager("STANDBY", 3)
    judgement = judge_managers(net)
    assert judgement.findings == ()
    assert any("STANDBY, priority 3" in note and "gpu002" in note for note in judgement.notes)
    assert judge_managers(net, managers=("switch", "gpu002")).findings == ()


def test_a_standby_that_is_not_declared_is_a_warning() -> None:
    net = add_manager("STANDBY")
    (found,) = judge_managers(net, managers=("switch",)).findings
    assert (found.cause, found.severity, found.node) == ("manager_unexpected", "warn", "gpu002")


def test_a_declared_standby_that_is_missing_is_a_warning() -> None:
    (found,) = judge_managers(Net(), managers=("switch", "gpu003")).findings
    assert (found.cause, found.severity, found.node) == ("manager_missing", "warn", "gpu003")


def test_two_masters_fail() -> None:
    net = add_manager("MASTER")
    judgement = judge_managers(net)
    assert [(one.cause, one.severity) for one in judgement.findings] == [("two_masters", "fail")]
    assert "spine0" in judgement.findings[0].text
    assert "gpu002" in judgement.findings[0].text


def test_one_port_that_was_queried_twice_is_one_manager() -> None:
    net = Net()
    assert net.managers is not None
    net.managers.append(manager(net.spine(0), None))
    assert judge_managers(net).findings == ()


def test_no_master_fails() -> None:
    net = Net()
    net.managers = []
    assert [one.cause for one in judge_managers(net).findings] == ["no_master"]
    net.managers = [manager(net.spine(0), "STANDBY")]
    (found,) = judge_managers(net).findings
    assert found.cause == "no_master"
    assert "STANDBY" in found.text


def test_a_manager_that_does_not_answer_may_be_a_master() -> None:
    net = add_manager(None)
    judgement = judge_managers(net)
    assert [(one.cause, one.severity) for one in judgement.findings] == [("no_answer", "unmeasured")]
    assert judgement.status == 3
    net.managers = [manager(net.spine(0), None)]
    assert judge_managers(net).status == 3


def test_managers_that_were_not_read_are_not_healthy() -> None:
    net = Net()
    net.managers = None
    judgement = judge_managers(net)
    assert [one.cause for one in judgement.findings] == ["subnet_unread"]
    assert judgement.status == 3


def test_a_manager_is_found_by_its_lid() -> None:
    net = Net()
    lid = list(net.reading().devices).index(net.adapter(1, 0)) + 1
    net.managers = [manager("0x00000000deadbeef", "MASTER", lid=lid)]
    (found,) = judge_managers(net, managers=("switch",)).findings[:1]
    assert (found.cause, found.node) == ("manager_unexpected", "gpu002")
