# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order of the rails and their cables, on the smallest cluster that shows each rule."""

from __future__ import annotations

import ipaddress

import pytest
from support.discover import nodes
from support.discover.clusters import TWO, cluster, hca, mentions, names, port, row, written


def test_rails_are_in_the_order_of_their_switches_where_these_announce_themselves(tmp_path):
    found = cluster(3, switched=True)
    for node in found:
        port(node, "ens1")["neighbours"][0]["switch"] = "leaf10"
        port(node, "ens2")["neighbours"][0]["switch"] = "leaf9"
    survey_of_three = nodes.discovered(found)
    assert survey_of_three.ordered_by == "lldp"
    assert [(rail.value, rail.leaves) for rail in survey_of_three.rails] == [
        ("ens2", {None: "leaf9"}),
        ("ens1", {None: "leaf10"}),
    ]
    assert [rail["leaf"] for rail in written(tmp_path, survey_of_three)["rails"]] == ["leaf9", "leaf10"]


def test_cards_that_all_sit_elsewhere_are_found_by_their_networks():
    found = cluster(4, wired=False)
    for part in (found[3]["facts"]["netdevs"], found[3]["ports"], found[3]["facts"]["hcas"]):
        for netdev, slot in (("ens1", "0000:9b:00.0"), ("ens2", "0000:9a:00.0")):
            next(one for one in part if one["netdev"] == netdev)["pci"] = slot
    nodes.wire(found, [[(one["key"], netdev) for one in found] for netdev in ("ens1", "ens2")])
    survey_of_four = nodes.discovered(found)
    assert [rail.ports["gpu4"].pci for rail in survey_of_four.rails] == ["0000:9b:00.0", "0000:9a:00.0"]
    assert mentions(survey_of_four, "gpu4", "rail0 is ens1 (0000:9b:00.0)")


def test_lldp_alone_shows_a_crossed_cable():
    found = cluster(4, wired=False, switched=True)
    for netdev, other in (("ens1", "leaf2"), ("ens2", "leaf1")):
        port(found[2], netdev)["neighbours"][0]["switch"] = other
    survey_of_four = nodes.discovered(found)
    assert mentions(survey_of_four, "crossed cables", "gpu3 ens1", "gpu3 ens2", "Swap")
    assert [rail.leaves for rail in survey_of_four.rails] == [{None: "leaf1"}, {None: "leaf2"}]


def test_leaves_of_scalable_units_are_units_with_subnets_of_their_own(tmp_path):
    found = cluster(4, wired=False, switched=True)
    for node in found[2:]:
        for netdev in ("ens1", "ens2"):
            port(node, netdev)["neighbours"][0]["switch"] = f"leaf-b{netdev[-1]}"
    fabric = written(tmp_path, nodes.discovered(found))
    assert [rail["leaves"] for rail in fabric["rails"]] == [
        {"su1": "leaf1", "su2": "leaf-b1"},
        {"su1": "leaf2", "su2": "leaf-b2"},
    ]
    subnets = [ipaddress.ip_network(text) for rail in fabric["rails"] for text in rail["subnets"].values()]
    assert not any(one.overlaps(other) for place, one in enumerate(subnets) for other in subnets[:place])


def test_crossed_cables_of_two_nodes_are_distinguished():
    found = cluster(9, wired=False)
    # gpu2's cables are crossed, and a cable of gpu1 is where one of gpu3 belongs.
    away = {("gpu2", "ens1"), ("gpu2", "ens2"), ("gpu1", "ens1"), ("gpu3", "ens2")}
    keys = [one["key"] for one in found]
    networks = [
        [(key, netdev) for key in keys if (key, netdev) not in away]
        + [(key, other) for key in keys if (key, other) in away]
        for netdev, other in (("ens1", "ens2"), ("ens2", "ens1"))
    ]
    nodes.wire(found, networks)
    first, second = nodes.discovered(found).oddities
    for words in ("gpu1 ens1", "gpu3 ens2", "Swap the two cables"):
        assert words in first
    for words in ("gpu2 ens1", "gpu2 ens2", "Swap the two cables"):
        assert words in second


def test_two_nodes_whose_cables_join_unlike_ports_follow_the_cables(tmp_path):
    found = cluster(2, wired=False)
    nodes.wire(found, [[("gpu1", "ens1"), ("gpu2", "ens2")], [("gpu1", "ens2"), ("gpu2", "ens1")]])
    survey_of_two = nodes.discovered(found)
    assert [{name: one.netdev for name, one in rail.ports.items()} for rail in survey_of_two.rails] == [
        {"gpu1": "ens1", "gpu2": "ens2"},
        {"gpu1": "ens2", "gpu2": "ens1"},
    ]
    assert mentions(survey_of_two, "crossed cable", "gpu1 ens1", "gpu2 ens2")
    assert written(tmp_path, survey_of_two)["cabling"] == "back_to_back"


