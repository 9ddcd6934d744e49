# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Any value at any place of an inventory is either planned or reported: never a traceback."""

from __future__ import annotations

import copy
import datetime

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import (
    hardware,
    load,
    plan,
    schema_checks,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Inventory
from support.inventories.fabric_cases import COMPUTED, SOUND, changed, node

ODD = [
    None, [], {}, "", "x", -1, 0, True, 3.5, 10**12, "{{ x }}", [None], [[1]], {"a": None}, {"su1": None},
    "10.0.0.0/8", "fd00::/64", "10.0.0.1", ["10.0.0.0/8", "x"], ["{{ x }}"],
]  # fmt: skip
ODD_KEYS = [
    "",
    ".",
    "[]",
    "a.b",
    "frontend.netdev",
    "rails.0",
    "rails[0].mac",
    5,
    3.5,
    None,
    True,
    datetime.date(2026, 11, 22),
]
UNITS = changed(
    SOUND, link_local=["ipv6"], accept_ra=False, route_table_base=6100, host_offset=1,
    rails__0__subnets={"su1": "10.1.0.0/24", "su2": "10.1.1.0/24"}, rails__0__gateway="first",
    rails__0__leaves={"su1": "leaf1", "su2": "leaf2"}, rails__0__routes=["10.7.0.0/16"],
    networks=[
        {"name": "storage", "purpose": "storage", "netdev": "ens9", "vlan": 9, "subnet": "10.9.0.0/24",
         "manage": True},
        {"name": "bmc", "purpose": "out_of_band", "subnet": "172.16.8.0/24", "bmc": True},
    ],
)  # fmt: skip
del UNITS["rails"][0]["subnet"]
BASES = {
    "units": UNITS,
    "infiniband": changed(SOUND, transport="infiniband", mtu=4092, ipoib_mode="datagram"),
    "computed": changed(COMPUTED, gateway="last", rail_routes=["10.1.0.0/16"]),
}
FIRST = {
    "scalable_unit": "su1", "bmc_address": "172.16.8.11", "node_index": 1,
    "rail_overrides": {"rail0": {"netdev": "ens77"}}, "network_addresses": {"storage": "10.9.0.77/24"},
    "expected_gpus": {"count": 8, "model": "H100", "driver": "550.54", "nvlinks": 18, "power_cap_w": 700},
}  # fmt: skip
SECOND = {"scalable_unit": "su2", "bmc_address": "172.16.8.12"}


def places(value, path=()):
    yield path
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, inner in items:
        yield from places(inner, (*path, step))


def put(value, path, odd):
    if not path:
        return odd
    value = copy.deepcopy(value)
    target = value
    for step in path[:-1]:
        target = target[step]
    target[path[-1]] = odd
    return value


def told_or_planned(what, fabric, first, second):
    """Return the problems of two nodes; a traceback is a failure that names what was odd."""
    nodes = [node("gpu1", fabric, **first), node("gpu2", fabric, **second)]
    found = Inventory("test", [], nodes, frozenset({"gpu1", "gpu2"}), None)
    try:
        problems = load.validate(found)
        if not problems:
            plan.build_plan(found)
    except Exception as error:
        pytest.fail(f"{what}: {error!r}")
    return problems


@pytest.mark.parametrize("base", BASES)
def test_an_odd_value_in_the_fabric(base):
    second = SECOND if base == "units" else {}
    for path in places(BASES[base]):
        for odd in ODD:
            told_or_planned(f"{path} = {odd!r}", put(BASES[base], path, odd), {}, second)


def test_an_odd_value_of_a_host():
    assert told_or_planned("nothing", UNITS, FIRST, SECOND) == []
    for path in list(places(FIRST))[1:]:
        for odd in ODD:
            told_or_planned(f"{path} = {odd!r}", UNITS, put(FIRST, path, odd), SECOND)


@pytest.mark.parametrize("base", BASES)
def test_an_odd_key_in_the_fabric(base):
    second = SECOND if base == "units" else {}
    bare = {key: value for key, value in BASES[base].items() if key not in ("frontend", "networks")}
    for fabric in (BASES[base], bare):
        for path in places(fabric):
            target = fabric
            for step in path:
                target = target[step]
            if not isinstance(target, dict):
                continue
            for key in ODD_KEYS:
                what = f"{path} with key {key!r}"
                problems = told_or_planned(what, put(fabric, path, {**target, key: "x"}), {}, second)
                # A leaf for one more unit is no fault.
                assert problems or path[-1:] == ("leaves",), f"{what} was taken"


def test_an_odd_key_of_a_host():
    for variable in ("rail_overrides", "network_addresses", "expected_gpus"):
        for keys in [[key] for key in ODD_KEYS] + [[5, "x"], [None, "a.b"]]:
            first = {**FIRST, variable: {**FIRST[variable], **{key: {} for key in keys}}}
            what = f"{variable} with {keys}"
            assert told_or_planned(what, UNITS, first, SECOND), f"{what} was taken"


def test_an_odd_value_for_a_rail_whose_name_has_a_dot():
    fabric = changed(UNITS, rails__0__name="rail.0")
    for key in ("netdev", "mac", "pci", "hca", "address", "address6"):
        for odd in ODD:
            first = {**FIRST, "rail_overrides": {"rail.0": {key: odd}}}
            told_or_planned(f"{key} = {odd!r}", fabric, first, SECOND)


EFA = {"transport": "efa", "rails": [{"name": "rail0", "pci": "0000:4f:00.0", "rate_gbps": 100}]}


def test_rails_of_efa_need_nothing_but_their_pci():
    assert list(schema_checks.check_fabric(EFA)) == []
    (finding,) = schema_checks.check_fabric({**EFA, "rails": [{"name": "rail0"}]})
    assert (finding.variable, finding.fix) == ("fabric.rails[0].pci", "add pci")
    (finding,) = schema_checks.check_fabric({"transport": "efa", "rail_count": 4})
    assert (finding.variable, finding.fix) == ("fabric.rails", "list the rails, each with its pci")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("netdev", "ens6"),
        ("mac", "52:54:00:ab:cd:ef"),
        ("subnet", "10.0.1.0/24"),
        ("subnet6", "fd00:0:0:1::/64"),
        ("subnets", {"su1": "10.0.1.0/24"}),
        ("vlan", 100),
        ("routes", ["10.2.0.0/16"]),
        ("ipoib_mode", "datagram"),
    ],
)
def test_what_needs_a_netdev_is_refused_of_efa(key, value):
    rail = {**EFA["rails"][0], key: value}
    found = [one.variable for one in schema_checks.check_fabric({**EFA, "rails": [rail]})]
    assert f"fabric.rails[0].{key}" in found
    (override,) = hardware.check_efa({"netdev": "ens6"}, "efa")
    assert override[0] == "netdev"


@pytest.mark.parametrize(("key", "value"), [("mtu", 9001), ("ipoib_mode", "connected")])
def test_what_needs_netdevs_is_refused_of_a_fabric_of_efa(key, value):
    (finding,) = schema_checks.check_fabric({**EFA, key: value})
    assert finding.variable == f"fabric.{key}"
    assert "EFA device has none" in finding.message
