"""`railyard report` and `railyard judge`: make the results of a run again from its folder alone."""

from __future__ import annotations

import tempfile
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.plugin_utils.judge import rejudge
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import model
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.documents import write_report
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder

from railyard.base import terminal
from railyard.base.errors import UserError
from railyard.bundle import files


def report(run: str, reports_dir: Path) -> int:
    """Write verdicts and the three documents again, print the end of the run, return its exit status."""
    return _again(run, reports_dir, documents=True)


def judge(run: str, reports_dir: Path) -> int:
    """Write verdicts.jsonl again, but of a bundle, and print the end of the run; return its exit status."""
    if not files.is_bundle(Path(run)):
        return _again(run, reports_dir, documents=False)
    with tempfile.TemporaryDirectory(prefix="railyard-judge-") as place:
        return _again(str(files.unpack(Path(run), Path(place))), reports_dir, documents=False)


def _again(run: str, reports_dir: Path, *, documents: bool) -> int:
    folder = find(run, reports_dir)
    judged = rejudge.judge_folder(folder)
    rejudge.write(folder, judged)
    out, read = terminal.console(), model.read(folder, judged)
    terminal.summary(read, out)
    if documents:
        notes = write_report(folder, read)
        terminal.report_place(folder, out, notes)
    return read.exit_status


def find(run: str, reports_dir: Path) -> Path:
    """Return the run folder meant by a path, `CLUSTER/RUN`, a run id, or a cluster (its latest run).

    Raises:
        UserError: there is none, or several.
    """
    for folder in (Path(run), reports_dir / run):
        if (folder / run_folder.MANIFEST).is_file():
            return folder
    by_id = (
        [path.parent for path in reports_dir.glob(f"*/{run}/{run_folder.MANIFEST}")] if "/" not in run else []
    )
    if len(by_id) == 1:
        return by_id[0]
    if len(by_id) > 1:
        raise UserError(f"several clusters have a run {run}", f"say CLUSTER/{run}")
    # Run ids begin with the time, so the latest is the last by name.
    of_cluster = sorted(path.parent for path in (reports_dir / run).glob(f"*/{run_folder.MANIFEST}"))
    if of_cluster:
        return of_cluster[-1]
    if files.is_bundle(Path(run)):
        raise UserError(
            f"{run} is an archive", "`railyard judge` reads it; else unpack it and name its folder"
        )
    raise UserError(
        f"{run} is no run folder: it has no {run_folder.MANIFEST}", f"see the folders in {reports_dir}"
    )
