# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of many rows in one array. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.runner import short_rows
from ansible_collections.railyard.fabric.plugins.plugin_utils.arrays import Ints, NDArray, np

#: Length of what a row received from the other end: the beginning of its boot id, a dot, a digest.
HEARD_BYTES = short_rows.BOOT_DIGITS + 1 + short_rows.DIGEST_DIGITS
#: So much that a column's memory is of pages of its own, which are moved and returned without copying.
_FIRST_SIZE = 1 << 15


class Column:
    """Values of one type that arrive in parts and are read as one array, which a later part may replace.

    Args:
        kind: int, stored in as few bytes as possible; float; str, stored as numbers into `texts`; or bytes of
            a fixed length.
    """

    def __init__(self, kind: type) -> None:
        self._kind = kind
        #: The values, and room for more. Many small arrays, joined later, would take the memory twice.
        self._values: NDArray[Any] = np.zeros(0, dtype=np.int32)
        self._count = 0
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

    def add(self, values: NDArray[Any]) -> None:
        """Append values."""
        end = self._count + len(values)
        wide = np.promote_types(self._values.dtype, values.dtype) if self._count else values.dtype
        if wide != self._values.dtype:
            self._values = self.array().astype(wide)
        if end > len(self._values):
            size = max(end, len(self._values) + len(self._values) // 8, _FIRST_SIZE)
            try:
                self._values.resize(size)
            except ValueError:  # somebody has a view of it
                self._values = np.resize(self._values, size)
        self._values[self._count : end] = values
        self._count = end

    def array(self) -> NDArray[Any]:
        """Return all values."""
        return self._values[: self._count]

    def at(self, index: int) -> Any:
        """Return the value of one row as a Python number."""
        return self.array().item(index)


def narrow_integers(values: Ints) -> NDArray[Any]:
    """Return integers as 32 bits if they fit."""
    half = values.astype(np.int32)
    return half if np.array_equal(half, values) else values
