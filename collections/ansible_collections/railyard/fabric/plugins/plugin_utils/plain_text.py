# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text that came from a node or an inventory, made harmless and short to look at."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

# Terminal escapes, control characters other than newline and tab, marks that turn the writing direction, and
# line ends that only some programs know.
_CONTROL = re.compile(
    r"\x1b\[[0-9;?]*[ -/]*[@-~]"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


def clean(text: str) -> str:
    """Take out what would move the cursor, change colours, turn the direction or be no character of XML."""
    if text.isascii() and text.isprintable():  # nearly all of what a run says, and a hundred times as quick
        return text
    return (
        _CONTROL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
        .replace("\ufffe", "")
        .replace("\uffff", "")
    )


def clean_line(text: str) -> str:
    """Return a text cleaned and on one line: what a node says must not look like a line of ours."""
    return clean(text).replace("\n", " / ")


def named(names: Sequence[str], most: int = 4, count: int | None = None, between: str = ", ") -> str:
    """Return the first names of a list for a sentence, and how many more there are.

    Args:
        names: the names; not all need be there.
        most: how many are named.
        count: how many there are, where `names` is not all of them.
        between: what stands between two names.
    """
    shown = names[:most]
    more = (len(names) if count is None else count) - len(shown)
    return between.join(shown) + (f" and {more} more" if more > 0 else "")


def clean_all(value: Any) -> Any:
    """Return a JSON value with every string in it cleaned, keys too."""
    if isinstance(value, str):
        return clean(value)
    if isinstance(value, list):
        return [clean_all(item) for item in value]
    if isinstance(value, dict):
        return {clean(key) if isinstance(key, str) else key: clean_all(item) for key, item in value.items()}
    return value


def fold_names(names: Sequence[str], separator: str = ", ") -> str:
    """Fold node names, such as `gpu[001-512]`; list them without ClusterShell, or where it cannot."""
    try:
        from ClusterShell.NodeSet import NodeSet, NodeSetException
    except ImportError:
        return separator.join(names)
    try:
        return str(NodeSet.fromlist(list(names)))
    except NodeSetException:
        return separator.join(names)
