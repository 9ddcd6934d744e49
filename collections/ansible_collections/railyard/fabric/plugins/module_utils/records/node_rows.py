# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a node writes of a test of itself, or of its part in a test of all nodes: records of results.jsonl.

What each key means is in `docs/schema`. Each tool has an account of its own beside what all rows have. Sizes
are bytes, times microseconds (`_us`) or seconds (`_s`), `_GBps` is 10^9 bytes/s as NCCL's tools name it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, Optional, TypedDict

from . import reader
from .facts import Count, PciAddress, PciLink
from .reader import AboveZero, AtLeast, Long, NotEmpty, NotTwice

Positive = Annotated[int, AtLeast(1)]
Amount = Annotated[float, AtLeast(0)]
#: What a counter was before and after.
Span = Annotated[list[Optional[int]], Long(2)]


class Disk(TypedDict):
    """A disk below a mount, as sysfs describes it."""

    name: str
    model: Optional[str]
    size_bytes: Optional[Count]
    rotational: Optional[bool]
    state: Optional[str]
    bus: Optional[str]
    pcie: Optional[PciLink]
    hardware: bool


class Storage(TypedDict):
    """What fio measured, and what it says that it moved."""

    mount: str
    filesystem: str
    name: str
    disks: list[Disk]
    file_bytes: Positive
    moved_bytes: Positive
    moved_s: Amount


class Drive(TypedDict):
    """What smartctl says of a drive."""

    name: str
    model: Optional[str]
    bus: Optional[str]
    smart: Literal["read", "none", "unread"]
    said: Optional[str]
    protocol: Optional[str]
    firmware: Optional[str]
    passed: Optional[bool]
    exit_status: Optional[Count]
    attributes: list[str]
    values: dict[str, int]


class Health(TypedDict):
    """The drives below a mount."""

    mount: str
    drives: list[Drive]


class Clocks(TypedDict):
    """The clocks of CPUs while they read, in MHz."""

    lowest: float
    median: float


class NumaRead(TypedDict):
    """What the CPUs of a NUMA node read of its memory."""

    numa_node: Count
    cpus: Positive
    read_bytes: Positive
    read_s: Annotated[float, AboveZero()]
    vector_bytes: Positive
    bandwidth_bytes_per_s: Annotated[float, AboveZero()]
    cpu_mhz: Optional[Clocks]


class Gpu(TypedDict):
    """A GPU that was measured; generation and lanes are the most that it and its slot can do."""

    index: Optional[Count]
    name: str
    pci: Optional[PciAddress]
    pcie_generation: Optional[Count]
    pcie_lanes: Optional[Count]


class _Gpus(TypedDict):
    """Which GPUs were measured, and how each two are joined."""

    version: Optional[str]
    gpus: Annotated[list[Gpu], NotEmpty()]
    joined: list[list[Optional[str]]]


class Size(TypedDict):
    """What NCCL reached at a size."""

    size_bytes: Positive
    time_us: Annotated[float, AboveZero()]
    algbw_GBps: Amount
    busbw_GBps: Amount


class NcclTests(_Gpus):
    """What nccl-tests measured."""

    nccl_version: Optional[str]
    sizes: Annotated[list[Size], NotEmpty()]


class Nvbandwidth(_Gpus):
    """What nvbandwidth measured: of each of its tests the matrix of GB/s, null where nothing was copied."""

    matrices: dict[str, list[list[Optional[Amount]]]]


class JobSize(Size):
    """What a collective of all nodes reached at a size."""

    iterations: Positive
    time_min_us: Annotated[float, AboveZero()]


class _JobOfSome(TypedDict, total=False):
    transport: Optional[str]


class _Job(_JobOfSome):
    torch: str
    backend: str
    nodes: Annotated[int, AtLeast(2)]
    ranks: Annotated[int, AtLeast(2)]
    processes: Positive
    rails: Annotated[list[str], NotTwice(), NotEmpty()]
    moved_bytes: Annotated[float, AboveZero()]


class Sweep(_Job):
    """A node's part in a collective of all nodes, size by size."""

    call: str
    sizes: Annotated[list[JobSize], NotEmpty()]
    left_out_bytes: list[Positive]


class Training(_Job):
    """A node's part in a training job of all nodes."""

    most_bytes: Annotated[float, AboveZero()]
    steps: Positive
    gradient_bytes: Positive
    loss_first: float
    loss_last: float


class _RowOfSome(TypedDict, total=False):
    group: Optional[str]
    attempt: Positive
    sequence: Positive
    subject: Optional[str]
    other_rails: None
    other_end: None
    claim: None


class NodeRow(_RowOfSome):
    """What every measured row of a test of one node has, beside its tool's account."""

    schema: Literal[1]
    run: str
    id: str
    end: Literal["client"]
    host: str
    check: str
    tool: str
    tool_version: Optional[str]
    node: str
    peer: None
    rail: None
    netdev: None
    hca: None
    address: None
    gid_index: None
    gid_type: None
    started: str
    window_s: Annotated[list[float], Long(2)]
    message_bytes: None
    qps: None
    direction: Literal["local"]
    round: Optional[int]
    mtu_bytes: None
    active_mtu_bytes: None
    status: Literal["measured"]
    metrics: dict[str, Optional[float]]
    counters: dict[str, Span]
    proof: Literal["proven", "unproven"]
    proof_reason: Optional[str]
    raw: Any
    error: None
    argv: Annotated[list[Annotated[list[str], NotEmpty()]], NotEmpty()]
    exit_status: Optional[int]


#: Tool -> the key of its account.
ACCOUNTS: Mapping[str, str] = {
    "fio": "storage",
    "smartctl": "health",
    "likwid-bench": "memory",
    "nccl-tests": "nccl_tests",
    "nvbandwidth": "nvbandwidth",
    "torch_gloo": "collective",
    "torch_nccl": "collective",
}
_KINDS: Mapping[str, Any] = {
    "storage": Storage,
    "health": Health,
    "memory": Annotated[list[NumaRead], NotEmpty()],
    "nccl_tests": NcclTests,
    "nvbandwidth": Nvbandwidth,
}


def refusal(row: Mapping[str, Any]) -> str | None:
    """Return why a row that says `measured` is not what a node writes of a test of itself, or None.

    Args:
        row: with a planned check and tool.
    """
    key = ACCOUNTS.get(str(row["tool"]))
    if key is None:
        return f"the tool {row['tool']} is unknown"
    if key not in row:
        return f"{key} is missing"
    kind = _KINDS.get(key) or (Training if row["check"] == "collective_training" else Sweep)
    rest = {name: value for name, value in row.items() if name != key}
    return reader.refusal(NodeRow, rest) or reader.refusal(kind, row[key], key)
