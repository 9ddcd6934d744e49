# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Cache the capability and thresholds of equal rail ends. Pure.

The ends of a fleet differ by name and address, but hardly in the values that `bounds` reads. So each end is
reduced to these values, and `bounds` is called once for each two different reduced ends.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.rails import pci_links
from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.module_utils.rules import rdma
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds import bounds, slots

#: The keys that `bounds` reads. Of an address only its presence counts, and of a GID its type.
_RAIL_KEYS = ("rate_gbps", "mtu", "vlan", "shares_wire_with", "bond")
_NETDEV_KEYS = ("driver_class", "speed_max_mbps")
_HCA_KEYS = ("driver_class", "driver", "device", "max_mtu_bytes")
_ANY_ADDRESS = {"address": "192.0.2.1", "address6": "2001:db8::1"}


class BoundsCache:
    """Returns what `bounds` returns.

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
        """Return the capability of a test's rail for a check's kind of packet."""
        (mine, client), (its, server) = self._both(line)
        key = check, transport, mine, its
        if key not in self._able:
            self._able[key] = bounds.find_capability(check, client, server, transport)
        return self._able[key]

    def for_test(self, line: Mapping[str, Any], on: bounds.Conditions) -> bounds.Bounds:
        """Return the thresholds of a test; the caller must not change them.

        Args:
            line: the planned test.
            on: its conditions; all calls have the same policy.
        """
        (mine, client), (its, server) = self._both(line)
        key = line["check"], on.iperf3_versions, on.share, on.transport, on.gpu, mine, its
        if key not in self._bounds:
            self._bounds[key] = bounds.bound_test(str(line["check"]), client, server, on)
        return self._bounds[key]

    def for_sum(
        self,
        line: Mapping[str, Any],
        parts: Sequence[Mapping[str, Any]],
        shares: Sequence[slots.Share | None],
        on: bounds.Conditions,
        make: Callable[[Sequence[bounds.Capability]], bounds.Bounds],
    ) -> bounds.Bounds:
        """Return the thresholds of a sum; the caller must not change them.

        Args:
            line: the planned sum.
            parts: the planned tests that are added up.
            shares: of each of them, the bandwidth while all rails run, if that is less.
            on: the conditions of the sum; all calls have the same policy.
            make: returns the thresholds of rails with these capabilities. They depend on nothing but the
                sum's check, the rails' names and ends, and the conditions.
        """
        check = str(line["check"])
        ends = tuple((part["rail"], *(one[0] for one in self._both(part))) for part in parts)
        key = check, on.iperf3_versions, on.share, on.transport, ends, tuple(shares)
        if key not in self._bounds:
            able = [self.capability(check, part, on.transport) for part in parts]
            both = zip(able, shares, strict=True)
            self._bounds[key] = make([replace(one, share=share) for one, share in both])
        return self._bounds[key]

    def describe_end(self, node: str, rail: str) -> str:
        """Return a text that equal ends have in common."""
        return self._end(node, rail)[0]

    def _both(self, line: Mapping[str, Any]) -> tuple[tuple[str, Bound], tuple[str, Bound]]:
        rail = str(line["rail"])
        return self._end(str(line["node"]), rail), self._end(str(line["peer"]), rail)

    def _end(self, node: str, rail: str) -> tuple[str, Bound]:
        found = self._stripped.get((node, rail))
        if found is None:
            end = _strip_end(self._ends[node][rail])
            text = json.dumps([end.rail, end.netdev, end.hca], sort_keys=True)
            found = self._stripped[node, rail] = self._first.setdefault(text, (text, end))
        return found


def _strip_end(end: Bound) -> Bound:
    """Reduce an end to the values that `bounds` reads."""
    rail = {key: end.rail.get(key) for key in _RAIL_KEYS}
    rail |= {key: address for key, address in _ANY_ADDRESS.items() if end.rail.get(key)}
    # Only the narrowest PCI Express link counts.
    path = {"pci_link": slots.find_narrowest_link(pci_links.of_end(end))}
    netdev = None if end.netdev is None else {**{key: end.netdev.get(key) for key in _NETDEV_KEYS}, **path}
    if end.hca is None:
        return Bound(rail, netdev)
    found, address = rdma.choice(end), rail.get("address") or rail.get("address6")
    gids = [{"index": 0, "gid": "", "type": found.type, "address": address}] if found else []
    return Bound(rail, netdev, {**{key: end.hca.get(key) for key in _HCA_KEYS}, **path, "gids": gids})
