# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RDMA ports and what their tests' rows say in a healthy run, by hand: Soft-RoCE and a card."""

from __future__ import annotations

import ipaddress
from typing import Any

#: 0.95 Gbit/s of payload, and 1 % of headers.
FRAME_BYTES_PER_S = 0.95 * 1.01e9 / 8
#: 64 KiB messages in the 2 s that perftest counts of its 4 s.
ITERATIONS = int(0.95e9 / 8 * 2 / 65536)

#: `fe80::1` as a GID.
LINK_LOCAL = "fe80:0000:0000:0000:0000:0000:0000:0001"
#: A node's GPU, and where the site has its perftest for it.
GPU, FOLDER = "0000:17:00.0", "/opt/perftest/bin"


def gpus(cards: list[str], by: str = "switch") -> dict[str, Any]:
    """Return what a facts row says of one GPU that is near to all of these cards: PCIe 4.0 x16."""
    return {
        "pci": [GPU],
        "near": [{"nic": card, "by": by, "gpus": [GPU]} for card in cards],
        "rows": [{"pci": GPU, "pcie.link.gen.max": 4, "pcie.link.width.max": 16}],
        "pci_paths": {GPU: None},
        "driver": "550.54.15",
        "nvlink": [],
        "topology": None,
        "xids": None,
        "errors": {},
    }


def port(hca: str, netdev: str, address: str, driver_class: str) -> dict[str, Any]:
    """Return a port of a facts row."""
    hardware = driver_class == "hardware"
    low = int(ipaddress.IPv4Address(address))
    mapped = f"0000:0000:0000:0000:0000:ffff:{low >> 16:04x}:{low & 0xFFFF:04x}"
    return {
        "hca": hca,
        "device": hca.split(":")[0],
        "port": 1,
        "link_layer": "Ethernet",
        "state": "ACTIVE",
        "physical_state": "LinkUp",
        "node_type": "CA",
        "driver": "mlx5_core" if hardware else "rdma_rxe",
        "driver_class": driver_class,
        "rate_gbps": 100.0,
        "width": "4X",
        "lid": 0,
        "sm_lid": 0,
        "active_mtu_bytes": 4096,
        "max_mtu_bytes": 4096,
        "netdev": netdev,
        "numa_node": 0 if hardware else None,
        "pci": f"0000:19:00.{hca[-3]}" if hardware else None,
        "pci_path": None,
        "port_guid": None,
        "firmware": "28.39.1002" if hardware else None,
        "node_guid": "0200:00ff:fe00:0001",
        "board_id": None,
        "hca_type": None,
        "dpu_mode": None,
        "pkeys": ["0xffff"],
        "pkey_indices": {"0xffff": 0},
        "gids": [
            {"index": 0, "gid": LINK_LOCAL, "type": "RoCE v2", "netdev": netdev, "address": "fe80::1"},
            {"index": 1, "gid": mapped, "type": "RoCE v2", "netdev": netdev, "address": address},
        ],
        "counters": {},
        "hw_counters": {},
    }


def link_errors(driver_class: str | None) -> dict[str, list[int]]:
    """Return the error counters of a healthy rail; without a port's own when the class is None."""
    own: dict[str, dict[str, list[int]]] = {
        "hardware": {"hw.out_of_sequence": [7, 7], "hca.symbol_error": [2, 2]},
        "software": {"hw.out_of_seq_request": [7, 7]},
    }
    return {"netdev.rx_crc_errors": [2, 2], **own.get(str(driver_class), {})}


