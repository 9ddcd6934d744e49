# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What ends of rails that are alike can do, and what bounds their tests: found once. Pure.

The ends of a fleet differ by name and address, and in what bounds rest on by next to nothing. So each end is
stripped to what `bounds` reads of it; `bounds` sees the stripped ends alone, and is asked once for each two
different ones.
"""

from __future__ import annotations

import json
from collections.abc import Hashable, Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.rails import pci_links
from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.module_utils.rules import rdma
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds import bounds, slots

#: What bounds rest on. Of an address that there is one, and of a GID its type.
_OF_RAIL = ("rate_gbps", "mtu", "vlan", "shares_wire_with", "bond")
_OF_NETDEV = ("driver_class", "speed_max_mbps")
_OF_HCA = ("driver_class", "driver", "device", "max_mtu_bytes")
_SOME = {"address": "192.0.2.1", "address6": "2001:db8::1"}


class Alike:
    """Answers as `bounds` does.

    Args:
        ends: node -> rail -> its end.
    """

    def __init__(self, ends: Mapping[str, Mapping[str, Bound]]) -> None:
        self._ends = ends
        self._stripped: dict[tuple[str, str], tuple[str, Bound]] = {}
        self._first: dict[str, tuple[str, Bound]] = {}
        self._able: dict[Hashable, bounds.Capability] = {}
        self._bounds: dict[Hashable, bounds.Bounds] = {}

    def capability(self, check: str, line: Mapping[str, Any], transport: str = "") -> bounds.Capability:
        """Return what the rail of a test can do for a check's kind of packet."""
        (mine, client), (its, server) = self._both(line)
        key = check, transport, mine, its
        if key not in self._able:
            self._able[key] = bounds.capability(check, client, server, transport)
        return self._able[key]

    def for_test(self, line: Mapping[str, Any], on: bounds.Conditions) -> bounds.Bounds:
        """Return the bounds of a test; nobody changes them.

        Args:
            line: the asked line.
            on: its conditions; of all tests under one policy.
        """
        (mine, client), (its, server) = self._both(line)
        key = line["check"], on.iperf3_versions, on.share, on.transport, on.gpu, mine, its
        if key not in self._bounds:
            self._bounds[key] = bounds.for_test(str(line["check"]), client, server, on)
        return self._bounds[key]

    def kind_of(self, node: str, rail: str) -> str:
        """Return in one word what ends have in common that are alike."""
        return self._end(node, rail)[0]

    def _both(self, line: Mapping[str, Any]) -> tuple[tuple[str, Bound], tuple[str, Bound]]:
        rail = str(line["rail"])
        return self._end(str(line["node"]), rail), self._end(str(line["peer"]), rail)

    def _end(self, node: str, rail: str) -> tuple[str, Bound]:
        found = self._stripped.get((node, rail))
        if found is None:
            end = _strip(self._ends[node][rail])
            words = json.dumps([end.rail, end.netdev, end.hca], sort_keys=True)
            found = self._stripped[node, rail] = self._first.setdefault(words, (words, end))
        return found


def _strip(end: Bound) -> Bound:
    """Return an end with no more than what bounds rest on."""
    rail = {key: end.rail.get(key) for key in _OF_RAIL}
    rail |= {key: address for key, address in _SOME.items() if end.rail.get(key)}
    # The narrowest of the PCI Express links alone, of whichever of the two has them.
    path = {"pci_link": slots.narrowest(pci_links.of_end(end))}
    netdev = None if end.netdev is None else {**{key: end.netdev.get(key) for key in _OF_NETDEV}, **path}
    if end.hca is None:
        return Bound(rail, netdev)
    found, address = rdma.choice(end), rail.get("address") or rail.get("address6")
    gids = [{"index": 0, "gid": "", "type": found.type, "address": address}] if found else []
    return Bound(rail, netdev, {**{key: end.hca.get(key) for key in _OF_HCA}, **path, "gids": gids})
