# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The RDMA port of a rail is read when it is needed."""

from __future__ import annotations

from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import Reader
from ansible_collections.railyard.fabric.plugins.module_utils.measure import rdma_port as rdma_place
from support.nodes.tool_session import OWN, refusal


def make_port(root: Path, address: str = "0a00:0101", layer: str = "Ethernet") -> None:
    folder = root / "class/infiniband/rxe0/ports/1"
    for path, value in {
        "link_layer": layer,
        "gids/0": "fe80:0000:0000:0000:0000:00ff:fe00:0101",
        "gids/1": f"0000:0000:0000:0000:0000:ffff:{address}",
        "gid_attrs/types/0": "RoCE v2",
        "gid_attrs/types/1": "RoCE v2",
        "gid_attrs/ndevs/0": "ens6",
        "gid_attrs/ndevs/1": "ens6",
    }.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(value + "\n")


def test_the_port_is_read_when_it_is_needed(tmp_path: Path) -> None:
    reader = Reader(str(tmp_path))
    gone = refusal(rdma_place.find, OWN, "rxe0:1", reader, match="rxe0:1")
    assert (gone.error_class, gone.status) == ("hca_missing", "unmeasured")
    make_port(tmp_path)
    assert rdma_place.find(OWN, "rxe0:1", reader)[:4] == ("rxe0", 1, 1, "RoCE v2")
    # The address moved away from the rail: its entry is another's.
    make_port(tmp_path, address="0a00:0163")
    moved = refusal(rdma_place.find, OWN, "rxe0:1", reader, match=r"10\.0\.1\.1")
    assert (moved.error_class, moved.status) == ("no_gid", "unmeasured")
    make_port(tmp_path, layer="InfiniBand")
    assert rdma_place.find(OWN, "rxe0:1", reader).gid_index is None
    for nothing in (None, "", "rxe0", "rxe0:x"):
        assert refusal(rdma_place.find, OWN, nothing, reader).error_class == "hca_missing"


def test_a_port_that_was_renamed_after_the_plan_is_reported_with_its_present_name(tmp_path: Path) -> None:
    make_port(tmp_path)
    (tmp_path / "class/infiniband/rxe0").rename(tmp_path / "class/infiniband/fabric0")
    error = refusal(rdma_place.find, OWN, "rxe0:1", Reader(str(tmp_path)))
    assert (error.error_class, error.status) == ("hca_missing", "unmeasured")
    assert "the port of ens6 is called fabric0:1 now" in str(error)


def test_a_port_of_efa_has_srd_its_one_gid_and_its_guid(tmp_path: Path) -> None:
    make_port(tmp_path, layer="Unknown")
    device = tmp_path / "devices/0000:4f:00.0"
    device.mkdir(parents=True)
    (device / "driver").symlink_to(tmp_path / "bus/pci/drivers/efa")
    (tmp_path / "class/infiniband/rxe0/device").symlink_to(device)
    found = rdma_place.find(OWN._replace(management=True, netdev=""), "rxe0:1", Reader(str(tmp_path)))
    assert found[:4] == ("rxe0", 1, 0, None)
    assert (found.connection, found.port_guid) == ("SRD", "0000:00ff:fe00:0101")


def test_a_port_without_ip_is_of_infiniband_or_efa(tmp_path: Path) -> None:
    make_port(tmp_path, layer="Ethernet")
    place, reader = OWN._replace(management=True), Reader(str(tmp_path))
    error = refusal(rdma_place.find, place, "rxe0:1", reader, match="is Ethernet")
    assert error.error_class == "link_layer_wrong"