def fields(check: str, hca: str, end: str, driver_class: str) -> dict[str, Any]:
    """Return what an RDMA row says beside what every row says."""
    latency = check.endswith("latency")
    hardware = driver_class == "hardware"
    said: dict[str, Any] = {
        "tool_version": "6.06",
        "hca": hca,
        "gid_index": 1,
        "gid_type": "RoCE v2",
        "active_mtu_bytes": 4096,
        "qps": 1 if latency else 4,
        "message_bytes": 64 if latency else 65536,
        "numa_node": 0 if hardware else None,
        "pinned": hardware and check != "rdma_bandwidth_unpinned",
    }
    if latency:
        said["latency_is"] = "round_trip" if "read" in check else "one_way"
    elif (check, end) != ("rdma_read_bandwidth", "server"):
        said["iterations"] = ITERATIONS
    if check == "rdma_gpu_bandwidth":
        words = ["-d", hca.partition(":")[0], f"--use_cuda_bus_id={GPU}"]
        said |= {"gpu": GPU, "gpu_name": "NVIDIA H100", "argv": [[f"{FOLDER}/ib_write_bw", *words]]}
    return said


def measured(
    check: str, end: str, driver_class: str
) -> tuple[dict[str, Any], dict[str, Any], list[float] | None]:
    """Return metrics, counters and window of one end."""
    if check.endswith("latency"):
        metrics: dict[str, Any] = {
            "latency_average_us": 500.0,
            "latency_p50_us": 480.0,
            "latency_p99_us": 900.0,
            "latency_p999_us": 1500.0,
            "latency_min_us": 400.0,
            "latency_max_us": 2000.0,
            "observations": 2000,
        }
        moved = _port_counters(end, driver_class, (2100 * 122, 2100), (2100 * 122, 2100))
        return (metrics, moved, [0.1, 2.1]) if end == "client" else ({}, moved, None)
    both = check.endswith("_bi")
    metrics = {
        "bandwidth_gbps": 1.9 if both else 0.95,
        "message_rate_mpps": round((2 if both else 1) * 0.95e9 / 8 / 65536 / 1e6, 6),
        "node_cpu_percent": 40.0,
    }
    packets = int(4 * 0.95e9 / 8 / 4096) + 1
    forward, back = (int(4 * FRAME_BYTES_PER_S), packets), (packets // 16 * 66, packets // 16)
    if check == "rdma_read_bandwidth":
        forward, back = back, forward  # the data of a read come from the server
    elif both:
        back = forward
    moved = _port_counters(end, driver_class, forward, back)
    silent = (check, end) == ("rdma_read_bandwidth", "server")
    return ({}, moved, None) if silent else (metrics, moved, [1.4, 3.4])


def counters(
    end: str, sent_bytes: int, sent_packets: int, back_packets: int, back_bytes: int | None = None
) -> dict[str, list[int]]:
    """Return what the netdev counts: sent from client to server, and back."""
    out, back = ("tx", "rx") if end == "client" else ("rx", "tx")
    back_bytes = back_packets * 66 if back_bytes is None else back_bytes
    return {
        f"{out}_bytes": [1000, 1000 + sent_bytes],
        f"{back}_bytes": [500, 500 + back_bytes],
        f"{out}_packets": [10, 10 + sent_packets],
        f"{back}_packets": [5, 5 + back_packets],
    }


def _port_counters(
    end: str, driver_class: str, forward: tuple[int, int], back: tuple[int, int]
) -> dict[str, list[int]]:
    """Return what port and netdev count of (bytes, packets): rxe sends through its netdev, a card past it."""
    if driver_class == "software":
        out, into = ("sent", "rcvd") if end == "client" else ("rcvd", "sent")
        return counters(end, *forward, back[1], back[0]) | {
            f"hw_{out}_pkts": [100, 100 + forward[1]],
            f"hw_{into}_pkts": [50, 50 + back[1]],
        }
    out, into = ("xmit", "rcv") if end == "client" else ("rcv", "xmit")
    return counters(end, 0, 0, 0, 0) | {
        f"port_{out}_data": [100, 100 + forward[0] // 4 + 1],
        f"port_{into}_data": [50, 50 + back[0] // 4 + 1],
        f"port_{out}_packets": [100, 100 + forward[1]],
        f"port_{into}_packets": [50, 50 + back[1]],
    }
