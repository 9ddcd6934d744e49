# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Snapshots: read from constructed answers of `ip`, replayed on real links in a network namespace."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import uuid

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.rollback import snapshot

RAILS = ["ens6"]


def listing(name, mtu=1500, flags=("UP", "LOWER_UP"), addresses=(), **more):
    infos = [
        {"family": "inet", "local": local, "prefixlen": length, "scope": scope, "label": name}
        for local, length, scope in addresses
    ]
    return {"ifname": name, "mtu": mtu, "flags": list(flags), "addr_info": infos, **more}


ANSWERS = {
    "address": [
        listing("enp5s0", addresses=[("192.168.1.73", 24, "global")]),
        listing("ens6", flags=("BROADCAST",), addresses=[("169.254.1.1", 16, "link")]),
    ],
    "-4 route": [
        {"dst": "default", "gateway": "192.168.1.1", "dev": "enp5s0", "protocol": "static", "flags": []},
        {"dst": "192.168.1.0/24", "dev": "enp5s0", "protocol": "kernel", "scope": "link", "flags": []},
        {"type": "local", "dst": "192.168.1.73", "dev": "enp5s0", "table": "local", "flags": []},
    ],
    "-6 route": [],
    "-4 rule": [
        {"priority": 0, "src": "all", "table": "local"},
        {"priority": 90, "src": "all", "fwmark": "0x2a", "table": "100"},
        {"priority": 32766, "src": "all", "table": "main"},
    ],
    "-6 rule": [{"priority": 0, "src": "all", "table": "local"}],
}


def answer(argv):
    key = argv[2] if argv[2] == "address" else f"{argv[2]} {argv[3]}"
    return json.dumps(ANSWERS[key])


@pytest.fixture
def before(tmp_path):
    conf = tmp_path / "sys/net/ipv6/conf/ens6"
    conf.mkdir(parents=True)
    (conf / "accept_ra").write_text("1\n")
    return snapshot.take(answer, RAILS, proc_root=str(tmp_path))


def test_what_is_kept(before):
    assert before["links"]["ens6"] == {
        "mtu_bytes": 1500,
        "admin_up": False,
        "carrier": False,
        "master": None,
    }
    assert [row["cidr"] for row in before["addresses"]["enp5s0"]] == ["192.168.1.73/24"]
    assert [row["dst"] for row in before["routes"]] == ["default"]
    assert [row["priority"] for row in before["rules"]] == [90]
    assert before["sysctls"] == {"net/ipv6/conf/ens6/accept_ra": "1"}


@pytest.fixture
def now(before):
    return copy.deepcopy(before)


CHANGED = {
    "mtu": lambda now: now["links"]["ens6"].update(mtu_bytes=9000),
    "up": lambda now: now["links"]["ens6"].update(admin_up=True),
    "address gone": lambda now: now["addresses"]["enp5s0"].clear(),
    "address new": lambda now: now["addresses"]["ens6"].append({"cidr": "10.0.1.1/24", "scope": "global"}),
    "route gone": lambda now: now["routes"].clear(),
    "rule gone": lambda now: now["rules"].clear(),
    "sysctl": lambda now: now["sysctls"].update({"net/ipv6/conf/ens6/accept_ra": "0"}),
}


@pytest.mark.parametrize(
    ("kind", "word", "command"),
    [
        ("mtu", "ens6: mtu_bytes 1500 is 9000", "ip link set dev ens6 mtu 1500"),
        ("up", "ens6: admin_up False is True", "ip link set dev ens6 down"),
        (
            "address gone",
            "enp5s0: address 192.168.1.73/24 is gone",
            "ip address add 192.168.1.73/24 dev enp5s0 scope global",
        ),
        ("address new", "ens6: address 10.0.1.1/24 is new", "ip address del 10.0.1.1/24 dev ens6"),
        (
            "route gone",
            "route ",
            "ip -4 route add default via 192.168.1.1 dev enp5s0 table main protocol static",
        ),
        ("rule gone", "rule ", "ip -4 rule add priority 90 from all fwmark 0x2a lookup 100"),
    ],
)
def test_difference_and_its_way_back(before, now, kind, word, command):
    assert snapshot.differences(before, now, RAILS) == []
    assert snapshot.replay(before, now, RAILS) == []
    CHANGED[kind](now)
    (said,) = snapshot.differences(before, now, RAILS)
    assert said.startswith(word)
    assert snapshot.replay(before, now, RAILS) == [command.split()]


def test_sysctl_difference_is_reported(before, now):
    CHANGED["sysctl"](now)
    assert snapshot.differences(before, now, RAILS) == ["sysctl net/ipv6/conf/ens6/accept_ra 1 is 0"]


