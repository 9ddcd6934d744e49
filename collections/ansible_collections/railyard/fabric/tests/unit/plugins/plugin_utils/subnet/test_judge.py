# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The judgement as a whole: status, previous readings of other subnets, old captures, several subnets."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.causes import CAUSES
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.judge import divide, judge
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Leaf
from support.fake_subnets import NOON_S, Net

DAY_S = 86400


def test_a_capture_older_than_the_inventory_is_a_warning() -> None:
    net = Net()
    expected = net.expected()._replace(changed_at_s=NOON_S + DAY_S + 60)
    judgement = judge(net.reading(), expected)
    assert [(one.cause, one.severity) for one in judgement.findings] == [("capture_old", "warn")]
    assert judgement.status == 0
    assert judge(net.reading(), expected._replace(changed_at_s=NOON_S + DAY_S - 60)).findings == ()


def test_a_previous_reading_of_another_subnet_is_not_compared() -> None:
    net, other = Net(), Net()
    expected = net.expected()
    net.disconnect(net.adapter_key(0, 0))
    for previous in (
        other.reading(prefix="0xfec0000000000000"),
        other.reading(taken_at_s=NOON_S + 60),
        other.reading(
            devices={f"0x{int(guid, 16) + 2**40:016x}": one for guid, one in other.reading().devices.items()}
        ),
    ):
        judgement = judge(net.reading(), expected, previous)
        assert [one.cause for one in judgement.findings] == ["adapter_missing"]
        assert any("previous reading is not compared" in note for note in judgement.notes)


def test_subnets_with_equal_lids_stay_apart() -> None:
    # Two rails, each a subnet of its own, with the same LIDs and the same prefix.
    whole = Net(rails=2)
    parts = []
    for rail in range(2):
        part = whole.copy()
        for unit in range(2):
            for guid in [
                part.leaf(unit, 1 - rail),
                *(part.adapter(unit * 4 + n, 1 - rail) for n in range(4)),
            ]:
                part.remove(guid) if guid in part.devices else None
        parts.append(part)
    readings = [part.reading() for part in parts]
    lids = [
        {port.lid for device in one.devices.values() for port in device.ports.values()} for one in readings
    ]
    assert lids[0] == lids[1]
    divided = divide(readings, whole.expected())
    assert [{one.rail for one in part.ports} for part in divided] == [{"rail0"}, {"rail1"}]
    assert [set(part.leaves) for part in divided] == [{"leaf0-0", "leaf1-0"}, {"leaf0-1", "leaf1-1"}]
    for reading, expected in zip(readings, divided, strict=True):
        judgement = judge(reading, expected)
        assert judgement.findings == ()
        assert judgement.coverage.expected_ports == 8
    assert divide(readings[:1], whole.expected()) == (whole.expected(),)


def test_failures_come_first_and_decide_the_status() -> None:
    net = Net()
    expected = net.expected()
    net.managers = None
    net.after = {net.adapter_key(0, 0): {"SymbolErrorCounter": 1}}
    assert [one.severity for one in judge(net.reading(), expected).findings] == ["unmeasured", "warn"]
    assert judge(net.reading(), expected).status == 3
    net.disconnect(net.adapter_key(3, 3))
    judgement = judge(net.reading(), expected)
    assert [one.severity for one in judgement.findings] == ["fail", "unmeasured", "warn"]
    assert judgement.status == 1


def test_every_finding_has_a_next_step_of_the_table() -> None:
    net = Net()
    net.swap(net.adapter_key(0, 0), net.adapter_key(0, 1))
    (found,) = judge(net.reading(), net.expected()).findings
    assert found.next.endswith(CAUSES["wrong_leaf"].next)
    assert "ibnetdiscover" in found.next
    assert "lldpctl" not in found.next


def test_an_exchanged_leaf_is_a_warning() -> None:
    net = Net()
    expected = net.expected()
    leaves = {**expected.leaves, "leaf0-0": Leaf("0x00000000a1234567")}
    (found,) = judge(net.reading(), expected._replace(leaves=leaves)).findings
    assert (found.cause, found.severity) == ("switch_guid_differs", "warn")


def test_a_reading_without_port_states_says_what_it_cannot_see() -> None:
    net = Net()
    for device in net.devices.values():
        for port in device.ports.values():
            port.state = port.physical = ""
    judgement = judge(net.reading(), net.expected())
    assert judgement.findings == ()
    assert any("iblinkinfo" in note for note in judgement.notes)


def test_an_empty_reading_is_no_crash() -> None:
    reading = Net().reading(devices={}, managers=(), counters=())
    judgement = judge(reading, Net().expected())
    assert judgement.status == 1
    assert judgement.coverage.found_ports == 0
