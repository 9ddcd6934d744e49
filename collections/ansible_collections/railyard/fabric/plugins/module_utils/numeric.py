# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Check whether a value from a node or a file is a usable number."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    # Type checkers know it without its being installed; the library's own came after Python 3.9.
    from typing_extensions import TypeGuard  # noqa: UP035 - see above

MOST_COUNTED = 2**64


def is_number(value: object) -> TypeGuard[float]:
    """Tell whether a value is a finite number; True and False are not numbers here."""
    # Of millions nearly all are of these types themselves; Ansible's numbers are of types derived of them.
    if value.__class__ is float:
        return math.isfinite(value)
    if value.__class__ is not int and (isinstance(value, bool) or not isinstance(value, (int, float))):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond what a float can hold
        return False


def is_whole(value: object) -> TypeGuard[int]:
    """Return whether a value is an integer; True and False are not numbers here.

    Nothing that is counted fills more than 64 bits, and arithmetic with more raises where floats come in.
    """
    if value.__class__ is not int and (isinstance(value, bool) or not isinstance(value, int)):
        return False
    return -MOST_COUNTED <= value < MOST_COUNTED
