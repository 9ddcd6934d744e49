# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A capture of a subnet -> what was read: the files of all tools, joined.

What is not understood, missing or cut becomes a problem of the reading. Nothing here decides whether the
subnet is healthy: `plugin_utils/subnet` does.
"""

from __future__ import annotations

import re

from ...records.subnet import Counters, Duplicate, NoAnswer, PortKey, Problem, Reading, Source, SubnetManager
from ...records.subnet_capture import Capture, Command
from . import answers, db_csv, iblinkinfo, ibnetdiscover, ibqueryerrors, ibtracert, merge, messages
from .identities import Identities
from .statements import Found, quote

_NET = re.compile(r"(?:ibnetdiscover|topology|iblinkinfo)\.txt\Z")
_COUNTERS = re.compile(r"ibqueryerrors(?:\.[0-9]{1,3})?\.txt\Z")
_SMINFO = re.compile(r"sminfo(?:-([0-9]{1,5}))?\.txt\Z")
_PKEYS = re.compile(r"smpquery-pkeys-([0-9]{1,5})-([0-9]{1,3})\.txt\Z")
_SAQUERY, _IBADDR, _DATABASE = "saquery-s.txt", "ibaddr.txt", "ibdiagnet2.db_csv"
_MOST_NAMED = 200


def parse(capture: Capture) -> Reading:
    """Read a capture.

    Args:
        capture: what ran on the node, or what an operator's folder has.

    Returns:
        The reading; without devices where no text about links could be read, and a problem says why.
    """
    return _Parser(capture).parse()


class _Parser:
    def __init__(self, capture: Capture) -> None:
        self._capture = capture
        self._texts: list[Found] = []
        self._problems: list[Problem] = []
        self._silent: dict[tuple[tuple[int, ...], int | None], tuple[messages.Silent, str]] = {}
        self._duplicates: dict[str, tuple[str, Source]] = {}
        self._managers: dict[int | None, SubnetManager] | None = None
        self._counters: list[Counters] = []
        self._databases: list[tuple[db_csv.Database, Command]] = []
        self._prefix: str | None = None
        self._own_port_guid: str | None = None
        self._denied: set[str] = set()

    def parse(self) -> Reading:
        # A path that was not found leaves the rest of the reading as it is.
        commands = [one for one in self._capture.commands if not ibtracert.FILE.match(one.file)]
        for command in commands:
            self._messages(command)
            self._text(command)
        net = merge.join(self._texts)
        self._problems += net.problems
        start = net.start or self._own_port(net)
        reading = Reading(
            self._capture.started_at_s,
            self._capture.host,
            self._device(),
            self._prefix,
            net.devices,
        )
        for command in commands:
            if _COUNTERS.match(command.file):
                self._errors(command, net.identities)
        self._database_counters()
        pkeys = self._pkeys(net.identities, reading)
        silent = tuple(self._no_answers(reading, start, net.identities))
        self._report_locked(reading, silent)
        return reading._replace(
            managers=tuple(self._managers.values()) if self._managers is not None else None,
            pkeys=pkeys,
            counters=tuple(sorted(self._counters, key=lambda one: one.taken_at_s)),
            silent=silent,
            duplicates=tuple(self._name_duplicates(reading, silent, net.identities)),
            problems=tuple(dict.fromkeys(self._problems)),
        )

    def _device(self) -> str | None:
        if self._capture.device is None:
            return None
        return f"{self._capture.device}:{self._capture.port if self._capture.port is not None else 1}"

    def _add(self, kind: str, text: str, file: str, line: int = 0) -> None:
        self._problems.append(Problem(kind, text, Source(file, line)))

    def _messages(self, command: Command) -> None:
        """Read standard error, and how the command ended."""
        file = re.sub(r"\.txt\Z", "", command.file) + ".err"
        found = messages.parse(command.stderr, file)
        is_about_one_port = _SMINFO.match(command.file) or _PKEYS.match(command.file)
        is_about_counters = _COUNTERS.match(command.file) is not None
        unread = [one for one in found.silent if is_about_counters and not one.route]
        for one in found.silent:
            # A manager or a table of P_Keys that was not read is reported with its LID.
            if one not in unread and not is_about_one_port:
                self._silent.setdefault((one.route, one.lid), (one, file))
        if unread:
            lids = len({one.lid for one in unread})
            text = f"{file}: the counters of {lids} LIDs were not read, the first: {quote(unread[0].text)}"
            self._add("command", text, file, unread[0].line)
        for guid, text, line in found.duplicates:
            self._duplicates.setdefault(guid, (text, Source(file, line)))
        self._problems += [one for one in found.problems if not is_about_one_port or one.kind == "denied"]
        is_denied = any(one.kind == "denied" for one in found.problems)
        if is_denied:
            self._denied.add(command.file)
        shown = " ".join(command.argv) or command.file
        if command.timed_out and not command.seconds:
            text = f"`{shown}` was not started: the time for the whole reading was over"
            self._add("command", text, command.file)
        elif command.timed_out:
            self._add("command", f"`{shown}` did not end in {command.seconds:.0f} s", command.file)
        # ibqueryerrors counts the ports with errors in it.
        elif command.rc and not (is_denied or is_about_one_port or is_about_counters):
            self._add("command", f"`{shown}` ended with exit status {command.rc}", command.file)

    def _text(self, command: Command) -> None:
        """Read one output that needs no other."""
        file, text = command.file, command.stdout
        sminfo = _SMINFO.match(file)
        if _NET.match(file):
            self._net(file, text)
        elif file == _DATABASE:
            database = db_csv.parse(text, file)
            self._texts.append(database.found)
            self._databases.append((database, command))
            self._prefix = self._prefix or database.prefix
        elif file in self._denied and (sminfo or file == _SAQUERY):
            # No manager could be queried, so whether there is one is not known.
            return
        elif sminfo:
            self._manager(file, text, int(sminfo.group(1)) if sminfo.group(1) else None)
        elif file == _SAQUERY:
            self._manager_ports(file, text)
        elif file == _IBADDR:
            address = answers.parse_ibaddr(text)
            if address is not None:
                self._prefix, self._own_port_guid = address
        elif not (_COUNTERS.match(file) or _PKEYS.match(file)):
            self._add("line", f"{file} is not the output of a tool that is known", file)

    def _net(self, file: str, text: str) -> None:
        if not text.strip():
            self._add("missing", f"{file} is empty", file)
            return
        parser = iblinkinfo if file.startswith("iblinkinfo") else ibnetdiscover
        self._texts.append(parser.parse(text, file))

    def _manager(self, file: str, text: str, lid: int | None) -> None:
        managers = self._managers = self._managers if self._managers is not None else {}
        manager, problems = answers.parse_sminfo(text, file)
        self._problems += problems
        if manager is not None and (lid is None or manager.lid == lid):
            managers[manager.lid] = manager
        elif manager is not None:
            self._add("line", f"{file} has the answer of LID {manager.lid}", file)
        elif lid is not None:
            managers.setdefault(lid, SubnetManager(None, lid, None, None, None, Source(file, 0)))
        else:
            self._add("command", f"{file}: no subnet manager answered", file)

    def _manager_ports(self, file: str, text: str) -> None:
        managers = self._managers = self._managers if self._managers is not None else {}
        ports = answers.parse_saquery(text, file)
        self._problems += ports.problems
        asked = {found.group(1) for one in self._capture.commands if (found := _SMINFO.match(one.file))}
        answered = {found.lid for found in managers.values()}
        for lid in ports.lids:
            if str(lid) not in asked and lid not in answered:
                managers.setdefault(lid, SubnetManager(None, lid, None, None, None, Source(file, 0)))

    def _errors(self, command: Command, identities: Identities) -> None:
        if not command.stdout.strip():
            status = command.rc or 0
            ended = f": the tool ended by signal {-status}" if status < 0 else ""
            self._add("missing", f"{command.file} is empty{ended}", command.file)
            return
        found = ibqueryerrors.parse(command.stdout, command.file)
        self._problems += found.problems
        errors, complete = {}, found.complete
        for (guid, number), counters in found.counters.items():
            device = identities.find_device(guid)
            if device is None:
                complete = False
                text = f"{command.file}: {guid} is the GUID of several ports, so its counters belong to none"
                self._add("line", text, command.file, found.lines[guid, number])
            else:
                errors[PortKey(device, number)] = counters
        self._counters.append(Counters(command.started_at_s + command.seconds / 2, errors, complete))

    def _database_counters(self) -> None:
        for database, command in self._databases:
            if database.counters is not None:
                errors = {PortKey(*key): read for key, read in database.counters.items() if read}
                complete = not database.found.problems
                self._counters.append(Counters(command.started_at_s + command.seconds / 2, errors, complete))

    def _pkeys(self, identities: Identities, reading: Reading) -> dict[PortKey, tuple[int, ...]] | None:
        tables: dict[PortKey, tuple[int, ...]] = {}
        is_read = False
        for command in self._capture.commands:
            found = _PKEYS.match(command.file)
            if not found:
                continue
            is_read = True
            lid, number = int(found.group(1)), int(found.group(2))
            guid = identities.find_by_lid(lid)
            keys, problems = answers.parse_pkeys(command.stdout, command.file)
            self._problems += problems
            if guid is None:
                self._add("line", f"{command.file}: no device, or more than one, has LID {lid}", command.file)
            elif keys is None and not problems:
                name = quote(reading.devices[guid].description) if guid in reading.devices else guid
                text = f"the P_Keys of {name} ({guid} port {number}, LID {lid}) could not be read"
                self._add("command", text, command.file)
            elif keys is not None:
                tables[PortKey(guid, number)] = keys
        return tables if is_read else None

    def _own_port(self, net: merge.Net) -> PortKey | None:
        guid = net.identities.find_device(self._own_port_guid) if self._own_port_guid else None
        device = net.devices.get(guid) if guid else None
        ports = (
            [one.key for one in device.ports.values() if one.port_guid == self._own_port_guid]
            if device
            else []
        )
        return ports[0] if len(ports) == 1 else None

    def _no_answers(self, reading: Reading, start: PortKey | None, identities: Identities) -> list[NoAnswer]:
        found = []
        for one, file in self._silent.values():
            if one.route:
                target = ",".join(map(str, one.route))
                behind = _walk(reading, start, one.route)
            else:
                target = f"LID {one.lid}"
                guid = identities.find_by_lid(one.lid)
                device = reading.devices.get(guid) if guid else None
                peers = [port.peer for port in device.ports.values() if port.peer] if device else []
                behind = peers[0] if len(peers) == 1 else None
            found.append(NoAnswer(target, behind, one.text, Source(file, one.line)))
        return found

    def _report_locked(self, reading: Reading, silent: tuple[NoAnswer, ...]) -> None:
        """Report a subnet whose first switch already does not answer."""
        first = next((one for one in silent if re.match(r"0,[0-9]+\Z", one.target)), None)
        if first is not None and not any(one.kind == "switch" for one in reading.devices.values()):
            text = (
                "the first switch does not answer: the subnet manager may protect its ports with an M_Key, so"
                " reading is not permitted from this node"
            )
            self._problems.append(Problem("denied", text, first.source))

    def _name_duplicates(
        self, reading: Reading, silent: tuple[NoAnswer, ...], identities: Identities
    ) -> list[Duplicate]:
        """Name the ports that the two owners of a GUID are connected to.

        The tools join both to one device: the port of the one owner has it as its peer, the port of the other
        is up and has none. This is reported only if it holds for exactly one port and no silent device
        explains it.
        """
        behind = {one.behind for one in silent}
        open_ports = [
            port.key
            for device in reading.devices.values()
            for port in device.ports.values()
            if port.peer is None and port.key not in behind and port.state == "Active" and port.key.number > 0
        ]
        found = []
        for guid, (text, source) in self._duplicates.items():
            device = reading.devices.get(identities.find_device(guid) or guid)
            own = [port.peer for port in device.ports.values() if port.peer] if device else []
            other = open_ports if len(open_ports) == 1 and len(self._duplicates) == 1 else []
            found.append(Duplicate(guid, (*own[:1], *other), text, source))
        for guid, owners in identities.duplicates().items():
            keys = [
                port.peer
                for owner in owners
                if owner in reading.devices
                for port in reading.devices[owner].ports.values()
                if port.peer is not None and port.port_guid == guid
            ]
            text = f"devices {', '.join(owners)} have the same port GUID"
            source = Source(self._texts[0].file if self._texts else "", 0)
            found.append(Duplicate(guid, tuple(keys), text, source))
        return found


def _walk(reading: Reading, start: PortKey | None, route: tuple[int, ...]) -> PortKey | None:
    """Return the port at whose far end a direct route ends: `0,1,7` is port 7 of what port 1 leads to."""
    if start is None or len(route) < 2 or route[0] != 0:
        return None
    guid = start.guid
    for hop in route[1:-1]:
        port = reading.port(PortKey(guid, hop))
        if port is None or port.peer is None:
            return None
        guid = port.peer.guid
    return PortKey(guid, route[-1])
