# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Count a GPU's XIDs over the checks of one boot, since the kernel's log drops its oldest records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from ..facts import kernel_log
from ..numeric import is_whole
from ..rules import xid

#: More different XIDs than any node has; further ones are not counted.
_MOST_SORTS = 256


class Xids(NamedTuple):
    """XIDs of this boot.

    Attributes:
        since_reset: `kernel_log.Log.seen` of all checks: since the driver was loaded or the GPU was reset.
        total: GPU and label -> how many since boot.
    """

    since_reset: list[dict[str, Any]]
    total: dict[tuple[str, str], int]


NONE = Xids([], {})


def add(before: Xids, records: Iterable[kernel_log.Record]) -> Xids:
    """Add the records of another check."""
    total = dict(before.total)
    records = list(records)
    for record in records:
        for one in kernel_log.sort_out([record]):
            key = one["pci"], label(one["xid"], one["fatal"])
            if one["kind"] == "XID" and (key in total or len(total) < _MOST_SORTS):
                total[key] = total.get(key, 0) + 1
    return Xids(kernel_log.sort_out(records, before.since_reset), total)


def label(number: int, is_fatal: bool) -> str:
    """Return an XID's label in metrics: `144_fatal` where the driver decides whether it is fatal."""
    return f"{number}_fatal" if is_fatal and number in xid.SAID_TO_BE_FATAL else str(number)


def of_gpus(seen: Iterable[Mapping[str, Any]]) -> dict[tuple[str, str], int]:
    """Return the counts of `since_reset` by GPU and label, without those of switches (SXIDs)."""
    counts: dict[tuple[str, str], int] = {}
    for one in seen:
        if one["kind"] == "XID":
            key = one["pci"], label(one["xid"], one["fatal"])
            counts[key] = counts.get(key, 0) + one["count"]
    return counts


def document(xids: Xids) -> dict[str, Any]:
    """Return the counts as JSON has them."""
    return {"since_reset": xids.since_reset, "total": [[*key, count] for key, count in xids.total.items()]}


def read(kept: Mapping[str, Any]) -> Xids:
    """Return what `document` gave.

    Raises:
        KeyError, TypeError, ValueError: it is none.
    """
    seen = [dict(one) for one in kept["since_reset"]]
    for one in seen:
        if one["kind"] not in ("XID", "SXID") or not isinstance(one["pci"], str):
            raise ValueError("no XID")
        if not (is_whole(one["xid"]) and is_whole(one["count"]) and isinstance(one["fatal"], bool)):
            raise ValueError("no number of an XID")
    total = {}
    for pci, name, count in kept["total"]:
        if not (isinstance(pci, str) and isinstance(name, str) and is_whole(count)):
            raise ValueError("no count of an XID")
        total[pci, name] = count
    return Xids(seen, total)
