# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""numpy, the types of its arrays, and an array that grows, for the modules that calculate with columns."""

from __future__ import annotations

from typing import Any, TypeAlias

try:
    import numpy as np
    from numpy.typing import NDArray
except ImportError:  # sanity's environment has none; elsewhere matplotlib installs it
    np = NDArray = None  # type: ignore[assignment]

__all__ = ["Bools", "Floats", "GrowingArray", "Ints", "NDArray", "np"]

Ints: TypeAlias = "NDArray[np.int64]"
Floats: TypeAlias = "NDArray[np.float64]"
Bools: TypeAlias = "NDArray[np.bool_]"

#: Size of a new array: glibc's default M_MMAP_THRESHOLD (mallopt(3)). Larger memory is mapped separately:
#: growing it moves pages without copying, and freeing it returns them.
_FIRST_BYTES = 128 << 10


class GrowingArray:
    """An array that is read in parts: many small arrays, joined later, would take the memory twice."""

    def __init__(self) -> None:
        #: The values, and room for more.
        self._values: NDArray[Any] = np.zeros(0, dtype=np.int32)
        self._count = 0

    def add(self, values: NDArray[Any]) -> None:
        """Append values; the type becomes as wide as they need."""
        end = self._count + len(values)
        if not self._count:
            self._values = np.zeros(0, dtype=values.dtype)
        wide = np.promote_types(self._values.dtype, values.dtype)
        if wide != self._values.dtype:
            self._values = self.array().astype(wide)
        if end > len(self._values):
            first = _FIRST_BYTES // self._values.itemsize
            size = max(end, len(self._values) + len(self._values) // 8, first)
            try:
                self._values.resize(size)
            except ValueError:  # somebody has a view of it
                self._values = np.resize(self._values, size)
        self._values[self._count : end] = values
        self._count = end

    def array(self) -> NDArray[Any]:
        """Return the values that were added until now."""
        return self._values[: self._count]
