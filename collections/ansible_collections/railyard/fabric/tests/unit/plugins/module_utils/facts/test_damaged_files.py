# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each file of a node is damaged in turn: less is known of it, without a traceback and without a pass."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.bounded import Ended
from ansible_collections.railyard.fabric.plugins.module_utils.facts import node as node_facts
from ansible_collections.railyard.fabric.plugins.module_utils.facts import sysfs
from ansible_collections.railyard.fabric.plugins.module_utils.rails import bind
from ansible_collections.railyard.fabric.plugins.module_utils.rails.plan import RAIL_KEYS
from ansible_collections.railyard.fabric.plugins.module_utils.rules import gpu, link, rdma
from ansible_collections.railyard.fabric.plugins.module_utils.rules.gpu_rows import Node
from ansible_collections.railyard.fabric.plugins.module_utils.rules.ruling import (
    FAIL,
    PASS,
    RECORDED,
    UNMEASURED,
    Ruling,
)
from support.nodes.gpu_node import PROPRIETARY_535, GpuNode
from support.nodes.sysfs_tree import addresses

NETDEV, GPU_ADDRESS = "ens6np0", "0000:17:00.0"
RAIL = {
    **dict.fromkeys(RAIL_KEYS),
    "name": "rail0", "netdev": NETDEV, "hca": "mlx5_0:1", "address": "10.0.1.1/24", "mtu": 9000,
    "rate_gbps": 400,
}  # fmt: skip
#: What a file may hold in place of its value; the words are those of drivers and of sysfs.
TEXTS: dict[str, bytes] = {
    "empty": b"",
    "binary": bytes(range(256)),
    "huge": b"1" * 10_000_000,
    "not_available": b"N/A\n",
    "no_pma": b"N/A (no PMA)\n",
    "error_word": b"Unknown Error\n",
    "negative": b"-1\n",
    "all_ones": b"18446744073709551615\n",
    "beyond_64_bits": b"1" * 60 + b"\n",
}
#: And what opening it may answer: of lockdown, of a driver that was taken away, of a card that hangs.
ERRORS = (errno.EPERM, errno.EIO, errno.ENODEV)
#: What is reported and has no bound: on Ethernet the netdev's speed is what the declared rate bounds.
UNBOUND = ("corrected_errors", "memory_temperature_max_c", "rate_gbps", "width")


class Healthy(GpuNode):
    """One RoCE rail of a ConnectX-7, a frontend and a GPU, as machines.md describes a DGX's."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.host()
        card = self.pci("0000:18:00.0", "mlx5_core")
        for name, value in (("vendor", "0x15b3"), ("device", "0x1021"), ("class", "0x020000")):
            (card / name).write_text(f"{value}\n")
        for name, value in (("speed", "32.0 GT/s PCIe"), ("width", "16")):
            (card / f"current_link_{name}").write_text(f"{value}\n")
            (card / f"max_link_{name}").write_text(f"{value}\n")
        self.netdev(NETDEV, card, addresses("10.0.1.1/24"), speed=400000, address="aa:00:00:00:00:01",
                    addr_assign_type=0)  # fmt: skip
        port = self.port("mlx5_0", 1, card, rate="400 Gb/sec (4X NDR)")
        self.gid(port, 0, "fe80:0000:0000:0000:a800:00ff:fe00:0001", "IB/RoCE v1", NETDEV)
        self.gid(port, 3, "0000:0000:0000:0000:0000:ffff:0a00:0101", "RoCE v2", NETDEV)
        self.write("sys/class/infiniband/mlx5_0/fw_ver", "28.39.1002")
        self.write("sys/class/infiniband/mlx5_0/node_type", "1: CA")
        self.write("sys/class/infiniband/mlx5_0/board_id", "MT_0000000838")
        folder = self.function(GPU_ADDRESS, 0x2330)
        (folder / "aer_dev_correctable").write_text("RxErr 0\nTOTAL_ERR_COR 0\n")
        self.load("535.183.01", PROPRIETARY_535)

    def files(self) -> list[Path]:
        return sorted(one for one in self.root.rglob("*") if one.is_file() and not one.is_symlink())

    def rulings(self) -> dict[tuple[str, str], Ruling]:
        """Collect, bind and rule, as a node's quick check and the judge do."""
        found = node_facts.collect(self.reader(), self._run, None, _smi)
        facts = json.loads(json.dumps({**found, "node": "gpu1"}))
        assert len(json.dumps(facts)) < 200_000, "a file's size is not the facts'"
        one = bind.bind([RAIL], facts)["rail0"]
        of = rdma.Node("gpu1", "roce", "hardware", bind.ports(facts), {}, rdma.Pkeys())
        gpus = Node("gpu1", {"count": 1}, {}, {"rail0": (one.hca or {}).get("pci")})
        return {
            **{("rail0", check): link.rule(check, "gpu1", one, "hardware", {}) for check in link.CHECKS},
            **{("rail0", check): rdma.rule(check, of, one) for check in rdma.CHECKS["roce"]},
            **{("gpus", check): gpu.rule(check, gpus, facts["gpus"]) for check in gpu.CHECKS},
        }

    def _run(self, argv: Any) -> str | None:
        return self.ip_json() if argv[0] == "ip" else None


def _smi(argv: Any) -> Ended:
    if not argv[1].startswith("--query"):
        return Ended(0, "")
    fields = argv[1].partition("=")[2].split(",")
    known = {"pci.bus_id": "00000000:17:00.0", "gpu_bus_id": "00000000:17:00.0",
             "name": "NVIDIA H100 80GB HBM3",
             "pcie.link.width.current": "16", "pcie.link.width.max": "16", "gpu_recovery_action": "None",
             "temperature.gpu.tlimit": "40"}  # fmt: skip
    return Ended(0, f"{', '.join(fields)}\n{', '.join(known.get(one, '0') for one in fields)}\n")