def test_one_cable_between_different_ports_is_one_rail(tmp_path):
    found = cluster(2, wired=False)
    for node, netdev in zip(found, ("ens1", "ens2"), strict=True):
        row(node, netdev).update(carrier=False, speed_mbps=None)
        hca(node, netdev)["state"] = "DOWN"
    nodes.wire(found, [[("gpu1", "ens2"), ("gpu2", "ens1")]])
    survey_of_two = nodes.discovered(found)
    (rail,) = survey_of_two.rails
    assert {name: one.netdev for name, one in rail.ports.items()} == {"gpu1": "ens2", "gpu2": "ens1"}
    written(tmp_path, survey_of_two)


def test_two_nodes_on_switches_that_announce_themselves_are_not_back_to_back():
    assert nodes.discovered(cluster(2, switched=True)).cabling is None


@pytest.mark.parametrize("names_itself", ["gpu{}", "ip-10-0-0-{}.example.org"])
def test_two_nodes_that_hear_each_others_lldp_are_back_to_back(names_itself):
    found = cluster(2)
    for number, (node, other) in enumerate(zip(found, reversed(found), strict=True), 1):
        node["hostname"] = f"ip-10-0-0-{number}.example.org"
        sender = names_itself.format(other["key"][-1])
        port(node, "ens1")["neighbours"] = [{"switch": sender, "chassis": "x", "port": "ens1"}]
    survey_of_two = nodes.discovered(found)
    assert survey_of_two.cabling == "back_to_back"
    assert all(rail.leaves == {} for rail in survey_of_two.rails)


def test_without_slots_and_networks_in_common_the_order_on_the_bus_counts(tmp_path):
    found = cluster(2, wired=False)
    for place, netdev in enumerate(("ens1", "ens2")):
        for part in (found[1]["facts"]["netdevs"], found[1]["ports"], found[1]["facts"]["hcas"]):
            one = next(one for one in part if one["netdev"] == netdev)
            one.update(netdev=f"enp{place}", pci=f"0000:8{place}:00.0")
    survey_of_two = nodes.discovered(found)
    assert [
        (rail.joined_by, rail.ports["gpu1"].netdev, rail.ports["gpu2"].netdev) for rail in survey_of_two.rails
    ] == [
        ("position", "ens1", "enp0"),
        ("position", "ens2", "enp1"),
    ]
    rails = written(tmp_path, survey_of_two)["rails"]
    assert all("hca" not in rail for rail in rails)


def test_ports_that_nothing_else_names_are_named_by_their_rdma_device(tmp_path):
    found = cluster(2, wired=False)
    for node in found:
        # Both ports of a ConnectX-3 in InfiniBand mode, without IPoIB.
        node["facts"]["netdevs"] = [row(node, "eno1")]
        for number, netdev in enumerate(("ens1", "ens2")):
            name = f"mlx4_0:{number + 1}"
            hca(node, netdev).update(
                hca=name, device="mlx4_0", port=number + 1, link_layer="InfiniBand", pci=TWO[0], netdev=None
            )
            port(node, netdev).update(hca=name, dev_port=number, pci=TWO[0], netdev=None)
    survey_of_two = nodes.discovered(found)
    assert survey_of_two.questions == []
    rails = written(tmp_path, survey_of_two)["rails"]
    assert [{key: rail[key] for key in ("name", "hca")} for rail in rails] == [
        {"name": "rail0", "hca": "mlx4_0:1"},
        {"name": "rail1", "hca": "mlx4_0:2"},
    ]


def test_two_ports_at_one_address_are_never_named_by_it(tmp_path):
    found = cluster(2, [TWO[0], TWO[0]])
    for node in found:
        for place, netdev in enumerate(("ens1", "ens2")):
            name = f"mlx4_0:{place + 1}"
            hca(node, netdev).update(hca=name, device="mlx4_0", port=place + 1)
            port(node, netdev).update(hca=name, dev_port=place)
            row(node, netdev)["hca"] = name
    for part in (found[1]["facts"]["netdevs"], found[1]["ports"], found[1]["facts"]["hcas"]):
        for place, netdev in enumerate(("ens1", "ens2")):
            next(one for one in part if one["netdev"] == netdev)["netdev"] = f"enp{place}"
    nodes.wire(found, [[("gpu1", "ens1"), ("gpu2", "enp0")], [("gpu1", "ens2"), ("gpu2", "enp1")]])
    survey_of_two = nodes.discovered(found)
    assert [rail.selector for rail in survey_of_two.rails] == ["netdev", "netdev"]
    assert all("pci" not in rail for rail in written(tmp_path, survey_of_two)["rails"])


