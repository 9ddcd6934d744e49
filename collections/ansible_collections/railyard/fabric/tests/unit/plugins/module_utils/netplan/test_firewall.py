# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

from __future__ import annotations

import json
import os
import shutil
import subprocess

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.netplan import firewall, firewall_rules

RAIL = {"name": "rail0", "netdev": "ens6", "address": "10.0.1.1/24", "address6": None}
# The order of ufw's own chains in its before.rules and after.rules, shortened.
UFW = """\
*nat
:PREROUTING ACCEPT [0:0]
COMMIT
*filter
:INPUT DROP [12:720]
:FORWARD DROP [0:0]
:OUTPUT ACCEPT [0:0]
:ufw-before-input - [0:0]
:ufw-not-local - [0:0]
:ufw-user-input - [0:0]
-A INPUT -j ufw-before-input
-A ufw-before-input -i lo -j ACCEPT
-A ufw-before-input -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A ufw-before-input -m conntrack --ctstate INVALID -j DROP
-A ufw-before-input -p icmp -m icmp --icmp-type 8 -j ACCEPT
-A ufw-before-input -j ufw-not-local
-A ufw-before-input -j ufw-user-input
-A ufw-not-local -m addrtype --dst-type LOCAL -j RETURN
-A ufw-not-local -m addrtype --dst-type BROADCAST -j RETURN
-A ufw-not-local -m limit --limit 3/min -j LOG --log-prefix "[UFW BLOCK] "
-A ufw-not-local -j DROP
-A ufw-user-input -p tcp -m tcp --dport 22 -j ACCEPT
%s
COMMIT
"""


def said(*tables, rail=None):
    return firewall.findings([rail or RAIL], [table for group in tables for table in group])


def ufw(rule=""):
    return firewall_rules.from_iptables(UFW % rule, "ip", "iptables")


def test_default_deny_is_found_and_named():
    (finding,) = said(ufw())
    assert finding.startswith(
        "rail0 (ens6): the host's firewall drops what comes from 10.0.1.0/24: "
        "iptables table ip filter, chain INPUT (policy drop)."
    )
    assert "ufw allow in on ens6" in finding


@pytest.mark.parametrize(
    "rule",
    [
        "-A ufw-user-input -i ens6 -j ACCEPT",
        "-A ufw-user-input -i ens+ -j ACCEPT",
        "-A ufw-user-input -s 10.0.0.0/16 -j ACCEPT",
        "-A ufw-user-input -s 10.0.1.0/24 -d 10.0.1.1/32 -i ens6 -m comment --comment 'the rails' -j ACCEPT",
        "-A ufw-user-input ! -i enp5s0 -j ACCEPT",
        "-A ufw-user-input -m conntrack --ctstate NEW -j ACCEPT",
    ],
)
def test_rail_that_is_let_in_is_no_finding(rule):
    assert said(ufw(rule)) == []


@pytest.mark.parametrize(
    "rule",
    [
        "-A ufw-user-input -i ens6d1 -j ACCEPT",
        "-A ufw-user-input -i ens6 -p tcp -j ACCEPT",
        "-A ufw-user-input -s 10.0.1.0/25 -j ACCEPT",
        "-A ufw-user-input -s 10.0.2.0/24 -j ACCEPT",
        "-A ufw-user-input ! -i ens6 -j ACCEPT",
        "-A ufw-user-input -i ens6 -j LOG",
    ],
)
def test_what_lets_only_some_in_does_not_help(rule):
    assert len(said(ufw(rule))) == 1


def test_drop_before_accept_and_after_it():
    text = "*filter\n:INPUT ACCEPT [0:0]\n%s\nCOMMIT\n"
    first = text % "-A INPUT -i ens6 -j DROP\n-A INPUT -i ens6 -j ACCEPT"
    last = text % "-A INPUT -i ens6 -j ACCEPT\n-A INPUT -j REJECT --reject-with icmp-port-unreachable"
    assert "a rule that drops" in said(firewall_rules.from_iptables(first, "ip", "iptables"))[0]
    assert said(firewall_rules.from_iptables(last, "ip", "iptables")) == []


