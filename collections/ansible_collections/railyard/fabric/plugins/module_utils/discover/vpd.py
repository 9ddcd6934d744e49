# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a card's vital product data (VPD): what it is called, its part number and serial number.

The format is of the PCI Local Bus Specification 3.0, appendix I, as torvalds/linux drivers/pci/vpd.c and
include/linux/pci.h read it: a large resource has a tag (0x82 name, 0x90 read-only fields, 0x91 others) and a
length of two bytes, a small one its length in the tag, and 0x78 ends the list. A field is a keyword of two
letters, a length of one byte, and text; the first byte of RV makes the sum of all bytes up to it 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, Optional

#: The kernel reads no more than this (PCI_VPD_MAX_SIZE).
MOST_BYTES = 32768
_NAME, _FIELDS = 0x82, 0x90
_LARGE, _END = 0x80, 0x0F
# An EEPROM that was never written; the kernel takes these for no VPD at all.
_BLANK = (b"", b"\0", b"\xff")
_NOTHING = frozenset(("N/A", "NA", "NONE", "0"))


class VpdError(ValueError):
    """The bytes are no VPD."""


class Card(NamedTuple):
    """Model and serial number of a card; None for what its VPD lacks."""

    model: Optional[str] = None  # noqa: UP045 - Python 3.9, which nodes may have, evaluates it
    serial: Optional[str] = None  # noqa: UP045 - see above


def read(data: bytes) -> Card:
    """Return the card that VPD describes.

    Raises:
        VpdError: it is cut short, its checksum is wrong, or a value is not text.
    """
    if data[:1] in _BLANK:
        return Card()
    if data[0] not in (_NAME, _FIELDS):
        raise VpdError(f"it begins with {data[:4]!r}, not with a name")
    name, part, serial = None, None, None
    for tag, begin, end in _resources(data):
        if tag == _NAME:
            name = _text(data[begin:end], "name")
        elif tag == _FIELDS:
            fields = dict(_fields(data, begin, end))
            part, serial = (_text(fields[key], key) if key in fields else None for key in ("PN", "SN"))
    model = f"{name} ({part})" if name and part and part not in name else name or part
    return Card(model, serial)


def _resources(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield tag, begin and end of each resource up to the one that ends the list."""
    at = 0
    while at < len(data):
        tag = data[at]
        if tag & _LARGE:
            begin, length = at + 3, int.from_bytes(data[at + 1 : at + 3], "little")
        else:
            begin, length = at + 1, tag & 0x07
        if begin > len(data) or begin + length > len(data):
            raise VpdError(f"it ends within the resource at byte {at}")
        if not tag & _LARGE and tag >> 3 == _END:
            return
        yield tag, begin, begin + length
        at = begin + length


def _fields(data: bytes, begin: int, end: int) -> Iterator[tuple[str, bytes]]:
    """Yield keyword and value of each read-only field, and check the checksum."""
    at = begin
    while at + 3 <= end:
        keyword, length = data[at : at + 2].decode("latin-1"), data[at + 2]
        at += 3
        if at + length > end:
            raise VpdError(f"field {keyword!a} is longer than what it is part of")
        if keyword == "RV" and length and sum(data[: at + 1]) & 0xFF:
            raise VpdError("its checksum is wrong")
        yield keyword, data[at : at + length]
        at += length


def _text(value: bytes, what: str) -> str | None:
    value = value.strip(b"\0 \t\r\n")
    if any(not 0x20 <= byte < 0x7F for byte in value):
        raise VpdError(f"{what} is {value[:20]!r}, which is not text")
    text = value.decode("ascii")
    return None if not text or text.upper() in _NOTHING else text