@pytest.fixture
def node(tmp_path: Path) -> Healthy:
    return Healthy(tmp_path)


def compare(
    healthy: dict[tuple[str, str], Ruling], seen: dict[tuple[str, str], Ruling], file: object
) -> None:
    """Each ruling is as it was, or says what is not known or wrong."""
    for key, ruling in seen.items():
        where, before = (str(file), key, ruling), healthy[key]
        assert ruling.outcome in (PASS, RECORDED, FAIL, UNMEASURED), where
        if ruling.outcome in (FAIL, UNMEASURED):
            assert ruling.cause, where
            assert ruling.detail, where
        elif ruling.outcome == PASS:
            assert before.outcome == PASS, where
            left = {name: value for name, value in ruling.observed.items() if name not in UNBOUND}
            assert left == {name: before.observed[name] for name in left}, where


def test_the_healthy_node_is_well(node: Healthy) -> None:
    outcomes = {key: one.outcome for key, one in node.rulings().items()}
    assert outcomes["rail0", "link"] == outcomes["rail0", "address"] == outcomes["rail0", "mtu"] == PASS
    assert outcomes["rail0", "rdma_port"] == outcomes["rail0", "rdma_gid"] == PASS
    assert (
        outcomes["gpus", "gpu_count"] == outcomes["gpus", "gpu_memory"] == outcomes["gpus", "gpu_xid"] == PASS
    )
    assert len(node.files()) > 50


@pytest.mark.parametrize("how", [*TEXTS, "missing", "folder"])
def test_a_damaged_file_costs_no_more_than_what_it_holds(node: Healthy, how: str) -> None:
    healthy = node.rulings()
    for file in node.files():
        kept = file.read_bytes()
        file.unlink()
        if how == "folder":
            file.mkdir()
        elif how != "missing":
            file.write_bytes(TEXTS[how])
        compare(healthy, node.rulings(), file.relative_to(node.root))
        if how == "folder":
            file.rmdir()
        file.write_bytes(kept)


@pytest.mark.parametrize("number", ERRORS, ids=[errno.errorcode[one] for one in ERRORS])
@pytest.mark.parametrize("call", ["open", "read"])
def test_a_file_that_cannot_be_read_costs_no_more_than_what_it_holds(
    node: Healthy, monkeypatch: pytest.MonkeyPatch, number: int, call: str
) -> None:
    healthy = node.rulings()
    for file in node.files():
        with monkeypatch.context() as patch:
            _fail(patch, str(file), number, call)
            compare(healthy, node.rulings(), file.relative_to(node.root))


def _fail(patch: pytest.MonkeyPatch, path: str, number: int, call: str) -> None:
    real_open, real_read, handles = os.open, os.read, set()

    def opened(name: Any, *rest: Any, **more: Any) -> int:
        if os.fspath(name) != path:
            return real_open(name, *rest, **more)
        if call == "open":
            raise OSError(number, os.strerror(number), path)
        handle = real_open(name, *rest, **more)
        handles.add(handle)
        return handle

    def read(handle: int, size: int) -> bytes:
        if handle in handles:
            handles.discard(handle)
            raise OSError(number, os.strerror(number))
        return real_read(handle, size)

    patch.setattr(os, "open", opened)
    patch.setattr(os, "read", read)


def test_a_card_that_is_removed_while_it_is_read_is_missing(
    node: Healthy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each of the reads in turn the card's folders go; sysfs answers ENOENT or ENODEV from then on."""
    healthy, real = node.rulings(), os.open
    gone = ("0000:18:00.0", NETDEV, "mlx5_0")
    for last in range(0, 100, 4):
        left = iter(range(last))

        def opened(name: Any, *rest: Any, _left: Iterator[int] = left, **more: Any) -> int:
            if any(f"/{one}/" in os.fspath(name) for one in gone) and next(_left, None) is None:
                raise OSError(errno.ENODEV, os.strerror(errno.ENODEV), name)
            return real(name, *rest, **more)

        with monkeypatch.context() as patch:
            patch.setattr(os, "open", opened)
            seen = node.rulings()
        compare(healthy, seen, f"after {last} reads")
        if not last:
            assert seen["rail0", "link"].outcome == seen["rail0", "rdma_port"].outcome == UNMEASURED


def test_a_large_file_is_a_warning_and_no_value(node: Healthy) -> None:
    path = node.root / "sys/class/net" / NETDEV / "operstate"
    path.write_bytes(b"up" + b"\n" * 10_000_000)
    reader = node.reader()
    assert reader.text(str(path)) is None
    assert reader.warnings == [f"{path}: it is larger than {sysfs.LARGEST_BYTES} bytes"]
    path.write_bytes(b"up\x01")
    assert reader.text(str(path)) is None
    assert "no text" in reader.warnings[1]


def test_a_port_that_was_renamed_after_planning_is_missing_by_name(node: Healthy) -> None:
    """The netdev and the RDMA device are there, and are called otherwise: rdma-core's rule after a reboot."""
    os.rename(node.root / "sys/class/net" / NETDEV, node.root / "sys/class/net/ens18np0")
    os.rename(node.root / "sys/class/infiniband/mlx5_0", node.root / "sys/class/infiniband/rocep24s0")
    node.links[0]["ifname"] = "ens18np0"
    seen = node.rulings()
    assert seen["rail0", "link"].outcome == FAIL
    assert NETDEV in seen["rail0", "link"].detail
    assert seen["rail0", "rdma_port"].outcome == FAIL
    assert "mlx5_0:1" in seen["rail0", "rdma_port"].detail
