"""Each layout's netplan files: the committed text, what it means by a second calculation, netplan's word."""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.railyard.fabric.plugins.module_utils.netplan import networks as netplan_networks
from ansible_collections.railyard.fabric.plugins.module_utils.netplan import render
from ansible_collections.railyard.fabric.plugins.module_utils.rails import networks, plan
from netaddr import IPNetwork
from railyard.base import paths
from support import expected_plan
from support.nodes.netplan import generate, needs_netplan

INVENTORIES = paths.repo_root() / "inventories"
RAILS, NETWORKS = "60-railyard-rails.yaml", "60-railyard-networks.yaml"
# Nodes whose files stand in expected/, and how many there are of each.
GOLDENS = [
    ("v100-pair", "gpuserver1", (RAILS,)),
    ("v100-pair", "gpuserver2", (RAILS,)),
    ("v100-pair-switched", "gpuserver1", (RAILS,)),
    ("v100-pair-switched", "gpuserver2", (RAILS,)),
    ("hgx-h100-roce", "gpu001", (RAILS,)),
    ("hgx-h100-roce", "gpu064", (RAILS,)),
    ("hgx-a100-hdr", "a100-01", (RAILS,)),
    ("dual-port", "node1", (RAILS,)),
    ("three-networks", "gpu1", (RAILS, NETWORKS)),
    ("computed-512", "gpu512", (RAILS,)),
    ("dgx-spark-pair", "spark1", (RAILS,)),
    ("dgx-spark-switched", "spark4", (RAILS,)),
    ("mi300x-thor2", "mi16", (RAILS,)),
    ("rail-p2p-31", "gpu01", (RAILS,)),
    ("rail-p2p-31", "gpu33", (RAILS,)),
]
FILES = [(layout, node, file) for layout, node, files in GOLDENS for file in files]


def rendered(layout: str, node: str, file: str) -> str:
    """Render a file as the role does on a node whose netdevs are those of the inventory."""
    folder = INVENTORIES / layout
    fabric, variables = expected_plan.fabric_of(folder), expected_plan.hosts_of(folder)[node]
    if file == RAILS:
        unit, overrides = variables.get("scalable_unit"), variables.get("rail_overrides")
        return render.render(plan.plan_node(fabric, node, scalable_unit=unit, rail_overrides=overrides))
    planned = networks.plan_networks(fabric, node, None, variables.get("network_addresses"))
    placed = netplan_networks.as_rails(planned)
    for row in placed:
        if row["vlan"] is not None:
            row.update(parent=row["netdev"], netdev=f"{row['netdev']}.{row['vlan']}")
    return netplan_networks.render(placed, netplan_networks.managed_frontend(fabric.get("frontend")))


def golden(layout: str, node: str, file: str) -> str:
    return (INVENTORIES / layout / "expected" / node / file).read_text(encoding="utf-8")


def stanzas(layout: str, node: str, file: str, kind: str) -> dict:
    document = yaml.safe_load(golden(layout, node, file))
    assert list(document) == ["network"]
    assert set(document["network"]) <= {"version", "ethernets", "vlans"}
    assert document["network"]["version"] == 2
    found = document["network"].get(kind) or {}
    # A global one would be everybody's: beside NetworkManager's the way in may be unmanaged after a boot.
    assert {stanza.pop("renderer") for stanza in found.values()} <= {"networkd"}
    return found


def ways(rail: dict) -> set[tuple]:
    """Reckon routes as (to, via, scope, table); main has what is behind the gateway, no default."""
    found = {(route["to"], route["via"], None, None) for route in rail["routes"]}
    for key in ("", "6"):
        if rail["address" + key] is None:
            continue
        version, gateway = (6 if key else 4), rail["gateway" + key]
        found.add((str(IPNetwork(rail["address" + key]).cidr), None, "link", rail["table"]))
        found |= {
            (route["to"], route["via"], None, rail["table"])
            for route in rail["routes"]
            if IPNetwork(route["to"]).version == version
        }
        if gateway is not None:
            found.add(("default", gateway, None, rail["table"]))
    return found


