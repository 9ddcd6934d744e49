# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Plans and verdicts of two ConnectX-3 nodes, with the numbers that the cluster's owner measured by hand.

4554.47 "MB/sec" of ib_write_bw are 38.2 Gbit/s; iperf3 gave 27.4. The medians: sockperf 21.622 us,
ib_write_lat 0.85 us.
"""

from __future__ import annotations

from typing import Any

WRITE_GBPS = 4554.47 * 2**20 * 8 / 1e9
TOOLS = {"tcp_bandwidth": "iperf3", "tcp_latency": "sockperf", "rdma_latency": "ib_write_lat"}
A, B = "gpuserver1", "gpuserver2"


def plan(
    nodes: tuple[str, ...] = (A, B), rails: int = 2, rate_gbps: float | None = 40.0, **others: Any
) -> dict[str, Any]:
    return {
        "transport": "roce",
        "node_class": "hardware",
        "nodes": {
            name: {"rails": [{"name": f"rail{rail}", "rate_gbps": rate_gbps} for rail in range(rails)]}
            for name in nodes
        },
        **others,
    }


def verdict(check: str, node: str = A, peer: str | None = B, rail: str | None = "rail0", **fields: Any):
    return {
        "id": "m00000",
        "check": check,
        "tool": TOOLS.get(check, "ib_write_bw" if check.startswith("rdma") else "iperf3"),
        "node": node,
        "peer": peer,
        "rail": rail,
        "direction": "bi" if check.endswith("_bi") else "uni",
        "outcome": "pass",
        "observed": {},
        "proof": "proven",
        **fields,
    }


def bandwidth(check: str, gbps: float, cpu: float = 30.0, peer_cpu: float = 40.0, **fields: Any):
    seen = {"bandwidth_gbps": gbps, "node_cpu_percent": cpu, "peer_node_cpu_percent": peer_cpu}
    return verdict(check, observed=seen, **fields)


def latency(check: str, median_us: float, **fields: Any):
    # The average is far off on purpose: one slow observation moves it, and only medians are compared.
    return verdict(
        check, observed={"latency_p50_us": median_us, "latency_average_us": 10 * median_us}, **fields
    )


def way(node: str = A, peer: str = B, rail: str = "rail0", **fields: Any) -> list[dict[str, Any]]:
    """One sender's verdicts over one rail."""
    at = {"node": node, "peer": peer, "rail": rail, **fields}
    return [
        bandwidth("tcp_bandwidth", 27.4, 35.0, 41.0, **at),
        latency("tcp_latency", 21.622, **at),
        bandwidth("rdma_bandwidth", WRITE_GBPS, 4.1, 0.0, **at),
        latency("rdma_latency", 0.85, **at),
    ]


def change(verdicts: list[dict[str, Any]], check: str, **fields: Any) -> list[dict[str, Any]]:
    """Return verdicts in which those of a check, or of all checks that begin so, are changed."""
    return [{**one, **fields} if one["check"].startswith(check) else one for one in verdicts]


def all_verdicts() -> list[dict[str, Any]]:
    """Two nodes, two rails, each way, both ways at once, all rails at once."""
    verdicts = [verdict("rdma_port", peer=None, direction="local")]
    for rail in ("rail0", "rail1"):
        verdicts += way(A, B, rail) + way(B, A, rail)
        verdicts += [bandwidth("tcp_bandwidth_bi", 50.0, rail=rail)]
        verdicts += [bandwidth("rdma_bandwidth_bi", 75.0, rail=rail)]
    for node, peer in ((A, B), (B, A)):
        at = {"node": node, "peer": peer}
        for rail, cpu in (("rail0", 50.0), ("rail1", 54.0)):
            verdicts += [bandwidth("tcp_bandwidth_concurrent", 25.0, cpu, 60.0, rail=rail, **at)]
            verdicts += [bandwidth("rdma_bandwidth_concurrent", 28.0, 5.0, 1.0, rail=rail, **at)]
        verdicts += [verdict("aggregate_bandwidth", rail=None, observed={"bandwidth_gbps": 50.0}, **at)]
        verdicts += [verdict("rdma_aggregate_bandwidth", rail=None, observed={"bandwidth_gbps": 57.0}, **at)]
    return verdicts
