# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rule: what was not read is not healthy.

Devices that do not answer, GUIDs that two devices have, ports that are up without a readable neighbor, and
parts of the reading that failed. Each such port explains a rail that seems to be missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import Duplicate, PortKey, Source
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean_line, named
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.cabling import PlannedLeaf
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.finding import build_finding
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.links import has_link
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Finding, Severity
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.names import Place
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.view import View, place_of, show_place

_CAUSE_OF_PROBLEM = {
    "changed": "subnet_changed",
    "denied": "subnet_denied",
    "damaged": "subnet_damaged",
    "line": "subnet_damaged",
    "command": "subnet_unread",
    "missing": "subnet_unread",
}


@dataclass
class Unread:
    """What was not read.

    Attributes:
        findings: what is reported.
        explained: rails that are behind a port that could not be read: they are not missing.
        devices: switches of the previous reading, or leaves' names, that do not answer.
        ports: ports that lead to something that could not be read.
        doubtful: rails whose adapter shares its GUID: what is seen of it may be of the other one.
    """

    findings: list[Finding] = field(default_factory=list)
    explained: set[Place] = field(default_factory=set)
    devices: set[str] = field(default_factory=set)
    ports: set[PortKey] = field(default_factory=set)
    doubtful: set[Place] = field(default_factory=set)


def check_unread(view: View, planned: dict[Place, PlannedLeaf]) -> Unread:
    """Return what was not read, and which rails that explains."""
    found = Unread()
    blind = [
        port.key
        for device in view.reading.devices.values()
        for port in device.ports.values()
        if port.key.number > 0
        and (port.peer is None or port.peer.guid not in view.reading.devices)
        and has_link(port)
        and port.key not in view.link_at
    ]
    lost = _Lost(view, planned, Counter(key.guid for key in blind))
    _report_duplicates(view, lost, found, blind)
    _report_silent(view, lost, found, blind)
    for key in blind:
        places = lost.take_at(key)
        found.explained |= lost.explain(places, [key])
        found.ports.add(key)
        text = f"{view.show_port(key)} is up, and has no readable neighbor"
        text += f"; {_either(places)} should be there" if places else ""
        found.findings.append(_at_port(view, "port_no_peer", "fail", key, text, places))
    found.findings += _report_problems(view)
    return found


class _Lost:
    """Rails without a link, and at which port each of them should be."""

    def __init__(self, view: View, planned: dict[Place, PlannedLeaf], blind: Counter[str]) -> None:
        self._blind = blind
        self._at_port: dict[PortKey, Place] = {}
        self._at_switch: dict[str, list[Place]] = {}
        ports = [place_of(one) for one in view.expected.ports if not one.absent]
        linked = {place[0] for place in ports if view.port_of(place) is not None}
        for place in ports:
            if view.port_of(place) is not None:
                continue
            last = view.before.switch_of(place) if view.before else None
            plan = planned.get(place)
            if last is not None:
                self._at_port[last] = place
            elif plan is not None and plan.guid is not None:
                self._at_switch.setdefault(plan.guid, []).append(place)
        # A node without any link is rather off than hidden behind one port.
        for guid, places in self._at_switch.items():
            self._at_switch[guid] = [place for place in places if place[0] in linked] or places

    def take_at(self, key: PortKey) -> list[Place]:
        """Return the rails that may be behind a port: the one of the previous reading, or the leaf's."""
        place = self._at_port.get(key)
        return [place] if place is not None else self._at_switch.get(key.guid, [])

    def explain(self, places: list[Place], keys: Iterable[PortKey]) -> set[Place]:
        """Return the rails that are explained: not where more are lost than there are blind ports."""
        if all(key in self._at_port for key in keys):
            return set(places)
        fewest = min((self._blind[key.guid] for key in keys), default=0)
        return set(places) if len(places) <= max(fewest, 1) else set()


