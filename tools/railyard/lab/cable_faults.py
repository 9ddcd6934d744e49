"""Faults of cables and of packets' ways: what a patch panel, a switch or a routing table gets wrong.

A cable is moved where a real one is: at the switch. Nothing in the node changes but what it then hears.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from railyard.base.errors import BAD_INPUT
from railyard.lab import naming, network
from railyard.lab.fault_kinds import BETWEEN_RAILS, ON_RAIL, ON_TWO_RAILS, TO_OTHER, Kind, Place
from railyard.lab.process import LabError, command_lines, run, start_helper
from railyard.lab.topology import Node
from railyard.lab.wiring import Lab, rail_link

_SMALL_MTU_BYTES = 1500
# A bucket that no jumbo frame fits into: the shaper drops what is larger, on one way alone.
_SMALL_BUCKET = ["tbf", "rate", "1gbit", "burst", "3000", "latency", "50ms"]
_TABLE, _PREFERENCE = "7177", "50"
_SPEAKER, _FLAPPER = "railyard.lab.speaker", "railyard.lab.flapper"
# What an unshaped rail has for all but the slow pair: more than this machine can carry.
_UNSHAPED_GBPS = 100.0


def _move(lab: Lab, node: Node, position: int, bridge: str) -> None:
    lab.network.batch([f"link set {rail_link(lab, node, position).outer} master {bridge} up"])


def _other_rail(place: Place, what: str) -> int:
    other = place.lab.topology.rail_position(place.other)
    if other == place.rail_position:
        raise LabError(f"a {what} with itself", "name two rails", BAD_INPUT)
    return other


def _swap(place: Place) -> None:
    own, other = place.rail_position, _other_rail(place, "cable cannot be swapped")
    _move(place.lab, place.node, own, naming.rail_bridge(other))
    _move(place.lab, place.node, other, naming.rail_bridge(own))


def _unswap(place: Place) -> None:
    for position in (place.rail_position, place.lab.topology.rail_position(place.other)):
        _move(place.lab, place.node, position, naming.rail_bridge(position))


def _direct_bridge(place: Place) -> str:
    return f"x{place.node.position}-{place.rail_position}-cable"


def _miswire(place: Place) -> dict[str, Any]:
    """Patch a rail into another rail's switch, or by a cable of its own to another node."""
    lab, own = place.lab, place.rail_position
    rails = {rail.name: position for position, rail in enumerate(lab.topology.rails)}
    if place.other in rails:
        _move(lab, place.node, own, naming.rail_bridge(rails[place.other]))
        return {"peer": None}
    peer = lab.topology.node(place.other)
    bridge = _direct_bridge(place)
    lab.network.remove_link(bridge)
    lab.network.batch(
        [f"link add {bridge} {network.BRIDGE}", f"link set {bridge} mtu {lab.topology.mtu_bytes} up"]
    )
    for node in (place.node, peer):
        _move(lab, node, own, bridge)
    return {"peer": peer.name}


def _rewire(place: Place) -> None:
    lab, peer = place.lab, place.undo.get("peer")
    states = lab.states()
    for name in filter(None, (place.node.name, peer)):
        if name in states and states[name].pid:
            _move(lab, lab.topology.node(name), place.rail_position, naming.rail_bridge(place.rail_position))
    if peer:
        lab.network.remove_link(_direct_bridge(place))


def _joint(place: Place, other: int) -> tuple[str, str]:
    return f"x-joint-{place.rail_position}-{other}", f"x-joint-{other}-{place.rail_position}"


def _join_rails(place: Place) -> None:
    other, mtu = _other_rail(place, "rail cannot be joined"), place.lab.topology.mtu_bytes
    ends = _joint(place, other)
    place.lab.network.remove_link(ends[0])
    place.lab.network.batch(
        [
            f"link add {ends[0]} mtu {mtu} type veth peer name {ends[1]} mtu {mtu}",
            f"link set {ends[0]} master {naming.rail_bridge(place.rail_position)} up",
            f"link set {ends[1]} master {naming.rail_bridge(other)} up",
        ]
    )


