# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What an inventory may say of an InfiniBand subnet, and what is wrong with the rest."""

from __future__ import annotations

import json

import jsonschema
import pytest
import yaml
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import plan
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Inventory
from railyard.base import paths
from support.inventories.fabric_cases import SOUND, changed, node, problems_of

IB = {
    "transport": "infiniband",
    "rails": [
        {"name": "rail0", "pci": "0000:18:00.0", "rate_gbps": 400, "leaf": "leaf1"},
        {"name": "rail1", "pci": "0000:40:00.0", "rate_gbps": 400, "leaf": "leaf2"},
    ],
    "frontend": {"netdev": "bond0"},
}
GUIDS = {"leaf1": {"guid": "506b4b03:005c2740"}, "leaf2": {"guid": "0x506B4B03005C2780", "uplink_gbps": 6400}}
LIMITED = {"members": "all", "membership": "limited"}
OPEN = {0x7FFF: {"name": "Default", "members": "all"}}


def problems(names=("gpu1", "gpu2", "gpu3"), other=(), **keys):
    nodes = [node(name, fabric) for fabric in [changed(IB, **keys)] for name in names]
    return problems_of([*nodes, *other])


def one(**keys):
    found = problems(**keys)
    assert len(found) == 1, [problem.text() for problem in found]
    assert found[0].fix
    return found[0].file, found[0].rail, found[0].message


@pytest.mark.parametrize(
    "keys",
    [
        {"leaves": GUIDS},
        # YAML reads 0x506b4b03005c2740 without quotes as this number.
        {"leaves": {"leaf1": {"guid": 5794852862489503552}}},
        {"partitions": OPEN},
        {"partitions": {"0x7fff": {"members": {"all": "limited", "gpu1": None, "gpu2": "both"}}}},
        {"partitions": {0x7FFF: LIMITED, 1: {"members": ["gpu1", "gpu2"]}}, "names": ("gpu1", "gpu2")},
        {"partitions": {0x10: {"members": {"0x0002c903000e0b72": "full", "all": "limited"}, "ipoib": False},
                        **OPEN}},
        {"partitions": None, "subnet_managers": None, "read_from": None},
        {"subnet_managers": ["gpu1", "gpu2"]},
        {"subnet_managers": ["switch"]},
        {"read_from": "gpu3"},
        {"read_from": {"rail0": "gpu1", "rail1": "gpu2"}},
    ],
)  # fmt: skip
def test_what_may_be_declared(keys):
    assert [problem.text() for problem in problems(**keys)] == []


@pytest.mark.parametrize(
    ("keys", "file", "part"),
    [
        ({"leaves": {"leaf1": {"guid": "506b4b03005c274"}}}, "fabric.leaves.leaf1.guid", "not a GUID"),
        ({"leaves": {"leaf1": {"guid": 0}}}, "fabric.leaves.leaf1.guid", "not a GUID"),
        ({"leaves": {"leaf1": {"guid": True}}}, "fabric.leaves.leaf1.guid", "not a GUID"),
        (
            {"leaves": {"leaf1": {"guid": "0x1"}, "leaf2": {"guid": "0000:0000:0000:0001"}}},
            "fabric.leaves.leaf2.guid",
            "0x0000000000000001 is also that of leaf leaf1",
        ),
        ({"partitions": {}}, "fabric.partitions", "not a mapping of P_Keys"),
        ({"partitions": [1]}, "fabric.partitions", "not a mapping of P_Keys"),
        ({"partitions": {0x8001: {"members": "all"}}}, "fabric.partitions.0x8001", "the partition is 0x0001"),
        ({"partitions": {0: {"members": "all"}}}, "fabric.partitions.0x0000", "not between"),
        ({"partitions": {0x8000: {"members": "all"}}}, "fabric.partitions.0x8000", "not between"),
        ({"partitions": {0x1FFFF: {"members": "all"}}}, "fabric.partitions.0x1ffff", "not between"),
        ({"partitions": {-1: {"members": "all"}}}, "fabric.partitions.-1", "not between"),
        ({"partitions": {"compute": {"members": "all"}}}, "fabric.partitions.compute", "no P_Key"),
        ({"partitions": {True: {"members": "all"}}}, "fabric.partitions.True", "no P_Key"),
        (
            {"partitions": {1: {"members": "all"}, "0x0001": {"members": "all"}}},
            "fabric.partitions.0x0001",
            "there twice",
        ),
        ({"partitions": {1: {"members": ["{{ node }}"]}}}, "fabric.partitions.1.members[0]", "Jinja"),
        ({"subnet_managers": "gpu1"}, "fabric.subnet_managers", "not a list"),
        ({"subnet_managers": []}, "fabric.subnet_managers", "not a list"),
        ({"subnet_managers": ["gpu1", "gpu1"]}, "fabric.subnet_managers", "duplicate"),
        ({"subnet_managers": ["gpu9"]}, "fabric.subnet_managers[0]", "no node gpu9"),
        ({"read_from": "gpu9"}, "fabric.read_from", "no node gpu9"),
        ({"read_from": {}}, "fabric.read_from", "names no rail"),
        ({"read_from": ["gpu1"]}, "fabric.read_from", "not text"),
    ],
)
def test_what_is_wrong_is_named(keys, file, part):
    found, rail, message = one(**keys)
    assert (found, rail) == (file, None)
    assert part in message


