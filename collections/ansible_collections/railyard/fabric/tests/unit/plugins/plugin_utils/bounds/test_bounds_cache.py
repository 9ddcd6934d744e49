# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The cache returns for equal ends what `bounds` returns for each of them."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds import bounds, slots
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.bounds_cache import BoundsCache
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS

TESTS = [name for name, check in CHECKS.items() if check.source == "test"]
SLOT = {"speed_gts": 8, "max_speed_gts": 8, "width": 8, "max_width": 8}
#: Each of them differs from the first in one fact that a threshold depends on.
ENDS: list[tuple[dict[str, Any], dict[str, Any] | None, dict[str, Any] | None]] = [
    ({}, {}, {}),
    ({"rate_gbps": None}, {}, {}),
    ({"rate_gbps": 10}, {}, {}),
    ({"mtu": 1500}, {}, {}),
    ({"mtu": None}, {}, {}),
    ({"vlan": 7}, {}, {}),
    ({"address": None, "address6": "2001:db8::7/64"}, {}, {}),
    ({"address": None}, {}, {}),
    ({"rate_gbps": None}, {"speed_max_mbps": 25000}, {}),
    ({}, {"driver_class": "software"}, {}),
    ({}, {"driver_class": "virtual"}, {}),
    ({}, {"pci_link": SLOT}, {}),
    ({}, {"pci_path": [{"port": "0000:17:01.0", "virtual": False, **SLOT}]}, {}),
    ({}, {"pci_path": [{"port": "0000:17:01.0", "virtual": False, **SLOT, "max_width": 4}]}, {}),
    ({}, {}, {"pci_path": [{"port": "0000:17:01.0", "virtual": False, **SLOT, "max_width": 2}]}),
    ({"shares_wire_with": "rail1"}, {}, {}),
    ({}, None, {}),
    ({}, {}, None),
    ({}, {}, {"driver_class": "software"}),
    ({}, {}, {"driver_class": "unknown"}),
    ({}, {}, {"driver": "mlx4_ib"}),
    ({}, {}, {"device": "mlx4_0"}),
    ({}, {}, {"max_mtu_bytes": 2048}),
    ({}, {}, {"type": "RoCE v1"}),
]


def end(
    number: int, rail: dict[str, Any], netdev: dict[str, Any] | None, hca: dict[str, Any] | None
) -> Bound:
    """Return an end with a name and an address of its own."""
    rail = {"rate_gbps": 100, "mtu": 9000, "address": f"10.0.0.{number}/24", "name": "rail0", **rail}
    own = {"netdev": "ens6", "driver_class": "hardware", "speed_max_mbps": 100000, "mac": f"02::{number}"}
    bare = str(rail["address"] or rail.get("address6") or "").split("/", maxsplit=1)[0]
    gid = {"index": number, "gid": bare, "type": (hca or {}).pop("type", "RoCE v2"), "address": bare}
    port = {"driver_class": "hardware", "device": f"mlx5_{number}", "max_mtu_bytes": 4096, "gids": [gid]}
    return Bound(
        rail, None if netdev is None else {**own, **netdev}, None if hca is None else {**port, **hca}
    )


@pytest.mark.parametrize("transport", ["roce", "infiniband"])
def test_each_two_ends_have_the_bounds_that_they_have_by_themselves(transport: str) -> None:
    ends = {f"gpu{number}": {"rail0": end(number, *copy.deepcopy(one))} for number, one in enumerate(ENDS)}
    found = BoundsCache(ends)
    on = bounds.Conditions(policy.merge(None), ("3.17", "3.17"), None, transport)
    for node, peer, check in product(ends, ends, TESTS):
        line = {"check": check, "node": node, "peer": peer, "rail": "rail0"}
        both = ends[node]["rail0"], ends[peer]["rail0"]
        assert found.for_test(line, on) == bounds.bound_test(check, *both, on)
        assert found.capability(check, line, transport) == bounds.find_capability(check, *both, transport)


@pytest.mark.parametrize("check", ["aggregate_bandwidth", "rdma_aggregate_bandwidth"])
def test_each_sum_has_the_bounds_that_it_has_by_itself(check: str) -> None:
    ends = {
        f"gpu{number}": {name: end(number, *copy.deepcopy(one)) for name in ("rail0", "rail1")}
        for number, one in enumerate(ENDS)
    }
    found = BoundsCache(ends)
    share = slots.Share(40.0, "rail0 and rail1 share a slot")
    for node, peer, shares in product(ends, list(ends)[:6], ((None, None), (share, share))):
        parts = [{"node": node, "peer": peer, "rail": rail} for rail in ("rail0", "rail1")]
        on = bounds.Conditions(policy.merge(None), ("3.17", "3.17"), None, "roce")

        def bound(able: Sequence[bounds.Capability], on: bounds.Conditions = on) -> bounds.Bounds:
            return bounds.bound_aggregate(check, able, on)

        able = [
            replace(found.capability(check, part, "roce"), share=one)
            for part, one in zip(parts, shares, strict=True)
        ]
        assert found.for_sum({"check": check}, parts, shares, on, bound) == bound(able)


def test_other_conditions_have_their_own_bounds() -> None:
    found = BoundsCache({name: {"rail0": end(1, {"rate_gbps": 40}, {}, {})} for name in ("gpu1", "gpu2")})
    line = {"check": "tcp_bandwidth", "node": "gpu1", "peer": "gpu2", "rail": "rail0"}
    on = bounds.Conditions(policy.merge({"iperf3_streams": 12}), ("3.17", "3.17"))
    assert found.for_test(line, on).floor == {"bandwidth_gbps": 32.0}  # 0.8 of the rate
    for other in (
        on._replace(iperf3_versions=("3.9", "3.17")),
        on._replace(share=slots.Share(None, "they share a link")),
    ):
        assert not found.for_test(line, other).floor
