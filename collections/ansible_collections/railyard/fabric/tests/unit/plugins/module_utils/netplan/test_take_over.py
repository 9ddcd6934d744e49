# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import os
import shutil
import tempfile

import pytest
import yaml
from ansible_collections.railyard.fabric.plugins.module_utils.netplan import candidate, unmanaged
from ansible_collections.railyard.fabric.plugins.module_utils.netplan import take_over as netplan_take_over
from ansible_collections.railyard.fabric.plugins.module_utils.rollback import restore
from support.nodes.netplan import NOTES, needs_netplan

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


@pytest.mark.parametrize(
    ("matches", "sorted_"),
    [
        (["Name=ens6", "Name=ens6*"], ({"ethernets": ["0", "1"]}, {}, False)),
        (["PermanentMACAddress=02:00:00:00:00:07"], ({"ethernets": ["0"]}, {}, False)),
        (["Name=ens6", "Name=enp5s0"], ({"ethernets": ["0"]}, {}, True)),
        (["Name=ens6", "Name=ens9"], ({"ethernets": ["0"]}, {}, True)),
        (["Name=*"], ({}, {"0": ["enp5s0"]}, False)),
    ],
)
def test_stanzas_are_sorted_by_whose_netdevs_they_match(matches, sorted_):
    texts = {f"/run/systemd/network/10-netplan-{n}.network": network(one) for n, one in enumerate(matches)}
    assert netplan_take_over.sort(texts, PRESENT, OURS) == sorted_


def claim(blocked="", path=PATH, netdev="ens6", **more):
    return netplan_take_over.Claim(netdev, path, "name ens6", blocked, **more)


def list_problems(take_over, *claims):
    return netplan_take_over.problems(
        claims, {"ens6": "rail0"}, "/etc/netplan/60-x.yaml", take_over=take_over
    )


def test_finding_names_the_way_to_take_over():
    (problem,) = list_problems(False, claim())
    assert problem.startswith(f"rail0: {PATH} also configures its netdev ens6 (by name ens6); take ens6 out")
    assert "rail_network_take_over: true, and it is moved aside" in problem
    # Else cloud-init brings back what a person took out.
    assert "write `network: {config: disabled}` to /etc/cloud/cloud.cfg.d/" in problem
    assert (
        "its stanzas of such netdevs alone are moved aside" in list_problems(False, claim(stays="rest\n"))[0]
    )


def test_blocked_file_stays_a_finding_and_says_why():
    (problem,) = list_problems(True, claim(), claim("it also configures enp5s0", "/etc/netplan/01.yaml"))
    assert problem.startswith("rail0: /etc/netplan/01.yaml")
    assert "since it also configures enp5s0" in problem
    assert "rail_network_take_over: true" not in list_problems(False, claim("it also configures enp5s0"))[0]


def test_copy_is_written_before_the_file_is_removed(tmp_path):
    path = tmp_path / "50-cloud-init.yaml"
    path.write_text("network: {}\n")
    path.chmod(0o640)
    claims = [claim(path=str(path)), claim(path=str(path), netdev="ens6d1"), claim("why", "/nowhere.yaml")]
    owner = [os.getuid(), os.getgid()]
    assert netplan_take_over.moves(claims) == [
        {"path": f"{path}.railyard-disabled", "text": "network: {}\n", "mode": 0o600},
        {"path": str(path), "text": None, "mode": 0o640, "owner": owner},
    ]
    (_copy, entry) = netplan_take_over.moves([claim(path=str(path), stays="rest\n")])
    assert entry == {"path": str(path), "text": "rest\n", "mode": 0o640, "owner": owner}


def test_cloud_init_is_reported_where_it_is_there(tmp_path):
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


def look(node, text, ours=None):
    ours = OURS if ours is None else ours
    place = node / "file.yaml"
    place.write_text(text)
    place.chmod(0o600)
    work, sys_root = str(node / "work"), str(node / "sys")
    shutil.rmtree(work)
    return netplan_take_over.look(restore.run, "netplan", {PATH: str(place)}, {}, ours, work, sys_root)


def made_of(node, text):
    folder = tempfile.mkdtemp(dir=node)
    candidate.generate(restore.run, "netplan", {}, {PATH: text}, folder)
    return candidate.tree(folder)


# An installer's, for NetworkManager, with a name that YAML takes for a truth.
INSTALLERS = """network:
  version: 2
  renderer: NetworkManager
  ethernets:
    "on": {match: {name: ens6}, mtu: 9000}
    port: {match: {macaddress: "02:00:00:00:00:07"}, addresses: [10.0.0.1/24]}
    enp5s0: {renderer: networkd, addresses: [192.168.1.7/24], routes: [{to: default, via: 192.168.1.1}]}
    eno9: {wakeonlan: true, dhcp4: true}
"""


