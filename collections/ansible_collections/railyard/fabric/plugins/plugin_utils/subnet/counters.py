# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Rule: error counters grow no faster than a link's rate permits. Two readings tell; one tells nothing.

Errors on the receiving side belong to the cable and to both of its ports, so that each link is judged once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

from ansible_collections.railyard.fabric.plugins.module_utils.facts import link_errors
from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import Counters, PortKey
from ansible_collections.railyard.fabric.plugins.module_utils.rules import symbol_errors
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import named
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.finding import build_finding
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.links import Link
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Finding, Severity
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.view import View, report_link

SYMBOLS = "SymbolErrorCounter"
FLAPS = ("LinkErrorRecoveryCounter", "LinkDownedCounter")
RECEIVED = ("PortRcvErrors", "LocalLinkIntegrityErrors", "ExcessiveBufferOverrunErrors")
ELSEWHERE = "PortRcvRemotePhysicalErrors"
DISCARDS, WAIT = "PortXmitDiscards", "PortXmitWait"
#: As ibqueryerrors prints them -> as sysfs and `facts.link_errors` call them.
_SYSFS = {
    SYMBOLS: "hca.symbol_error",
    "LinkErrorRecoveryCounter": "hca.link_error_recovery",
    "LinkDownedCounter": "hca.link_downed",
    "PortRcvErrors": "hca.port_rcv_errors",
    "LocalLinkIntegrityErrors": "hca.local_link_integrity_errors",
    "ExcessiveBufferOverrunErrors": "hca.excessive_buffer_overrun_errors",
    ELSEWHERE: "hca.port_rcv_remote_physical_errors",
    WAIT: "hca.port_xmit_wait",
}
#: 16 bits (IBTA volume 1, 16.1.3.5).
_MOST_DISCARDS = 0xFFFF
#: So many links of one switch, and such a share of its links, point to the switch. Railyard's own choice.
_SEVERAL, _SHARE = 3, 0.25
_LOOK_AT_THE_SWITCH = (
    "Likely the switch itself, or its restart; see `ibqueryerrors`. Look at the switch before its cables: "
    "power, temperature, fans, firmware."
)
#: Lanes above this rate have FEC, so that each symbol error is one that FEC could not correct.
_FASTEST_WITHOUT_FEC_GBPS = 14.0625
#: A tick of PortXmitWait is the time of so many bytes: per port on Quantum (HDR and faster), per lane on
#: Switch-IB and SwitchX (NVIDIA, ibdiagnet User Manual v2.13, "Congestion Assessment on InfiniBand Links").
_TICK_BYTES, _TICK_BYTES_PER_LANE = 8, 32
_HDR_LANE_GBPS = 53.125
#: Ports that wait less than this share of the time are not reported.
_LITTLE_WAIT = 0.01


class Growth(NamedTuple):
    """How much a counter of a port grew.

    Attributes:
        name: the counter.
        by: how much.
        at_least: whether the counter is at its maximum, so that it grew by this or more.
    """

    name: str
    by: int
    at_least: bool


class Grown(NamedTuple):
    """Growth of all ports; what has no verdict.

    Attributes:
        ports: port -> counter -> how much it grew; ports without growth are missing.
        full: port -> counters that were at their maximum before.
        reset: the port of each counter that fell.
        unread: whether a port that is missing may not have been read.
    """

    ports: dict[PortKey, dict[str, Growth]]
    full: dict[PortKey, list[str]]
    reset: list[PortKey]
    unread: bool


class _Verdict(NamedTuple):
    link: Link
    cause: str
    severity: Severity
    text: str


