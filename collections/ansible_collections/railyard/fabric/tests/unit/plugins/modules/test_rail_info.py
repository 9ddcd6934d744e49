# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The module rail_info: one row, the shape that docs/schema promises, nothing changed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from ansible_collections.railyard.fabric.plugins.module_utils.bounded import Ended, ToolError
from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import TOOL_VERSIONS
from ansible_collections.railyard.fabric.plugins.module_utils.facts import node
from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import Reader
from ansible_collections.railyard.fabric.plugins.modules import rail_info
from support.nodes.sysfs_tree import (
    Tree,
    dual_port_mlx4,
)

SCHEMA = Path(__file__).resolve().parents[8] / "docs" / "schema" / "facts.schema.json"


def collect(tree: Tree, netdevs: list[str] | None = None) -> dict[str, Any]:
    said = {"ip": tree.ip_json(), "iperf3": "iperf 3.12 (cJSON 1.7.15)\n"}
    return node.collect(tree.reader(), lambda argv: said.get(argv[0]), netdevs, ask_optics=no_program)


def no_program(argv: Sequence[str]) -> Ended:
    raise ToolError(f"{argv[0]}: not found", absent=True)


def validate(row: dict[str, Any]) -> None:
    if not SCHEMA.is_file():
        pytest.skip("docs/schema is not part of the collection; this runs in the checkout")
    jsonschema.validate({**row, "node": "gpuserver1"}, json.loads(SCHEMA.read_text()))


def test_row_of_a_complete_node_follows_the_schema(tmp_path):
    row = collect(dual_port_mlx4(tmp_path))
    validate(row)
    assert [one["netdev"] for one in row["netdevs"]] == ["enp5s0", "ens6", "ens6d1"]
    assert [one["hca"] for one in row["netdevs"]] == [None, "mlx4_0:1", "mlx4_0:2"]
    assert row["tools"] == {**dict.fromkeys(TOOL_VERSIONS), "iperf3": "3.12"}
    assert row["warnings"] == []


def test_counters_of_qos_are_listed_with_the_netdev_of_a_card_alone(tmp_path, monkeypatch):
    tree = dual_port_mlx4(tmp_path)
    tree.netdev("veth0", ip={"linkinfo": {"info_kind": "veth"}})
    tree.write("sys/class/infiniband/mlx4_0/ports/1/hw_counters/np_cnp_sent", 12)
    monkeypatch.setattr(Reader, "live", True)
    monkeypatch.setattr(node.ethtool, "stats", lambda netdev: {"rx_prio3_pause": len(netdev), "rx_bytes": 1})
    row = collect(tree)
    validate(row)
    assert {one["netdev"]: one["qos_counters"] for one in row["netdevs"]} == {
        "enp5s0": {"rx_prio3_pause": 6},
        "ens6": {"rx_prio3_pause": 4, "np_cnp_sent": 12},
        "ens6d1": {"rx_prio3_pause": 6},
        "veth0": {},
    }


def test_row_of_an_empty_node_follows_the_schema_too(tmp_path):
    row = collect(Tree(tmp_path))
    validate(row)
    assert (row["netdevs"], row["hcas"]) == ([], [])


def test_row_of_an_infiniband_port_follows_the_schema_with_all_values_known(tmp_path):
    tree = Tree(tmp_path)
    card = tree.pci("0000:1b:00.0", "mlx5_core")
    port = tree.port("mlx5_4", 1, card, "InfiniBand", rate="400 Gb/sec (4X NDR)", lid="0x2a", sm_lid="0x1")
    tree.gid(port, 0, "fe80:0000:0000:0000:a088:c203:00ab:cdef", "IB/RoCE v1", None)
    tree.write(f"{port}/pkeys/0", "0x7fff")
    tree.write("sys/class/infiniband/mlx5_4/node_type", "1: CA")
    tree.write("sys/class/infiniband/mlx5_4/hca_type", "MT4129")
    row = collect(tree)
    row["hcas"][0].update(active_mtu_bytes=4096, max_mtu_bytes=4096, dpu_mode="nic")
    validate(row)
    assert (row["hcas"][0]["width"], row["hcas"][0]["pkeys"]) == ("4X", ["0x7fff"])


def test_only_the_requested_netdevs(tmp_path):
    row = collect(dual_port_mlx4(tmp_path), ["ens6d1", "ens9"])
    assert [one["netdev"] for one in row["netdevs"]] == ["ens6d1"]
    assert row["warnings"] == ["netdev ens9: there is none on this node"]


def documented(contains: dict[str, Any]) -> dict[str, Any]:
    """Return the key tree of a RETURN block."""
    return {
        key: documented(value["contains"]) if "contains" in value else None for key, value in contains.items()
    }


def test_every_returned_key_is_documented(tmp_path):
    row = collect(dual_port_mlx4(tmp_path))
    keys = documented(yaml.safe_load(rail_info.RETURN)["rail_info"]["contains"])
    assert set(keys) == set(row)
    assert set(keys["netdevs"]) == set(row["netdevs"][0])
    assert set(keys["hcas"]) == set(row["hcas"][0])
    assert set(keys["hcas"]["gids"]) == set(row["hcas"][0]["gids"][0])


def test_reading_changes_no_file(tmp_path):
    tree = dual_port_mlx4(tmp_path)

    def state() -> dict[str, Any]:
        return {str(path): path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}

    before = state()
    collect(tree)
    assert state() == before
