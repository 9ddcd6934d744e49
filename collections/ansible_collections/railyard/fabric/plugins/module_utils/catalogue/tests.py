# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tests of nodes: what each asks, by which tool, when, for how long, and what each end must state.

One table, from which follow the schedule, the node's facts (which versions are read) and the contents of a
row. A new tool begins here; docs/extending.md has the rest.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NamedTuple, Optional


@dataclass(frozen=True)
class Check:
    """One kind of question.

    Attributes:
        name: the check, as asked.jsonl writes it.
        title: how a person calls it.
        bounded: metrics that a bound may be laid on (site policy included).
        client: metric -> kind that the client's row must hold: `positive` > 0, `count` whole and >= 0,
            `positive_count` whole and > 0, `share` within 0 and 100, `nonnegative` >= 0. All are finite
            numbers, never bool.
        server: metric -> kind that the server's row must hold; empty where that end states no number.
        source: where its answer comes from, one of SOURCES.
        rdma: it is planned only where the inventory declares RDMA.
        tool: which tool measures it; "" where no test does.
        asked: when the schedule asks it: "alone" on each rail and direction, "both_ways" at once, "together"
            on all rails at once; after the last round on a "node" alone, or on all together as a "group".
        wanted: the policy key (a boolean or a path) that enables it; "" where it is always planned. An RDMA
        test also needs its tool in `rdma_tests`. For a node: a boolean, or a list of subjects.
        unless_off: a second boolean policy key that has to be on; "" for none.
        counts: the client's metric with the least number of packets each way; "" where `row_counters` has
            another rule for what must have crossed the rail. Else it is unproven.
        lasts: the policy key with the seconds to measure for; "" where another rule applies.
        message: the policy key with the message size of a row in bytes; "" for none.
        least_gpus: the least GPUs of a node for which it is planned; 0 where it is not about GPUs.
    """

    name: str
    title: str
    bounded: tuple[str, ...] = ()
    client: dict[str, str] = field(default_factory=dict)
    server: dict[str, str] = field(default_factory=dict)
    source: str = "test"
    rdma: bool = False
    tool: str = ""
    asked: str = "alone"
    wanted: str = ""
    unless_off: str = ""
    counts: str = ""
    lasts: str = ""
    message: str = ""
    least_gpus: int = 0

    @property
    def local(self) -> bool:
        """Return whether it is about one node alone: the planned test has no peer."""
        return self.source in ("facts", "counters", "cabling", "hops") or self.of_node

    @property
    def of_node(self) -> bool:
        """Return whether it is about a node and not about a rail."""
        return self.source in ("bmc", "gpus", "node")


_BANDWIDTH_CLIENT = {"bandwidth_gbps": "positive", "sent_gbps": "positive"}
_BANDWIDTH_SERVER = {"bandwidth_gbps": "positive"}
_BOTH_WAYS = {"bandwidth_gbps": "positive", "forward_gbps": "positive", "reverse_gbps": "positive"}
# perftest prints the message rate with six digits behind the point: few large messages a second show as 0.
_RDMA_BANDWIDTH = {"bandwidth_gbps": "positive", "message_rate_mpps": "nonnegative"}
_LATENCY = {
    "latency_average_us": "positive",
    "latency_p50_us": "positive",
    "latency_p99_us": "positive",
    "latency_p999_us": "positive",
    "latency_min_us": "positive",
    "latency_max_us": "positive",
    "observations": "positive_count",
}
_LATENCY_BOUNDED = ("latency_average_us", "latency_p50_us", "latency_p99_us", "latency_p999_us")
# How many packets of the size that was found were sent, and how many of them passed.
_PATH_MTU = {"path_mtu_bytes": "positive_count", "sent": "positive_count", "received": "count"}


def _tcp_bandwidth(name: str, title: str, asked: str) -> Check:
    return Check(
        name,
        title,
        ("bandwidth_gbps",),
        _BANDWIDTH_CLIENT,
        _BANDWIDTH_SERVER,
        tool="iperf3",
        asked=asked,
        lasts="iperf3_duration_s",
    )


def _rdma_bandwidth(
    name: str, title: str, tool: str, asked: str = "alone", server: bool = True, wanted: str = ""
) -> Check:
    both = dict(_RDMA_BANDWIDTH)
    return Check(
        name,
        title,
        ("bandwidth_gbps",),
        both,
        dict(both) if server else {},
        rdma=True,
        tool=tool,
        asked=asked,
        wanted=wanted,
        message="rdma_message_bytes",
    )


def _rdma_latency(name: str, title: str, tool: str) -> Check:
    return Check(
        name,
        title,
        _LATENCY_BOUNDED,
        dict(_LATENCY),
        rdma=True,
        tool=tool,
        counts="observations",
        message="sockperf_message_bytes",
    )


# Of each node by itself, and of all nodes together, as each of them sees it.
_of_node = partial(Check, source="node", asked="node")
_of_all = partial(Check, source="node", tool="torch", asked="group", wanted="collectives")
_BUSBW = {"busbw_GBps": "positive", "algbw_GBps": "positive", "size_bytes": "positive_count"}


