# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rails of real machine types, found by netdev, MAC or PCI address whatever their RDMA devices are called.

The names were captured by others: DGX Spark, geerlingguy/sbc-reviews issue 92; DGX H100, NVIDIA's user guide
(ports, netdevs and the numbers of mlx5 under DGX OS); Azure ND H100 v5, Azure/azhpc-images
topology/ndv5-topo.xml and azurehpc-health-checks conf/nd96isr_h100_v5.conf; ConnectX-3 Pro, ibdev2netdev of
a node with `mlx4_0 port 2 ==> ens817d1`; Dell XE9680 with Thor 2, ROCm/cvs; AWS p5, ai-dynamo/nixl
test/unit/utils/libfabric/topo. Bus addresses of names are those that rdma-core's rule makes the names of
(Documentation/udev.md).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import pytest
from ansible_collections.railyard.fabric.plugins.filter import nccl
from ansible_collections.railyard.fabric.plugins.module_utils.facts import node
from ansible_collections.railyard.fabric.plugins.module_utils.rails import bind, resolve
from ansible_collections.railyard.fabric.plugins.module_utils.rules import link, rdma
from support.nodes.sysfs_tree import Tree


class Card(NamedTuple):
    """One port: PCI address, RDMA device (None without), netdev (None without) and its MAC."""

    pci: str
    device: str | None
    netdev: str | None
    mac: str | None = None


class Machine(NamedTuple):
    """Ports of a machine in the order of its rails, and others that are no rails."""

    rails: list[Card]
    driver: str = "mlx5_core"
    layer: str = "Ethernet"
    others: tuple[Card, ...] = ()


SPARK = Machine(
    [
        Card("0000:01:00.0", "rocep1s0f0", "enp1s0f0np0", "4c:bb:47:00:42:30"),
        Card("0002:01:00.0", "roceP2p1s0f0", "enP2p1s0f0np0", "4c:bb:47:00:42:34"),
    ],
    others=(
        Card("0000:01:00.1", "rocep1s0f1", "enp1s0f1np1", "4c:bb:47:00:42:31"),
        Card("0002:01:00.1", "roceP2p1s0f1", "enP2p1s0f1np1", "4c:bb:47:00:42:35"),
    ),
)
_H100 = {"18": 0, "40": 3, "4f": 4, "5e": 5, "9a": 6, "c0": 9, "ce": 10, "dc": 11}
_H100_OTHERS = (
    Card("0000:29:00.0", "mlx5_1", "ibp41s0f0"),
    Card("0000:29:00.1", "mlx5_2", "enp41s0f1np1"),
    Card("0000:aa:00.0", "mlx5_7", "ibp170s0f0"),
    Card("0000:aa:00.1", "mlx5_8", "enp170s0f1np1"),
)
DGX_OS = Machine(
    [Card(f"0000:{bus}:00.0", f"mlx5_{number}", f"ibp{int(bus, 16)}s0") for bus, number in _H100.items()],
    layer="InfiniBand",
    others=_H100_OTHERS,
)
# The same machine with the distribution's rdma-core, and no ib_ipoib: no mlx5_N, and no netdev.
H100_INBOX = DGX_OS._replace(
    rails=[Card(f"0000:{bus}:00.0", f"ibp{int(bus, 16)}s0", None) for bus in _H100], others=()
)
AZURE = Machine(
    [Card(f"010{n + 1}:00:00.0", f"mlx5_ib{n}", f"ib{n}") for n in range(8)],
    layer="InfiniBand",
    others=(Card("0001:00:02.0", "mlx5_an0", "eth1"),),
)
THOR2 = Machine(
    [
        Card(f"0000:{bus:02x}:00.0", f"rocep{bus}s0", f"gpu{n}_eth")
        for n, bus in enumerate((28, 62, 79, 96, 158, 190, 206, 222))
    ],
    driver="bnxt_en",
)
EFA = Machine(
    [Card(f"0000:4f:0{n}.0", f"rdmap79s{n}", None) for n in range(4)], driver="efa", layer="Unspecified"
)
MACHINES = {
    "DGX Spark": (SPARK, "rocep1s0f0:1,roceP2p1s0f0:1"),
    "DGX H100, DGX OS": (DGX_OS, "mlx5_0:1,mlx5_3:1,mlx5_4:1,mlx5_5:1,mlx5_6:1,mlx5_9:1,mlx5_10:1,mlx5_11:1"),
    "DGX H100, rdma-core's names, no IPoIB": (
        H100_INBOX,
        "ibp24s0:1,ibp64s0:1,ibp79s0:1,ibp94s0:1,ibp154s0:1,ibp192s0:1,ibp206s0:1,ibp220s0:1",
    ),
    "Azure ND H100 v5": (
        AZURE,
        "mlx5_ib0:1,mlx5_ib1:1,mlx5_ib2:1,mlx5_ib3:1,mlx5_ib4:1,mlx5_ib5:1,mlx5_ib6:1,mlx5_ib7:1",
    ),
    "XE9680 with Thor 2": (
        THOR2,
        "rocep28s0:1,rocep62s0:1,rocep79s0:1,rocep96s0:1,rocep158s0:1,rocep190s0:1,rocep206s0:1,rocep222s0:1",
    ),
    "AWS p5": (EFA, "rdmap79s0:1,rdmap79s1:1,rdmap79s2:1,rdmap79s3:1"),
}


