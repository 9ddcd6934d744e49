# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import shutil
import subprocess

import pytest
import yaml
from ansible_collections.railyard.fabric.plugins.module_utils import netplan_render

RAIL = {
    "name": "rail0",
    "netdev": "ens6",
    "mac": None,
    "pci": None,
    "hca": None,
    "address": "10.0.1.1/24",
    "address6": None,
    "subnet": "10.0.1.0/24",
    "subnet6": None,
    "mtu": 9000,
    "gateway": None,
    "gateway6": None,
    "vlan": None,
    "rate_gbps": None,
    "leaf": None,
}


def ethernets(*rails):
    return yaml.safe_load(netplan_render.render(rails))["network"]["ethernets"]


def test_stanza_has_what_a_rail_needs_and_no_more():
    assert ethernets(RAIL) == {
        "ens6": {
            "dhcp4": False,
            "dhcp6": False,
            "accept-ra": False,
            "link-local": ["ipv6"],
            "addresses": ["10.0.1.1/24"],
            "mtu": 9000,
            "optional": True,
        }
    }


def test_both_families_ipv4_first():
    stanza = ethernets({**RAIL, "address6": "fd00:1::1/64"})["ens6"]
    assert stanza["addresses"] == ["10.0.1.1/24", "fd00:1::1/64"]


def test_gateway_becomes_no_route():
    assert "10.0.1.254" not in netplan_render.render([{**RAIL, "gateway": "10.0.1.254"}])


@pytest.mark.parametrize("netdev", ["eth0.100", "on", "yes", "1e3", "enp1s0f0np0", "a:b", 'x"y'])
def test_name_stays_a_string_in_yaml(netdev):
    assert list(ethernets({**RAIL, "netdev": netdev})) == [netdev]


def test_without_mtu_none_is_written():
    assert "mtu" not in ethernets({**RAIL, "mtu": None})["ens6"]


def test_rail_without_address_has_no_stanza_and_no_rail_no_file():
    bare = {**RAIL, "name": "rail1", "netdev": "ib0", "address": None}
    assert list(ethernets(RAIL, bare)) == ["ens6"]
    assert netplan_render.render([bare]) == ""


def test_vlan_is_refused_by_name():
    with pytest.raises(netplan_render.RenderError, match="rail0: vlan 100"):
        netplan_render.render([{**RAIL, "vlan": 100}])


def test_unresolved_netdev_is_refused():
    with pytest.raises(netplan_render.RenderError, match="rail0: no netdev"):
        netplan_render.render([{**RAIL, "netdev": None}])


@pytest.mark.skipif(shutil.which("netplan") is None, reason="netplan.io is not installed on this machine")
def test_netplan_reads_it_as_meant(tmp_path):
    place = tmp_path / "etc/netplan/60-railyard-rails.yaml"
    place.parent.mkdir(parents=True)
    place.write_text(netplan_render.render([{**RAIL, "address6": "fd00:1::1/64"}]), encoding="utf-8")
    place.chmod(0o600)
    done = subprocess.run(
        ["netplan", "generate", "--root-dir", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    lines = (tmp_path / "run/systemd/network/10-netplan-ens6.network").read_text(encoding="utf-8").split()
    for line in ("Name=ens6", "Address=10.0.1.1/24", "Address=fd00:1::1/64", "MTUBytes=9000"):
        assert line in lines
    assert {"IPv6AcceptRA=no", "RequiredForOnline=no", "LinkLocalAddressing=ipv6"} <= set(lines)
    assert not [line for line in lines if line.startswith(("Gateway=", "DHCP=yes", "[Route]"))]
