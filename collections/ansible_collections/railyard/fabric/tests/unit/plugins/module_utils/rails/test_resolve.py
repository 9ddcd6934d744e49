# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.rails import bind, resolve

RAIL = {"name": "rail0", "netdev": None, "mac": None, "pci": None, "hca": None}


@pytest.fixture
def sys_root(tmp_path):
    """One card with two ports on one bus address, a management netdev, and a VLAN that repeats a MAC."""
    card = tmp_path / "devices/0000:81:00.0"
    other = tmp_path / "devices/0000:05:00.0"
    hca = card / "infiniband/mlx4_0"
    net = tmp_path / "class/net"
    for folder in (card, other, net, tmp_path / "class/infiniband", hca):
        folder.mkdir(parents=True, exist_ok=True)
    netdevs = {
        "ens6": (card, "02:00:00:00:00:06", "0"),
        "ens6d1": (card, "02:00:00:00:00:07", "1"),
        "enp5s0": (other, "02:00:00:00:00:05", "0"),
    }
    for name, (device, mac, port) in netdevs.items():
        (net / name).mkdir()
        (net / name / "address").write_text(mac + "\n")
        (net / name / "dev_port").write_text(port + "\n")
        (net / name / "device").symlink_to(device)
        (device / "net" / name).mkdir(parents=True)
    (net / "ens6.7").mkdir()
    (net / "ens6.7" / "address").write_text("02:00:00:00:00:06\n")
    (net / "ens6.7" / "lower_ens6").symlink_to(net / "ens6")
    (hca / "device").symlink_to(card)
    (tmp_path / "class/infiniband/mlx4_0").symlink_to(hca)
    return tmp_path


def netdev_of(sys_root, **known):
    return resolve.netdev_of({**RAIL, **known}, str(sys_root))


@pytest.mark.parametrize(
    ("known", "netdev"),
    [
        ({"netdev": "ens6d1"}, "ens6d1"),
        ({"netdev": "ens6", "mac": "02:00:00:00:00:06"}, "ens6"),
        ({"mac": "02:00:00:00:00:06"}, "ens6"),
        ({"mac": "02:00:00:00:00:07".upper()}, "ens6d1"),
        ({"pci": "0000:05:00.0"}, "enp5s0"),
        ({"pci": "05:00.0"}, "enp5s0"),
        ({"hca": "mlx4_0:2"}, "ens6d1"),
        ({"pci": "0000:81:00.0", "hca": "mlx4_0:1"}, "ens6"),
    ],
)
def test_netdev_is_found(sys_root, known, netdev):
    assert netdev_of(sys_root, **known) == netdev


def test_gid_table_is_queried_before_ports_are_counted(sys_root):
    ndevs = sys_root / "class/infiniband/mlx4_0/ports/1/gid_attrs/ndevs"
    ndevs.mkdir(parents=True)
    (ndevs / "0").write_text("ens6d1\n")
    assert netdev_of(sys_root, hca="mlx4_0:1") == "ens6d1"


@pytest.mark.parametrize(
    ("known", "words"),
    [
        (
            {"netdev": "ens7"},
            "rail0: netdev ens7 does not exist .*ens6, ens6.7, ens6d1.*railyard discover --diff",
        ),
        ({"netdev": "ens6", "mac": "02:00:00:00:00:99"}, "rail0: netdev ens6 has MAC 02:00:00:00:00:06"),
        ({"mac": "02:00:00:00:00:99"}, "rail0: no netdev on the node has mac.*railyard discover --diff"),
        ({"pci": "0000:81:00.0"}, "rail0: pci 0000:81:00.0 belongs to several netdevs .ens6, ens6d1"),
        ({"hca": "mlx5_9:1"}, "rail0: no netdev on the node has hca mlx5_9:1"),
        ({}, "rail0: neither netdev, mac, pci nor hca"),
    ],
)
def test_failure_names_rail_and_what_was_sought(sys_root, known, words):
    with pytest.raises(resolve.ResolveError, match=words):
        netdev_of(sys_root, **known)


