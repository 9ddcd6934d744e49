# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What an inventory expects of a subnet."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.load import load, validate
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Inventory
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.expected import from_inventory
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Leaf

FABRIC = """fabric:
  transport: infiniband
  rails:
    - {name: rail0, hca: "mlx5_0:1", rate_gbps: 200, leaves: {su1: ib-leaf1, su2: ib-leaf3}}
    - {name: rail1, pci: "0000:40:00.0", rate_gbps: 200, leaf: ib-leaf2}
  leaves:
    ib-leaf1: {guid: 0x506b4b0300c10001, uplink_gbps: 3200}
    ib-leaf2: {guid: "506b:4b03:00c1:0002"}
  partitions:
    0x7fff: {members: all, membership: limited}
    0x0011: {name: jobs, members: {gpu1: full, gpu2: both}}
  subnet_managers: [gpu1, switch]
"""


@pytest.fixture
def inventory(tmp_path: Path) -> Inventory:
    second = "{scalable_unit: su2, rail_overrides: {rail1: absent}}"
    hosts = f"gpu_nodes: {{hosts: {{gpu1: {{scalable_unit: su1}}, gpu2: {second}}}}}"
    (tmp_path / "hosts.yml").write_text(hosts)
    (tmp_path / "group_vars/all").mkdir(parents=True)
    (tmp_path / "group_vars/all/fabric.yml").write_text(FABRIC)
    inventory = load([str(tmp_path)])
    assert validate(inventory) == []
    return inventory


def test_rails_leaves_partitions_and_managers(inventory: Inventory) -> None:
    expected = from_inventory(inventory, changed_at_s=5.0)
    assert expected.nodes == ("gpu1", "gpu2")
    assert expected.changed_at_s == 5.0
    assert [
        (one.node, one.rail, one.leaf, one.rate_gbps, one.unit, one.absent) for one in expected.ports
    ] == [
        ("gpu1", "rail0", "ib-leaf1", 200, "su1", False),
        ("gpu1", "rail1", "ib-leaf2", 200, "su1", False),
        ("gpu2", "rail0", "ib-leaf3", 200, "su2", False),
        ("gpu2", "rail1", None, None, "su2", True),
    ]
    assert (expected.ports[0].hca, expected.ports[0].names) == ("mlx5_0:1", ("mlx5_0",))
    # 0x40 is bus 64: what rdma-core calls that device.
    assert (expected.ports[1].hca, expected.ports[1].names) == (None, ("ibp64s0f0", "ibp64s0"))
    assert expected.leaves == {
        "ib-leaf1": Leaf("0x506b4b0300c10001", 3200),
        "ib-leaf2": Leaf("0x506b4b0300c10002", None),
    }
    assert expected.partitions is not None
    assert expected.partitions[0x7FFF].membership_of("gpu2") == "limited"
    assert dict(expected.partitions[0x11].members) == {"gpu1": "full", "gpu2": "both"}
    assert expected.managers == ("gpu1", "switch")


def test_facts_name_the_device_and_the_guids(inventory: Inventory) -> None:
    hca: dict[str, Any] = {
        "hca": "mlx5_4:1", "device": "mlx5_4", "port": 1, "pci": "0000:40:00.0", "netdev": None,
        "port_guid": "506b:4b03:005c:2741", "node_guid": "506b:4b03:005c:2740", "link_layer": "InfiniBand",
        "driver_class": "hardware",
    }  # fmt: skip
    facts = {"gpu1": {"netdevs": [], "hcas": [hca]}}
    port = from_inventory(inventory, facts).ports[1]
    assert (port.hca, port.names) == ("mlx5_4:1", ("mlx5_4",))
    assert (port.port_guid, port.node_guid) == ("0x506b4b03005c2741", "0x506b4b03005c2740")


@pytest.mark.parametrize(
    ("name", "nodes", "rails", "rate"), [("dgx-h100-infiniband", 32, 8, 400), ("hgx-a100-hdr", 16, 4, 200)]
)
def test_the_example_inventories(name: str, nodes: int, rails: int, rate: float) -> None:
    folder = (
        next(one for one in Path(__file__).parents if (one / "inventories").is_dir()) / "inventories" / name
    )
    expected = from_inventory(load([str(folder)]))
    assert len(expected.nodes) == nodes
    assert len(expected.ports) == nodes * rails
    assert {one.rate_gbps for one in expected.ports} == {rate}
    assert len({one.leaf for one in expected.ports}) == rails
    assert all(one.names for one in expected.ports)
    assert expected.partitions is None
    assert expected.managers is None


def test_an_inventory_without_infiniband_expects_nothing() -> None:
    folder = next(one for one in Path(__file__).parents if (one / "inventories").is_dir()) / "inventories"
    assert from_inventory(load([str(folder / "hgx-h100-roce")])).ports == ()
