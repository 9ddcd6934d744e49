# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""From the planned rails: the Soft-RoCE devices, the ports of a subnet manager, RoCE v1, indices for NCCL."""

from __future__ import annotations

import pytest
from ansible.errors import AnsibleFilterError
from ansible_collections.railyard.fabric.plugins.filter import nccl, rdma

roce_v1_rails = rdma.FilterModule().filters()["roce_v1_rails"]
soft_roce_devices = rdma.FilterModule().filters()["soft_roce_devices"]
nccl_filters = nccl.FilterModule().filters()
subnet_manager_ports = rdma.FilterModule().filters()["subnet_manager_ports"]


def rail(name, netdev=None, hca=None):
    return {"name": name, "netdev": netdev, "mac": None, "pci": None, "hca": hca, "vlan": None}


def test_the_device_is_the_hca_without_its_port_or_made_of_the_netdev():
    rails = [rail("rail0", "ens6", "rxe0:1"), rail("rail1", "enp129s0f0np0.1")]
    assert soft_roce_devices(rails) == [
        {"device": "rxe0", "netdev": "ens6"},
        {"device": "rxe_enp129s0f0np0.1", "netdev": "enp129s0f0np0.1"},
    ]


@pytest.mark.parametrize(
    ("rails", "says"),
    [
        ([rail("rail0", None, "rxe0:1")], "rail rail0 names no netdev"),
        ([rail("rail0", "ens6", "rxe0:2")], "one port: rxe0:1"),
        ([rail("rail0", "ens6", "rxe0:1"), rail("rail1", "ens7", "rxe0:1")], "device rxe0 is named twice"),
        ([rail("rail0", "ens6"), rail("rail1", "ens6")], "netdev ens6 is named twice"),
    ],
)
def test_a_rail_that_cannot_have_one_is_named(rails, says):
    with pytest.raises(AnsibleFilterError, match=says):
        soft_roce_devices(rails)


def port(hca, layer="InfiniBand", gid="fe80:0000:0000:0000:0002:c903:0002:fb06"):
    return {"hca": hca, "netdev": None, "link_layer": layer, "gids": [{"index": 0, "gid": gid}]}


def test_the_port_guid_is_the_lower_half_of_gid_0():
    facts = {"netdevs": [], "hcas": [port("mlx4_0:1"), port("mlx4_0:2", gid="fe80::7")]}
    # 0x0002c9030002fb06 is how the package's own example writes such a port.
    assert subnet_manager_ports([rail("rail0", hca="mlx4_0:1")], facts) == ["0x0002c9030002fb06"]


def test_all_rails_without_an_infiniband_port_are_named():
    facts = {"netdevs": [], "hcas": [port("mlx4_0:1", "Ethernet")]}
    with pytest.raises(AnsibleFilterError, match=r"rail0: .*Ethernet; rail rail1 has no RDMA port"):
        subnet_manager_ports([rail("rail0", hca="mlx4_0:1"), rail("rail1", hca="mlx4_1:1")], facts)


def test_rails_of_roce_v1_alone_are_named():
    def gids(*types):
        return [
            {"index": index, "gid": "::ffff:10.0.1.1", "address": "10.0.1.1", "type": kind, "netdev": "ens6"}
            for index, kind in enumerate(types)
        ]

    planned = {**rail("rail0", "ens6", "mlx4_0:1"), "address": "10.0.1.1/24"}
    device = {"netdev": "ens6", "mac": "02:00:00:00:00:01"}
    for types, names in (
        (("RoCE v1",), ["rail0"]),
        (("RoCE v1", "RoCE v2"), []),
        ((), []),
    ):
        hca = {**port("mlx4_0:1", "Ethernet"), "netdev": "ens6", "gids": gids(*types)}
        assert roce_v1_rails([planned], {"netdevs": [device], "hcas": [hca]}) == names
    # As where the driver waits for a reboot, or a play knows no more of a rail than its HCA.
    assert roce_v1_rails([planned, {"name": "rail1", "hca": "mlx4_0:2"}], {"netdevs": [], "hcas": []}) == []


def roce_node(*indices):
    """A node whose rails' addresses have RoCE v2 GIDs at these indices, None for none."""
    rails, hcas = [], []
    for number, index in enumerate(indices):
        address = f"10.0.{number}.1"
        rails.append(
            {**rail(f"rail{number}", f"ens{number}", f"mlx5_{number}:1"), "address": f"{address}/24"}
        )
        gid = {"gid": f"::ffff:{address}", "address": address, "type": "RoCE v2", "netdev": f"ens{number}"}
        table = [] if index is None else [{**gid, "index": index}]
        hcas.append({**port(f"mlx5_{number}:1", "Ethernet"), "netdev": f"ens{number}", "gids": table})
    netdevs = [
        {"netdev": f"ens{number}", "mac": f"02:00:00:00:00:0{number}"} for number in range(len(indices))
    ]
    return rails, {"netdevs": netdevs, "hcas": hcas}


@pytest.mark.parametrize(("indices", "index"), [((3, 3), 3), ((0,), 0), ((None, None), ""), ((), "")])
def test_the_one_gid_index(indices, index):
    assert nccl_filters["nccl_gid_index"](*roce_node(*indices)) == index


@pytest.mark.parametrize(("indices", "says"), [((3, 5), "rail0 3, rail1 5"), ((3, None), "rail1 none")])
def test_no_gid_index_is_right_on_unlike_ports(indices, says):
    with pytest.raises(AnsibleFilterError, match=f"{says}, and NCCL before 2.21 takes one for all"):
        nccl_filters["nccl_gid_index"](*roce_node(*indices))


def infiniband_node(*tables):
    rails = [rail(f"rail{number}", None, f"mlx5_{number}:1") for number in range(len(tables))]
    hcas = [
        {**port(f"mlx5_{number}:1", "InfiniBand"), "netdev": None, "gids": [], "pkey_indices": table}
        for number, table in enumerate(tables)
    ]
    return rails, {"netdevs": [], "hcas": hcas}


@pytest.mark.parametrize("pkey", ["0x8001", "0x0001", "0x1"])
def test_the_one_index_of_a_pkey(pkey):
    node = infiniband_node({"0xffff": 0, "0x8001": 2}, {"0x8001": 2, "0x0001": 1})
    assert nccl_filters["nccl_pkey_index"](*node, pkey) == 2


@pytest.mark.parametrize(
    ("tables", "says"),
    [
        (
            ({"0x8001": 1}, {"0xffff": 0, "0x0001": 1}),
            r"rail1 is no full member of the partition 0x8001 \(its",
        ),
        (({"0x8001": 1}, {}), "rail1 is no full member of the partition 0x8001 .its P_Keys: none"),
        (({"0x8001": 1}, {"0x8001": 2}), "indices rail0 1, rail1 2"),
        ((), "indices none"),
    ],
)
def test_a_pkey_that_no_index_is_of(tables, says):
    with pytest.raises(AnsibleFilterError, match=says):
        nccl_filters["nccl_pkey_index"](*infiniband_node(*tables), "0x8001")
