# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The site's policy: bad input is named by its key, all at once."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy


@pytest.mark.parametrize(
    ("user", "said"),
    [
        ([], "fabric_policy must be a mapping"),
        ("fast", "fabric_policy must be a mapping"),
        ({"iperf_duration": 4}, "fabric_policy.iperf_duration is not known"),
        ({"iperf3_duration_s": "4"}, "fabric_policy.iperf3_duration_s must be a number"),
        ({"iperf3_duration_s": True}, "fabric_policy.iperf3_duration_s must be a number"),
        ({"iperf3_duration_s": -1}, "fabric_policy.iperf3_duration_s must be within 1 and"),
        ({"iperf3_duration_s": 0}, "fabric_policy.iperf3_duration_s must be within 1 and"),
        ({"iperf3_duration_s": 1.5}, "must be a whole number"),
        # A rendezvous was seen to send 4 packets between the two readings of the counters.
        ({"ping_count": 4}, "fabric_policy.ping_count must be within 10 and"),
        ({"ping_interval_s": float("nan")}, "fabric_policy.ping_interval_s must be a number"),
        ({"ping_interval_s": float("inf")}, "fabric_policy.ping_interval_s must be a number"),
        ({"allow_busy": "yes"}, "fabric_policy.allow_busy must be true or false"),
        ({"base_port": 80}, "fabric_policy.base_port must be within 1024"),
        ({"rdma_tests": []}, "declare transport: tcp"),
        ({"rdma_tests": "ib_write_bw"}, "fabric_policy.rdma_tests must be a list"),
        ({"rdma_tests": [1]}, "fabric_policy.rdma_tests must be a list"),
        ({"rdma_tests": ["ib_atomic_bw"]}, "fabric_policy.rdma_tests lists 'ib_atomic_bw'"),
        ({"rdma_tests": ["ib_write_bw", "ib_write_bw"]}, "fabric_policy.rdma_tests lists ib_write_bw twice"),
        ({"collective_operations": "allgather"}, "fabric_policy.collective_operations must be a list of all"),
        (
            {"collective_operations": ["scatter"]},
            "fabric_policy.collective_operations lists 'scatter'",
        ),
        ({"bidirectional": 1}, "fabric_policy.bidirectional must be true or false"),
        ({"numa_pinning": None}, "fabric_policy.numa_pinning must be true or false"),
        ({"rdma_duration_s": 2}, "fabric_policy.rdma_duration_s must be within 3 and"),
        ({"rdma_duration_s": 4, "rdma_margin_s": 2}, "leaves 0 s to measure"),
        ({"rdma_margin_s": 0}, "fabric_policy.rdma_margin_s must be within 1 and"),
        ({"rdma_latency_s": 10.5}, "fabric_policy.rdma_latency_s must be within 0.2 and 10"),
        ({"rdma_message_bytes": 8388609}, "fabric_policy.rdma_message_bytes must be within 1 and"),
        ({"rdma_traffic_class": 256}, "fabric_policy.rdma_traffic_class must be within 0 and 255"),
        ({"rdma_traffic_class": 26.5}, "fabric_policy.rdma_traffic_class must be a whole number"),
        ({"rdma_traffic_class": "af31"}, "fabric_policy.rdma_traffic_class must be a number"),
        ({"rdma_service_level": 16}, "fabric_policy.rdma_service_level must be within 0 and 15"),
        ({"rdma_qps": 65}, "fabric_policy.rdma_qps must be within 1 and 64"),
        ({"floors": {"rdma_port": {"x": [0, 1]}}}, "fabric_policy.floors.rdma_port is not a check"),
        ({"floors": {"link_errors": {"errors": [0, 9]}}}, "fabric_policy.floors.link_errors is not a check"),
        ({"floors": []}, "fabric_policy.floors must be a mapping"),
        ({"floors": {"link": {"x": [0, 1]}}}, "fabric_policy.floors.link is not a check"),
        ({"floors": {"tcp_bandwidth": {}}}, "fabric_policy.floors.tcp_bandwidth must map"),
        (
            {"floors": {"tcp_bandwidth": {"mbps": [1, 2]}}},
            "fabric_policy.floors.tcp_bandwidth.mbps is not a metric",
        ),
        ({"floors": {"tcp_bandwidth": {"bandwidth_gbps": 30}}}, r"must be \[floor, ceiling"),
        (
            {"floors": {"tcp_bandwidth": {"bandwidth_gbps": [-1, 2]}}},
            "a floor that is a number of at least 0",
        ),
        ({"floors": {"tcp_bandwidth": {"bandwidth_gbps": ["1", 2]}}}, "a floor that is a number"),
        ({"floors": {"tcp_bandwidth": {"bandwidth_gbps": [3, 2]}}}, "a ceiling above the floor"),
        ({"floors": {"tcp_bandwidth": {"bandwidth_gbps": [3, float("nan")]}}}, "a ceiling above the floor"),
        *(
            ({"nccl_tests_folder": folder}, "nccl_tests_folder")
            for folder in ("opt/nccl", "/opt//nccl", "/opt/nccl/", ["/opt"], 3, None)
        ),
        # Tools do not see these.
        *(
            ({"gpudirect_perftest_folder": folder}, "gpudirect_perftest_folder")
            for folder in ("bin", "/opt/../bin", "/home/ops/perftest", "/tmp", 5, ["/opt"])
        ),
        (
            {"gpudirect_perftest_folder": "/opt/x", "rdma_tests": ["ib_read_bw"]},
            "rdma_tests does not list",
        ),
        *(
            ({"storage_mounts": mounts}, "at most 16 absolute paths")
            for mounts in ("/data", [1], [f"/{number}" for number in range(17)])
        ),
        ({"storage_mounts": ["data"]}, "'data'; write an absolute path"),
        ({"storage_mounts": ["/data/"]}, "'/data/'; write an absolute path"),
        ({"storage_mounts": ["/a/../data"]}, "write an absolute path"),
        ({"storage_mounts": ["/da\nta"]}, "write an absolute path"),
        ({"storage_mounts": ["/data", "/data"]}, "lists /data twice"),
        ({"bmc_check": "ipmi"}, "bmc_check must be one of tcp, none, rmcp, not 'ipmi'"),
        ({"bmc_check": None}, "bmc_check must be"),
        ({"bmc_check": ["rmcp"]}, "bmc_check must be"),
        ({"bmc_tcp_ports": []}, "bmc_tcp_ports must list 1 to 8 TCP ports"),
        *(
            ({"bmc_tcp_ports": ports}, "bmc_tcp_ports must list")
            for ports in ([0], [True], 443, list(range(1, 10)))
        ),
        ({"bmc_timeout_s": 0}, "bmc_timeout_s must be within"),
    ],
)
def test_bad_policy_names_its_key(user: Any, said: str) -> None:
    with pytest.raises(policy.PolicyError, match=said):
        policy.merge(user)


def test_all_policy_problems_come_at_once_and_the_default_stays_clean() -> None:
    before = copy.deepcopy(policy.DEFAULT)
    with pytest.raises(policy.PolicyError) as caught:
        policy.merge({"a": 1, "ping_count": -1, "floors": {"x": {}}})
    assert len(caught.value.problems) == 3
    merged = policy.merge({"floors": {"ping_rtt": {"rtt_max_us": [0, 5]}}})
    merged["floors"]["tcp_latency"] = {}
    merged["rdma_tests"].append("ib_read_bw")
    assert before == policy.DEFAULT
    assert policy.merge(None) == before
    assert policy.merge({"gpudirect_perftest_folder": ""}) == before
