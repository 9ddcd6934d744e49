# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The process that sends and hears beacons, on nodes made of namespaces: whom it hears, how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from support.nodes.rail_namespaces import MARKS, NODES, Rails, environment, ip, two_nodes
from support.programs import wait_until

pytestmark = MARKS

STRANGER = "stranger"
# What the module does, without what Ansible does around it.
MODULE = """
import json, os, sys
from ansible_collections.railyard.fabric.plugins.modules import bare_node_info
params = {"start_beacons": False, "collect_beacons": False, "link_up": False, "longest_s": 60}
params |= json.loads(sys.argv[1])
if "nobody" in sys.argv:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    print(json.dumps(bare_node_info.hold(params, "check" in sys.argv)))
except Exception as error:
    print(json.dumps({"failed": f"{type(error).__name__}: {error}"}))
"""
# A collector that dies as soon as it is heard.
KILLED = """
import os, signal, socket, sys, time
from ansible_collections.railyard.fabric.plugins.module_utils.discover.background import Discovery
sock = socket.socket(socket.AF_UNIX)
sock.connect(Discovery("r1", "s1", sys.argv[1]).address)
os.kill(os.getpid(), signal.SIGKILL)
"""
PEEK = """
import os, socket, sys
from ansible_collections.railyard.fabric.plugins.module_utils.discover.background import Discovery
os.setuid(65534)
sock = socket.socket(socket.AF_UNIX)
sock.settimeout(10)
sock.connect(Discovery("r1", "s1", sys.argv[1]).address)
print(len(sock.recv(100)))
"""


@pytest.fixture
def rails() -> Iterator[Rails]:
    with two_nodes(nodes=(*NODES, STRANGER)) as made:
        for name in made.names:
            # No packets but those that are sent on purpose.
            subprocess.run(
                ["ip", "netns", "exec", name, "sysctl", "-qw", "net.ipv6.conf.all.disable_ipv6=1"], check=True
            )
        yield made


