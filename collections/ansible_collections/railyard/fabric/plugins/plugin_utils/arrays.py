# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""numpy, and the types of its arrays, for the modules that calculate with columns."""

from __future__ import annotations

from typing import TypeAlias

try:
    import numpy as np
    from numpy.typing import NDArray
except ImportError:  # sanity's environment has none; elsewhere matplotlib installs it
    np = NDArray = None  # type: ignore[assignment]

__all__ = ["Bools", "Floats", "Ints", "NDArray", "np"]

Ints: TypeAlias = "NDArray[np.int64]"
Floats: TypeAlias = "NDArray[np.float64]"
Bools: TypeAlias = "NDArray[np.bool_]"
