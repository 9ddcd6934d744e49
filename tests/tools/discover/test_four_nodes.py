# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Four nodes with permuted NICs, one odd node and one crossed cable, without LLDP, in any order."""

from __future__ import annotations

import itertools
import random

import pytest
from railyard.discover.files import render
from railyard.new_inventory import command
from railyard.plan import view
from support.discover import nodes

#: The slot of each rail, on nodes that are alike.
SLOTS = ["0000:18:00.0", "0000:40:00.0", "0000:4f:00.0", "0000:5e:00.0"]
ODD = "gpu4"
CROSSED = "gpu3"


def cluster():
    """Return the nodes; their ports' names are permuted, and gpu4's last card sits in another slot."""
    found, networks = [], [[] for _slot in SLOTS]
    for number, names in enumerate(itertools.islice(itertools.permutations(range(4)), 0, 24, 6), start=1):
        key = f"gpu{number}"
        slots = [*SLOTS[:3], "0000:9a:00.0"] if key == ODD else SLOTS
        ports = [{"netdev": f"ens{name}", "pci": slot} for name, slot in zip(names, slots, strict=True)]
        for rail, port in enumerate(ports):
            # On gpu3 the cables of rail1 and rail2 are crossed.
            wire = {1: 2, 2: 1}.get(rail, rail) if key == CROSSED else rail
            networks[wire].append((key, port["netdev"]))
        found.append(nodes.made_up(key, ports))
    nodes.wire(found, networks)
    return found


def test_each_slot_is_a_rail_and_the_odd_card_is_found_by_its_network(tmp_path):
    survey = nodes.discovered(cluster())
    assert survey.ordered_by == "pci"
    assert {rail.joined_by for rail in survey.rails} == {"beacons"}
    for rail, slot in zip(survey.rails, SLOTS, strict=True):
        for name, port in rail.ports.items():
            assert port.pci == ("0000:9a:00.0" if (name, slot) == (ODD, SLOTS[3]) else slot)
    command.write(tmp_path / "inventory", render(survey))
    plan, _problems = view.plan_or_problems([str(tmp_path / "inventory")])
    # No name is the same on all nodes, so the bus address names the ports.
    assert [rail["pci"] for rail in plan["nodes"]["gpu1"]["rails"]] == SLOTS
    assert [rail["pci"] for rail in plan["nodes"][ODD]["rails"]] == [*SLOTS[:3], "0000:9a:00.0"]
    assert plan["nodes"][ODD]["rail_overrides"] == {"rail3": {"pci": "0000:9a:00.0"}}
    assert all(plan["nodes"][name].get("rail_overrides") == {} for name in ("gpu1", "gpu2", "gpu3"))


def test_the_odd_node_and_both_ends_of_the_crossed_cable_are_named():
    survey = nodes.discovered(cluster())
    crossed, odd = survey.oddities
    for words in (
        "crossed cables",
        "gpu3",
        SLOTS[1],
        SLOTS[2],
        "of rail1",
        "of rail2",
        "Swap the two cables",
    ):
        assert words in crossed
    for words in ("gpu4", "rail3", "0000:9a:00.0", SLOTS[3]):
        assert words in odd


def test_when_the_cables_are_swapped_the_inventory_is_the_same_and_nothing_is_crossed():
    swapped = cluster()
    third = next(one for one in swapped if one["key"] == CROSSED)
    ports = {one["pci"]: one["netdev"] for one in third["ports"]}
    names = {ports[SLOTS[1]]: ports[SLOTS[2]], ports[SLOTS[2]]: ports[SLOTS[1]]}
    for one in swapped:
        for heard in one["beacons"]:
            if one is third:
                heard["netdev"] = names.get(heard["netdev"], heard["netdev"])
            for sender in heard["senders"]:
                if sender["key"] == CROSSED:
                    sender["netdev"] = names.get(sender["netdev"], sender["netdev"])
    before, after = nodes.discovered(cluster()), nodes.discovered(swapped)
    assert not any("crossed" in text for text in after.oddities)
    files = [render(survey) for survey in (before, after)]
    assert files[0]["group_vars/all/fabric.yml"] == files[1]["group_vars/all/fabric.yml"]
    assert files[0]["hosts.yml"] == files[1]["hosts.yml"]


def test_a_cable_in_another_nodes_place_names_both_nodes():
    found = cluster()
    # gpu1 and gpu2 have exchanged a cable of rail0 and one of rail1: each has two ports on one network.
    port = {(one["key"], row["pci"]): row["netdev"] for one in found for row in one["ports"]}
    networks = [[(key, port[key, slot]) for key in ("gpu1", "gpu2", "gpu3")] for slot in SLOTS[:3]]
    networks.append([(key, port[key, SLOTS[3]]) for key in ("gpu1", "gpu2", "gpu3")])
    networks[0].remove(("gpu1", port["gpu1", SLOTS[0]]))
    networks[1].remove(("gpu2", port["gpu2", SLOTS[1]]))
    networks[0].append(("gpu2", port["gpu2", SLOTS[1]]))
    networks[1].append(("gpu1", port["gpu1", SLOTS[0]]))
    three = [one for one in found if one["key"] != ODD]
    nodes.wire(three, networks)
    survey = nodes.discovered(three)
    (text,) = survey.oddities
    for words in (
        f"gpu1 {port['gpu1', SLOTS[0]]}",
        f"gpu2 {port['gpu2', SLOTS[1]]}",
        "rail0",
        "rail1",
        "Swap",
    ):
        assert words in text
    for rail, slot in zip(survey.rails, SLOTS, strict=True):
        assert {one.pci for one in rail.ports.values()} == {slot}


@pytest.mark.parametrize("seed", range(12))
def test_the_order_of_nodes_ports_and_beacons_never_matters(seed):
    wanted = render(nodes.discovered(cluster()))
    shuffled, chance = cluster(), random.Random(seed)
    chance.shuffle(shuffled)
    for one in shuffled:
        for rows in (one["ports"], one["facts"]["netdevs"], one["facts"]["hcas"], one["beacons"]):
            chance.shuffle(rows)
        for heard in one["beacons"]:
            chance.shuffle(heard["senders"])
    assert render(nodes.discovered(shuffled)) == wanted


def permuted():
    """Return four nodes without PCI, as containers are, each with its ports' names in another order."""
    found, networks = [], [[], [], [], []]
    for number in range(4):
        names = [f"eth{(rail + number) % 4}" for rail in range(4)]
        kind = {"kind": "veth", "driver_class": "software", "rdma": None, "driver": "veth"}
        found.append(nodes.made_up(f"n{number + 1}", [{"netdev": name, **kind} for name in names]))
        for rail, name in enumerate(names):
            networks[rail].append((f"n{number + 1}", name))
    nodes.wire(found, networks)
    return found, networks


def test_where_names_say_nothing_a_network_is_a_rail(tmp_path):
    found, networks = permuted()
    survey = nodes.discovered(found)
    assert survey.transport == "tcp"
    is_rail = [{(name, port.netdev) for name, port in rail.ports.items()} for rail in survey.rails]
    assert sorted(map(sorted, is_rail)) == sorted(map(sorted, networks))
    command.write(tmp_path / "inventory", render(survey))
    plan, _problems = view.plan_or_problems([str(tmp_path / "inventory")])
    for name, node in plan["nodes"].items():
        assert {rail["netdev"] for rail in node["rails"]} == {"eth0", "eth1", "eth2", "eth3"}
        for rail, of_rail in zip(node["rails"], is_rail, strict=True):
            assert (name, rail["netdev"]) in of_rail