def _either(places: list[Place]) -> str:
    return named([show_place(place) for place in places], between=" or ")


def _at_port(
    view: View,
    cause: str,
    severity: Severity,
    key: PortKey,
    text: str,
    places: list[Place],
    sources: tuple[Source, ...] = (),
) -> Finding:
    port = view.port(key)
    node, rail = places[0] if len(places) == 1 else (None, None)
    return build_finding(
        cause,
        severity,
        text,
        node=node,
        rail=rail,
        ports=[key],
        sources=[*(port.sources if port else ()), *sources],
    )


def _report_duplicates(view: View, lost: _Lost, found: Unread, blind: list[PortKey]) -> None:
    """Report GUIDs that two devices have; takes the ports that they explain out of `blind`."""
    by_guid: dict[str, list[Duplicate]] = {}
    for one in view.reading.duplicates:
        by_guid.setdefault(one.guid, []).append(one)
    own = {
        port.port_guid: port.key for device in view.reading.devices.values() for port in device.ports.values()
    }
    claimed = {key for same in by_guid.values() for one in same for key in one.keys}
    claimed |= {one.behind for one in view.reading.silent if one.behind is not None}
    for guid, same in by_guid.items():
        keys = dict.fromkeys(key for one in same for key in one.keys)
        seen = [own[guid]] if guid in own else []
        if guid in view.reading.devices:
            seen = [port.key for port in view.reading.devices[guid].ports.values()]
        # The one that is visible is found by its link, the other one by a port that is up without a neighbor.
        keys |= dict.fromkeys(peer for key in seen if (peer := view.peer_of(key)))
        free = [key for key in blind if key not in claimed]
        if not any(key in blind for key in keys) and len(free) <= len(by_guid):
            keys |= dict.fromkeys(free[:1])
        hidden = [key for key in keys if key in blind]
        for key in hidden:
            blind.remove(key)
        # The tools join both to one device: its name may be that of the one, its link that of the other.
        at = hidden if any(lost.take_at(key) for key in hidden) else list(keys)
        places = list(dict.fromkeys(place for key in at for place in lost.take_at(key)))
        found.explained |= lost.explain(places, at)
        found.ports |= set(hidden)
        owners = [view.owners.of_port[key] for key in seen if key in view.owners.of_port]
        found.doubtful |= {(own.node, own.rail) for own in owners if own.node and own.rail}
        where = named([view.show_port(key) for key in keys], between=" and at ")
        text = f"GUID {guid} is there twice" + (f": at {where}" if where else "")
        text += f"; it shows as {named([view.show_port(key) for key in seen])}" if seen else ""
        text += f"; not to be seen is {_either(places)}" if places else ""
        node, rail = places[0] if len(places) == 1 else (None, None)
        sources = [one.source for one in same]
        ports = [*keys, *seen]
        found.findings.append(
            build_finding("guid_duplicate", "fail", text, node=node, rail=rail, ports=ports, sources=sources)
        )


def _report_silent(view: View, lost: _Lost, found: Unread, blind: list[PortKey]) -> None:
    """Report what does not answer, once for each device; takes the ports that it explains out of `blind`."""
    if not view.reading.silent:
        return
    sources = tuple(dict.fromkeys(one.source for one in view.reading.silent))
    behind = dict.fromkeys([one.behind for one in view.reading.silent if one.behind is not None])
    if any(one.behind is None for one in view.reading.silent) or not behind:
        behind |= dict.fromkeys(blind)
    for key in list(behind):
        if key in view.link_at or key.guid not in view.reading.devices:
            del behind[key]  # it answered another request, or nothing is known of where it is
        elif key in blind:
            blind.remove(key)
    groups: dict[str, list[PortKey]] = {}
    unknown: list[PortKey] = []
    for key in behind:
        last = view.before.peer_of(key) if view.before else None
        if last is not None and last.guid not in view.reading.devices:
            groups.setdefault(last.guid, []).append(key)
        else:
            unknown.append(key)
    for guid, keys in groups.items():
        found.devices.add(guid)
        _report_device(view, lost, found, keys, sources)
    # A switch above has a port at every leaf, mostly of the same number: that is no adapter of one leaf.
    uplinks = {key.number for key in unknown if not lost.take_at(key)}
    adapters = [key for key in unknown if lost.take_at(key) and key.number not in uplinks]
    for key in adapters:
        _report_device(view, lost, found, [key], sources)
    others = [key for key in unknown if key not in adapters]
    at_leaves = [key for key in others if view.tiers.levels.get(key.guid) == 0]
    for keys in (at_leaves, [key for key in others if key not in at_leaves]):
        if keys:
            _report_unknown(view, found, keys, sources)
    if not behind:
        _report_unknown(view, found, [], sources)


