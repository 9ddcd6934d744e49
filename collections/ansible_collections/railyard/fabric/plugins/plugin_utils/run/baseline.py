# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a cluster's baseline, figures of a passed run beside the inventory, and the copy in a run folder.

A run is judged by its own copy alone. Manifest and plan hold the copy's digest, and the plan's fingerprint
covers it: where the three disagree the baseline is lost, and its checks are unmeasured.
"""

from __future__ import annotations

import hashlib
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_number
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import provenance
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Manifest, Plan
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder, RunFolderError

#: Beside the inventory, and in a run's folder.
FILE = "baseline.json"
#: An empty file in the folder of a run that was saved as a baseline: `railyard runs prune` keeps it.
SAVED = ".baseline"
#: Of manifest.json: the run that was saved, and the digest, which plan.json has, too.
STATED = "baseline"
#: check, node, peer, rail (None: the sum of all).
Link = tuple[str, str, str, "str | None"]


class Figure(NamedTuple):
    """A link's number: its metric, its value, and the conditions under which another one is comparable."""

    metric: str
    value: float
    like: Mapping[str, str]


@dataclass(frozen=True)
class Saved:
    """A baseline as a run has it.

    Attributes:
        run: the run whose figures they are.
        figures: link -> its number.
        lost: why nothing is known of a baseline that the run had, or None.
    """

    run: str = ""
    figures: Mapping[Link, Figure] = field(default_factory=dict)
    lost: str | None = None


def digest(text: str) -> str:
    """Return the SHA-256 of a baseline's text."""
    return hashlib.sha256(text.encode("utf-8")).hexdigest()


def home(sources: Sequence[str]) -> Path | None:
    """Return the folder of an inventory's (first) source, where its baseline is; None for a mere list."""
    if not sources or not os.path.exists(sources[0]):
        return None
    path = Path(sources[0]).absolute()
    return path if path.is_dir() else path.parent


def beside(sources: Sequence[str], cluster: str) -> tuple[str, Saved] | None:
    """Return an inventory's baseline and its text, or None where it has none.

    Raises:
        RunFolderError: it cannot be read, is no baseline, or another cluster's.
    """
    folder = home(sources)
    if folder is None or not (folder / FILE).exists():
        return None
    document = RunFolder(folder).document(FILE)
    saved = read(document)
    if saved.lost is None and document.get("cluster") != cluster:
        saved = Saved(lost=f"it is of cluster {document.get('cluster')!r}")
    if saved.lost:
        fix = "save it anew (railyard baseline save RUN -i INV), or remove it"
        raise RunFolderError(f"{folder / FILE} is no baseline of {cluster}: {saved.lost}; {fix}")
    return run_folder.pretty(document), saved


def kept(folder: RunFolder, manifest: Manifest, plan: Plan) -> Saved | None:
    """Return the baseline that a run is judged by, None where it never had one; lost where files disagree.

    An edited plan may have been the one that named it.
    """
    stated = manifest.get(STATED)
    if STATED not in manifest and provenance.BASELINE not in plan and not os.path.lexists(folder.path / FILE):
        edited = provenance.edited(manifest, plan)
        return Saved(lost=f"it is unknown whether the run had one: {edited}") if edited else None
    wanted = stated.get("sha256") if isinstance(stated, Mapping) else None
    try:
        document = folder.document(FILE)
    except RunFolderError as error:
        return Saved(lost=str(error))
    if not wanted == plan.get(provenance.BASELINE) == digest(run_folder.pretty(document)):
        return Saved(lost=f"{FILE} is not the one that manifest.json and plan.json name")
    return read(document)


def read(document: Mapping[str, Any]) -> Saved:
    """Return a baseline's figures; lost where one of them is not what it has to be."""
    figures: dict[Link, Figure] = {}
    try:
        if document["schema"] != run_folder.SCHEMA or not run_folder.is_run_id(document["run"]):
            return Saved(lost="its schema or run is not known")
        for one in document["classes"]:
            like = {str(key): str(value) for key, value in one["like"].items()}
            if like["check"] not in CHECKS or like["hardware"] not in (str(True), str(False)):
                return Saved(lost=f"check {like['check']} is not known to this version")
            for link in one["links"]:
                place = (like["check"], *(link[key] for key in ("node", "peer", "rail")))
                good = is_number(link["value"]) and 0 < link["value"] < math.inf
                if not good or place in figures:
                    return Saved(lost=f"the number of {place} is invalid or a duplicate")
                figures[place] = Figure(str(one["metric"]), float(link["value"]), like)
    except (KeyError, TypeError, AttributeError) as error:
        return Saved(lost=f"it is incomplete: {error!r}")
    return Saved(str(document["run"]), figures)
