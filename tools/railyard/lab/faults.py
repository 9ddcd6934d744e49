"""Faults that a real cluster has, made where a real one makes them, and their undoing.

Each is recorded with what `heal` needs to restore exactly what was before.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from threading import Event
from typing import Any

from railyard.base.errors import BAD_INPUT
from railyard.lab import cable_faults, fault_kinds, naming, network, state
from railyard.lab.fault_kinds import ON_NODE, ON_RAIL, Kind, Place, cable, would_be_none
from railyard.lab.fault_kinds import netdev as netdev_of
from railyard.lab.process import LabError, run, start_and_await_word
from railyard.lab.wiring import Lab, await_ready, start

SLOW_RATE_GBPS = 0.1
_WRONG_MTU_BYTES = 1500
_STRANGER_DEADLINE_S = 15.0


def apply(lab: Lab, kind: str, target: str, rate_gbps: float = SLOW_RATE_GBPS) -> state.Fault:
    """Make one fault and record it.

    Args:
        lab: a lab that is up.
        kind: one of `KINDS`.
        target: as the kind's form says: `NODE/RAIL` for most, `NODE` for node_gone and node_hung.
        rate_gbps: what slow_rail leaves of the rail.

    Raises:
        LabError: bad target, a node that is off, or a fault that cannot be told from what is there already.
    """
    with state.locked(lab.name):
        record = _record(lab)
        how, place = _place(lab, kind, target)
        if any((fault.kind, fault.target) == (kind, target) for fault in record.faults):
            raise LabError(
                f"{kind} {target} is there already", f"railyard lab heal {kind} {target}", BAD_INPUT
            )
        if kind in lab.kind(place.node).no_faults:
            raise LabError(f"{kind} {target} cannot be made", lab.kind(place.node).no_faults[kind], BAD_INPUT)
        if not place.runs:
            raise LabError(f"{place.node.name} does not run", "railyard lab heal --all", BAD_INPUT)
        undo = how.make(lab, place, rate_gbps)
        fault = state.Fault(kind, target, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), undo)
        record.faults.append(fault)
        state.save(record)
        return fault


def heal(lab: Lab, kind: str | None = None, target: str | None = None) -> list[state.Fault]:
    """Undo one recorded fault, or all of them (the latest first); return those undone.

    Raises:
        LabError: the one that was asked for is not recorded.
    """
    with state.locked(lab.name):
        record = _record(lab)
        wanted = [
            fault
            for fault in reversed(record.faults)
            if kind is None or (fault.kind, fault.target) == (kind, target)
        ]
        if kind is not None and not wanted:
            _place(lab, kind, target or "")  # a misspelt target is the likelier mistake
            there = ", ".join(f"{fault.kind} {fault.target}" for fault in record.faults) or "none"
            raise LabError(f"lab {lab.name} has no fault {kind} {target}", f"there are: {there}", BAD_INPUT)
        for fault in wanted:
            undo_in_place(lab, fault)
            record.faults.remove(fault)
            state.save(record)
        return wanted


def undo_in_place(lab: Lab, fault: state.Fault) -> None:
    """Undo a recorded fault without looking at the record; a fault of a topology that has changed is void."""
    try:
        how, place = _place(lab, fault.kind, fault.target)
    except LabError:
        return
    how.undo(lab, place, fault.undo)


def _record(lab: Lab) -> state.State:
    record = state.load(lab.name)
    if record is None or record.torn:
        raise LabError(f"lab {lab.name} is not up, or its state is torn", "railyard lab up", BAD_INPUT)
    return record


def _place(lab: Lab, kind: str, target: str) -> tuple[Kind, Place]:
    how = KINDS.get(kind)
    if how is None:
        raise LabError(f"there is no fault called {kind}", f"kinds: {', '.join(KINDS)}", BAD_INPUT)
    return how, fault_kinds.place(lab, kind, how.form, target)


def _link_down(lab: Lab, place: Place, _rate_gbps: float) -> dict[str, Any]:
    lab.kind(place.node).set_carrier(cable(lab, place), place.node, up=False)
    return {}


def _link_up(lab: Lab, place: Place, _undo: Mapping[str, Any]) -> None:
    lab.kind(place.node).set_carrier(cable(lab, place), place.node, up=True)


def _wrong_mtu(lab: Lab, place: Place, _rate_gbps: float) -> dict[str, Any]:
    netdev = netdev_of(lab, place)
    ip = lab.kind(place.node).as_root(place.node, "ip")
    before = network.links_of(ip)[netdev]["mtu"]
    if before == _WRONG_MTU_BYTES:
        raise would_be_none(place, f"{netdev} has an MTU of {before} already")
    run([*ip, "link", "set", netdev, "mtu", str(_WRONG_MTU_BYTES)])
    return {"mtu_bytes": before}


def _right_mtu(lab: Lab, place: Place, undo: Mapping[str, Any]) -> None:
    if place.runs:
        ip = lab.kind(place.node).as_root(place.node, "ip")
        run([*ip, "link", "set", netdev_of(lab, place), "mtu", str(undo["mtu_bytes"])])


def _duplicate_address(lab: Lab, place: Place, _rate_gbps: float) -> dict[str, Any]:
    ip, netdev = lab.kind(place.node).as_root(place.node, "ip"), netdev_of(lab, place)
    shown = json.loads(run([*ip, "-j", "-4", "address", "show", "dev", netdev]).stdout or "[]")
    addresses = [address for link in shown if link for address in link.get("addr_info", [])]
    if not addresses:
        raise LabError(
            f"{place.node.name}: {netdev} has no IPv4 address that a stranger could take",
            "provision the node first (railyard site -i inventories/lab)",
            BAD_INPUT,
        )
    address = addresses[0]["local"]
    name = naming.stranger_namespace(lab.name, place.rail_position, place.node.position)
    leg = naming.stranger_leg(place.node.position, place.rail_position)
    mac = naming.mac(lab.name, "stranger", leg)
    mtu_bytes = lab.topology.mtu_bytes
    network.remove_namespace(name)
    try:
        run(["ip", "netns", "add", name])
        lab.network.batch(
            [
                f"link add {leg} mtu {mtu_bytes} type veth"
                f" peer name rail address {mac} mtu {mtu_bytes} netns {name}",
                f"link set {leg} master {naming.rail_bridge(place.rail_position)} up",
            ]
        )
        run(["ip", "-n", name, "link", "set", "lo", "up"])
        run(["ip", "-n", name, "link", "set", "rail", "up"])
        run(["ip", "-n", name, "address", "add", f"{address}/{addresses[0]['prefixlen']}", "dev", "rail"])
        _start_stranger(name, address, mac)
    except BaseException:
        network.remove_namespace(name)
        raise
    return {"address": address}


def _start_stranger(namespace: str, address: str, mac: str) -> None:
    """Start the program that answers, and wait until it has said for the first time whose the address is."""
    program = [sys.executable, "-m", "railyard.lab.stranger", "rail", address, mac]
    failure = f"duplicate_address: {' '.join(program)} did not start in namespace {namespace}"
    start_and_await_word(["ip", "netns", "exec", namespace, *program], _STRANGER_DEADLINE_S, failure)


def _no_stranger(lab: Lab, place: Place, undo: Mapping[str, Any]) -> None:
    network.remove_namespace(naming.stranger_namespace(lab.name, place.rail_position, place.node.position))
    # The others still send to the stranger's MAC, for a minute or so; before the fault they did not.
    for name, found in lab.states().items():
        if found.condition == "running" and name != place.node.name:
            node = lab.topology.node(name)
            ip = lab.kind(node).as_root(node, "ip")
            run([*ip, "neighbour", "delete", undo["address"], "dev", netdev_of(lab, place)], check=False)


def _slow_rail(lab: Lab, place: Place, rate_gbps: float) -> dict[str, Any]:
    lab.kind(place.node).shape(place.node, cable(lab, place), rate_gbps)
    return {"rate_gbps": rate_gbps}


def _declared_rate(lab: Lab, place: Place, _undo: Mapping[str, Any]) -> None:
    if place.runs:
        rate_gbps = lab.topology.rails[place.rail_position].rate_gbps
        lab.kind(place.node).shape(place.node, cable(lab, place), rate_gbps)


def _node_gone(lab: Lab, place: Place, _rate_gbps: float) -> dict[str, Any]:
    lab.kind(place.node).kill(place.node.name)
    return {}


def _node_back(lab: Lab, place: Place, _undo: Mapping[str, Any]) -> None:
    if not place.runs:
        start(lab, place.node)
        await_ready(lab, place.node, Event())


def _node_hung(lab: Lab, place: Place, _rate_gbps: float) -> dict[str, Any]:
    lab.kind(place.node).freeze(place.node.name)
    return {}


def _node_awake(lab: Lab, place: Place, _undo: Mapping[str, Any]) -> None:
    if place.runs:
        lab.kind(place.node).thaw(place.node.name)


def _hca_gone(lab: Lab, place: Place, _rate_gbps: float) -> dict[str, Any]:
    rdma, netdev = lab.kind(place.node).as_root(place.node, "rdma"), netdev_of(lab, place)
    shown = json.loads(run([*rdma, "-j", "link", "show"]).stdout or "[]")
    devices = [port["ifname"] for port in shown if port.get("netdev") == netdev]
    if not devices:
        raise LabError(
            f"{place.node.name}: {netdev} has no RDMA device that could go",
            "provision the node first (railyard site -i inventories/lab)",
            BAD_INPUT,
        )
    run([*rdma, "link", "delete", devices[0]])
    return {"device": devices[0]}


def _hca_back(lab: Lab, place: Place, undo: Mapping[str, Any]) -> None:
    if not place.runs:
        return
    rdma = lab.kind(place.node).as_root(place.node, "rdma")
    if not any(
        port.get("ifname") == undo["device"] for port in json.loads(run([*rdma, "-j", "link"]).stdout)
    ):
        run([*rdma, "link", "add", undo["device"], "type", "rxe", "netdev", netdev_of(lab, place)])


KINDS: dict[str, Kind] = {
    "link_down": Kind(ON_RAIL, _link_down, _link_up),
    "wrong_mtu": Kind(ON_RAIL, _wrong_mtu, _right_mtu),
    "duplicate_address": Kind(ON_RAIL, _duplicate_address, _no_stranger),
    "slow_rail": Kind(ON_RAIL, _slow_rail, _declared_rate),
    "hca_gone": Kind(ON_RAIL, _hca_gone, _hca_back),
    "node_gone": Kind(ON_NODE, _node_gone, _node_back),
    "node_hung": Kind(ON_NODE, _node_hung, _node_awake),
    **cable_faults.KINDS,
}
