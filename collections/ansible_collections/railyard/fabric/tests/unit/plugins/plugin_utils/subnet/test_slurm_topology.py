# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Slurm's topology files: forms from topology.conf(5) and topology.yaml(5), sizes from their rules."""

from __future__ import annotations

import pytest
import yaml
from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import (
    Device,
    Port,
    PortKey,
    Reading,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet import slurm_topology as slurm
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Coverage, Judgement, Unit
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.rail_groups import find_groups

NODES = tuple(f"gpu{number:02}" for number in range(1, 33))
_COVERAGE = Coverage(0, 0, 0, 0, 0, 0, 0, None, None, None)


def judged(*units: Unit, tiers: dict[str, int] | None = None, is_tree: bool = True) -> Judgement:
    return Judgement(
        (), tiers or {}, is_tree, (), units, {}, {}, (), _COVERAGE, 0
    )  # fmt: skip


TWO_UNITS = judged(Unit("su1", NODES[:16], ("a", "b")), Unit("su2", NODES[16:], ("c", "d")))


def selected(
    *judgements: Judgement, nodes: tuple[str, ...] = NODES, slurm_nodes: tuple[str, ...] | None = None
):
    return slurm.select_nodes(find_groups(judgements, nodes), slurm_nodes)


def lines(text: str) -> list[str]:
    first, *rest = text.splitlines()
    assert first == slurm.MARK
    return rest


def test_leaves_with_the_same_nodes_are_one_switch_below_the_core() -> None:
    """The design's example, which slurmctld 22.05 takes without a warning."""
    assert lines(slurm.write_tree(selected(TWO_UNITS))) == [
        "SwitchName=su1 Nodes=gpu[01-16]",
        "SwitchName=su2 Nodes=gpu[17-32]",
        "SwitchName=core Switches=su[1-2]",
    ]


def test_a_node_without_a_link_is_unlinked_and_reachable() -> None:
    """Without it, slurmctld warns that switches lack access to 1 nodes."""
    groups = selected(judged(Unit("su1", NODES[:3], ("a",))), nodes=NODES[:4])
    assert lines(slurm.write_tree(groups)) == [
        "SwitchName=su1 Nodes=gpu[01-03]",
        "SwitchName=unlinked Nodes=gpu04",
        "SwitchName=core Switches=su1,unlinked",
    ]


def test_nodes_of_slurm_without_infiniband_are_unlinked() -> None:
    groups = selected(TWO_UNITS, slurm_nodes=("login1", *NODES))
    assert groups.unlinked == ("login1",)


def test_a_node_that_slurm_does_not_have_is_refused() -> None:
    """`slurmctld` ends with `lookup failure` on such a file."""
    with pytest.raises(slurm.TopologyError, match="Slurm does not have gpu32"):
        selected(TWO_UNITS, slurm_nodes=NODES[:-1])


def test_a_name_with_its_domain_is_slurms_short_name() -> None:
    nodes = ("gpu01.site.example", "gpu02.site.example")
    groups = selected(judged(Unit("su1", nodes, ("a",))), nodes=nodes, slurm_nodes=("gpu01", "gpu02"))
    assert groups.groups[0].nodes == ("gpu01", "gpu02")


def test_a_name_that_slurm_would_read_otherwise_is_refused() -> None:
    nodes = ("gpu01 Nodes=x",)
    with pytest.raises(slurm.TopologyError, match="cannot be written into Slurm's file"):
        selected(judged(Unit("su1", nodes, ("a",))), nodes=nodes)


def test_no_link_at_all_is_refused() -> None:
    with pytest.raises(slurm.TopologyError, match="no node has a link"):
        selected(judged(), nodes=NODES)


@pytest.mark.parametrize("name", ["core", "unlinked", "", "a b", "x" * 65])
def test_unit_names_that_slurm_or_we_use_otherwise_are_numbered(name: str) -> None:
    groups = selected(judged(Unit(name, NODES, ("a",))))
    assert groups.groups[0].name in ("su1", "a-b", "x" * 64)


def test_a_node_that_lost_a_link_stays_in_its_group() -> None:
    lame = judged(Unit("su1", NODES[:15], ("a", "b")), Unit("su2", NODES[15:16], ("a",)))
    assert [one.nodes for one in selected(lame, nodes=NODES[:16]).groups] == [NODES[:16]]


def test_rails_that_are_subnets_of_their_own_make_one_group() -> None:
    rails = [judged(Unit("su1", NODES, (leaf,))) for leaf in ("a", "b")]
    groups = selected(*rails)
    assert [(one.name, one.nodes) for one in groups.groups] == [("su1", NODES)]


def test_nodes_apart_in_one_of_two_subnets_are_two_groups() -> None:
    apart = judged(Unit("su1", NODES[:16], ("a",)), Unit("su2", NODES[16:], ("b",)))
    together = judged(Unit("su1", NODES, ("x",)))
    assert [one.nodes for one in selected(together, apart).groups] == [NODES[:16], NODES[16:]]


def test_leaves_of_two_subnets_are_never_one() -> None:
    """Two subnets may have equal GUIDs, and a group in both is named by neither."""
    rails = [judged(Unit("alpha", NODES[:1], ("a",))), judged(Unit("beta", NODES[1:2], ("a",)))]
    groups = selected(*rails, nodes=NODES[:2])
    assert [(one.name, one.nodes) for one in groups.groups] == [("su1", NODES[:1]), ("su2", NODES[1:2])]


def test_blocks_are_nvlink_domains_else_rail_groups() -> None:
    domains = {node: "rack1" if node < "gpu05" else "rack2" for node in NODES[:8]}
    blocks = slurm.group_by_nvlink(selected(TWO_UNITS), domains)
    assert [(one.name, slurm.fold_hosts(one.nodes)) for one in blocks.groups] == [
        ("nvl-rack1", "gpu[01-04]"),
        ("nvl-rack2", "gpu[05-08]"),
        ("su1", "gpu[09-16]"),
        ("su2", "gpu[17-32]"),
    ]


def blocks_of(*sizes: int) -> slurm.Groups:
    made = (slurm.Group(f"b{n}", tuple(f"n{n}x{i}" for i in range(size))) for n, size in enumerate(sizes, 1))
    return slurm.Groups(tuple(made), ())


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [
        # topology.conf(5): each block has at least the first size, further ones are it times a power of two.
        ((18,), [18]),
        ((18, 18), [18, 36]),
        ((32, 32, 32, 32), [32, 64, 128]),
        ((16, 15, 16), [15, 30]),
    ],
)
def test_block_sizes(sizes: tuple[int, ...], expected: list[int]) -> None:
    assert slurm.block_sizes(blocks_of(*sizes)) == expected


