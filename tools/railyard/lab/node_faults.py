"""Faults of what a node itself runs: its firewall, its CPU governor, a tool older than its peers'."""

from __future__ import annotations

from typing import Any

from railyard.lab.fault_kinds import ON_NODE, ON_RAIL, Kind, Place

_GOVERNORS = "/sys/devices/system/cpu"
# Earlier in the PATH than the package's.
_OLDER = "/usr/local/bin/iperf3"
_OLDER_SAYS = """#!/bin/sh
case "$*" in *--version*) echo 'iperf 3.9 (cJSON 1.7.13)'; exit 0;; esac
exec /usr/bin/iperf3 "$@"
"""


def _blocked(place: Place) -> list[list[str]]:
    # TCP and UDP by number: a bare node has no /etc/protocols that knows their names.
    return [["iif", place.netdev, "ipproto", protocol, "blackhole"] for protocol in ("6", "17")]


def _firewall(place: Place) -> None:
    """Drop all TCP and UDP that a rail receives, as a firewall's default policy does; ICMP goes on.

    By rules of routing, which every kernel has: a packet that they refuse vanishes. The table of the node's
    own addresses comes before all others, so it is moved first.
    """
    _no_firewall(place)
    place.run("ip", "rule", "add", "pref", "1", "lookup", "local")
    for rule in _blocked(place):
        place.run("ip", "rule", "add", "pref", "0", *rule)
    place.run("ip", "rule", "delete", "pref", "0", "lookup", "local")


def _no_firewall(place: Place) -> None:
    # Also what was made halfway. The kernel takes the same rule twice, so what is there goes first.
    place.run("ip", "rule", "add", "pref", "1", "lookup", "local", check=False)
    for _once_or_twice in range(2):
        place.run("ip", "rule", "delete", "pref", "0", "lookup", "local", check=False)
    place.run("ip", "rule", "add", "pref", "0", "lookup", "local")
    for rule in _blocked(place):
        place.run("ip", "rule", "delete", "pref", "0", *rule, check=False)
    for _once_or_twice in range(2):
        place.run("ip", "rule", "delete", "pref", "1", "lookup", "local", check=False)


def _governor(place: Place) -> dict[str, Any]:
    """Let the governor be powersave, as a power profile or an update leaves it."""
    files = place.run("find", _GOVERNORS, "-name", "scaling_governor", "-type", "f").split()
    if not files:
        raise place.would_be_none(f"{place.node.name} has no CPU governor")
    before = {file: place.run("cat", file).strip() for file in files}
    if set(before.values()) == {"powersave"}:
        raise place.would_be_none(f"the governor of {place.node.name} is powersave already")
    _write(place, dict.fromkeys(files, "powersave"))
    return {"governors": before}


def _write(place: Place, files: dict[str, str]) -> None:
    for file, content in files.items():
        place.run("python3", "-c", "import sys; open(sys.argv[1], 'w').write(sys.argv[2])", file, content)


def _older_iperf3(place: Place) -> None:
    _write(place, {_OLDER: _OLDER_SAYS})
    place.run("chmod", "755", _OLDER)


def _own_iperf3(place: Place) -> None:
    place.run("rm", "-f", _OLDER)


KINDS: dict[str, Kind] = {
    "firewall": Kind(ON_RAIL, _firewall, _no_firewall, lost_when_off=True),
    "governor": Kind(
        ON_NODE, _governor, lambda place: _write(place, place.undo["governors"]), lost_when_off=True
    ),
    "older_iperf3": Kind(ON_NODE, _older_iperf3, _own_iperf3),
}
