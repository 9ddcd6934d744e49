# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""An OpenPGP public key and its fingerprint (RFC 4880, RFC 9580), without gpg, which a node need not have."""

from __future__ import annotations

import base64
import hashlib
import re
import typing as t

# Stricter than apt's readers, which accept other headers and skip what they do not know: a file with one key
# for this reader and two for apt would make apt trust an unchecked key.
_FILE = re.compile(
    r"\s*-----BEGIN PGP PUBLIC KEY BLOCK-----\r?\n(?:(?:[A-Za-z]+: [^\r\n]*\r?\n)*\r?\n)?"
    r"((?:[A-Za-z0-9+/]+={0,2}\r?\n)*)(?:=([A-Za-z0-9+/]{4})\r?\n)?-----END PGP PUBLIC KEY BLOCK-----\s*"
)
_LINE_CHARACTERS = 64
_PUBLIC_KEY = 6  # packet tag
_SIGNATURE, _USER_ID, _SUBKEY, _USER_ATTRIBUTE = 2, 13, 14, 17
_VERSION_4 = 4


class KeyFormatError(ValueError):
    """The text is no ASCII-armoured public key, or more than one."""


def one_key(text: str) -> tuple[str, str]:
    """Return the fingerprint of a key, 40 hexadecimal digits in upper case, and the key armoured anew.

    Args:
        text: One ASCII-armoured block with one key, as `gpg --export --armor KEY` writes it, nothing else.

    Raises:
        KeyFormatError: There is no such block, more than it, or it cannot be read.
    """
    match = _FILE.fullmatch(text)
    if match is None:
        raise KeyFormatError("it is not one -----BEGIN PGP PUBLIC KEY BLOCK----- and nothing beside it")
    try:
        data = base64.b64decode("".join(match[1].split()), validate=True)
        packets = list(_packets(data))
    except (IndexError, ValueError) as error:
        raise KeyFormatError(f"its block of armour cannot be read ({error})") from error
    checksum = base64.b64encode(_crc24(data)).decode()
    if match[2] not in (None, checksum):
        raise KeyFormatError("its checksum is wrong: it was changed, or cut off, on the way")
    tags = [tag for tag, _body in packets]
    if tags[:1] != [_PUBLIC_KEY] or not {_SIGNATURE, _USER_ID, _SUBKEY, _USER_ATTRIBUTE}.issuperset(tags[1:]):
        raise KeyFormatError("it is not one public key with its user ids and subkeys, and nothing beside it")
    body = packets[0][1]
    if body[:1] != bytes([_VERSION_4]):
        raise KeyFormatError("its key is not of version 4, which apt's tools read")
    # The digest that the format prescribes.
    digest = hashlib.sha1(b"\x99" + len(body).to_bytes(2, "big") + body)  # noqa: S324
    encoded = base64.b64encode(data).decode()
    lines = [encoded[at : at + _LINE_CHARACTERS] for at in range(0, len(encoded), _LINE_CHARACTERS)]
    head, tail = (
        "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n",
        f"\n={checksum}\n-----END PGP PUBLIC KEY BLOCK-----\n",
    )
    return digest.hexdigest().upper(), head + "\n".join(lines) + tail


def _packets(data: bytes) -> t.Iterator[tuple[int, bytes]]:
    """Walk the packets, in the old or the new form: their tags and bodies."""
    at = 0
    while at < len(data):
        head, first = data[at], data[at + 1]
        if head & 0x40:
            tag = head & 0x3F
            if first < 192:
                start, length = at + 2, first
            elif first < 224:
                start, length = at + 3, ((first - 192) << 8) + data[at + 2] + 192
            elif first == 255:
                start, length = at + 6, int.from_bytes(data[at + 2 : at + 6], "big")
            else:
                raise ValueError("a packet of partial length")
        elif head & 0x80 and head & 3 != 3:
            tag, size = (head >> 2) & 0xF, (1, 2, 4)[head & 3]
            start = at + 1 + size
            length = int.from_bytes(data[at + 1 : start], "big")
        else:
            raise ValueError("no packet, or one without a length")
        at = start + length
        if at > len(data):
            raise ValueError("a packet is cut off")
        yield tag, data[start:at]


def _crc24(data: bytes) -> bytes:
    """Return the checksum of the armour (RFC 4880, 6.1)."""
    crc = 0xB704CE
    for byte in data:
        crc ^= byte << 16
        for _bit in range(8):
            crc = (crc << 1) ^ (0x1864CFB if crc & 0x800000 else 0)
    return crc.to_bytes(3, "big")
