# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rates, cards, subnets and addresses, on the smallest cluster that shows each rule."""

from __future__ import annotations

import pytest
import yaml
from railyard.discover.files import render
from railyard.discover.model import Options
from support.discover import nodes
from support.discover.clusters import cluster, mentions, port, row, written


def test_a_slower_link_is_reported_and_not_written(tmp_path):
    found = cluster(4)
    row(found[1], "ens2")["speed_mbps"] = 200_000
    survey_of_four = nodes.discovered(found)
    assert mentions(survey_of_four, "gpu2", "rail1", "runs at 200 Gbit/s", "most nodes at 400")
    assert [rail["rate_gbps"] for rail in written(tmp_path, survey_of_four)["rails"]] == [400, 400]


def test_a_slower_link_between_cards_that_can_do_more_is_reported():
    assert mentions(nodes.discovered(cluster(4, gbps=200, max_gbps=400)), "200 Gbit/s", "can do 400")


def test_another_card_in_a_rails_slot_is_its_port_and_named():
    found = cluster(4, card="MCX75310AAS")
    port(found[2], "ens2").update(model="MCX653105A", pci_id="15b3:101b")
    row(found[2], "ens2")["speed_mbps"] = 200_000
    survey_of_four = nodes.discovered(found)
    assert survey_of_four.rails[1].ports["gpu3"].netdev == "ens2"
    assert mentions(survey_of_four, "gpu3", "rail1", "card MCX653105A", "MCX75310AAS")


def test_new_subnets_overlap_no_network_of_the_nodes(tmp_path):
    found = cluster(3)
    for number, node in enumerate(found, 1):
        row(node, "eno1")["addresses"] += [f"10.224.0.{number}/16", f"10.208.0.{number}/16"]
    fabric = written(tmp_path, nodes.discovered(found))
    assert [rail["subnet"] for rail in fabric["rails"]] == ["10.192.0.0/24", "10.192.1.0/24"]


def test_addresses_are_kept_with_an_offset_or_as_overrides(tmp_path):
    found = cluster(3, mtu_bytes=4200)
    for number, node in enumerate(found, 1):
        row(node, "ens1")["addresses"] = [f"10.1.0.{number + 10}/24"]
        row(node, "ens2")["addresses"] = [f"10.2.0.{number + 10}/24"]
    fabric = written(tmp_path / "one", nodes.discovered(found, Options(keep_addresses=True)))
    assert (fabric["host_offset"], fabric["mtu"]) == (10, 4200)
    assert [rail["subnet"] for rail in fabric["rails"]] == ["10.1.0.0/24", "10.2.0.0/24"]
    row(found[1], "ens2")["addresses"] = ["10.2.0.77/24"]
    hosts = yaml.safe_load(render(nodes.discovered(found, Options(keep_addresses=True)))["hosts.yml"])[
        "gpu_nodes"
    ]["hosts"]
    assert [hosts[name]["node_index"] for name in ("gpu1", "gpu2", "gpu3")] == [11, 12, 13]
    assert hosts["gpu2"]["rail_overrides"] == {"rail1": {"address": "10.2.0.77/24"}}


def test_a_cable_whose_two_ends_are_a_network_of_their_own_is_kept(tmp_path):
    found = cluster(2)
    for number, node in enumerate(found):
        row(node, "ens1")["addresses"] = [f"10.1.0.{number}/31"]
        row(node, "ens2")["addresses"] = [f"10.1.0.{number + 2}/31"]
    fabric = written(tmp_path, nodes.discovered(found, Options(keep_addresses=True)))
    assert [rail["subnet"] for rail in fabric["rails"]] == ["10.1.0.0/31", "10.1.0.2/31"]
    assert fabric["host_offset"] == -1


@pytest.mark.parametrize(
    "change",
    [
        {"gpu2": []},
        {"gpu2": ["10.9.0.2/24"]},
        {"gpu1": ["198.18.3.1/16"], "gpu2": ["198.18.3.2/16"], "gpu3": ["198.18.3.3/16"]},
        {"gpu2": ["10.1.0.2/24", "10.7.0.2/24"]},
        {"gpu2": ["10.1.0.1/24"]},
    ],
)
def test_addresses_that_are_no_network_of_a_rail_are_not_kept_and_reported(tmp_path, change):
    found = cluster(3)
    for number, node in enumerate(found, 1):
        row(node, "ens1")["addresses"] = change.get(node["key"], [f"10.1.0.{number}/24"])
        row(node, "ens2")["addresses"] = [f"10.2.0.{number}/24"]
    survey_of_three = nodes.discovered(found, Options(keep_addresses=True))
    assert mentions(survey_of_three, "addresses are not kept")
    assert [rail["subnet"] for rail in written(tmp_path, survey_of_three)["rails"]] == [
        "10.224.0.0/24",
        "10.224.1.0/24",
    ]


def test_a_network_beside_the_rails_is_written_and_left_alone(tmp_path):
    found = cluster(3)
    for number, node in enumerate(found, 1):
        extra = nodes.made_up(
            node["key"], [{"netdev": "eno2", "pci": "0000:01:00.1", "gbps": 25, "rdma": None}]
        )
        node["facts"]["netdevs"].append({**row(extra, "eno2"), "addresses": [f"10.8.0.{number}/24"]})
        node["ports"].append(port(extra, "eno2"))
    assert written(tmp_path, nodes.discovered(found))["networks"] == [
        {"name": "eno2", "purpose": "other", "netdev": "eno2", "subnet": "10.8.0.0/24", "manage": False}
    ]


def test_two_bmcs_with_one_address_are_named_and_not_written():
    found = cluster(2)
    for node in found:
        node["bmc_address"] = "10.5.0.1"
    survey_of_two = nodes.discovered(found)
    assert mentions(survey_of_two, "gpu[1-2]", "10.5.0.1")
    assert all(node.bmc_address is None for node in survey_of_two.nodes.values())


def test_the_mtu_is_no_more_than_the_cards_take(tmp_path):
    found = cluster(2)
    row(found[1], "ens1")["mtu_max_bytes"] = 4096
    assert written(tmp_path, nodes.discovered(found))["mtu"] == 4096


@pytest.mark.parametrize(
    ("product", "kind"),
    [
        ("Dell Inc. PowerEdge XE9680", "hardware"),
        ("QEMU Standard PC (Q35 + ICH9, 2009)", "virtual"),
        ("Microsoft Corporation Virtual Machine", "virtual"),
        ("Amazon EC2 p5.48xlarge", "virtual"),
        ("Amazon EC2 c7gn.metal", "hardware"),
        (None, "hardware"),
    ],
)
def test_a_guest_is_distinguished_from_a_server_by_its_product(product, kind):
    found = cluster(2)
    for node in found:
        node["product"] = product
    assert nodes.discovered(found).node_class == kind