def test_two_nodes_on_one_flat_network_are_not_back_to_back():
    found = cluster(2, wired=False)
    nodes.wire(found, [[(one["key"], netdev) for one in found for netdev in ("ens1", "ens2")]])
    survey_of_two = nodes.discovered(found)
    assert survey_of_two.cabling is None
    # One network for all rails tells nothing about them.
    assert {rail.joined_by for rail in survey_of_two.rails} == {"slot"}
    assert survey_of_two.oddities == []


def test_a_rail_whose_network_is_the_frontends_too_is_not_back_to_back():
    found = cluster(2, wired=False)
    nodes.wire(
        found,
        [
            [(one["key"], netdev) for one in found for netdev in ("ens1", "eno1")],
            [(one["key"], "ens2") for one in found],
        ],
    )
    assert nodes.discovered(found).cabling is None


@pytest.mark.parametrize("where", [[], [("gpu2", "ens1"), ("gpu2", "eno1"), ("gpu1", "eno1")]])
def test_a_port_that_is_on_no_rails_network_is_named(where):
    found = cluster(4, wired=False)
    networks = [
        [(one["key"], netdev) for one in found if (one["key"], netdev) != ("gpu2", "ens1")]
        for netdev in ("ens1", "ens2")
    ]
    nodes.wire(found, [*networks, where])
    (text,) = nodes.discovered(found).oddities
    for words in ("gpu2: rail0 (ens1 (0000:18:00.0))", "not on one network", "VLAN"):
        assert words in text


def test_a_port_on_a_network_that_two_other_rails_share_is_named_without_a_guess():
    found = cluster(4, [*TWO, "0000:9a:00.0"], wired=False)
    shared = [(one["key"], netdev) for one in found for netdev in ("ens2", "ens3")]
    own = [(one["key"], "ens1") for one in found[:3]]
    nodes.wire(found, [own, [*shared, ("gpu4", "ens1")]])
    (text,) = nodes.discovered(found).oddities
    assert "gpu4: rail0 (ens1 (0000:18:00.0)) is not on one network" in text


def test_a_port_that_did_not_listen_is_not_known_and_nothing_odd():
    found = cluster(4, wired=False)
    nodes.wire(
        found,
        [
            [(one["key"], netdev) for one in found if (one["key"], netdev) != ("gpu2", "ens1")]
            for netdev in ("ens1", "ens2")
        ],
    )
    next(one for one in found[1]["beacons"] if one["netdev"] == "ens1")["error"] = "no packet sockets"
    survey_of_four = nodes.discovered(found)
    assert survey_of_four.not_known == ["cabling of gpu2: ens1 heard no other port: no packet sockets"]
    assert survey_of_four.oddities == []


def down(node, netdev):
    """Let a port be administratively down."""
    row(node, netdev).update(carrier=None, admin_up=False, speed_mbps=None)
    hca(node, netdev).update(state="DOWN", rate_gbps=40)


def test_ports_that_are_all_down_are_a_question_that_names_link_up():
    found = cluster(2, wired=False)
    for node in found:
        down(node, "ens1")
        down(node, "ens2")
    (question,) = nodes.discovered(found).questions
    assert "gpu[1-2] are administratively down. Discover with --link-up" in question.text


def test_ports_that_were_raised_are_rails_with_the_rate_that_they_had_then(tmp_path):
    found = cluster(2)
    for node in found:
        for netdev in ("ens1", "ens2"):
            down(node, netdev)
            heard = next(one for one in node["beacons"] if one["netdev"] == netdev)
            heard.update(raised=True, speed_mbps=200_000)
    survey_of_two = nodes.discovered(found)
    assert (survey_of_two.not_known, survey_of_two.oddities) == ([], [])
    assert [rail["rate_gbps"] for rail in written(tmp_path, survey_of_two)["rails"]] == [200, 200]


def test_the_rate_of_a_port_without_a_link_is_nobodys():
    found = cluster(2)
    for node in found:
        for netdev in ("ens1", "ens2"):
            down(node, netdev)
            next(one for one in node["beacons"] if one["netdev"] == netdev).update(
                raised=True, speed_mbps=None
            )
    assert [rail.rate_gbps for rail in nodes.discovered(found).rails] == [None, None]


