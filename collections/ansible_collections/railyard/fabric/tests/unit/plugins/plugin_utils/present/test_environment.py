# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a run was measured on: equal nodes are one line, differences first, silent nodes are reported."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.plugin_utils.present import environment

NODES = [f"gpu{number}" for number in range(1, 9)]


def facts(node: str, **changes):
    hca = {"hca": "mlx5_0:1", "board_id": "MT_0838", "hca_type": "MT4129", "driver": "mlx5_core"}
    return {
        "node": node,
        "os": {"id": "ubuntu", "version": "24.04"},
        "kernel": "6.8.0",
        "python": "3.12.3",
        "tools": {"iperf3": "3.16"},
        "netdevs": [{"netdev": name, "driver": "mlx5_core", "mtu_bytes": 9000} for name in ("ens1", "ens2")],
        "hcas": [{**hca, "firmware": changes.pop("firmware", "28.39.8002")}],
        **changes,
    }


def describe(rows, nodes=NODES):
    return environment.describe_nodes({"nodes": dict.fromkeys(nodes)}, rows)


def test_alike_nodes_are_one_line_each_property():
    found = describe([facts(node) for node in NODES])
    assert {len(one.values) for one in found} == {1}
    assert not any(one.differs for one in found)
    assert {one.name: one.values[0] for one in found}["netdevs"] == (
        "ens1, ens2: mlx5_core, MTU 9000 bytes",
        "all nodes",
    )


def test_what_differs_comes_first_with_its_nodes():
    rows = [facts(node) for node in NODES]
    rows[2] = facts("gpu3", firmware="28.36.2024", tools={"iperf3": None})
    found = describe(rows)
    assert [one.name for one in found if one.differs] == [one.name for one in found][:2] == ["iperf3", "HCAs"]
    assert [nodes for _value, nodes in found[1].values] == ["gpu[1-2,4-8] (7 nodes)", "gpu3"]
    assert "firmware 28.36.2024" in found[1].values[1][0]
    assert found[0].values[1] == ("not installed", "gpu3")
    findings = environment.findings(found)
    assert [one.split(":")[0] for one in findings] == [
        "the nodes differ in iperf3",
        "the nodes differ in HCAs",
    ]
    assert findings[0].endswith("3.16 on gpu[1-2,4-8] (7 nodes); not installed on gpu3")


def test_a_silent_node_is_reported_once_and_differs_in_nothing():
    found = describe([facts(node) for node in NODES[:-1]])
    assert found[0].values == (("the node did not answer", "gpu8"),)
    assert not any(one.differs for one in found)
    assert found[1].values[0][1] == "all others"


def test_what_every_node_has_otherwise_is_cut_and_counted():
    nodes = [f"n{number:03d}" for number in range(100)]
    [kernel] = [
        one for one in describe([facts(node, kernel=node) for node in nodes], nodes) if one.name == "kernel"
    ]
    assert (len(kernel.values), kernel.left_out) == (12, 88)


def test_gpus_are_reported_with_their_driver_and_absent_ones_are_not():
    rows = [
        {**facts("gpu1"), "gpus": {"pci": ["a", "b"], "driver": "550.54.15", "rows": [{"name": "H100"}] * 2}}
    ]
    rows += [{**facts("gpu2"), "gpus": {"pci": ["a"], "driver": None, "rows": []}}, facts("gpu3")]
    [gpus] = [one for one in describe(rows, ["gpu1", "gpu2", "gpu3"]) if one.name == "GPUs"]
    assert gpus.values == (
        ("2 H100, driver 550.54.15", "gpu1"), ("1 unknown, driver not loaded", "gpu2"), ("unknown", "gpu3"),
    )  # fmt: skip


def test_a_version_below_its_minimum_is_reported_with_its_nodes_and_one_that_is_not_known_is_not():
    rows = [facts(node, gpus={"driver": "550.54.15"}) for node in NODES]
    rows[2] = facts("gpu3", firmware="28.39.1002")
    below = [one for one in describe(rows) if "below" in one.name]
    assert [one.name.split(" (")[0] for one in below] == ["versions below their minimum"]
    ((text, nodes),) = below[0].values
    assert nodes == "gpu3"
    assert "28.39.1002 is below 28.39.8002" in text
    assert [one for one in environment.findings(describe(rows)) if "below" in one] == [
        f"{below[0].name}: {text} on gpu3"
    ]
    assert not [one for one in describe([facts(node) for node in NODES]) if "below" in one.name]
