# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""perftest between GPUs' memories: whose program, which GPU, what its build can do, whose memory was used."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import TESTS
from ansible_collections.railyard.fabric.plugins.module_utils.channel.rail_socket import Place
from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import Reader
from ansible_collections.railyard.fabric.plugins.module_utils.measure import base, registry
from ansible_collections.railyard.fabric.plugins.module_utils.measure.perftest_bw import Bandwidth
from ansible_collections.railyard.fabric.plugins.module_utils.measure.perftest_gpu import GpuBandwidth
from ansible_collections.railyard.fabric.plugins.module_utils.measure.rdma_port import RdmaPort
from ansible_collections.railyard.fabric.plugins.module_utils.runner.context import RunContext
from ansible_collections.railyard.fabric.plugins.module_utils.runner.step import find_failure
from support.nodes.tool_session import PerftestSession, refusal

GPU = "0000:17:00.0"
LINE = "-" * 87
#: As builds with CUDA print before the table.
CUDA = f"""Got PCIe address of: {GPU}
initializing CUDA
Finding PCIe BUS {GPU}
Picking GPU number 1
initializing CUDA
Listing all CUDA devices in system:
CUDA device 0: PCIe address is 06:00
CUDA device 1: PCIe address is 17:00

Picking device No. 1
[pid = 9472, dev = 1] device name = [NVIDIA H100 80GB HBM3]
creating CUDA Ctx
making it the current CUDA Ctx
CUDA device integrated: 0
"""
TABLE = f"""{LINE}
                    RDMA_Write BW Test
 Dual-port       : OFF\t\tDevice         : mlx5_0
 Number of qps   : 1\t\tTransport type : IB
 TX depth        : 128
 Mtu             : 4096[B]
 Link type       : IB
{LINE}
 local address: LID 0x01 QPN 0x0015
 remote address: LID 0x02 QPN 0x0016
{LINE}
 #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]
 65536      1000              0.00               31.25\t\t   0.0005
{LINE}
"""
BUS_ID, DMABUF = (
    "      --use_cuda_bus_id=<cuda full BUS id> Use CUDA",
    "      --use_cuda_dmabuf Use CUDA DMA-BUF",
)


def desk(folder: Path, printed: str = CUDA + TABLE, status: int = 0) -> PerftestSession:
    """Return a play whose tool has printed already; the site's program knows its `--help`."""
    port = RdmaPort("mlx5_0", 1, None, None, None)
    play = PerftestSession(printed, port=port, version="6.27", status=status)
    play.policy["gpudirect_perftest_folder"] = str(folder)
    return play


@pytest.fixture
def sys_root(tmp_path: Path) -> Path:
    """Return a node's /sys: an HCA and a GPU below one port, nvidia_peermem loaded."""
    root = tmp_path / "sys"
    for address, files in (
        ("0000:19:00.0", {"vendor": "0x15b3"}),
        (GPU, {"vendor": "0x10de", "device": "0x2330", "class": "0x030200"}),
    ):
        folder = root / "devices/pci0000:15/0000:15:01.0" / address
        folder.mkdir(parents=True)
        for name, value in files.items():
            (folder / name).write_text(f"{value}\n")
        listed = root / "bus/pci/devices" / address
        listed.parent.mkdir(parents=True, exist_ok=True)
        listed.symlink_to(folder)
    device = root / "class/infiniband/mlx5_0"
    device.mkdir(parents=True)
    (device / "device").symlink_to(root / "devices/pci0000:15/0000:15:01.0/0000:19:00.0")
    (root / "module/nvidia_peermem").mkdir(parents=True)
    return root


def built(folder: Path, *options: str) -> Path:
    """Install the site's perftest; what it prints of itself ends with status 1, as perftest's does."""
    folder.mkdir(exist_ok=True)
    program = folder / "ib_write_bw"
    said = "\n".join(options)
    program.write_text(
        f"#!/bin/sh\ntest \"$1\" = --version && echo 'Version: 6.27' || cat <<'E'\n{said}\nE\nexit 1\n"
    )
    program.chmod(0o755)
    return folder


def test_each_end_names_the_gpu_and_else_what_host_memory_is_measured_by(
    tmp_path: Path, sys_root: Path
) -> None:
    play, tool = desk(built(tmp_path / "bin", BUS_ID, DMABUF)), GpuBandwidth(Reader(str(sys_root)))
    reading = tool.client(play)
    of_host = Bandwidth("ib_write_bw").command(play, tool.options(play.policy), server=False)
    assert [word for word in play.ran[0] if "use_cuda" in word] == [f"--use_cuda_bus_id={GPU}"]
    assert [word for word in play.ran[0] if "use_cuda" not in word] == [
        str(tmp_path / "bin/ib_write_bw"), *of_host[1:]
    ]  # fmt: skip
    assert reading.metrics["bandwidth_gbps"] == pytest.approx(0.262144)
    assert (reading.extra["gpu"], reading.extra["gpu_name"]) == (GPU, "NVIDIA H100 80GB HBM3")
    assert tool.limit_s(play.policy) > Bandwidth("ib_write_bw").limit_s(play.policy)


