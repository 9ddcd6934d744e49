# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.netplan import unmanaged as netplan_foreign

RAILS = {"ens6": {"mac": "02:00:00:00:00:06", "driver": "veth"}}
OURS = """[Match]
Name=ens6

[Network]
Address=10.0.1.1/24

[RoutingPolicyRule]
From=10.0.1.1/32
Table=6100
Priority=6100
"""
MANAGEMENT = "[Match]\nName=enp5s0\n\n[Network]\nAddress=198.18.0.1/24\n"
OURS_AT, MANAGEMENT_AT = (f"/run/systemd/network/10-netplan-{name}.network" for name in ("ens6", "enp5s0"))
# As `ip -j rule` prints them (iproute2 6.1).
OWN_RULE = {"family": "inet", "priority": 6100, "src": "10.0.1.1", "table": "6100", "protocol": "static"}
FWMARK = {"family": "inet", "priority": 90, "src": "all", "fwmark": "0x2a", "table": "100"}


def test_rule_of_a_file_is_known_and_a_hand_made_one_is_foreign():
    texts = {OURS_AT: OURS, MANAGEMENT_AT: MANAGEMENT}
    assert netplan_foreign.foreign_rules([OWN_RULE, FWMARK], texts) == [FWMARK]


@pytest.mark.parametrize(
    "other",
    [
        {"priority": 6101},
        {"table": "6101"},
        {"src": "10.0.1.2"},
        {"src": "10.0.1.0", "srclen": 24},
        {"fwmark": "0x1"},
    ],
)
def test_rule_that_differs_from_the_files_is_foreign(other):
    rule = {**OWN_RULE, **other}
    assert netplan_foreign.foreign_rules([rule], {OURS_AT: OURS}) == [rule]


def test_rule_that_the_kernel_made_is_left_alone_by_networkd():
    vrf = {"family": "inet", "priority": 1000, "src": "all", "table": "main", "protocol": "kernel"}
    assert netplan_foreign.foreign_rules([vrf], {}) == []


def test_main_table_has_a_name_and_a_number():
    text = "[RoutingPolicyRule]\nFrom=10.9.0.0/16\nTable=254\n"
    rule = {"family": "inet", "priority": 32765, "src": "10.9.0.0", "srclen": 16, "table": "main"}
    assert netplan_foreign.foreign_rules([rule], {"a.network": text}) == []


def test_rules_of_the_rails_are_those_of_the_rails_files():
    storage = {**OWN_RULE, "src": "10.8.0.1", "priority": 5000, "table": "5000"}
    text = OURS.replace("ens6", "ens9").replace("10.0.1.1", "10.8.0.1").replace("6100", "5000")
    texts = {OURS_AT: OURS, "/etc/systemd/network/9.network": text}
    assert netplan_foreign.rules_of_rails([OWN_RULE, storage, FWMARK], texts, RAILS) == [OWN_RULE]


@pytest.mark.parametrize(
    ("place", "text", "keeps"),
    [
        ("etc/systemd/networkd.conf", "[Network]\n#ManageForeignRoutingPolicyRules=no\n", False),
        ("etc/systemd/networkd.conf", "[Network]\nManageForeignRoutingPolicyRules=no\n", True),
        ("etc/systemd/networkd.conf.d/50.conf", "[Network]\nManageForeignRoutingPolicyRules=false\n", True),
        ("etc/systemd/networkd.conf", "[Network]\nManageForeignRoutingPolicyRules=yes\n", False),
        ("etc/systemd/networkd.conf", "torn [", False),
    ],
)
def test_networkd_that_keeps_foreign_rules_passes(tmp_path, place, text, keeps):
    path = tmp_path / place
    path.parent.mkdir(parents=True)
    path.write_text(text)
    assert netplan_foreign.keeps_foreign_rules(str(tmp_path)) is keeps


