# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Odd but legal clusters: nothing about them is guessed without a sentence."""

from __future__ import annotations

import pytest
from railyard.discover.files import render
from railyard.discover.model import Named, Options
from railyard.new_inventory import command
from support.discover import nodes

SLOTS = ["0000:18:00.0", "0000:40:00.0", "0000:9a:00.0", "0000:9b:00.0"]


def node(number, rails=2, **ports):
    """Return node gpuN with ports ens1, ens2, …; `ports` is of each of them."""
    return nodes.made_up(
        f"gpu{number}",
        [{"netdev": f"ens{place + 1}", "pci": SLOTS[place], **ports} for place in range(rails)],
    )


def cluster(count, networks=None, **ports):
    """Return equal nodes; `networks` has of each network the ports, as `1.2` for ens2 of gpu1."""
    found = [node(number, **ports) for number in range(1, count + 1)]
    if networks is None:
        numbers = range(1, count + 1)
        networks = [" ".join(f"{number}.{place}" for number in numbers) for place in (1, 2)]
    cable(found, networks)
    return found


def cable(found, networks):
    split = [[one.split(".") for one in network.split()] for network in networks]
    nodes.wire(found, [[(f"gpu{number}", f"ens{place}") for number, place in network] for network in split])


def row(one, netdev, part="netdevs"):
    rows = one["ports"] if part == "ports" else one["facts"][part]
    return next(each for each in rows if each["netdev"] == netdev)


def heard(one, netdev):
    return next(each for each in one["beacons"] if each["netdev"] == netdev)


def unplug(one, netdev):
    row(one, netdev).update(carrier=False, speed_mbps=None)
    row(one, netdev, "hcas").update(state="DOWN", physical_state="Disabled")


def ports_of(survey):
    return [{name: port.netdev for name, port in rail.ports.items()} for rail in survey.rails]


# Cables


@pytest.mark.parametrize("count", [2, 4])
def test_a_cluster_in_which_no_port_hears_another_is_not_known(count):
    survey = nodes.discovered(cluster(count, networks=[]))
    (text,) = survey.not_known
    assert text.startswith(f"cabling of gpu[1-{count}]: ")
    assert "0x88B5" in text


def test_a_rail_that_heard_no_peer_is_named():
    survey = nodes.discovered(cluster(2, networks=["1.1 2.1"]))
    assert ports_of(survey)[1] == {"gpu1": "ens2", "gpu2": "ens2"}
    (text,) = survey.oddities
    assert text.startswith("gpu[1-2]: rail1 heard no other node")


def test_of_two_nodes_a_port_without_carrier_is_its_rails_port_still():
    found = cluster(2, networks=["1.1 2.1"])
    unplug(found[1], "ens2")
    survey = nodes.discovered(found)
    assert ports_of(survey) == [{"gpu1": "ens1", "gpu2": "ens1"}, {"gpu1": "ens2", "gpu2": "ens2"}]
    assert survey.nodes["gpu2"].overrides == {}
    assert any(text.startswith("gpu2: rail1 (ens2") and "no carrier" in text for text in survey.oddities)


@pytest.mark.parametrize(
    "networks",
    [
        ["1.1 2.2", "2.1 3.2", "3.1 1.2"],
        ["1.1 2.1", "2.2 3.1", "3.2 1.2"],
        ["1.1 2.2", "2.1 3.2", "3.1 4.2", "4.1 1.2"],
        ["1.1 2.1", "2.2 3.2"],
    ],
)
def test_nodes_that_are_cabled_one_to_the_next_are_a_question(networks):
    (question,) = nodes.discovered(cluster(3 if len(networks) < 4 else 4, networks=networks)).questions
    assert question.key is None
    assert "each cable joins two nodes" in question.text
    assert "docs/inventory.md" in question.text


def test_two_pairs_are_no_chain():
    survey = nodes.discovered(cluster(4, networks=["1.1 2.1", "1.2 2.2", "3.1 4.1", "3.2 4.2"]))
    assert survey.questions == []


