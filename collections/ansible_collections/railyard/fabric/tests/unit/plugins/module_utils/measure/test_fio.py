# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""fio measures a drive or nothing: its file has no name, and a cache cannot pose as a drive."""

from __future__ import annotations

import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.channel.errors import MeasurementError
from ansible_collections.railyard.fabric.plugins.module_utils.channel.rail_socket import Place
from ansible_collections.railyard.fabric.plugins.module_utils.facts import block_device
from ansible_collections.railyard.fabric.plugins.module_utils.facts.block_device import Mount
from ansible_collections.railyard.fabric.plugins.module_utils.measure import fio
from ansible_collections.railyard.fabric.plugins.module_utils.measure.base import Finished
from ansible_collections.railyard.fabric.plugins.module_utils.measure.node_tool import NodeToolSession
from support.nodes.tool_session import refusal

MIB = 1 << 20
SIZE = 64 * MIB
POLICY = {
    "storage_duration_s": 10, "storage_file_bytes": SIZE, "busy_bytes_per_s": 5000000, "allow_busy": False,
}  # fmt: skip
DISK = {
    "name": "sda", "model": "M", "size_bytes": 1, "rotational": False, "state": None, "pcie": None,
    "hardware": True,
}  # fmt: skip


def read_result(direction: str, moved: int, milliseconds: int, block: int) -> str:
    side = {
        "io_bytes": moved, "bw_bytes": moved * 1000 // milliseconds, "runtime": milliseconds,
        "iops": moved * 1000 / milliseconds / block,
        "lat_ns": {"mean": 2e6}, "clat_ns": {"mean": 1.9e6, "percentile": {"99.000000": 4e6}},
    }  # fmt: skip
    job = {"jobname": "x", "error": 0, direction: side, "job options": {"bs": "1M", "rw": direction}}
    return json.dumps({"fio version": "fio-3.33", "jobs": [job]})


def read_error(argv: list[str], option: str) -> str:
    return next(word.partition("=")[2] for word in argv if word.startswith(option + "="))


class Desk(NodeToolSession):
    """Stands in for runner and node: fio says that it moved so much, and the device counts a share of it."""

    def __init__(self, moved: int = 40 * SIZE, share: float = 1.0, **policy: Any) -> None:
        self.policy = {**POLICY, **policy}
        self.own = Place("gpu1", "", "", "")
        self.peer_address = ""
        self.subject, self.node_class = "/data", "hardware"
        self.argvs: list[list[str]] = []
        self.counted = [0, 0]
        self.others = 0
        self.exit_status = 0
        self.links: list[int] = []
        self._moved, self._share = moved, share

    def run_with(self, argv: list[str], limit_s: float, stdin: int = -1) -> Finished:
        self.argvs.append(argv)
        self.links.append(os.fstat(stdin).st_nlink)
        way = "write" if "--rw=write" in argv else "read"
        laying = "--name=fill" in argv
        moved = int(read_error(argv, "--size")) if laying else self._moved
        self.counted[way == "write"] += moved if laying else int(moved * self._share)
        return Finished(
            self.exit_status,
            read_result(way, moved, 10000, MIB if "--bs=1M" in argv else 4096),
            0.5,
            0.5,
            10.9,
        )

    def moved_bytes(self, _reader: object, _device: str) -> tuple[int, int]:
        self.counted[0] += self.others
        return self.counted[0], self.counted[1]


@pytest.fixture
def desk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Desk:
    """Give a desk whose `/data` is a folder on a drive with much room."""
    made = Desk()
    made.subject = str(tmp_path)
    on = tmp_path.stat().st_dev
    mount = Mount(str(tmp_path), "xfs", f"{os.major(on)}:{os.minor(on)}")
    monkeypatch.setattr(block_device, "mount_at", lambda _reader, _path: mount)
    monkeypatch.setattr(block_device, "describe", lambda _reader, _device: {"name": "sda1", "disks": [DISK]})
    monkeypatch.setattr(block_device, "moved_bytes", made.moved_bytes)
    monkeypatch.setattr(os, "fchown", lambda *_all: None)
    monkeypatch.setattr(fio, "_WATCH_S", 0.01)
    room(monkeypatch, total=100, free=60)
    return made


def room(monkeypatch: pytest.MonkeyPatch, total: float, free: float) -> None:
    """Let the file system have so many files' sizes."""
    told = SimpleNamespace(
        f_blocks=int(total * SIZE / 4096), f_frsize=4096, f_bavail=int(free * SIZE / 4096),
        f_bfree=int(free * SIZE / 4096),
    )  # fmt: skip
    monkeypatch.setattr(os, "fstatvfs", lambda _folder: told)


def test_a_write_is_proven_by_what_the_device_wrote(desk: Desk) -> None:
    tool = fio.Fio()
    reading = tool.measure(desk, "storage_write")
    tool.release()
    # 40 files of 64 MiB in 10 s; fio's 2 ms and 4 ms.
    assert reading.metrics == {
        "bandwidth_bytes_per_s": 268435456.0, "iops": 256.0, "latency_average_us": 2000.0,
        "latency_p99_us": 4000.0,
    }  # fmt: skip
    assert reading.counters == {"device_read_bytes": [0, 0], "device_written_bytes": [0, 40 * SIZE]}
    assert reading.doubt is None
    assert reading.window_s == [0.9, 10.9]
    assert reading.extra["storage"]["moved_bytes"] == 40 * SIZE
    [argv] = desk.argvs
    assert {"--direct=1", "--time_based", "--runtime=10", "--filename=/proc/self/fd/0"} <= {*argv}


