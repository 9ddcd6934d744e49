# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Finds out which ports of several texts are the same port: by device GUID, by port GUID, or by LID."""

from __future__ import annotations

from collections.abc import Sequence

from ...records.subnet import PortKey
from .statements import End, Found


class Identities:
    """Which device a port GUID or a LID belongs to.

    Only the topology file and `ibdiagnet2.db_csv` name the GUID of the device and that of the port together.
    Without them a port GUID stands for its device: switches, and adapters with one port, mostly have one GUID
    for both.
    """

    def __init__(self, texts: Sequence[Found]) -> None:
        self._by_port_guid: dict[str, dict[str, set[int | None]]] = {}
        self._by_lid: dict[int, set[str]] = {}
        for text in texts:
            for device in text.devices:
                self._add(device.port_guid, device.guid, device.lid)
            for statement in text.statements:
                for end in (statement.end, statement.peer):
                    if end is not None and end.device_guid is not None:
                        self._add(end.port_guid, end.device_guid, end.lid)
        for text in texts:
            for statement in text.statements:
                for end in (statement.end, statement.peer):
                    if end is not None and end.lid is not None and (end.device_guid or end.port_guid):
                        key = self.find(end)
                        if key is not None:
                            self._by_lid.setdefault(end.lid, set()).add(key.guid)

    def _add(self, port_guid: str | None, device_guid: str, lid: int | None) -> None:
        if port_guid is not None:
            self._by_port_guid.setdefault(port_guid, {}).setdefault(device_guid, set()).add(lid)

    def find(self, end: End) -> PortKey | None:
        """Return the port that a line names; None where several could be meant, or none is known."""
        if end.device_guid is not None:
            return PortKey(end.device_guid, end.number)
        if end.port_guid is not None:
            guid = self.find_device(end.port_guid, end.lid)
        else:
            guid = self.find_by_lid(end.lid)
        return PortKey(guid, end.number) if guid is not None else None

    def find_device(self, port_guid: str, lid: int | None = None) -> str | None:
        """Return the device GUID of a port GUID; None where several devices have it and no LID tells."""
        devices = self._by_port_guid.get(port_guid)
        if not devices:
            return port_guid
        if len(devices) > 1:
            devices = {guid: lids for guid, lids in devices.items() if lid is not None and lid in lids}
        return next(iter(devices)) if len(devices) == 1 else None

    def find_by_lid(self, lid: int | None) -> str | None:
        """Return the device GUID that has a LID; None where that is not one."""
        devices = self._by_lid.get(lid or 0, set())
        return next(iter(devices)) if len(devices) == 1 else None

    def duplicates(self) -> dict[str, list[str]]:
        """Return the port GUIDs that several devices have, with the GUIDs of these."""
        return {guid: sorted(devices) for guid, devices in self._by_port_guid.items() if len(devices) > 1}
