# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""dcb -j (iproute2): its objects pfc, app, buffer and dcbx of one netdev.

Source: iproute2's dcb/dcb_{pfc,app,buffer,dcbx}.c, tags v5.15.0 to v7.1.0.
"""

from __future__ import annotations

import json
from typing import Any

from ..common import NotThisTool

_PRIORITIES = 8


def _document(text: str, what: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise NotThisTool(f"dcb -j {what} show printed no JSON ({error})") from error
    if not isinstance(document, dict):
        raise NotThisTool(f"dcb -j {what} show printed no JSON object")
    return document


def _eight(document: dict[str, Any], key: str, kind: type, what: str) -> list[Any]:
    values = document.get(key)
    if not isinstance(values, list) or len(values) != _PRIORITIES:
        raise NotThisTool(f"dcb -j {what} show has no list {key} of {_PRIORITIES}")
    if not all(isinstance(value, kind) for value in values):
        raise NotThisTool(f"dcb -j {what} show has a {key} that is not of {kind.__name__}")
    return values


def pfc(text: str) -> list[int]:
    """Return 0 or 1 per priority, from `dcb -j pfc show dev NETDEV`.

    Raises:
        NotThisTool: The text is something else.
    """
    return [int(value) for value in _eight(_document(text, "pfc"), "prio_pfc", bool, "pfc")]


def dscp_to_priority(text: str) -> dict[str, int]:
    """Return priority by DSCP (decimal string), from `dcb -j -N app show dev NETDEV dscp-prio`.

    Without entries dcb prints an empty object. Since v6.5 each entry ends with a separate blank string.

    Raises:
        NotThisTool: The text is something else, or gives one DSCP two priorities.
    """
    found: dict[str, int] = {}
    for entry in _document(text, "app").get("dscp_prio", []):
        numbers = [part for part in entry if isinstance(part, int)] if isinstance(entry, list) else []
        if len(numbers) != 2:
            raise NotThisTool(f"dcb -j app show has an entry that is no pair of numbers: {entry}")
        if found.setdefault(str(numbers[0]), numbers[1]) != numbers[1]:
            raise NotThisTool(f"dcb -j app show gives DSCP {numbers[0]} two priorities")
    return found


def buffers(text: str) -> tuple[list[int], list[int]]:
    """Return the sizes of the eight receive buffers in bytes and the buffer of each priority (dcb buffer).

    Raises:
        NotThisTool: The text is something else.
    """
    document = _document(text, "buffer")
    return _eight(document, "buffer_size", int, "buffer"), _eight(document, "prio_buffer", int, "buffer")


def dcbx_flags(text: str) -> list[str]:
    """Return the flags that are set, as `dcb dcbx set` takes them, from `dcb -j dcbx show dev NETDEV`.

    Raises:
        NotThisTool: The text is something else.
    """
    return sorted(key.replace("_", "-") for key, value in _document(text, "dcbx").items() if value is True)
