# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read the runs of a cluster, newest first, and each rail's numbers over them.

Of each run manifest.json and verdicts.jsonl are read, one run at a time, and few numbers are kept: the work
is linear in the number of runs, and ends at RUNS_READ of them.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import accumulate, pairwise
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_number
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import folded, run_status
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean_all, clean_line
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import comparison, wording
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Manifest, Row
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder

#: The newest runs that are read and listed; older ones are counted.
RUNS_READ = 100
#: The newest runs that the history covers.
RUNS_IN_HISTORY = 20
#: Beside the runs: the readings of the InfiniBand fabric (`railyard fabric`), which are no runs.
FABRIC = "fabric"
PAGE = "index.html"
_OUTCOME_OF_STATUS = {0: "pass", 1: "fail"}

#: (check, rail) -> the median over its senders; the rail is empty for a sum of all rails.
Numbers = dict[tuple[str, str], float]


@dataclass(frozen=True)
class PastRun:
    """A run as the list shows it.

    Attributes:
        run: its id, which is its folder's name.
        started: when, as the manifest has it.
        outcome: the outcome that its exit status stands for.
        counts: outcome -> how many verdicts.
        has_page: its report page exists.
        notes: why it does not represent the whole cluster.
        numbers: in the unit of each check's metric.
        settings: the run's policy as text.
        changed: settings that differ from the run before, so that numbers may not be comparable.
    """

    run: str
    started: str
    outcome: str
    counts: Mapping[str, int]
    has_page: bool
    notes: tuple[str, ...]
    numbers: Numbers
    settings: Mapping[str, str]
    changed: tuple[str, ...] = ()


@dataclass(frozen=True)
class CheckHistory:
    """One check's numbers: a line for each run that has one, newest first, with a value for each rail."""

    title: str
    unit: str
    rails: tuple[str, ...]
    lines: tuple[tuple[PastRun, tuple[float | None, ...]], ...]

    def values(self, rail: int) -> list[float | None]:
        """Return a rail's values, oldest first."""
        return [values[rail] for _run, values in reversed(self.lines)]


@dataclass
class ClusterRuns:
    """A cluster's runs. `older` counts runs that were not read, `skipped` says which folders are no run."""

    name: str
    runs: list[PastRun] = field(default_factory=list)
    older: int = 0
    skipped: list[str] = field(default_factory=list)

    @property
    def history(self) -> list[CheckHistory]:
        """Each check's numbers over the newest runs, for the checks that have any."""
        newest = self.runs[:RUNS_IN_HISTORY]
        places = dict.fromkeys(place for run in newest for place in run.numbers)
        found = []
        for check in sorted({check for check, _rail in places}, key=wording.check_order):
            rails = tuple(sorted(rail for name, rail in places if name == check))
            lines = tuple(
                (run, values)
                for run in newest
                if (values := tuple(run.numbers.get((check, rail)) for rail in rails)) != (None,) * len(rails)
            )
            unit = wording.unit(str(comparison.metric(check)))
            found.append(CheckHistory(wording.heading(check), unit, rails, lines))
        return found


def read_cluster(path: Path, most: int = RUNS_READ) -> ClusterRuns:
    """Read the runs of a cluster.

    Args:
        path: `<reports>/<cluster>`.
        most: how many are read, the newest.

    Raises:
        OSError: the folder cannot be listed.
    """
    found = ClusterRuns(clean_line(path.name))
    # Run ids begin with the time.
    for name in sorted(folders(path), reverse=True):
        if name == FABRIC:
            continue
        if not run_folder.is_run_id(name):
            found.skipped.append(f"{clean_line(name)} is not the name of a run")
        elif len(found.runs) == most:
            found.older += 1
        else:
            try:
                found.runs.append(_read(path / name))
            except run_folder.RunFolderError as error:
                found.skipped.append(clean_line(str(error)))
    found.runs[:-1] = [replace(run, changed=_changed(before, run)) for run, before in pairwise(found.runs)]
    return found


