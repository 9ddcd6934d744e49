"""What the lab's inventory takes from its topology."""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from railyard.base.paths import repo_root
from railyard.lab import inventory, topology


def containers(lab: topology.Topology) -> topology.Topology:
    nodes = tuple(replace(node, kind="container") for node in lab.nodes)
    return replace(lab, nodes=nodes, image=replace(lab.image, cached_packages=()))


def test_the_committed_fabric_is_what_the_default_topology_gives(lab: topology.Topology) -> None:
    assert (repo_root() / "inventories/lab/group_vars/all/fabric.yml").read_text() == inventory.content(lab)


def test_the_quick_lab_differs_by_its_kind_alone(lab: topology.Topology) -> None:
    quick = topology.load(topology.default_file().with_name("topology-container.yml"))
    assert quick == containers(lab)


def test_transport_follows_the_poorest_node(lab: topology.Topology) -> None:
    vms = yaml.safe_load(inventory.content(lab) or "")
    assert (vms["fabric"]["transport"], vms["fabric"]["node_class"]) == ("roce", "virtual")
    assert [rail["hca"] for rail in vms["fabric"]["rails"]] == ["rxe0:1", "rxe1:1"]
    assert vms["rdma_stack_provider"] == "soft_roce"
    mixed = replace(lab, nodes=(containers(lab).nodes[0], lab.nodes[1]))
    for poorer in (containers(lab), mixed):
        found = yaml.safe_load(inventory.content(poorer) or "")
        assert (found["fabric"]["transport"], found["fabric"]["node_class"]) == ("tcp", "container")
        assert not [rail for rail in found["fabric"]["rails"] if "hca" in rail]
        assert "rdma_stack_provider" not in found


def test_declared_rates_and_more_nodes_reach_the_inventory(lab: topology.Topology) -> None:
    third = replace(lab.nodes[0], name="gpuserver3", address=ipaddress.IPv4Address("198.18.0.3"))
    rails = (replace(lab.rails[0], rate_gbps=2.5), lab.rails[1])
    wanted = replace(lab, nodes=(*lab.nodes, third), rails=rails)
    fabric = yaml.safe_load(inventory.content(wanted) or "")["fabric"]
    assert fabric["cabling"] == "switched"
    assert [rail.get("rate_gbps") for rail in fabric["rails"]] == [2.5, None]


def test_only_the_built_in_lab_writes_into_the_inventory(
    root: Path, lab: topology.Topology, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inventory, "repo_root", lambda: root / "checkout")
    other = replace(lab, name="other")
    assert inventory.write(other)[-1] == root / "other" / "generated.yml"
    file = inventory.write(lab)[-1]
    assert file == root / "checkout" / "inventories" / "lab" / "group_vars" / "gpu_nodes" / "generated.yml"
    assert file.read_text() == inventory.content(lab)
    inventory.remove("lab")
    assert not file.parent.exists()
    inventory.remove("lab")
    bare = replace(lab, rails=(replace(lab.rails[0], subnet=None),))
    assert inventory.write(bare) == []