def build(root: Path, machine: Machine) -> Tree:
    root.mkdir(exist_ok=True)
    tree = Tree(root)
    tree.host()
    for number, card in enumerate((*machine.others, *machine.rails)):
        bus = tree.pci(card.pci, machine.driver)
        if card.netdev:
            infiniband = card.netdev.startswith("ib")
            mac = card.mac or (
                f"00:00:10:29:fe:80:00:00:00:00:00:00:94:6d:ae:03:00:00:00:{number:02x}"
                if infiniband
                else f"94:6d:ae:00:00:{number:02x}"
            )
            tree.netdev(card.netdev, bus, type=32 if infiniband else 1, address=mac, addr_assign_type=0)
        if card.device:
            port = tree.port(card.device, 1, bus, machine.layer)
            tree.write(f"sys/class/infiniband/{card.device}/node_type", "1: CA")
            if card.netdev and machine.layer == "Ethernet":
                tree.gid(port, 0, "fe80:0000:0000:0000:0e42:a1ff:fe00:0001", "RoCE v2", card.netdev)
    return tree


def facts_of(tree: Tree) -> dict[str, Any]:
    return node.collect(tree.reader(), lambda argv: tree.ip_json() if argv[0] == "ip" else None, None)


def rails_by(key: str, machine: Machine) -> list[dict[str, Any]]:
    unknown = dict.fromkeys(("netdev", "mac", "pci", "hca", "vlan", "mtu", "address", "address6"))
    return [
        {**unknown, "name": f"rail{index}", key: getattr(card, key)}
        for index, card in enumerate(machine.rails)
    ]


# A key that the source does not give of a machine's ports is not compared.
CASES = [
    (name, key)
    for name, (machine, _names) in MACHINES.items()
    for key in ("netdev", "mac", "pci")
    if getattr(machine.rails[0], key) is not None
]


@pytest.mark.parametrize(("name", "key"), CASES)
def test_a_machine_has_its_rails_whatever_its_devices_are_called(tmp_path, name, key):
    machine, names = MACHINES[name]
    facts = facts_of(build(tmp_path, machine))
    rails = rails_by(key, machine)
    assert nccl.nccl_hcas(rails, facts) == names.split(",")
    assert nccl.nccl_hcas_unknown(rails, facts) == []
    # What a test schedule carries: perftest's -d.
    assert list(bind.hcas(rails, facts).values()) == names.split(",")
    if machine.rails[0].netdev:
        assert list(bind.netdevs(rails, facts).values()) == [card.netdev for card in machine.rails]
        for rail, card in zip(rails, machine.rails, strict=True):
            assert resolve.netdev_of(rail, str(tmp_path / "sys")) == card.netdev