def test_a_port_that_was_renamed_is_named_with_its_mac(sys_root):
    """The role's own file of last time knows the MAC; the inventory may know it, too."""
    text = (
        'network:\n  ethernets:\n    ens7:\n      match:\n        macaddress: "02:00:00:00:00:06"\n'
        "      set-name: ens7\n      dhcp4: false\n"
    )
    macs = resolve.macs_of(text)
    assert macs == {"ens7": "02:00:00:00:00:06"}
    words = r"rail0: the port with MAC 02:00:00:00:00:06 was called ens7 and is ens6 now; .*rail_overrides"
    with pytest.raises(resolve.ResolveError, match=words):
        resolve.place({**RAIL, "netdev": "ens7"}, str(sys_root), macs)
    with pytest.raises(resolve.ResolveError, match=words):
        netdev_of(sys_root, netdev="ens7", mac="02:00:00:00:00:06")
    with pytest.raises(resolve.ResolveError, match="ens8 does not exist"):
        resolve.place({**RAIL, "netdev": "ens8"}, str(sys_root), macs)


def test_a_file_among_the_netdevs_is_none(sys_root):
    """With module bonding loaded there is a file bonding_masters."""
    (sys_root / "class/net/bonding_masters").write_text("\n")
    assert netdev_of(sys_root, mac="02:00:00:00:00:06") == "ens6"
    assert resolve.permanent_mac("enp5s0", str(sys_root)) is None
    with pytest.raises(resolve.ResolveError, match=r"there are: enp5s0, ens6, ens6.7, ens6d1\)"):
        netdev_of(sys_root, netdev="ens7")


def test_master_is_named(sys_root):
    (sys_root / "class/net/bond0").mkdir()
    (sys_root / "class/net/ens6/master").symlink_to(sys_root / "class/net/bond0")
    assert resolve.masters(["ens6", "ens6d1"], str(sys_root)) == {"ens6": "bond0"}


def mark(sys_root, netdev, *, assign="0", kind="1"):
    (sys_root / "class/net" / netdev / "addr_assign_type").write_text(assign + "\n")
    (sys_root / "class/net" / netdev / "type").write_text(kind + "\n")


def test_permanent_mac_of_a_port(sys_root):
    mark(sys_root, "ens6")
    assert resolve.place({**RAIL, "netdev": "ens6"}, str(sys_root))["permanent_mac"] == "02:00:00:00:00:06"


@pytest.mark.parametrize(
    "marks", [{"assign": "3"}, {"assign": "1"}, {"kind": "32"}], ids=["set", "random", "ipoib"]
)
def test_no_permanent_mac_where_it_is_no_mark(sys_root, marks):
    mark(sys_root, "ens6", **marks)
    assert resolve.permanent_mac("ens6", str(sys_root)) is None


def test_no_permanent_mac_where_two_ports_share_it(sys_root):
    mark(sys_root, "ens6")
    mark(sys_root, "ens6d1")
    (sys_root / "class/net/ens6d1/address").write_text("02:00:00:00:00:06\n")
    assert resolve.permanent_mac("ens6", str(sys_root)) is None


def test_no_permanent_mac_of_a_veth(sys_root):
    (sys_root / "class/net/veth0").mkdir()
    (sys_root / "class/net/veth0/address").write_text("02:00:00:00:00:10\n")
    mark(sys_root, "veth0")
    assert resolve.permanent_mac("veth0", str(sys_root)) is None


def test_vlan_is_placed_on_the_port(sys_root):
    placed = resolve.place({**RAIL, "netdev": "ens6d1", "vlan": 100}, str(sys_root))
    assert (placed["netdev"], placed["parent"]) == ("ens6d1.100", "ens6d1")


def test_vlan_name_that_the_kernel_does_not_take(sys_root):
    (sys_root / "class/net/enp129s0f0np0").mkdir()
    with pytest.raises(resolve.ResolveError, match=r"enp129s0f0np0\.100, and the kernel takes 15"):
        resolve.place({**RAIL, "netdev": "enp129s0f0np0", "vlan": 100}, str(sys_root))


def test_a_bus_address_of_two_ports_takes_the_one_of_the_hca(sys_root):
    """On the node and from its facts alike; before, the facts called it ambiguous."""
    rail = {**RAIL, "pci": "81:00.0", "hca": "mlx4_0:2"}
    facts = {
        "netdevs": [{"netdev": name, "pci": "0000:81:00.0"} for name in ("ens6", "ens6d1")],
        "hcas": [{"hca": "mlx4_0:2", "netdev": "ens6d1"}],
    }
    assert bind.netdevs([rail], facts) == {"rail0": "ens6d1"}
    assert resolve.netdev_of(rail, str(sys_root)) == "ens6d1"
