"""What a write of railyard-metrics costs a node: CPU seconds, bytes and series, by the number of rails.

    python benchmarks/node_metrics/measure.py [--python /usr/bin/python3] [--writes 20] 2 8

The packed program writes the metrics of a tree of files as a node with mlx5 cards has it: 256 GIDs and 128
P_Keys a port, its counters and hw_counters, PCI devices. What the driver's own statistics cost (`ethtool -S`,
an ioctl that no tree answers) is not in it. A line for each number of rails in results.jsonl.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "collections"), str(ROOT / "tests")]

from ansible_collections.railyard.fabric.plugins.module_utils import program
from support.nodes.sysfs_tree import Tree

COUNTERS = [
    "excessive_buffer_overrun_errors",
    "link_downed",
    "link_error_recovery",
    "local_link_integrity_errors",
    "port_rcv_constraint_errors",
    "port_rcv_data",
    "port_rcv_errors",
    "port_rcv_packets",
    "port_rcv_remote_physical_errors",
    "port_xmit_discards",
    "port_xmit_packets",
    "port_xmit_wait",
    "symbol_error",
]
HW_COUNTERS = [
    "duplicate_request",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "np_cnp_sent",
    "np_ecn_marked_roce_packets",
    "out_of_buffer",
    "out_of_sequence",
    "packet_seq_err",
    "rnr_nak_retry_err",
    "rp_cnp_handled",
    "rp_cnp_ignored",
    "rx_icrc_encapsulated",
]


def make_node(root: Path, rails: int) -> None:
    """Write the node's files, and what it is expected to be."""
    tree = Tree(root)
    tree.host()
    planned = []
    for number in range(rails):
        card = tree.pci(f"0000:{number + 16:02x}:00.0", "mlx5_core")
        for name in ("current_link_width", "max_link_width"):
            (card / name).write_text("16\n")
        netdev, device = f"ens{number}np0", f"mlx5_{number}"
        tree.netdev(netdev, card, speed=400000, address=f"02:00:00:00:00:{number:02x}")
        for name in ("rx_crc_errors", "rx_frame_errors", "tx_carrier_errors"):
            tree.write(f"sys/class/net/{netdev}/statistics/{name}", 0)
        tree.write(f"sys/class/net/{netdev}/carrier_changes", 2)
        port = tree.port(device, 1, card, rate="400 Gb/sec (4X NDR)")
        for index in range(256):
            tree.write(f"{port}/gids/{index}", "0000:0000:0000:0000:0000:0000:0000:0000")
        tree.gid(port, 3, f"0000:0000:0000:0000:0000:ffff:0a{number:02x}:0001", "RoCE v2", netdev)
        for index in range(128):
            tree.write(f"{port}/pkeys/{index}", "0xffff" if index == 0 else "0x0000")
        for folder, names in (("counters", COUNTERS), ("hw_counters", HW_COUNTERS)):
            for place, name in enumerate(names):
                tree.write(f"{port}/{folder}/{name}", place % 3)
        planned.append(
            {"name": f"rail{number}", "netdev": netdev, "hca": f"{device}:1", "rate_gbps": 400, "mtu": 9000}
            | {"address": f"10.{number}.0.1/16"}
        )
    wanted = {"schema": 1, "node": "gpu001", "transport": "roce", "node_class": "hardware", "rails": planned}
    (root / "metrics.json").write_text(
        json.dumps({**wanted, "governor": "performance", "gpus": {"count": 8}})
    )


def measure(python: str, rails: int, writes: int) -> dict[str, object]:
    """Write so many times, and return what it cost."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        root = Path(folder)
        make_node(root, rails)
        packed, out = root / "railyard-metrics", root / "railyard_node.prom"
        packed.write_bytes(program.build("metrics.main", program.loaded))
        argv = [python, "-I", str(packed), "--expect", str(root / "metrics.json"), "--out", str(out)]
        argv += ["--kept", str(root / "kept.json"), "--quick", str(root / "quick"), "--root", str(root)]
        cpu_s, wall_s = [], []
        for _write in range(writes):
            before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
            subprocess.run(argv, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu_s.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            wall_s.append(time.monotonic() - began)
        data = out.read_bytes()
        peak_kib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    series = sum(not line.startswith(b"#") for line in data.splitlines())
    middle = writes // 2
    return {
        "when": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "python": subprocess.run([python, "-V"], capture_output=True, text=True, check=True).stdout.split()[
            1
        ],
        "machine": f"{os.cpu_count()} x {platform.machine()}",
        "rails": rails,
        "writes": writes,
        "cpu_s": round(sorted(cpu_s)[middle], 3),
        "cpu_s_an_hour": round(sorted(cpu_s)[middle] * 60, 1),
        "wall_s": round(sorted(wall_s)[middle], 3),
        "series": series,
        "bytes": len(data),
        "gzip_bytes": len(gzip.compress(data)),
        "gzip_bytes_an_hour": len(gzip.compress(data)) * 240,
        "peak_mib": round(peak_kib / 1024, 1),
    }


def main() -> None:
    """Measure, and add a line for each number of rails."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rails", type=int, nargs="+")
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--writes", type=int, default=20)
    asked = parser.parse_args()
    with (HERE / "results.jsonl").open("a", encoding="utf-8") as file:
        for rails in asked.rails:
            line = json.dumps(measure(asked.python, rails, asked.writes))
            print(line)
            file.write(line + "\n")


if __name__ == "__main__":
    main()
