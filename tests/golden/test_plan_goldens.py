"""Plans of whole inventories: v100-pair against its owner's notes, computed layouts against an oracle."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest
import yaml
from netaddr import IPNetwork
from railyard.base import paths
from railyard.plan import view

V100 = paths.repo_root() / "inventories" / "v100-pair"
SCHEMA = json.loads((paths.repo_root() / "docs" / "schema" / "plan.schema.json").read_text())

# Copied by hand from the notes: "Final Network Configuration", "Netplan Configuration", "Server Details".
NOTES = {
    "gpuserver1": {"management": "192.168.1.73", "ens6": "10.0.1.1/24", "ens6d1": "10.0.0.1/24"},
    "gpuserver2": {"management": "192.168.1.71", "ens6": "10.0.1.2/24", "ens6d1": "10.0.0.2/24"},
}
NOTES_MTU_BYTES = 9000
NOTES_RATE_GBPS = 40


def plan_of(folder: Path) -> dict:
    plan, problems = view.plan_or_problems([str(folder)])
    assert problems == []
    jsonschema.validate(plan, SCHEMA)
    return plan


def test_the_golden_is_what_the_notes_say():
    golden = json.loads((V100 / "expected" / "plan.json").read_text())
    assert list(golden["nodes"]) == list(NOTES)
    for name, node in golden["nodes"].items():
        assert node["ansible_host"] == NOTES[name]["management"]
        assert node["frontend"]["netdev"] == "enp5s0"
        assert {rail["netdev"]: rail["address"] for rail in node["rails"]} == {
            netdev: NOTES[name][netdev] for netdev in ("ens6", "ens6d1")
        }
        # What the node calls its RDMA devices is no part of the plan.
        assert {rail["hca"] for rail in node["rails"]} == {None}
        assert {rail["mtu"] for rail in node["rails"]} == {NOTES_MTU_BYTES}
        assert {rail["rate_gbps"] for rail in node["rails"]} == {NOTES_RATE_GBPS}


def write_inventory(folder: Path, fabric: dict, hosts: dict) -> Path:
    (folder / "group_vars" / "all").mkdir(parents=True)
    (folder / "group_vars" / "all" / "fabric.yml").write_text(yaml.safe_dump({"fabric": fabric}))
    (folder / "hosts.yml").write_text(yaml.safe_dump({"gpu_nodes": {"hosts": hosts}}, sort_keys=False))
    return folder


def oracle(fabric: dict, index: int, rail: int) -> dict:
    """Compute one rail of the computed form with netaddr: cut the supernet, count, take an end as gateway."""
    supernet = IPNetwork(fabric["supernet"])
    subnet = list(supernet.subnet(fabric["rail_prefix"], count=fabric["rail_count"]))[rail]
    hosts = (subnet.first + 1, subnet.last - (1 if subnet.version == 4 else 0))
    gateway = {"first": hosts[0], "last": hosts[1]}.get(fabric.get("gateway"))
    family = "" if subnet.version == 4 else "6"
    number = subnet.first + fabric.get("host_offset", 0) + index
    return {
        "name": f"rail{rail}",
        "netdev": fabric["netdev_pattern"].replace("{rail}", str(rail)),
        "subnet" + family: str(subnet),
        "address" + family: f"{type(subnet.ip)(number, subnet.version)}/{fabric['rail_prefix']}",
        "gateway" + family: None if gateway is None else str(type(subnet.ip)(gateway, subnet.version)),
        "mtu": fabric["mtu"],
    }


LAYOUTS = {
    "eight-rails-of-16": {"rail_count": 8, "supernet": "10.0.0.0/12", "rail_prefix": 16, "gateway": "last"},
    "cut-inside-an-octet": {
        "rail_count": 5,
        "supernet": "172.20.0.0/17",
        "rail_prefix": 22,
        "gateway": "none",
    },
    "small-with-offset": {
        "rail_count": 4,
        "supernet": "192.168.96.0/22",
        "rail_prefix": 24,
        "host_offset": 100,
        "gateway": "first",
    },
    "ipv6-of-64": {"rail_count": 8, "supernet": "fd12:3456:789a::/48", "rail_prefix": 64, "gateway": "last"},
    "ipv6-of-120-with-offset": {
        "rail_count": 3,
        "supernet": "fd00:0:0:ff00::/64",
        "rail_prefix": 120,
        "host_offset": 16,
        "gateway": "first",
    },
}


@pytest.mark.parametrize("layout", sorted(LAYOUTS))
def test_computed_layouts_agree_with_the_oracle(layout, tmp_path):
    fabric = {"transport": "roce", "mtu": 4200, "netdev_pattern": "ens{rail}np0", **LAYOUTS[layout]}
    indexes = {f"gpu{number:03d}": number for number in (1, 2, 7, 60, 127)}
    plan = plan_of(write_inventory(tmp_path / layout, fabric, dict.fromkeys(indexes)))
    assert list(plan["nodes"]) == list(indexes)
    for name, node in plan["nodes"].items():
        assert len(node["rails"]) == fabric["rail_count"]
        for rail, planned in enumerate(node["rails"]):
            expected = oracle(fabric, indexes[name], rail)
            assert {key: planned[key] for key in expected} == expected


def test_units_and_overrides_by_hand(tmp_path):
    fabric = {
        "transport": "infiniband",
        "mtu": 4092,
        "rails": [
            {
                "name": "a",
                "hca": "mlx5_0:1",
                "subnets": {"su1": "10.1.0.0/24", "su2": "10.2.0.0/24"},
                "gateway": "none",
                "leaf": "l0",
            },
            {"name": "b", "hca": "mlx5_1:1"},
        ],
    }
    hosts = {
        "x1": {"scalable_unit": "su1"},
        "y1": {
            "scalable_unit": "su2",
            "rail_overrides": {"a": {"address": "10.2.0.200/24", "hca": "mlx5_9:1"}},
        },
        "spare": {"scalable_unit": "su1", "node_index": 40},
    }
    plan = plan_of(write_inventory(tmp_path / "units", fabric, hosts))
    rows = {
        name: [(r["hca"], r["address"], r["leaf"]) for r in node["rails"]]
        for name, node in plan["nodes"].items()
    }
    assert rows == {
        "x1": [("mlx5_0:1", "10.1.0.1/24", "l0"), ("mlx5_1:1", None, None)],
        "y1": [("mlx5_9:1", "10.2.0.200/24", "l0"), ("mlx5_1:1", None, None)],
        "spare": [("mlx5_0:1", "10.1.0.40/24", "l0"), ("mlx5_1:1", None, None)],
    }
    assert plan["nodes"]["y1"]["rail_overrides"] == {"a": {"address": "10.2.0.200/24", "hca": "mlx5_9:1"}}
