"""Faults of cables and of packets' ways: what a patch panel, a switch or a routing table gets wrong.

A cable is moved where a real one is: at the switch. Nothing in the node changes but what it then hears.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from railyard.base.errors import BAD_INPUT
from railyard.lab import naming, network
from railyard.lab.fault_kinds import (
    BETWEEN_RAILS,
    ON_RAIL,
    ON_TWO_RAILS,
    TO_OTHER,
    Kind,
    Place,
    cable,
    netdev,
    would_be_none,
)
from railyard.lab.process import LabError, command_lines, run, start_and_await_word
from railyard.lab.wiring import Lab, rail_link

_SMALL_MTU_BYTES = 1500
# A bucket that no jumbo frame fits into: the shaper drops what is larger, on one way alone.
_SMALL_BUCKET = ["tbf", "rate", "1gbit", "burst", "3000", "latency", "50ms"]
_TABLE, _PREFERENCE = "7177", "50"
_SPEAKER = "railyard.lab.speaker"
_SPEAKER_DEADLINE_S = 10.0


def _move(lab: Lab, place: Place, position: int, bridge: str) -> None:
    link = rail_link(lab, place.node, position)
    lab.network.batch([f"link set {link.outer} master {bridge} up"])


def _forget_neighbours(lab: Lab) -> None:
    """Let the nodes forget who was where; with the fault gone they would go on sending there for a while."""
    for name, found in lab.states().items():
        if found.condition == "running":
            node = lab.topology.node(name)
            ip = lab.kind(node).as_root(node, "ip")
            for rail in lab.topology.rails:
                run([*ip, "neighbour", "flush", "dev", rail.netdev], check=False)


def _swap(lab: Lab, place: Place, _rate_gbps: float) -> dict[str, Any]:
    other = lab.topology.rail_position(place.other)
    if other == place.rail_position:
        raise LabError("a cable cannot be swapped with itself", "name two rails", BAD_INPUT)
    _move(lab, place, place.rail_position, naming.rail_bridge(other))
    _move(lab, place, other, naming.rail_bridge(place.rail_position))
    return {}


def _unswap(lab: Lab, place: Place, _undo: Mapping[str, Any]) -> None:
    for position in (place.rail_position, lab.topology.rail_position(place.other)):
        if place.runs:
            _move(lab, place, position, naming.rail_bridge(position))
    _forget_neighbours(lab)


def _direct_bridge(place: Place) -> str:
    return f"x{place.node.position}-{place.rail_position}-cable"


def _miswire(lab: Lab, place: Place, _rate_gbps: float) -> dict[str, Any]:
    """Patch a rail into another rail's switch, or by a cable of its own to another node."""
    rails = {rail.name: position for position, rail in enumerate(lab.topology.rails)}
    if place.other in rails:
        _move(lab, place, place.rail_position, naming.rail_bridge(rails[place.other]))
        return {"peer": None}
    peer = lab.topology.node(place.other)
    bridge = _direct_bridge(place)
    network.remove_link(["ip", "-n", lab.network.name], bridge)
    lab.network.batch(
        [
            f"link add {bridge} type bridge stp_state 0 forward_delay 0 mcast_snooping 0",
            f"link set {bridge} mtu {lab.topology.mtu_bytes} up",
        ]
    )
    for node in (place.node, peer):
        _move(lab, Place(node, place.rail_position, True), place.rail_position, bridge)
    return {"peer": peer.name}


def _rewire(lab: Lab, place: Place, undo: Mapping[str, Any]) -> None:
    names = [place.node.name] + ([str(undo["peer"])] if undo.get("peer") else [])
    states = lab.states()
    for name in names:
        if name in states and states[name].pid:
            node = lab.topology.node(name)
            at = Place(node, place.rail_position, True)
            _move(lab, at, place.rail_position, naming.rail_bridge(place.rail_position))
    if undo.get("peer"):
        network.remove_link(["ip", "-n", lab.network.name], _direct_bridge(place))
    _forget_neighbours(lab)