def test_without_the_peer_module_it_is_dma_buf(tmp_path: Path, sys_root: Path) -> None:
    (sys_root / "module/nvidia_peermem").rmdir()
    tool = GpuBandwidth(Reader(str(sys_root)))
    play = desk(built(tmp_path / "bin", BUS_ID, DMABUF))
    assert "--use_cuda_dmabuf" in tool.command(play, [], server=True)
    error = refusal(tool.command, desk(built(tmp_path / "bin", BUS_ID)), [], True, match="DMA-BUF")
    assert "nvidia_peermem" in error.fix
    assert error.error_class == "gpudirect_unfit"


@pytest.mark.parametrize("gone", ["cuda", "gpu", "card"])
def test_what_cannot_be_measured_is_unmeasured_and_says_what_would_do(
    tmp_path: Path, sys_root: Path, gone: str
) -> None:
    folder = built(tmp_path / "bin", "      --tclass=<value>", *([] if gone == "cuda" else [BUS_ID]))
    if gone == "gpu":
        (sys_root / "bus/pci/devices" / GPU).unlink()
    elif gone == "card":
        (sys_root / "class/infiniband/mlx5_0/device").unlink()
    words = "without CUDA" if gone == "cuda" else "no GPU"
    error = refusal(GpuBandwidth(Reader(str(sys_root))).client, desk(folder), match=words)
    assert (error.error_class, error.status) == ("gpudirect_unfit", "unmeasured")
    assert ("CUDA_H_PATH=" in error.fix) is (gone == "cuda")


@pytest.mark.parametrize(
    ("printed", "status", "error_class"),
    [
        # A table of host memory: a wrapper that drops the option.
        (TABLE, 0, "tool_failed"),
        (CUDA + "Couldn't allocate MR with error=14\nfailed to create mr\n", 1, "gpudirect_unfit"),
        (CUDA + "Completion with error at client\n", 1, "tool_failed"),
    ],
)
def test_a_table_without_a_gpus_memory_is_none(
    tmp_path: Path, sys_root: Path, printed: str, status: int, error_class: str
) -> None:
    play = desk(built(tmp_path / "bin", BUS_ID), printed, status)
    assert refusal(GpuBandwidth(Reader(str(sys_root))).client, play).error_class == error_class


def test_the_program_and_its_version_are_the_sites_own_for_this_test_alone(tmp_path: Path) -> None:
    policy: dict[str, Any] = {"gpudirect_perftest_folder": str(built(tmp_path / "bin"))}
    programs = {one.name: registry.program({"check": one.name, "tool": one.tool}, policy) for one in TESTS}
    own = programs.pop("rdma_gpu_bandwidth")
    assert programs == {one.name: one.tool for one in TESTS if one.name in programs}
    assert base.version_of(own) == "6.27"
    Path(own).unlink()
    assert base.version_of(own) is None


@pytest.mark.parametrize(
    ("here", "there", "error_class", "word"),
    [("6.27", "6.20", "version_differs", "6.20"), (None, "6.27", "gpudirect_unfit", "no program")],
)
def test_both_ends_must_have_its_version_alike(
    here: str | None, there: str, error_class: str, word: str
) -> None:
    own = "/opt/perftest/bin/ib_write_bw"
    context: Any = SimpleNamespace(
        node="gpu001",
        policy={"gpudirect_perftest_folder": "/opt/perftest/bin"},
        versions={own: here, "ib_write_bw": "6.06"},
        version_of=lambda test: RunContext.version_of(context, test),
    )
    place = Place("gpu001", "rail0", "ens6", "10.0.1.1")
    versions = {own: there, "ib_write_bw": "6.06"}
    session: Any = SimpleNamespace(
        run_context=context,
        failure=None,
        busy=None,
        place=place,
        hello={"versions": versions},
        peer="gpu002",
    )
    test = {"check": "rdma_gpu_bandwidth", "tool": "ib_write_bw", "rail": "rail0", "peer": "gpu002"}
    obstacle = find_failure(session, test)
    assert (obstacle.error_class, obstacle.status) == (error_class, "unmeasured")
    assert word in obstacle.message
