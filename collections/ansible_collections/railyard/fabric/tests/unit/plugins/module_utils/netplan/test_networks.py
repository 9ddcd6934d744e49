# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
import yaml
from ansible_collections.railyard.fabric.plugins.module_utils.netplan import candidate, networks
from ansible_collections.railyard.fabric.plugins.module_utils.netplan import change as netplan_change
from ansible_collections.railyard.fabric.plugins.module_utils.rollback import restore
from support.nodes.netplan import generate, needs_netplan

STORAGE = {
    "name": "storage",
    "purpose": "storage",
    "netdev": "enp5s0",
    "subnet": "10.9.0.0/24",
    "address": "10.9.0.7/24",
    "vlan": 90,
    "mtu": 9000,
    "manage": True,
    "bmc": False,
}
FRONTEND = {"netdev": "enp5s0", "dhcp4": None, "address": "192.168.1.7/24", "gateway": "192.168.1.1"}
RAIL = {"name": "rail0", "netdev": "ens6", "address": "10.0.1.7/24", "mtu": 9000, "table": 6100}
RAILS_FILE = "/etc/netplan/60-railyard-rails.yaml"


def placed(network):
    """As resolve.place leaves it on a node."""
    (row,) = networks.as_rails([network])
    return {**row, "netdev": "enp5s0.90", "parent": "enp5s0"} if network["vlan"] else row


@pytest.mark.parametrize("change", [{"manage": False}, {"address": None}, {"bmc": True}])
def test_what_is_not_railyards_is_no_row(change):
    assert networks.as_rails([{**STORAGE, **change}]) == []


def test_frontend_is_written_only_when_it_is_managed():
    assert networks.managed_frontend({**FRONTEND, "manage": False}) is None
    assert networks.managed_frontend({}) is None
    assert networks.managed_frontend(None) is None
    assert networks.managed_frontend({**FRONTEND, "manage": True})["netdev"] == "enp5s0"


def test_nothing_managed_is_no_file():
    assert networks.render([], None) == ""


def test_vlan_on_the_managed_frontend_needs_no_stanza_of_its_own():
    network = yaml.safe_load(networks.render([placed(STORAGE)], FRONTEND))["network"]
    assert network["ethernets"] == {
        "enp5s0": {
            "renderer": "networkd",
            "dhcp4": False,
            "addresses": ["192.168.1.7/24"],
            "routes": [{"to": "default", "via": "192.168.1.1"}],
        }
    }
    assert network["vlans"]["enp5s0.90"]["link"] == "enp5s0"
    assert network["vlans"]["enp5s0.90"]["addresses"] == ["10.9.0.7/24"]


def test_vlan_on_a_netdev_of_its_own_brings_it_up():
    network = yaml.safe_load(networks.render([placed(STORAGE)], None))["network"]
    assert network["ethernets"]["enp5s0"]["link-local"] == []
    assert "addresses" not in network["ethernets"]["enp5s0"]


def test_dhcp_frontend_has_neither_address_nor_route():
    text = networks.render([], {"netdev": "enp5s0", "dhcp4": True})
    assert yaml.safe_load(text)["network"]["ethernets"] == {"enp5s0": {"renderer": "networkd", "dhcp4": True}}


def test_network_without_table_has_no_rule_and_no_sysctl():
    row = placed({**STORAGE, "vlan": None})
    stanza = yaml.safe_load(networks.render([row], None))["network"]["ethernets"]["enp5s0"]
    assert not {"routes", "routing-policy"} & set(stanza)
    assert candidate.sysctls([RAIL, row]).keys() == {
        f"net/ipv4/conf/ens6/{name}" for name in ("arp_ignore", "arp_announce", "rp_filter")
    }


def test_ipv6_network():
    row = placed({**STORAGE, "vlan": None, "address": "fd09::7/64"})
    assert "fd09::7/64" in networks.render([row], None)


def texts(*rails, frontend=None):
    return {one["path"]: one for one in candidate.files(rails, RAILS_FILE, frontend)}


