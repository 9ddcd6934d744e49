# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Two servers cabled back to back, as the cluster's notes describe them: inventories/v100-pair."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from railyard.discover.files import render
from railyard.discover.model import Named, Options
from railyard.new_inventory import command
from railyard.plan import view
from support.discover import nodes

PAIR = Path(__file__).resolve().parents[3] / "inventories" / "v100-pair"
ADDRESSES = {1: "192.168.1.73", 2: "192.168.1.71"}
BMCS = {1: "192.168.1.72", 2: "192.168.1.70"}


def server(number):
    # Two ports on one PCI function and one RDMA device, and a second on-board port without a cable.
    card = {
        "pci": "0000:42:00.0",
        "gbps": 40,
        "rdma": "mlx4_0",
        "pci_id": "15b3:1003",
        "driver": "mlx4_core",
        "mtu_bytes": 9000,
    }
    return nodes.made_up(
        f"gpuserver{number}",
        [
            {"netdev": "enp6s0", "pci": "0000:06:00.0", "gbps": 1, "rdma": None, "carrier": False},
            {**card, "netdev": "ens6", "addresses": [f"10.0.1.{number}/24"]},
            {**card, "netdev": "ens6d1", "dev_port": 1, "addresses": [f"10.0.0.{number}/24"]},
        ],
        frontend={"netdev": "enp5s0", "addresses": [f"{ADDRESSES[number]}/24"]},
        bmc_address=BMCS[number],
        gpus=nodes.gpus_of("Tesla V100-PCIE-16GB", ["0000:02:00.0", "0000:03:00.0"]),
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    pair = [server(1), server(2)]
    nodes.wire(pair, [[(one["key"], netdev) for one in pair] for netdev in ("ens6", "ens6d1")])
    named = {one["key"]: Named(one["key"], one["key"], ADDRESSES[n], "me") for n, one in enumerate(pair, 1)}
    survey = nodes.discovered(pair, Options(keep_addresses=True), **named)
    assert (survey.oddities, survey.questions, survey.not_known) == ([], [], [])
    target = tmp_path_factory.mktemp("pair") / "v100-pair"
    command.write(target, render(survey))
    return target


def test_the_fabric_is_that_of_the_inventory_that_people_wrote(written):
    wanted, found = (
        yaml.safe_load((folder / "group_vars/all/fabric.yml").read_text()) for folder in (PAIR, written)
    )
    assert found == wanted


def test_nodes_are_reached_and_have_their_bmcs_as_in_the_inventory_that_people_wrote(written):
    wanted, found = (yaml.safe_load((folder / "hosts.yml").read_text()) for folder in (PAIR, written))
    assert found == wanted
    assert yaml.safe_load((written / "group_vars/all/connection.yml").read_text())["ansible_user"] == "me"


def test_the_plan_is_the_one_that_people_wrote(written):
    plan, problems = view.plan_or_problems([str(written)])
    wanted = json.loads((PAIR / "expected/plan.json").read_text())
    assert problems == []
    gpus = {name: node.pop("gpus") for name, node in plan["nodes"].items()}
    assert plan["nodes"] == wanted["nodes"]
    assert plan["cabling"] == wanted["cabling"]
    assert gpus == {name: {"count": 2, "model": "Tesla V100-PCIE-16GB"} for name in wanted["nodes"]}


def test_without_keeping_addresses_the_rails_get_new_ones_apart_from_the_frontends():
    pair = [server(1), server(2)]
    nodes.wire(pair, [[(one["key"], netdev) for one in pair] for netdev in ("ens6", "ens6d1")])
    survey = nodes.discovered(pair)
    assert [rail.keys["subnet"] for rail in survey.rails] == ["10.224.0.0/24", "10.224.1.0/24"]
    assert any("10.224.0.0/12" in text for text in survey.assumed)
