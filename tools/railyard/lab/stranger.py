"""The machine that should not be there: it has a node's rail address and is ready to talk on any TCP port.

Started in a namespace of its own by the fault `duplicate_address`. It says several times a second that the
address is its own, so that it wins on the peers, as a machine does that was plugged in last.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import subprocess
import sys

from ansible_collections.railyard.fabric.plugins.module_utils.channel import arp

_PORT = 9
_ANNOUNCE_EVERY_S = 0.2
_ETHERTYPE_ARP = 0x0806


async def _swallow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while await reader.read(65536):
            pass
    writer.close()


async def _main(netdev: str, address: str, mac: str) -> None:
    # A gratuitous ARP request.
    frame = arp.request(bytes.fromhex(mac.replace(":", "")), address, address)
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as raw:
        raw.bind((netdev, _ETHERTYPE_ARP))
        async with await asyncio.start_server(_swallow, "0.0.0.0", _PORT):  # noqa: S104 - a namespace of its own
            announced = False
            while True:
                with contextlib.suppress(OSError):
                    raw.send(frame)
                if not announced:  # the parent waits for this line
                    announced = True
                    print("ready", flush=True)
                await asyncio.sleep(_ANNOUNCE_EVERY_S)


def _take_every_port() -> None:
    """Redirect each TCP port to one port; where the kernel cannot, answering ARP is enough."""
    rule = ["PREROUTING", "-p", "tcp", "-j", "REDIRECT", "--to-ports", str(_PORT)]
    for program in ("iptables-legacy", "iptables"):
        with contextlib.suppress(FileNotFoundError):
            call = [program, "-w", "-t", "nat", "-A", *rule]
            if subprocess.run(call, capture_output=True, check=False).returncode == 0:
                return


if __name__ == "__main__":
    _take_every_port()
    asyncio.run(_main(*sys.argv[1:4]))
