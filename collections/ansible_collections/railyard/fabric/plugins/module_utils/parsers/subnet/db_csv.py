# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""`ibdiagnet2.db_csv` of NVIDIA's ibdiagnet: the sections NODES, PORTS, LINKS and PM_INFO.

A section is `START_X`, a line of column names, lines of values, `END_X`. Columns are found by their names:
versions order them differently. Format: the reader of NVIDIA's UFM tools and the records of public parsers.
"""

from __future__ import annotations

import csv
import re
from typing import NamedTuple

from ...records.subnet import LANE_GBPS
from . import statements
from .statements import DeviceLine, End, Found, Problems, Statement

_SECTIONS = ("NODES", "PORTS", "LINKS", "PM_INFO")
_KINDS = {"1": "ca", "2": "switch", "3": "router"}
_WIDTHS = {1: 1, 2: 4, 4: 8, 8: 12, 16: 2}
_SPEEDS = {
    1: "SDR",
    2: "DDR",
    4: "QDR",
    1 << 8: "FDR",
    1 << 9: "EDR",
    1 << 10: "HDR",
    1 << 11: "NDR",
    1 << 12: "XDR",
    1 << 16: "FDR10",
}
_STATES = {1: "Down", 2: "Initialize", 3: "Armed", 4: "Active"}
_PHYSICAL = {
    1: "Sleep",
    2: "Polling",
    3: "Disabled",
    4: "PortConfigurationTraining",
    5: "LinkUp",
    6: "LinkErrorRecovery",
    7: "PhyTest",
}
# The error counters, with and without the suffix of the wide ones; traffic and times are not errors.
_ERRORS = (
    "SymbolErrorCounter",
    "LinkErrorRecoveryCounter",
    "LinkDownedCounter",
    "PortRcvErrors",
    "PortRcvRemotePhysicalErrors",
    "PortRcvSwitchRelayErrors",
    "PortXmitDiscards",
    "PortXmitConstraintErrors",
    "PortRcvConstraintErrors",
    "LocalLinkIntegrityErrors",
    "ExcessiveBufferOverrunErrors",
    "VL15Dropped",
    "PortXmitWait",
)
_NUMBER = re.compile(r"\s*(?:0x([0-9a-fA-F]{1,16})|([0-9]{1,20}))\s*\Z")


class Database(NamedTuple):
    """What one file says: the net, and the counters by device GUID and port; None without PM_INFO."""

    found: Found
    counters: dict[tuple[str, int], dict[str, int]] | None
    prefix: str | None


def parse(text: str, file: str) -> Database:
    """Read the sections that are known; others are passed over."""
    return _Reader(file).read(text)


class _Reader:
    def __init__(self, file: str) -> None:
        self._file = file
        self._problems = Problems(file)
        self._devices: dict[str, DeviceLine] = {}
        self._ports: dict[tuple[str, int], Statement] = {}
        self._links: list[tuple[tuple[str, int], tuple[str, int], int]] = []
        self._counters: dict[tuple[str, int], dict[str, int]] | None = None
        self._prefixes: set[str] = set()

    def read(self, text: str) -> Database:
        section, started, ended = "", set(), set()
        names: list[str] = []
        for number, line in statements.numbered_lines(text):
            if line.startswith("START_"):
                section, names = line[len("START_") :].strip(), []
                started.add(section)
                if section == "PM_INFO":
                    self._counters = {}
            elif line.startswith("END_"):
                if line[len("END_") :].strip() == section:
                    ended.add(section)
                section = ""
            elif section in _SECTIONS:
                values = next(csv.reader([line]))
                if not names:
                    names = [one.strip().lower() for one in values]
                elif len(values) != len(names) or not self._row(section, names, values, number):
                    self._problems.add_line(number, line)
        for one in _SECTIONS:
            if one in started - ended:
                self._problems.add("damaged", f"{self._file}: section {one} has no end", 0)
            elif one not in started and one != "PM_INFO":
                self._problems.add("missing", f"{self._file}: there is no section {one}", 0)
        prefix = self._prefixes.pop() if len(self._prefixes) == 1 else None
        return Database(self._found("LINKS" in ended), self._counters, prefix)

    def _row(self, section: str, names: list[str], values: list[str], number: int) -> bool:
        row = dict(zip(names, values))  # noqa: B905 - Python 3.9; they are as many
        if section == "NODES":
            return self._node(row, number)
        if section == "PORTS":
            return self._port(row, number)
        if section == "LINKS":
            return self._link(row, number)
        return self._errors(row)

    def _node(self, row: dict[str, str], number: int) -> bool:
        guid, kind = _guid(row.get("nodeguid")), row.get("nodetype", "").strip()
        if guid is None or kind not in _KINDS:
            return False
        name = row.get("nodedesc")
        found = statements.kind_of(_KINDS[kind], name, _number(row.get("deviceid")))
        port_guid = _guid(row.get("portguid"))
        system = _guid(row.get("systemimageguid"))
        self._devices[guid] = DeviceLine(guid, found or "adapter", name, number, port_guid, system)
        return True

    def _port(self, row: dict[str, str], number: int) -> bool:
        guid, port = _guid(row.get("nodeguid")), _number(row.get("portnum"))
        if guid is None or port is None or port > 254:
            return False
        prefix = _number(row.get("gidprfx"))
        if prefix and prefix >> 32 and prefix < 1 << 64:
            self._prefixes.add(f"0x{prefix:016x}")
        device = self._devices.get(guid)
        speed = _SPEEDS.get(_number(row.get("linkspeedactv")) or 0)
        end = End(
            device.kind if device else None,
            port,
            guid,
            _guid(row.get("portguid")),
            statements.lid(str(_number(row.get("lid")) or 0)),
            device.name if device else None,
        )
        self._ports[guid, port] = Statement(
            end,
            number,
            width=_WIDTHS.get(_number(row.get("linkwidthactv")) or 0),
            lane_gbps=LANE_GBPS[speed] if speed else None,
            state=_STATES.get(_number(row.get("portstate")) or 0),
            physical=_PHYSICAL.get(_number(row.get("portphystate")) or 0),
        )
        return True

    def _link(self, row: dict[str, str], number: int) -> bool:
        guids = _guid(row.get("nodeguid1")), _guid(row.get("nodeguid2"))
        ports = _number(row.get("portnum1")), _number(row.get("portnum2"))
        if guids[0] is None or guids[1] is None or None in ports or max(one or 0 for one in ports) > 254:
            return False
        self._links.append(((guids[0], ports[0] or 0), (guids[1], ports[1] or 0), number))
        return True

    def _errors(self, row: dict[str, str]) -> bool:
        guid, port = _guid(row.get("nodeguid")), _number(row.get("portnumber", row.get("portnum")))
        if guid is None or port is None or port > 254 or self._counters is None:
            return False
        read = {}
        for name in _ERRORS:
            values = [_number(row.get(name.lower() + suffix)) for suffix in ("ext", "extended", "")]
            value = next((one for one in values if one is not None), 0)
            if value:
                read[name] = value
        self._counters[guid, port] = read
        return True

    def _found(self, links_are_whole: bool) -> Found:
        """Give both ports of each link in LINKS their peer."""
        read = []
        for near, far, number in [
            *self._links,
            *((far, near, number) for near, far, number in self._links),
        ]:
            end, peer = self._ports.get(near), self._ports.get(far)
            if end is None or peer is None or "Down" in (end.state, peer.state):
                text = f"{self._file}, line {number}: the link of {near[0]} port {near[1]} has a port that is"
                self._problems.add("line", f"{text} down, or that section PORTS does not have", number)
            else:
                read.append(end._replace(peer=peer.end, line=number))
        linked = {(one.end.device_guid, one.end.number) for one in read}
        if links_are_whole:
            read += [one for key, one in self._ports.items() if key not in linked and key[1] > 0]
        devices = list(self._devices.values())
        return Found(self._file, read, devices, self._problems.close(), links_are_whole, True)


def _number(text: str | None) -> int | None:
    found = _NUMBER.match(text or "")
    if found is None:
        return None
    return int(found.group(1), 16) if found.group(1) else int(found.group(2))


def _guid(text: str | None) -> str | None:
    found = re.match(r"\s*0x([0-9a-fA-F]{1,16})\s*\Z", text or "")
    return statements.guid(found.group(1)) if found else None