def _part_rails(place: Place) -> None:
    place.lab.network.remove_link(_joint(place, place.lab.topology.rail_position(place.other))[0])


def _path_mtu(place: Place) -> None:
    place.lab.network.batch([f"link set {place.cable.outer} mtu {_SMALL_MTU_BYTES}"])


def _path_mtu_back(place: Place) -> None:
    link = place.cable
    if link.outer in place.lab.network.links():
        place.lab.network.batch([f"link set {link.outer} mtu {link.mtu_bytes}"])


def _path_mtu_one_way(place: Place) -> None:
    tc = ["tc", "-n", place.lab.network.name]
    run([*tc, "qdisc", "replace", "dev", place.cable.outer, "root", *_SMALL_BUCKET])


def restore_rate(place: Place) -> None:
    """Shape a rail to the rate that the topology declares."""
    place.kind.shape(place.node, place.cable, place.lab.topology.rails[place.rail_position].rate_gbps)


def _arp_flux(place: Place) -> dict[str, Any]:
    # The kernel goes by the greater of the two.
    keys = [f"net.ipv4.conf.{name}.arp_ignore" for name in ("all", place.netdev)]
    before = {key: int(place.run("sysctl", "-n", key)) for key in keys}
    if not any(before.values()):
        raise place.would_be_none(f"{place.netdev} answers for every address already (arp_ignore 0)")
    place.run("sysctl", "-q", "-w", *(f"{key}=0" for key in keys))
    return {"sysctls": before}


def _no_arp_flux(place: Place) -> None:
    place.run("sysctl", "-q", "-w", *(f"{key}={value}" for key, value in place.undo["sysctls"].items()))


def _reply_by_other_rail(place: Place) -> dict[str, Any]:
    own = place.netdev
    shown = place.read("ip", "-j", "-4", "route", "show", "dev", own, "proto", "kernel")
    others = [rail.netdev for rail in place.lab.topology.rails if rail.netdev != own]
    if not shown or not others:
        raise place.would_be_none(f"{own} has no address, or there is no other rail")
    subnet, address = shown[0]["dst"], shown[0]["prefsrc"]
    place.run("ip", "route", "replace", subnet, "dev", others[0], "table", _TABLE)
    place.run("ip", "rule", "add", "from", address, "lookup", _TABLE, "pref", _PREFERENCE)
    return {"address": address}


def _reply_by_own_rail(place: Place) -> None:
    rule = ["from", str(place.undo["address"]), "lookup", _TABLE, "pref", _PREFERENCE]
    place.run("ip", "rule", "delete", *rule, check=False)
    place.run("ip", "route", "flush", "table", _TABLE, check=False)


def _bond_name(place: Place) -> str:
    return f"bond-rail{place.rail_position}"


def _bond(place: Place) -> None:
    own, bond = place.netdev, _bond_name(place)
    add = ["ip", "link", "add", bond, "type", "bond", "mode", "active-backup"]
    made = run(place.kind.as_root(place.node, *add), check=False)
    if made.returncode:
        raise LabError(
            f"bond {place.node.name}: its kernel makes no bond: {made.stderr.strip()}",
            "use a VM node (kind: vm)",
            BAD_INPUT,
        )
    for words in ((own, "down"), (own, "master", bond), (own, "up"), (bond, "up")):
        place.run("ip", "link", "set", *words)


def _no_bond(place: Place) -> None:
    own = place.netdev
    for command in (
        ("ip", "link", "set", own, "nomaster"),
        ("ip", "link", "delete", _bond_name(place)),
        ("ip", "link", "set", own, "up"),
        ("networkctl", "reconfigure", own),
    ):
        place.run(*command, check=False)


def _wrong_leaf(place: Place) -> dict[str, Any]:
    """Let a switch of another name speak LLDP to the node."""
    start_helper(place.lab.network.name, _SPEAKER, place.cable.outer, place.other)
    return {"leg": place.cable.outer}


def _end_helper(place: Place, module: str) -> None:
    wanted = {word.encode() for word in (module, str(place.undo["leg"]), place.lab.network.name)}
    for pid, words in command_lines():
        if wanted <= set(words.split(b"\0")):
            network.end_process(pid)


