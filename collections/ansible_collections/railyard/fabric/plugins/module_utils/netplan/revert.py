# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Plan the restore of what the last confirmed change replaced, or the first one, as a new change."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from .. import atomic_files
from ..rollback import original, restore, snapshot
from . import take_over, unmanaged

LAST_CHANGE, ORIGINAL = "last_change", "original"


class NoOriginalError(RuntimeError):
    """The state before the first change is not kept; the message says what to do by hand."""


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


def plan(folder: str, to: str = LAST_CHANGE, root: str = "/") -> tuple[str, dict[str, Any]]:
    """Plan the restore of an earlier state; only reads.

    Args:
        folder: the state folder.
        to: `last_change`, the state before the last confirmed change, or `original`, that before the first.
        root: where the node's files are, for tests.

    Returns:
        `(why there is nothing to do or "", findings)`. Findings: `files`, `sysctls`, `rails` (empty: the plan
        no longer applies), `netdevs`, `drift` (sentences on the rails' running state), `snapshot`, `target`,
        `reverts`, `foreign_rules`, `own_rules`.

    Raises:
        NoOriginalError: an earlier version made the first change, and did not keep the state before it.
        OSError: a backup is missing.
    """
    record = atomic_files.read_json(os.path.join(folder, "confirmed.json"))
    if record is None:
        return "no network change of Railyard was ever confirmed here", {}
    if to == ORIGINAL:
        if record.get("original") is None:
            return _without_original(folder, record, root), {}
        if original.is_restored(record):
            return f"the last change ({record['created']}) restored the original state already", {}
        return "", _findings(record["original"])
    if record.get("reverts"):
        return f"the last change ({record['created']}) was a return already", {}
    return "", _findings(original.state_before(record))


def _findings(before: Mapping[str, Any]) -> dict[str, Any]:
    target = before["snapshot"]
    netdevs = [netdev for netdev in before["netdevs"] if os.path.exists(f"/sys/class/net/{netdev}")]
    taken = restore.snapshot(netdevs, list(target["sysctls"]))
    now, wanted = (snapshot.of_rails(each, netdevs) for each in (taken, target))
    differences = snapshot.differences(wanted, now, netdevs)
    facts = {netdev: {"mac": "", "driver": ""} for netdev in netdevs}
    texts = unmanaged.networkd_texts()
    foreign = unmanaged.foreign_rules(taken["rules"], texts)
    keeps = unmanaged.keeps_foreign_rules()
    return {
        "files": [_entry(entry) for entry in before["files"]],
        "sysctls": {path: target["sysctls"][path] for path in before["sysctls"] if path in target["sysctls"]},
        "rails": [],
        "netdevs": netdevs,
        "drift": differences,
        "snapshot": taken,
        "target": target,
        "reverts": before["token"],
        "foreign_rules": [] if keeps else foreign,
        "own_rules": unmanaged.rules_of_rails(taken["rules"], texts, facts),
    }


def _without_original(folder: str, record: Mapping[str, Any], root: str) -> str:
    """Return that nothing of Railyard's is left to remove, or say what to remove by hand.

    Raises:
        NoOriginalError: there is something.
    """
    paths = {entry["path"] for entry in record["files"]}
    moved = {path for path in paths if path + take_over.ASIDE in paths}
    written = {path for path in paths - moved if not path.endswith(take_over.ASIDE)}
    cloud_init = os.path.join(root, take_over.CLOUD_INIT_FILE.lstrip("/"))
    own = [path for path in sorted({*written, cloud_init}) if os.path.lexists(path)]
    aside = take_over.moved_aside(root)
    if not own and not aside:
        return "no file of Railyard's network is left here"
    steps = [f"rm {' '.join(own)}"] if own else []
    steps += [f"mv {path} {path[: -len(take_over.ASIDE)]}" for path in aside]
    steps += ["netplan try", f"rm {os.path.join(folder, 'confirmed.json')}"]
    raise NoOriginalError(
        "the network before Railyard's first change is not kept on this node, since an earlier version made "
        f"that change; nothing was changed. Restore it by hand, at the node's console: {'; '.join(steps)}. "
        f"{os.path.join(folder, 'backup')} has the files from before each change, by date. "
        "What no file sets, such as an MTU, stays until a reboot"
    )
