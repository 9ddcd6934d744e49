# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Why there is no result: the key `error` of a row, and of what kept the controller from a node."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Optional, TypedDict

from . import reader

# `class` is a keyword of Python.
_Named = TypedDict("_Named", {"class": str, "message": str})


class Error(_Named, total=False):  # pylint: disable=inherit-non-class; a TypedDict is one
    """What went wrong, its `class` an id of the cause table; on which host, and how it is fixed."""

    host: Optional[str]
    fix: Optional[str]


class Failed(TypedDict):
    """What a row without a result says."""

    status: Literal["failed", "unmeasured"]
    error: Error


def read(row: Mapping[str, object]) -> Failed:
    """Return what a row without a result says.

    Raises:
        RefusedError: it is none.
    """
    return reader.read(Failed, {key: row.get(key) for key in ("status", "error")})


def error_of(row: Mapping[str, object]) -> Error | None:
    """Return the error that a row brings, None where it brings none that is understood."""
    return reader.read_if(Error, row.get("error"))
