# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Text that came from a node or an inventory, made harmless and short to look at."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from typing import Any

# A terminal's sequence, so that its letters go with it; without its first character it does nothing.
_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
#: Ends of lines and tabs alone are kept of all control characters.
_KEPT = "\n\t"
# What shows nothing although it counts as a letter or a mark (Unicode's Default_Ignorable_Code_Point); the
# others of its kind are format characters or unassigned.
_UNSEEN = (
    (0x034F, 0x034F), (0x115F, 0x1160), (0x17B4, 0x17B5), (0x180B, 0x180F), (0x3164, 0x3164),
    (0xFE00, 0xFE0F), (0xFFA0, 0xFFA0), (0xE0100, 0xE01EF),
)  # fmt: skip
_BRAILLE_BLANK = "\u2800"
# So many blanks push what follows to the next line of a terminal, as if that began there.
_WIDE = re.compile(r"[ \t]{9,}")


class _Table(dict[int, int | None]):
    """Code point -> what is shown of it, found out when it is first met."""

    def __missing__(self, code: int) -> int | None:
        char = chr(code)
        if any(first <= code <= last for first, last in _UNSEEN):
            shown = None
        elif char == _BRAILLE_BLANK or unicodedata.category(char) == "Zs":
            shown = ord(" ")
        else:
            # Not printable are Unicode's categories Cc, Cf, Cs, Co, Cn, Zl and Zp, and Zs.
            shown = code if char.isprintable() or char in _KEPT else None
        self[code] = shown
        return shown


_TABLE = _Table()


def clean(text: str) -> str:
    """Take out all that is no visible text: what controls a terminal, turns the direction, or cannot be seen.

    Kept are letters, marks, digits, punctuation and symbols, blanks (each as a plain one), tabs and newlines.
    """
    if text.isascii() and text.isprintable():  # nearly all of what a run says, and a hundred times as quick
        return text
    return _SEQUENCE.sub("", text.replace("\r\n", "\n").replace("\r", "\n")).translate(_TABLE)


def clean_line(text: str) -> str:
    """Return a text cleaned and on one line: what a node says must not look like a line of Railyard."""
    return clean(text).replace("\n", " / ")


def quoted(text: str) -> str:
    """Return a text cleaned, each of its lines behind a bar that begins no line of Railyard."""
    return "\n".join("  | " + _WIDE.sub(" " * 8, line) for line in clean(text).split("\n"))


def named(names: Sequence[str], most: int = 4, count: int | None = None, between: str = ", ") -> str:
    """Return the first names of a list for a sentence, and how many more there are.

    Args:
        names: the names; not all need be there.
        most: how many are named.
        count: how many there are, where `names` is not all of them.
        between: the text between two names.
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