@pytest.mark.parametrize(
    ("kind", "lost"),
    [
        *((kind, 1) for kind in ("address gone", "route gone", "rule gone")),
        # What happens on a rail is no loss of management.
        *((kind, 0) for kind in ("mtu", "up", "address new", "sysctl")),
    ],
)
def test_management_that_is_lost_is_named(before, now, kind, lost):
    CHANGED[kind](now)
    assert len(snapshot.lost_management(before, now, RAILS)) == lost


def test_lost_rule_is_named_in_ips_words_with_a_fix(before, now):
    CHANGED["rule gone"](now)
    said = snapshot.lost_management(before, now, RAILS)[0]
    assert "`priority 90 from all fwmark 0x2a lookup 100` is gone" in said
    assert "ManageForeignRoutingPolicyRules=no" in said


def test_default_route_by_a_rail_is_a_loss(before, now):
    now["routes"].append(
        {"family": "inet", "table": "main", "dst": "default", "dev": "ens6", "gateway": "10.0.1.9"}
    )
    assert snapshot.lost_management(before, now, RAILS) == ["default route by rail ens6 is new"]


def test_link_that_came_since_is_left_alone(before, now):
    now["links"]["veth1"] = {"mtu_bytes": 1500, "admin_up": True, "carrier": True, "master": None}
    now["addresses"]["veth1"] = [{"cidr": "172.17.0.1/16", "scope": "global"}]
    assert snapshot.replay(before, now, RAILS) == []


@pytest.fixture
def namespace():
    if os.geteuid() != 0:
        pytest.skip("needs root for a network namespace")
    name = f"ry-{uuid.uuid4().hex[:8]}"
    if subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode:
        pytest.skip("network namespaces cannot be made here")

    def run(*argv):
        done = subprocess.run(
            ["ip", "netns", "exec", name, *argv], capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{' '.join(argv)}: {done.stderr}"
        return done.stdout

    yield run
    subprocess.run(["ip", "netns", "del", name], check=True)


# Each is one way in which an apply changes a node; the last column of lab.md's findings included.
CHANGES = [
    "ip link set ens6 mtu 9000",
    "ip link set ens6 down",
    "ip address add 10.9.9.9/24 dev ens6",
    "ip address del 192.0.2.1/24 dev ens6",
    "ip address del fd00:2::1/64 dev ens6",
    "ip route del default",
    "ip route del 203.0.113.0/24 table 100",
    "ip route del 198.51.100.0/25",
    "ip -6 route del fd00:9::/64",
    "ip route add 203.0.113.0/25 via 192.0.2.9",
    "ip rule del priority 77",
    "ip rule del priority 78",
    "ip -6 rule del priority 79",
    "ip rule add priority 99 from 10.9.0.0/16 lookup 7",
    "ip route add blackhole 203.0.113.128/25",
]


MANY = [
    "ip rule del priority 77",
    "ip rule add priority 99 from 10.9.0.0/16 lookup 7",
    "ip address del fd00:2::1/64 dev ens6",
    "ip address del 192.0.2.1/24 dev ens6",
    "ip address add 10.9.9.9/24 dev ens6",
    "ip route add default via 10.9.9.1",
    "ip link set ens6 mtu 9000",
]


@pytest.mark.parametrize("changes", [*([one] for one in CHANGES), MANY], ids=[*CHANGES, "many at once"])
def test_replay_brings_a_real_network_back(namespace, changes):
    for line in (
        "ip link set lo up",
        "ip link add ens6 type veth peer name peer0",
        "ip link set peer0 up",
        "ip link set ens6 up",
        "sysctl -qw net.ipv6.conf.ens6.accept_dad=0",
        "ip address add 192.0.2.1/24 broadcast 192.0.2.255 dev ens6",
        "ip address add fd00:2::1/64 dev ens6 nodad",
        "ip route add default via 192.0.2.254 metric 100 protocol static",
        "ip route add 203.0.113.0/24 via 192.0.2.7 table 100 metric 50 mtu 1400",
        "ip route add 198.51.100.0/25 nexthop via 192.0.2.7 weight 1 nexthop via 192.0.2.8 weight 3",
        "ip -6 route add fd00:9::/64 via fd00:2::7 metric 512",
        "ip rule add priority 77 fwmark 0x2a/0xff lookup 100",
        "ip rule add priority 78 not from 192.0.2.0/24 iif ens6 lookup 100",
        "ip -6 rule add priority 79 from fd00:2::/64 lookup 100",
    ):
        namespace(*line.split())
    before = snapshot.take(lambda argv: namespace(*argv), RAILS)
    assert len(before["routes"]) == 4
    for line in changes:
        namespace(*line.split())
    now = snapshot.take(lambda argv: namespace(*argv), RAILS)
    assert snapshot.differences(before, now, RAILS)
    for _pass in range(2):  # as the undo does: what a first pass brings back may let a second bring more
        for argv in snapshot.replay(before, now, RAILS):
            namespace(*argv)
        now = snapshot.take(lambda argv: namespace(*argv), RAILS)
    assert snapshot.differences(before, now, RAILS) == []
