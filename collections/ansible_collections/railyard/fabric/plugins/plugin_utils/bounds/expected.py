# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Thresholds at which nodes repeat a test, for the test schedule. Pure, linear in the nodes.

They are the judge's own thresholds. If rails of one name differ between nodes, the strictest are used: an
unnecessary repetition costs a little time, a missing one leaves a failure unconfirmed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import TESTS
from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds import bounds, facts, gpu_memory
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import PATH_MTU

#: check -> rail -> metric -> [minimum, maximum], each None if there is no threshold.
ExpectedNumbers = dict[str, dict[str, dict[str, list[float | None]]]]


def find_expected_numbers(
    plan: Mapping[str, Any], rows: Iterable[Mapping[str, Any]], run: str, policy: Mapping[str, Any]
) -> ExpectedNumbers:
    """Return the expected results of a run.

    Args:
        plan: the run's plan.
        rows: the facts rows.
        run: the run id.
        policy: the merged policy.
    """
    fleet = facts.bind_facts(plan, rows, run)
    expected: ExpectedNumbers = {}
    seen: set[tuple[object, ...]] = set()
    for node, rails in fleet.bound.items():
        for name, end in rails.items():
            gpu = gpu_memory.find_gpu_path(fleet, (node,), name)
            both = (fleet.iperf3.get(node),) * 2
            on = bounds.Conditions(policy, both, fleet.shares[node].get(name), fleet.transports[node], gpu)
            kind = (name, *on[1:], *_list_bound_inputs(end))
            if kind in seen:
                continue
            seen.add(kind)
            for test in TESTS:
                if test.name not in PATH_MTU and (end.hca or not test.rdma):
                    alone = on if test.asked == "together" else on._replace(share=None)
                    _add_limits(expected, test.name, name, bounds.bound_test(test.name, end, end, alone))
    return expected


def _list_bound_inputs(end: Bound) -> Iterable[object]:
    """Yield the values of a rail's end that thresholds depend on."""
    device, port = end.netdev or {}, end.hca or {}
    for keys, source in (
        (("rate_gbps", "mtu", "vlan"), end.rail),
        (("driver_class", "speed_max_mbps"), device),
        (("driver_class", "driver", "max_mtu_bytes", "active_mtu_bytes"), port),
    ):
        yield from (str(source.get(key)) for key in keys)
    yield bool(end.rail.get("address"))
    yield str(sorted({str(one.get("type")) for one in port.get("gids") or () if isinstance(one, Mapping)}))


def _add_limits(expected: ExpectedNumbers, check: str, rail: str, found: bounds.Bounds) -> None:
    for metric in {**found.floor, **found.ceiling}:
        limits = expected.setdefault(check, {}).setdefault(rail, {}).setdefault(metric, [None, None])
        least, most = found.floor.get(metric), found.ceiling.get(metric)
        limits[0] = max((one for one in (limits[0], least) if one is not None), default=None)
        limits[1] = min((one for one in (limits[1], most) if one is not None), default=None)