@pytest.mark.parametrize(
    ("key", "where"), [("netdev", "of enp1s0f0np0"), ("mac", "of enp1s0f0np0"), ("pci", "of enp1s0f0np0")]
)
def test_a_name_that_is_no_longer_there_is_reported_with_the_one_that_is(tmp_path, key, where):
    """Ubuntu's rdma-core renames at the first reboot; an inventory that says mlx5_0 is of the time before."""
    facts = facts_of(build(tmp_path, SPARK))
    rails = [{**rail, "hca": f"mlx5_{index}:1"} for index, rail in enumerate(rails_by(key, SPARK))]
    bound = bind.bind(rails, facts)["rail0"]
    assert bound.hca is None
    assert [one.cause for one in bound.findings] == ["hca_missing"]
    words = (
        f"no HCA port mlx5_0:1: the port {where} is called rocep1s0f0:1 now. "
        "Remove hca from the rail in the inventory, or write rocep1s0f0:1"
    )
    assert bound.findings[0].detail == words
    ask = rdma.Node("spark1", "roce", "hardware", bind.ports(facts), {}, rdma.Pkeys())
    ruling = rdma.rule("rdma_port", ask, bound)
    assert (ruling.outcome, ruling.cause, ruling.detail) == ("fail", "hca_missing", f"spark1 rail0: {words}")
    # A job's settings name what is there: with names that are not, NCCL_NET=IB ends every job.
    assert nccl.nccl_hcas(rails, facts) == ["rocep1s0f0:1", "roceP2p1s0f0:1"]


def test_an_infiniband_port_without_a_netdev_is_identified_by_its_pci_address(tmp_path):
    facts = facts_of(build(tmp_path, H100_INBOX))
    rails = [{**rail, "hca": "mlx5_0:1"} for rail in rails_by("pci", H100_INBOX)[:1]]
    (finding, *_more) = [
        one for one in bind.bind(rails, facts)["rail0"].findings if one.cause == "hca_missing"
    ]
    assert "the port at 0000:18:00.0 is called ibp24s0:1 now" in finding.detail


def test_the_link_of_an_infiniband_port_is_judged_where_it_has_a_netdev_and_recorded_where_not(tmp_path):
    """`pci` names the port; whether ib_ipoib has given it a netdev, the inventory does not say."""
    bare = facts_of(build(tmp_path / "bare", H100_INBOX))
    (rail, *_others) = rails_by("pci", H100_INBOX)
    assert link.left_out("link", rail, "infiniband") is None
    bound = bind.bind([rail], bare)["rail0"]
    ruling = link.rule("link", "dgx01", bound, "hardware", {})
    assert (ruling.outcome, "ibp24s0:1" in ruling.basis) == ("recorded", True)
    # A rail that has an address needs the netdev.
    bound = bind.bind([{**rail, "address": "10.0.0.1/24"}], bare)["rail0"]
    assert link.rule("link", "dgx01", bound, "hardware", {}).outcome == "fail"
    with_netdev = bind.bind([rail], facts_of(build(tmp_path / "dgx", DGX_OS)))["rail0"]
    with_netdev.netdev["carrier"] = False
    assert link.rule("link", "dgx01", with_netdev, "hardware", {}).cause == "link_down"


def test_before_its_driver_is_loaded_a_node_has_the_inventorys_names_or_none(tmp_path):
    machine = SPARK._replace(rails=[card._replace(device=None) for card in SPARK.rails], others=())
    facts = facts_of(build(tmp_path, machine))
    named = [{**rail, "hca": f"mlx5_{index}:1"} for index, rail in enumerate(rails_by("netdev", machine))]
    assert nccl.nccl_hcas(named, facts) == ["mlx5_0:1", "mlx5_1:1"]
    unnamed = [named[0], {**named[1], "hca": None}]
    assert nccl.nccl_hcas(unnamed, facts) == []
    assert nccl.nccl_hcas_unknown(unnamed, facts) == ["rail1: no RDMA device belongs to enP2p1s0f0np0"]
    gone = rails_by("pci", EFA)[:1]
    assert nccl.nccl_hcas_unknown(gone, facts) == ["rail0: there is no RDMA port at PCI address 0000:4f:00.0"]


