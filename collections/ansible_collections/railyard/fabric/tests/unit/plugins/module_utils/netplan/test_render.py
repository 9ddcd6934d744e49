# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import shutil

import pytest
import yaml
from ansible_collections.railyard.fabric.plugins.module_utils.netplan import render
from support.nodes.netplan import generate

UNSET = ("mac", "pci", "hca", "address6", "subnet6", "gateway", "gateway6", "vlan", "rate_gbps", "leaf")
RAIL = {
    **dict.fromkeys(UNSET),
    "name": "rail0",
    "netdev": "ens6",
    "address": "10.0.1.1/24",
    "subnet": "10.0.1.0/24",
    "mtu": 9000,
}


def ethernets(*rails):
    return yaml.safe_load(render.render(rails))["network"]["ethernets"]


CARRIER = {
    "renderer": "networkd",
    "dhcp4": False,
    "dhcp6": False,
    "accept-ra": False,
    "link-local": [],
    "mtu": 9000,
    "optional": True,
}


def test_stanza_has_what_a_rail_needs_and_no_more():
    assert ethernets(RAIL) == {
        "ens6": {**CARRIER, "link-local": ["ipv6"], "addresses": ["10.0.1.1/24"]},
    }


def test_both_families_ipv4_first():
    stanza = ethernets({**RAIL, "address6": "fd00:1::1/64"})["ens6"]
    assert stanza["addresses"] == ["10.0.1.1/24", "fd00:1::1/64"]


def test_gateway_becomes_no_route():
    assert "10.0.1.254" not in render.render([{**RAIL, "gateway": "10.0.1.254"}])


@pytest.mark.parametrize("netdev", ["eth0.100", "on", "yes", "1e3", "enp1s0f0np0", "a:b", 'x"y'])
def test_name_stays_a_string_in_yaml(netdev):
    assert list(ethernets({**RAIL, "netdev": netdev})) == [netdev]


def test_without_mtu_none_is_written():
    assert "mtu" not in ethernets({**RAIL, "mtu": None})["ens6"]


def test_rail_without_address_has_no_stanza_and_no_rail_no_file():
    bare = {**RAIL, "name": "rail1", "netdev": "ib0", "address": None}
    assert list(ethernets(RAIL, bare)) == ["ens6"]
    assert render.render([bare]) == ""


TAGGED = {**RAIL, "netdev": "ens6.100", "parent": "ens6", "vlan": 100}


def test_vlan_has_the_address_and_its_parent_only_carries_it():
    network = yaml.safe_load(render.render([TAGGED]))["network"]
    assert network["ethernets"]["ens6"] == CARRIER
    vlan = network["vlans"]["ens6.100"]
    assert (vlan["id"], vlan["link"], vlan["addresses"], vlan["mtu"]) == (100, "ens6", ["10.0.1.1/24"], 9000)


def test_two_vlans_share_a_parent_as_large_as_the_larger():
    other = {**TAGGED, "name": "rail1", "netdev": "ens6.200", "vlan": 200, "mtu": 1500}
    network = yaml.safe_load(render.render([other, TAGGED]))["network"]
    assert network["ethernets"]["ens6"]["mtu"] == 9000
    assert sorted(network["vlans"]) == ["ens6.100", "ens6.200"]


def test_vlan_over_an_untagged_rail_keeps_the_rails_own_stanza():
    other = {**TAGGED, "name": "rail1", "address": "10.0.2.1/24"}
    network = yaml.safe_load(render.render([RAIL, other]))["network"]
    assert network["ethernets"]["ens6"]["addresses"] == ["10.0.1.1/24"]


@pytest.mark.parametrize("change", [{"vlan": 100}, {"netdev": None}], ids=["vlan", "unresolved"])
def test_rail_without_its_netdev_is_refused(change):
    with pytest.raises(render.RenderError, match="rail0: no netdev"):
        render.render([{**RAIL, **change}])


def test_permanent_mac_is_matched_and_the_name_kept():
    stanza = ethernets({**RAIL, "permanent_mac": "02:00:00:00:00:06"})["ens6"]
    assert stanza["match"] == {"macaddress": "02:00:00:00:00:06"}
    assert stanza["set-name"] == "ens6"


def test_link_local_and_router_advertisements_as_declared():
    stanza = ethernets({**RAIL, "link_local": [], "accept_ra": True})["ens6"]
    assert (stanza["link-local"], stanza["accept-ra"]) == ([], True)
    assert ethernets({**RAIL, "link_local": ["ipv4", "ipv6"]})["ens6"]["link-local"] == ["ipv4", "ipv6"]


def test_infiniband_mode():
    assert ethernets({**RAIL, "ipoib_mode": "connected"})["ens6"]["infiniband-mode"] == "connected"
    assert "infiniband-mode" not in ethernets(RAIL)["ens6"]


