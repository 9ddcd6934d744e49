# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the restore of what a confirmed change replaced, as a new change."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from .. import atomic_files
from ..rollback import restore, snapshot
from . import unmanaged


def _text(path: str | None) -> str | None:
    if path is None:
        return None
    with open(path, encoding="utf-8", errors="surrogateescape", newline="") as handle:
        return handle.read()


def _entry(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Reverse a file of the confirmed change: its old content becomes the wanted one."""
    before = _text(entry["path"]) if os.path.exists(entry["path"]) else None
    wanted = _text(entry["backup"])
    turned = {**entry, "text": wanted, "before": before, "wrong": before != wanted}
    if entry["backup"]:
        status = os.stat(entry["backup"])
        turned.update(mode=status.st_mode & 0o7777, owner=[status.st_uid, status.st_gid])
    return turned


def plan(folder: str) -> tuple[str, dict[str, Any]]:
    """Plan the restore of the state before the last confirmed change; only reads.

    Args:
        folder: the state folder.

    Returns:
        `(why there is nothing to do or "", findings)`. Findings: `files`, `sysctls`, `rails` (empty: the plan
        no longer applies), `netdevs`, `drift` (sentences on the rails' running state), `snapshot`, `target`,
        `reverts`, `foreign_rules`, `own_rules`.

    Raises:
        OSError: a backup is missing.
    """
    record = atomic_files.read_json(os.path.join(folder, "confirmed.json"))
    if record is None:
        return "no network change of Railyard was ever confirmed here", {}
    if record.get("reverts"):
        return f"the last change ({record['created']}) was a return already", {}
    target = record["snapshot"]
    netdevs = [netdev for netdev in record["netdevs"] if os.path.exists(f"/sys/class/net/{netdev}")]
    taken = restore.snapshot(netdevs, list(target["sysctls"]))
    now, wanted = (snapshot.of_rails(each, netdevs) for each in (taken, target))
    differences = snapshot.differences(wanted, now, netdevs)
    facts = {netdev: {"mac": "", "driver": ""} for netdev in netdevs}
    texts = unmanaged.networkd_texts()
    foreign = unmanaged.foreign_rules(taken["rules"], texts)
    keeps = unmanaged.keeps_foreign_rules()
    return "", {
        "files": [_entry(entry) for entry in record["files"]],
        "sysctls": {path: target["sysctls"][path] for path in record["sysctls"] if path in target["sysctls"]},
        "rails": [],
        "netdevs": netdevs,
        "drift": differences,
        "snapshot": taken,
        "target": target,
        "reverts": record["token"],
        "foreign_rules": [] if keeps else foreign,
        "own_rules": unmanaged.rules_of_rails(taken["rules"], texts, facts),
    }