def test_open_host_is_no_finding():
    assert (
        said(firewall_rules.from_iptables("*filter\n:INPUT ACCEPT [0:0]\nCOMMIT\n", "ip", "iptables")) == []
    )


def test_ipv6_rules_speak_of_ipv6_alone():
    tables = firewall_rules.from_iptables("*filter\n:INPUT DROP [0:0]\nCOMMIT\n", "ip6", "ip6tables")
    assert said(tables) == []
    assert len(said(tables, rail={**RAIL, "address6": "fd00:1::1/64"})) == 1


def test_chains_that_jump_in_a_ring_come_to_an_end():
    text = "*filter\n:INPUT DROP [0:0]\n:a - [0:0]\n-A INPUT -j a\n-A a -j INPUT\nCOMMIT\n"
    assert len(said(firewall_rules.from_iptables(text, "ip", "iptables"))) == 1


def written(*rules, policy="drop"):
    """A ruleset in the form of libnftables-json(5), for kernels without nft; `[expr, ...]` per rule."""
    place = {"family": "inet", "table": "filter"}
    chain = {**place, "name": "input", "hook": "input", "type": "filter", "prio": 0, "policy": policy}
    items = [{"metainfo": {"json_schema_version": 1}}, {"table": {"family": "inet", "name": "filter"}}]
    items += [{"chain": chain}, *({"rule": {**place, "chain": "input", "expr": expr}} for expr in rules)]
    return firewall_rules.from_nft(json.dumps({"nftables": items}))


def match(left, right, op="=="):
    return {"match": {"op": op, "left": left, "right": right}}


IIF, STATE = {"meta": {"key": "iifname"}}, {"ct": {"key": "state"}}
SADDR, DPORT = (
    {"payload": {"protocol": "ip", "field": "saddr"}},
    {"payload": {"protocol": "udp", "field": "dport"}},
)
OK = {"accept": None}


@pytest.mark.parametrize(
    ("rule", "open_"),
    [
        ([match(STATE, ["established", "related"], "in"), OK], False),
        ([match(STATE, ["established", "new"], "in"), OK], True),
        ([match(IIF, "ens6"), {"counter": {"packets": 1, "bytes": 2}}, OK], True),
        ([match(IIF, {"set": ["ens6", "enp5s0"]}), OK], True),
        ([match(IIF, "@rails"), OK], False),
        ([match(IIF, "ens6", "!="), OK], False),
        ([match(IIF, "ens6"), match(DPORT, 4791), OK], False),
        ([match(SADDR, {"prefix": {"addr": "10.0.0.0", "len": 8}}), OK], True),
        ([match(SADDR, {"range": ["10.0.1.0", "10.0.1.127"]}), OK], False),
        ([match(SADDR, {"set": [{"prefix": {"addr": "10.0.1.0", "len": 24}}, "192.168.0.1"]}), OK], True),
        ([match(IIF, "ens6"), {"limit": {"rate": 10, "per": "second"}}, OK], False),
        ([{"vmap": {"key": IIF, "data": {"set": [["ens6", OK], ["enp5s0", {"drop": None}]]}}}], True),
        ([{"vmap": {"key": IIF, "data": {"set": [["enp5s0", OK], ["ens6", {"drop": None}]]}}}], False),
        ([{"xt": None}, OK], False),
    ],
)
def test_nft_rules_as_its_manual_writes_them(rule, open_):
    assert (said(written(rule)) == []) is open_


def test_nft_policy_and_a_last_rule():
    assert "nft table inet filter, chain input (policy drop)" in said(written())[0]
    assert said(written(policy="accept")) == []
    assert "(a rule that drops" in said(written([{"reject": {"type": "icmpx"}}], policy="accept"))[0]


