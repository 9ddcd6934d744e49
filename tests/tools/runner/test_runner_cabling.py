"""The beacon on two nodes made of network namespaces: what they hear when cables are right, and when not."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.nodes.rail_namespaces import (
    COLLECTIONS,
    LISTEN,
    NETDEVS,
    NODES,
    SECRET,
    Rails,
    ip,
    order,
    two_nodes,
    why_not,
)

REASON = why_not()
pytestmark = [
    pytest.mark.lab,
    pytest.mark.skipif(REASON is not None, reason=REASON or "namespaces can be used"),
]

Row = dict[str, Any]


@pytest.fixture
def rails() -> Iterator[Rails]:
    with two_nodes() as made:
        for node in NODES:
            sysctls = [f"net.ipv4.conf.{netdev}.arp_ignore=1" for netdev in NETDEVS.values()]
            subprocess.run(made.inside(node, "sysctl", "-q", "-w", *sysctls), check=True)
        yield made


def listen(
    rails: Rails, folder: Path, late_s: float = 0.0, stay_s: float = 0.0, leaf: str | None = None
) -> tuple[dict[tuple[str, str, str], Row], list[float]]:
    """Let both nodes listen, the second one `late_s` later; return the rows and how long each settled."""
    common = order(policy={"beacon": True})
    for rail in common["fabrics"][0]["rails"]:
        rail |= {"leaf": leaf} if leaf else {}
    started = []
    for place, node in enumerate(NODES):
        (folder / node).mkdir(parents=True)
        file = folder / node / "work_order.json"
        own = {"node": node, "secret": SECRET, "netdevs": NETDEVS, "hcas": {}}
        file.write_text(json.dumps({**common, **own}))
        argv = rails.inside(
            node,
            sys.executable,
            "-c",
            LISTEN,
            str(file),
            str(folder / node),
            str(late_s * place),
            str(stay_s),
        )
        environment = {**os.environ, "PYTHONPATH": str(COLLECTIONS), "PYTHONDONTWRITEBYTECODE": "1"}
        started.append(subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True))
    settled_s = [float(process.communicate(timeout=60)[0]) for process in started]
    texts = [(folder / node / "results.jsonl").read_text() for node in NODES]
    rows = [json.loads(line) for text in texts for line in text.splitlines()]
    return {(row["check"], row["node"], row["rail"]): row for row in rows}, settled_s


def move(rails: Rails, node: str, rail: int, to: str) -> None:
    ip("-n", rails.namespace("switch"), "link", "set", f"{node[-6:]}{rail}", "master", to)


def test_healthy_rails_hear_each_other_alone_and_soon(rails: Rails, tmp_path: Path) -> None:
    rows, settled_s = listen(rails, tmp_path)
    assert len(rows) == 2 * 2 * 3
    assert {row["status"] for row in rows.values()} == {"measured"}
    for (check, node, rail), row in rows.items():
        peer = NODES[1 - NODES.index(node)]
        told = row["cabling"]
        if check == "cabling":
            assert told.pop("listened")[1] > 1.7e9
            assert told == {"expected": 1, "heard": 1, "missing": [], "foreign": [], "strangers": 0}
        elif check == "link_address_owner":
            assert told["peer"] == peer
            assert told["claimed_by"] == [told["peer_mac"]]
            assert told["other_claimed_by"] == []
        else:
            assert told["replies"] == {"rail0": 0, "rail1": 0} | {rail: 3}
            assert told["route_netdev"] == NETDEVS[rail]
    # It waits for 3 s at most, an idle machine for one; the rest is what two busy cores add.
    assert max(settled_s) < 4.5


def test_a_node_that_comes_later_is_heard_all_the_same(rails: Rails, tmp_path: Path) -> None:
    late_s = 3.5
    rows, settled_s = listen(rails, tmp_path, late_s=late_s, stay_s=4.5)
    assert {row["status"] for row in rows.values()} == {"measured"}
    assert rows["cabling", NODES[0], "rail0"]["cabling"]["heard"] == 1
    assert settled_s[0] < late_s  # the tests were not held up


def test_swapped_cables_are_heard(rails: Rails, tmp_path: Path) -> None:
    move(rails, NODES[0], 0, "rail1")
    move(rails, NODES[0], 1, "rail0")
    rows, _settled_s = listen(rails, tmp_path)
    told = rows["cabling", NODES[1], "rail0"]["cabling"]
    assert told["missing"] == [NODES[0]]
    assert told["foreign"] == [{"rail": "rail1", "network": "10.0.0.0/24", "count": 1, "nodes": [NODES[0]]}]
    # Whom it does not hear it cannot ask.
    assert rows["link_address_owner", NODES[1], "rail0"]["error"]["class"] == "peer_unheard"


# Records what a node sends on one rail and sends it to another node's other rail: netdevs of both.
REPLAY = """
import sys
from ansible_collections.railyard.fabric.plugins.module_utils.channel import rail_socket
# ETH_P_ALL: a bridge takes what comes in on its ports before a socket of one EtherType is asked.
there, here = (rail_socket.packet_socket(netdev, 0x0003) for netdev in sys.argv[1:])
print(flush=True)
while True:
    frame, origin = there.recvfrom(2048)
    if origin[2] != 4 and frame[12:14] == b"\\x88\\xb5":  # PACKET_OUTGOING, a beacon
        here.send(frame)
