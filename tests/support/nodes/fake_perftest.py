"""Stands for perftest in a node without RDMA: a real TCP exchange, and counters of a port that are files.

It takes the options of ib_write_bw and ib_write_lat that the runner gives, refuses others, and counts in
/sys/class/infiniband as a card does, while it runs: 4-byte words and packets; with SRD, as EFA, bytes.
"""

from __future__ import annotations

import argparse
import socket
import sys
import time
from pathlib import Path

ITERATIONS_PER_S = 2000
LATENCY_US = 500.0
MTU_BYTES = 4096
HEADERS_BYTES = 30
SRD = "SRD"
VERSION = "6.06"
LINE = "-" * 87
BANDWIDTH = " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]"
LATENCY = (
    " #bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]"
    "   99% percentile[usec]   99.9% percentile[usec]"
)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--version", action="store_true")
    parser.add_argument("--help", action="store_true")
    parser.add_argument("-c", dest="connection", choices=["RC", SRD], default="RC")
    parser.add_argument("-x", dest="gid_index", type=int)
    parser.add_argument("-I", dest="inline", type=int)
    parser.add_argument("-d", dest="device")
    parser.add_argument("-i", dest="port", default="1")
    parser.add_argument("-p", dest="tcp_port", type=int)
    parser.add_argument("-s", dest="size", type=int)
    parser.add_argument("-q", dest="qps", type=int, default=1)
    parser.add_argument("-D", dest="duration_s", type=float)
    parser.add_argument("-f", dest="margin_s", type=float)
    parser.add_argument("-n", dest="iterations", type=int)
    parser.add_argument("-F", dest="no_frequency", action="store_true")
    parser.add_argument("--source_ip")
    parser.add_argument("--tclass", type=int)
    parser.add_argument("--sl", type=int)
    parser.add_argument("peer", nargs="?")
    return parser.parse_args()


class Port:
    """The counters of the device's port."""

    def __init__(self, device: str, port: str, connection: str) -> None:
        self.is_efa = connection == SRD
        self._folder = Path("/sys/class/infiniband") / device / "ports" / port

    def count(self, sent: bool, octets: int, packets: int) -> None:
        way, own = ("xmit", "tx") if sent else ("rcv", "rx")
        files = {f"counters/port_{way}_data": octets // 4, f"counters/port_{way}_packets": packets}
        if self.is_efa:
            files = {f"hw_counters/{own}_bytes": octets, f"hw_counters/{own}_pkts": packets}
        for name, by in files.items():
            path = self._folder / name
            path.write_text(f"{int(path.read_text()) + by}\n")


def exchange(asked: argparse.Namespace) -> socket.socket:
    """Connect the two ends as perftest does: over TCP, from the source address that was given."""
    if asked.peer is None:
        print("* Waiting for client to connect... *", flush=True)
        with socket.create_server((asked.source_ip, asked.tcp_port)) as listener:
            return listener.accept()[0]
    return socket.create_connection((asked.peer, asked.tcp_port), source_address=(asked.source_ip, 0))


def main() -> int:
    asked = options()
    if asked.version:
        print(f"Version: {VERSION}")
        return 0
    if asked.help:
        print("Usage:")
        return 1
    client = asked.peer is not None
    with exchange(asked) as sock:
        sock.sendall(b"." if client else b":")
        sock.recv(1)
        port = Port(asked.device, asked.port, asked.connection)
        if asked.iterations is None:
            send(asked, port, client)
        else:
            ping_pong(asked, port)
        # Perftest's ends part together.
        sock.sendall(b"." if client else b":")
        sock.recv(1)
    print_table(asked)
    return 0


def send(asked: argparse.Namespace, port: Port, client: bool) -> None:
    steps = int(asked.duration_s / 0.1)
    begun = time.monotonic()
    messages = ITERATIONS_PER_S // 10
    packets = messages * asked.size // MTU_BYTES
    for step in range(1, steps + 1):
        port.count(client, messages * asked.size + packets * HEADERS_BYTES, packets)
        if not port.is_efa:  # whether EFA counts acknowledgements is not published
            port.count(not client, packets // 16 * HEADERS_BYTES, packets // 16)
        time.sleep(max(0.0, begun + step * 0.1 - time.monotonic()))


def ping_pong(asked: argparse.Namespace, port: Port) -> None:
    for way in (True, False):
        port.count(way, asked.iterations * 122, asked.iterations)
    time.sleep(asked.iterations * 2 * LATENCY_US / 1e6)


def print_table(asked: argparse.Namespace) -> None:
    bandwidth = asked.iterations is None
    print(LINE)
    print("                    RDMA_Write {} Test".format("BW" if bandwidth else "Latency"))
    print(f" Dual-port       : OFF\t\tDevice         : {asked.device}")
    kind = "Unknown" if asked.connection == SRD else "IB"
    print(f" Number of qps   : {asked.qps}\t\tTransport type : {kind}")
    print(f" Connection type : {asked.connection}\t\tUsing SRQ      : OFF")
    print(f" TX depth        : 128\n Mtu             : {MTU_BYTES}[B]\n Link type       : IB")
    if asked.gid_index is not None:
        print(f" GID index       : {asked.gid_index}")
    print(LINE)
    print(" local address: LID 0x01 QPN 0x0015\n remote address: LID 0x02 QPN 0x0016")
    print(LINE)
    if bandwidth:
        seconds = asked.duration_s - 2 * asked.margin_s
        number = int(ITERATIONS_PER_S * seconds)
        mib_per_s = number * asked.size / seconds / 2**20
        print(BANDWIDTH)
        print(
            f" {asked.size}      {number}              0.00               {mib_per_s:.2f}\t\t   "
            f"{number / seconds / 1e6:.6f}"
        )
    else:
        print(LATENCY)
        print(
            f" {asked.size}      {asked.iterations}          400.00         900.00      {LATENCY_US:.2f}   "
            f"\t       {LATENCY_US:.2f}      \t1.15 \t\t800.00 \t\t890.00"
        )
    print(LINE)


if __name__ == "__main__":
    sys.exit(main())