@pytest.fixture
def nft():
    """What the real nft says of a ruleset that is loaded in a network namespace of its own."""
    if shutil.which("nft") is None or os.geteuid() != 0:
        pytest.skip("needs nft and root, to load rules in a namespace of its own")

    def listed(rules):
        argv = ["unshare", "-n", "sh", "-c", "nft -f - && nft -j list ruleset"]
        done = subprocess.run(argv, input=rules, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"this kernel does not take the rules: {done.stderr.splitlines()[0]}")
        return firewall_rules.from_nft(done.stdout)

    return listed


PLAIN = "table inet filter {\n chain input {\n type filter hook input priority 0; policy drop;\n %s\n }\n}\n"


@pytest.mark.parametrize(
    ("rule", "open_"),
    [
        ("", False),
        ("tcp dport 22 accept", False),
        ("ct state established,related accept", False),
        ("ct state { new, established } accept", True),
        ("ct state vmap { established : accept, new : accept }", True),
        ('iifname "ens6" accept', True),
        ('iifname { "ens6", "ens6d1" } accept', True),
        ('iifname "ens*" counter log accept', True),
        ('iifname vmap { "ens6" : accept, "enp5s0" : drop }', True),
        ('iifname != "ens6" accept', False),
        ("ip saddr 10.0.0.0/8 accept", True),
        ("ip saddr { 10.0.1.0/24, 192.168.0.0/16 } accept", True),
        ("ip saddr 10.0.1.0-10.0.1.127 accept", False),
        ("ip6 saddr fd00::/8 accept", False),
        ("meta nfproto ipv4 accept", True),
        ("meta nfproto ipv6 accept", False),
        ('iifname "ens6" udp dport 4791 accept', False),
        ("limit rate 10/second accept", False),
    ],
)
def test_nft_rules_as_nft_prints_them(nft, rule, open_):
    assert (said(nft(PLAIN % rule)) == []) is open_


# The shape of firewalld's table: zones by goto, the rest rejected by a rule under policy accept.
ZONES = """\
table inet firewalld {
  chain filter_IN_trusted { accept; }
  chain filter_IN_public_allow { tcp dport 22 ct state new,untracked accept; }
  chain filter_IN_public { jump filter_IN_public_allow; meta l4proto icmp accept; reject; }
  chain filter_INPUT_ZONES { %s goto filter_IN_public; }
  chain filter_INPUT {
    type filter hook input priority 10; policy accept;
    ct state established,related accept
    iifname "lo" accept
    ct state invalid drop
    jump filter_INPUT_ZONES
    reject with icmpx admin-prohibited
  }
}
"""


def test_zones(nft):
    assert "chain filter_INPUT (a rule that drops" in said(nft(ZONES % ""))[0]
    assert said(nft(ZONES % 'iifname "ens6" goto filter_IN_trusted;')) == []
    assert len(said(nft(ZONES % 'iifname "ens6d1" goto filter_IN_trusted;'))) == 1


def test_every_table_must_let_it_in(nft):
    assert len(said(nft(PLAIN % 'iifname "ens6" accept'), ufw())) == 1


def test_read_asks_each_tool_and_takes_missing_ones_as_empty():
    asked = []

    def run(argv):
        asked.append(argv)
        return (0, UFW % "", "") if argv == ["iptables-save"] else (127, "", "not found")

    tables, warnings = firewall.read(run)
    assert (len(tables), warnings) == (1, [])
    assert ["nft", "-j", "list", "ruleset"] in asked


def test_read_counts_the_tables_of_iptables_nft_once():
    chain = {"family": "ip", "table": "filter", "name": "INPUT", "hook": "input", "policy": "drop"}
    listing = json.dumps({"nftables": [{"chain": chain}]})

    def run(argv):
        if argv == ["iptables-save"]:
            return 0, UFW % "-A ufw-user-input -i ens6 -j ACCEPT", ""
        return (0, listing, "") if argv[0] == "nft" else (127, "", "")

    tables, _warnings = firewall.read(run)
    assert said(tables) == []


def test_answer_that_is_no_ruleset_is_said():
    _tables, warnings = firewall.read(lambda argv: (0, "[]" if argv[0] == "nft" else "", ""))
    assert len(warnings) == 1
