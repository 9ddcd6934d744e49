# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.netplan import firewall

# Written by hand to the form in which nft and iptables-save print.
NFT = """\
table inet filter {
\tchain input {
\t\ttype filter hook input priority filter; policy %s;
%s\t}

\tchain forward {
\t\ttype filter hook forward priority filter; policy drop;
\t\tct state established accept
\t}
}
"""
SAVE = "*nat\n:PREROUTING ACCEPT [0:0]\nCOMMIT\n*filter\n:INPUT %s [0:0]\n:FORWARD DROP [0:0]\n%sCOMMIT\n"


@pytest.mark.parametrize(
    ("command", "out", "there"),
    [
        ("nft", NFT % ("accept", ""), False),
        ("nft", NFT % ("drop", ""), True),
        ("nft", NFT % ("accept", "\t\tct state invalid drop\n"), True),
        ("iptables-save", SAVE % ("ACCEPT", "-A FORWARD -j DROP\n"), False),
        ("iptables-save", SAVE % ("DROP", ""), True),
        ("ip6tables-legacy-save", SAVE % ("ACCEPT", "-A INPUT -j ufw-before-input\n"), True),
    ],
)
def test_a_filter_on_what_comes_in_is_one_warning_a_node(command, out, there):
    said = firewall.warnings(lambda argv: (0, out, "") if argv[0] == command else (127, "", "not found"))
    assert len(said) == there
    assert all(command in line for line in said)


def test_a_tool_that_fails_says_nothing():
    assert firewall.warnings(lambda argv: (1, NFT % ("drop", ""), "denied")) == []
