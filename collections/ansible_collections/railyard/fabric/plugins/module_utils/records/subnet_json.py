# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A reading of a subnet as JSON, `reading.json`: written whole, and checked when it is loaded."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Optional, TypedDict

from ansible_collections.railyard.fabric.plugins.module_utils.records import reader
from ansible_collections.railyard.fabric.plugins.module_utils.records.reader import (
    AboveZero,
    AtLeast,
    Matches,
)
from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import (
    Counters,
    Device,
    Duplicate,
    NoAnswer,
    Port,
    PortKey,
    Problem,
    Reading,
    Source,
    SubnetManager,
)

SCHEMA = 1
_Guid = Annotated[str, Matches("0x[0-9a-f]{16}")]
_Count = Annotated[int, AtLeast(0)]
_Positive = Annotated[int, AtLeast(1)]


class KeyRecord(TypedDict):
    """A port: the GUID of its device, and its number."""

    guid: _Guid
    number: _Count


class SourceRecord(TypedDict):
    """A line of a file."""

    file: str
    line: _Count


class PortRecord(TypedDict):
    """A port of a device; its key is that of the device and `number`."""

    number: _Count
    port_guid: Optional[_Guid]
    lid: Optional[_Positive]
    state: Optional[str]
    physical: Optional[str]
    width: Optional[_Positive]
    lane_gbps: Optional[Annotated[float, AboveZero()]]
    peer: Optional[KeyRecord]
    could_be: list[str]
    sources: list[SourceRecord]


class DeviceRecord(TypedDict):
    """A switch or an adapter."""

    guid: _Guid
    kind: Literal["switch", "adapter", "router", "aggregation"]
    description: str
    system_guid: Optional[_Guid]
    ports: list[PortRecord]


class ManagerRecord(TypedDict):
    """A subnet manager."""

    port_guid: Optional[_Guid]
    lid: Optional[_Positive]
    state: Optional[Literal["MASTER", "STANDBY", "DISCOVER", "NOTACT"]]
    priority: Optional[_Count]
    activity: Optional[_Count]
    source: SourceRecord


class PkeysRecord(TypedDict):
    """The P_Key table of a port."""

    port: KeyRecord
    keys: list[_Count]


class ErrorsRecord(TypedDict):
    """The counters of a port."""

    port: KeyRecord
    counters: dict[str, _Count]


class CountersRecord(TypedDict):
    """One reading of the counters."""

    taken_at_s: float
    complete: bool
    errors: list[ErrorsRecord]


class SilentRecord(TypedDict):
    """What did not answer."""

    target: str
    behind: Optional[KeyRecord]
    text: str
    source: SourceRecord


class DuplicateRecord(TypedDict):
    """A GUID that two ports have."""

    guid: _Guid
    keys: list[KeyRecord]
    text: str
    source: SourceRecord


class ProblemRecord(TypedDict):
    """Why a part is not known."""

    kind: Literal["line", "command", "missing", "denied", "changed", "damaged"]
    text: str
    source: SourceRecord


class ReadingRecord(TypedDict):
    """`reading.json`."""

    schema: Literal[1]
    taken_at_s: float
    host: Optional[str]
    device: Optional[str]
    prefix: Optional[_Guid]
    devices: list[DeviceRecord]
    managers: Optional[list[ManagerRecord]]
    pkeys: Optional[list[PkeysRecord]]
    counters: list[CountersRecord]
    silent: list[SilentRecord]
    duplicates: list[DuplicateRecord]
    problems: list[ProblemRecord]


