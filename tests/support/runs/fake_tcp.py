# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of TCP, ping and path MTU say in a healthy run, by hand."""

from __future__ import annotations

from typing import Any

from support.runs.fake_rdma import FRAME_BYTES_PER_S
from support.runs.fake_rdma import counters as _counters


def measured(check: str, end: str) -> tuple[dict[str, Any], dict[str, Any], list[float] | None]:
    """Return metrics, counters and window of an end's row."""
    if check in ("tcp_bandwidth", "tcp_bandwidth_concurrent"):
        # 0.95 Gbit/s of payload for 4 s, after 1 s that iperf3 leaves out.
        second = FRAME_BYTES_PER_S
        metrics: dict[str, Any] = {
            "bandwidth_gbps": 0.95,
            "sent_gbps": 0.951,
            "retransmits": 3,
            "cpu_percent": 20.0 if end == "client" else 63.0,
            "node_cpu_percent": 31.0,
        }
        return metrics, _counters(end, int(5.2 * second), 80000, 40000), [1.1, 5.1]
    if check == "tcp_bandwidth_bi":
        metrics = {"bandwidth_gbps": 1.9, "forward_gbps": 0.95, "reverse_gbps": 0.95, "retransmits": 3}
        moved = int(5.2 * FRAME_BYTES_PER_S)
        return metrics, _counters(end, moved, 80000, 80000, moved), [1.1, 5.1]
    if check == "tcp_latency":
        metrics = {
            "latency_average_us": 21.0,
            "latency_p50_us": 20.5,
            "latency_p99_us": 30.0,
            "latency_p999_us": 55.0,
            "latency_min_us": 15.0,
            "latency_max_us": 110.0,
            "observations": 40000,
        }
        return (metrics if end == "client" else {}), _counters(end, 5200000, 41000, 41000), [0.1, 2.1]
    if check == "ping_rtt":
        metrics = {
            "rtt_average_us": 80.0,
            "rtt_min_us": 60.0,
            "rtt_max_us": 120.0,
            "rtt_mdev_us": 11.0,
            "loss_percent": 0.0,
        }
        return (metrics if end == "client" else {}), _counters(end, 1200, 12, 12), [0.0, 0.3]
    metrics = {"path_mtu_bytes": 9000, "sent": 5, "received": 5}
    echoed = 45500
    if check == "path_mtu_one_way":
        echoed = 400
    return (metrics if end == "client" else {}), _counters(end, 46000, 7, 6, echoed), [0.0, 0.2]


def samples(end: str) -> dict[str, list[Any]]:
    """Return what had arrived by the netdev, read five times a second while an end sent or received."""
    times = [round(0.2 * step, 1) for step in range(29)]
    moved = [int(1000 + min(time, 5.2) * FRAME_BYTES_PER_S) for time in times]
    return {"t_s": times, "rx_bytes": [7 for _time in times] if end == "client" else moved}
