# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Who else claims a rail's address, by ARP frames written byte by byte."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils.channel import arp
from ansible_collections.railyard.fabric.plugins.module_utils.channel.rail_socket import Place

OWN = Place("gpu001", "rail0", "ens6", "10.0.1.1")


def frame(operation: int, sender_mac: str, sender_ip: str, target_ip: str) -> bytes:
    """An ARP frame by the layout of RFC 826, byte by byte."""
    mac = bytes.fromhex(sender_mac.replace(":", ""))

    def four(address: str) -> bytes:
        return bytes(int(part) for part in address.split("."))

    head = b"\xff" * 6 + mac + b"\x08\x06" + b"\x00\x01\x08\x00\x06\x04" + bytes([0, operation])
    return head + mac + four(sender_ip) + b"\0" * 6 + four(target_ip)


STRANGER, PEER, MINE = "02:00:00:00:00:99", "02:00:00:00:00:02", "02:00:00:00:00:01"


def claimants(*frames: bytes) -> arp.Claimants:
    heard = arp.Claimants()
    for one in frames:
        heard.heard(one, ("10.0.1.1", "10.0.1.2"))
    return heard


def test_an_arp_request_is_as_the_standard_says() -> None:
    own = bytes.fromhex(MINE.replace(":", ""))
    assert arp.request(own, "0.0.0.0", "10.0.1.1") == frame(1, MINE, "0.0.0.0", "10.0.1.1")


def test_a_second_claimant_of_the_peers_address_is_named() -> None:
    heard = claimants(frame(2, PEER, "10.0.1.2", "10.0.1.1"), frame(2, STRANGER, "10.0.1.2", "10.0.1.1"))
    found = arp.peer_conflict(OWN, "gpu002", "10.0.1.2", heard, [PEER])
    assert (found.error_class, found.status) == ("address_in_use", "unmeasured")
    assert STRANGER in found.message
    assert PEER not in found.message
    # The partner was not met: two claimants are one too many, no matter which is right.
    unmet = arp.peer_conflict(OWN, "gpu002", "10.0.1.2", heard, None)
    assert STRANGER in unmet.message
    alone = claimants(frame(2, PEER, "10.0.1.2", "10.0.1.1"))
    assert arp.peer_conflict(OWN, "gpu002", "10.0.1.2", alone, [PEER]) is None
    assert arp.peer_conflict(OWN, "gpu002", "10.0.1.2", alone, None) is None


def test_a_claimant_of_the_nodes_own_address_is_named_even_when_it_only_announces() -> None:
    heard = claimants(frame(1, STRANGER, "10.0.1.1", "10.0.1.1"))
    found = arp.own_conflict(OWN, heard, [MINE])
    assert STRANGER in found.message
    # The node's other netdev answers for it on a shared segment: flux, but no unknown host.
    assert arp.own_conflict(OWN, heard, [MINE, STRANGER]) is None
    assert arp.own_conflict(OWN, None, [MINE]) is None


def test_a_node_that_answers_for_both_ends_is_a_proxy_and_in_no_ones_way() -> None:
    peers, proxys = frame(2, PEER, "10.0.1.2", "10.0.1.1"), frame(2, STRANGER, "10.0.1.2", "10.0.1.1")
    own = frame(2, STRANGER, "10.0.1.1", "10.0.1.1")
    left = arp.but_proxies(OWN, "10.0.1.2", claimants(peers, proxys, own), [MINE, PEER])
    assert left.macs == {"10.0.1.1": set(), "10.0.1.2": {PEER}}
    # One address is a second owner's; and a node that claims its partner's is no proxy.
    for heard in (claimants(peers, proxys), claimants(peers, frame(2, PEER, "10.0.1.1", "10.0.1.1"))):
        kept = arp.but_proxies(OWN, "10.0.1.2", heard, [MINE, PEER])
        assert kept.macs == heard.macs
    assert arp.but_proxies(OWN, "10.0.1.2", None, [MINE, PEER]) is None


def test_other_frames_say_nothing() -> None:
    heard = claimants(frame(2, STRANGER, "10.0.1.77", "10.0.1.1"), b"short", b"\0" * 60)
    assert heard.macs == {}
