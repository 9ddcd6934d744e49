# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The beacon's frame, LLDP's, the questions to one neighbour, and which neighbour gets which."""

from __future__ import annotations

import itertools
import json
import struct
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.cabling import arp_probe, beacon, lldp
from ansible_collections.railyard.fabric.plugins.module_utils.channel.rail_socket import Place
from ansible_collections.railyard.fabric.plugins.module_utils.runner import cabling as runner_cabling
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import cable_checks
from support.nodes import node_run

MAC = bytes.fromhex("020000000001")
SEAL = beacon.Seal("20261121T101500Z-3f2a", "s" * 64)


NONCES = [bytes((number,)) * 8 for number in range(1, 251)]


def test_a_beacon_says_who_sent_it_from_where() -> None:
    frame = SEAL.frame(MAC, "gpuserver1", "rail0", NONCES[0])
    assert SEAL.read(frame) == ("gpuserver1", "rail0", "02:00:00:00:00:01", NONCES[0], frozenset())
    # IEEE 802.3: broadcast, local experimental EtherType 1, never shorter than 60 bytes without the FCS.
    assert frame[:6] == b"\xff" * 6
    assert frame[12:14] == b"\x88\xb5"
    assert 60 <= len(frame) < 128


@pytest.mark.parametrize(
    "other", [beacon.Seal("20261121T101500Z-3f2a", "t" * 64), beacon.Seal("20261121T101501Z-3f2a", "s" * 64)]
)
def test_a_beacon_of_another_run_or_secret_is_no_beacon(other: beacon.Seal) -> None:
    assert other.read(SEAL.frame(MAC, "gpuserver1", "rail0", NONCES[0])) is None


def test_no_byte_of_a_beacon_can_be_changed_or_cut_off() -> None:
    frame = SEAL.frame(MAC, "gpuserver1", "rail0", NONCES[0], NONCES[1:4])
    for place in range(6, len(frame)):  # the receiver's address is the switch's matter
        changed = bytearray(frame)
        changed[place] ^= 1
        assert SEAL.read(bytes(changed)) is None, place
        assert SEAL.read(frame[:place]) is None, place


def test_a_beacon_answers_as_many_as_a_frame_holds_and_others_the_next_time() -> None:
    frames = [SEAL.frame(MAC, "n" * 300, "r" * 300, NONCES[0], NONCES) for _turn in range(80)]
    assert max(map(len, frames)) <= 1514
    found = [SEAL.read(frame) for frame in frames]
    assert all(one is not None and len(one.answers) == 100 for one in found)
    assert {nonce for one in found if one for nonce in one.answers} == set(NONCES)


class Wire:
    """A socket on which these frames come in, and then nothing; `endless`: again and again."""

    def __init__(self, *frames: bytes, endless: bool = False) -> None:
        self._frames = itertools.cycle(frames) if endless else iter(frames)

    def recvfrom(self, _most: int) -> Any:
        try:
            return next(self._frames), ("ens0", beacon.ETHERTYPE, 1)
        except StopIteration:
            raise BlockingIOError from None


def ear(rail: str) -> runner_cabling.BeaconListener:
    said = {**order(), "run": "20261121T101500Z-3f2a", "secret": "s" * 64}
    context: Any = SimpleNamespace(node="gpu1", order=said)
    place = Place("gpu1", rail, "ens0", "10.0.0.1")
    return runner_cabling.BeaconListener(context, cable_checks.Map(said), place, {}, {})


def test_a_beacon_of_another_rail_is_accepted_once_it_answers() -> None:
    """Recorded there and sent here, it was taken for a crossed cable."""
    here, there = ear("rail0"), ear("rail1")
    told: Any = Wire(SEAL.frame(MAC, "gpu2", "rail1", NONCES[0], [there._nonce, NONCES[5]]))
    expected: Any = Wire(*(SEAL.frame(MAC, f"gpu{node}", "rail0", NONCES[node]) for node in (2, 3, 4)))
    assert here._take(told)  # any caller gets its answer
    here._take(expected)
    assert (here._summarize()["heard"], here._summarize()["foreign"]) == (3, [])
    assert NONCES[0] in here._guests.values()
    # Rails that are joined carry the answers too.
    here._take(Wire(SEAL.frame(MAC, "gpu2", "rail1", NONCES[0], [here._nonce])))  # type: ignore[arg-type]
    assert [(one["rail"], one["nodes"]) for one in here._summarize()["foreign"]] == [("rail1", ["gpu2"])]


def test_a_flood_keeps_no_rail_from_sending() -> None:
    sock: Any = Wire(b"\0" * 60, endless=True)
    assert beacon.heard(sock, SEAL)[1] <= 1000


