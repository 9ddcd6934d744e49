"""What the lab's inventory takes from its topology."""

from __future__ import annotations

import configparser
import ipaddress
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from ansible.parsing.dataloader import DataLoader
from ansible.template import Templar, trust_as_template
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from railyard.base.paths import repo_root
from railyard.lab import inventory, topology


def containers(lab: topology.Topology) -> topology.Topology:
    nodes = tuple(replace(node, kind="container") for node in lab.nodes)
    return replace(lab, nodes=nodes, image=replace(lab.image, cached_packages=()))


def test_the_committed_fabric_is_what_the_default_topology_gives(lab: topology.Topology) -> None:
    assert (repo_root() / "inventories/lab/group_vars/all/fabric.yml").read_text() == inventory.content(lab)


LIMITS = repo_root() / "inventories/lab/group_vars/all/limits.yml"
# As they were before the speed was measured, and what they are in a lab whose nodes are 2.4 times slower.
FABRIC_LIMITS = {
    "rail_network_rollback_after_s": (180, 432),
    "rendezvous_timeout_s": (20, 48),
    "first_rendezvous_timeout_s": (90, 216),
    "lease_s": (180, 432),
}


@pytest.mark.parametrize("slow", [False, True])
def test_the_limits_of_a_lab_are_multiples_of_how_slow_its_nodes_are(
    lab: topology.Topology, slow: bool
) -> None:
    found = yaml.safe_load(inventory.content(lab, 2.4 if slow else 1.0) or "")
    assert found["railyard_time_factor"] == (2.4 if slow else 1)
    values = {**found, **found["fabric_policy"]}
    assert {name: values[name] for name in FABRIC_LIMITS} == {
        name: pair[slow] for name, pair in FABRIC_LIMITS.items()
    }
    policy.merge(found["fabric_policy"])


def test_a_quick_lab_has_a_policy_of_its_own_only_where_it_is_slow(lab: topology.Topology) -> None:
    usual = yaml.safe_load(inventory.content(containers(lab)) or "")
    assert "fabric_policy" not in usual
    assert usual["rail_network_rollback_after_s"] == 20
    slow = yaml.safe_load(inventory.content(containers(lab), 3) or "")
    assert slow["rail_network_rollback_after_s"] == 60
    waits = ("rendezvous_timeout_s", "first_rendezvous_timeout_s", "lease_s")
    assert slow["fabric_policy"] == {name: 3 * policy.DEFAULT[name] for name in waits}


@pytest.mark.parametrize(
    ("factor", "limits_s"), [(1, (10, 3, 300, 20, 900, 180)), (2.35, (24, 8, 705, 47, 2115, 423))]
)
def test_the_limits_of_ansible_and_the_roles_follow_too(factor: float, limits_s: tuple[int, ...]) -> None:
    variables = {**yaml.safe_load(LIMITS.read_text()), "railyard_time_factor": factor}
    values = {
        name: Templar(loader=DataLoader(), variables=variables).template(trust_as_template(str(text)))
        for name, text in variables.items()
    }
    alive = values.pop("ansible_ssh_args").split("ServerAliveCountMax=")[1]
    connect, lock, source, reboot, rails = (
        values[name]
        for name in (
            "ansible_ssh_timeout", "apt_packages_lock_timeout_s", "apt_source_timeout_s",
            "railyard_reboot_timeout_s", "railyard_reboot_rails_timeout_s",
        )
    )  # fmt: skip
    assert (connect, int(alive), lock, source, reboot, rails) == limits_s


def test_a_lab_of_the_usual_speed_has_the_limits_of_ansible_cfg() -> None:
    config = configparser.ConfigParser(interpolation=None)
    config.read(repo_root() / "ansible.cfg")
    written = yaml.safe_load(LIMITS.read_text())["ansible_ssh_args"]
    alive = written[: written.index("{{")] + "3"
    assert alive == config["ssh_connection"]["ssh_args"]
    assert config["defaults"]["timeout"] == "10"


def test_the_quick_lab_differs_by_its_kind_alone(lab: topology.Topology) -> None:
    quick = topology.load(topology.default_file().with_name("topology-container.yml"))
    assert quick == containers(lab)


def test_transport_follows_the_poorest_node(lab: topology.Topology) -> None:
    vms = yaml.safe_load(inventory.content(lab) or "")
    assert (vms["fabric"]["transport"], vms["fabric"]["node_class"]) == ("roce", "virtual")
    # Rails are bound by netdev; what their RDMA devices are called is the nodes' business.
    assert not [rail for rail in vms["fabric"]["rails"] if "hca" in rail]
    assert vms["rdma_stack_soft_roce_devices"] == [
        {"device": "rxe0", "netdev": "ens6"},
        {"device": "rxe1", "netdev": "ens6d1"},
    ]
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
    file = inventory.write(lab, 2.5)[-1]
    assert file == root / "checkout" / "inventories" / "lab" / "group_vars" / "gpu_nodes" / "generated.yml"
    assert file.read_text() == inventory.content(lab, 2.5)
    inventory.remove("lab")
    assert not file.parent.exists()
    inventory.remove("lab")
    bare = replace(lab, rails=(replace(lab.rails[0], subnet=None),))
    assert inventory.write(bare) == []