"""


def test_a_beacon_that_was_recorded_on_another_rail_is_not_believed(rails: Rails, tmp_path: Path) -> None:
    legs = (f"{NODES[1][-6:]}1", f"{NODES[0][-6:]}0")
    argv = rails.inside("switch", sys.executable, "-c", REPLAY, *legs)
    environment = {**os.environ, "PYTHONPATH": str(COLLECTIONS), "PYTHONDONTWRITEBYTECODE": "1"}
    with subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            rows, _settled_s = listen(rails, tmp_path)
        finally:
            process.kill()
    told = rows["cabling", NODES[0], "rail0"]["cabling"]
    assert (told["heard"], told["missing"], told["foreign"]) == (1, [], [])


def test_rails_that_are_joined_are_heard_on_each_other(rails: Rails, tmp_path: Path) -> None:
    for node in NODES:
        move(rails, node, 1, "rail0")
    rows, _settled_s = listen(rails, tmp_path)
    for node, (rail, other) in itertools.product(NODES, (("rail0", "rail1"), ("rail1", "rail0"))):
        told = rows["cabling", node, rail]["cabling"]
        assert told["heard"] == 1, (node, rail)
        assert [(one["rail"], one["nodes"]) for one in told["foreign"]] == [(other, list(NODES))], (
            node,
            rail,
        )


def test_a_port_without_a_link_says_so_and_does_not_wait(rails: Rails, tmp_path: Path) -> None:
    ip("-n", rails.namespace("switch"), "link", "set", f"{NODES[0][-6:]}0", "down")
    rows, _settled_s = listen(rails, tmp_path)
    assert rows["cabling", NODES[0], "rail0"]["error"]["class"] == "link_down"
    assert rows["cabling", NODES[0], "rail1"]["status"] == "measured"


def test_a_node_that_answers_for_its_other_rail_is_heard(rails: Rails, tmp_path: Path) -> None:
    subprocess.run(
        rails.inside(NODES[1], "sysctl", "-q", "-w", "net.ipv4.conf.ens6.arp_ignore=0"), check=True
    )
    rows, _settled_s = listen(rails, tmp_path)
    told = rows["link_address_owner", NODES[0], "rail0"]["cabling"]
    assert told["other_claimed_by"] == [told["peer_mac"]]
    assert rows["link_address_owner", NODES[1], "rail0"]["cabling"]["other_claimed_by"] == []


# The frame that the other rail rightly gets arrives while the socket of this one is being made.
EARLY = """
import socket, sys
from ansible_collections.railyard.fabric.plugins.module_utils.channel import arp as duplicate_address
from ansible_collections.railyard.fabric.plugins.module_utils.channel import rail_socket
own, other, address, peer = sys.argv[1:]
there = rail_socket.packet_socket(other, 0x0806)
there.settimeout(5)
class Late(socket.socket):
    def bind(self, where):
        frame = duplicate_address.request(there.getsockname()[4], address, peer)
        there.send(frame)
        while True:
            if there.recvfrom(2048)[1][2] == 0:  # PACKET_HOST: the peer's answer
                break
        super().bind(where)
rail_socket.socket.socket = Late
here = rail_socket.packet_socket(own, 0x0806)
here.settimeout(0.2)
try:
    print("heard", here.recvfrom(2048)[1])
except TimeoutError:
    print("silence")
"""


def test_a_socket_that_is_being_made_hears_nothing_of_another_rail(rails: Rails) -> None:
    argv = rails.inside(NODES[0], sys.executable, "-c", EARLY, "ens6d1", "ens6", "10.0.1.1", "10.0.1.2")
    environment = {**os.environ, "PYTHONPATH": str(COLLECTIONS), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(argv, env=environment, stdout=subprocess.PIPE, text=True, timeout=60, check=True)
    assert done.stdout == "silence\n"


def test_a_reply_that_would_leave_by_another_rail_is_seen(rails: Rails, tmp_path: Path) -> None:
    name = rails.namespace(NODES[1])
    ip("-n", name, "route", "add", "10.0.1.0/24", "dev", "ens6d1", "table", "77")
    ip("-n", name, "rule", "add", "from", "10.0.1.2", "lookup", "77", "pref", "50")
    rows, _settled_s = listen(rails, tmp_path)
    assert rows["reply_path", NODES[1], "rail0"]["cabling"]["route_netdev"] == "ens6d1"
    assert rows["reply_path", NODES[0], "rail0"]["cabling"]["replies"]["rail0"] == 0
    assert rows["reply_path", NODES[0], "rail1"]["cabling"]["replies"]["rail1"] == 3


def test_a_switch_that_speaks_is_heard_while_the_run_lasts(rails: Rails, tmp_path: Path) -> None:
    speaker = [sys.executable, "-m", "railyard.lab.speaker", f"{NODES[0][-6:]}0", "leaf7"]
    with subprocess.Popen(rails.inside("switch", *speaker), stdout=subprocess.DEVNULL) as process:
        try:
            rows, _settled_s = listen(rails, tmp_path, stay_s=2.0, leaf="leaf0")
        finally:
            process.kill()
    assert rows["neighbour", NODES[0], "rail0"]["proof"] == "unproven"
    found = rows["neighbour", NODES[0], "rail0"]["cabling"]["neighbours"]
    assert [(one["switch"], one["port"]) for one in found] == [("leaf7", f"{NODES[0][-6:]}0")]
    assert rows["neighbour", NODES[1], "rail0"]["cabling"] == {"neighbours": [], "count": 0}
