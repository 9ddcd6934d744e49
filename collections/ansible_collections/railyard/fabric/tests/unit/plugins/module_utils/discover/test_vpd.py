# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Vital product data: what lspci would print of it, and nothing of bytes that are none.

`HP` is of hardware, as libvirt's tests/virpcivpdtest.c has it (its first two resources); `LIBVIRT` is made up
there.
"""

from __future__ import annotations

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.discover import vpd

LIBVIRT = (
    b"\x82\x08\x00testname" + b"\x90\x16\x00PN\x0242EC\x044242VA\x02EXRV\x02\x31\x00"
    b"\x91\x19\x00VZ\x0242YA\x04ID42YF\x02EXYE\x00RW\x02\x00\x00" + b"\x78"
)
HP = (
    b"\x82\x23\x00HP Ethernet 1Gb 2-port 361i Adapter"
    b"\x90\x42\x00PN\x03N/AEC\x03N/ASN\x03N/AV0\x294W/1W PCIeG2x4 2p 1GbE RJ45 Intel i350   RV\x01\x63"
    b"\x78"
)


def fields(*pairs: tuple[str, bytes]) -> bytes:
    return b"".join(key.encode() + bytes((len(value),)) + value for key, value in pairs)


def made(name: bytes, *pairs: tuple[str, bytes], end: bytes = b"\x78") -> bytes:
    """Return VPD with a checksum, in the format of the specification."""
    inner = fields(*pairs)
    head = b"\x82" + len(name).to_bytes(2, "little") + name + b"\x90" + (len(inner) + 4).to_bytes(2, "little")
    data = head + inner + b"RV\x01"
    return data + bytes((-sum(data) & 0xFF,)) + end


CX7 = made(
    b"ConnectX-7 adapter card", ("PN", b"MCX755106AS-HEAT "), ("EC", b"A5"), ("SN", b"MT2311X01234\0\0")
)


def test_a_card_has_its_name_part_and_serial_number() -> None:
    assert vpd.read(CX7) == ("ConnectX-7 adapter card (MCX755106AS-HEAT)", "MT2311X01234")
    assert vpd.read(LIBVIRT) == ("testname (42)", None)


def test_a_part_number_that_the_name_has_is_not_repeated() -> None:
    assert vpd.read(made(b"Thor2 BCM957608", ("PN", b"BCM957608"))).model == "Thor2 BCM957608"


def test_not_applicable_is_no_serial_number() -> None:
    assert vpd.read(HP) == ("HP Ethernet 1Gb 2-port 361i Adapter", None)


@pytest.mark.parametrize("data", [b"", b"\xff" * 4096, b"\0" * 4096])
def test_a_memory_that_was_never_written_says_nothing(data: bytes) -> None:
    assert vpd.read(data) == (None, None)


def test_what_follows_the_end_does_not_matter() -> None:
    assert vpd.read(CX7 + b"\x82\xff\xff") == vpd.read(CX7)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (CX7[:30], "ends within"),
        (CX7[:1], "ends within"),
        (b"\x7fELF", "begins with"),
        (CX7.replace(b"MT2311X01234", b"MT2311X01235"), "checksum"),
        (b"\x82\x04\0card\x90\x05\0SN\x09ab", "longer than"),
        (made(b"card", ("SN", b"\x07\x1b[31m")), "not text"),
        (made(b"ca\nrd"), "not text"),
        (bytes(range(1, 256)) * 100, "begins with"),
    ],
)
def test_broken_bytes_are_refused(data: bytes, words: str) -> None:
    with pytest.raises(vpd.VpdError, match=words):
        vpd.read(data)


def test_each_cut_of_a_good_one_is_refused_or_says_less() -> None:
    for length in range(len(CX7)):
        try:
            card = vpd.read(CX7[:length])
        except vpd.VpdError:
            continue
        assert card.serial in (None, "MT2311X01234")