def test_a_port_that_was_raised_and_has_no_carrier_is_no_rail():
    found = cluster(2)
    for node in found:
        down(node, "ens2")
        heard = next(one for one in node["beacons"] if one["netdev"] == "ens2")
        heard.update(raised=True, speed_mbps=None, senders=[], error="it has no carrier")
        for one in node["beacons"]:
            one["senders"] = [sender for sender in one["senders"] if sender["netdev"] != "ens2"]
    survey_of_two = nodes.discovered(found)
    assert (names(survey_of_two), survey_of_two.not_known) == (["ens1"], [])


def test_without_rdma_ports_that_are_down_are_not_known_either():
    found = cluster(2, [*TWO, "0000:9a:00.0"], rdma=None)
    for node in found:
        row(node, "ens3").update(carrier=None, admin_up=False, speed_mbps=None)
    assert mentions(nodes.discovered(found), "gpu[1-2]", "ens3 (0000:9a:00.0) is administratively down")


def test_a_node_that_no_peer_hears_is_named():
    found = cluster(4)
    nodes.wire(found, [[(one["key"], netdev) for one in found[:3]] for netdev in ("ens1", "ens2")])
    assert mentions(nodes.discovered(found), "gpu4", "no other node was heard on any rail")


def test_why_a_port_did_not_listen_is_not_known():
    found = cluster(2)
    for one in found[0]["beacons"]:
        one["error"] = "no permission: not root"
    assert mentions(
        nodes.discovered(found), "cabling of gpu1: ens1 heard no other port: no permission: not root"
    )


def on_one_wire(found):
    """Make ens1 and ens2 two functions on one wire."""
    for node in found:
        for netdev in ("ens1", "ens2"):
            port(node, netdev)["physical_port"] = f"card-of-{node['key']} p0"
    nodes.wire(found, [[(one["key"], netdev) for one in found for netdev in ("ens1", "ens2")]])


def test_a_node_does_not_lack_one_of_two_functions_on_a_wire():
    found = cluster(4, [*TWO, "0000:9a:00.0"])
    on_one_wire(found)
    for part in ("netdevs", "hcas"):
        found[1]["facts"][part] = [
            one for one in found[1]["facts"][part] if one["netdev"] not in ("ens2", "ens3")
        ]
    found[1]["ports"] = [one for one in found[1]["ports"] if one["netdev"] not in ("ens2", "ens3")]
    survey_of_four = nodes.discovered(found)
    assert survey_of_four.rails[0].shares_wire_with == "rail1"
    assert survey_of_four.nodes["gpu2"].overrides == {"rail2": "absent"}
    assert mentions(survey_of_four, "gpu2", "rail1, rail2 have none")


def test_two_functions_on_one_wire_are_two_rails_that_share_it(tmp_path):
    found = cluster(2, gbps=200)
    on_one_wire(found)
    fabric = written(tmp_path, nodes.discovered(found))
    assert fabric["rails"][0]["shares_wire_with"] == "rail1"
    assert [rail["rate_gbps"] for rail in fabric["rails"]] == [200, 200]


def test_a_port_in_another_infiniband_subnet_and_one_without_a_subnet_manager_are_named():
    found = cluster(3, wired=False)
    for node in found:
        for netdev in ("ens1", "ens2"):
            gid = {"index": 0, "type": "IB/RoCE v1", "netdev": None, "address": None}
            hca(node, netdev).update(
                link_layer="InfiniBand",
                sm_lid=1,
                gids=[{**gid, "gid": "fe80:0000:0000:0000:0000:0000:0000:0001"}],
            )
            row(node, netdev).update(kind="ipoib")
    hca(found[2], "ens1")["gids"][0]["gid"] = "fe80:0000:0000:0001:0000:0000:0000:0001"
    hca(found[1], "ens2")["state"] = "INIT"
    survey_of_three = nodes.discovered(found)
    assert survey_of_three.transport == "infiniband"
    assert mentions(survey_of_three, "gpu3", "rail0", "InfiniBand subnet fe80:0000:0000:0001", "most nodes")
    hca(found[2], "ens1")["gids"][0]["gid"] = "fe80:0000:0000:0000:0000:0000:0000:0001"
    hca(found[2], "ens1")["sm_lid"] = 7
    assert mentions(
        nodes.discovered(found), "gpu3", "rail0", "subnet manager at LID 7", "most nodes", "at LID 1"
    )
    assert mentions(survey_of_three, "gpu2", "rail1", "INIT", "subnet manager")
