"""`railyard runs`: the metrics of all runs, each node's trend, and which run folders are kept."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils import owner_lock
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import significance
from ansible_collections.railyard.fabric.plugins.plugin_utils.continuous import own_history, retention
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean_line
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import (
    history,
    node_results,
    run_lists,
    run_metrics,
    wording,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.comparison import three
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import baseline
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder, RunFolderError

from railyard.base import output
from railyard.base.errors import UserError

_DAY_S = 86400.0


def metrics(reports_dir: Path, places: Sequence[Path]) -> int:
    """Write railyard_runs.prom; return 0.

    Raises:
        UserError: there are no reports, or a place cannot be written.
    """
    if not reports_dir.is_dir():
        raise UserError(f"{reports_dir} does not exist", "name the folder of the runs with --reports-dir")
    try:
        run_metrics.write(reports_dir, places)
    except (RunFolderError, OSError) as error:
        raise UserError(str(error)) from error
    return 0


def trends(reports_dir: Path, cluster: str, node: str | None, *, as_json: bool) -> int:
    """Print each node's newest run beside its own last good ones.

    Returns:
        0 when something was compared, 3 when there is nothing to compare with.

    Raises:
        UserError: there is no such cluster, or no run of that node.
    """
    runs = list(node_results.each(_cluster(reports_dir, cluster)))
    compared = [
        one
        for name, run in sorted(run_metrics.newest(runs).items())
        for one in own_history.compare(run, runs)
        if one.node == name and node in (None, name)
    ]
    if not compared:
        what = f"node {node}" if node else cluster
        raise UserError(f"no run has numbers of {what}", f"see `ls {reports_dir / cluster}`")
    if as_json:
        print(json.dumps([{**one._asdict(), "usual": one.usual} for one in compared], indent=2))
    else:
        _print_trends(compared)
    return 0 if any(one.before for one in compared) else 3


def _print_trends(compared: Sequence[own_history.Compared]) -> None:
    out = output.console()
    for one in compared:
        unit = wording.unit(one.metric)
        usual = f"{three(one.usual)} {unit} in {len(one.before)} good runs" if one.usual else "never before"
        style = "yellow" if one.word == significance.WORSE else None
        where = f"{one.node} {one.rail or 'all rails'} {wording.check_title(one.check)}"
        out.print(clean_line(f"{where}: {three(one.value)} {unit} ({usual}): {one.word}"), style=style)


def prune(reports_dir: Path, cluster: str | None, keep: int, days: int, *, check: bool) -> int:
    """Remove old run folders, and print which; return 0.

    Raises:
        UserError: there is no such cluster, a run on it is going on, or a folder cannot be removed.
    """
    clusters = [_cluster(reports_dir, cluster)] if cluster else list(_clusters(reports_dir))
    out = output.console()
    removed = 0
    for place in clusters:
        try:
            # A run's lock: nothing is removed under a run.
            with owner_lock.held(place / ".lock", patience_s=0):
                for path in _old(place, keep, days):
                    out.print(f"{'Would remove' if check else 'Removed'} {path}")
                    if not check:
                        _remove(path)
                    removed += 1
        except owner_lock.LockedError as error:
            raise UserError(f"a run on {place.name} is going on: {error}", "wait for it to end") from error
        except OSError as error:
            raise UserError(f"{error.filename}: {error.strerror}", "correct its rights") from error
        newest = run_metrics.newest_judged(place)
        if newest and removed and not check:
            run_lists.write(newest)
    out.print(f"{removed} run folders {'would be ' if check else ''}removed.")
    return 0


def _old(cluster: Path, keep: int, days: int) -> list[Path]:
    """Return the run folders that are not needed any more."""
    names = sorted(filter(run_folder.is_run_id, history.folders(cluster)), reverse=True)
    runs = list(node_results.each(cluster, len(names)))
    kept = retention.needed(names, runs, keep, time.time() - days * _DAY_S) | set(_baselines(cluster, names))
    return [cluster / name for name in names if name not in kept]


def _baselines(cluster: Path, names: Sequence[str]) -> Iterator[str]:
    """Yield the runs that a baseline was saved from, and those where that is unreadable."""
    for name in names:
        try:
            stated = RunFolder(cluster / name).manifest().get(baseline.STATED)
        except RunFolderError:
            yield name
            continue
        if (cluster / name / baseline.SAVED).exists():
            yield name
        if isinstance(stated, dict):
            yield str(stated.get("run"))


def _remove(path: Path) -> None:
    """Remove a folder: renamed first, so that the rest of it is not taken for a run."""
    gone = path.with_name(f".{path.name}.removed")
    os.rename(path, gone)
    shutil.rmtree(gone)


def _cluster(reports_dir: Path, name: str) -> Path:
    path = reports_dir / name
    if "/" in name or not path.is_dir():
        raise UserError(f"{reports_dir} has no cluster {name}", f"see `ls {reports_dir}`")
    return path


def _clusters(reports_dir: Path) -> Iterator[Path]:
    for name in sorted(history.folders(reports_dir)) if reports_dir.is_dir() else ():
        if any(run_folder.is_run_id(one) for one in history.folders(reports_dir / name)):
            yield reports_dir / name