def sections(text):
    """The sections of a networkd file, each with its lines, in order."""
    found = []
    for line in text.splitlines():
        if line.startswith("["):
            found.append((line[1:-1], []))
        elif line:
            found[-1][1].append(line)
    return found


@pytest.fixture
def generated(tmp_path):
    """What the real netplan makes of rails: `{file: text}`."""
    if shutil.which("netplan") is None:
        pytest.skip("netplan.io is not installed on this machine")
    return lambda *rails: generate(tmp_path, {"/etc/netplan/60-railyard-rails.yaml": render.render(rails)})


ROUTED = {
    **RAIL,
    "address6": "fd00:1::1/64",
    "gateway": "10.0.1.254",
    "gateway6": "fd00:1::fe",
    "routes": [{"to": "10.1.1.0/24", "via": "10.0.1.254"}, {"to": "fd00:2::/64", "via": "fd00:1::fe"}],
    "table": 6100,
}


def test_networkd_gets_the_routes_the_table_and_the_rules(generated):
    found = sections(generated(ROUTED)["10-netplan-ens6.network"])
    routes = [set(lines) for name, lines in found if name == "Route"]
    both = {"10.1.1.0/24": "10.0.1.254", "fd00:2::/64": "fd00:1::fe"}
    for subnet, gateway in both.items():
        assert {f"Destination={subnet}", f"Gateway={gateway}"} in routes
        assert {f"Destination={subnet}", f"Gateway={gateway}", "Table=6100"} in routes
    for subnet in ("10.0.1.0/24", "fd00:1::/64"):
        assert {f"Destination={subnet}", "Scope=link", "Table=6100"} in routes
    # networkd calls a default route by its zeros, as netplan 0.106 writes it, or by no destination at all
    defaults = [lines for lines in routes if any("/0" in line for line in lines)]
    assert len(defaults) == 2
    assert all("Table=6100" in lines for lines in defaults)
    assert len(routes) == 8
    assert [lines for name, lines in found if name == "RoutingPolicyRule"] == [
        ["From=10.0.1.1/32", "Table=6100", "Priority=6100"],
        ["From=fd00:1::1/128", "Table=6100", "Priority=6100"],
    ]


def test_networkd_gets_the_permanent_mac_and_the_mtu_in_both_files(generated):
    files = generated({**RAIL, "permanent_mac": "02:00:00:00:00:06"})
    link = dict(sections(files["10-netplan-ens6.link"]))
    assert link["Match"] in (
        ["PermanentMACAddress=02:00:00:00:00:06"],
        ["MACAddress=02:00:00:00:00:06"],  # netplan before 0.106
    )
    assert {"Name=ens6", "MTUBytes=9000"} <= set(link["Link"])
    network = dict(sections(files["10-netplan-ens6.network"]))
    assert "Name=ens6" in network["Match"]
    assert "MTUBytes=9000" in network["Link"]


def test_networkd_gets_the_vlan_and_no_address_on_its_parent(generated):
    files = generated({**ROUTED, **TAGGED})
    assert "Id=100" in files["10-netplan-ens6.100.netdev"]
    assert "Address=10.0.1.1/24" in files["10-netplan-ens6.100.network"]
    assert "MTUBytes=9000" in files["10-netplan-ens6.100.network"]
    parent = files["10-netplan-ens6.network"]
    assert "VLAN=ens6.100" in parent
    assert "MTUBytes=9000" in parent
    assert "Address=" not in parent
    assert "LinkLocalAddressing=no" in parent


def test_networkd_gets_the_infiniband_mode(generated):
    text = generated({**RAIL, "netdev": "ib0", "mtu": 65520, "ipoib_mode": "connected"})[
        "10-netplan-ib0.network"
    ]
    assert dict(sections(text))["IPoIB"] == ["Mode=connected"]


@pytest.mark.parametrize(
    ("declared", "line"),
    [
        ({}, "LinkLocalAddressing=ipv6"),
        ({"link_local": []}, "LinkLocalAddressing=no"),
        ({"link_local": ["ipv4"]}, "LinkLocalAddressing=ipv4"),
        ({"link_local": ["ipv4", "ipv6"]}, "LinkLocalAddressing=yes"),
        ({"accept_ra": True}, "IPv6AcceptRA=yes"),
    ],
)
def test_networkd_gets_link_local_and_router_advertisements(generated, declared, line):
    assert line in generated({**RAIL, **declared})["10-netplan-ens6.network"].splitlines()


def test_netplan_reads_it_as_meant(generated):
    lines = generated({**RAIL, "address6": "fd00:1::1/64"})["10-netplan-ens6.network"].split()
    for line in ("Name=ens6", "Address=10.0.1.1/24", "Address=fd00:1::1/64", "MTUBytes=9000"):
        assert line in lines
    assert {"IPv6AcceptRA=no", "RequiredForOnline=no", "LinkLocalAddressing=ipv6"} <= set(lines)
    assert not [line for line in lines if line.startswith(("Gateway=", "DHCP=yes", "[Route]"))]
