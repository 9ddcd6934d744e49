# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Measure with fio what the drives below a mount read and write, without the page cache.

The scratch file has no name (O_TMPFILE): no link can be put in its place, no other process can open it, and
it vanishes with the last process that has it open. fio, which is not root, gets it as its standard input. Its
claim is compared with the kernel's counters of the device.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..facts import block_device
from ..facts.sysfs import Reader
from ..parsers import capture
from ..parsers.node import fio
from . import mounted
from .base import Finished, parse_output, tool_failed
from .node_tool import NodeReading, NodeTool, NodeToolSession

_MIB = 1 << 20
# The user id that the launcher gives to unprivileged tools.
_TOOL_ID = 65533
_SCRATCH = "/proc/self/fd/0"
_MARGIN_S = 30.0
# The slowest write rate that the time limit allows for.
_SLOWEST_BYTES_PER_S = 20e6
_WATCH_S = 0.5
#: The free space that is needed, in files of this size, and how full the file system may get.
ROOM_FILES, MOST_FULL = 2, 0.90
#: How much more a device may move than fio claims: journal and metadata. A small synchronous write adds more
#: writes of the file system.
_BESIDE, _BESIDE_SYNC = 1.15, 4.0
READ_BYTES, WRITTEN_BYTES = "device_read_bytes", "device_written_bytes"
#: Rate times duration must equal the moved bytes, up to rounding.
_RATE_TOLERANCE = 0.05


class Job(NamedTuple):
    """fio's options for a test."""

    writes: bool
    block_bytes: int
    options: tuple[str, ...]


_DEEP = ("--ioengine=libaio", "--iodepth=16", "--bs=1M")
JOBS: Mapping[str, Job] = {
    "storage_write": Job(True, _MIB, ("--rw=write", *_DEEP)),
    "storage_read": Job(False, _MIB, ("--rw=read", *_DEEP)),
    "storage_random_read": Job(
        False, 4096, ("--rw=randread", "--bs=4k", "--ioengine=libaio", "--iodepth=32")
    ),
    "storage_sync_write": Job(True, 4096, ("--rw=write", "--bs=4k", "--ioengine=psync", "--sync=dsync")),
}


