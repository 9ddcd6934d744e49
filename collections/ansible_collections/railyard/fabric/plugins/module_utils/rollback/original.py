# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""What a network change replaced, and what the first one of all did. Pure.

The record of each change carries the state before the first change on, so that one rename makes both last:
neither a reset nor a full disk can separate them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import snapshot


def state_before(record: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a change replaced.

    Args:
        record: as `transaction.begin` keeps it.

    Returns:
        `token` and `created` (the change's), `files` (`[{"path", "mode", "backup": its copy or None}]`),
        `sysctls` (paths under /proc/sys that the change set), `netdevs`, `snapshot` (of these netdevs alone).
    """
    netdevs = list(record["netdevs"])
    return {
        "token": record["token"],
        "created": record["created"],
        "files": [{key: entry[key] for key in ("path", "mode", "backup")} for entry in record["files"]],
        "sysctls": sorted(record["sysctls"]),
        "netdevs": netdevs,
        "snapshot": snapshot.of_rails(record["snapshot"], netdevs),
    }


def carry(confirmed: Mapping[str, Any] | None, record: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the state before Railyard's first change, for the record of a further change to carry.

    What was kept stays as it is. Files and netdevs that no earlier change had are added as they are before
    this one. Where the last change led back to the original state, this is a first change again.

    Args:
        confirmed: the record of the last confirmed change, or None.
        record: the change that begins.

    Returns:
        As `state_before`; None where an earlier version made the first change, and kept nothing.
    """
    now = state_before(record)
    if confirmed is None:
        return now
    kept = confirmed.get("original")
    if kept is None:
        return None
    return now if is_restored(confirmed) else _extended(kept, now)


def is_restored(confirmed: Mapping[str, Any]) -> bool:
    """Return whether the last confirmed change led back to the state before the first one."""
    return bool(confirmed["original"]["token"] == confirmed.get("reverts"))


def _extended(kept: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    paths = {entry["path"] for entry in kept["files"]}
    netdevs = [netdev for netdev in now["netdevs"] if netdev not in kept["netdevs"]]
    old, new = kept["snapshot"], snapshot.of_rails(now["snapshot"], netdevs)
    # A netdev that is Railyard's own, a VLAN, has sysctls now and had none: those of new netdevs alone count.
    sysctls = {path: value for path, value in new["sysctls"].items() if path.split("/")[3] in netdevs}
    return {
        **kept,
        "files": [*kept["files"], *(entry for entry in now["files"] if entry["path"] not in paths)],
        "sysctls": sorted({*kept["sysctls"], *now["sysctls"]}),
        "netdevs": [*kept["netdevs"], *netdevs],
        "snapshot": {
            **old,
            "links": {**old["links"], **new["links"]},
            "addresses": {**old["addresses"], **new["addresses"]},
            "routes": [*old["routes"], *(row for row in new["routes"] if row not in old["routes"])],
            "sysctls": {**sysctls, **old["sysctls"]},
        },
    }