def _joint(lab: Lab, place: Place) -> tuple[str, str]:
    other = lab.topology.rail_position(place.other)
    return f"x-joint-{place.rail_position}-{other}", f"x-joint-{other}-{place.rail_position}"


def _join_rails(lab: Lab, place: Place, _rate_gbps: float) -> dict[str, Any]:
    ends = _joint(lab, place)
    other = lab.topology.rail_position(place.other)
    if other == place.rail_position:
        raise LabError("a rail cannot be joined with itself", "name two rails", BAD_INPUT)
    network.remove_link(["ip", "-n", lab.network.name], ends[0])
    mtu_bytes = lab.topology.mtu_bytes
    lab.network.batch(
        [
            f"link add {ends[0]} mtu {mtu_bytes} type veth peer name {ends[1]} mtu {mtu_bytes}",
            f"link set {ends[0]} master {naming.rail_bridge(place.rail_position)} up",
            f"link set {ends[1]} master {naming.rail_bridge(other)} up",
        ]
    )
    return {}


def _part_rails(lab: Lab, place: Place, _undo: Mapping[str, Any]) -> None:
    network.remove_link(["ip", "-n", lab.network.name], _joint(lab, place)[0])
    _forget_neighbours(lab)


def _path_mtu(lab: Lab, place: Place, _rate_gbps: float) -> dict[str, Any]:
    link = cable(lab, place)
    lab.network.batch([f"link set {link.outer} mtu {_SMALL_MTU_BYTES}"])
    return {}


def _path_mtu_back(lab: Lab, place: Place, _undo: Mapping[str, Any]) -> None:
    link = cable(lab, place)
    if link.outer in lab.network.links():
        lab.network.batch([f"link set {link.outer} mtu {link.mtu_bytes}"])


def _path_mtu_one_way(lab: Lab, place: Place, _rate_gbps: float) -> dict[str, Any]:
    link = cable(lab, place)
    run(["tc", "-n", lab.network.name, "qdisc", "replace", "dev", link.outer, "root", *_SMALL_BUCKET])
    return {}


def _path_mtu_one_way_back(lab: Lab, place: Place, _undo: Mapping[str, Any]) -> None:
    link = cable(lab, place)
    if link.outer not in lab.network.links():
        return
    lab.network.shape(link.outer, None)
    if place.runs:
        rate_gbps = lab.topology.rails[place.rail_position].rate_gbps
        lab.kind(place.node).shape(place.node, link, rate_gbps)


def _arp_keys(lab: Lab, place: Place) -> list[str]:
    # The kernel goes by the greater of the two.
    return [f"net.ipv4.conf.{name}.arp_ignore" for name in ("all", netdev(lab, place))]


def _arp_flux(lab: Lab, place: Place, _rate_gbps: float) -> dict[str, Any]:
    sysctl, keys = lab.kind(place.node).as_root(place.node, "sysctl"), _arp_keys(lab, place)
    before = {key: int(run([*sysctl, "-n", key]).stdout) for key in keys}
    if not any(before.values()):
        raise would_be_none(place, f"{netdev(lab, place)} answers for every address already (arp_ignore 0)")
    run([*sysctl, "-q", "-w", *(f"{key}=0" for key in keys)])
    return {"sysctls": before}


def _no_arp_flux(lab: Lab, place: Place, undo: Mapping[str, Any]) -> None:
    if place.runs:
        sysctl = lab.kind(place.node).as_root(place.node, "sysctl")
        run([*sysctl, "-q", "-w", *(f"{key}={value}" for key, value in undo["sysctls"].items())])
    _forget_neighbours(lab)