def test_the_file_has_no_name_and_nothing_is_left(desk: Desk) -> None:
    tool = fio.Fio()
    for check in fio.JOBS:
        tool.measure(desk, check)
        assert os.listdir(str(desk.subject)) == []
    assert desk.links == [0] * 4  # all of it was written before, by the first test
    open_before = len(os.listdir("/proc/self/fd"))
    tool.release()
    assert len(os.listdir("/proc/self/fd")) == open_before - 1


@pytest.mark.parametrize(
    ("moved", "laid"),
    [
        # A slow drive wrote half of it, of which the last 16 blocks may not have come in turn.
        (SIZE // 2, [("16777216", "50331648")]),
        (3 * SIZE, []),
    ],
)
def test_what_was_never_written_is_written_before_it_is_read(
    desk: Desk, moved: int, laid: list[tuple[str, str]]
) -> None:
    desk._moved = moved
    tool = fio.Fio()
    tool.measure(desk, "storage_write")
    tool.measure(desk, "storage_read")
    tool.measure(desk, "storage_random_read")
    tool.release()
    assert [
        (read_error(argv, "--offset"), read_error(argv, "--size"))
        for argv in desk.argvs
        if "--name=fill" in argv
    ] == laid


@pytest.mark.parametrize("check", fio.JOBS)
@pytest.mark.parametrize(("share", "word"), [(0.02, "a cache took the rest"), (5.0, "others used it")])
def test_neither_a_cache_nor_other_load_poses_as_the_drive(
    desk: Desk, check: str, share: float, word: str
) -> None:
    desk._share = share
    tool = fio.Fio()
    reading = tool.measure(desk, check)
    tool.release()
    assert word in reading.doubt


def refused(desk: Desk, check: str = "storage_write") -> MeasurementError:
    tool = fio.Fio()
    error = refusal(tool.measure, desk, check)
    tool.release()
    return error


@pytest.mark.parametrize(("total", "free"), [(100, 1.9), (10, 2.0 - 0.1), (20, 2.5)])
def test_a_file_system_is_not_filled(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, total: float, free: float
) -> None:
    room(monkeypatch, total, free)
    assert refused(desk).error_class == "storage_full"
    assert desk.argvs == []


def test_where_nothing_is_mounted_the_disk_below_is_not_measured(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(block_device, "mount_at", lambda _reader, _path: None)
    assert refused(desk).error_class == "storage_not_mounted"


@pytest.mark.parametrize(("node_class", "fine"), [("hardware", False), ("container", True)])
def test_of_hardware_a_file_that_is_mounted_is_no_drive(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, node_class: str, fine: bool
) -> None:
    loop = {"name": "loop0", "disks": [{**DISK, "name": "loop0", "hardware": False}]}
    monkeypatch.setattr(block_device, "describe", lambda _reader, _device: loop)
    desk.node_class = node_class
    if fine:
        assert fio.Fio().measure(desk, "storage_write").doubt is None
    else:
        assert "loop0, which is not a physical drive" in refused(desk).message


def test_memory_and_network_are_on_no_device(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(block_device, "moved_bytes", lambda _reader, _device: None)
    assert "xfs on no block device" in refused(desk).message


def test_a_drive_that_others_use_is_left_alone(desk: Desk) -> None:
    desk.others = 10 * MIB
    assert refused(desk).error_class == "busy"
    desk.policy = {**POLICY, "allow_busy": True}
    assert fio.Fio().measure(desk, "storage_write").metrics


def test_an_fio_that_failed_says_so(desk: Desk) -> None:
    desk.exit_status = 1
    assert refused(desk).error_class == "tool_failed"


@pytest.mark.parametrize(
    ("rate", "iops", "moved", "seen", "word"),
    [
        (40960.0, 10.0, 409600, 409600, None),
        (81920.0, 20.0, 409600, 409600, "are not the 409600 bytes"),
        (40960.0, 20.0, 409600, 409600, "20 blocks of 4096 bytes"),
        (40960.0, 10.0, 409600, 409599, "a cache"),
        (0.0, 10.0, 0, 0, "less than one block"),
    ],
)
def test_a_rate_its_time_its_blocks_and_the_bytes_belong_together(
    rate: float, iops: float, moved: int, seen: int, word: str | None
) -> None:
    counters = {"device_read_bytes": [5, 5 + seen], "device_written_bytes": [0, 0]}
    storage = {"moved_bytes": moved, "moved_s": 10.0}
    metrics = {"bandwidth_bytes_per_s": rate, "iops": iops}
    found = fio.unproven(
        "storage_random_read", metrics, storage, counters, 10.0, {**POLICY, "busy_bytes_per_s": 0}
    )
    assert (found is None) if word is None else (found is not None and word in found)
