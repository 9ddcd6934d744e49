# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the archive that a node packed: which of its rows belong to this run."""

from __future__ import annotations

import hashlib
import tarfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils import run_folder

#: No honest results file comes near; a damaged or hostile archive must not fill the memory.
MOST_BYTES = 512 * 1024 * 1024


class ArchiveError(ValueError):
    """The archive is damaged; the message says how."""


@dataclass
class Harvest:
    """What an archive holds.

    Attributes:
        rows: the whole rows that this host wrote for this run.
        notes: what was left out, in words.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def read(path: Path, run: str, host: str, sha256: str | None) -> Harvest:
    """Read a node's archive.

    Args:
        path: the fetched file.
        run: the run id that its rows must carry.
        host: the node that must have written them.
        sha256: what the node said that the file's hash is, if it said so.

    Raises:
        ArchiveError: it is not what the node packed, or no archive, or holds no results.
    """
    if sha256 is not None:
        seen = hashlib.sha256(path.read_bytes()).hexdigest()
        if seen != sha256:
            raise ArchiveError(
                f"{path}: fetched with SHA-256 {seen}, the node packed {sha256}; collect again"
            )
    try:
        with tarfile.open(path, "r:gz") as archive:
            member = archive.getmember(run_folder.RESULTS)
            stream = archive.extractfile(member)
            if stream is None or member.size > MOST_BYTES:
                raise ArchiveError(f"{path}: {run_folder.RESULTS} is no file of a sane size")
            data = stream.read()
    except KeyError:
        raise ArchiveError(f"{path}: there is no {run_folder.RESULTS} in it; see runner.log in it") from None
    except (tarfile.TarError, EOFError, OSError) as error:
        raise ArchiveError(f"{path}: damaged archive: {error}; collect again") from error
    rows, torn = run_folder.parse_lines(data)
    harvest = Harvest(notes=["a torn line was dropped"] if torn else [])
    for row in rows:
        if row.get("run") == run and row.get("host") == host:
            harvest.rows.append(row)
    foreign = len(rows) - len(harvest.rows)
    if foreign:
        harvest.notes.append(f"{foreign} rows were of another run or host and were left out")
    return harvest
