# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Take the facts and archives of nodes into the run folder: as data, and only what was planned."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.runner import raw_names
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import archive as harvest
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch.archive_limits import NodeLimits
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import json_lines
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder

# A netdev or port has few KB of facts: hundreds of them fit.
MOST_FACTS_BYTES = 4 * 2**20


def facts_row(found: dict[str, Any], node: str, run: str) -> dict[str, Any]:
    """Return a node's facts as their row, such as can be written and read again.

    Args:
        found: the facts that the node reported.
        node: its name in the inventory and the plan; its hostname may differ.
        run: the run's id.

    Raises:
        ValueError: they are not what any node's facts could be.
    """
    try:
        text = json.dumps(found)
    except RecursionError:
        text = ""
    if len(text) > MOST_FACTS_BYTES:
        message = f"it gave facts of {len(text)} bytes, and {MOST_FACTS_BYTES} are too many; look at the node"
        raise ValueError(message)
    rows, _torn = json_lines.parse_lines(text.encode())
    if not rows or json_lines.is_deep(rows[0]):
        raise ValueError("it gave facts that are nested deeper than facts can be; look at the node")
    row = rows[0]
    return {**row, "hostname": row.get("node"), "node": node, "run": run}


def archive_path(folder: RunFolder, node: str) -> Path:
    """Return where a node's archive is kept."""
    return folder.path / "raw" / raw_names.archive_name(node, folder.confirms())


def take_archive(
    folder: RunFolder, node: str, sha256: object, limits: NodeLimits, again: bool
) -> tuple[int, list[str]]:
    """Take the rows of the archive at `archive_path` into the folder; return how many were new, and notes.

    Args:
        folder: the run's.
        node: whose archive it is.
        sha256: the hash that the node reported, if any.
        limits: what it may hold.
        again: an archive of the node was here before, so that its rows may be in the folder.

    Raises:
        ArchiveError: it is damaged, or not an archive of a node.
        RunFolderError: the folder cannot be written.
    """
    place = archive_path(folder, node)
    found = harvest.read(place, folder.name, node, sha256, limits)
    fresh = folder.append_new_lines(run_folder.RESULTS, found.rows, look=again)
    # Of the file that is here: what the node says of it was compared with it.
    with place.open("rb") as packed:
        digest = hashlib.file_digest(packed, "sha256").hexdigest()
    order = {"of": run_folder.CONFIRM_ARCHIVES} if folder.confirms() else {}
    folder.append(run_folder.ARCHIVES, [{**order, "node": node, "sha256": digest, "rows": found.lines}])
    return fresh, found.notes
