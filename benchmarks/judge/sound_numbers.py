"""What the rows of a sound run say: numbers near what such cards reach, drawn with a fixed seed."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

Row = dict[str, Any]

MTU = 9000
#: check -> Gbit/s of one direction; tests of both directions at once carry a little less each way.
GBPS = {
    "tcp_bandwidth": 92.0,
    "tcp_bandwidth_bi": 88.0,
    "tcp_bandwidth_concurrent": 91.0,
    "rdma_bandwidth": 96.5,
    "rdma_bandwidth_bi": 95.0,
    "rdma_bandwidth_concurrent": 96.0,
}
#: What a frame carries beside TCP's payload, and beside RDMA's.
TCP_FRAMES, RDMA_FRAMES = 9014 / 8948, 4174 / 4096


class Numbers:
    """Draws the numbers of one test after the other.

    Args:
        rules: the merged policy.
        drawn: where they are drawn from.
    """

    def __init__(self, rules: Mapping[str, Any], drawn: random.Random) -> None:
        self._rules, self._drawn = rules, drawn

    def draw_test(self, check: str) -> tuple[dict[str, Row], Any, Any, list[float], dict[str, Row]]:
        """Return metrics of both ends; (bytes, packets) each way; the window; further fields of both ends."""
        near = self._drawn.gauss(1.0, 0.004)
        near = min(max(near, 0.985), 1.015)
        window = [round(1.02 + 0.02 * near, 4), round(5.03 + 0.01 * near, 4)]
        if check in GBPS and not check.startswith("rdma"):
            return self._tcp(check, GBPS[check] * near, window)
        if check in GBPS:
            return self._rdma(check, GBPS[check] * near)
        client: Row
        if check in ("tcp_latency", "rdma_latency"):
            middle, count = (14.0, 60000) if check == "tcp_latency" else (1.9, 100000)
            client = {
                "latency_average_us": round(middle * near * 1.04, 3),
                "latency_min_us": round(middle * 0.9, 3),
                "latency_p50_us": round(middle * near, 3), "latency_p99_us": round(middle * near * 1.6, 3),
                "latency_p999_us": round(middle * near * 2.5, 3), "latency_max_us": round(middle * 9, 3),
                "observations": count,
            }  # fmt: skip
            said = {"latency_is": "one_way", "message_bytes": 64}
            if check == "rdma_latency":
                said |= {"qps": 4}
            window = [0.1, 2.15]
            server = {key: value for key, value in said.items() if key != "latency_is"}
            size = (int(count * 1.05) * 130, int(count * 1.05))
            return {"client": client, "server": {}}, size, size, window, {"client": said, "server": server}
        nothing: dict[str, Row] = {"client": {}, "server": {}}
        if check == "ping_rtt":
            client = {
                "rtt_average_us": round(60 * near, 1), "rtt_min_us": 40.0, "rtt_max_us": 95.0,
                "rtt_mdev_us": 9.0, "loss_percent": 0.0,
            }  # fmt: skip
            return {"client": client, "server": {}}, (1300, 12), (1300, 12), [0.0, 0.3], nothing
        client = {"path_mtu_bytes": MTU, "sent": 5, "received": 5}
        size = (45900, 8)
        return (
            {"client": client, "server": {}},
            size,
            (500, 5) if "one" in check else size,
            [0.0, 0.2],
            nothing,
        )

    def _tcp(self, check: str, gbps: float, window: list[float]) -> Any:
        numbers: Row = {"bandwidth_gbps": round(gbps, 6), "sent_gbps": round(gbps * 1.0004, 6)}
        size = int(gbps * 1e9 / 8 * 5.1 * TCP_FRAMES)
        moved, back = (size, size // 9014), (size // 300, size // 300 // 70)
        if check == "tcp_bandwidth_bi":
            numbers = {"bandwidth_gbps": round(gbps, 6) * 2, "forward_gbps": round(gbps, 6)}
            numbers |= {"reverse_gbps": round(gbps, 6)}
            back = moved
        client = {**numbers, "retransmits": 3, "cpu_percent": 61.5, "node_cpu_percent": 4.2}
        server = {**numbers, "retransmits": None, "cpu_percent": 72.25, "node_cpu_percent": 4.9}
        if check != "tcp_bandwidth_bi":
            server["sent_gbps"] = None
        said = {"streams": self._rules["iperf3_streams"], "message_bytes": 131072}
        if check == "tcp_bandwidth_bi":
            said |= {"bandwidth_is": "sum_of_both"}
        return {"client": client, "server": server}, moved, back, window, {"client": said, "server": said}

    def _rdma(self, check: str, gbps: float) -> Any:
        both = check == "rdma_bandwidth_bi"
        size = int(self._rules["rdma_message_bytes"])
        counted_s = self._rules["rdma_duration_s"] - 2 * self._rules["rdma_margin_s"]
        iterations = int(gbps * 1e9 / 8 * counted_s / size)
        rate = iterations * size * 8 / counted_s / 1e9 * (2 if both else 1)
        numbers = {"bandwidth_gbps": round(rate, 6), "message_rate_mpps": round(rate * 1e3 / 8 / size, 6)}
        numbers |= {"node_cpu_percent": 1.5}
        moved_bytes = int(iterations * size * 4.1 / counted_s * RDMA_FRAMES)
        moved = moved_bytes, moved_bytes // 4174
        back = moved if both else (moved[1] // 16 * 66, moved[1] // 16)
        said = {"iterations": iterations, "qps": 4, "message_bytes": size}
        said |= {"bandwidth_is": "sum_of_both"} if both else {}
        return (
            {"client": numbers, "server": dict(numbers)}, moved, back, [1.1021, 3.1021],
            {"client": said, "server": said},
        )  # fmt: skip


def argv(tool: str, own: Row, address: str, other: str, end: str) -> list[str]:
    """Return a command line as long as a real one."""
    device, serves = own["hca"].split(":")[0], end == "server"
    if tool == "ping":
        return [tool, "-4", "-n", "-I", own["netdev"], "-i", "0.02", "-c", "10", "-W", "2", other]
    if tool == "iperf3":
        words = ["-s", "-1", "-J", "-B", address] if serves else ["-c", other, "-B", address, "-J", "-t", "4"]
        return [tool, *words, "-p", "18628"]
    if tool == "sockperf":
        words = (
            ["sr", "--tcp", "-i", address] if serves else ["pp", "--tcp", "-i", other, "--client_ip", address]
        )
        return [tool, *words, "-p", "18631"]
    words = ["-d", device, "-i", "1", "-x", "3", "-p", "18621", "-s", "65536", "-q", "1", "-D", "4", "-F"]
    return ["numactl", "-N", "0", "-m", "0", tool, *words, *([] if serves else [other])]