def _changed(before: PastRun, run: PastRun) -> tuple[str, ...]:
    return tuple(
        f"{key} {value} → {run.settings[key]}"
        for key, value in before.settings.items()
        if run.settings.get(key, value) != value
    )


def folders(path: Path) -> list[str]:
    """Return the names of the folders in a folder, without links and hidden ones.

    Raises:
        OSError: it cannot be listed.
    """
    with os.scandir(path) as entries:
        return [one.name for one in entries if one.is_dir(follow_symlinks=False) and one.name[0] != "."]


def _read(path: Path) -> PastRun:
    folder = RunFolder(path)
    manifest = clean_all(folder.manifest())
    if manifest.get("run") != path.name:
        raise run_folder.RunFolderError(f"{path}: its manifest is of run {manifest.get('run')}")
    counts = dict.fromkeys(wording.OUTCOMES, 0)
    numbers, torn = _Numbers(), False
    # One by one: there may be 50,000.
    for row in folder.each_row(run_folder.VERDICTS):
        if row is None:
            torn = True
        else:
            counts[wording.outcome(row.get("outcome")).name] += folded.read_count(row)
            numbers.add(row)
    asked = manifest.get("asked")
    count = asked.get("count") if isinstance(asked, Mapping) else None
    less = is_number(count) and sum(counts.values()) < count
    whole = not torn and not less and run_status.explain_not_ended(manifest) is None
    status = run_status.find_exit_status({name for name, some in counts.items() if some}, whole)
    start, policy = manifest.get("start"), manifest.get("policy")
    return PastRun(
        run=path.name,
        started=str(start.get("at") if isinstance(start, Mapping) else "unknown"),
        outcome=_OUTCOME_OF_STATUS.get(status, "unmeasured"),
        counts=counts,
        has_page=(path / PAGE).is_file(),
        notes=tuple(_notes(manifest, bool(sum(counts.values())), torn, less)),
        numbers=numbers.medians(),
        settings={key: clean_line(wording.number(value)) for key, value in policy.items()}
        if isinstance(policy, Mapping)
        else {},
    )


def _notes(manifest: Manifest, is_judged: bool, torn: bool, less: bool) -> Iterator[str]:
    incomplete = run_status.explain_not_ended(manifest)
    if incomplete:
        yield incomplete
    if not is_judged:
        yield "it is not judged"
    elif torn or less:
        yield f"{run_folder.VERDICTS} lost a line"
    limit = manifest.get("limit")
    if isinstance(limit, list) and limit:
        yield f"limited to {wording.quantity_text(limit)}"


class _Numbers:
    """The numbers of a run's verdicts."""

    def __init__(self) -> None:
        #: Place -> its values, and how many verdicts have each.
        self._values: dict[tuple[str, str], Counter[float]] = {}

    def add(self, row: Row) -> None:
        """Add the number of a line of verdicts.jsonl, if it has one."""
        check, rail = row.get("check"), row.get("rail")
        metric = comparison.metric(check) if isinstance(check, str) else None
        if metric and isinstance(row.get("observed"), Mapping) and isinstance(rail, (str, type(None))):
            value = comparison.trusted(folded.take_medians(row), metric)
            if value is not None:
                place = str(check), clean_line(rail or "")
                self._values.setdefault(place, Counter())[value] += folded.read_count(row)

    def medians(self) -> Numbers:
        """Return the median of each place."""
        return {place: _find_median(values) for place, values in self._values.items()}


def _find_median(counts: Mapping[float, int]) -> float:
    """Return the median of values, of which each occurs so many times."""
    values = sorted(counts)
    upto = list(accumulate(counts[value] for value in values))
    middle = ((upto[-1] - 1) // 2, upto[-1] // 2)
    return sum(values[bisect_right(upto, place)] for place in middle) / 2