@pytest.mark.parametrize(
    ("partition", "place", "part"),
    [
        ("all", "", "not a mapping"),
        ({}, ".members", "names no member"),
        ({"members": []}, ".members", "names no member"),
        ({"members": "gpu1"}, ".members", "names no member"),
        ({"members": [7.5]}, ".members.7.5", "neither a node"),
        ({"members": ["gpu1", "gpu1"]}, ".members.gpu1", "gpu1 is there twice"),
        ({"members": {"gpu1": "admin"}}, ".members.gpu1", "no membership"),
        ({"members": ["gpu1", "gpu7"]}, ".members.gpu7", "no node gpu7"),
        ({"members": "all", "membership": "half"}, ".membership", "no membership"),
        ({"members": "all", "name": "a:b"}, ".name", "no name of a partition"),
        ({"members": "all", "name": "a" * 32}, ".name", "no name of a partition"),
        ({"members": "all", "ipoib": 1}, ".ipoib", "neither"),
        ({"members": "all", "mtu": 5}, ".mtu", "unknown key"),
    ],
)
def test_what_is_wrong_of_a_partition_is_named(partition, place, part):
    found, rail, message = one(partitions={1: partition})
    assert (found, rail) == (f"fabric.partitions.0x0001{place}", None)
    assert part in message


def test_read_from_names_the_rail():
    assert one(read_from={"rail0": "gpu1", "rail7": "gpu1"})[:2] == ("fabric.read_from.rail7", "rail7")
    assert one(read_from={"rail1": "gpu4"}) == (
        "fabric.read_from.rail1", "rail1", "the inventory has no node gpu4 in group gpu_nodes"
    )  # fmt: skip


def test_a_node_that_lacks_the_rail_cannot_read_it():
    nodes = [
        node("gpu1", fabric, rail_overrides=overrides)
        for fabric in [changed(IB, read_from={"rail1": "gpu1"})]
        for overrides in [{"rail1": "absent"}]
    ]
    nodes.append(node("gpu2", nodes[0].fabric))
    [problem] = problems_of(nodes)
    assert (problem.file, problem.rail) == ("fabric.read_from.rail1", "rail1")
    assert "gpu1 lacks this rail" in problem.message


@pytest.mark.parametrize(
    ("key", "value"), [("partitions", OPEN), ("subnet_managers", ["gpu1"]), ("read_from", "gpu1")]
)
@pytest.mark.parametrize("transport", ["roce", "tcp"])
def test_other_transports_have_no_subnet(transport, key, value):
    nodes = [node("gpu1", changed(SOUND, **{"transport": transport, key: value}))]
    [problem] = problems_of(nodes)
    assert problem.file == f"fabric.{key}"
    assert f"the transport is {transport}" in problem.message
    leaf = changed(SOUND, transport=transport, rails__0__leaf="a", leaves={"a": {"guid": "0x1"}})
    [problem] = problems_of([node("gpu1", leaf)])
    assert problem.file == "fabric.leaves.a.guid"
    assert f"the transport is {transport}" in problem.message


def test_a_node_of_another_transport_is_no_member():
    others = [node("web1", changed(SOUND, transport="tcp"))]
    found = problems(other=others, partitions={1: {"members": ["gpu1", "web1"]}})
    assert [problem.file for problem in found] == ["fabric.partitions.0x0001.members.web1"]
    assert "without InfiniBand" in found[0].message


