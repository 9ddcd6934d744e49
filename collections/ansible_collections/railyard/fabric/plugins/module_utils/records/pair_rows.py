# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What each end writes of a test between two nodes: records of results.jsonl.

What each key means is in `docs/schema`. Bandwidth is Gbit/s (`_gbps`), sizes are bytes, times microseconds
(`_us`) or seconds (`_s`).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Optional, TypedDict

from .facts import Count
from .failures import Error
from .node_rows import Positive, Span
from .reader import Long, NotEmpty

Metrics = dict[str, Optional[float]]
Spans = dict[str, Span]


class Exchange(TypedDict, total=False):
    """Where the ends met when that was not the rail, and the GUIDs of both ports."""

    over: Literal["management"]
    address: str
    peer_address: str
    port_guid: Optional[str]
    peer_port_guid: Optional[str]


class Claim(TypedDict, total=False):
    """What the tool says that it moved."""

    unit: Literal["bytes", "packets", "packets_forward"]
    at_least: float
    at_most: float
    back_at_least: float
    back_at_most: float
    packet_bytes: Optional[int]


class OtherEnd(TypedDict, total=False):
    """The result that the other end sent over the rail; in a sweep its digest."""

    host: Optional[str]
    boot_id: Optional[str]
    status: Optional[str]
    proof: Optional[str]
    metrics: Optional[Metrics]
    counters: Optional[Spans]
    error: Optional[Error]
    digest: str


class Samples(TypedDict):
    """What had arrived at a receiver, and when, in seconds after `started`."""

    t_s: list[float]
    rx_bytes: list[int]


class _PairRowOfSome(TypedDict, total=False):
    subject: Optional[str]
    group: Optional[str]
    attempt: Positive
    sequence: Positive
    claim: Optional[Claim]
    exchange: Exchange
    traffic_class: Optional[int]
    service_level: Optional[int]
    gpu: str
    gpu_name: str
    streams: Positive
    iterations: Count
    latency_is: Literal["one_way", "round_trip"]
    bandwidth_is: Literal["sum_of_both"]
    numa_node: Optional[int]
    pinned: bool
    link_errors: Spans
    idle_bytes_per_s: Count
    samples: Samples
    tries: Positive
    proof_reason: Optional[str]
    argv: list[Annotated[list[str], NotEmpty()]]
    exit_status: Optional[int]


class PairRow(_PairRowOfSome):
    """What one end of a test between two nodes measured."""

    schema: Literal[1]
    run: str
    id: str
    end: Literal["client", "server"]
    host: str
    check: str
    tool: str
    tool_version: Optional[str]
    node: str
    peer: str
    rail: str
    netdev: Optional[str]
    hca: Optional[str]
    address: Optional[str]
    gid_index: Optional[int]
    gid_type: Optional[str]
    started: str
    window_s: Optional[Annotated[list[float], Long(2)]]
    message_bytes: Optional[int]
    qps: Optional[int]
    direction: Literal["uni", "bi"]
    round: Optional[int]
    mtu_bytes: Optional[int]
    active_mtu_bytes: Optional[int]
    status: Literal["measured"]
    metrics: Metrics
    counters: Optional[Spans]
    other_rails: Optional[dict[str, Spans]]
    proof: Optional[Literal["proven", "unproven"]]
    other_end: Optional[OtherEnd]
    raw: Any
    error: None
