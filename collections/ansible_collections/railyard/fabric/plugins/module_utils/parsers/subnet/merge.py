# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Joins what several texts say of switches, adapters and their ports."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from ...records.subnet import Device, Port, PortKey, Problem, Source
from . import links, statements
from .identities import Identities
from .statements import End, Found, Statement

_UP = ("Active", "Armed", "Initialize", "Init")
_MOST_NAMED = 20


class Net(NamedTuple):
    """The devices of several texts, the port that was read from, and what is not known."""

    devices: dict[str, Device]
    start: PortKey | None
    identities: Identities
    problems: list[Problem]


def join(texts: Sequence[Found]) -> Net:
    """Join the texts; where they differ, the earlier one has the say on names and rates.

    Ports of which the texts name different peers have none, and a problem says so.
    """
    problems = [problem for text in texts for problem in text.problems]
    problems += _report_empty(texts)
    problems += _report_unrelated(texts)
    identities = Identities(texts)
    lines = [links.sort_lines(text, identities) for text in texts]
    agreed = links.agree(lines)
    ports = _join_ports(lines, agreed.links, identities, problems)
    problems += agreed.problems
    devices = _join_devices(texts, lines, ports, identities)
    return Net(devices, _find_start(texts, identities), identities, problems)


def _report_empty(texts: Sequence[Found]) -> Iterator[Problem]:
    """Report texts that end before the first port, or before the first port of their last device."""
    for text in texts:
        linked = {one.end.device_guid for one in text.statements}
        start = text.start[0] if text.start else None
        bare = [one for one in text.devices if one.guid not in linked and one.guid != start]
        if not text.statements and not (text.devices and not bare):
            yield Problem(
                "damaged", f"{text.file}: names no port, so it is cut or damaged", Source(text.file, 0)
            )
        elif text.names_all_links and bare:
            # A device is found by a link, so that it has one.
            shown = f"{text.file}: {bare[0].kind} {bare[0].guid} has no port, so the output is cut or damaged"
            yield Problem("damaged", shown, Source(text.file, bare[0].line))


def _report_unrelated(texts: Sequence[Found]) -> Iterator[Problem]:
    """Report texts that share no device with the first: they are of another subnet, or of another day."""
    guids = [
        (
            text.file,
            {guid for one in text.statements for guid in (one.end.device_guid, one.end.port_guid) if guid},
        )
        for text in texts
    ]
    first = next(((file, own) for file, own in guids if own), None)
    for file, own in guids:
        if first and own and not own & first[1]:
            text = f"{file} and {first[0]} have no device in common, so they are not of the same subnet"
            yield Problem("changed", text, Source(file, 0))


def _join_ports(
    lines: Sequence[links.Lines],
    peers: dict[PortKey, PortKey],
    identities: Identities,
    problems: list[Problem],
) -> dict[PortKey, Port]:
    said: dict[PortKey, list[tuple[str, Statement]]] = {}
    named: dict[PortKey, End] = {}
    for one in lines:
        for key, statement in one.by_port.items():
            said.setdefault(key, []).append((one.text.file, statement))
            peer = one.peers[key]
            if peer is not None and statement.peer is not None:
                named.setdefault(peer, statement.peer)
    found = {}
    differ = []
    for key, all_said in said.items():
        port = _port(key, all_said, peers.get(key))
        found[key] = port
        if _rates_differ(all_said):
            differ.append(key)
    # A port that only its peer's line names.
    for key, peer in peers.items():
        if key not in found:
            other, end = found[peer], named.get(key)
            found[key] = Port(
                key,
                end.port_guid if end else None,
                end.lid if end else None,
                width=other.width,
                lane_gbps=other.lane_gbps,
                peer=peer,
                sources=other.sources,
            )
    problems += _tell_rates(differ, said)
    return found


def _port(key: PortKey, said: list[tuple[str, Statement]], peer: PortKey | None) -> Port:
    first = _First(said)
    state = first.value("state")
    is_up = peer is not None or state in _UP
    return Port(
        key,
        first.end("port_guid"),
        first.end("lid"),
        state,
        first.value("physical"),
        first.value("width") if is_up else None,
        first.value("lane_gbps") if is_up else None,
        peer,
        first.value("could_be") or (),
        tuple(Source(file, one.line) for file, one in said),
    )


class _First:
    """The first value that is known of each attribute."""

    def __init__(self, said: list[tuple[str, Statement]]) -> None:
        self._said = said

    def value(self, name: str) -> Any:
        return next((found for _file, one in self._said if (found := getattr(one, name)) is not None), None)

    def end(self, name: str) -> Any:
        return next(
            (found for _file, one in self._said if (found := getattr(one.end, name)) is not None), None
        )


def _rates_differ(said: list[tuple[str, Statement]]) -> bool:
    if len(said) == 1 or any(one.state == "Down" for _file, one in said):
        return False
    rates = [(one.width, one.lane_gbps) for _file, one in said if one.width and one.lane_gbps]
    return any(rate != rates[0] for rate in rates[1:])


def _tell_rates(differ: list[PortKey], said: dict[PortKey, list[tuple[str, Statement]]]) -> Iterator[Problem]:
    for key in differ[:_MOST_NAMED]:
        rates = "; ".join(
            f"{file}: {one.width} lanes of {one.lane_gbps:g} Gbit/s"
            for file, one in said[key]
            if one.width and one.lane_gbps
        )
        text = f"the rate of {key.guid} port {key.number} changed while the subnet was read ({rates})"
        file, statement = said[key][0]
        yield Problem("changed", text, Source(file, statement.line))


def _join_devices(
    texts: Sequence[Found],
    lines: Sequence[links.Lines],
    ports: dict[PortKey, Port],
    identities: Identities,
) -> dict[str, Device]:
    kinds: dict[str, str] = {}
    names: dict[str, str] = {}
    systems: dict[str, str] = {}

    def add(guid: str, kind: str | None, name: str | None) -> None:
        if kind:
            kinds.setdefault(guid, kind)
        if name:
            names.setdefault(guid, name)

    for text in texts:
        for device in text.devices:
            add(device.guid, device.kind, device.name)
            if device.system_guid:
                systems.setdefault(device.guid, device.system_guid)
    for own_only in (True, False):
        for one in lines:
            for key, statement in one.by_port.items():
                peer = one.peers[key]
                if own_only:
                    add(key.guid, statement.end.kind, statement.end.name)
                elif peer is not None and statement.peer is not None:
                    add(peer.guid, statement.peer.kind, statement.peer.name)
    by_device: dict[str, dict[int, Port]] = {one.guid: {} for text in texts for one in text.devices}
    for key in sorted(ports):
        by_device.setdefault(key.guid, {})[key.number] = ports[key]
    return {
        guid: Device(
            guid,
            _kind(kinds.get(guid), names.get(guid), own),
            names.get(guid, ""),
            own,
            systems.get(guid),
        )
        for guid, own in by_device.items()
    }


def _kind(kind: str | None, name: str | None, ports: dict[int, Port]) -> str:
    """Return a device's kind; where no line names it, what has one GUID for several ports is a switch."""
    own = kind or ("switch" if len(ports) > 1 else "adapter")
    return (statements.kind_of("ca", name) or own) if own == "adapter" else own


def _find_start(texts: Sequence[Found], identities: Identities) -> PortKey | None:
    for text in texts:
        if text.start is not None:
            device, port_guid = text.start
            for one in text.statements:
                if one.end.device_guid == device and one.end.port_guid == port_guid:
                    return identities.find(one.end)
    return None
