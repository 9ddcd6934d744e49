"""`railyard report` and `railyard judge`: make the results of a run again from its folder alone."""

from __future__ import annotations

import tempfile
from pathlib import Path
from types import FrameType

from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import archive_limits
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import model
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.documents import (
    write_node_results,
    write_report,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder

from railyard.base import output, signals, terminal
from railyard.base.confined import TooExpensiveError, confined
from railyard.base.errors import UserError
from railyard.bundle import files


def report(run: str, reports_dir: Path) -> int:
    """Write verdicts and the three documents again, print the end of the run, return its exit status."""
    return _again(run, reports_dir, documents=True)


def judge(run: str, reports_dir: Path) -> int:
    """Write verdicts.jsonl again, but of a bundle, and print the end of the run; return its exit status."""
    bundle = Path(run)
    if not files.is_bundle(bundle):
        return _again(run, reports_dir, documents=False)
    with signals.on_stop(_stop), _temporary_folder() as place:
        return _of_bundle(bundle, Path(place))


def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="railyard-judge-")
    except OSError as error:
        raise UserError(
            f"no temporary folder can be made: {error.strerror}",
            "make room in it, or name another folder with TMPDIR",
        ) from error


def _of_bundle(bundle: Path, place: Path) -> int:
    """Judge a bundle within the limits of what it may cost: whoever made it is not trusted."""
    try:
        with confined(*archive_limits.judge_cost(bundle.stat().st_size)):
            folder = files.unpack(bundle, place)
            read = model.read(folder, rejudge.judge_folder(folder))
            terminal.summary(read, output.console())
            return read.exit_status
    except TooExpensiveError as error:
        raise UserError(
            f"{bundle}: to judge it {error}, the most for an archive of its size",
            "if you trust who made it, unpack it with `tar -xzf` and name its folder",
        ) from error
    except run_folder.RunFolderError as error:
        raise UserError(
            f"{bundle}: {str(error).replace(f'{place}/', '')}", "have it made again by `railyard bundle`"
        ) from error


def _stop(_number: int, _frame: FrameType | None) -> None:
    """End as Ctrl-C does, so that what was unpacked is removed."""
    raise KeyboardInterrupt


def _again(run: str, reports_dir: Path, *, documents: bool) -> int:
    folder = find(run, reports_dir)
    judged = rejudge.judge_folder(folder)
    rejudge.write(folder, judged)
    out, read = output.console(), model.read(folder, judged)
    terminal.summary(read, out)
    write_node_results(folder, read)
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
