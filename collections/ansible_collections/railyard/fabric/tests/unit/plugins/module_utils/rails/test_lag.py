# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""RoCE LAG: a bond of a card's ports as one rail. Facts by hand, after public outputs of mlx5_bond_0."""

from __future__ import annotations

from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.facts import link_errors
from ansible_collections.railyard.fabric.plugins.module_utils.rails import bind, lag, plan
from ansible_collections.railyard.fabric.plugins.module_utils.rules import link
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds import bounds
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy

PORTS = ["ens1f0np0", "ens1f1np1"]


def rail_of(mode: str = "802.3ad", **keys: Any) -> dict[str, Any]:
    rail = {"name": "rail0", "netdev": "bond0", "subnet": "10.0.0.0/24", "rate_gbps": 200, **keys}
    fabric = {"transport": "roce", "mtu": 9000, "rails": [{**rail, "bond": {"mode": mode, "ports": PORTS}}]}
    return dict(plan.plan_node(fabric, "gpu1")[0])


def facts_of(device_of: str = "ens1f0np0", speed_mbps: int = 400000) -> dict[str, Any]:
    """Facts as of `rdma link` and `ip link` of such nodes: the device is at the first port's bus address."""
    up = {
        "admin_up": True,
        "carrier": True,
        "operstate": "up",
        "driver_class": "hardware",
        "driver": "mlx5_core",
    }
    ports = [
        {**up, "netdev": name, "kind": "physical", "master": "bond0", "pci": f"0000:c1:00.{number}"}
        for number, name in enumerate(PORTS)
    ]
    bond = {**up, "netdev": "bond0", "kind": "bond", "master": None, "pci": None, "speed_mbps": speed_mbps}
    hca = {"hca": "mlx5_bond_0:1", "netdev": device_of, "pci": "0000:c1:00.0", "driver_class": "hardware"}
    return {"netdevs": [*ports, bond], "hcas": [{**hca, "driver": "mlx5_core", "state": "ACTIVE"}]}


def bound(facts: dict[str, Any], mode: str = "802.3ad") -> bind.Bound:
    return bind.bind([rail_of(mode)], facts)["rail0"]


@pytest.mark.parametrize("device_of", ["ens1f0np0", "bond0"])
def test_the_device_of_all_ports_is_the_rails(device_of: str) -> None:
    """`rdma link` names the first port, and ibdev2netdev, which goes by the GIDs, the bond."""
    one = bound(facts_of(device_of))
    assert one.findings == []
    assert one.hca["hca"] == "mlx5_bond_0:1"


def test_ports_that_have_a_device_each_are_no_lag() -> None:
    facts = facts_of()
    facts["hcas"] = [{**facts["hcas"][0], "hca": f"mlx5_{n}:1", "netdev": PORTS[n]} for n in range(2)]
    assert bound(facts).hca is None


def changed(netdev: str, **keys: Any) -> dict[str, Any]:
    """Return facts in which one netdev has other keys, or in which there is one port more."""
    facts = facts_of()
    known = {one["netdev"]: one for one in facts["netdevs"]}
    known[netdev] = {**known.get(netdev, known[PORTS[1]]), "netdev": netdev, **keys}
    return {**facts, "netdevs": list(known.values())}


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        (changed("bond0", kind="physical"), "bond0 is no bond"),
        (
            changed("ens1f1np1", master=None),
            "bond0 has ens1f0np0, the inventory declares ens1f0np0, ens1f1np1",
        ),
        (changed("ens9"), "bond0 has ens1f0np0, ens1f1np1, ens9"),
        (changed("ens1f1np1", carrier=None), "ens1f1np1 of bond0 has no carrier"),
        (changed("ens1f1np1", pci="0000:e1:00.0"), "the ports of bond0 are of 2 cards"),
    ],
)
def test_another_bond_than_the_declared_one_fails_the_link(facts: dict[str, Any], words: str) -> None:
    one = bound(facts, "active-backup")
    assert [finding.cause for finding in one.findings] == ["lag_differs"]
    assert words in one.findings[0].detail
    assert link.rule("link", "gpu1", one, "hardware", {}).outcome == "fail"


@pytest.mark.parametrize(
    ("mode", "speed_mbps", "outcome"),
    [
        ("802.3ad", 400000, "pass"),
        ("802.3ad", 200000, "fail"),
        ("balance-xor", 400000, "pass"),
        ("active-backup", 200000, "pass"),
        ("active-backup", 400000, "fail"),
    ],
)
def test_a_bond_that_spreads_has_the_speed_of_its_ports_together(
    mode: str, speed_mbps: int, outcome: str
) -> None:
    one = bound(facts_of(speed_mbps=speed_mbps), mode)
    assert link.rule("link", "gpu1", one, "hardware", {}).outcome == outcome


@pytest.mark.parametrize(("mode", "ports"), [("802.3ad", 2), ("balance-xor", 2), ("active-backup", 1)])
def test_the_floor_is_one_ports_and_the_ceiling_that_of_all_that_carry(mode: str, ports: int) -> None:
    end = bound(facts_of(), mode)
    alone = bind.Bound({**rail_of(), "netdev": "ens1f0np0", "bond": None}, facts_of()["netdevs"][0], end.hca)
    on = bounds.Conditions(policy.merge(None), transport="roce")
    mine, one = (bounds.bound_test("rdma_bandwidth", both, both, on) for both in (end, alone))
    assert mine.floor == one.floor
    assert mine.floor["bandwidth_gbps"] < 200
    assert mine.ceiling["bandwidth_gbps"] == pytest.approx(ports * one.ceiling["bandwidth_gbps"], abs=0.001)
    assert ("of each of 2 ports; a queue pair or stream uses one of them" in mine.basis) == (ports == 2)


def test_a_bond_in_the_facts_alone_is_still_a_finding() -> None:
    rail = {**rail_of(), "bond": None}
    assert [one.cause for one in bind.bind([rail], facts_of())["rail0"].findings] == ["lag_member"]


def test_modes_are_those_of_the_drivers_source() -> None:
    # NETDEV_LAG_TX_TYPE_ACTIVEBACKUP and _HASH: bonding's modes 1, 2 and 4.
    assert lag.MODES == {"802.3ad": True, "balance-xor": True, "active-backup": False}


def test_error_counters_of_a_bond_are_those_of_its_ports_together(tmp_path, monkeypatch) -> None:
    net = tmp_path / "class" / "net"
    for name, errors in (("bond0", 0), ("ens1f0np0", 3), ("ens1f1np1", 4)):
        (net / name / "statistics").mkdir(parents=True)
        (net / name / "statistics" / "rx_crc_errors").write_text(f"{errors}\n")
        (net / name / "carrier_changes").write_text("2\n")
    (net / "bond0" / "bonding").mkdir()
    (net / "bond0" / "bonding" / "slaves").write_text("ens1f0np0 ens1f1np1\n")
    stats = {"ens1f0np0": {"rx_crc_errors_phy": 5}, "ens1f1np1": {"rx_crc_errors_phy": 6}}
    monkeypatch.setattr(link_errors.ethtool, "stats", lambda netdev: stats.get(netdev, {}))
    found = link_errors.read("bond0", None, str(tmp_path))
    assert found["netdev.rx_crc_errors"] == 7
    assert found["netdev.carrier_changes"] == 4
    assert found["ethtool.rx_crc_errors_phy"] == 11
    assert link_errors.read("ens1f0np0", None, str(tmp_path))["ethtool.rx_crc_errors_phy"] == 5
