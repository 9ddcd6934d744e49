# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each change of a node since its inventory was written is named, and nothing else is."""

from __future__ import annotations

import copy

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.records import bare_node
from railyard.discover import found as found_file
from railyard.discover.diff import differences
from railyard.discover.files import render
from railyard.new_inventory import command
from railyard.plan import view
from support.discover import nodes

SLOTS = ["0000:18:00.0", "0000:40:00.0", "0000:4f:00.0"]
NETDEVS = ["ens1", "ens2", "ens3"]


def cluster(count=4):
    found = []
    for number in range(1, count + 1):
        ports = [
            {
                "netdev": netdev,
                "pci": slot,
                "card": "MCX75310AAS",
                "serial": f"S{number}{place}",
                "leaf": f"leaf{place}",
            }
            for place, (netdev, slot) in enumerate(zip(NETDEVS, SLOTS, strict=True))
        ]
        gpus = nodes.gpus_of("NVIDIA H100", ["0000:19:00.0", "0000:41:00.0"])
        found.append(nodes.made_up(f"gpu{number}", ports, gpus=gpus))
    wire(found)
    return found


def wire(found, crossed=None):
    """Cable all nodes alike; on the node `crossed` the first two cables are exchanged."""
    networks = [[(one["key"], netdev) for one in found if one["key"] != crossed] for netdev in NETDEVS]
    if crossed is not None:
        for network, netdev in zip(networks, ("ens2", "ens1", "ens3"), strict=True):
            network.append((crossed, netdev))
    nodes.wire(found, networks)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Return the plan of the discovered inventory, and the text of its discovered.txt."""
    files = render(nodes.discovered(cluster()))
    folder = tmp_path_factory.mktemp("diff") / "inventory"
    command.write(folder, files)
    plan, problems = view.plan_or_problems([str(folder)])
    assert problems == []
    return plan, files[found_file.FILE]


def changes(written, found, with_file=True):
    plan, text = written
    read = {one["key"]: bare_node.read(copy.deepcopy(one)) for one in found}
    return [
        (one.node, one.rail, one.what, one.was, one.now)
        for one in differences(plan, read, text if with_file else None)
    ]


def row(node, netdev):
    return next(one for one in node["facts"]["netdevs"] if one["netdev"] == netdev)


def hca(node, netdev):
    return next(one for one in node["facts"]["hcas"] if one["netdev"] == netdev)


def port(node, netdev):
    return next(one for one in node["ports"] if one["netdev"] == netdev)


def remove(node, netdev):
    for part in ("netdevs", "hcas"):
        node["facts"][part] = [one for one in node["facts"][part] if one["netdev"] != netdev]
    node["ports"] = [one for one in node["ports"] if one["netdev"] != netdev]


@pytest.mark.parametrize("with_file", [True, False])
def test_nothing_changed_is_no_difference(written, with_file):
    assert changes(written, cluster(), with_file) == []


def test_a_swapped_card(written):
    found = cluster()
    row(found[1], "ens2").update(mac="0c:42:a1:00:00:07", permanent_mac="0c:42:a1:00:00:07")
    port(found[1], "ens2")["serial"] = "S99"
    ((node, rail, what, was, now),) = changes(written, found)
    assert (node, rail, what) == ("gpu2", "rail1", "card")
    assert "serial S21" in was
    assert "serial S99, MAC 0c:42:a1:00:00:07" in now


def test_a_card_is_the_same_by_its_serial_number_whatever_its_mac_address_is(written):
    found = cluster()
    row(found[1], "ens2").update(mac="0c:42:a1:00:00:07", permanent_mac="0c:42:a1:00:00:07")
    assert changes(written, found) == []
    port(found[1], "ens2")["serial"] = None
    assert [one[2] for one in changes(written, found)] == ["card"]


def test_a_moved_cable(written):
    found = cluster()
    wire(found, crossed="gpu3")
    for netdev, leaf in (("ens1", "leaf1"), ("ens2", "leaf0")):
        port(found[2], netdev)["neighbours"][0]["switch"] = leaf
    assert changes(written, found) == [
        ("gpu3", "rail0", "cable", "on the network of rail0", "on the network of rail1"),
        ("gpu3", "rail1", "cable", "on the network of rail1", "on the network of rail0"),
    ]


def test_a_cable_that_only_lldp_shows(written):
    found = cluster()
    for one in found:
        one["beacons"] = None
    port(found[0], "ens3")["neighbours"][0]["switch"] = "leaf7"
    assert changes(written, found) == [("gpu1", "rail2", "cable", "at switch leaf2", "at switch leaf7")]


def test_a_renamed_rdma_device(written):
    found = cluster()
    row(found[3], "ens1")["hca"] = port(found[3], "ens1")["hca"] = "mlx5_0:1"
    hca(found[3], "ens1").update(hca="mlx5_0:1", device="mlx5_0")
    assert changes(written, found) == [("gpu4", "rail0", "RDMA device", "roce_ens1:1", "mlx5_0:1")]


def test_a_missing_gpu(written):
    found = cluster()
    found[0]["facts"]["gpus"] = nodes.gpus_of("NVIDIA H100", ["0000:19:00.0"])
    assert changes(written, found) == [("gpu1", None, "GPUs", "2", "1")]


def test_a_gpu_that_nvidia_smi_does_not_list_is_missing_too(written):
    found = cluster()
    found[0]["facts"]["gpus"]["rows"].pop()
    assert changes(written, found) == [("gpu1", None, "GPUs", "2", "1")]


def test_another_gpu(written):
    found = cluster()
    found[0]["facts"]["gpus"] = nodes.gpus_of("NVIDIA H200", ["0000:19:00.0", "0000:41:00.0"])
    assert changes(written, found) == [("gpu1", None, "GPU model", "NVIDIA H100", "NVIDIA H200")]


def test_another_rate(written):
    found = cluster()
    row(found[2], "ens3")["speed_mbps"] = 100_000
    hca(found[2], "ens3")["rate_gbps"] = 100
    assert changes(written, found) == [("gpu3", "rail2", "rate", "400 Gbit/s", "100 Gbit/s")]


def test_a_link_that_is_down(written):
    found = cluster()
    row(found[2], "ens3").update(speed_mbps=None, carrier=False)
    assert changes(written, found) == [("gpu3", "rail2", "link", "400 Gbit/s", "down")]


def test_a_missing_port(written):
    found = cluster()
    remove(found[1], "ens2")
    assert changes(written, found) == [("gpu2", "rail1", "port", "netdev ens2", "missing")]


@pytest.mark.parametrize("with_file", [True, False])
def test_a_new_port(written, with_file):
    found = cluster()
    extra = nodes.made_up("gpu1", [{"netdev": "ens9", "pci": "0000:9a:00.0", "mac": "0c:42:a1:00:00:09"}])
    for part in ("netdevs", "hcas"):
        found[0]["facts"][part] += [one for one in extra["facts"][part] if one["netdev"] == "ens9"]
    found[0]["ports"].append(port(extra, "ens9"))
    assert changes(written, found, with_file) == [("gpu1", None, "port", "not there", "ens9 (0000:9a:00.0)")]


def test_a_node_that_did_not_answer_and_one_that_the_inventory_does_not_have_are_left_out(written):
    found = cluster(5)
    assert changes(written, [one for one in found if one["key"] != "gpu2"]) == []


def test_two_nodes_whose_cables_were_exchanged(tmp_path):
    pair = cluster(2)
    for one in pair:
        for netdev in NETDEVS:
            port(one, netdev)["neighbours"] = []
    files = render(nodes.discovered(pair))
    command.write(tmp_path / "inventory", files)
    plan, _problems = view.plan_or_problems([str(tmp_path / "inventory")])
    assert changes((plan, files[found_file.FILE]), pair) == []
    wire(pair, crossed="gpu2")
    found = changes((plan, files[found_file.FILE]), pair)
    assert {(node, rail) for node, rail, *_rest in found} == {
        (node, rail) for node in ("gpu1", "gpu2") for rail in ("rail0", "rail1")
    }
    assert {what for _node, _rail, what, *_rest in found} == {"cable"}


def test_the_file_of_what_was_found_is_read_as_it_was_written():
    survey = nodes.discovered(cluster())
    ports = found_file.read(found_file.write(survey))
    assert [(one.node, one.rail, one.netdev) for one in ports[:4]] == [
        ("gpu1", "rail0", "ens1"),
        ("gpu1", "rail1", "ens2"),
        ("gpu1", "rail2", "ens3"),
        ("gpu1", None, "eno1"),
    ]
    port = survey.rails[0].ports["gpu1"]
    assert ports[0] == found_file.of_port(port, "rail0")
    assert (ports[0].pci, ports[0].mac, ports[0].rdma) == (port.pci, port.mac, port.hca)
    assert (ports[0].gbps, ports[0].leaf) == (f"{port.active_gbps:g}", port.leaf)


def test_files_of_earlier_discoveries_are_read_by_their_columns(written):
    """Files that are kept beside inventories have these columns, the last two since firmware and MTU."""
    head = [line for line in written[1].splitlines() if line.startswith("#")][-1]
    columns = "node rail netdev pci mac rdma card serial gbps leaf firmware mtu"
    assert head == "# " + columns.replace(" ", "\t")
    (port,) = found_file.read("\t".join(columns.split()))
    assert (port.rdma, port.serial, port.gbps, port.leaf, port.mtu) == (
        "rdma",
        "serial",
        "gbps",
        "leaf",
        "mtu",
    )


def test_a_file_that_was_damaged_is_read_as_far_as_it_goes(written):
    plan, text = written
    for damaged in (text[: len(text) // 2], text.replace("\t", " "), "\x00\tb\n" * 5, ""):
        found_file.read(damaged)
        assert changes((plan, damaged), cluster()) == [] or "port" in {
            one[2] for one in changes((plan, damaged), cluster())
        }


def with_firmware(version="28.43.1014"):
    found = cluster()
    for one in found:
        for netdev in ("eno1", *NETDEVS):
            port(one, netdev).update(firmware=version, serial=f"{one['key']}{netdev}")
    return found


@pytest.fixture(scope="module")
def with_all(tmp_path_factory):
    """Return plan and file of a cluster that tells firmware, and the serial number of each card."""
    files = render(nodes.discovered(with_firmware()))
    folder = tmp_path_factory.mktemp("diff-all") / "inventory"
    command.write(folder, files)
    return view.plan_or_problems([str(folder)])[0], files[found_file.FILE]


def test_another_firmware(with_all):
    assert changes(with_all, with_firmware()) == []
    found = with_firmware()
    for netdev in ("eno1", "ens2"):
        port(found[1], netdev)["firmware"] = "28.39.3560"
    assert changes(with_all, found) == [
        ("gpu2", "rail1", "firmware", "28.43.1014", "28.39.3560"),
        ("gpu2", None, "firmware of eno1 (0000:01:00.0)", "28.43.1014", "28.39.3560"),
    ]


def test_an_mtu_is_a_difference_unless_it_is_the_planned_one(written):
    found = cluster()
    row(found[0], "ens1")["mtu_bytes"] = 9000
    row(found[1], "ens2")["mtu_bytes"] = 4200
    assert changes(written, found) == [("gpu2", "rail1", "MTU", "1500", "4200")]


def rename(found, node, netdev, name):
    """Give a port of a node another name, also in what everybody heard."""
    for rows in (node["facts"]["netdevs"], node["facts"]["hcas"], node["ports"], node["beacons"]):
        for one in rows:
            if one["netdev"] == netdev:
                one["netdev"] = name
    for heard in (heard for one in found for heard in one["beacons"]):
        for sender in heard["senders"]:
            if (sender["key"], sender["netdev"]) == (node["key"], netdev):
                sender["netdev"] = name


def test_a_port_with_another_name_is_named_with_it(written):
    found = cluster()
    rename(found, found[1], "ens2", "enp64s0np0")
    assert changes(written, found) == [
        ("gpu2", "rail1", "port", "netdev ens2", "enp64s0np0 (0000:40:00.0)"),
    ]


def test_a_port_that_is_at_another_pci_address(written):
    found = cluster()
    for one in (row(found[1], "ens2"), hca(found[1], "ens2"), port(found[1], "ens2")):
        one["pci"] = "0000:9a:00.0"
    assert changes(written, found) == [("gpu2", "rail1", "PCI address", SLOTS[1], "0000:9a:00.0")]


def test_a_frontend_card_that_was_swapped_or_is_gone(with_all):
    found = with_firmware()
    port(found[1], "eno1")["serial"] = "other"
    remove(found[2], "eno1")
    swapped, gone = changes(with_all, found)
    assert swapped[:3] == ("gpu2", None, "card of eno1 (0000:01:00.0)")
    assert gone == ("gpu3", None, "port", "eno1 (0000:01:00.0)", "missing")


@pytest.mark.parametrize(
    ("others", "now"),
    [([], "on a network without another node"), (["eno1"], "on another network")],
)
def test_a_cable_that_ends_on_no_rail(written, others, now):
    found = cluster()
    for one in found:
        for heard in one["ports"]:
            heard["neighbours"] = []
    rails = [[(one["key"], netdev) for one in found] for netdev in NETDEVS]
    rails[1].remove(("gpu3", "ens2"))
    nodes.wire(
        found, [*rails, [("gpu3", "ens2"), *((one["key"], netdev) for one in found for netdev in others)]]
    )
    assert changes(written, found) == [("gpu3", "rail1", "cable", "on the network of rail1", now)]


def test_a_node_that_the_file_does_not_know_is_named(written):
    found = cluster()
    plan, text = written
    kept = "".join(line for line in text.splitlines(keepends=True) if not line.startswith("gpu2"))
    assert changes((plan, kept), found) == [("gpu2", None, "node in discovered.txt", "missing", "there")]


def test_a_file_of_the_first_version_is_read(written):
    plan, text = written
    shorter = "".join("\t".join(line.split("\t")[:10]) + "\n" for line in text.splitlines())
    assert changes((plan, shorter), cluster()) == []
    assert [one.firmware for one in found_file.read(shorter)] == [None] * 16


@pytest.mark.parametrize("names", [("gpu1", "gpu2", "gpu3", "gpu4", "gpu5"), ("gpu1", "gpu2", "gpu3")])
def test_networks_of_two_scalable_units_are_no_moved_cables(tmp_path, names):
    found = cluster(5)
    for one in found[2:]:
        for place, netdev in enumerate(NETDEVS):
            port(one, netdev)["neighbours"][0]["switch"] = f"leaf-b{place}"
    units = (found[:2], found[2:])
    nodes.wire(found, [[(one["key"], netdev) for one in unit] for unit in units for netdev in NETDEVS])
    files = render(nodes.discovered(found))
    command.write(tmp_path / "inventory", files)
    plan, _problems = view.plan_or_problems([str(tmp_path / "inventory")])
    # Of the nodes that answer, gpu3 may be the only one of its unit.
    if len(names) < len(found):
        nodes.wire(found[:3], [[(one["key"], netdev) for one in found[:2]] for netdev in NETDEVS])
    answering = [one for one in found if one["key"] in names]
    assert changes((plan, files[found_file.FILE]), answering) == []


def planned(written, rail, **keys):
    """Return the plan and the file, where a rail of all nodes has other keys."""
    plan = copy.deepcopy(written[0])
    for node in plan["nodes"].values():
        next(one for one in node["rails"] if one["name"] == rail).update(keys)
    return plan, written[1]


def upper(node, netdev, kind, *below):
    """Add a netdev to a node, on top of ports of it."""
    one = {**row(node, below[0]), "netdev": netdev, "kind": kind, "pci": None, "hca": None}
    node["facts"]["netdevs"].append(one)
    for name in below if kind == "bond" else ():
        row(node, name)["master"] = netdev


@pytest.mark.parametrize("with_file", [True, False])
def test_a_rail_on_a_vlan_is_its_port(written, with_file):
    plan = planned(written, "rail1", vlan=100)
    found = cluster()
    for one in found:
        upper(one, "ens2.100", "vlan", "ens2")
    assert changes(plan, found, with_file) == []
    row(found[1], "ens2").update(speed_mbps=None, carrier=False)
    assert changes(plan, found, with_file) == [("gpu2", "rail1", "link", "400 Gbit/s", "down")]


@pytest.mark.parametrize("with_file", [True, False])
def test_a_rail_that_is_a_bond_has_the_ports_that_the_inventory_names(written, with_file):
    bond = {"mode": "802.3ad", "ports": ["ens2", "ens3"]}
    plan = planned(written, "rail1", netdev="bond0", bond=bond)
    for node in plan[0]["nodes"].values():
        node["rails"] = [one for one in node["rails"] if one["name"] != "rail2"]
    found = cluster()
    for one in found:
        upper(one, "bond0", "bond", "ens2", "ens3")
    assert changes(plan, found, with_file) == []
    remove(found[0], "ens3")
    row(found[1], "ens2").update(speed_mbps=None, carrier=False)
    assert changes(plan, found, with_file) == [
        ("gpu1", "rail1", "port", "netdev ens3", "missing"),
        ("gpu2", "rail1", "link of ens2", "up", "down"),
    ]
