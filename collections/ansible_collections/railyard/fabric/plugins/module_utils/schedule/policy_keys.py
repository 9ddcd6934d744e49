# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys of `fabric_policy`: what each means, its default and what it may be.

Derived of it: how the inventory's are checked (`plugin_utils/checks/policy.py`), what a work order must have,
and the table in docs/inventory.md (`python -m railyard.report.made_docs`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Key(NamedTuple):
    """One key; its unit is the end of its name.

    Attributes:
        default: its value where the inventory is silent.
        meaning: for docs/inventory.md, in Markdown.
        kind: "whole" or "number" (within `least` and `most`), "switch", "path" (may be empty), "paths" (at
            most `most`), or "own": policy.py has its check.
        to_node: whether it is part of the work order.
    """

    default: Any
    meaning: str
    kind: str
    least: float = 0
    most: float = 0
    to_node: bool = True


# The limits keep a typing error from becoming an endless or empty test.
KEYS: Mapping[str, Key] = {
    "iperf3_duration_s": Key(4, "length of each TCP bandwidth test", "whole", 1, 86400),
    # The most is iperf3's own limit.
    "iperf3_streams": Key(4, "TCP streams of such a test", "whole", 1, 128),
    "iperf3_omit_s": Key(1, "first seconds of such a test, left out of its result", "whole", 0, 600),
    "sockperf_duration_s": Key(2, "length of each TCP latency test", "whole", 1, 86400),
    # Sockperf's header; the largest UDP payload.
    "sockperf_message_bytes": Key(
        64, "message of latency tests, RDMA's too, so that like is compared with like", "whole", 14, 65507
    ),
    "bidirectional": Key(
        True, "also both directions at once, once per pair and rail, for TCP and RDMA", "switch"
    ),
    "rdma_tests": Key(
        ["ib_write_bw", "ib_write_lat"],
        "perftest's tests between nodes whose transport is RDMA; also `ib_read_bw`, `ib_send_bw`, "
        "`ib_read_lat`, `ib_send_lat`",
        "own",
    ),
    "rdma_duration_s": Key(4, "length of each RDMA bandwidth test", "whole", 3, 3600),
    "rdma_margin_s": Key(
        1,
        "seconds at both ends of such a test, left out of its result; at least 1 s must be left",
        "whole",
        1,
        3600,
    ),
    "rdma_latency_s": Key(2, "length of each RDMA latency test", "number", 0.2, 10),
    # The most is perftest's own largest message.
    "rdma_message_bytes": Key(65536, "message of RDMA bandwidth tests", "whole", 1, 8388608),
    # What ngc_multinode_perf, whose floor it is, gives a device (ngc_rdma_test.sh, default_qps).
    "rdma_qps": Key(4, "queue pairs of such a test", "whole", 1, 64),
    "rdma_traffic_class": Key(
        None,
        "traffic class of RDMA tests over Ethernet (DSCP times 4, plus the two bits of ECN). `null`: that of "
        "role roce_qos where the inventory asks for it (106 with its defaults), else the port's default",
        "own",
        0,
        255,
    ),
    "rdma_service_level": Key(
        0, "service level of RDMA tests, on InfiniBand that of the subnet manager's QoS", "whole", 0, 15
    ),
    "rdma_default_class": Key(
        False,
        "measure `ib_write_bw` without traffic class and service level as well, to see whether the classes "
        "differ",
        "switch",
    ),
    "numa_pinning": Key(
        True, "RDMA tools and their memory on the NIC's NUMA node (in the row's `argv`)", "switch"
    ),
    "numa_unpinned": Key(
        False, "measure `ib_write_bw` without pinning as well, to see what pinning is worth", "switch"
    ),
    "gpudirect_perftest_folder": Key(
        "",
        "folder on the nodes with an `ib_write_bw` the site built with CUDA, such as `/opt/perftest/bin`: "
        "RDMA between GPUs' memories is measured, too ([gpu.md](gpu.md)); empty: it is not asked",
        "path",
    ),
    # The rendezvous' own few packets must not pass for pings.
    "ping_count": Key(10, "pings of each pair and rail", "whole", 10, 100000),
    "ping_interval_s": Key(0.02, "time between two pings", "number", 0.002, 60),
    "path_mtu_probes": Key(5, "pings of the rail's full MTU, not to be fragmented", "whole", 1, 1000),
    "pattern": Key(
        "auto",
        "which nodes meet. `auto`: every pair, with every test, where that fits `budget_min`; else every "
        "test in the first round, and the path and all rails at once with as many further nodes as fit, two "
        "in all at least, one of them of another leaf where leaves are declared. `all_pairs`: every pair, "
        "whatever it takes. `k_regular`: each node with `partners` others. `ring`: each with the one before "
        "and after it in the inventory. `per_leaf`: every pair of nodes whose rails end at the same leaves. "
        "`across_leaves`: each node with one of other leaves, all at once",
        "own",
        to_node=False,
    ),
    "questions": Key(
        "every",
        "what a pair is asked. `every`: all tests. `together`: path MTU, and what all rails carry at once. "
        "`one_by_one`: path MTU, and what each rail carries alone",
        "own",
        to_node=False,
    ),
    "partners": Key(2, "others that a node meets by pattern `k_regular`", "whole", 1, 10000, to_node=False),
    "budget_min": Key(
        15, "minutes that measuring may take by pattern `auto`", "number", 1, 1440, to_node=False
    ),
    "confirm": Key(
        2,
        "how often a test that looks bad (lost, unproven, failed, below its floor) is measured again "
        "before it counts as a failure; 0 takes the first attempt's word",
        "whole",
        0,
        2,
    ),
    "adaptive_routing": Key(
        False,
        "whether the fabric sends packets of one connection by several paths (InfiniBand's adaptive routing, "
        "Spectrum-X): those that arrive out of order are then reported and not judged",
        "switch",
    ),
    "baseline_tolerance": Key(
        0,
        "how far a number may lie from the saved baseline's and pass: 0.1 is a tenth; 0 takes the noise "
        "margin of `railyard compare`",
        "number",
        0,
        4,
        to_node=False,
    ),
    "rendezvous_timeout_s": Key(8, "how long a node waits for its peer before a test", "number", 1, 3600),
    "first_rendezvous_timeout_s": Key(
        45, "the same before the first test, to which nodes come at different times", "number", 1, 3600
    ),
    "idle_bytes_per_s": Key(
        200000, "load beside a test that the rail's counters may show", "whole", 0, 10**12
    ),
    "allow_busy": Key(False, "measure nodes that are busy with something else, too", "switch"),
    "busy_bytes_per_s": Key(5000000, "load on a rail from which a node is busy", "whole", 0, 10**12),
    "collectives": Key(
        "none",
        "`torch`: also all-reduce on each rail alone and on all, all-gather and all-to-all, and a small "
        "training job, of all nodes together (docs/collectives.md)",
        "own",
    ),
    "collective_operations": Key(
        ["allreduce", "allgather", "alltoall"], "which of these; the training job comes with any", "own"
    ),
    "collective_backend": Key("gloo", "by what: `gloo` over TCP, or `nccl` between GPUs", "own"),
    "collective_python": Key("/usr/bin/python3", "the interpreter on the nodes that has torch", "own"),
    "collective_duration_s": Key(5, "length of each collective test", "whole", 2, 3600),
    "collective_most_bytes": Key(67108864, "greatest size of such an operation", "whole", 4096, 2**34),
    "lease_s": Key(90, "how long a node goes on without a word from the controller", "number", 10, 86400),
    "slurm_job": Key(
        0,
        "the Slurm job that holds the nodes for this run: its steps do not make a node busy. 0 for none; "
        "`railyard validate --idle` sets it",
        "whole",
        0,
        2**32 - 1,
    ),
    "base_port": Key(18600, "first of the ports that nodes meet at and tools use", "whole", 1024, 60000),
    "beacon": Key(
        True,
        "where each cable ends, by a broadcast of EtherType 0x88B5 on every Ethernet rail, and who "
        "answers there; `false` where switches are meant to drop it",
        "switch",
        to_node=False,
    ),
    "lldp": Key(
        True,
        "whether the switch that LLDP names is held against `leaf`, where the inventory names one; a silent "
        "one is `unmeasured`: `false` where the switches do not speak LLDP",
        "switch",
        to_node=False,
    ),
    "bmc_check": Key(
        "tcp",
        "whether each declared `bmc_address` takes a TCP connection at one of `bmc_tcp_ports`, tried "
        "by the controller without logging in, and once more after 10 s where nothing is heard; one "
        "that refuses them all is `recorded`. `none` where the controller does not reach their "
        "network (`rmcp`, of earlier versions, means `tcp`)",
        "own",
        to_node=False,
    ),
    "bmc_tcp_ports": Key([443, 22, 80], "ports of `bmc_check`, 1 to 8", "own", to_node=False),
    "bmc_timeout_s": Key(3, "how long a BMC has for its answer", "number", 0.3, 30, to_node=False),
    "storage_mounts": Key(
        [],
        "mounts whose drives each node measures by itself after the last round, such as `[/data]`; none "
        "unless they are named, see [storage.md](storage.md)",
        "paths",
        0,
        16,
    ),
    "storage_duration_s": Key(10, "length of each of fio's four tests of a mount", "whole", 2, 3600),
    "storage_file_bytes": Key(
        4 << 30,
        "size of the scratch file below each mount; twice as much has to be free",
        "whole",
        64 << 20,
        1 << 42,
    ),
    "storage_health": Key(
        True,
        "whether the drives below these mounts are also asked by smartctl what they say of their own health",
        "switch",
    ),
    "memory_bandwidth": Key(
        False,
        "whether each node measures by itself, after the last round, what the CPUs of each NUMA node read of "
        "its memory, see [memory.md](memory.md)",
        "switch",
    ),
    "memory_bandwidth_duration_s": Key(
        8, "length of that, shared among the NUMA nodes, a second each at least", "whole", 1, 3600
    ),
    "nccl_tests_folder": Key(
        "",
        "folder on the nodes, such as `/opt/nccl-tests/build`, with nccl-tests as the site built them: "
        "each node has its GPUs do all-reduce, all-gather and all-to-all by itself after the last round, see "
        "[gpu.md](gpu.md); empty: not asked",
        "path",
    ),
    "nccl_tests_most_bytes": Key(
        1 << 30,
        "the greatest size of these; smaller ones from 8 bytes on, double each",
        "whole",
        1 << 20,
        1 << 36,
    ),
    "nvbandwidth_folder": Key(
        "",
        "the same of nvbandwidth: each node copies between host and GPUs, and between its GPUs",
        "path",
    ),
    "floors": Key(
        {},
        "the site's own bounds, `{check: {metric: [floor, ceiling or null]}}`, see below",
        "own",
        to_node=False,
    ),
}