def _report_device(
    view: View, lost: _Lost, found: Unread, keys: list[PortKey], sources: tuple[Source, ...]
) -> None:
    places = list(dict.fromkeys(place for key in keys for place in lost.take_at(key)))
    found.explained |= lost.explain(places, keys)
    found.ports |= set(keys)
    last = view.before.peer_of(keys[0]) if view.before else None
    before = view.before
    if last is not None and before is not None and before.is_switch(last.guid):
        who = before.show_switch(last.guid)
        places = []
    elif places:
        who = _either(places)
    else:
        who = view.show_port(last) if last is not None else "what is connected"
    where = named([view.show_port(key) for key in keys])
    text = f"{who} does not answer: it is connected to {where}"
    finding = _at_port(view, "no_answer", "unmeasured", keys[0], text, places, sources)
    found.findings.append(finding._replace(ports=tuple(keys)))


def _report_unknown(view: View, found: Unread, keys: list[PortKey], sources: tuple[Source, ...]) -> None:
    """Report ports to unknown devices; one missing leaf is likely it."""
    found.ports |= set(keys)
    wanted = dict.fromkeys([*view.expected.leaves, *(one.leaf for one in view.expected.ports if one.leaf)])
    missing = [name for name in wanted if name not in view.leaves]
    where = named([view.show_port(key) for key in keys])
    # What does not answer below a spine is a leaf; below a leaf it is no leaf.
    is_leaf = not any(view.tiers.levels.get(key.guid) == 0 for key in keys)
    if is_leaf and len(missing) == 1 and not (view.before and missing[0] in view.before.leaves):
        found.devices.add(missing[0])
        text = f"{missing[0]} is not visible, and a device does not answer"
    else:
        targets = list(dict.fromkeys(clean_line(one.target)[:80] for one in view.reading.silent))
        text = f"a device does not answer ({named(targets)})"
    text += f": it is connected to {where}" if keys else ""
    found.findings.append(build_finding("no_answer", "unmeasured", text, ports=keys, sources=sources))


def _report_problems(view: View) -> Iterator[Finding]:
    """Yield what of the reading is not known, once for each file and kind."""
    groups: dict[tuple[str, str], list[tuple[str, Source]]] = {}
    for problem in view.reading.problems:
        cause = _CAUSE_OF_PROBLEM.get(problem.kind, "subnet_damaged")
        groups.setdefault((cause, problem.source.file), []).append((problem.text, problem.source))
    for (cause, file), texts in groups.items():
        lines = named([f"line {source.line}" for _text, source in texts if source.line])
        more = f" ({len(texts)} in all: {lines})" if len(texts) > 1 and lines else ""
        first = texts[0][0]
        text = (first if first.startswith(file) else f"{file}: {first}") + more
        yield build_finding(cause, "unmeasured", text, sources=[source for _text, source in texts])
    for one, other in view.conflicts:
        text = f"{view.show_port(one)} and {view.show_port(other)} disagree about their link"
        yield build_finding("subnet_changed", "unmeasured", text, ports=[one, other])