def tlv(kind: int, value: bytes) -> bytes:
    return struct.pack("!H", kind << 9 | len(value)) + value


def lldp_frame(*parts: bytes) -> bytes:
    return bytes.fromhex("0180c200000e") + MAC + b"\x88\xcc" + b"".join(parts)


def test_a_switch_is_read_from_its_lldp_frame() -> None:
    chassis, port = tlv(1, b"\x04" + MAC), tlv(2, b"\x05Ethernet1/7")
    frame = lldp_frame(chassis, port, tlv(3, b"\0x"), tlv(5, b"leaf0.example"), tlv(0, b""))
    assert lldp.read(frame) == ("leaf0.example", "02:00:00:00:00:01", "Ethernet1/7")
    assert lldp.read(lldp_frame(chassis, port, tlv(3, b"\0x"), tlv(0, b""))) == (
        None,
        "02:00:00:00:00:01",
        "Ethernet1/7",
    )


def test_a_frame_that_a_switch_may_have_passed_on_names_no_node() -> None:
    frame = lldp_frame(tlv(1, b"\x04" + MAC), tlv(2, b"\x05Ethernet1/7"))
    assert lldp.read(frame) is not None
    for address in (b"\xff" * 6, MAC, bytes.fromhex("01005e000001")):
        assert lldp.read(address + frame[6:]) is None


@pytest.mark.parametrize("cut", [3, 13, 16, 20, 30])
def test_a_frame_that_is_cut_short_names_no_node(cut: int) -> None:
    frame = lldp_frame(tlv(1, b"\x04" + MAC), tlv(2, b"\x05Ethernet1/7"))
    assert lldp.read(frame[:cut]) is None
    assert lldp.read(frame) is not None


ENTRY = {
    "via": "LLDP",
    "chassis": {"leaf0": {"id": {"type": "mac", "value": "02:00:00:00:00:01"}}},
    "port": {"id": {"type": "ifname", "value": "Ethernet1/7"}, "ttl": "120"},
}
NAMELESS = {**ENTRY, "chassis": {"id": {"type": "mac", "value": "02:00:00:00:00:01"}}}


@pytest.mark.parametrize(
    ("interface", "expected"),
    [
        ({"ens6": ENTRY}, {"ens6": [("leaf0", "02:00:00:00:00:01", "Ethernet1/7")]}),
        (
            [{"ens6": ENTRY}, {"ens7": NAMELESS}],
            {
                "ens6": [("leaf0", "02:00:00:00:00:01", "Ethernet1/7")],
                "ens7": [(None, "02:00:00:00:00:01", "Ethernet1/7")],
            },
        ),
        ({}, {}),
    ],
)
def test_lldpctl_is_read_in_each_of_its_forms(interface: Any, expected: Any) -> None:
    assert lldp.read_lldpctl(json.dumps({"lldp": {"interface": interface}})) == expected


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"lldp": {}}', '{"lldp": {"interface": "x"}}'])
def test_what_lldpctl_does_not_say_is_not_known(text: str) -> None:
    assert lldp.read_lldpctl(text) == {}


def reply(kind: int = 0, identity: int = 7, token: bytes = b"t" * 16, sender: str = "0a000102") -> bytes:
    header = bytes(9) + b"\x01" + bytes(2)
    packet = b"\x45" + header[1:] + bytes.fromhex(sender) + bytes(4)
    return packet + struct.pack("!BBHHH", kind, 0, 0, identity, 0) + token


@pytest.mark.parametrize(
    ("packet", "is_one"),
    [
        (reply(), True),
        (reply(kind=8), False),
        (reply(identity=8), False),
        (reply(token=b"u" * 16), False),
        (reply(sender="0a000103"), False),
        (reply()[:30], False),
        (b"\x60" + reply()[1:], False),
        (b"", False),
    ],
)
def test_only_the_peers_answer_to_our_question_is_a_reply(packet: bytes, is_one: bool) -> None:
    assert arp_probe.is_reply(packet, "10.0.1.2", 7, b"t" * 16) is is_one


def test_an_echo_request_carries_its_internet_checksum() -> None:
    packet = arp_probe.echo(7, 1, b"t" * 16)
    total = sum(struct.unpack(f"!{len(packet) // 2}H", packet))
    # RFC 1071: with its checksum in place the one's complement sum is all ones.
    assert (total & 0xFFFF) + (total >> 16) == 0xFFFF
    assert packet[0] == 8


