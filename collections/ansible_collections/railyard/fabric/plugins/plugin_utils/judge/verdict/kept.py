# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Hand a judgement on within one command, so that a folder is judged once for each state that it has.

`fabric_confirm` judges to see whether somebody measures further. Where nobody does, `fabric_judge` reports
the same verdicts, and `railyard validate` prints them. They are handed on in a file of the run folder, its
digest in Ansible's registered results alone. The judgement is used only if the file has that digest and every
file that was judged is as it was then. Else, as after a controller was killed, the folder is judged again.
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
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution.culprits import (
    CannotTell,
    Crossing,
    Findings,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.attribution.oversubscription import (
    Crossed,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict.rejudge import Judged
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Manifest
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder

#: Removed by whoever uses it last. A bundle takes no hidden file.
FILE = ".judgement.gz"


def state_of(folder: RunFolder, manifest: Manifest | None = None) -> str:
    """Return a digest of all files that are judged.

    It is taken before they are judged: what changes in between makes it another one.

    Args:
        folder: the run's.
        manifest: in place of the folder's, as `rejudge.judge_folder` takes it.

    Returns:
        The digest; nothing where a file cannot be read.
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


def keep(folder: RunFolder, judged: Judged, state: str) -> str:
    """Write a judgement into the folder.

    Args:
        folder: the run's.
        judged: the judgement.
        state: what `state_of` gave before the folder was judged.

    Returns:
        The digest by which `take` knows it again; nothing where it cannot be written.
    """
    if not state:
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


def take(folder: RunFolder, digest: str) -> Judged | None:
    """Return the judgement of this digest, None where there is none or the folder is another by now."""
    with suppress(OSError):
        content = (folder.path / FILE).read_bytes()
        if not digest or _digest(content) != digest:
            return None
        head, *verdicts = map(json.loads, gzip.decompress(content).splitlines())
        if head.pop("state") == state_of(folder):
            head["findings"] = _findings(head["findings"])
            head["crossed"] = [Crossed(*one) for one in head["crossed"]]
            return Judged(**{**head, "verdicts": verdicts})
    return None


def forget(folder: RunFolder) -> None:
    """Remove a judgement that was handed on."""
    with suppress(OSError):
        (folder.path / FILE).unlink()


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _findings(of: dict[str, list[Any]]) -> Findings:
    """Return the records that JSON has as lists."""
    return Findings(
        tuple(Suspect(*one) for one in of["suspects"]),
        tuple(Suspect(*one) for one in of["doubtful"]),
        tuple(CannotTell(rail, tuple(nodes)) for rail, nodes in of["cannot_tell"]),
        tuple(Crossing(*one) for one in of["crossing"]),
    )
