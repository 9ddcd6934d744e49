# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages on a launcher's standard output: lines so short that none is cut, safe among others' words.

srun breaks lines of more than a thousand characters, and what else a node prints (sudo, a prolog) stands
between ours.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterator
from typing import NamedTuple

_MORE, _END = "railyard+", "railyard="
_PIECE_BYTES = 540  # 720 characters of base64


class FrameError(ValueError):
    """What came is no whole message."""


class Message(NamedTuple):
    """A message: what it is, and its content."""

    kind: str
    data: bytes


def lines(kind: str, data: bytes) -> Iterator[str]:
    """Yield the lines of a message, without their newlines."""
    for start in range(0, len(data), _PIECE_BYTES):
        yield f"{_MORE} {base64.b64encode(data[start : start + _PIECE_BYTES]).decode('ascii')}"
    yield f"{_END} {kind} {hashlib.sha256(data).hexdigest()}"


class Reader:
    """Puts one node's messages together again, of no more than so many bytes each."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._data = bytearray()
        self._wrong = ""

    def feed(self, line: str) -> Message | None:
        """Take a line; return the message that it ends.

        Raises:
            FrameError: the message that it ends came damaged or too long.
            LookupError: the line is none of ours.
        """
        word, _space, rest = line.partition(" ")
        if word == _MORE:
            self._take(rest)
            return None
        if word != _END:
            raise LookupError(line)
        kind, _space, sha256 = rest.partition(" ")
        data, wrong = bytes(self._data), self._wrong
        self._data, self._wrong = bytearray(), ""
        if not wrong and hashlib.sha256(data).hexdigest() != sha256.strip():
            wrong = "it came damaged"
        if wrong:
            raise FrameError(f"its message {kind[:40]!r} cannot be used: {wrong}")
        return Message(kind, data)

    def _take(self, piece: str) -> None:
        if self._wrong:
            return
        try:
            self._data += base64.b64decode(piece, validate=True)
        except (binascii.Error, ValueError):
            self._wrong = "it came damaged"
        if len(self._data) > self.most_bytes:
            self._wrong = f"it is longer than {self.most_bytes} bytes, more than was asked"
        if self._wrong:
            self._data = bytearray()
