# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The path between two rails through the switches, and beside each link its rate and its error counters.

A path is what `ibtracert` read from the forwarding tables, each link of it compared with the reading. What it
did not read is not completed by a guess: the path ends there, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.parsers.subnet import ibtracert
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.subnet.ibtracert import Trace
from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import Port, PortKey, Reading
from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet_capture import Capture
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean_line
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet import counters, links
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.counters import Grown, Growth
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Expected, Judgement
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.names import Place, recognize_adapters
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.run_file import (
    GrowthRecord,
    LinkRecord,
    PortRecord,
    WayRecord,
)

_NOT_FOUND = "the fabric has no port of {}, or not one alone, so nothing was traced"
_NO_LID = "{} has no LID: its link was down after the tests"
_NOT_TRACED = "it was not traced"
_OTHER_PORT = "ibtracert began or ended at another port: LIDs changed meanwhile"
_CHANGED = "the link at {} port {} is another one than in the reading: the fabric changed meanwhile"


def find_port_guids(reading: Reading, expected: Expected) -> dict[Place, str]:
    """Return the GUID of the port that each rail of each node has in a reading."""
    places = recognize_adapters(reading, expected).places
    ports = {place: reading.port(key) for place, key in places.items()}
    return {place: port.port_guid for place, port in ports.items() if port is not None and port.port_guid}


class Traced(NamedTuple):
    """A subnet with what was traced in it.

    Attributes:
        reading: the subnet.
        judgement: what was decided about it, for its names.
        traces: by the LIDs of both ends.
        grown: how much error counters grew; None without two readings of them.
        rates: port -> rate of its link.
        ports: GUID of an adapter's port -> the port; without GUIDs that several have.
        devices: GUID of a port or a device -> the device.
    """

    reading: Reading
    judgement: Judgement
    traces: Mapping[tuple[int, int], Trace]
    grown: Grown | None
    rates: Mapping[PortKey, float | None]
    ports: Mapping[str, Port]
    devices: Mapping[str, str]


def read_traces(capture: Capture, reading: Reading, judgement: Judgement) -> Traced:
    """Return a subnet with the traces of its capture."""
    found = [trace for command in capture.commands if (trace := ibtracert.parse(command)) is not None]
    counted = reading.counters
    listed, _conflicts = links.list_links(reading)
    ports: dict[str, list[Port]] = {}
    for device in reading.devices.values():
        for port in device.ports.values():
            if port.port_guid is not None:
                ports.setdefault(port.port_guid, []).append(port)
    devices = {guid: guid for guid in reading.devices}
    for guid, same in ports.items():
        if len({port.key.guid for port in same}) == 1:
            devices[guid] = same[0].key.guid
    return Traced(
        reading,
        judgement,
        {(one.source_lid, one.target_lid): one for one in found},
        counters.measure_growth(counted[0], counted[-1]) if len(counted) > 1 else None,
        {end: link.rate_gbps for link in listed for end in link.ends},
        {guid: same[0] for guid, same in ports.items() if len(same) == 1},
        devices,
    )


def follow_path(
    subnets: Iterable[Traced], port_guids: Mapping[Place, str], sender: Place, receiver: Place
) -> WayRecord:
    """Return the path from one rail to another.

    Args:
        subnets: the subnets, as they were read after the tests.
        port_guids: the ports of the rails, as `find_port_guids` found them before.
        sender: the node and rail that send.
        receiver: the node and rail that receive.
    """
    guids = [port_guids.get(place) for place in (sender, receiver)]
    for place, guid in zip((sender, receiver), guids, strict=True):
        if guid is None:
            return _build_way(sender, receiver, (), _NOT_FOUND.format(" ".join(place)))
    for subnet in subnets:
        ends = [subnet.ports.get(guid or "") for guid in guids]
        if ends[0] is not None and ends[1] is not None:
            return _follow(subnet, sender, receiver, ends[0], ends[1])
    return _build_way(sender, receiver, (), "after the tests, no subnet had both of its ports")


def _follow(subnet: Traced, sender: Place, receiver: Place, start: Port, end: Port) -> WayRecord:
    for place, at in ((sender, start), (receiver, end)):
        if at.lid is None or at.peer is None:
            return _build_way(sender, receiver, (), _NO_LID.format(" ".join(place)))
    trace = subnet.traces.get((start.lid or 0, end.lid or 0))
    if trace is None:
        return _build_way(sender, receiver, (), _NOT_TRACED)
    if trace.start not in (None, start.key) or trace.end not in (None, end.key):
        return _build_way(sender, receiver, (), _OTHER_PORT)
    passed: list[LinkRecord] = []
    here = start.key.guid
    for hop in trace.hops:
        out, device = PortKey(here, hop.out), subnet.devices.get(hop.port_guid)
        port = subnet.reading.port(out)
        into = PortKey(device, hop.number) if device is not None else None
        if into is None or port is None or port.peer != into:
            name = _show_port(subnet, out)["name"]
            return _build_way(sender, receiver, passed, _CHANGED.format(name, hop.out))
        passed.append(_show_link(subnet, out, into))
        here = into.guid
    problem = trace.problem or (None if here == end.key.guid else _OTHER_PORT)
    return _build_way(sender, receiver, passed, problem)


def _build_way(
    sender: Place, receiver: Place, passed: Sequence[LinkRecord], unknown: str | None
) -> WayRecord:
    return {
        "sender": sender[0],
        "receiver": receiver[0],
        "links": list(passed),
        "unknown": None if unknown is None else clean_line(unknown),
    }


def _show_link(subnet: Traced, out: PortKey, into: PortKey) -> LinkRecord:
    grown = list(_show_growth(subnet.grown, out, into)) if subnet.grown is not None else []
    is_unknown = subnet.grown is None or subnet.grown.unread or {out, into} & {*subnet.grown.reset}
    return {
        "out": _show_port(subnet, out),
        "into": _show_port(subnet, into),
        "rate_gbps": subnet.rates.get(out),
        "grown": grown if grown or not is_unknown else None,
    }


def _show_growth(grown: Grown, out: PortKey, into: PortKey) -> Iterator[GrowthRecord]:
    for key in (out, into):
        full = [Growth(name, 0, at_least=True) for name in grown.full.get(key, ())]
        for one in [*grown.ports.get(key, {}).values(), *full]:
            yield {
                "end": "out" if key == out else "into",
                "counter": clean_line(one.name),
                "by": one.by,
                "at_least": one.at_least,
            }


def _show_port(subnet: Traced, key: PortKey) -> PortRecord:
    owner = subnet.judgement.owners.get(key)
    if owner is not None:
        name = " ".join(filter(None, (owner.node, owner.rail))) or owner.shown
    else:
        name = subnet.judgement.switch_names.get(key.guid, key.guid)
    return {"name": name, "port": key.number, "guid": key.guid}