@needs_netplan
@pytest.mark.parametrize(
    ("text", "ours", "others"),
    [
        (NOTES, OURS, ["enp5s0", "enp6s0"]),
        # with a frontend that is managed
        (NOTES, [*OURS, "enp5s0"], ["enp6s0"]),
        (INSTALLERS, OURS, ["enp5s0", "eno9"]),
    ],
)
def test_stanzas_of_others_stay_and_what_netplan_makes_of_them(node, text, ours, others):
    found = look(node, text, ours)
    assert {(one.netdev, one.blocked) for one in found} == {(netdev, "") for netdev in ours}
    before, after = made_of(node, text), made_of(node, found[0].stays)
    assert unmanaged.altered(before, after, {name: PRESENT[name] for name in ours}) == []
    assert list(yaml.safe_load(found[0].stays)["network"]["ethernets"]) == others


@needs_netplan
def test_railyards_vlan_that_is_not_there_leaves_with_its_port(node):
    shutil.rmtree(node / "sys/class/net/ens6d1")
    text = (
        "network: {version: 2, ethernets: {ens6: {}, enp5s0: {}}, "
        "vlans: {ens6d1: {id: 7, link: ens6}, up: {id: 8, link: enp5s0}}}\n"
    )
    (one, _other) = look(node, text)
    network_ = yaml.safe_load(one.stays)["network"]
    assert (list(network_["ethernets"]), list(network_["vlans"])) == (["enp5s0"], ["up"])


@needs_netplan
@pytest.mark.parametrize(
    ("ethernets", "why"),
    [
        ("ens6: {dhcp4: true}", ""),
        ("every: {match: {name: 'en*'}, dhcp4: true}", "its stanza every also configures enp5s0"),
        ("ens6: {}, enp5s0: {}}, bonds: {bond0: {interfaces: [ens6]}", "netplan cannot take ens6 out of it"),
    ],
)
def test_files_are_judged_by_what_the_real_netplan_makes_of_them(node, ethernets, why):
    found = look(node, f"network: {{version: 2, renderer: networkd, ethernets: {{{ethernets}}}}}\n")
    assert {one.stays for one in found} == {None}
    assert all(one.blocked.startswith(why) and bool(one.blocked) == bool(why) for one in found)


@needs_netplan
def test_what_the_refusal_of_a_glob_advises_is_accepted(node):
    every = "{{every: {{match: {{name: {}}}, dhcp4: true}}}}"
    file = f"network: {{{{version: 2, renderer: NetworkManager, ethernets: {every}}}}}\n"
    found = look(node, file.format("'en*'"))
    (problem, _second) = list_problems(False, *found)
    assert (
        "put a stanza for each of enp5s0 in its place (`match: {name: enp5s0}` and what it says)" in problem
    )
    assert "take ens6 out" not in problem
    assert look(node, file.format("enp5s0")) == []


VIRTUAL_FUNCTIONS = """network:
  version: 2
  ethernets:
    ens6:
      embedded-switch-mode: switchdev
      virtual-function-count: 8
      delay-virtual-functions-rebind: true
      mtu: 9000
    enp5s0: {dhcp4: true}
"""


@needs_netplan
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (VIRTUAL_FUNCTIONS, "embedded-switch-mode, virtual-function-count, delay-virtual-functions-rebind"),
        # Nothing of others in the file, and YAML's flow form.
        (
            "network: {version: 2, ethernets: {ens6: {'virtual-function-count': 8}}}\n",
            "(virtual-function-count)",
        ),
        (
            "network: {version: 2, ethernets: {p: {match: {name: ens6}}, vf0: {link: p}, vf1: {link: p}}}\n",
            "its stanza p sets up virtual functions (`link` of vf0, `link` of vf1)",
        ),
        (
            "network: {version: 2, ethernets: {ens6d1: {link: enp5s0}, enp5s0: {dhcp4: true}}}\n",
            "its stanza ens6d1 is a virtual function of enp5s0",
        ),
    ],
)
def test_virtual_functions_are_not_taken_away(node, text, words):
    found = look(node, text)
    assert found
    for take_over in (True, False):
        problem = list_problems(take_over, *found)[0]
        assert words in problem
        assert "rail_network_take_over does not move it" in problem
        assert "renderer" not in problem
    assert netplan_take_over.moves(found) == []


def test_networkd_file_by_hand_is_judged_by_its_own_text(node):
    written = {"/etc/systemd/network/10-rail.network": network("Name=ens6")}
    work, sys_root = str(node / "work"), str(node / "sys")
    written["/etc/systemd/network/20-all.network"] = network("Name=en*")
    found = netplan_take_over.look(restore.run, "netplan", {}, written, ["ens6"], work, sys_root)
    assert [(one.path, one.blocked) for one in found] == [
        ("/etc/systemd/network/10-rail.network", ""),
        ("/etc/systemd/network/20-all.network", "its [Match] also configures enp5s0, ens6d1"),
    ]
    assert found[1].fix == "have it match these alone (`Name=enp5s0 ens6d1`)"
    assert os.listdir(work) == []