def test_every_golden_file_is_tested():
    there = {
        (path.parts[-4], path.parts[-2], path.name) for path in INVENTORIES.glob("*/expected/*/60-railyard-*")
    }
    assert there == set(FILES)


@pytest.mark.parametrize(("layout", "node", "file"), FILES)
def test_the_text_is_the_golden(layout, node, file):
    assert rendered(layout, node, file) == golden(layout, node, file)


@pytest.mark.parametrize(
    ("layout", "node"), [("dgx-h100-infiniband", "dgx01"), ("gb200-nvl72-tray", "r1-tray01")]
)
def test_infiniband_without_ip_has_no_file(layout, node):
    assert rendered(layout, node, RAILS) == ""


@pytest.mark.parametrize(("layout", "node"), [(layout, node) for layout, node, _files in GOLDENS])
def test_the_rails_file_agrees_with_a_second_calculation(layout, node):
    expected = {rail["netdev"]: rail for rail in expected_plan.node_of(INVENTORIES / layout, node)["rails"]}
    found = stanzas(layout, node, RAILS, "ethernets")
    assert list(found) == list(expected)
    for netdev, rail in expected.items():
        stanza = found[netdev]
        addresses = [rail[key] for key in ("address", "address6") if rail[key] is not None]
        assert stanza.pop("addresses") == addresses
        assert stanza.pop("mtu") == rail["mtu"]
        said = [
            (route.pop("to"), route.pop("via", None), route.pop("scope", None), route.pop("table", None))
            for route in stanza["routes"]
        ]
        assert len(said) == len(set(said))
        assert set(said) == ways(rail)
        assert not any(to == "default" and table is None for to, _via, _scope, table in said)
        assert not any(stanza.pop("routes"))
        sources = [f"{text.split('/')[0]}/{128 if ':' in text else 32}" for text in addresses]
        table = rail["table"]
        assert stanza.pop("routing-policy") == [
            {"from": source, "table": table, "priority": table} for source in sources
        ]
        if rail["ipoib_mode"] is not None:
            assert stanza.pop("infiniband-mode") == rail["ipoib_mode"]
        assert stanza == {
            "dhcp4": False, "dhcp6": False, "accept-ra": False, "link-local": ["ipv6"], "optional": True,
        }  # fmt: skip


def test_the_storage_vlan_lies_on_its_port_and_the_way_in_is_not_touched():
    # gpu1: network + 10 + 1; the VLAN's name is the port's with the id, 12 of the 15 characters there are.
    vlans = stanzas("three-networks", "gpu1", NETWORKS, "vlans")
    assert list(vlans) == ["ens2f0np0.90"]
    vlan = vlans["ens2f0np0.90"]
    assert (vlan["id"], vlan["link"], vlan["mtu"]) == (90, "ens2f0np0", 9000)
    assert vlan["addresses"] == ["10.90.0.11/24"]
    ethernets = stanzas("three-networks", "gpu1", NETWORKS, "ethernets")
    assert list(ethernets) == ["ens2f0np0"]
    # A tagged frame of 9000 bytes does not pass a port of 1500.
    assert ethernets["ens2f0np0"]["mtu"] == 9000
    assert "addresses" not in ethernets["ens2f0np0"]
    for file in (RAILS, NETWORKS):
        text = golden("three-networks", "gpu1", file)
        assert "eno1" not in text
        assert "172.16." not in text


@needs_netplan
@pytest.mark.parametrize(("layout", "node", "files"), GOLDENS)
def test_netplan_takes_the_files(layout, node, files, tmp_path):
    made = generate(tmp_path, {f"/etc/netplan/{file}": golden(layout, node, file) for file in files})
    for rail in expected_plan.node_of(INVENTORIES / layout, node)["rails"]:
        text = made[f"10-netplan-{rail['netdev']}.network"]
        assert f"MTUBytes={rail['mtu']}" in text
        assert f"Address={rail['address']}" in text
        assert f"From={rail['address'].split('/')[0]}/32" in text
        assert text.count(f"Table={rail['table']}") == len(
            [way for way in ways(rail) if way[3] is not None]
        ) + sum(rail[key] is not None for key in ("address", "address6"))