class Fio(NodeTool):
    """All tests of one mount: they share the scratch file."""

    name = "fio"
    package = "fio"

    def __init__(self) -> None:
        self._reader = Reader()
        self._file: int | None = None
        self._device = ""
        self._info: dict[str, Any] = {}
        # How many bytes from the start of the file are written.
        self._written_bytes = 0

    def planned_s(self, policy: Mapping[str, Any]) -> float:
        """Return the seconds of the test."""
        return float(policy["storage_duration_s"])

    def limit_s(self, policy: Mapping[str, Any]) -> float:
        """Return the seconds of the test, of writing the file before it, and a margin for each."""
        return self.planned_s(policy) + _fill_s(int(policy["storage_file_bytes"])) + 2 * _MARGIN_S

    def measure(self, session: NodeToolSession, check: str) -> NodeReading:
        """Measure a mount.

        Raises:
            MeasurementError: `storage_not_mounted`, `storage_no_device`, `storage_full`, `storage_refused`,
                `busy`, or fio's error.
        """
        job, policy = JOBS[check], session.policy
        size = int(policy["storage_file_bytes"])
        if self._file is None:
            self._open(session, size)
        file = self._file
        if file is None:
            raise RuntimeError("no scratch file")
        if not job.writes or check == "storage_sync_write":
            self._fill(session, file, size)
        self._check_idle(session)
        before = self._moved(session)
        timed = ("--time_based", f"--runtime={int(policy['storage_duration_s'])}")
        argv = _argv(check, 0, size, (*job.options, *timed))
        done = session.run_with(argv, self.planned_s(policy) + _MARGIN_S, file)
        after = self._moved(session)
        output = _output(session, done, "write" if job.writes else "read")
        if check == "storage_write":
            # The last blocks in flight (the queue depth) may be incomplete.
            complete = (
                size if output["io_bytes"] >= 2 * size else output["io_bytes"] // _MIB * _MIB - 16 * _MIB
            )
            self._written_bytes = min(size, max(self._written_bytes, complete))
        counters = {
            name: [before[place], after[place]] for place, name in enumerate((READ_BYTES, WRITTEN_BYTES))
        }
        metrics = {
            "bandwidth_bytes_per_s": output["bandwidth_bytes_per_s"],
            "iops": output["iops"],
            "latency_average_us": output["latency_mean_us"],
            "latency_p99_us": output["latency_p99_us"],
        }
        claimed, lasted_s = int(output["io_bytes"]), float(output["duration_s"] or 0)
        window = [round(max(done.begun_s, done.ended_s - lasted_s), 4), round(done.ended_s, 4)]
        # An idle link may sleep, so its state is read now.
        self._info.update(block_device.describe(self._reader, self._device))
        storage = {**self._info, "moved_bytes": claimed, "moved_s": lasted_s}
        doubt = unproven(check, metrics, storage, counters, done.ended_s - done.begun_s, policy)
        return NodeReading(metrics, window, counters, doubt, {"storage": storage})

    def release(self) -> None:
        """Close the scratch file, which removes it."""
        if self._file is not None:
            os.close(self._file)
            self._file = None

    def _open(self, session: NodeToolSession, size: int) -> None:
        """Create the scratch file, if there is a drive below it and enough space."""
        host, path = session.own.host, str(session.subject)
        mount, info = mounted.find(session, self._reader)
        self._device = mount.device
        self._info = {"mount": path, "filesystem": mount.filesystem, "file_bytes": size, **info}
        folder = -1
        try:
            folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            room = os.fstatvfs(folder)
            total, free = room.f_blocks * room.f_frsize, room.f_bavail * room.f_frsize
            full = (total - room.f_bfree * room.f_frsize + size) / max(total, 1)
            if free < ROOM_FILES * size or full > MOST_FULL:
                raise session.own.error(
                    "storage_full",
                    f"{path} of {host} has {free / 1e9:.1f} of {total / 1e9:.1f} GB free, too little for "
                    f"a file of {size / 1e9:.1f} GB",
                    "free space, or lower fabric_policy.storage_file_bytes",
                )
            # Relative to the open folder, so that renaming the path meanwhile changes nothing.
            self._file = os.open(".", os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600, dir_fd=folder)
            if (
                f"{os.major(os.fstat(self._file).st_dev)}:{os.minor(os.fstat(self._file).st_dev)}"
                != mount.device
            ):
                raise OSError(errno.EXDEV, "its files are on another device than in mountinfo")
            os.posix_fallocate(self._file, 0, size)
            os.fchown(self._file, _TOOL_ID, _TOOL_ID)
        except OSError as error:
            self.release()
            raise session.own.error(
                "storage_refused", f"no scratch file below {path} of {host}: {error.strerror or error}",
                f"see findmnt {path} and dmesg there",
            ) from error  # fmt: skip
        finally:
            if folder >= 0:
                os.close(folder)

    def _fill(self, session: NodeToolSession, file: int, size: int) -> None:
        """Write the rest of the file: unwritten blocks would not be read from the drive."""
        if self._written_bytes >= size:
            return
        rest = size - self._written_bytes
        options = ("--rw=write", *_DEEP)
        done = session.run_with(
            _argv("fill", self._written_bytes, rest, options), _fill_s(rest) + _MARGIN_S, file
        )
        _output(session, done, "write")
        os.fsync(file)
        self._written_bytes = size

    def _check_idle(self, session: NodeToolSession) -> None:
        """Raise `busy` if other processes use the device in two samples in a row."""
        bound = float(session.policy["busy_bytes_per_s"])
        if session.policy["allow_busy"]:
            return
        rates = []
        for _look in range(2):
            before, begun = self._moved(session), time.monotonic()
            time.sleep(_WATCH_S)
            rates.append((sum(self._moved(session)) - sum(before)) / (time.monotonic() - begun))
            if rates[-1] <= bound:
                return
        raise session.own.error(
            "busy",
            f"{self._info['name']} of {session.own.host} has {min(rates) / 1e6:.1f} MB/s of other traffic, "
            f"more than {bound / 1e6:.1f}",
            "wait until the drive is free, or set policy.allow_busy: true",
        )

    def _moved(self, session: NodeToolSession) -> tuple[int, int]:
        moved = block_device.moved_bytes(self._reader, self._device)
        if moved is None:
            raise session.own.error(
                "storage_no_device", f"{session.subject} of {session.own.host} lost its device",
                "see dmesg there",
            )  # fmt: skip
        return moved


