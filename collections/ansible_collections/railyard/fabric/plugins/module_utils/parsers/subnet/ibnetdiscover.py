# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""ibnetdiscover (infiniband-diags): the report of ports (`-p`) and the topology file (no option).

`-p` names ports by their port GUIDs and lists those without a peer; the topology file names devices by their
node GUIDs and has the GUIDs of both. Formats: infiniband-diags/ibnetdiscover.c of rdma-core 44 to 60.
"""

from __future__ import annotations

import re

from . import statements
from .statements import DeviceLine, End, Found, Problems, Statement

_KIND = r"(SW|CA|RT|\?\?)"
_PORT = re.compile(
    rf"\s*{_KIND}\s+([0-9]+)\s+([0-9]+)\s+0x([0-9a-fA-F]{{1,16}})\s+([0-9]+x|\?\?)\s+(\S+)"
    rf"(?:\s+-\s+{_KIND}\s+([0-9]+)\s+([0-9]+)\s+0x([0-9a-fA-F]{{1,16}})\s+\(\s'(.*)'\s\)"
    r"|\s+'(.*)'|\s{20,}([^'\s].*?))\s*\Z"
)
_BETWEEN = "' - '"

_HEAD = re.compile(r'(Switch|Ca|Hca|Rt|Router)\s+([0-9]+)\s+"([SHR])-([0-9a-fA-F]{1,16})"\s*(?:#\s*(.*))?\Z')
_SWITCH_TAIL = re.compile(
    r'"(.*)"(?:\s+(?:base|enhanced) port 0 lid ([0-9]+) lmc [0-9]+)?\s*(?:\(scp\))?\s*\Z'
)
_EXTERNAL = r"(?:\[ext [0-9]+\])?"
_LINK = re.compile(
    rf'\[([0-9]+)\]{_EXTERNAL}(?:\(([0-9a-fA-F]{{1,16}})\))?\s+"([SHR])-([0-9a-fA-F]{{1,16}})"'
    rf"\[([0-9]+)\]{_EXTERNAL}\s*(?:\(([0-9a-fA-F]{{1,16}})\))?\s*(?:#\s*(.*))?\Z"
)
_LINK_TAIL = re.compile(
    r'(?:lid ([0-9]+) lmc [0-9]+ )?"(.*)"(?:\s+lid ([0-9]+))?(?:\s+([0-9]+x|\?\?)(\S+))?'
    r"(?:\s+s=[0-9]+ w=[0-9]+ v=[0-9]+)?(?:\s+slot [0-9]+|\s+\(scp\))?\s*\Z"
)
_PAIR = re.compile(
    r"(vendid|devid|sysimgguid|switchguid|caguid|rtguid)=0x([0-9a-fA-F]{1,16})(?:\(([0-9a-fA-F]{1,16})\))?"
)
_START = re.compile(r"# Initiated from node ([0-9a-fA-F]{1,16}) port ([0-9a-fA-F]{1,16})\s*\Z")
# What `-g` prints around the devices of a chassis.
_CHASSIS = re.compile(r"(?:Chassis [0-9]|Non-Chassis Nodes|Hostname: )")


def is_topology(text: str) -> bool:
    """Tell whether a text is the topology file and not the report of ports."""
    return (
        re.search(r'^(?:# Topology file|(?:Switch|Ca|Hca|Rt)\s+[0-9]+\s+")', text, re.MULTILINE) is not None
    )


def parse(text: str, file: str) -> Found:
    """Read whichever of both a text is."""
    return parse_topology(text, file) if is_topology(text) else parse_ports(text, file)


def parse_ports(text: str, file: str) -> Found:
    """Read `ibnetdiscover -p`."""
    problems = Problems(file)
    read: list[Statement] = []
    unclear: list[tuple[int, str]] = []
    for number, line in statements.numbered_lines(text):
        found = _PORT.match(line)
        statement = _port(found, number) if found else None
        if statement is None:
            problems.add_line(number, line)
            continue
        if found and found.group(6) != "???" and statement.lane_gbps is None:
            problems.add_line(number, line, f"has the speed {found.group(6)!a}, which is not known")
        if found and found.group(11) and found.group(11).count(_BETWEEN) != 1:
            unclear.append((len(read), found.group(11)))
        read.append(statement)
    _split_names(read, unclear)
    return Found(file, read, [], problems.close(), names_both_ends=True)


def _port(found: re.Match[str], line: int) -> Statement | None:
    kind, lid, number, guid, width, speed, far_kind, far_lid, far_number, far_guid, both, alone, bare = (
        found.groups()
    )
    # Older versions print the description of a port without a peer without quotes.
    own = alone if alone is not None else bare
    name, _between, far_name = both.partition(_BETWEEN) if both is not None else (own, "", None)
    end = _end(kind, lid, number, guid, name)
    peer = _end(far_kind, far_lid, far_number, far_guid, far_name) if far_guid else None
    if end is None or (far_guid and peer is None):
        return None
    return Statement(end, line, peer, width=statements.width(width), lane_gbps=statements.lane_of_word(speed))


def _end(kind: str, lid: str, number: str, guid: str, name: str | None) -> End | None:
    port_guid, port = statements.guid(guid), statements.port_number(number)
    if port_guid is None or port is None:
        return None
    return End(statements.kind_of(kind, name), port, None, port_guid, statements.lid(lid), name)


def _split_names(read: list[Statement], unclear: list[tuple[int, str]]) -> None:
    """Split two descriptions of which one has `' - '` in it where the other lines tell how."""
    names = {}
    if unclear:
        doubtful = {at for at, _both in unclear}
        for at, one in enumerate(read):
            for end in (one.end, one.peer) if at not in doubtful else ():
                if end is not None:
                    names[end.port_guid] = end.name
    for at, both in unclear:
        one = read[at]
        near, far = names.get(one.end.port_guid), names.get(one.peer.port_guid) if one.peer else None
        if near is not None and both.startswith(near + _BETWEEN):
            far = both[len(near + _BETWEEN) :]
        elif far is not None and both.endswith(_BETWEEN + far):
            near = both[: -len(_BETWEEN + far)]
        else:
            continue
        peer = one.peer._replace(name=far) if one.peer else None
        read[at] = one._replace(end=one.end._replace(name=near), peer=peer)


def parse_topology(text: str, file: str) -> Found:
    """Read the topology file that `ibnetdiscover` prints without an option."""
    return _Topology(file).read(text)


class _Topology:
    """Reads a topology file line by line: the lines of a device follow its head."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._problems = Problems(file)
        self._statements: list[Statement] = []
        self._devices: list[DeviceLine] = []
        self._ahead: dict[str, tuple[str, str | None]] = {}
        self._start: tuple[str, str] | None = None
        # None after a head that is damaged: whose the following ports are is not known.
        self._device: DeviceLine | None = None

    def read(self, text: str) -> Found:
        for number, line in statements.numbered_lines(text):
            if not (self._comment(line) or self._pair(line) or self._head(line, number)):
                self._link(line, number)
        return Found(
            self._file, self._statements, self._devices, self._problems.close(), True, True, self._start
        )

    def _comment(self, line: str) -> bool:
        start = _START.match(line)
        ends = (statements.guid(start.group(1)), statements.guid(start.group(2))) if start else (None, None)
        if ends[0] and ends[1]:
            self._start = (ends[0], ends[1])
        return line.startswith("#") or _CHASSIS.match(line) is not None

    def _pair(self, line: str) -> bool:
        found = _PAIR.match(line)
        if found is None:
            return False
        if found.group(1) == "vendid":
            self._ahead, self._device = {}, None
        self._ahead[found.group(1)] = (found.group(2), found.group(3))
        return True

    def _head(self, line: str, number: int) -> bool:
        if line.startswith("["):
            return False
        found, self._device = _HEAD.match(line), None
        guid = statements.guid(found.group(4)) if found else None
        if found is None or guid is None:
            self._problems.add_line(number, line)
            return True
        ahead, self._ahead = self._ahead, {}
        own, port_guid = ahead.get("switchguid") or ahead.get("caguid") or ahead.get("rtguid") or (None, None)
        if own is not None and statements.guid(own) != guid:
            why = f"has another GUID than the line before it, {quote_guid(own)}"
            self._problems.add_line(number, line, why)
            return True
        tail = _SWITCH_TAIL.match(found.group(5) or "")
        name, lid = tail.groups() if tail else (None, None)
        device_id = int(ahead["devid"][0], 16) if "devid" in ahead else None
        self._device = DeviceLine(
            guid,
            statements.kind_of(found.group(3), name, device_id) or "adapter",
            name,
            number,
            statements.guid(port_guid),
            statements.guid(ahead["sysimgguid"][0]) if "sysimgguid" in ahead else None,
            statements.lid(lid),
        )
        self._devices.append(self._device)
        return True

    def _link(self, line: str, number: int) -> None:
        found = _LINK.match(line)
        if found is None or self._device is None:
            why = (
                "is not understood"
                if found is None
                else "belongs to a device whose first line is not understood"
            )
            self._problems.add_line(number, line, why)
            return
        port, own_guid, far_kind, far, far_port, far_guid, rest = found.groups()
        near, distant = statements.port_number(port), statements.port_number(far_port)
        far_device = statements.guid(far)
        tail = _LINK_TAIL.match(rest) if rest else None
        if near is None or distant is None or far_device is None or (rest and tail is None):
            self._problems.add_line(number, line)
            return
        lid, name, far_lid, width, speed = tail.groups() if tail else (None,) * 5
        lane = statements.lane_of_word(speed)
        if speed not in (None, "???") and lane is None:
            self._problems.add_line(number, line, f"has the speed {speed!a}, which is not known")
        device = self._device
        is_switch = device.kind == "switch"
        end = End(
            device.kind,
            near,
            device.guid,
            device.port_guid if is_switch else statements.guid(own_guid),
            device.lid if is_switch else statements.lid(lid),
            device.name,
        )
        peer = End(
            statements.kind_of(far_kind, name),
            distant,
            far_device,
            statements.guid(far_guid),
            statements.lid(far_lid),
            name,
        )
        self._statements.append(Statement(end, number, peer, width=statements.width(width), lane_gbps=lane))


def quote_guid(digits: str) -> str:
    """Return a GUID as it was printed, for a message."""
    return f"0x{digits[:16]}"
