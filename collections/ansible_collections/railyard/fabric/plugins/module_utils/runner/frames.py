# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages on a launcher's standard output, in short lines that are distinct from other output.

srun breaks lines of more than a thousand characters, and a node prints other lines in between (sudo, a
prolog).
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
    """A message that is damaged or too long."""


class Message(NamedTuple):
    """A message: its kind and its content."""

    kind: str
    data: bytes


def lines(kind: str, data: bytes) -> Iterator[str]:
    """Yield the lines of a message, without their newlines."""
    for start in range(0, len(data), _PIECE_BYTES):
        yield f"{_MORE} {base64.b64encode(data[start : start + _PIECE_BYTES]).decode('ascii')}"
    yield f"{_END} {kind} {hashlib.sha256(data).hexdigest()}"


class Reader:
    """Reassembles one node's messages, of at most `most_bytes` each."""

    def __init__(self, most_bytes: int) -> None:
        self.most_bytes = most_bytes
        self._data = bytearray()
        self._wrong = ""

    def feed(self, line: str) -> Message | None:
        """Take a line; return the message that it ends.

        Raises:
            FrameError: the message that it ends is damaged or too long.
            LookupError: the line is not part of a message.
        """
        word, _space, rest = line.partition(" ")
        if word == _MORE:
            self._append(rest)
            return None
        if word != _END:
            raise LookupError(line)
        kind, _space, sha256 = rest.partition(" ")
        data, wrong = bytes(self._data), self._wrong
        self._data, self._wrong = bytearray(), ""
        if not wrong and hashlib.sha256(data).hexdigest() != sha256.strip():
            wrong = "it is damaged"
        if wrong:
            raise FrameError(f"its message {kind[:40]!r} cannot be used: {wrong}")
        return Message(kind, data)

    def _append(self, piece: str) -> None:
        if self._wrong:
            return
        try:
            self._data += base64.b64decode(piece, validate=True)
        except (binascii.Error, ValueError):
            self._wrong = "it is damaged"
        if len(self._data) > self.most_bytes:
            self._wrong = f"it is longer than {self.most_bytes} bytes, more than this run can need"
        if self._wrong:
            self._data = bytearray()
