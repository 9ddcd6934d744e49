# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each machine of the gallery as a node without inventory: ports, RDMA devices, who shares a wire."""

from __future__ import annotations

import functools
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.discover import node
from ansible_collections.railyard.fabric.plugins.module_utils.records import bare_node
from support.machines import pair

Row = dict[str, Any]
Read = Callable[..., Row]


@pytest.fixture(scope="module")
def read() -> Iterator[Read]:
    """Return what reads a machine's second node, which variants change."""
    memory = Path("/dev/shm")
    root = Path(tempfile.mkdtemp(prefix="railyard-discover-", dir=memory if memory.is_dir() else None))

    @functools.cache
    def reading(name: str, variant: str | None = None) -> Row:
        machine = pair.read(name)
        folder = root / name / (variant or "healthy")
        folder.mkdir(parents=True)
        one = list(pair.Pair(machine, folder, machine.variants.get(variant or "")).nodes.values())[1]
        with one.kernel.running():
            row = node.collect("second", one.reader(), lambda _at: None, one.run, one.ask)
        # What the controller lets in.
        return dict(bare_node.read(json.loads(json.dumps(row))))

    yield reading
    shutil.rmtree(root)


def hcas(row: Row) -> dict[str | None, str | None]:
    return {port["netdev"]: port["hca"] for port in row["ports"]}


@pytest.mark.parametrize("name", pair.names())
def test_each_rail_of_each_machine_is_a_port_with_its_rdma_device(read: Read, name: str) -> None:
    row, machine = read(name), pair.read(name)
    rails = list(pair.Pair(machine, Path()).plan["nodes"].values())[1]["rails"]
    for rail in rails:
        wanted = machine.expected.hcas.get(rail["name"])
        ports = [port for port in row["ports"] if rail["netdev"] in (port["netdev"], None)]
        assert wanted in {port["hca"] for port in ports}, rail
    assert row["facts"]["warnings"] == []
    assert row["idle_functions"] == []


def test_two_functions_of_a_dgx_spark_share_each_wire(read: Read) -> None:
    row = read("dgx-spark")
    assert hcas(row) == {
        "enP7s7": None,
        "enp1s0f0np0": "rocep1s0f0:1",
        "enp1s0f1np1": "rocep1s0f1:1",
        "enP2p1s0f0np0": "roceP2p1s0f0:1",
        "enP2p1s0f1np1": "roceP2p1s0f1:1",
    }
    wires: dict[str, set[str]] = {}
    for port in row["ports"]:
        if port["physical_port"]:
            wires.setdefault(port["physical_port"], set()).add(port["netdev"])
    cages = [{"enp1s0f0np0", "enP2p1s0f0np0"}, {"enp1s0f1np1", "enP2p1s0f1np1"}]
    assert sorted(map(sorted, wires.values())) == sorted(map(sorted, cages))
    assert {port["pci_id"] for port in row["ports"] if port["hca"]} == {"15b3:1021"}
    assert {port["firmware"] for port in row["ports"] if port["hca"]} == {"28.45.4028"}


def test_both_ports_of_a_connectx3_are_distinguished_on_one_function(read: Read) -> None:
    ports = {port["netdev"]: port for port in read("connectx3-40g")["ports"]}
    assert (ports["enp66s0"]["pci"], ports["enp66s0d1"]["pci"]) == ("0000:42:00.0", "0000:42:00.0")
    assert (ports["enp66s0"]["hca"], ports["enp66s0"]["dev_port"]) == ("rocep66s0:1", 0)
    assert (ports["enp66s0d1"]["hca"], ports["enp66s0d1"]["dev_port"]) == ("rocep66s0:2", 1)
    assert ports["eno1"]["hca"] is None


def test_a_port_that_was_left_in_infiniband_mode_is_listed_without_netdev(read: Read) -> None:
    row = read("connectx3-40g", "port_is_infiniband")
    assert hcas(row) == {"eno1": None, "enp66s0": "rocep66s0:1", None: "rocep66s0:2"}
    assert next(port["dev_port"] for port in row["ports"] if port["netdev"] is None) == 1


def test_the_ports_of_a_dgx_h100_have_the_devices_of_nvidias_table(read: Read) -> None:
    # User guide of DGX H100, text index 69683817861; OFED's numbers are not consecutive.
    assert hcas(read("dgx-h100")) == {
        "eno3": None,
        "ibp24s0": "mlx5_0:1",
        "ibp41s0f0": "mlx5_1:1",
        "enp41s0f1np1": "mlx5_2:1",
        "ibp64s0": "mlx5_3:1",
        "ibp79s0": "mlx5_4:1",
        "ibp94s0": "mlx5_5:1",
        "ibp154s0": "mlx5_6:1",
        "ibp170s0f0": "mlx5_7:1",
        "enp170s0f1np1": "mlx5_8:1",
        "ibp192s0": "mlx5_9:1",
        "ibp206s0": "mlx5_10:1",
        "ibp220s0": "mlx5_11:1",
        "ens6f0": "irdma0:1",
        "ens6f1": "irdma1:1",
    }


def test_a_switch_id_that_is_not_supported_is_no_warning_and_the_card_is_known_by_its_guid(
    read: Read,
) -> None:
    row = read("bluefield3-a100", "dpu_mode")
    port = next(port for port in row["ports"] if port["netdev"] == "ens7f1np1")
    assert port["physical_port"].endswith(" p1")
    assert "4a3b0003a1420c" not in port["physical_port"]
    assert row["facts"]["warnings"] == []


def test_efa_devices_are_ports_without_netdev(read: Read) -> None:
    row = read("aws-p5")
    efa = [port for port in row["ports"] if port["netdev"] is None]
    assert [port["hca"] for port in row["ports"] if port["netdev"]] == [None]
    assert len(efa) == 32
    assert {port["pci_id"] for port in efa} == {"1d0f:efa1"}
    assert {port["physical_port"] for port in efa} == {None}
    assert next(port["pci"] for port in efa if port["hca"] == "rdmap79s0:1") == "0000:4f:00.0"


def test_each_thor2_has_its_own_wire(read: Read) -> None:
    ports = [port for port in read("mi300x-thor2")["ports"] if port["hca"]]
    assert {port["netdev"]: port["hca"] for port in ports}["enp158s0np0"] == "rocep158s0:1"
    assert len({port["physical_port"] for port in ports}) == len(ports) == 8


def test_a_card_without_its_rdma_driver_is_a_port_without_device(read: Read) -> None:
    found = hcas(read("mi300x-thor2", "driver_without_rdma"))
    assert (found["enp96s0np0"], found["enp79s0np0"]) == (None, "rocep79s0:1")
    assert None not in found


def test_the_nvlink_domain_of_a_tray_is_cluster_and_clique(read: Read) -> None:
    assert read("gb200-nvl72")["nvlink_domain"] == "9c6f5af3-53bf-49b5-a436-b66766c413c3.4026"
    assert read("dgx-h100")["nvlink_domain"] is None
