# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose an adapter is: a GUID counts before a name, and texts of devices are only text."""

from __future__ import annotations

import random

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import PortKey
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean_line
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.judge import judge
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.names import has_host_name, switch_names
from support.fake_subnets import FakeDevice, Net

CARD = "MT4129 ConnectX7   Mellanox Technologies"


def test_a_guid_counts_before_a_name() -> None:
    net = Net()
    for device in net.devices.values():
        if device.kind == "adapter":
            device.description = CARD
    judgement = judge(net.reading(), net.expected(facts=True))
    assert judgement.findings == ()
    assert judgement.owners[net.adapter_key(2, 1)][:2] == ("gpu003", "rail1")
    assert judgement.owners[net.adapter_key(2, 1)].by == "guid"


def test_the_device_or_the_port_may_have_the_guid() -> None:
    # ibnetdiscover -p and iblinkinfo name an adapter by its port's GUID alone.
    net = Net()
    expected = net.expected(facts=True)
    device = net.devices.pop(net.adapter(2, 1))
    leaf = device.ports[1].peer
    assert leaf is not None
    device.description = CARD
    net.devices[net.port_guid(net.adapter(2, 1))] = device
    net.connect(PortKey(net.port_guid(net.adapter(2, 1)), 1), leaf)
    assert judge(net.reading(), expected).findings == ()


def test_a_name_that_contradicts_the_guid_is_a_finding_for_the_node() -> None:
    net = Net()
    for rail in range(net.rails):
        net.devices[net.adapter(2, rail)].description = f"gpu004 mlx5_{rail}"
    judgement = judge(net.reading(), net.expected(facts=True))
    (found,) = judgement.findings
    assert (found.cause, found.severity, found.node) == ("host_misnamed", "warn", "gpu003")
    assert "calls itself gpu004" in found.text


def test_names_that_are_not_unique_without_guids() -> None:
    net = Net()
    for rail in range(net.rails):
        net.devices[net.adapter(2, rail)].description = f"gpu004 mlx5_{rail}"
    judgement = judge(net.reading(), net.expected())
    (found,) = judgement.findings
    assert (found.cause, found.severity, found.node) == ("name_not_unique", "unmeasured", "gpu004")
    assert "one of them is likely gpu003" in found.text
    assert judgement.status == 3


def test_adapters_that_name_no_node_may_be_the_missing_ones() -> None:
    net = Net()
    net.devices[net.adapter(2, 1)].description = CARD
    judgement = judge(net.reading(), net.expected())
    (found,) = judgement.findings
    assert (found.cause, found.severity) == ("adapter_unknown", "unmeasured")
    assert "gpu003 rail1" in found.text
    assert found.ports == (net.adapter_key(2, 1),)


def test_an_unknown_port_does_not_excuse_a_missing_rail() -> None:
    net = Net()
    expected = net.expected()
    net.devices["0x00000000dd000000"] = FakeDevice("adapter", "storage1 mlx5_0")
    net.connect(PortKey("0x00000000dd000000", 1), PortKey(net.leaf(0, 1), 5))
    net.disconnect(net.adapter_key(2, 1))
    found = {one.cause: one for one in judge(net.reading(), expected).findings}
    assert set(found) == {"adapter_unknown", "adapter_missing"}
    assert found["adapter_unknown"].severity == "warn"
    assert "storage1" in found["adapter_unknown"].text


def test_many_unknown_ports_are_one_finding() -> None:
    net = Net(nodes_each=12)
    expected = net.expected()
    kept = expected.nodes[:2]
    expected = expected._replace(nodes=kept, ports=tuple(one for one in expected.ports if one.node in kept))
    found = judge(net.reading(), expected).findings
    assert [one.cause for one in found] == ["adapter_unknown"]
    assert "22 hosts" in found[0].text


def test_aggregation_nodes_are_neither_hosts_nor_missing() -> None:
    net = Net()
    for index in range(2):
        guid = f"0x00000000ee00000{index}"
        net.devices[guid] = FakeDevice("aggregation", "Mellanox Technologies Aggregation Node")
        net.connect(PortKey(guid, 1), PortKey(net.spine(index), 65))
    judgement = judge(net.reading(), net.expected())
    assert judgement.findings == ()
    assert judgement.coverage.aggregation_nodes == 2
    assert judgement.coverage.adapters == 32
    assert judgement.tiers[net.spine(0)] == 1
    assert judgement.is_tree


@pytest.mark.parametrize("description", ["gpu003 HCA-2", "gpu003.cluster.example mlx5_1", "GPU003 mlx5_1"])
def test_a_node_calls_itself_in_several_ways(description: str) -> None:
    net = Net()
    expected = net.expected(hca=False)
    for node in range(8):
        for rail in range(net.rails):
            text = description.replace("003", f"{node + 1:03d}").replace("HCA-2", f"HCA-{rail + 1}")
            net.devices[net.adapter(node, rail)].description = text.replace("mlx5_1", f"mlx5_{rail}")
    judgement = judge(net.reading(), expected)
    assert judgement.findings == ()
    assert judgement.owners[net.adapter_key(2, 1)] == ("gpu003", "rail1", judgement.owners[
        net.adapter_key(2, 1)].shown, "order")  # fmt: skip