def _collective(name: str, title: str) -> Check:
    return _of_all(name, title, ("busbw_GBps",), _BUSBW)


def _storage(name: str, title: str, *bounded: str) -> Check:
    return _of_node(
        name,
        title,
        bounded,
        {
            "bandwidth_bytes_per_s": "positive",
            "iops": "positive",
            "latency_average_us": "positive",
            "latency_p99_us": "positive",
        },
        tool="fio",
        wanted="storage_mounts",
        lasts="storage_duration_s",
    )


def _nccl(name: str, title: str) -> Check:
    return _of_node(
        name,
        title,
        ("busbw_GBps",),
        {**_BUSBW, "gpus": "positive_count"},
        tool="nccl-tests",
        wanted="nccl_tests_folder",
        least_gpus=2,
    )


def _copies(name: str, title: str, least_gpus: int, *bounded: str) -> Check:
    return _of_node(
        name,
        title,
        bounded,
        {**dict.fromkeys(bounded, "positive"), "gpus": "positive_count"},
        tool="nvbandwidth",
        wanted="nvbandwidth_folder",
        least_gpus=least_gpus,
    )


# How to read the version of each benchmark tool. perftest exits with 1 then, so the text decides.
TOOL_VERSIONS: Mapping[str, tuple[list[str], re.Pattern[str]]] = {
    "iperf3": (["iperf3", "--version"], re.compile(r"^iperf (\S+)", re.M)),
    "sockperf": (["sockperf", "--version"], re.compile(r"\bversion (\d[^\s-]*)", re.A)),
    "ping": (["ping", "-V"], re.compile(r"iputils[- ]s?(\S+)")),
    "fio": (["fio", "--version"], re.compile(r"^fio-(\S+)", re.M)),
    "smartctl": (["smartctl", "--version"], re.compile(r"^smartctl (\d\S*)", re.M)),
    "likwid-bench": (["likwid-bench", "-v"], re.compile(r"Version (\d\S*)", re.M)),
    "perftest": (["ib_write_bw", "--version"], re.compile(r"^Version: (\S+)", re.M)),
}

