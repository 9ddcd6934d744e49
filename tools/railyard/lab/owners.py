"""Find whose a running lab is, and refuse a second one of the same name or on the same network.

`tools/demo` asks this before the virtual environment exists, so only the standard library is used, by any
Python from 3.9 on.
"""

from __future__ import annotations

import ipaddress
import os
import re
import socket
import struct
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_PREFIX = "railyard-"
_CONTROLLER_LINK = "ry-"
_STRANGER = "-stranger-"
# The last part of the path of each file that names a checkout: CHECKOUT/.lab/LAB/...
_IN_CHECKOUT = re.compile(r"^(?P<checkout>/.*)/\.lab/(?P<lab>[a-z][a-z0-9_]*)/")
_QEMU, _WAY_OUT = "qemu-system-x86_64", "slirp4netns"


@dataclass(frozen=True)
class Refusal:
    """Why a lab cannot come up, and what to do about it."""

    message: str
    fix: str


@dataclass(frozen=True)
class Route:
    """An IPv4 route of this host: the network and the link that leads there."""

    network: ipaddress.IPv4Network
    link: str


def running_labs(proc: Path = Path("/proc"), netns: Path = Path("/run/netns")) -> dict[str, str]:
    """Map the name of each lab that is up on this host to its checkout, "" where that cannot be read.

    QEMU names the checkout on its command line. For a lab of containers slirp4netns has its log there, which
    only root and its own user can see.
    """
    labs = {
        path.name[len(_PREFIX) :]: ""
        for path in _entries(netns)
        if path.name.startswith(_PREFIX) and _STRANGER not in path.name
    }
    for entry in _entries(proc):
        if not entry.name.isdigit():
            continue
        with suppress(OSError):  # the process has ended, or is another user's
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0")
            if os.path.basename(words[0]) == _QEMU:
                candidates = [words[i + 1] for i, word in enumerate(words[:-1]) if word == "-pidfile"]
            elif os.path.basename(words[0]) == _WAY_OUT and any(_PREFIX in word for word in words):
                candidates = [os.readlink(entry / "fd" / "1")]
            else:
                continue
            for path in candidates:
                found = _IN_CHECKOUT.match(path)
                if found:
                    labs[found["lab"]] = found["checkout"]
    return labs


def is_foreign(checkout: str, here: Path) -> bool:
    """Tell whether a lab belongs to another checkout that still exists; a deleted one can be taken over."""
    return bool(checkout) and checkout != str(here) and Path(checkout).is_dir()


def refuse_name(lab: str, checkout: str) -> Refusal:
    """Return the refusal of a lab whose name another checkout's running lab has."""
    return Refusal(
        f"lab {lab} is already up: it was started from another checkout, {checkout}",
        f"there are two ways out:\n{_ways_out(lab, checkout)}",
    )


def refuse_network(
    lab: str, subnet: ipaddress.IPv4Network, routes: list[Route], labs: dict[str, str], topology: str
) -> Refusal | None:
    """Return the refusal of a lab whose management network this host already reaches in another way."""
    for route in routes:
        if route.link == _CONTROLLER_LINK + lab or not route.network.overlaps(subnet):
            continue
        other = route.link[len(_CONTROLLER_LINK) :] if route.link.startswith(_CONTROLLER_LINK) else ""
        message = (
            f"lab {lab}: this host has a route to {route.network} by {route.link}, which overlaps the lab's"
            f" management network {subnet}"
        )
        if not other:
            return Refusal(message, f"remove that route, or give `management` another subnet in {topology}")
        owner = labs.get(other, "")
        whose = f" of checkout {owner}" if owner else ""
        return Refusal(
            f"{message}; it belongs to lab {other}{whose}",
            f"there are two ways out:\n{_ways_out(other, owner)}\n"
            "    (to have two labs at once, give one of them another name and management subnet in"
            f" {topology})",
        )
    return None


def _ways_out(lab: str, checkout: str) -> str:
    name = "" if lab == "lab" else f" --name {lab}"
    there = f"cd {checkout} && " if checkout else "in its checkout: "
    return (
        f"    1. take it down where it was started: {there}.venv/bin/railyard lab down{name}\n"
        f"    2. take it down from here: make setup && .venv/bin/railyard lab down{name} --force"
    )


def routes_of_host(table: Path = Path("/proc/net/route")) -> list[Route]:
    """Return the IPv4 routes of the kernel's main table, without the default routes."""
    routes = []
    with suppress(OSError):
        for line in table.read_text(encoding="ascii").splitlines()[1:]:
            fields = line.split()
            with suppress(IndexError, ValueError):  # a line of another form
                address, mask = (_dotted(fields[column]) for column in (1, 7))
                network = ipaddress.IPv4Network(f"{address}/{mask}")
                if network.prefixlen:
                    routes.append(Route(network, fields[0]))
    return routes


def _dotted(word: str) -> str:
    """Return an address that the kernel prints as a hexadecimal number in the byte order of the host."""
    return socket.inet_ntoa(struct.pack("=I", int(word, 16)))


def _entries(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except OSError:
        return []
