# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of many rows in one array. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.runner import short_rows
from ansible_collections.railyard.fabric.plugins.plugin_utils.arrays import (
    GrowingArray,
    Ints,
    NDArray,
    np,
)

#: Length of what a row received from the other end: the beginning of its boot id, a dot, a digest.
HEARD_BYTES = short_rows.BOOT_DIGITS + 1 + short_rows.DIGEST_DIGITS


class Column(GrowingArray):
    """Values of one type that arrive in parts and are read as one array.

    Args:
        kind: int, stored in as few bytes as possible; float; str, stored as numbers into `texts`; or bytes of
            a fixed length.
    """

    def __init__(self, kind: type) -> None:
        super().__init__()
        self._kind = kind
        #: Text -> its number.
        self.texts: dict[str, int] = {}

    def convert(self, values: Sequence[Any]) -> NDArray[Any]:
        """Return values as an array for `add`.

        Raises:
            OverflowError: a number does not fit into 64 bits.
        """
        if self._kind is int:
            return narrow_integers(np.array(values, dtype=np.int64))
        if self._kind is str:
            numbers = self.texts
            return np.array([numbers.setdefault(one, len(numbers)) for one in values], dtype=np.int32)
        if self._kind is bytes:
            known = [one.encode() if len(one) == HEARD_BYTES and one.isascii() else b"" for one in values]
            return np.array(known, dtype=f"S{HEARD_BYTES}")
        return np.array(values, dtype=np.float64)

    def at(self, index: int) -> Any:
        """Return the value of one row as a Python number."""
        return self.array().item(index)


def narrow_integers(values: Ints) -> NDArray[Any]:
    """Return integers as 32 bits if they fit."""
    half = values.astype(np.int32)
    return half if np.array_equal(half, values) else values