@pytest.mark.parametrize(
    ("text", "netdev"),
    [('[{"dst":"10.0.1.2","dev":"ens6"}]', "ens6"), ("[]", None), ("", None), ("{}", None), ("[1]", None)],
)
def test_the_netdev_of_a_route(text: str, netdev: str | None) -> None:
    assert arp_probe.read_route(text) == netdev


def order(nodes: int = 4, units: int = 1, **changes: Any) -> dict[str, Any]:
    rails: list[dict[str, Any]] = []
    for rail in range(2):
        subnets = {unit: f"10.{rail * 128 + unit * 8}.0.0/16" for unit in range(units)}
        rails.append({"name": f"rail{rail}", "netdev": f"ens{rail}", "subnets": subnets, "gateway": "last"})
    if units == 1:
        rails = [{**rail, "subnet": rail["subnets"][0]} for rail in rails]
        for rail in rails:
            del rail["subnets"]
    for rail in rails:
        rail |= changes.pop("rail", {})
    made = node_run.order("", tuple(f"gpu{node}" for node in range(1, nodes + 1)), rails, beacon=True)
    made["fabrics"][0] |= {"transport": "roce", **changes.pop("fabric", {})}
    for place, entry in enumerate(made["roster"] if units > 1 else ()):
        entry["scalable_unit"] = place % units
    return {**made, **changes}


def test_each_port_gets_its_questions_and_knows_its_ids_alone() -> None:
    asked = list(cable_checks.asked_lines(order()))
    assert [line["check"] for line in asked[:3]] == ["cabling", "link_address_owner", "reply_path"]
    assert len(asked) == 4 * 2 * 3  # nodes, rails, questions; no leaf is named
    assert len({line["id"] for line in asked}) == len(asked)
    own = [list(cable_checks.asked_lines(order(), f"gpu{node}")) for node in range(1, 5)]
    assert list(itertools.chain(*own)) == asked


def test_a_switch_is_planned_where_the_inventory_names_one() -> None:
    asked = list(cable_checks.asked_lines(order(rail={"leaf": "leaf0"})))
    assert sum(line["check"] == "neighbour" for line in asked) >= 4
    silent = order(rail={"leaf": "leaf0"}, policy={"beacon": True, "lldp": False})
    kept = [line for line in asked if line["check"] != "neighbour"]
    assert list(cable_checks.asked_lines(silent)) == kept


def test_on_a_link_of_its_own_only_the_switch_is_planned() -> None:
    made = order()
    for rail in made["fabrics"][0]["rails"]:
        rail |= {"node_prefix": 31, "gateway": "first", "leaf": "leaf0"}
    asked = list(cable_checks.asked_lines(made))
    assert [line["check"] for line in asked] == ["neighbour"] * 8  # nodes, rails
    assert list(cable_checks.asked_lines({**made, "policy": {"beacon": True, "lldp": False}})) == []


@pytest.mark.parametrize(
    "changes",
    [{"policy": {}}, {"policy": {"beacon": False}}, {"fabric": {"transport": "infiniband"}}, {"nodes": 1}],
)
def test_nothing_is_planned_without_a_neighbour_or_ethernet(changes: dict[str, Any]) -> None:
    assert list(cable_checks.asked_lines(order(**changes))) == []


def test_only_the_nodes_own_subnet_is_expected_and_the_absent_are_not() -> None:
    units = cable_checks.Map(order(nodes=8, units=2))
    assert units.expected("gpu1", "rail0") == ["gpu3", "gpu5", "gpu7"]
    assert units.ring("gpu5", "rail1") == ["gpu7", "gpu1", "gpu3"]
    less = cable_checks.Map(order(nodes=8, units=2, absent=["gpu3"]))
    assert less.expected("gpu1", "rail0") == ["gpu5", "gpu7"]
    assert less.ring("gpu1", "rail0") == ["gpu5", "gpu7"]


def test_the_other_address_is_one_of_another_segment() -> None:
    assert cable_checks.Map(order()).other_address("gpu2", "rail0") == ("rail1", "10.128.0.2")


def test_a_thousand_nodes_are_planned_in_linear_work() -> None:
    def calls(nodes: int) -> int:
        seen = [0]

        def count(_frame: object, _event: str, _arg: object) -> None:
            seen[0] += 1

        asked = order(nodes=nodes, units=8)
        sys.setprofile(count)
        try:
            chart = cable_checks.Map(asked)
            lines = list(chart.lines(asked, "gpu1"))
        finally:
            sys.setprofile(None)
        assert len(lines) == 6
        return seen[0]

    calls(64)  # what is remembered between calls
    assert calls(1024) < 10 * calls(128)  # eight times as many; a square would be 64