def connectx3(root: Path, port_file: str, layers: tuple[str, str] = ("Ethernet", "Ethernet")) -> Tree:
    """One PCI function, one device with two ports, two netdevs, distinguished by dev_port, dev_id or GIDs."""
    tree = Tree(root)
    tree.host()
    card = tree.pci("0000:81:00.0", "mlx4_core")
    for number, netdev in ((1, "ens817"), (2, "ens817d1")):
        files = {"dev_port": 0, "dev_id": "0x0", "address": f"e4:1d:2d:00:00:0{number}"}
        if port_file == "dev_port":
            files["dev_port"] = number - 1
        elif port_file == "dev_id":
            files["dev_id"] = hex(number - 1)
        tree.netdev(netdev, card, addr_assign_type=0, **files)
        tree.link(f"sys/devices/pci0000:00/0000:81:00.0/net/{netdev}", root / f"sys/class/net/{netdev}")
        port = tree.port("rocep129s0", number, card, layers[number - 1])
        if port_file == "ndevs":
            tree.gid(port, 0, f"fe80:0000:0000:0000:e61d:2dff:fe00:000{number}", "IB/RoCE v1", netdev)
    return tree


@pytest.mark.parametrize("port_file", ["dev_port", "dev_id", "ndevs"])
def test_two_ports_at_one_pci_address_are_distinguished_by_netdev_or_hca_alone(tmp_path, port_file):
    tree = connectx3(tmp_path, port_file)
    facts = facts_of(tree)
    ports = {"ens817": "rocep129s0:1", "ens817d1": "rocep129s0:2"}
    pci = rails_by("pci", Machine([Card("0000:81:00.0", None, None)]))[0]
    bound = bind.bind([pci], facts)["rail0"]
    assert (bound.netdev, bound.hca) == (None, None)
    assert [one.cause for one in bound.findings] == ["netdev_ambiguous"]
    assert "ens817, ens817d1" in bound.findings[0].detail
    assert "name the rail's port by netdev" in bound.findings[0].detail
    with pytest.raises(
        resolve.ResolveError, match=r"several netdevs .ens817, ens817d1.; name the rail by netdev"
    ):
        resolve.netdev_of(pci, str(tmp_path / "sys"))
    assert nccl.nccl_hcas_unknown([pci], facts) == [
        "rail0: 0000:81:00.0 has more than one port, rocep129s0:1, rocep129s0:2; "
        "name the rail's by netdev or hca"
    ]
    for netdev, port in ports.items():
        for more in ({"netdev": netdev}, {"hca": port}, {"netdev": netdev, "hca": port}):
            rail = {**pci, **more}
            bound = bind.bind([rail], facts)["rail0"]
            assert (bound.findings, bound.netdev and bound.netdev["netdev"]) == ([], netdev)
            assert nccl.nccl_hcas([rail], facts) == [port]
            assert resolve.netdev_of(rail, str(tmp_path / "sys")) == netdev


def test_a_port_of_a_renamed_device_with_two_is_identified_by_its_number(tmp_path):
    facts = facts_of(connectx3(tmp_path, "dev_port"))
    rail = {**rails_by("pci", Machine([Card("0000:81:00.0", None, None)]))[0], "hca": "mlx4_0:2"}
    (missing,) = [one for one in bind.bind([rail], facts)["rail0"].findings if one.cause == "hca_missing"]
    assert "the port at 0000:81:00.0 is called rocep129s0:2 now" in missing.detail
    assert nccl.nccl_hcas([rail], facts) == ["rocep129s0:2"]


def test_a_switch_and_its_representors_share_an_address_with_one_port(tmp_path):
    """With switchdev on, each VF's representor is a netdev of the same function as the uplink."""
    tree = Tree(tmp_path)
    tree.host()
    card = tree.pci("0000:08:00.0", "mlx5_core")
    for name, label in (("enp8s0f0np0", "p0"), ("enp8s0f0npf0vf0", "pf0vf0"), ("enp8s0f0npf0vf1", "pf0vf1")):
        tree.netdev(name, card, phys_port_name=label)
        tree.link(f"sys/devices/pci0000:00/0000:08:00.0/net/{name}", tmp_path / f"sys/class/net/{name}")
    tree.port("rocep8s0f0", 1, card)
    rail = rails_by("pci", Machine([Card("0000:08:00.0", None, None)]))[0]
    bound = bind.bind([rail], facts_of(tree))["rail0"]
    assert (bound.netdev or {}).get("netdev") == "enp8s0f0np0"
    assert (bound.hca or {}).get("hca") == "rocep8s0f0:1"
    assert resolve.netdev_of(rail, str(tmp_path / "sys")) == "enp8s0f0np0"