def test_a_rail_whose_ports_are_on_several_networks_is_named_with_them():
    survey = nodes.discovered(
        cluster(6, networks=["1.1 2.1 3.1 4.1 5.1 6.1", "1.2 2.2", "3.2 4.2", "5.2 6.2"])
    )
    (text,) = survey.oddities
    assert text.startswith("gpu[1-6]: rail1 is on 3 networks")
    assert "gpu3 ens2 with gpu4 ens2" in text


def test_a_port_that_hears_no_peer_though_it_is_heard_is_named():
    found = cluster(2)
    heard(found[0], "ens1")["senders"] = []
    survey = nodes.discovered(found)
    (text,) = survey.oddities
    assert text.startswith("gpu1: rail0 (ens1 (0000:18:00.0)) hears no port, though others hear it")


def test_a_port_that_no_peer_hears_is_named_and_no_other():
    found = cluster(4)
    for one in found:
        heard(one, "ens2")["senders"] = [
            sender for sender in heard(one, "ens2")["senders"] if sender["key"] != "gpu3"
        ]
    (text,) = nodes.discovered(found).oddities
    assert text.startswith("gpu3: rail1 (ens2 (0000:40:00.0)) hears others, but no other port hears it")


def test_that_rails_share_a_network_is_an_assumption():
    survey = nodes.discovered(cluster(3, networks=["1.1 2.1 3.1 1.2 2.2 3.2"]))
    assert any(text.startswith("rail0, rail1 are on one network") for text in survey.assumed)
    assert not any("one network" in text for text in nodes.discovered(cluster(3)).assumed)


def test_one_cable_between_unlike_ports_is_no_shared_network():
    survey = nodes.discovered(cluster(2, networks=["1.1 2.2"]))
    assert not any("one network, so" in text for text in survey.assumed)
    assert [text.split(" is not on one network")[0] for text in survey.oddities] == [
        "gpu1: rail1 (ens2 (0000:40:00.0))",
        "gpu2: rail0 (ens1 (0000:18:00.0))",
    ]


def test_that_half_of_the_nodes_are_cabled_the_other_way_is_named():
    survey = nodes.discovered(cluster(4, networks=["1.1 2.1 3.2 4.2", "1.2 2.2 3.1 4.1"]))
    odd = [rail.ports["gpu3"].netdev for rail in survey.rails]
    assert odd == ["ens2", "ens1"]
    assert len(survey.oddities) == 2
    for text, rail in zip(survey.oddities, ("rail0", "rail1"), strict=True):
        for words in (rail, "ens1 (0000:18:00.0)", "ens2 (0000:40:00.0)", "on as many others"):
            assert words in text


# Which ports are rails


def test_a_node_with_more_ports_than_the_others_keeps_them_and_they_are_named():
    found = [node(1), node(2), node(3, rails=4)]
    cable(found, ["1.1 2.1 3.1", "1.2 2.2 3.2"])
    survey = nodes.discovered(found)
    assert len(survey.rails) == 2
    assert [text.split(" is of the rails' model")[0] for text in survey.oddities] == [
        "gpu3: ens3 (0000:9a:00.0)",
        "gpu3: ens4 (0000:9b:00.0)",
    ]


def test_of_two_nodes_one_with_more_ports_is_joined_where_the_cables_are():
    found = [node(1), node(2, rails=4)]
    cable(found, ["1.1 2.3", "1.2 2.4"])
    survey = nodes.discovered(found)
    assert ports_of(survey) == [{"gpu1": "ens1", "gpu2": "ens3"}, {"gpu1": "ens2", "gpu2": "ens4"}]
    assert all("not on one network" not in text for text in survey.oddities)


def test_slower_ports_of_the_rails_model_are_named():
    found = cluster(4)
    for one in found:
        row(one, "ens2")["speed_mbps"] = 100_000
    (text,) = nodes.discovered(found).oddities
    assert text.startswith(
        "gpu[1-4]: ens2 (0000:40:00.0) is of the rails' model and has a link at 100 Gbit/s"
    )