def dump(reading: Reading) -> dict[str, Any]:
    """Return a reading as what `json.dumps` takes."""
    managers, pkeys = reading.managers, reading.pkeys
    return {
        "schema": SCHEMA,
        "taken_at_s": reading.taken_at_s,
        "host": reading.host,
        "device": reading.device,
        "prefix": reading.prefix,
        "devices": [
            {
                "guid": one.guid,
                "kind": one.kind,
                "description": one.description,
                "system_guid": one.system_guid,
                "ports": [_dump_port(port) for port in one.ports.values()],
            }
            for one in reading.devices.values()
        ],
        "managers": None if managers is None else [_dump_plain(one) for one in managers],
        "pkeys": None
        if pkeys is None
        else [{"port": key._asdict(), "keys": list(keys)} for key, keys in pkeys.items()],
        "counters": [
            {
                "taken_at_s": one.taken_at_s,
                "complete": one.complete,
                "errors": [
                    {"port": key._asdict(), "counters": dict(read)} for key, read in one.errors.items()
                ],
            }
            for one in reading.counters
        ],
        "silent": [
            {**_dump_plain(one), "behind": one.behind._asdict() if one.behind else None}
            for one in reading.silent
        ],
        "duplicates": [
            {**_dump_plain(one), "keys": [key._asdict() for key in one.keys]} for one in reading.duplicates
        ],
        "problems": [_dump_plain(one) for one in reading.problems],
    }


def _dump_plain(one: SubnetManager | NoAnswer | Duplicate | Problem) -> dict[str, Any]:
    return {**one._asdict(), "source": one.source._asdict()}


def _dump_port(port: Port) -> dict[str, Any]:
    return {
        "number": port.key.number,
        "port_guid": port.port_guid,
        "lid": port.lid,
        "state": port.state,
        "physical": port.physical,
        "width": port.width,
        "lane_gbps": port.lane_gbps,
        "peer": port.peer._asdict() if port.peer else None,
        "could_be": list(port.could_be),
        "sources": [one._asdict() for one in port.sources],
    }


def load(document: object, place: str = "") -> Reading:
    """Return the reading that `dump` wrote.

    Args:
        document: what JSON gave.
        place: the file, for an error.

    Raises:
        RefusedError: the document is something else; the text names the place in it.
    """
    found = reader.read(ReadingRecord, document, place)
    managers, pkeys = found["managers"], found["pkeys"]
    return Reading(
        found["taken_at_s"],
        found["host"],
        found["device"],
        found["prefix"],
        {one["guid"]: _load_device(one) for one in found["devices"]},
        None if managers is None else tuple(_load_manager(one) for one in managers),
        None if pkeys is None else {_key(one["port"]): tuple(one["keys"]) for one in pkeys},
        tuple(
            Counters(
                one["taken_at_s"],
                {_key(port["port"]): port["counters"] for port in one["errors"]},
                one["complete"],
            )
            for one in found["counters"]
        ),
        tuple(
            NoAnswer(
                one["target"],
                _key(one["behind"]) if one["behind"] else None,
                one["text"],
                _source(one["source"]),
            )
            for one in found["silent"]
        ),
        tuple(
            Duplicate(one["guid"], tuple(map(_key, one["keys"])), one["text"], _source(one["source"]))
            for one in found["duplicates"]
        ),
        tuple(Problem(one["kind"], one["text"], _source(one["source"])) for one in found["problems"]),
    )


def _key(record: KeyRecord) -> PortKey:
    return PortKey(record["guid"], record["number"])


def _source(record: SourceRecord) -> Source:
    return Source(record["file"], record["line"])


def _load_manager(one: ManagerRecord) -> SubnetManager:
    return SubnetManager(
        one["port_guid"],
        one["lid"],
        one["state"],
        one["priority"],
        one["activity"],
        _source(one["source"]),
    )


def _load_device(one: DeviceRecord) -> Device:
    guid = one["guid"]
    ports = {port["number"]: _load_port(guid, port) for port in one["ports"]}
    return Device(guid, one["kind"], one["description"], ports, one["system_guid"])


def _load_port(guid: str, one: PortRecord) -> Port:
    return Port(
        PortKey(guid, one["number"]),
        one["port_guid"],
        one["lid"],
        one["state"],
        one["physical"],
        one["width"],
        one["lane_gbps"],
        _key(one["peer"]) if one["peer"] else None,
        tuple(one["could_be"]),
        tuple(map(_source, one["sources"])),
    )