#: From the memory of one node's GPU into that of another's.
GPU_MEMORY = "rdma_gpu_bandwidth"
#: Without the traffic class and the service level that the other RDMA tests have.
DEFAULT_CLASS = "rdma_bandwidth_default_class"
# In the order in which they run, optional ones last: short tests that explain failures of the long ones come
# first.
TESTS: tuple[Check, ...] = (
    Check("path_mtu", "path MTU", (), dict(_PATH_MTU), tool="ping"),
    Check("path_mtu_one_way", "one-way path MTU", (), dict(_PATH_MTU), tool="udp_probe"),
    Check(
        "ping_rtt",
        "ping round trip",
        ("rtt_average_us", "rtt_max_us"),
        {
            "rtt_average_us": "positive",
            "rtt_min_us": "positive",
            "rtt_max_us": "positive",
            "rtt_mdev_us": "nonnegative",
            "loss_percent": "share",
        },
        tool="ping",
    ),
    _tcp_bandwidth("tcp_bandwidth", "TCP bandwidth", "alone"),
    Check(
        "tcp_latency",
        "one-way TCP latency",
        _LATENCY_BOUNDED,
        dict(_LATENCY),
        tool="sockperf",
        counts="observations",
        lasts="sockperf_duration_s",
        message="sockperf_message_bytes",
    ),
    Check(
        "tcp_bandwidth_bi",
        "TCP bandwidth of both directions",
        ("bandwidth_gbps", "forward_gbps", "reverse_gbps"),
        dict(_BOTH_WAYS),
        dict(_BOTH_WAYS),
        tool="iperf3",
        asked="both_ways",
        wanted="bidirectional",
        lasts="iperf3_duration_s",
    ),
    _tcp_bandwidth("tcp_bandwidth_concurrent", "TCP bandwidth of all rails at once", "together"),
    _rdma_bandwidth("rdma_bandwidth", "RDMA write bandwidth", "ib_write_bw"),
    # The server of a read does nothing and knows nothing: its HCA answers by itself.
    _rdma_bandwidth("rdma_read_bandwidth", "RDMA read bandwidth", "ib_read_bw", server=False),
    _rdma_bandwidth("rdma_send_bandwidth", "RDMA send bandwidth", "ib_send_bw"),
    _rdma_bandwidth(
        "rdma_bandwidth_unpinned",
        "RDMA write bandwidth without NUMA pinning",
        "ib_write_bw",
        wanted="numa_unpinned",
    ),
    _rdma_bandwidth(
        DEFAULT_CLASS,
        "RDMA write bandwidth in the port's default class",
        "ib_write_bw",
        wanted="rdma_default_class",
    ),
    _rdma_bandwidth(
        GPU_MEMORY, "RDMA write bandwidth of GPU memory", "ib_write_bw", wanted="gpudirect_perftest_folder"
    ),
    _rdma_bandwidth(
        "rdma_bandwidth_bi",
        "RDMA write bandwidth of both directions",
        "ib_write_bw",
        "both_ways",
        wanted="bidirectional",
    ),
    _rdma_bandwidth(
        "rdma_bandwidth_concurrent", "RDMA write bandwidth of all rails at once", "ib_write_bw", "together"
    ),
    _rdma_latency("rdma_latency", "one-way RDMA write latency", "ib_write_lat"),
    _rdma_latency("rdma_read_latency", "round-trip RDMA read latency", "ib_read_lat"),
    _rdma_latency("rdma_send_latency", "one-way RDMA send latency", "ib_send_lat"),
)
#: The subject of a test of all rails at once.
ALL_RAILS = "all rails"
# Tests of all nodes together, in order: source is "node", as each node writes a row, `asked` is "group"; the
# subject is a rail, or all of them.
GROUP_TESTS: tuple[Check, ...] = (
    _collective("collective_allreduce", "all-reduce of all nodes"),
    _collective("collective_allgather", "all-gather of all nodes"),
    _collective("collective_alltoall", "all-to-all of all nodes"),
    _of_all(
        "collective_training",
        "training job of all nodes",
        ("samples_per_s", "efficiency_percent"),
        {
            "samples_per_s": "positive",
            "alone_samples_per_s": "positive",
            "efficiency_percent": "positive",
            "communication_percent": "share",
        },
    ),
)
# Tests of each node alone, in order: source and `asked` are "node".
NODE_TESTS: tuple[Check, ...] = (
    _storage("storage_write", "drive's sequential write", "bandwidth_bytes_per_s"),
    _storage("storage_read", "drive's sequential read", "bandwidth_bytes_per_s"),
    _storage("storage_random_read", "drive's random read of 4 KiB", "iops", "latency_p99_us"),
    _storage("storage_sync_write", "drive's synchronous write of 4 KiB", "latency_p99_us", "iops"),
    # After the others: what a drive says when it has worked.
    _of_node(
        "storage_health",
        "drive's own word on its health",
        (),
        {"drives": "positive_count", "drives_read": "count"},
        tool="smartctl",
        wanted="storage_mounts",
        unless_off="storage_health",
    ),
    _of_node(
        "memory_bandwidth",
        "memory bandwidth of the slowest NUMA node",
        ("bandwidth_bytes_per_s",),
        {"bandwidth_bytes_per_s": "positive"},
        tool="likwid-bench",
        wanted="memory_bandwidth",
        lasts="memory_bandwidth_duration_s",
    ),
    _nccl("nccl_all_reduce", "all-reduce of a node's GPUs"),
    _nccl("nccl_all_gather", "all-gather of a node's GPUs"),
    _nccl("nccl_alltoall", "all-to-all of a node's GPUs"),
    _copies(
        "gpu_host_bandwidth",
        "copies between host and the slowest GPU",
        1,
        "host_to_gpu_GBps",
        "gpu_to_host_GBps",
    ),
    _copies("gpu_peer_bandwidth", "copies between the slowest pair of GPUs", 2, "peer_GBps"),
)
#: perftest's programs that `fabric_policy.rdma_tests` may list.
RDMA_TESTS = tuple(one.tool for one in TESTS if one.rdma and one.asked == "alone" and not one.wanted)


class TestClass(NamedTuple):
    """The class of a test's packets: traffic class (RoCE) and service level; None is the port's default."""

    traffic_class: Optional[int]  # noqa: UP045 - Python 3.9 on nodes evaluates it
    service_level: Optional[int]  # noqa: UP045 - as above

    def as_fields(self) -> dict[str, int]:
        """Return what a planned test says of it: only what is not the default."""
        return {name: value for name, value in self._asdict().items() if value is not None}

    def text(self) -> str:
        """Return it as an addition to a sentence; empty for the port's default class."""
        parts = []
        if self.traffic_class is not None:
            parts.append(f", in traffic class {self.traffic_class} (DSCP {self.traffic_class >> 2})")
        if self.service_level is not None:
            parts.append(f", in service level {self.service_level}")
        return "".join(parts)


def class_of(check: str, policy: Mapping[str, Any]) -> TestClass:
    """Return the class that a check's packets have by a run's policy; one of an earlier version knew none."""
    if check == DEFAULT_CLASS or not _RDMA.get(check):
        return TestClass(None, None)
    # Service level 0 is the default of perftest and of InfiniBand.
    return TestClass(policy.get("rdma_traffic_class"), policy.get("rdma_service_level") or None)


_RDMA = {one.name: one.rdma for one in TESTS}
#: Transports with RDMA tests.
RDMA_TRANSPORTS = ("roce", "infiniband", "efa")
#: Transports whose rails may have no IP address: their ends meet over the management network.
WITHOUT_IP = ("infiniband", "efa")