def test_each_file_has_its_own_and_absent_ones_are_removed():
    found = texts(RAIL)
    assert "10.0.1.7/24" in found[RAILS_FILE]["text"]
    assert found["/etc/netplan/60-railyard-networks.yaml"]["text"] is None
    sysctl = found["/etc/sysctl.d/60-railyard-rails.conf"]
    assert "net/ipv4/conf/ens6/arp_ignore = 1\n" in sysctl["text"]
    assert (found[RAILS_FILE]["mode"], sysctl["mode"]) == (0o600, 0o644)


@needs_netplan
def test_beside_network_manager_railyards_files_are_networkds_and_the_rest_stays(tmp_path):
    rail = {**RAIL, "vlan": 7, "netdev": "ens6.7", "parent": "ens6", "ipoib_mode": "datagram"}
    candidates = texts(rail, {**RAIL, "netdev": "ib0"}, placed(STORAGE), frontend=FRONTEND)
    written = {path: one["text"] for path, one in candidates.items() if candidate.is_netplan(path)}
    # As Ubuntu's desktop has it.
    written["/etc/netplan/01-network-manager-all.yaml"] = "network: {version: 2, renderer: NetworkManager}\n"
    candidate.generate(restore.run, "netplan", {}, written, str(tmp_path))
    made = candidate.tree(str(tmp_path))
    assert made["/run/NetworkManager/conf.d/10-globally-managed-devices.conf"] == ""
    assert not [path for path in made if path.endswith(".nmconnection")]
    names = {f"10-netplan-{netdev}.network" for netdev in ("ens6", "ens6.7", "ib0", "enp5s0", "enp5s0.90")}
    assert {path.split("/")[-1] for path in made if path.endswith(".network")} == names


def test_networks_are_in_their_own_file():
    found = texts(RAIL, placed(STORAGE), frontend=FRONTEND)
    assert "10.9.0.7/24" not in found[RAILS_FILE]["text"]
    assert "10.9.0.7/24" in found["/etc/netplan/60-railyard-networks.yaml"]["text"]


def test_without_rails_all_files_go():
    assert [one["text"] for one in texts().values()] == [None, None, None]


@needs_netplan
def test_netplan_takes_both_files_together(tmp_path):
    rail = {**RAIL, "netdev": "ens6.5", "parent": "ens6", "vlan": 5}
    backup = {**placed({**STORAGE, "name": "backup", "netdev": "ens6", "vlan": 6}), "netdev": "ens6.6"}
    backup["parent"] = "ens6"
    candidates = candidate.files([rail, placed(STORAGE), backup], RAILS_FILE, FRONTEND)
    made = generate(
        tmp_path, {one["path"]: one["text"] for one in candidates if candidate.is_netplan(one["path"])}
    )
    assert {"VLAN=enp5s0.90", "Gateway=192.168.1.1"} <= set(made["10-netplan-enp5s0.network"].split())
    assert "Address=10.9.0.7/24" in made["10-netplan-enp5s0.90.network"]
    assert {"VLAN=ens6.5", "VLAN=ens6.6"} <= set(made["10-netplan-ens6.network"].split())


def test_own_file_names_its_netdevs_and_its_rules(monkeypatch):
    monkeypatch.setattr(netplan_change.os.path, "exists", lambda path: not path.endswith("/gone0"))
    text = texts(RAIL, {**RAIL, "name": "rail1", "netdev": "gone0", "table": 6101})[RAILS_FILE]["text"]
    assert netplan_change._netdevs_of(text) == {"ens6"}
    taken = {
        "rules": [
            {"priority": 6100, "src": "10.0.1.7", "table": "6100", "protocol": "static"},
            {"priority": 6100, "src": "10.0.1.8", "table": "6100"},
            {"priority": 7, "src": "10.0.1.7", "table": "7", "protocol": "static"},
        ]
    }
    assert netplan_change._rules_of(text, taken) == taken["rules"][:1]
