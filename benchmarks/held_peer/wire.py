"""A cable whose far end can be held up: carries frames between two netdevs, and stops itself at one of them.

    wire.py NETDEV NETDEV FRAME NUMBER

FRAME is icmp (an echo request), arp (a request) or beacon; at the NUMBERth of these the process sends itself
SIGSTOP. What comes meanwhile waits in the sockets, as it does at a virtual machine that is held up.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import sys

# <linux/if_packet.h>: frames keep their offloads in a virtio_net_hdr; Python has no names for them.
SOL_PACKET, PACKET_VNET_HDR, ETH_P_ALL, OUTGOING = 263, 15, 0x0003, 4
VNET_HEADER_BYTES = 10
BUFFER_BYTES, SO_RCVBUFFORCE = 64 << 20, 33


def kind_of(frame: bytes) -> str:
    """Return what a frame is: one of the kinds, or nothing."""
    frame = frame[VNET_HEADER_BYTES:]
    ethertype = frame[12:14]
    if ethertype == b"\x08\x06" and frame[20:22] == b"\x00\x01":
        return "arp"
    if ethertype == b"\x08\x00" and frame[23] == socket.IPPROTO_ICMP and frame[34] == 8:
        return "icmp"
    return "beacon" if ethertype == b"\x88\xb5" else ""


def open_end(netdev: str) -> socket.socket:
    """Open one end of the cable."""
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    end.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER_BYTES)
    end.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    end.bind((netdev, ETH_P_ALL))
    return end


def main() -> None:
    """Carry frames until killed."""
    first, second = (open_end(netdev) for netdev in sys.argv[1:3])
    kind, left = sys.argv[3], int(sys.argv[4])
    print("ready", flush=True)
    other_end = {first: second, second: first}
    while True:
        for end in select.select(list(other_end), [], [])[0]:
            frame, origin = end.recvfrom(1 << 17)
            if origin[2] == OUTGOING:
                continue
            left -= kind_of(frame) == kind
            if left == 0:
                left = -1
                os.kill(os.getpid(), signal.SIGSTOP)
            other_end[end].send(frame)


if __name__ == "__main__":
    main()
