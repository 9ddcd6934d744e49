# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a kernel counter from a small file: a number, or an error or text instead."""

from __future__ import annotations

import errno
import re
from typing import NamedTuple, Optional

#: A 64-bit counter has 20 digits; longer content is no counter and is not read to its end.
_MOST_BYTES = 64
_NUMBER = re.compile(r"[0-9]{1,20}\Z")


class Value(NamedTuple):
    """The number in a counter's file, or why there is none."""

    number: Optional[int]  # noqa: UP045 - Python 3.9, which nodes may have, evaluates it
    why_not: str = ""


def read(path: str) -> Value:
    """Return the number in a counter's file, or the error or text instead."""
    try:
        with open(path, "rb") as handle:
            text = handle.read(_MOST_BYTES).decode("ascii", "replace").strip()
    except OSError as error:
        return Value(None, errno.errorcode.get(error.errno or 0, str(error)))
    return Value(int(text)) if _NUMBER.match(text) else Value(None, f"reads {text!a}")