def test_a_name_that_is_nearly_a_nodes_is_guessed():
    [problem] = problems(partitions={1: {"members": ["gpu_1"]}})
    assert "did you mean gpu1?" in problem.fix


@pytest.mark.parametrize(
    "partitions",
    [
        {1: {"members": "all", "membership": "limited"}},
        {1: {"members": {"gpu1": "limited", "gpu2": "limited"}}, **OPEN},
    ],
)
def test_a_partition_of_limited_members_alone_connects_no_one(partitions):
    file, _rail, message = one(partitions=partitions)
    assert file == "fabric.partitions.0x0001.members"
    assert "no two of them can communicate" in message


@pytest.mark.parametrize(
    ("partitions", "pair"),
    [
        ({0x7FFF: {"members": "all", "membership": "limited"}}, "gpu1 and gpu3"),
        ({0x7FFF: {"members": {"all": "limited", "gpu1": "full"}}}, "gpu2 and gpu3"),
        (
            {0x7FFF: {"members": "all", "membership": "limited"}, 1: {"members": {"gpu3": "full"}}},
            "gpu1 and gpu2",
        ),
        # Both reach gpu3, but not each other.
        (
            {
                0x7FFF: {"members": {"all": "limited", "gpu3": "full"}},
                1: {"members": {"gpu1": "limited", "gpu3": "both"}},
            },
            "gpu1 and gpu2",
        ),
    ],
)
def test_nodes_that_are_limited_wherever_they_meet_are_named(partitions, pair):
    file, _rail, message = one(partitions=partitions)
    assert file == "fabric.partitions.0x7fff.members"
    assert message.startswith(f"{pair} (")


def test_tenants_that_share_nothing_are_meant_so():
    partitions = {
        0x7FFF: {"members": {"0x0002c903000e0b72": "full"}},
        1: {"members": ["gpu1", "gpu2"]},
        2: {"members": ["gpu3"]},
    }
    assert problems(partitions=partitions) == []


def test_the_examples_commented_block_is_right():
    file = paths.repo_root() / "inventories/dgx-h100-infiniband/group_vars/all/fabric.yml"
    lines = file.read_text().splitlines()
    first = lines.index("  # leaves:")
    last = lines.index("  # read_from: dgx01")
    lines[first : last + 1] = [line.replace("# ", "", 1) for line in lines[first : last + 1]]
    fabric = yaml.safe_load("\n".join(lines))["fabric"]
    assert {"leaves", "partitions", "subnet_managers", "read_from"} < set(fabric)
    assert problems_of([node("dgx01", fabric), node("dgx02", fabric)]) == []


def test_groups_of_nodes_share_one_subnet():
    mine = node("gpu1", changed(IB, subnet_managers=["gpu1"]))
    theirs = node("gpu2", changed(IB, subnet_managers=["gpu2"], rails__0__rate_gbps=200))
    [problem] = problems_of([mine, theirs])
    assert (problem.file, problem.host) == ("fabric.subnet_managers", "gpu2")


def test_the_plan_has_it_in_one_form():
    fabric = changed(
        IB,
        leaves=GUIDS,
        partitions={"0x0010": {"name": "storage", "members": {"all": "limited", "506b4b03:005c2740": None}}},
        subnet_managers=["switch"],
        read_from={"rail0": "gpu1"},
    )
    nodes = [node("gpu1", fabric), node("gpu2", fabric)]
    # Of all nodes: a limit leaves the subnet as it is.
    planned = plan.build_plan(Inventory("test", [], nodes, frozenset(["gpu2"])))
    assert list(planned["nodes"]) == ["gpu2"]
    assert planned["subnet"] == {
        "leaves": {
            "leaf1": {"guid": "0x506b4b03005c2740"},
            "leaf2": {"guid": "0x506b4b03005c2780", "uplink_gbps": 6400},
        },
        "partitions": {
            "0x0010": {
                "name": "storage",
                "members": {"all": "limited", "0x506b4b03005c2740": "full"},
                "ipoib": True,
            }
        },
        "subnet_managers": ["switch"],
        "read_from": {"rail0": "gpu1"},
    }
    schema = json.loads((paths.repo_root() / "docs" / "schema" / "plan.schema.json").read_text())
    jsonschema.validate(planned, schema)
    assert "subnet" not in plan.build_plan(Inventory("test", [], [node("gpu1", IB)], frozenset(["gpu1"])))
