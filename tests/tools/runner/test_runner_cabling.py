"""The beacon on two nodes made of network namespaces: what they hear when cables are right, and when not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.nodes import rail_namespaces
from support.nodes.rail_namespaces import MARKS, NETDEVS, NODES, Rails, Row, ip, order, two_nodes

pytestmark = MARKS


@pytest.fixture
def rails() -> Iterator[Rails]:
    with two_nodes(arp_ignore=True) as made:
        yield made


def listen(
    rails: Rails, folder: Path, leaf: str | None = None, **seconds: float
) -> tuple[dict[tuple[str, str, str], Row], list[float]]:
    """Let both nodes listen; return the rows and how long each settled."""
    common = order(policy={"beacon": True})
    for rail in common["fabrics"][0]["rails"]:
        rail |= {"leaf": leaf} if leaf else {}
    rows, settled_s = rail_namespaces.listen(rails, folder, common, **seconds)
    return {(row["check"], row["node"], row["rail"]): row for row in rows}, settled_s


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
    with rails.python("switch", REPLAY, *legs, stdout=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            process.stdout.readline()
            rows, _settled_s = listen(rails, tmp_path)
        finally:
            process.kill()
    told = rows["cabling", NODES[0], "rail0"]["cabling"]
    assert (told["heard"], told["missing"], told["foreign"]) == (1, [], [])


def test_a_port_without_a_link_says_so_and_does_not_wait(rails: Rails, tmp_path: Path) -> None:
    ip("-n", rails.namespace("switch"), "link", "set", f"{NODES[0][-6:]}0", "down")
    rows, _settled_s = listen(rails, tmp_path)
    assert rows["cabling", NODES[0], "rail0"]["error"]["class"] == "link_down"
    assert rows["cabling", NODES[0], "rail1"]["status"] == "measured"


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
    words = ["ens6d1", "ens6", "10.0.1.1", "10.0.1.2"]
    with rails.python(NODES[0], EARLY, *words, stdout=subprocess.PIPE, text=True) as process:
        said = process.communicate(timeout=60)[0]
    assert (process.returncode, said) == (0, "silence\n")


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
