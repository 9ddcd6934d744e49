# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A port's P_Key table as `smpquery pkeys` of infiniband-diags 44.0 prints it."""

from __future__ import annotations

from collections.abc import Iterable

_CAPACITY = 64


def write_table(entries: Iterable[int]) -> str:
    """Write a whole table, with the membership bits."""
    words = [f"0x{entry:04x}" for entry in entries]
    words += ["0x0000"] * (_CAPACITY - len(words))
    rows = [f"{start:4d}: {' '.join(words[start : start + 8])}\n" for start in range(0, _CAPACITY, 8)]
    return f"{''.join(rows)}{_CAPACITY} pkeys capacity for this port\n"