def test_files_as_they_were_applied_are_no_pending_edit():
    loaded = {MANAGEMENT_AT: MANAGEMENT, OURS_AT: OURS}
    assert netplan_foreign.pending_edits(dict(loaded), loaded, RAILS, {}) == []


@pytest.mark.parametrize(
    ("would_be", "loaded", "word"),
    [
        ({MANAGEMENT_AT: MANAGEMENT.replace(".1/", ".9/")}, {MANAGEMENT_AT: MANAGEMENT}, "would be changed"),
        ({}, {MANAGEMENT_AT: MANAGEMENT}, "would go"),
        ({MANAGEMENT_AT: MANAGEMENT}, {}, "would be new"),
    ],
)
def test_edit_that_was_never_applied_is_reported_with_its_file(would_be, loaded, word):
    sources = {
        "/etc/netplan/01-management.yaml": "enp5s0: {}",
        "/etc/netplan/60-railyard-rails.yaml": "ens6: {}",
    }
    (said,) = netplan_foreign.pending_edits(would_be, loaded, RAILS, sources)
    assert "/etc/netplan/01-management.yaml was never applied" in said
    assert word in said
    assert "rail_network_accept_drift" in said


def test_edit_of_the_rails_own_file_is_no_others_business():
    assert netplan_foreign.pending_edits({OURS_AT: OURS + "#"}, {OURS_AT: OURS}, RAILS, {}) == []
    assert netplan_foreign.pending_edits({}, {OURS_AT: OURS}, RAILS, {}) == []


MANAGED = "/run/NetworkManager/conf.d/10-globally-managed-devices.conf"
UDEV = "/run/udev/rules.d/90-netplan.rules"


def unmanaged(netdev):
    """As netplan 0.106 writes it."""
    return f'ACTION=="add|change|move", ENV{{ID_NET_NAME}}=="{netdev}", ENV{{NM_UNMANAGED}}="1"\n'


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ({MANAGED: ""}, {MANAGED: ""}, []),
        ({MANAGED: ""}, {}, [(MANAGED, "go")]),
        ({MANAGEMENT_AT: MANAGEMENT}, {MANAGEMENT_AT: OURS}, [(MANAGEMENT_AT, "be changed")]),
        # Railyard's file comes beside it, in place of what other files have for the netdev.
        ({OURS_AT: OURS}, {OURS_AT: OURS.replace("1.1", "1.7")}, []),
        ({OURS_AT.replace("ens6", "wild"): OURS}, {OURS_AT: OURS}, []),
        # Their stanza has our netdev's name, and is of another one.
        ({OURS_AT: MANAGEMENT}, {OURS_AT: OURS}, [(OURS_AT, "be changed")]),
        # A file that all stanzas share.
        ({UDEV: unmanaged("enp5s0")}, {UDEV: unmanaged("enp5s0") + unmanaged("ens6")}, []),
        ({UDEV: unmanaged("enp5s0")}, {UDEV: unmanaged("ens6")}, [(UDEV, "be changed")]),
        ({UDEV: unmanaged("ens6")}, {}, []),
        ({UDEV: unmanaged("ens66")}, {}, [(UDEV, "go")]),
    ],
)  # fmt: skip
def test_nothing_that_others_files_generate_may_change(before, after, found):
    assert netplan_foreign.altered(before, after, RAILS) == found


@pytest.mark.parametrize(
    ("path", "named"),
    [
        (MANAGED, True),
        (MANAGEMENT_AT, True),
        (UDEV, True),
        ("/run/systemd/system/netplan-ovs-cleanup.service", False),
        ("/run/udev/rules.d/99-sriov-netplan-setup.rules", False),
    ],
)
def test_renderer_is_named_only_where_it_decides_about_the_file(path, named):
    sentence = netplan_foreign.altered_sentence(path, "go", ["/etc/netplan/50-x.yaml"])
    assert ("renderer" in sentence) is named
    assert "take the rails out of /etc/netplan/50-x.yaml by hand" in sentence
