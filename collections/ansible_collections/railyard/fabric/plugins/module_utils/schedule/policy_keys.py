# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys of `fabric_policy`: meaning, default and limits.

From it come the checks of the inventory (`plugin_utils/checks/policy.py`), the required keys of a test
schedule, and the table in docs/inventory.md (`python -m railyard.report.made_docs`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Key(NamedTuple):
    """One key; its unit is the end of its name.

    Attributes:
        default: its value where the inventory does not set it.
        meaning: for docs/inventory.md, in Markdown.
        kind: "whole" or "number" (within `least` and `most`), "switch", "path" (may be empty), "paths" (at
            most `most`), or "own": policy.py has its check.
        to_node: whether it is part of the test schedule.
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
    # The maximum is iperf3's limit.
    "iperf3_streams": Key(4, "TCP streams of such a test", "whole", 1, 128),
    "iperf3_omit_s": Key(1, "first seconds of such a test, left out of its result", "whole", 0, 600),
    "sockperf_duration_s": Key(2, "length of each TCP latency test", "whole", 1, 86400),
    # Sockperf's header; the largest UDP payload.
    "sockperf_message_bytes": Key(
        64, "message size of latency tests, also of RDMA, so that they are comparable", "whole", 14, 65507
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
    # The maximum is perftest's largest message.
    "rdma_message_bytes": Key(65536, "message of RDMA bandwidth tests", "whole", 1, 8388608),
    # As in ngc_multinode_perf, whose threshold is used (ngc_rdma_test.sh, default_qps).
    "rdma_qps": Key(4, "queue pairs of such a test", "whole", 1, 64),
    "rdma_traffic_class": Key(
        None,
        "traffic class of RDMA tests over Ethernet (DSCP times 4, plus the two bits of ECN). `null`: that of "
        "role roce_qos where the inventory configures it (106 with its defaults), else the port's default",
        "own",
        0,
        255,
    ),
    "rdma_service_level": Key(
        0, "service level of RDMA tests, on InfiniBand that of the subnet manager's QoS", "whole", 0, 15
    ),
    "rdma_default_class": Key(
        False,
        "also measure `ib_write_bw` without traffic class and service level, to compare the classes",
        "switch",
    ),
    "numa_pinning": Key(
        True, "RDMA tools and their memory on the NIC's NUMA node (in the row's `argv`)", "switch"
    ),
    "numa_unpinned": Key(
        False, "also measure `ib_write_bw` without pinning, to see the effect of pinning", "switch"
    ),
    "gpudirect_perftest_folder": Key(
        "",
        "folder on the nodes with an `ib_write_bw` the site built with CUDA, such as `/opt/perftest/bin`: "
        "RDMA between GPU memories is also measured ([gpu.md](gpu.md)); empty: it is not measured",
        "path",
    ),
    # More than the few packets of the rendezvous, which must not count as pings.
    "ping_count": Key(10, "pings of each pair and rail", "whole", 10, 100000),
    "ping_interval_s": Key(0.02, "time between two pings", "number", 0.002, 60),
    "path_mtu_probes": Key(5, "pings of the rail's full MTU, not to be fragmented", "whole", 1, 1000),
    "pattern": Key(
        "auto",
        "which nodes are tested with each other. `auto`: every pair, with every test, where that fits into "
        "`budget_min`; else every test in the first round, and the path and all rails at once with as many "
        "further nodes as fit, at least two in all, one of them on another leaf where leaves are declared. "
        "`all_pairs`: every pair, however long it takes. `k_regular`: each node with `partners` others. "
        "`ring`: each with the previous and the next in the inventory. `per_leaf`: every pair of nodes "
        "whose rails end at the same leaves. `across_leaves`: each node with one of another leaf, all at "
        "once",
        "own",
        to_node=False,
    ),
    "questions": Key(
        "every",
        "the tests of a pair. `every`: all tests. `together`: path MTU, and the bandwidth of all rails at "
        "once. `one_by_one`: path MTU, and the bandwidth of each rail alone",
        "own",
        to_node=False,
    ),
    "partners": Key(2, "other nodes per node with pattern `k_regular`", "whole", 1, 10000, to_node=False),
    "budget_min": Key(
        15,
        "time budget of the measurement with pattern `auto`, in minutes, without the start of the nodes' "
        "runners (0.15 s for each node)",
        "number",
        1,
        1440,
        to_node=False,
    ),
    "confirm": Key(
        2,
        "how often a test that looks bad (lost, unproven, failed, below its floor) is measured again "
        "before it counts as a failure; with 0 the first attempt decides",
        "whole",
        0,
        2,
    ),
    "adaptive_routing": Key(
        False,
        "whether the fabric sends packets of one connection by several paths (InfiniBand's adaptive routing, "
        "Spectrum-X): packets out of order are then reported and not judged",
        "switch",
    ),
    "baseline_tolerance": Key(
        0,
        "how far a passing number may be from the saved baseline: 0.1 is a tenth; 0 uses the noise margin of "
        "`railyard compare`",
        "number",
        0,
        4,
        to_node=False,
    ),
    "rendezvous_timeout_s": Key(8, "how long a node waits for its peer before a test", "number", 1, 3600),
    "first_rendezvous_timeout_s": Key(
        45, "the same before the first test, which nodes reach at different times", "number", 1, 3600
    ),
    "idle_bytes_per_s": Key(
        200000, "other traffic that the rail's counters may show during a test", "whole", 0, 10**12
    ),
    "allow_busy": Key(False, "also measure nodes that are busy with other work", "switch"),
    "busy_bytes_per_s": Key(
        5000000, "traffic on a rail from which a node counts as busy", "whole", 0, 10**12
    ),
    "collectives": Key(
        "none",
        "`torch`: also all-reduce on each rail alone and on all, all-gather and all-to-all, and a small "
        "training job, of all nodes together (docs/collectives.md)",
        "own",
    ),
    "collective_operations": Key(
        ["allreduce", "allgather", "alltoall"], "which of these; the training job is added to any", "own"
    ),
    "collective_backend": Key("gloo", "the backend: `gloo` over TCP, or `nccl` between GPUs", "own"),
    "collective_python": Key("/usr/bin/python3", "the interpreter on the nodes that has torch", "own"),
    "collective_duration_s": Key(5, "length of each collective test", "whole", 2, 3600),
    "collective_most_bytes": Key(67108864, "largest size of such an operation", "whole", 4096, 2**34),
    "lease_s": Key(
        90, "how long a node continues without a sign of life of the controller", "number", 10, 86400
    ),
    "slurm_job": Key(
        0,
        "the Slurm job that holds the nodes for this run: its steps do not make a node busy. 0 for none; "
        "`railyard validate --idle` sets it",
        "whole",
        0,
        2**32 - 1,
    ),
    "base_port": Key(18600, "first of the TCP ports for the runners and the tools", "whole", 1024, 60000),
    "beacon": Key(
        True,
        "check where each cable ends, by a broadcast of EtherType 0x88B5 on every Ethernet rail, and which "
        "node answers there; `false` where switches drop it on purpose",
        "switch",
        to_node=False,
    ),
    "lldp": Key(
        True,
        "compare the switch that LLDP reports with `leaf`, where the inventory has one; without LLDP frames "
        "it is `unmeasured`: `false` where the switches do not send LLDP",
        "switch",
        to_node=False,
    ),
    "bmc_check": Key(
        "tcp",
        "check that each declared `bmc_address` accepts a TCP connection at one of `bmc_tcp_ports`, from "
        "the controller and without login, once more after 10 s without an answer; one that refuses them "
        "all is `recorded`. `none` where the controller cannot reach their network (`rmcp`, of earlier "
        "versions, means `tcp`)",
        "own",
        to_node=False,
    ),
    "bmc_tcp_ports": Key([443, 22, 80], "ports of `bmc_check`, 1 to 8", "own", to_node=False),
    "bmc_timeout_s": Key(3, "time limit for the answer of a BMC", "number", 0.3, 30, to_node=False),
    "storage_mounts": Key(
        [],
        "mounts whose drives each node measures after the last round, such as `[/data]`; none by default, "
        "see [storage.md](storage.md)",
        "paths",
        0,
        16,
    ),
    "storage_duration_s": Key(10, "length of each of the four fio tests of a mount", "whole", 2, 3600),
    "storage_file_bytes": Key(
        4 << 30,
        "size of the scratch file on each mount; twice as much has to be free",
        "whole",
        64 << 20,
        1 << 42,
    ),
    "storage_health": Key(
        True, "also query the health of the drives below these mounts with smartctl", "switch"
    ),
    "memory_bandwidth": Key(
        False,
        "measure on each node, after the last round, how fast the CPUs of each NUMA node read its memory, "
        "see [memory.md](memory.md)",
        "switch",
    ),
    "memory_bandwidth_duration_s": Key(
        8, "length of that, shared among the NUMA nodes, at least a second each", "whole", 1, 3600
    ),
    "nccl_tests_folder": Key(
        "",
        "folder on the nodes with nccl-tests that the site built, such as `/opt/nccl-tests/build`: each node "
        "runs all-reduce, all-gather and all-to-all on its GPUs after the last round, see [gpu.md](gpu.md); "
        "empty: not measured",
        "path",
    ),
    "nccl_tests_most_bytes": Key(
        1 << 30, "the largest size of these; they begin at 8 bytes and double", "whole", 1 << 20, 1 << 36
    ),
    "nvbandwidth_folder": Key(
        "", "the same for nvbandwidth: each node copies between host and GPUs, and between its GPUs", "path"
    ),
    "floors": Key(
        {},
        "thresholds of the site, `{check: {metric: [floor, ceiling or null]}}`, see below",
        "own",
        to_node=False,
    ),
}