def module(rails: Rails, node: str, *words: str, **params: Any) -> dict[str, Any]:
    """Run the module in a node and return its result."""
    given = json.dumps({"key": node, "run": "r1", "secret": "s1", **params})
    argv = rails.inside(node, sys.executable, "-c", MODULE, given, *words)
    done = subprocess.run(
        argv,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    return dict(json.loads(done.stdout))


def start(rails: Rails, node: str, *words: str, **params: Any) -> dict[str, Any]:
    return module(rails, node, *words, start_beacons=True, **params)


def collect(rails: Rails, node: str, **params: Any) -> dict[str, dict[str, Any]]:
    """Return what a node's ports heard, by netdev."""
    found = module(rails, node, collect_beacons=True, **params)
    return {one["netdev"]: one for one in found["beacons"]}


def pids(rails: Rails, node: str) -> list[int]:
    return [int(one) for one in ip("netns", "pids", rails.namespace(node)).split()]


def is_up(rails: Rails, node: str, netdev: str) -> bool:
    return "UP" in json.loads(ip("-n", rails.namespace(node), "-j", "link", "show", netdev))[0]["flags"]


def senders(heard: dict[str, dict[str, Any]]) -> dict[str, set[tuple[str, str]]]:
    return {name: {(one["key"], one["netdev"]) for one in port["senders"]} for name, port in heard.items()}


def test_rails_hear_each_other_a_crossed_cable_shows_and_strangers_are_counted(rails: Rails) -> None:
    rails.move(NODES[1], 0, "rail1")
    rails.move(NODES[1], 1, "rail0")
    rails.move(STRANGER, 1, "rail0")  # both of its ports are on rail0, another cluster's on the same switch
    for node in NODES:
        row = start(rails, node)
        assert [port["netdev"] for port in row["bare_node"]["ports"]] == ["ens6", "ens6d1"]
    start(rails, STRANGER, run="another", secret="unknown")
    time.sleep(2.5)
    heard = {node: collect(rails, node) for node in NODES}
    one, other = NODES
    assert senders(heard[one]) == {"ens6": {(other, "ens6d1")}, "ens6d1": {(other, "ens6")}}
    assert senders(heard[other]) == {"ens6": {(one, "ens6d1")}, "ens6d1": {(one, "ens6")}}
    assert {port["error"] for ports in heard.values() for port in ports.values()} == {None}
    assert heard[one]["ens6"]["strangers"] > 1
    assert heard[one]["ens6d1"]["strangers"] == 0
    mac = json.loads(ip("-n", rails.namespace(other), "-j", "link", "show", "ens6d1"))[0]["address"]
    assert heard[one]["ens6"]["senders"][0]["mac"] == mac
    assert wait_until(lambda: not any(pids(rails, node) for node in NODES), 15)
    found = collect(rails, STRANGER, run="another", secret="unknown")
    assert senders(found) == {"ens6": {(STRANGER, "ens6d1")}, "ens6d1": {(STRANGER, "ens6")}}


# Starts and collects with empty folders for files; prints what the process has open, and what is left.
IN_PRIVATE = """
for folder in /tmp /run /var/lib; do mount -t tmpfs none $folder || exit 1; done
"$1" -c "$2" "$3" > /dev/null
sleep 1
for file in /proc/[0-9]*/cmdline; do
    process=${file%/cmdline}
    if [ $process != /proc/$$ ] && grep -qs start_beacons $file; then readlink $process/cwd $process/fd/*; fi
done
"$1" -c "$2" "$4" > /dev/null
find /tmp /run /var/lib -mindepth 1 -not -path /run/mount
"""


def test_the_process_holds_no_file_and_leaves_none(rails: Rails) -> None:
    common = {"key": "n", "run": "r1", "secret": "s1"}
    words = [json.dumps({**common, way: True}) for way in ("start_beacons", "collect_beacons")]
    argv = rails.inside(
        NODES[0], "unshare", "-m", "sh", "-c", IN_PRIVATE, "sh", sys.executable, MODULE, *words
    )
    done = subprocess.run(argv, env=environment(), capture_output=True, text=True, timeout=60, check=True)
    lines = {one for one in done.stdout.split() if not one.startswith(("socket:", "anon_inode:"))}
    assert lines == {"/", "/dev/null"}
    assert pids(rails, NODES[0]) == []


def test_the_process_ends_after_its_longest_time(rails: Rails) -> None:
    start(rails, NODES[0], longest_s=1)
    assert len(pids(rails, NODES[0])) == 1
    assert wait_until(lambda: not pids(rails, NODES[0]), 5)
    found = module(rails, NODES[0], collect_beacons=True)
    assert found["failed"].startswith("CollectError: the process that sent beacons is gone: its longest time")


def test_the_process_ends_where_the_collector_is_killed(rails: Rails) -> None:
    start(rails, NODES[0])
    killed = rails.python(NODES[0], KILLED, NODES[0])
    assert killed.wait(20) == -signal.SIGKILL
    assert wait_until(lambda: not pids(rails, NODES[0]), 5)


def test_a_second_start_leaves_the_first_and_another_key_is_another(rails: Rails) -> None:
    start(rails, NODES[0])
    first = pids(rails, NODES[0])
    assert "bare_node" in start(rails, NODES[0])
    assert pids(rails, NODES[0]) == first
    start(rails, NODES[0], key="the same node by another name")
    assert len(pids(rails, NODES[0])) == 2
    for key in (NODES[0], "the same node by another name"):
        assert set(collect(rails, NODES[0], key=key)) == {"ens6", "ens6d1"}


@pytest.mark.parametrize("way", ["collected", "SIGTERM", "SIGHUP", "longest"])
def test_a_port_that_was_down_is_raised_and_is_down_again(rails: Rails, way: str) -> None:
    one, other = NODES
    for node in NODES:
        ip("-n", rails.namespace(node), "link", "set", "ens6d1", "down")
        start(rails, node, link_up=True, longest_s=4 if way == "longest" else 60)
    assert wait_until(lambda: is_up(rails, one, "ens6d1"), 15)
    if way == "collected":
        time.sleep(2)
        heard = collect(rails, one)
        assert senders(heard) == {"ens6": {(other, "ens6")}, "ens6d1": {(other, "ens6d1")}}
        assert {name: port["raised"] for name, port in heard.items()} == {"ens6": False, "ens6d1": True}
        # A veth's speed, as the kernel's driver says; of a port that was up the facts have it.
        assert {name: port["speed_mbps"] for name, port in heard.items()} == {"ens6": None, "ens6d1": 10_000}
    elif way != "longest":
        for process in pids(rails, one):
            os.kill(process, getattr(signal, way))
    assert wait_until(lambda: not pids(rails, one), 10)
    assert not is_up(rails, one, "ens6d1")
    assert is_up(rails, one, "ens6")


def test_a_port_that_is_down_stays_so_without_link_up_and_in_check_mode(rails: Rails) -> None:
    ip("-n", rails.namespace(NODES[0]), "link", "set", "ens6d1", "down")
    for words, params in (((), {}), (("check",), {"link_up": True})):
        start(rails, NODES[0], *words, **params)
        time.sleep(0.5)
        assert not is_up(rails, NODES[0], "ens6d1")
        heard = collect(rails, NODES[0])
        assert heard["ens6d1"]["raised"] is False
        assert "administratively down" in heard["ens6d1"]["error"]
        assert heard["ens6"]["error"] is None


def test_a_port_without_carrier_and_one_that_goes_away_say_so(rails: Rails) -> None:
    ip("-n", rails.namespace("switch"), "link", "set", f"{NODES[0][-6:]}0", "down")
    start(rails, NODES[0])
    ip("-n", rails.namespace(NODES[0]), "link", "del", "ens6d1")
    time.sleep(1.5)
    heard = collect(rails, NODES[0])
    assert heard["ens6"]["error"] == "it has no carrier"
    assert heard["ens6d1"]["error"] == "its netdev was removed meanwhile"


def test_without_root_the_node_is_read_and_each_port_says_why_it_is_deaf(rails: Rails) -> None:
    row = start(rails, NODES[0], "nobody")
    assert [port["netdev"] for port in row["bare_node"]["ports"]] == ["ens6", "ens6d1"]
    found = module(rails, NODES[0], "nobody", collect_beacons=True)["beacons"]
    assert len(found) == 2
    assert all("need root" in port["error"] for port in found)


def test_another_user_gets_nothing_and_ends_nothing(rails: Rails) -> None:
    start(rails, NODES[0])
    peek = rails.python(NODES[0], PEEK, NODES[0], stdout=subprocess.PIPE, text=True)
    assert peek.communicate(timeout=30)[0] == "0\n"
    assert set(collect(rails, NODES[0])) == {"ens6", "ens6d1"}


def test_a_switch_that_speaks_lldp_is_heard(rails: Rails) -> None:
    start(rails, NODES[0])
    # IEEE 802.1AB: chassis by MAC address, port by name, time to live, system name, end.
    body = (
        b"\x02\x07\x04\x02\x00\x00\x00\x0f\x01"
        + b"\x04\x0a\x05Ethernet1"
        + b"\x06\x02\x00\x78"
        + b"\x0a\x05leaf1\0\0"
    )
    frame = bytes.fromhex("0180c200000e") + bytes.fromhex("020000000f01") + b"\x88\xcc" + body
    code = f"import socket; s = socket.socket(17, 3); s.bind(({NODES[0][-6:] + '0'!r}, 0)); s.send({frame!r})"
    time.sleep(0.5)
    assert rails.python("switch", code).wait(20) == 0
    time.sleep(0.5)
    heard = collect(rails, NODES[0])
    assert heard["ens6"]["neighbours"] == [
        {"switch": "leaf1", "chassis": "02:00:00:00:0f:01", "port": "Ethernet1"}
    ]
    assert heard["ens6d1"]["neighbours"] == []
