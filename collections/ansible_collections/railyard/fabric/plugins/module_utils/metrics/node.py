# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a node is no rail's, as metrics: governor, GPUs on the bus, and what its last quick check left.

nvidia-smi is never run here: XIDs and NVLinks are those of the last quick check.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..facts import host, nvidia_pci
from ..facts.sysfs import Reader
from ..quick import xids
from ..quick.expectation import Expectation
from ..quick.trace import Trace
from .exposition import Sample

#: The kernel's log names a GPU without its function, which is 0.
_FUNCTION = ".0"


def collect(expected: Expectation, reader: Reader, trace: Trace | None) -> Iterator[Sample]:
    """Yield the samples.

    Args:
        expected: what the node is expected to be.
        reader: where the kernel's files are.
        trace: what the last quick check left; None where there was none.
    """
    if expected.governor:
        seen = host.governors(reader)["governors"]
        if seen:
            wrong = sum(count for governor, count in seen.items() if governor != expected.governor)
            yield Sample("railyard_cpus_with_wrong_governor", {}, wrong)
    gpus = [one["pci"] for one in nvidia_pci.functions(reader) if nvidia_pci.is_gpu(one)]
    if expected.gpus is not None:
        yield Sample("railyard_expected_gpus", {}, expected.gpus["count"])
    if expected.gpus is not None or gpus:
        yield Sample("railyard_gpus", {}, len(gpus))
    links = (expected.gpus or {}).get("nvlinks")
    if links is not None:
        yield from (Sample("railyard_gpu_nvlinks_expected", {"pci": pci}, links) for pci in gpus)
    if trace is not None:
        yield from _last_look(trace, reader.text(reader.proc("sys", "kernel", "random", "boot_id")))


def _last_look(trace: Trace, boot_id: str | None) -> Iterator[Sample]:
    if trace.ended_unix_s is not None:
        yield Sample("railyard_quick_status", {}, trace.status)
        yield Sample("railyard_quick_timestamp_seconds", {}, trace.ended_unix_s)
        yield Sample("railyard_quick_duration_seconds", {}, trace.duration_s)
        for one in trace.findings:
            yield Sample("railyard_quick_finding", {"cause": one.cause, "rail": one.rail}, 1)
    if trace.boot_id != boot_id:
        return  # a reboot ended them
    for (pci, xid), count in xids.of_gpus(trace.xids.since_reset).items():
        yield Sample("railyard_gpu_xid_since_reset", {"pci": pci + _FUNCTION, "xid": xid}, count)
    for (pci, xid), count in trace.xids.total.items():
        yield Sample("railyard_gpu_xid_total", {"pci": pci + _FUNCTION, "xid": xid}, count)
    for pci, active in trace.nvlinks:
        yield Sample("railyard_gpu_nvlinks_active", {"pci": pci}, active)