def check_counters(view: View) -> tuple[list[Finding], list[str], float | None]:
    """Return links with errors, why some have no verdict, and the seconds between the readings."""
    counters = view.reading.counters
    if len(counters) < 2:
        how = "not read" if not counters else "read once"
        return [], [f"Error counters were {how}: whether they grow is not known."], None
    first, last = counters[0], counters[-1]
    seconds = last.taken_at_s - first.taken_at_s
    if seconds <= 0:
        return [], ["The two readings of the error counters have no time between them: no verdict."], None
    grown = measure_growth(first, last)
    notes = []
    if grown.reset:
        notes.append(
            f"{len(grown.reset)} error counters fell, so they were reset between the readings: no verdict."
        )
    if grown.unread:
        notes.append("Not all ports' error counters were read: the others have no verdict.")
    verdicts = [one for link in view.links if (one := _judge_link(view, link, grown, seconds)) is not None]
    findings = list(_report_links(view, verdicts))
    findings += _report_full(view, grown)
    elsewhere = {key: found[ELSEWHERE].by for key, found in grown.ports.items() if ELSEWHERE in found}
    if elsewhere:
        text = f"damaged packets from another link arrived at {_show_most(view, elsewhere)}"
        if any(one.severity == "fail" for one in verdicts):
            notes.append(f"As to be expected of the links with errors, {text}.")
        else:
            findings.append(build_finding("errors_elsewhere", "warn", text, ports=elsewhere))
    discards = {key: found[DISCARDS].by for key, found in grown.ports.items() if DISCARDS in found}
    if discards:
        text = f"packets were discarded at {_show_most(view, discards)}"
        findings.append(build_finding("packets_discarded", "warn", text, ports=discards))
    notes += _note_wait(view, grown, seconds)
    return findings, notes, seconds


def measure_growth(first: Counters, last: Counters) -> Grown:
    """Return what grew. A port that a complete reading does not have had no errors."""
    ports: dict[PortKey, dict[str, Growth]] = {}
    full: dict[PortKey, list[str]] = {}
    reset: list[PortKey] = []
    for key in first.errors | last.errors:
        before, after = first.errors.get(key, {}), last.errors.get(key, {})
        if (key not in first.errors and not first.complete) or (key not in last.errors and not last.complete):
            continue
        for name in dict.fromkeys([*before, *after]):
            old, new = before.get(name, 0), after.get(name, 0)
            is_full = _is_full(name, new)
            if new < old:
                reset.append(key)
            elif is_full and _is_full(name, old):
                full.setdefault(key, []).append(name)
            elif new > old:
                ports.setdefault(key, {})[name] = Growth(name, new - old, is_full)
    return Grown(ports, full, reset, not (first.complete and last.complete))


def _is_full(name: str, value: int) -> bool:
    if name == DISCARDS:
        return value == _MOST_DISCARDS
    return name in _SYSFS and link_errors.is_saturated(_SYSFS[name], value)


def _judge_link(view: View, link: Link, grown: Grown, seconds: float) -> _Verdict | None:
    """Judge the errors of both ends of a link together: the worst counter decides."""
    permitted = symbol_errors.permitted(link.rate_gbps, None, seconds)
    found = [
        (end, growth)
        for end in link.ends
        for name, growth in grown.ports.get(end, {}).items()
        if name in (SYMBOLS, *FLAPS, *RECEIVED)
    ]
    has_fec = (link.lane_gbps or 0.0) > _FASTEST_WITHOUT_FEC_GBPS
    flapped = any(growth.name in FLAPS for _end, growth in found)
    beyond = [one for _end, one in found if one.name not in FLAPS and permitted and one.by > permitted.errors]
    small = [
        one
        for _end, one in found
        if one.name in RECEIVED or (one.name == SYMBOLS and (has_fec or permitted is None))
    ]
    if not (flapped or beyond or small):
        return None
    counted = named([f"{_show_growth(growth)} at {view.show_port(end)}" for end, growth in found], most=8)
    text = f"{view.show_port(link.one)} to {view.show_port(link.other)}, in {seconds:.0f} s: {counted}"
    worst = max((one for _end, one in found if one.name not in FLAPS), key=lambda one: one.by, default=None)
    if worst is not None and permitted is not None and link.rate_gbps:
        if not worst.at_least:
            text += f"; {worst.by / (link.rate_gbps * 1e9 * seconds):.1e} errors per bit"
        text += f"; permitted are {permitted.errors:.4g} ({permitted.ratio:.0e} per bit: {permitted.source})"
    if flapped:
        return _Verdict(link, "flapped", "fail", text)
    return _Verdict(link, *(("errors_above_ber", "fail") if beyond else ("errors_counted", "warn")), text)