def test_block_file() -> None:
    assert lines(slurm.write_block(selected(TWO_UNITS))) == [
        "BlockName=su1 Nodes=gpu[01-16]",
        "BlockName=su2 Nodes=gpu[17-32]",
        "BlockSizes=16,32",
    ]


def test_yaml_has_both_topologies_and_one_default() -> None:
    """Keys as in topology.yaml(5)'s example."""
    groups = selected(TWO_UNITS, slurm_nodes=(*NODES, "login1"))
    assert yaml.safe_load(slurm.write_yaml(groups, groups)) == [
        {
            "topology": "tree",
            "cluster_default": True,
            "tree": {
                "switches": [
                    {"switch": "core", "children": "su[1-2],unlinked"},
                    {"switch": "su1", "nodes": "gpu[01-16]"},
                    {"switch": "su2", "nodes": "gpu[17-32]"},
                    {"switch": "unlinked", "nodes": "login1"},
                ]
            },
        },
        {
            "topology": "block",
            "cluster_default": False,
            "block": {
                "block_sizes": [16, 32],
                "blocks": [
                    {"block": "su1", "nodes": "gpu[01-16]"},
                    {"block": "su2", "nodes": "gpu[17-32]"},
                ],
            },
        },
    ]


def test_yaml_of_a_fabric_that_is_no_tree_has_blocks_alone() -> None:
    made = yaml.safe_load(slurm.write_yaml(None, selected(TWO_UNITS)))
    assert [(one["topology"], one["cluster_default"]) for one in made] == [("block", True)]


def test_names_that_yaml_reads_as_numbers_stay_names() -> None:
    groups = selected(judged(Unit("1", ("01",), ("a",))), nodes=("01",))
    made = yaml.safe_load(slurm.write_yaml(groups, groups))
    assert made[0]["tree"]["switches"] == [
        {"switch": "core", "children": "1"},
        {"switch": "1", "nodes": "01"},
    ]
    assert made[1]["block"]["blocks"] == [{"block": "1", "nodes": "01"}]


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        # Each right side was given to `scontrol show hostnames` of Slurm 22.05.8, which printed the left one.
        (("gpu09", "gpu10", "gpu11", "gpu100", "gpu101"), "gpu[09-11,100-101]"),
        (("rack1node1", "rack2node1", "rack2node3"), "rack1node1,rack2node[1,3]"),
        (("gpu01", "x1", "gpu02", "gpu03", "x2"), "gpu[01-03],x[1-2]"),
        (("gpu9", "gpu10", "gpu11"), "gpu[9,10-11]"),
        (("login", "gpu1"), "gpu1,login"),
        (("gpu", "gpu1", "gpu2"), "gpu,gpu[1-2]"),
        (("a-ib", "b-ib"), "a-ib,b-ib"),
    ],
)
def test_names_fold_as_slurm_reads_them(names: tuple[str, ...], folded: str) -> None:
    assert slurm.fold_hosts(names) == folded


def test_a_fabric_that_is_no_tree_is_refused_with_the_link() -> None:
    """A dragonfly's groups are joined within a tier."""
    ports = {("0xa", 9): ("0xb", 9), ("0xb", 9): ("0xa", 9)}
    devices = {
        guid: Device(guid, "switch", guid, {9: Port(PortKey(guid, 9), peer=PortKey(*ports[guid, 9]))})
        for guid in ("0xa", "0xb")
    }
    reading = Reading(0.0, None, None, None, devices)
    judgement = judged(tiers={"0xa": 0, "0xb": 0}, is_tree=False)._replace(switch_names={"0xa": "leaf-a"})
    with pytest.raises(
        slurm.TopologyError, match=r"leaf-a \(0xa\) port 9 and 0xb \(0xb\), of tier 0, are joined"
    ):
        slurm.refuse_tree(reading, judgement)
    slurm.refuse_tree(reading, judgement._replace(is_tree=True))