def test_devices_are_in_the_order_of_their_numbers() -> None:
    # The eight compute ports of a DGX H100 are mlx5_0, 3, 4, 5, 6, 9, 10 and 11.
    net = Net(rails=8)
    numbers = (0, 3, 4, 5, 6, 9, 10, 11)
    for node in range(8):
        for rail in range(8):
            net.devices[net.adapter(node, rail)].description = f"gpu{node + 1:03d} mlx5_{numbers[rail]}"
    judgement = judge(net.reading(), net.expected(hca=False))
    assert judgement.findings == ()
    assert judgement.owners[net.adapter_key(2, 6)].rail == "rail6"


def test_rails_that_no_one_can_tell_apart_are_not_missing() -> None:
    net = Net(rails=2)
    for node in range(8):
        for rail in range(2):
            net.devices[net.adapter(node, rail)].description = f"gpu{node + 1:03d} mlx5_{2 * node + rail}"
    judgement = judge(net.reading(), net.expected(hca=False))
    assert judgement.status == 3
    assert {one.cause for one in judgement.findings} == {"adapter_unknown"}
    assert [len(unit.nodes) for unit in judgement.units] == [4, 4]


def test_ports_of_one_adapter_are_distinguished_by_their_number() -> None:
    net = Net(units=1, rails=2)
    expected = net.expected()
    for node in range(4):
        second = net.devices.pop(net.adapter(node, 1)).ports[1].peer
        assert second is not None
        net.connect(PortKey(net.adapter(node, 0), 2), second)
    ports = tuple(
        one._replace(hca=f"mlx5_0:{1 + int(one.rail[-1])}", names=("mlx5_0",)) for one in expected.ports
    )
    assert judge(net.reading(), expected._replace(ports=ports)).findings == ()


@pytest.mark.parametrize(
    ("description", "is_host"),
    [("gpu05 mlx5_2", True), (CARD, False), ("localhost mlx5_0", False), ("gpu05", False), ("", False),
     ("Mellanox Technologies", False), ("(none) mlx5_0", False)],
)  # fmt: skip
def test_which_descriptions_name_a_host(description: str, is_host: bool) -> None:
    assert has_host_name(description) is is_host


@pytest.mark.parametrize(
    ("description", "name"),
    [
        # ibswitches in a public guide to multicast groups, ibdiagnet2.net_dump and a console of XDR switches
        ("MF0;lpdswitch1:MSB7700/U1", "lpdswitch1"),
        ("MF0;sw06:N5400_LD/U1", "sw06"),
        ("MF0;PG21A-R10-IB:Q3400_RA/U2", "pg21a-r10-ib"),
        ("MF0;switch-112090:MTS3600/U1", "switch-112090"),
        ("MF0;switch-01", "switch-01"),
        ("MF0;a;b:c:QM9700/U1", "a;b:c"),
    ],
)
def test_names_of_managed_switches(description: str, name: str) -> None:
    assert list(switch_names(description)) == [description.lower(), name]


def test_names_of_other_switches() -> None:
    assert list(switch_names("Quantum Mellanox Technologies")) == ["quantum mellanox technologies"]


HOSTILE = [
    "\x1b[2J\x1b]0;owned\x07gpu001 mlx5_0",
    "<script>alert(1)</script> <img src=x>",
    "../../../etc/passwd mlx5_0",
    "gpu001\nmlx5_0\rFAIL gpu002",
    "\u202egpu001 mlx5_0",
    "'; DROP TABLE; -- \"quoted\" \\",
    "MF0;" + ":" * 60,
    "\x00" * 64,
    "",
    *("".join(chr(random.Random(seed).randrange(256)) for _at in range(64)) for seed in range(20)),
    *(bytes(random.Random(seed).randrange(256) for _at in range(64)).decode("utf-8", "surrogateescape")
      for seed in range(20)),
]  # fmt: skip


@pytest.mark.parametrize("text", HOSTILE)
def test_a_hostile_description_is_only_text(text: str) -> None:
    net = Net()
    previous = net.reading()
    for guid in (net.adapter(0, 0), net.leaf(0, 1), net.spine(0), net.adapter(3, 3)):
        net.devices[guid].description = text
    net.after = {net.adapter_key(0, 0): {"SymbolErrorCounter": 4000}}
    net.train(net.adapter_key(3, 3), width=1)
    for before in (None, previous):
        judgement = judge(net.reading(), net.expected(), before)
        shown = [one.text for one in judgement.findings] + [
            *judgement.notes,
            *judgement.switch_names.values(),
        ]
        shown += [owner.shown for owner in judgement.owners.values()] + [
            leaf.name for leaf in judgement.leaves
        ]
        for one in shown:
            assert one == clean_line(one)
            assert "\n" not in one
        assert judgement.status in (1, 3)
