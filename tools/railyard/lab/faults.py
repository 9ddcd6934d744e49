"""Faults that a real cluster has, made where a real one makes them, and their undoing.

Each is recorded with what `heal` needs to restore exactly what was before.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from threading import Event
from typing import Any

from railyard.base.errors import BAD_INPUT
from railyard.lab import cable_faults, fault_kinds, naming, network, node_faults, state
from railyard.lab.fault_kinds import ON_NODE, ON_RAIL, Kind, Place
from railyard.lab.process import LabError, run, start_helper
from railyard.lab.wiring import Lab, await_ready, start

SLOW_RATE_GBPS = 0.1
_WRONG_MTU_BYTES = 1500


def apply(lab: Lab, kind: str, target: str, rate_gbps: float = SLOW_RATE_GBPS) -> state.Fault:
    """Make one fault and record it.

    Args:
        lab: a lab that is up.
        kind: one of `KINDS`.
        target: as the kind's form says: `NODE/RAIL` for most, `NODE` for node_gone and node_hung.
        rate_gbps: what a fault that slows leaves of the rail.

    Raises:
        LabError: bad target, a node that is off, or a fault that would change nothing.
    """
    with state.locked(lab.name):
        record = _record(lab)
        how, place = _place(lab, kind, target)
        if any((fault.kind, fault.target) == (kind, target) for fault in record.faults):
            raise LabError(
                f"{kind} {target} is there already", f"railyard lab heal {kind} {target}", BAD_INPUT
            )
        if kind in place.kind.no_faults:
            raise LabError(f"{kind} {target} cannot be made", place.kind.no_faults[kind], BAD_INPUT)
        if not place.runs:
            raise LabError(f"{place.node.name} does not run", "railyard lab heal --all", BAD_INPUT)
        undo = how.make(replace(place, rate_gbps=rate_gbps)) or {}
        fault = state.Fault(kind, target, datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"), undo)
        record.faults.append(fault)
        state.save(record)
        return fault


def heal(lab: Lab, kind: str | None = None, target: str | None = None) -> list[state.Fault]:
    """Undo one recorded fault, or all of them (the latest first); return those undone.

    Raises:
        LabError: this fault is not recorded.
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
    how.heal(replace(place, undo=fault.undo))


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


def _wrong_mtu(place: Place) -> dict[str, Any]:
    before = network.links_of(place.kind.as_root(place.node, "ip"))[place.netdev]["mtu"]
    if before == _WRONG_MTU_BYTES:
        raise place.would_be_none(f"{place.netdev} has an MTU of {before} already")
    _set_mtu(place, _WRONG_MTU_BYTES)
    return {"mtu_bytes": before}


def _set_mtu(place: Place, mtu_bytes: int) -> None:
    place.run("ip", "link", "set", place.netdev, "mtu", str(mtu_bytes))


def _stranger_namespace(place: Place) -> str:
    return naming.stranger_namespace(place.lab.name, place.rail_position, place.node.position)


def _duplicate_address(place: Place) -> dict[str, Any]:
    lab = place.lab
    shown = place.address()
    address = shown["local"]
    name = _stranger_namespace(place)
    leg = naming.stranger_leg(place.node.position, place.rail_position)
    mac, mtu = naming.mac(lab.name, "stranger", leg), lab.topology.mtu_bytes
    network.remove_namespace(name)
    try:
        run(["ip", "netns", "add", name])
        lab.network.batch(
            [
                f"link add {leg} mtu {mtu} type veth peer name rail address {mac} mtu {mtu} netns {name}",
                f"link set {leg} master {naming.rail_bridge(place.rail_position)} up",
            ]
        )
        for words in (
            ("link", "set", "lo", "up"),
            ("link", "set", "rail", "up"),
            ("address", "add", f"{address}/{shown['prefixlen']}", "dev", "rail"),
        ):
            run(["ip", "-n", name, *words])
        # It prints its first line after its first ARP announcement.
        start_helper(name, "railyard.lab.stranger", "rail", address, mac)
    except BaseException:
        network.remove_namespace(name)
        raise
    return {"address": address}


def _slow_rail(place: Place) -> dict[str, Any]:
    place.kind.shape(place.node, place.cable, place.rate_gbps)
    return {"rate_gbps": place.rate_gbps}


def _node_back(place: Place) -> None:
    if not place.runs:
        start(place.lab, place.node)
        await_ready(place.lab, place.node, Event())


def _hca_gone(place: Place) -> dict[str, Any]:
    shown = place.read("rdma", "-j", "link", "show")
    devices = [port["ifname"] for port in shown if port.get("netdev") == place.netdev]
    if not devices:
        raise place.not_ready(f"{place.netdev} has no RDMA device that could go")
    place.run("rdma", "link", "delete", devices[0])
    return {"device": devices[0]}


def _hca_back(place: Place) -> None:
    if not any(port.get("ifname") == place.undo["device"] for port in place.read("rdma", "-j", "link")):
        place.run("rdma", "link", "add", place.undo["device"], "type", "rxe", "netdev", place.netdev)


KINDS: dict[str, Kind] = {
    "link_down": Kind(
        ON_RAIL,
        lambda place: place.kind.set_carrier(place.cable, place.node, up=False),
        lambda place: place.kind.set_carrier(place.cable, place.node, up=True),
    ),
    "wrong_mtu": Kind(
        ON_RAIL, _wrong_mtu, lambda place: _set_mtu(place, place.undo["mtu_bytes"]), lost_when_off=True
    ),
    "duplicate_address": Kind(
        ON_RAIL,
        _duplicate_address,
        lambda place: network.remove_namespace(_stranger_namespace(place)),
        misleads=True,
    ),
    "slow_rail": Kind(ON_RAIL, _slow_rail, cable_faults.restore_rate, lost_when_off=True),
    "hca_gone": Kind(ON_RAIL, _hca_gone, _hca_back, lost_when_off=True),
    "node_gone": Kind(ON_NODE, lambda place: place.kind.kill(place.node.name), _node_back),
    "node_hung": Kind(
        ON_NODE,
        lambda place: place.kind.freeze(place.node.name),
        lambda place: place.kind.thaw(place.node.name),
        lost_when_off=True,
    ),
    **cable_faults.KINDS,
    **node_faults.KINDS,
}
