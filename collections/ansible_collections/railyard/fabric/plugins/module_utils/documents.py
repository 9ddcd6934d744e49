# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The records of a run folder, as types. What each key means is in `docs/schema`; a test compares the two.

Sizes are bytes (`_bytes`, and `mtu`), bandwidths Gbit/s (`_gbps`), times seconds (`_s`).
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict

Direction = Literal["uni", "bi", "local"]


class Network(TypedDict):
    """A network beside the rails, as a node of the plan has it."""

    name: str
    purpose: str | None
    netdev: str | None
    subnet: str | None
    address: str | None
    vlan: int | None
    mtu: int | None
    manage: bool
    bmc: bool


class _RailOfSome(TypedDict, total=False):
    shares_wire_with: str
    routes: list[dict[str, str]]
    table: int | None
    ipoib_mode: Literal["datagram", "connected"] | None
    link_local: list[Literal["ipv4", "ipv6"]]
    accept_ra: bool
    bond: None


class Rail(_RailOfSome):
    """A rail of a node, as the plan has it."""

    name: str
    netdev: str | None
    mac: str | None
    pci: str | None
    hca: str | None
    address: str | None
    address6: str | None
    subnet: str | None
    subnet6: str | None
    mtu: int | None
    gateway: str | None
    gateway6: str | None
    vlan: int | None
    rate_gbps: float | None
    leaf: str | None


class _GroupedLine(TypedDict, total=False):
    group: str | None
    parts: list[str]
    subject: str | None


class _ClassedLine(_GroupedLine, total=False):
    """Class of an RDMA test's packets, where it is not the port's default."""

    traffic_class: int
    service_level: int


class AskedLine(_ClassedLine):
    """One test that a run asks for: a line of asked.jsonl."""

    schema: int
    id: str
    check: str
    tool: str
    node: str
    peer: str | None
    rail: str | None
    direction: Direction
    round: int | None


class _VerdictOfSome(TypedDict, total=False):
    subject: str | None


class Verdict(_VerdictOfSome):
    """What was judged of one asked test: a line of verdicts.jsonl."""

    schema: int
    id: str
    check: str
    tool: str
    node: str
    peer: str | None
    rail: str | None
    direction: Direction
    outcome: Literal["pass", "fail", "unmeasured", "not_applicable", "recorded"]
    observed: dict[str, Any] | None
    floor: dict[str, Any] | None
    ceiling: dict[str, Any] | None
    basis: str | None
    proof: Literal["proven", "unproven"] | None
    cause_class: str | None
    cause: str | None
    next: str | None
    rows: list[str]
    attempts: int
    reproduced: str | None
    flaky: bool


class _ResultOfSome(TypedDict, total=False):
    exchange: dict[str, Any]
    other_end: dict[str, Any] | None
    samples: dict[str, Any]
    streams: int
    iterations: int
    latency_is: Literal["one_way", "round_trip"]
    bandwidth_is: Literal["sum_of_both"]
    numa_node: int | None
    pinned: bool
    gpu: str
    gpu_name: str
    link_errors: dict[str, Any]
    other_rails: dict[str, Any] | None
    claim: dict[str, Any] | None
    proof_reason: str | None
    bmc: dict[str, Any]
    cabling: dict[str, Any]
    storage: dict[str, Any]
    health: dict[str, Any]
    memory: list[dict[str, Any]]
    nccl_tests: dict[str, Any]
    nvbandwidth: dict[str, Any]
    collective: dict[str, Any]
    subject: str | None
    attempt: int
    traffic_class: int | None
    service_level: int | None
    sequence: int
    idle_bytes_per_s: int


class ResultRow(_ResultOfSome):
    """What one end of a test found: a line of results.jsonl."""

    schema: int
    run: str
    id: str
    end: Literal["client", "server"]
    host: str
    check: str
    tool: str
    tool_version: str | None
    node: str
    peer: str | None
    rail: str | None
    netdev: str | None
    hca: str | None
    address: str | None
    gid_index: int | None
    gid_type: str | None
    started: str
    window_s: list[float] | None
    message_bytes: int | None
    qps: int | None
    direction: Direction
    mtu_bytes: int | None
    active_mtu_bytes: int | None
    status: Literal["measured", "failed", "unmeasured"]
    metrics: dict[str, Any]
    counters: dict[str, Any] | None
    proof: Literal["proven", "unproven"] | None
    raw: dict[str, Any] | None
    error: dict[str, Any] | None