def _flap(place: Place) -> dict[str, Any]:
    start_helper(place.lab.network.name, _FLAPPER, place.cable.outer)
    return {"leg": place.cable.outer}


def _steady(place: Place) -> None:
    _end_helper(place, _FLAPPER)
    if place.cable.outer in place.lab.network.links():
        place.lab.network.batch([f"link set {place.cable.outer} up"])


def _slow_one_way(place: Place) -> dict[str, Any]:
    """Slow what the node receives; what it sends is as fast as before."""
    place.lab.network.shape(place.cable.outer, place.rate_gbps)
    return {"rate_gbps": place.rate_gbps}


def _as_fast_as_before(place: Place) -> None:
    """Take away what the fault put on the cable's own end; a VM's rail is shaped elsewhere."""
    leg = place.cable.outer
    if leg in place.lab.network.links():
        run(["tc", "-n", place.lab.network.name, "qdisc", "delete", "dev", leg, "root"], check=False)
    if place.kind.states()[place.node.name].pid:
        restore_rate(place)


def _pair(place: Place) -> list[tuple[Place, str]]:
    """Return both ends of a path, each with the address of the other on the rail."""
    other = replace(place, node=place.lab.topology.node(place.other))
    if other.node == place.node:
        raise LabError("a node has no path to itself", "name two nodes", BAD_INPUT)
    found = []
    for end, peer in ((place, other), (other, place)):
        found.append((end, peer.address()["local"]))
    return found


def _slow_pair(place: Place) -> dict[str, Any]:
    """Slow the path of two nodes, both ways; either is as fast as before with all others."""
    tc = ["tc", "-n", place.lab.network.name]
    usual = place.lab.topology.rails[place.rail_position].rate_gbps or _UNSHAPED_GBPS
    for end, address in _pair(place):
        leg = ["dev", end.cable.outer]
        run([*tc, "qdisc", "replace", *leg, "root", "handle", "1:", "htb", "default", "1"])
        for number, rate_gbps in (("1:1", usual), ("1:2", place.rate_gbps)):
            rate = ["rate", f"{round(rate_gbps * 1e9)}bit", "quantum", "10000"]
            run([*tc, "class", "add", *leg, "parent", "1:", "classid", number, "htb", *rate])
        match = ["u32", "match", "ip", "src", f"{address}/32", "flowid", "1:2"]
        run([*tc, "filter", "add", *leg, "parent", "1:", "protocol", "ip", *match])
    return {"rate_gbps": place.rate_gbps}


def _fast_pair(place: Place) -> None:
    for name in (place.node.name, place.other):
        _as_fast_as_before(replace(place, node=place.lab.topology.node(name)))


KINDS: dict[str, Kind] = {
    "swap": Kind(ON_TWO_RAILS, _swap, _unswap, lost_when_off=True, misleads=True),
    "miswire": Kind(TO_OTHER, _miswire, _rewire, misleads=True),
    "join_rails": Kind(BETWEEN_RAILS, _join_rails, _part_rails, misleads=True),
    "path_mtu": Kind(ON_RAIL, _path_mtu, _path_mtu_back),
    "path_mtu_one_way": Kind(ON_RAIL, _path_mtu_one_way, _as_fast_as_before),
    "arp_flux": Kind(ON_RAIL, _arp_flux, _no_arp_flux, lost_when_off=True, misleads=True),
    "reply_by_other_rail": Kind(ON_RAIL, _reply_by_other_rail, _reply_by_own_rail, lost_when_off=True),
    "bond": Kind(ON_RAIL, _bond, _no_bond, lost_when_off=True),
    "wrong_leaf": Kind(TO_OTHER, _wrong_leaf, lambda place: _end_helper(place, _SPEAKER)),
    "flapping_rail": Kind(ON_RAIL, _flap, _steady),
    "slow_one_way": Kind(ON_RAIL, _slow_one_way, _as_fast_as_before),
    "slow_pair": Kind(TO_OTHER, _slow_pair, _fast_pair),
}
