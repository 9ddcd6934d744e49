# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.rollback import original

RAILS_FILE, NETWORKS_FILE = "/etc/netplan/60-railyard-rails.yaml", "/etc/netplan/60-railyard-networks.yaml"


def route(netdev, dst):
    return {"dst": dst, "dev": netdev, "protocol": "static", "table": "main", "family": "inet"}


def change(token, mtus_bytes, backups, **more):
    """Return the record of a change of the netdevs in `mtus_bytes`, as they are before it."""
    netdevs = [*mtus_bytes, "enp5s0"]
    return {
        "token": token,
        "created": f"2026-01-0{token}T00:00:00Z",
        "files": [
            {"path": path, "mode": 0o600, "text": "new", "backup": copy} for path, copy in backups.items()
        ],
        "sysctls": {f"net/ipv4/conf/{netdev}/arp_ignore": "1" for netdev in mtus_bytes},
        "netdevs": list(mtus_bytes),
        "snapshot": {
            "links": {netdev: {"mtu_bytes": mtus_bytes.get(netdev, 1500)} for netdev in netdevs},
            "addresses": {netdev: [{"cidr": f"10.0.{token}.1/24"}] for netdev in netdevs},
            "routes": [route(netdev, f"10.9.{token}.0/24") for netdev in netdevs],
            "rules": [{"priority": 90}],
            "sysctls": {f"net/ipv4/conf/{netdev}/arp_ignore": token for netdev in mtus_bytes},
        },
        **more,
    }


FIRST = change("1", {"ens6": 1500}, {RAILS_FILE: None})


def test_first_change_keeps_what_it_replaces_of_its_own_netdevs_alone():
    kept = original.carry(None, FIRST)
    assert (kept["token"], kept["netdevs"]) == ("1", ["ens6"])
    assert kept["files"] == [{"path": RAILS_FILE, "mode": 0o600, "backup": None}]
    assert kept["snapshot"]["links"] == {"ens6": {"mtu_bytes": 1500}}
    assert list(kept["snapshot"]["addresses"]) == ["ens6"]
    assert kept["snapshot"]["routes"] == [route("ens6", "10.9.1.0/24")]
    assert kept["snapshot"]["rules"] == []


def after(confirmed, record):
    """Return the record of a confirmed change after another confirmed one."""
    return {**record, "original": original.carry(confirmed, record)}


def test_later_changes_overwrite_nothing_and_add_what_is_new_to_them():
    first = after(None, FIRST)
    # As the second change finds it: Railyard's file and MTU on ens6; ens7 and a file are new to it.
    backups = {RAILS_FILE: "backup/2/rails", NETWORKS_FILE: "backup/2/networks"}
    second = after(first, change("2", {"ens6": 9000, "ens7": 4200}, backups))
    kept = after(second, change("3", {"ens7": 9000}, {NETWORKS_FILE: "backup/3/networks"}))["original"]
    assert (kept["token"], kept["created"]) == ("1", "2026-01-01T00:00:00Z")
    assert [(entry["path"], entry["backup"]) for entry in kept["files"]] == [
        (RAILS_FILE, None),
        (NETWORKS_FILE, "backup/2/networks"),
    ]
    assert kept["netdevs"] == ["ens6", "ens7"]
    assert kept["snapshot"]["links"] == {"ens6": {"mtu_bytes": 1500}, "ens7": {"mtu_bytes": 4200}}
    assert kept["snapshot"]["addresses"]["ens6"] == [{"cidr": "10.0.1.1/24"}]
    assert kept["snapshot"]["addresses"]["ens7"] == [{"cidr": "10.0.2.1/24"}]
    assert kept["snapshot"]["routes"] == [route("ens6", "10.9.1.0/24"), route("ens7", "10.9.2.0/24")]
    assert kept["snapshot"]["sysctls"] == {
        "net/ipv4/conf/ens6/arp_ignore": "1",
        "net/ipv4/conf/ens7/arp_ignore": "2",
    }
    assert kept["sysctls"] == ["net/ipv4/conf/ens6/arp_ignore", "net/ipv4/conf/ens7/arp_ignore"]


def test_vlan_that_railyard_made_has_no_state_before():
    first = change("1", {"ens6": 1500, "ens6.100": 1500}, {RAILS_FILE: None})
    for part in ("links", "addresses"):
        del first["snapshot"][part]["ens6.100"]
    del first["snapshot"]["sysctls"]["net/ipv4/conf/ens6.100/arp_ignore"]
    first["snapshot"]["routes"] = []
    kept = after(after(None, first), change("2", {"ens6": 9000, "ens6.100": 9000}, {}))["original"]
    assert kept["snapshot"] == original.carry(None, first)["snapshot"]


def test_node_of_an_earlier_version_never_gets_an_original_state():
    earlier = {key: FIRST[key] for key in FIRST if key != "original"}
    second = after(earlier, change("2", {"ens6": 9000}, {RAILS_FILE: "backup/2/rails"}))
    assert second["original"] is None
    assert original.carry(second, change("3", {"ens6": 9000}, {})) is None


@pytest.mark.parametrize(("returned_to", "first"), [("1", "4"), ("2", "1")])
def test_change_after_a_return_to_the_original_state_is_a_first_one(returned_to, first):
    second = after(after(None, FIRST), change("2", {"ens6": 9000}, {RAILS_FILE: "backup/2/rails"}))
    # A return names the change whose replaced state it restores.
    returned = after(second, change("3", {"ens6": 9000}, {RAILS_FILE: "backup/3/rails"}, reverts=returned_to))
    assert original.is_restored(returned) == (returned_to == "1")
    assert original.carry(returned, change("4", {"ens6": 1500}, {RAILS_FILE: None}))["token"] == first
