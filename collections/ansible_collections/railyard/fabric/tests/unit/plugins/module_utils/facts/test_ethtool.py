# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the kernel answers to SIOCETHTOOL, on structures written by hand after linux/ethtool.h."""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.facts import ethtool

HEADER = Path("/usr/include/linux/ethtool.h")


def link_settings(nwords: int, masks: list[int] | None = None) -> bytes:
    """Lay out struct ethtool_link_settings: cmd, speed, eight bytes of which the last is nwords, the rest."""
    fixed = struct.pack("=II", 0x4C, 0xFFFFFFFF) + bytes(7) + struct.pack("=b", nwords) + bytes(4 + 28)
    return fixed + struct.pack(f"={len(masks or [])}I", *(masks or []))


def supports(*bits: int, advertised: tuple[int, ...] = ()) -> bytes:
    """Lay out an answer with four words a mask."""
    words = [0] * 12
    for bit in bits:
        words[bit // 32] |= 1 << bit % 32
    for bit in advertised:
        words[4 + bit // 32] |= 1 << bit % 32
    return link_settings(4, words)


@pytest.mark.parametrize(
    ("bits", "mbps"),
    [
        ((3, 5, 6, 7, 13), 1000),  # gigabit copper with autonegotiation, TP and pause
        ((12, 23, 24, 25), 40000),  # ConnectX-3 at 40GbE
        ((27, 24), 56000),
        ((31, 38, 85), 400000),  # ConnectX-7
        ((62,), 200000),
        ((116,), 800000),
        ((17,), 1000),
        ((6, 7, 10, 13, 14, 16, 49, 50, 51), None),  # ports, pause and FEC are no speed
        ((), None),
        ((127,), None),  # a mode of a later kernel
    ],
)
def test_fastest_supported_mode(bits, mbps):
    assert ethtool.decode_speed_max_mbps(supports(*bits)) == mbps


def test_what_is_only_advertised_is_not_supported():
    assert ethtool.decode_speed_max_mbps(supports(5, advertised=(85,))) == 1000


@pytest.mark.parametrize("answer", [link_settings(0), link_settings(-4), link_settings(4, [1 << 23])])
def test_an_answer_without_its_masks_is_unknown(answer):
    assert ethtool.decode_speed_max_mbps(answer) is None


def test_the_kernel_states_the_size_of_its_masks_negated():
    assert ethtool.read_mask_size(link_settings(-4)) == 4
    assert ethtool.read_mask_size(link_settings(0)) == 0


def test_each_mode_has_the_speed_that_its_name_in_the_kernels_header_states():
    if not HEADER.is_file():
        pytest.skip("linux/ethtool.h is in linux-libc-dev, which this machine lacks")
    stated = re.findall(r"ETHTOOL_LINK_MODE_(\d+)base\w+?_(?:Full|FEC)_BIT\s*=\s*(\d+)", HEADER.read_text())
    assert len(stated) > 70
    for mbps, bit in stated:
        assert ethtool.decode_speed_max_mbps(supports(int(bit))) == int(mbps), bit


def names(*texts: str) -> bytes:
    return struct.pack("=III", 0x1B, 1, len(texts)) + b"".join(one.encode().ljust(32, b"\0") for one in texts)


def values(*numbers: int) -> bytes:
    return struct.pack("=II", 0x1D, len(numbers)) + b"".join(struct.pack("=Q", one) for one in numbers)


def test_statistics_are_joined_by_place():
    # 2**40 needs the 64 bits; a name of all 32 bytes has no end mark; what lies behind the count is no value.
    full = "rx_vport_rdma_unicast_packets_xx"
    answer = ethtool.decode_stats(names("rx_crc_errors_phy", full) + bytes(64), values(3, 2**40) + bytes(8))
    assert answer == {"rx_crc_errors_phy": 3, full: 2**40}


def test_of_names_given_twice_or_empty():
    assert ethtool.decode_stats(names("a", "", "a"), values(1, 2, 3)) == {"a": 1}


@pytest.mark.parametrize("counted", [values(1), values(1, 2, 3), struct.pack("=II", 0x1D, 2)])
def test_counts_that_differ_give_no_numbers(counted):
    assert ethtool.decode_stats(names("a", "b"), counted) is None


@pytest.mark.parametrize(("mask", "count", "expected"), [(2, 16, 16), (0, 16, 0), (2, 2**31, 0)])
def test_number_of_statistics(mask, count, expected):
    assert ethtool.stats_count(struct.pack("=IIQI", 0x37, 0, mask, count)) == expected


def test_channels_added_between_two_reads_are_read_again(monkeypatch):
    """The first numbers are one more than their names; the second time they agree."""
    asked = []

    def answer(_netdev: str, request: bytes, room_bytes: int = 0) -> bytes:
        command = struct.unpack_from("=I", request)[0]
        asked.append(command)
        if command == 0x37:
            return struct.pack("=IIQI", command, 0, 2, 1 if len(asked) == 1 else 2)
        assert room_bytes > 4096  # the kernel writes what the driver has now, not what was requested
        if command == 0x1B:
            return names("a") if len(asked) == 2 else names("a", "b")
        return values(1, 2)

    monkeypatch.setattr(ethtool, "_ask", answer)
    assert ethtool.stats("ens6") == {"a": 1, "b": 2}
    assert asked == [0x37, 0x1B, 0x1D] * 2


@pytest.mark.parametrize("netdev", ["lo", "no-such-netdev", "a name of more than 15 bytes", "", "\udcff"])
def test_a_netdev_that_cannot_be_queried_has_no_answer(netdev):
    assert ethtool.stats(netdev) == {}
    assert ethtool.speed_max_mbps(netdev) is None