def _show_growth(growth: Growth) -> str:
    return f"{growth.name} by {'at least ' if growth.at_least else ''}{growth.by}"


def _report_links(view: View, verdicts: list[_Verdict]) -> Iterator[Finding]:
    """Yield the links with errors; where many of one switch fail, one finding that names the switch."""
    links_of = Counter(end.guid for link in view.links for end in link.ends)
    left = {one.link.ends: one for one in verdicts if one.severity == "fail"}
    while left:
        counted = Counter(
            (one.cause, end.guid) for ends, one in left.items() for end in ends if view.is_switch(end.guid)
        )
        many = {
            key: count
            for key, count in counted.items()
            if count >= _SEVERAL and count >= _SHARE * links_of[key[1]]
        }
        if not many:
            break
        cause, guid = max(many, key=lambda key: (many[key], key))
        same = [
            one for ends, one in left.items() if one.cause == cause and guid in (ends[0].guid, ends[1].guid)
        ]
        for one in same:
            del left[one.link.ends]
        where = named([f"port {end.number}" for one in same for end in one.link.ends if end.guid == guid], 8)
        text = (
            f"{view.show_switch(guid)}: {len(same)} of its {links_of[guid]} links, at {where}; {same[0].text}"
        )
        ports = [end for one in same for end in one.link.ends]
        yield build_finding(cause, "fail", text, ports=ports)._replace(next=_LOOK_AT_THE_SWITCH)
    for one in verdicts:
        if one.severity == "fail" and one.link.ends not in left:
            continue
        yield report_link(view, one.link, one.cause, one.severity, one.text)


def _report_full(view: View, grown: Grown) -> Iterator[Finding]:
    if grown.full:
        shown = [f"{view.show_port(key)} ({named(names)})" for key, names in grown.full.items()]
        text = f"counters are at their maximum, so at least that: {named(shown, most=8)}"
        yield build_finding("counter_saturated", "warn", text, ports=grown.full)


def _show_most(view: View, counted: dict[PortKey, int]) -> str:
    most = sorted(counted, key=lambda key: -counted[key])
    return named([f"{view.show_port(key)} ({counted[key]})" for key in most], most=5)


def _note_wait(view: View, grown: Grown, seconds: float) -> Iterator[str]:
    """Yield how long ports waited to send, as a share of the time: congestion, and no fault of the link."""
    shares: dict[PortKey, tuple[float, bool]] = {}
    for key, found in grown.ports.items():
        link = view.link_at.get(key)
        if WAIT in found and link is not None and link.rate_gbps and link.lane_gbps and link.width:
            per_lane = link.lane_gbps < _HDR_LANE_GBPS
            tick_bytes = _TICK_BYTES_PER_LANE * link.width if per_lane else _TICK_BYTES
            share = found[WAIT].by * tick_bytes * 8 / (link.rate_gbps * 1e9 * seconds)
            shares[key] = min(share, 1.0), found[WAIT].at_least
    most = sorted((key for key in shares if shares[key][0] >= _LITTLE_WAIT), key=lambda key: -shares[key][0])
    if most:
        shown = [
            f"{view.show_port(key)} {'at least' if shares[key][1] else 'about'} {100 * shares[key][0]:.0f} %"
            for key in most
        ]
        yield f"Ports waited to send (congestion), of the time: {named(shown, most=5)}."