def unproven(
    check: str,
    metrics: Mapping[str, Any],
    storage: Mapping[str, Any],
    counters: Mapping[str, Sequence[int]],
    lasted_s: float,
    policy: Mapping[str, Any],
) -> str | None:
    """Return why the device's counters do not confirm fio's claim, or None.

    Args:
        check: a key of `JOBS`.
        metrics: fio's numbers.
        storage: `moved_bytes` and `moved_s`, fio's too.
        counters: bytes that the device has read and written, before and after.
        lasted_s: how long fio ran, including its start and end.
        policy: the run's policy.
    """
    claimed, moved_s = int(storage["moved_bytes"]), float(storage["moved_s"])
    job = JOBS[check]
    name = WRITTEN_BYTES if job.writes else READ_BYTES
    seen = counters[name][1] - counters[name][0]
    if claimed < job.block_bytes:
        return f"fio claims {claimed} bytes, less than one block"
    if seen < claimed:
        return f"fio claims {claimed} bytes, {name} of the device grew by {seen}: a cache took the rest"
    beside = _BESIDE_SYNC if check == "storage_sync_write" else _BESIDE
    most = claimed * beside + float(policy["busy_bytes_per_s"]) * (lasted_s + 1)
    if seen > most and not policy["allow_busy"]:
        return f"fio claims {claimed} bytes, {name} of the device grew by {seen}: others used it meanwhile"
    rate = float(metrics["bandwidth_bytes_per_s"])
    if abs(rate * moved_s - claimed) > _RATE_TOLERANCE * claimed:
        return f"{rate:.0f} B/s for {moved_s:g} s are not the {claimed} bytes that fio claims"
    if abs(float(metrics["iops"]) * job.block_bytes - rate) > _RATE_TOLERANCE * rate:
        return (
            f"{float(metrics['iops']):.0f} blocks of {job.block_bytes} bytes a second are not {rate:.0f} B/s"
        )
    return None


def _fill_s(size: int) -> float:
    return size / _SLOWEST_BYTES_PER_S


def _argv(name: str, offset: int, size: int, options: Sequence[str]) -> list[str]:
    """Return fio's command line.

    The job is a thread, so that the kernel ends it with the runner. Without `randrepeat` each run reads other
    places.
    """
    return [
        "fio", "--output-format=json", f"--name={name}", f"--filename={_SCRATCH}", "--allow_file_create=0",
        f"--offset={offset}", f"--size={size}", "--direct=1", "--thread", "--randrepeat=0", "--norandommap",
        *options,
    ]  # fmt: skip


def _output(session: NodeToolSession, done: Finished, direction: str) -> dict[str, Any]:
    """Return the output of a run of fio.

    Raises:
        MeasurementError: `tool_failed`, `tool_garbage`.
    """
    output = parse_output(session, "fio", done.text, lambda text: capture.read(fio.parse, text))
    if done.exit_status != 0 or output["rw"] != direction or not output["io_bytes"]:
        raise tool_failed(session, "fio", f"it ended with {done.exit_status}: {done.text.strip()[:300]}")
    return output