@pytest.mark.parametrize("gbps", [400, 200])
def test_nodes_with_cards_of_another_model_have_rails_too(tmp_path, gbps):
    found = cluster(4)
    for one in found[2:]:
        for netdev in ("ens1", "ens2"):
            row(one, netdev)["speed_mbps"] = gbps * 1000
            row(one, netdev, "ports").update(pci_id="14e4:1760", model="BCM57608")
    survey = nodes.discovered(found)
    assert [set(rail.ports) for rail in survey.rails] == [{"gpu1", "gpu2", "gpu3", "gpu4"}] * 2
    assert survey.not_known == []
    assert any(
        text.startswith("gpu[3-4]: the rails are 2 x") and "BCM57608" in text for text in survey.oddities
    )
    # Half of the nodes are not most of them.
    assert not any("most nodes" in text for text in survey.oddities)
    command.write(tmp_path / "inventory", render(survey))


def test_a_much_slower_card_of_another_model_is_not_taken_for_a_nodes_rail():
    found = cluster(3)
    for netdev in ("ens1", "ens2"):
        row(found[2], netdev)["speed_mbps"] = 25_000
        row(found[2], netdev, "ports")["pci_id"] = "15b3:1015"
        row(found[2], netdev, "ports")["pci"] = row(found[2], netdev)["pci"] = f"0000:0{netdev[-1]}:00.0"
        row(found[2], netdev, "hcas")["pci"] = f"0000:0{netdev[-1]}:00.0"
    assert list(nodes.discovered(found).nodes) == ["gpu1", "gpu2"]


def test_a_rail_that_has_addresses_where_the_others_have_none_is_named():
    found = cluster(2)
    for number, one in enumerate(found, 1):
        row(one, "ens2")["addresses"] = [f"10.9.0.{number}/24"]
        row(one, "ens1")["addresses"] = []
    (text,) = nodes.discovered(found).oddities
    assert text.startswith("rail1 (ens2 (0000:40:00.0)) has addresses, as 10.9.0.1/24, and rail0 has none")


@pytest.mark.parametrize("name", ["mgmt", "vlan7", "ens2.7"])
def test_the_port_below_a_vlan_by_which_the_node_is_reached_is_no_rail_whatever_its_name(name):
    found = cluster(2)
    for one in found:
        vlan = {**row(one, "ens2"), "netdev": name, "kind": "vlan", "pci": None, "hca": None}
        vlan |= {"permanent_mac": None, "addresses": row(one, "eno1")["addresses"]}
        one["facts"]["netdevs"].append(vlan)
        row(one, "eno1")["addresses"] = []
        one["default_route"] = [name]
    survey = nodes.discovered(found)
    assert ports_of(survey) == [{"gpu1": "ens1", "gpu2": "ens1"}]
    assert survey.frontend == name


@pytest.mark.parametrize(
    ("own", "expected"), [("2001:db8::{}/64", ("eno1",)), ("fe80::{}/64", ("eno1", "ens1", "ens2"))]
)
def test_without_a_way_in_interfaces_with_ipv6_alone_are_candidates(own, expected):
    found = cluster(2)
    for number, one in enumerate(found, 1):
        one |= {"default_route": [], "login_address": None}
        for netdev in ("eno1", "ens1", "ens2"):
            row(one, netdev).update(addresses=[], addresses6=[f"fe80::{number}/64"])
        row(one, "eno1")["addresses6"] = [own.format(number)]
    (question,) = nodes.discovered(found).questions
    assert (question.key, question.candidates) == ("frontend", expected)


# What an inventory can hold


