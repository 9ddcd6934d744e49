"""A switch that says by LLDP (IEEE 802.1AB) who it is: the fault `wrong_leaf` starts it on a node's cable."""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
import time

_EVERY_S = 1.0
_ETHERTYPE = 0x88CC
_NEAREST_BRIDGE = bytes.fromhex("0180c200000e")
_END, _CHASSIS, _PORT, _TTL, _SYSTEM_NAME = 0, 1, 2, 3, 5
_LOCALLY_ASSIGNED = b"\x07"
_TTL_S = 120


def frame(mac: bytes, switch: str, port: str) -> bytes:
    """Return the frame in which `switch` says that the cable ends at its `port`."""
    parts = (
        (_CHASSIS, b"\x04" + mac),
        (_PORT, _LOCALLY_ASSIGNED + port.encode()),
        (_TTL, struct.pack("!H", _TTL_S)),
        (_SYSTEM_NAME, switch.encode()),
        (_END, b""),
    )
    body = b"".join(struct.pack("!H", kind << 9 | len(value)) + value for kind, value in parts)
    return _NEAREST_BRIDGE + mac + struct.pack("!H", _ETHERTYPE) + body


def main(leg: str, switch: str) -> None:
    """Speak on a leg for ever."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0) as raw:
        raw.bind((leg, _ETHERTYPE))
        said = frame(raw.getsockname()[4], switch, leg)
        announced = False
        while True:
            with contextlib.suppress(OSError):
                raw.send(said)
            if not announced:  # the parent waits for this line
                announced = True
                print("ready", flush=True)
            time.sleep(_EVERY_S)


if __name__ == "__main__":
    main(*sys.argv[1:3])
