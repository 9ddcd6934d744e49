# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import shutil

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils import netplan_running, netplan_take_over

PRESENT = {
    "ens6": {"mac": "02:00:00:00:00:06", "driver": ""},
    "ens6d1": {"mac": "02:00:00:00:00:07", "driver": ""},
    "enp5s0": {"mac": "02:00:00:00:00:05", "driver": ""},
    "lo": {"mac": "00:00:00:00:00:00", "driver": ""},
}
OURS = ["ens6", "ens6d1"]
PATH = "/etc/netplan/50-cloud-init.yaml"


def network(match):
    return f"[Match]\n{match}\n\n[Network]\nDHCP=ipv4\n"


def blocked(*matches, path=PATH):
    texts = {
        f"/run/systemd/network/10-netplan-{number}.network": network(match)
        for number, match in enumerate(matches)
    }
    return netplan_take_over.blocked_by(path, texts, PRESENT, OURS)


@pytest.mark.parametrize(
    ("matches", "why"),
    [
        (["Name=ens6"], ""),
        (["Name=ens6", "Name=ens6d1"], ""),
        (["Name=ens6*"], ""),
        (["PermanentMACAddress=02:00:00:00:00:07"], ""),
        (["Name=ens6", "Name=enp5s0"], "it also configures enp5s0"),
        (["Name=en*"], "it also configures enp5s0"),
        (["Name=ens6", "Name=ens9"], "it also configures a netdev that is not there now"),
    ],
)
def test_only_a_file_that_speaks_of_nothing_else_is_moved(matches, why):
    assert blocked(*matches) == why


def test_file_outside_the_folders_is_not_moved():
    assert "only files in /etc/netplan" in blocked("Name=ens6", path="/lib/netplan/00-network.yaml")
    assert "only files in /etc/netplan" in blocked("Name=ens6", path="/etc/network/interfaces")


def test_file_that_needs_others_is_not_moved():
    assert netplan_take_over.blocked_by(PATH, None, PRESENT, OURS) == "it is not whole without other files"


def claim(blocked="", path=PATH, netdev="ens6"):
    return netplan_take_over.Claim(netdev, path, "name ens6", blocked)


def said(take_over, *claims):
    return netplan_take_over.problems(
        claims, {"ens6": "rail0"}, "/etc/netplan/60-x.yaml", take_over=take_over
    )


def test_finding_names_the_way_to_take_over():
    (problem,) = said(False, claim())
    assert problem.startswith(f"rail0: {PATH} also configures its netdev ens6 (by name ens6); take ens6 out")
    assert "rail_network_take_over: true" in problem


def test_blocked_file_stays_a_finding_and_says_why():
    (problem,) = said(True, claim(), claim("it also configures enp5s0", "/etc/netplan/01.yaml"))
    assert problem.startswith("rail0: /etc/netplan/01.yaml")
    assert "since it also configures enp5s0" in problem
    assert "rail_network_take_over: true" not in said(False, claim("it also configures enp5s0"))[0]


def test_copy_is_written_before_the_file_is_removed(tmp_path):
    path = tmp_path / "50-cloud-init.yaml"
    path.write_text("network: {}\n")
    claims = [claim(path=str(path)), claim(path=str(path), netdev="ens6d1"), claim("why", "/nowhere.yaml")]
    assert netplan_take_over.moves(claims) == [
        {"path": f"{path}.railyard-disabled", "text": "network: {}\n", "mode": 0o600},
        {"path": str(path), "text": None, "mode": 0o600},
    ]


def test_cloud_init_is_told_where_it_is_there(tmp_path):
    assert netplan_take_over.cloud_init(str(tmp_path)) == []
    (tmp_path / "etc/cloud/cloud.cfg.d").mkdir(parents=True)
    (entry,) = netplan_take_over.cloud_init(str(tmp_path))
    assert entry["path"] == "/etc/cloud/cloud.cfg.d/99-railyard-network.cfg"
    assert entry["text"].splitlines()[-1] == "network: {config: disabled}"


@pytest.fixture
def node(tmp_path):
    """A node's sysfs with the netdevs above, and a place for its files."""
    for name, known in PRESENT.items():
        folder = tmp_path / "sys/class/net" / name
        folder.mkdir(parents=True)
        (folder / "address").write_text(known["mac"] + "\n")
    (tmp_path / "work").mkdir()
    return tmp_path


@pytest.mark.skipif(shutil.which("netplan") is None, reason="netplan.io is not installed on this machine")
@pytest.mark.parametrize(
    ("ethernets", "why"),
    [
        ("ens6: {dhcp4: true}", ""),
        ("ens6: {dhcp4: true}, enp5s0: {dhcp4: true}", "it also configures enp5s0"),
        ("every: {match: {name: 'en*'}, dhcp4: true}", "it also configures enp5s0"),
    ],
)
def test_files_are_judged_by_what_the_real_netplan_makes_of_them(node, ethernets, why):
    place = node / "50-cloud-init.yaml"
    place.write_text(f"network: {{version: 2, renderer: networkd, ethernets: {{{ethernets}}}}}\n")
    place.chmod(0o600)
    files, work, sys_root = {PATH: str(place)}, str(node / "work"), str(node / "sys")
    found = netplan_take_over.look(netplan_running.run, "netplan", files, {}, OURS, work, sys_root)
    assert {(one.path, one.blocked) for one in found} == {(PATH, why)}


def test_networkd_file_by_hand_is_judged_by_its_own_text(node):
    written = {"/etc/systemd/network/10-rail.network": network("Name=ens6")}
    work, sys_root = str(node / "work"), str(node / "sys")
    (found,) = netplan_take_over.look(netplan_running.run, "netplan", {}, written, ["ens6"], work, sys_root)
    assert (found.path, found.blocked) == ("/etc/systemd/network/10-rail.network", "")
    assert os.listdir(work) == []