def _reply_by_other_rail(lab: Lab, place: Place, _rate_gbps: float) -> dict[str, Any]:
    ip = lab.kind(place.node).as_root(place.node, "ip")
    own = netdev(lab, place)
    shown = json.loads(run([*ip, "-j", "-4", "route", "show", "dev", own, "proto", "kernel"]).stdout or "[]")
    others = [rail.netdev for rail in lab.topology.rails if rail.netdev != own]
    if not shown or not others:
        raise would_be_none(place, f"{own} has no address, or there is no other rail")
    subnet, address = shown[0]["dst"], shown[0]["prefsrc"]
    run([*ip, "route", "replace", subnet, "dev", others[0], "table", _TABLE])
    run([*ip, "rule", "add", "from", address, "lookup", _TABLE, "pref", _PREFERENCE])
    return {"address": address}


def _reply_by_own_rail(lab: Lab, place: Place, undo: Mapping[str, Any]) -> None:
    if place.runs:
        ip = lab.kind(place.node).as_root(place.node, "ip")
        rule = ["from", str(undo["address"]), "lookup", _TABLE, "pref", _PREFERENCE]
        run([*ip, "rule", "delete", *rule], check=False)
        run([*ip, "route", "flush", "table", _TABLE], check=False)


def _bond_name(place: Place) -> str:
    return f"bond-rail{place.rail_position}"


def _bond(lab: Lab, place: Place, _rate_gbps: float) -> dict[str, Any]:
    ip, own, bond = lab.kind(place.node).as_root(place.node, "ip"), netdev(lab, place), _bond_name(place)
    made = run([*ip, "link", "add", bond, "type", "bond", "mode", "active-backup"], check=False)
    if made.returncode:
        raise LabError(
            f"bond {place.node.name}: its kernel makes no bond: {made.stderr.strip()}",
            "use a VM node (kind: vm)",
            BAD_INPUT,
        )
    for words in (
        ["set", own, "down"],
        ["set", own, "master", bond],
        ["set", own, "up"],
        ["set", bond, "up"],
    ):
        run([*ip, "link", *words])
    return {}


def _no_bond(lab: Lab, place: Place, _undo: Mapping[str, Any]) -> None:
    if not place.runs:
        return
    ip, own = lab.kind(place.node).as_root(place.node, "ip"), netdev(lab, place)
    run([*ip, "link", "set", own, "nomaster"], check=False)
    run([*ip, "link", "delete", _bond_name(place)], check=False)
    run([*ip, "link", "set", own, "up"], check=False)
    run([*lab.kind(place.node).as_root(place.node, "networkctl"), "reconfigure", own], check=False)


def _wrong_leaf(lab: Lab, place: Place, _rate_gbps: float) -> dict[str, Any]:
    """Let a switch of another name speak LLDP to the node."""
    leg = cable(lab, place).outer
    path = {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    argv = lab.network.in_namespace(sys.executable, "-m", _SPEAKER, leg, place.other, lab.network.name)
    start_and_await_word(argv, _SPEAKER_DEADLINE_S, f"wrong_leaf: {_SPEAKER} did not start on {leg}", path)
    return {"leg": leg}


def _no_speaker(lab: Lab, _place: Place, undo: Mapping[str, Any]) -> None:
    wanted = [word.encode() for word in (_SPEAKER, str(undo["leg"]), lab.network.name)]
    for pid, words in command_lines():
        if set(wanted) <= set(words.split(b"\0")):
            network.end_process(pid)


KINDS: dict[str, Kind] = {
    "swap": Kind(ON_TWO_RAILS, _swap, _unswap),
    "miswire": Kind(TO_OTHER, _miswire, _rewire),
    "join_rails": Kind(BETWEEN_RAILS, _join_rails, _part_rails),
    "path_mtu": Kind(ON_RAIL, _path_mtu, _path_mtu_back),
    "path_mtu_one_way": Kind(ON_RAIL, _path_mtu_one_way, _path_mtu_one_way_back),
    "arp_flux": Kind(ON_RAIL, _arp_flux, _no_arp_flux),
    "reply_by_other_rail": Kind(ON_RAIL, _reply_by_other_rail, _reply_by_own_rail),
    "bond": Kind(ON_RAIL, _bond, _no_bond),
    "wrong_leaf": Kind(TO_OTHER, _wrong_leaf, _no_speaker),
}
