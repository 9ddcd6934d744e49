"""`railyard report` and `railyard judge`: make the results of a run again from its folder alone."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import archive_limits
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import model, summary
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


def judge(run: str, reports_dir: Path, *, as_json: bool = False) -> int:
    """Write verdicts.jsonl again, but of a bundle, and print the result; return the run's exit status.

    Args:
        run: a run, as `find` takes it, or a bundle.
        reports_dir: the folder of all clusters' runs.
        as_json: print what `summary.summarise` returns as one JSON object, in place of text.
    """
    bundle = Path(run)
    if not files.is_bundle(bundle):
        return _again(run, reports_dir, documents=False, as_json=as_json)
    with signals.on_stop(_stop), _temporary_folder() as place:
        return _of_bundle(bundle, Path(place), as_json=as_json)


def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    try:
        return tempfile.TemporaryDirectory(prefix="railyard-judge-")
    except OSError as error:
        raise UserError(
            f"no temporary folder can be made: {error.strerror}",
            "make room in it, or name another folder with TMPDIR",
        ) from error


def _of_bundle(bundle: Path, place: Path, *, as_json: bool) -> int:
    """Judge a bundle within the limits of what it may cost: its author is not trusted."""
    try:
        with confined(*archive_limits.judge_cost(bundle.stat().st_size)):
            folder = files.unpack(bundle, place)
            return _print(folder, rejudge.judge_folder(folder), as_json=as_json).exit_status
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


def _print(folder: Path, judged: rejudge.Judged, *, as_json: bool) -> model.Report:
    """Print the result of a run, as text or as JSON, and return the run as it was read for that."""
    read = model.read(folder, judged)
    if as_json:
        print(json.dumps(make_document(folder, judged, read), indent=2))
    else:
        terminal.summary(read, output.console())
    return read


def make_document(folder: Path, judged: rejudge.Judged, read: model.Report) -> dict[str, Any]:
    """Return the result of a run as `--json` prints it."""
    result = {"run": read.run, **summary.summarise_verdicts(run_folder.RunFolder(folder).plan(), judged)}
    return result | ({"fabric": read.fabric} if read.fabric else {})


def _again(run: str, reports_dir: Path, *, documents: bool, as_json: bool = False) -> int:
    folder = find(run, reports_dir)
    judged = rejudge.judge_folder(folder)
    rejudge.write(folder, judged)
    read = _print(folder, judged, as_json=as_json)
    write_node_results(folder, read)
    if documents:
        notes = write_report(folder, read)
        terminal.report_place(folder, output.console(), notes)
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
