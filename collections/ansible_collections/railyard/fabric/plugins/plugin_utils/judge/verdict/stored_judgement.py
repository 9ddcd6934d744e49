# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Store a judgement within one command, so that an unchanged folder is judged only once.

`fabric_confirm` judges to decide whether nodes measure again. If not, `fabric_judge` reports the same
verdicts, and `railyard validate` prints them. They are stored in a file of the run folder, with its digest in
Ansible's registered results. The judgement is used only if the file has that digest and no judged file has
changed. Otherwise, for example after a controller was killed, the folder is judged again.
"""

from __future__ import annotations

import gzip
import hashlib
import json
from contextlib import suppress
from dataclasses import asdict, replace
from itertools import chain
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.ask.suspects import Suspect
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution.oversubscription import (
    Crossed,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution.slow_components import (
    Ambiguous,
    Crossing,
    Findings,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict.rejudge import Judged
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict.verdicts import divide
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Manifest
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder

#: The last user removes it. Bundles exclude hidden files.
FILE = ".judgement.gz"


def digest_files(folder: RunFolder, manifest: Manifest | None = None) -> str:
    """Return a digest of all files that are judged.

    It is calculated before they are judged, so a change in between invalidates it.

    Args:
        folder: the run's.
        manifest: replaces the folder's, as in `rejudge.judge_folder`.

    Returns:
        The digest; empty if a file cannot be read.
    """
    digests = {}
    try:
        for name in rejudge.FILES:
            with suppress(FileNotFoundError), folder.open(name) as stream:
                digests[name] = hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:
        return ""
    if manifest is not None:
        digests[run_folder.MANIFEST] = _digest(run_folder.pretty(manifest).encode())
    return json.dumps(digests)


def store(folder: RunFolder, judged: Judged, state: str) -> str:
    """Write a judgement into the folder.

    Args:
        folder: the run's.
        judged: the judgement.
        state: the result of `digest_files` before the folder was judged.

    Returns:
        The digest for `load`; empty if it cannot be written, or if most tests pass in columns: to judge them
        again is faster than to read their verdicts.
    """
    if not state or 2 * len(divide(judged.verdicts).single) < len(judged.verdicts):
        return ""
    head = {**asdict(replace(judged, verdicts=())), "state": state}
    path = folder.path / FILE
    try:
        path.unlink(missing_ok=True)
        with gzip.open(path, "xt", compresslevel=1, encoding="utf-8") as stream:
            for one in chain((head,), judged.verdicts):
                stream.write(json.dumps(one) + "\n")
        return _digest(path.read_bytes())
    except OSError:
        return ""


def load(folder: RunFolder, digest: str) -> Judged | None:
    """Return the judgement with this digest, None if there is none or the folder has changed."""
    with suppress(OSError):
        content = (folder.path / FILE).read_bytes()
        if not digest or _digest(content) != digest:
            return None
        head, *verdicts = map(json.loads, gzip.decompress(content).splitlines())
        if head.pop("state") == digest_files(folder):
            head["findings"] = _read_findings(head["findings"])
            head["crossed"] = [Crossed(*one) for one in head["crossed"]]
            return Judged(**{**head, "verdicts": verdicts})
    return None


def remove(folder: RunFolder) -> None:
    """Remove a stored judgement."""
    with suppress(OSError):
        (folder.path / FILE).unlink()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _read_findings(of: dict[str, list[Any]]) -> Findings:
    """Convert JSON lists to records."""
    return Findings(
        tuple(Suspect(*one) for one in of["suspects"]),
        tuple(Suspect(*one) for one in of["doubtful"]),
        tuple(Ambiguous(rail, tuple(nodes)) for rail, nodes in of["cannot_tell"]),
        tuple(Crossing(*one) for one in of["crossing"]),
    )
