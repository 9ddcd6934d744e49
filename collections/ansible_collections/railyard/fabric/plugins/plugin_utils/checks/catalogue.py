# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of checks: the source of each check's answer, and the metrics that each end must report.

Policy (which metrics may have thresholds), the row reader (which metrics must be present) and the default
thresholds all read this one table.
"""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import (
    GROUP_TESTS,
    NODE_TESTS,
    TESTS,
    Check,
)
from ansible_collections.railyard.fabric.plugins.module_utils.rules import ruling

#: The source of an answer: a node's facts row, the two rows of a test, the error counters in the rows of all
#: tests of a rail, the sum of tests that ran at the same time, beacons and LLDP on the rails, the latencies
#: of all tests of a rail, the controller's connection to a node's BMC, the facts of a node's GPUs, or the
#: single row of a test that a node runs by itself.
SOURCES = ("facts", "test", "counters", "sum", "cabling", "hops", "bmc", "gpus", "node")

CHECKS: dict[str, Check] = {
    check.name: check
    for check in (
        Check("link", "link state", source="facts"),
        Check("address", "address", source="facts"),
        Check("mtu", "MTU", source="facts"),
        Check("rdma_port", "RDMA port", source="facts", rdma=True),
        Check("rdma_gid", "RDMA GID", source="facts", rdma=True),
        Check("rdma_mtu", "RDMA MTU", source="facts", rdma=True),
        Check("rdma_pkeys", "P_Keys", source="facts", rdma=True),
        *TESTS,
        *GROUP_TESTS,
        *NODE_TESTS,
        Check("link_errors", "link errors", source="counters"),
        Check("cabling", "cabling", source="cabling"),
        Check("link_address_owner", "owner of the address", source="cabling"),
        Check("reply_path", "path of replies", source="cabling"),
        Check("neighbour", "switch at the cable's end", source="cabling"),
        Check("hops", "switches on the path", source="hops", rdma=True),
        Check("bmc", "BMC", source="bmc"),
        Check("gpu_count", "number of GPUs", source="gpus"),
        Check("gpu_kind", "GPU model and driver", source="gpus"),
        Check("gpu_xid", "XIDs of the GPUs", source="gpus"),
        Check("gpu_memory", "GPU memory", source="gpus"),
        Check("gpu_slowdown", "slowdown of the GPUs", source="gpus"),
        Check("gpu_power", "GPU power limit", source="gpus"),
        Check("gpu_pcie", "PCIe of the GPUs", source="gpus"),
        Check("gpu_nvlink", "NVLinks", source="gpus"),
        Check("gpu_nic", "GPUs near each rail's NIC", source="gpus"),
        Check("aggregate_bandwidth", "aggregate bandwidth", ("bandwidth_gbps",), source="sum"),
        Check(
            "rdma_aggregate_bandwidth",
            "aggregate RDMA bandwidth",
            ("bandwidth_gbps",),
            source="sum",
            rdma=True,
        ),
    )
}

#: Checks that fail when the probe fails: a jumbo packet that does not arrive is a finding about the path,
#: while an iperf3 that dies only leaves the bandwidth unknown.
PROBES = ("path_mtu", "path_mtu_one_way", "ping_rtt")

#: TCP from client to server; both directions at once is another check.
BANDWIDTH = ("tcp_bandwidth", "tcp_bandwidth_concurrent")
RDMA_BANDWIDTH = tuple(
    one.name for one in TESTS if one.rdma and "bandwidth_gbps" in one.client and one.asked != "both_ways"
)
TCP_BANDWIDTH = (*BANDWIDTH, "tcp_bandwidth_bi")
PATH_MTU = ("path_mtu", "path_mtu_one_way")
#: Both directions at once: `bandwidth_gbps` is their sum, at both ends.
BI = ("tcp_bandwidth_bi", "rdma_bandwidth_bi")
RDMA_LATENCY = tuple(one.name for one in TESTS if one.rdma and "latency_p50_us" in one.client)
#: The required `latency_is` of a row: the peer answers a read, so its time is that of a round trip.
LATENCY_IS = {
    "tcp_latency": "one_way",
    "rdma_latency": "one_way",
    "rdma_send_latency": "one_way",
    "rdma_read_latency": "round_trip",
}
#: Aggregate -> the concurrent check whose tests it adds up.
AGGREGATES = {
    "aggregate_bandwidth": "tcp_bandwidth_concurrent",
    "rdma_aggregate_bandwidth": "rdma_bandwidth_concurrent",
}

PASS, FAIL, UNMEASURED = ruling.PASS, ruling.FAIL, ruling.UNMEASURED
NOT_APPLICABLE, RECORDED = ruling.NOT_APPLICABLE, ruling.RECORDED
OUTCOMES = (PASS, FAIL, UNMEASURED, NOT_APPLICABLE, RECORDED)
#: Worst first: a rail, pair or node with several verdicts is shown as the worst.
OUTCOMES_WORST_FIRST = (FAIL, UNMEASURED, RECORDED, PASS, NOT_APPLICABLE)