@pytest.mark.parametrize("first", ["10.1.0.0/24", "10.1.0.255/24"])
def test_addresses_that_no_node_may_have_are_not_kept(tmp_path, first):
    found = cluster(2)
    for one, addresses in zip(found, (first, "10.1.0.2/24"), strict=True):
        row(one, "ens1")["addresses"] = [addresses]
        row(one, "ens2")["addresses"] = [addresses.replace("10.1.0.0", "10.1.0.1").replace("10.1", "10.2")]
    survey = nodes.discovered(found, Options(keep_addresses=True))
    assert any("addresses are not kept: rail0" in text for text in survey.oddities)
    command.write(tmp_path / "inventory", render(survey))


@pytest.mark.parametrize(("largest", "now", "keep"), [(60, 1500, False), (65535, 65535, True)])
def test_an_mtu_that_no_inventory_can_hold_is_not_written(tmp_path, largest, now, keep):
    found = cluster(2, mtu_bytes=now)
    for number, one in enumerate(found, 1):
        for place, netdev in enumerate(("ens1", "ens2"), 1):
            row(one, netdev).update(mtu_max_bytes=largest, addresses=[f"10.{place}.0.{number}/24"])
    survey = nodes.discovered(found, Options(keep_addresses=keep))
    assert survey.mtu == (9978 if keep else 576)
    command.write(tmp_path / "inventory", render(survey))


def test_a_rate_that_no_link_has_is_not_known(tmp_path):
    found = cluster(2)
    for one in found:
        for netdev in ("ens1", "ens2"):
            row(one, netdev).update(speed_mbps=10**12, speed_max_mbps=10**12)
            row(one, netdev, "hcas")["rate_gbps"] = 0
    survey = nodes.discovered(found)
    assert [rail.rate_gbps for rail in survey.rails] == [None, None]
    command.write(tmp_path / "inventory", render(survey))


def test_a_bmc_with_the_address_of_another_node_is_not_written(tmp_path):
    found = cluster(2)
    found[0]["bmc_address"] = "198.18.0.2"
    survey = nodes.discovered(found, gpu2=Named("gpu2", "gpu2", "198.18.0.2"))
    assert survey.nodes["gpu1"].bmc_address is None
    command.write(tmp_path / "inventory", render(survey))


def test_an_ipoib_mtu_of_connected_mode_is_not_written(tmp_path):
    found = cluster(2, networks=[], mtu_bytes=65520)
    for number, one in enumerate(found, 1):
        for place, netdev in enumerate(("ens1", "ens2"), 1):
            row(one, netdev).update(kind="ipoib", addresses=[f"10.{place}.0.{number}/24"])
            row(one, netdev, "hcas").update(link_layer="InfiniBand", sm_lid=1)
    survey = nodes.discovered(found, Options(keep_addresses=True))
    assert "the rails' MTU of 65520 cannot be written; it is 4092 there" in survey.oddities
    command.write(tmp_path / "inventory", render(survey))


def test_names_that_only_capitals_tell_apart_are_a_question():
    named = {"gpu1": Named("gpu1", "North"), "gpu2": Named("gpu2", "north")}
    (question,) = nodes.discovered(cluster(2), **named).questions
    assert question.text.startswith("gpu1, gpu2: all are called North")


def test_virtual_functions_that_are_rails_are_not_to_be_removed():
    survey = nodes.discovered(cluster(2, vf=True, pci_id="15b3:101e"))
    assert ports_of(survey) == [{"gpu1": "ens1", "gpu2": "ens1"}, {"gpu1": "ens2", "gpu2": "ens2"}]
    assert survey.oddities == []


def test_a_node_that_is_reached_by_a_rails_port_lacks_the_rail_and_that_may_be_why(tmp_path):
    found = cluster(4)
    row(found[2], "ens1")["addresses"] = row(found[2], "eno1")["addresses"]
    row(found[2], "eno1")["addresses"] = []
    found[2]["default_route"] = ["ens1"]
    survey = nodes.discovered(found)
    assert survey.nodes["gpu3"].overrides == {"rail0": "absent"}
    assert any(
        text.startswith("gpu3: 1 of 2 rails") and "not reached by it" in text for text in survey.oddities
    )
    command.write(tmp_path / "inventory", render(survey))
