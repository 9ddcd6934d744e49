# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""GUIDs of InfiniBand in one form, `0x` and 16 small hexadecimal digits, however a tool writes them."""

from __future__ import annotations

import re
from typing import Optional

# infiniband-diags and opensm write 0x506b4b03005c2740, with or without leading zeros; sysfs and `rdma link`
# 506b:4b03:005c:2740; consoles of switches and labels also groups of 8 or 2 digits.
_PREFIXED = re.compile(r"0[xX]([0-9A-Fa-f]{1,16})")
_GROUPED = re.compile(
    r"[0-9A-Fa-f]{16}|[0-9A-Fa-f]{8}:[0-9A-Fa-f]{8}"
    r"|[0-9A-Fa-f]{4}(?::[0-9A-Fa-f]{4}){3}|[0-9A-Fa-f]{2}(?::[0-9A-Fa-f]{2}){7}"
)
_MOST = 2**64


def normalize_guid(value: object) -> Optional[str]:
    """Return a GUID in the one form, or None where the value is no GUID.

    A number is one as well: YAML reads 0x506b4b03005c2740 without quotes as a number. No device has 0 or all
    ones.
    """
    if isinstance(value, bool):
        return None
    number = value if isinstance(value, int) else _number_in(value) if isinstance(value, str) else None
    return f"0x{number:016x}" if number is not None and 0 < number < _MOST - 1 else None


def _number_in(text: str) -> Optional[int]:
    prefixed = _PREFIXED.fullmatch(text)
    if prefixed:
        return int(prefixed[1], 16)
    return int(text.replace(":", ""), 16) if _GROUPED.fullmatch(text) else None
