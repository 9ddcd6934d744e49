# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A reading of a subnet as JSON, `reading.json`: written whole, and checked when it is loaded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, Optional, TypedDict, TypeVar

from . import reader
from .reader import AboveZero, AtLeast, Matches
from .subnet import (
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

_T = TypeVar("_T")
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
    pkeys = reading.pkeys
    return {
        "schema": SCHEMA,
        **_dump_plain(reading),
        "devices": [
            {**_dump_plain(one), "ports": [_dump_port(port) for port in one.ports.values()]}
            for one in reading.devices.values()
        ],
        "pkeys": None
        if pkeys is None
        else [{"port": key._asdict(), "keys": list(keys)} for key, keys in pkeys.items()],
        "counters": [
            {
                **one._asdict(),
                "errors": [{"port": key._asdict(), "counters": read} for key, read in one.errors.items()],
            }
            for one in reading.counters
        ],
    }


def _dump_plain(value: Any) -> Any:
    """Return a tuple with names as an object and another one as a list, and so what is in it."""
    if hasattr(value, "_asdict"):
        return {name: _dump_plain(one) for name, one in value._asdict().items()}
    return [_dump_plain(one) for one in value] if isinstance(value, tuple) else value


def _dump_port(port: Port) -> dict[str, Any]:
    rest: dict[str, Any] = _dump_plain(port)
    return {"number": rest.pop("key")["number"], **rest}


def load(document: object, place: str = "") -> Reading:
    """Return the reading that `dump` wrote.

    Args:
        document: what JSON gave.
        place: the file, for an error.

    Raises:
        RefusedError: the document is something else; the text names the place in it.
    """
    found: dict[str, Any] = {**reader.read(ReadingRecord, document, place)}
    del found["schema"]
    found["devices"] = {one["guid"]: _load_device(one) for one in found["devices"]}
    if found["pkeys"] is not None:
        found["pkeys"] = {PortKey(**one["port"]): tuple(one["keys"]) for one in found["pkeys"]}
    found["counters"] = [
        {**one, "errors": {PortKey(**port["port"]): port["counters"] for port in one["errors"]}}
        for one in found["counters"]
    ]
    for name, kind in _LISTS.items():
        if found[name] is not None:
            found[name] = tuple(_load_plain(kind, one) for one in found[name])
    return Reading(**found)


def _load_device(record: dict[str, Any]) -> Device:
    ports = {}
    for one in record["ports"]:
        rest = {**one}
        number = rest.pop("number")
        ports[number] = _load_plain(Port, {"key": {"guid": record["guid"], "number": number}, **rest})
    return Device(**{**record, "ports": ports})


def _load_plain(kind: Callable[..., _T], record: Mapping[str, Any]) -> _T:
    """Return the tuple of a record that was checked."""
    return kind(
        **{
            name: _PARTS[name](one) if name in _PARTS and one is not None else one
            for name, one in record.items()
        }
    )


_LISTS: Mapping[str, Callable[..., Any]] = {
    "managers": SubnetManager,
    "counters": Counters,
    "silent": NoAnswer,
    "duplicates": Duplicate,
    "problems": Problem,
}
#: How the keys of records are loaded that hold more than a plain value.
_PARTS: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("key", "peer", "behind"), lambda one: PortKey(**one)),
    "keys": lambda keys: tuple(PortKey(**one) for one in keys),
    "source": lambda one: Source(**one),
    "sources": lambda sources: tuple(Source(**one) for one in sources),
    "could_be": tuple,
}
