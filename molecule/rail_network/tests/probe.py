"""Run on a node: on which netdev does the answer to a question arrive? Each rail is a link of its own.

    probe.py icmp NETDEV SOURCE TARGET   ping TARGET out of NETDEV, as SOURCE
    probe.py arp  NETDEV SOURCE TARGET   ask for TARGET's MAC on NETDEV, as SOURCE

Prints the names of the netdevs on which answers came in, one a line: frames are read as they arrive, before
the kernel's own checks.
"""

import contextlib
import fcntl
import socket
import struct
import subprocess
import sys
import time

PATIENCE_S = 2.0
ETH_P_IP, ETH_P_ARP = 0x0800, 0x0806
SIOCGIFHWADDR = 0x8927
ECHO_REPLY, ARP_REQUEST, ARP_REPLY = 0, 1, 2


def arp_frame(netdev, source, target):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
        answer = fcntl.ioctl(asked, SIOCGIFHWADDR, struct.pack("256s", netdev.encode()))
    mac = answer[18:24]
    head = b"\xff" * 6 + mac + struct.pack("!HHHBBH", ETH_P_ARP, 1, ETH_P_IP, 6, 4, ARP_REQUEST)
    return head + mac + socket.inet_aton(source) + bytes(6) + socket.inet_aton(target)


def is_answer(kind, frame, source, target):
    ours, theirs = socket.inet_aton(source), socket.inet_aton(target)
    if kind == "arp":
        # The kernel asks as well, after a ping, as another of this node's addresses.
        is_reply = frame[20:22] == struct.pack("!H", ARP_REPLY)
        return is_reply and frame[28:32] == theirs and frame[38:42] == ours
    header_bytes = (frame[14] & 15) * 4
    packet = frame[14:]
    is_icmp = packet[9] == socket.IPPROTO_ICMP
    return is_icmp and packet[12:20] == theirs + ours and packet[header_bytes] == ECHO_REPLY


def main(kind, netdev, source, target):
    protocol = ETH_P_ARP if kind == "arp" else ETH_P_IP
    listener = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(protocol))
    listener.settimeout(0.1)
    if kind == "arp":
        listener.sendto(arp_frame(netdev, source, target), (netdev, protocol))
    else:
        argv = ["ping", "-c", "3", "-i", "0.3", "-W", "1", "-I", netdev, "-I", source, target]
        subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    found = set()
    end = time.monotonic() + PATIENCE_S
    while time.monotonic() < end:
        with contextlib.suppress(socket.timeout):
            frame, (arrived_on, _protocol, packet_type, *_rest) = listener.recvfrom(4096)
            if packet_type != socket.PACKET_OUTGOING and is_answer(kind, frame, source, target):
                found.add(arrived_on)
    print("\n".join(sorted(found)))


main(*sys.argv[1:])
