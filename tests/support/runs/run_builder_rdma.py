"""The RDMA part of a built run: ports, questions and rows of Soft-RoCE, as a virtual node would leave them.

Numbers are chosen here, not measured. RDMA carries 9.6 Gbit/s of 10 (4096 of 4178 bytes are payload: at
most 9.8) and takes 5 µs one way, so that it is faster than TCP with 9.4 Gbit/s and 21 µs.
"""

from __future__ import annotations

from typing import Any

Row = dict[str, Any]

TOOLS = {
    "rdma_bandwidth": "ib_write_bw",
    "rdma_latency": "ib_write_lat",
    "rdma_bandwidth_bi": "ib_write_bw",
    "rdma_bandwidth_concurrent": "ib_write_bw",
}
FACTS_CHECKS = ("rdma_port", "rdma_gid", "rdma_mtu")
MESSAGE_BYTES = 65536
LATENCY_BYTES = 64
DURATION_S, WINDOW_S = 4, (1.0, 3.0)
GBPS, BOTH_GBPS, TOGETHER_GBPS = 9.6, 18.0, 9.2
ITERATIONS = 100_000
HEADER_BYTES = 82  # Ethernet, IPv4, UDP, BTH, RETH at most, checksums and the wire's own


def port(number: int, netdev: str, address: str) -> Row:
    """The facts of one rxe port."""
    bare = address.split("/")[0]
    mapped = "0000:0000:0000:0000:0000:ffff:" + ":".join(
        "{:02x}{:02x}".format(*map(int, half)) for half in (bare.split(".")[:2], bare.split(".")[2:])
    )
    gids = [
        {"index": 0, "gid": "fe80:0000:0000:0000:5054:00ff:fe00:0001", "address": "fe80::5054:ff:fe00:1"},
        {"index": 1, "gid": mapped, "address": bare},
    ]
    return {
        "hca": f"rxe{number}:1",
        "device": f"rxe{number}",
        "port": 1,
        "link_layer": "Ethernet",
        "state": "ACTIVE",
        "physical_state": "LinkUp",
        "rate_gbps": 2.5,
        "width": "1X",
        "active_mtu_bytes": 4096,
        "max_mtu_bytes": 4096,
        "lid": 0,
        "sm_lid": 0,
        "port_guid": None,
        "pkeys": ["0xffff"],
        "netdev": netdev,
        "node_type": "CA",
        "driver": "rxe",
        "driver_class": "software",
        "numa_node": None,
        "pci": None,
        "firmware": None,
        "hca_type": None,
        "dpu_mode": None,
        "gids": [{**gid, "netdev": netdev, "type": "RoCE v2"} for gid in gids],
        "counters": {},
        "hw_counters": {},
    }


def fields(check: str, number: int) -> Row:
    """What a row of an RDMA test says of its way."""
    return {
        "hca": f"rxe{number}:1",
        "gid_index": 1,
        "gid_type": "RoCE v2",
        "active_mtu_bytes": 4096,
        "qps": 1,
        "numa_node": None,
        "pinned": False,
        "tool_version": "6.06",
        "message_bytes": LATENCY_BYTES if check == "rdma_latency" else MESSAGE_BYTES,
        "window_s": list(WINDOW_S),
        "argv": [TOOLS[check], "-d", f"rxe{number}"],
        **({"bandwidth_is": "sum_of_both"} if check.endswith("_bi") else {}),
        **({} if check == "rdma_latency" else {"latency_is": None, "iterations": iterations(check)}),
    }


def still() -> Row:
    """Error counters that did not grow."""
    return {name: [3, 3] for name in ("netdev.rx_crc_errors", "hw.rcvd_seq_err", "hw.retry_exceeded_err")}


def iterations(check: str) -> int:
    """How many messages one end sends in the window."""
    return round(one_way_gbps(check) * 1e9 / 8 * (WINDOW_S[1] - WINDOW_S[0]) / MESSAGE_BYTES)


def one_way_gbps(check: str) -> float:
    """What one end sends."""
    return gbps_of(check) / (2 if check.endswith("_bi") else 1)


def gbps_of(check: str) -> float:
    """What an RDMA bandwidth test of this kind states; both directions together for bi."""
    return {"rdma_bandwidth_bi": BOTH_GBPS, "rdma_bandwidth_concurrent": TOGETHER_GBPS}.get(check, GBPS)


def moved(check: str) -> tuple[int, int, int, int]:
    """Bytes and packets that a test moves: out, back."""
    if check == "rdma_latency":
        packets = 2 * ITERATIONS + 40
        return packets * 130, packets * 130, packets, packets
    packets = int(one_way_gbps(check) * 1e9 / 8 * DURATION_S / 4096) + 1
    sent = packets * (4096 + HEADER_BYTES)
    if check.endswith("_bi"):
        return sent, sent, packets, packets
    return sent, packets // 16 * 66, packets, packets // 16


def metrics(check: str, end: str) -> Row:
    """What the tool states at this end."""
    if check == "rdma_latency":
        told = {
            "latency_average_us": 5.2,
            "latency_p50_us": 5.0,
            "latency_p99_us": 7.5,
            "latency_p999_us": 12.0,
            "latency_min_us": 4.4,
            "latency_max_us": 60.0,
            "observations": ITERATIONS,
        }
        return told if end == "client" else {}
    gbps = gbps_of(check)
    return {
        "bandwidth_gbps": gbps,
        "message_rate_mpps": round(gbps * 1e9 / 8 / MESSAGE_BYTES / 1e6, 6),
        "node_cpu_percent": 18.0 if end == "client" else 2.5,
    }
