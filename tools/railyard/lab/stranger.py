"""The machine that should not be there: it has a node's rail address and is ready to talk on any TCP port.

Started in a namespace of its own by the fault `duplicate_address`. It says several times a second that the
address is its own, so that it wins on the peers, as a machine does that was plugged in last.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import struct
import subprocess
import sys

_PORT = 9
_ANNOUNCE_EVERY_S = 0.2
_ETHERTYPE_ARP = 0x0806


def announcement(address: str, mac: str) -> bytes:
    """Return the Ethernet frame of a gratuitous ARP request: `address` is at `mac`, said to everybody."""
    hardware = bytes.fromhex(mac.replace(":", ""))
    protocol = ipaddress.IPv4Address(address).packed
    header = struct.pack("!HHBBH", 1, 0x0800, 6, 4, 1)
    body = header + hardware + protocol + b"\0" * 6 + protocol
    return b"\xff" * 6 + hardware + struct.pack("!H", _ETHERTYPE_ARP) + body


async def _swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while await reader.read(65536):
            pass
    writer.close()


async def _main(netdev: str, address: str, mac: str) -> None:
    frame = announcement(address, mac)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as raw:
        raw.bind((netdev, _ETHERTYPE_ARP))
        async with await asyncio.start_server(_swallow, "0.0.0.0", _PORT):  # noqa: S104 - a namespace of its own
            announced = False
            while True:
                with contextlib.suppress(OSError):
                    raw.send(frame)
                if not announced:  # whoever started us waits for this line
                    announced = True
                    print("ready", flush=True)
                await asyncio.sleep(_ANNOUNCE_EVERY_S)


def _take_every_port() -> None:
    """Lead each TCP port to ours; where the kernel cannot, answering ARP is fault enough."""
    rule = ["PREROUTING", "-p", "tcp", "-j", "REDIRECT", "--to-ports", str(_PORT)]
    for program in ("iptables-legacy", "iptables"):
        with contextlib.suppress(FileNotFoundError):
            call = [program, "-w", "-t", "nat", "-A", *rule]
            if subprocess.run(call, capture_output=True, check=False).returncode == 0:
                return


if __name__ == "__main__":
    _take_every_port()
    asyncio.run(_main(*sys.argv[1:4]))
