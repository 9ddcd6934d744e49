"""`railyard compare`: compare two runs by their folders."""

from __future__ import annotations

import json
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.plugin_utils.compare import run_comparison, runs, text

from railyard.base.errors import UserError
from railyard.report.rebuild import find

COMPARED, NOTHING_COMPARED = 0, 3


def run(before: str, after: str, reports_dir: Path, *, as_json: bool = False) -> int:
    """Print what a run changed against one before it.

    Args:
        before: run A, as `rebuild.find` takes it.
        after: run B.
        reports_dir: the folder of all clusters' runs.
        as_json: print one JSON object.

    Returns:
        0 when something was compared, 3 when the runs have no two numbers that are alike.

    Raises:
        UserError: there is no such run, or both are one.
        RunFolderError, JudgeError, PolicyError: a run cannot be read or judged.
    """
    folders = [find(run, reports_dir) for run in (before, after)]
    if folders[0].resolve() == folders[1].resolve():
        raise UserError(f"{before} and {after} are the same run", "name two runs, the earlier one first")
    compared = run_comparison.compare_runs(*(runs.read_run(folder) for folder in folders))
    if as_json:
        # ASCII escapes: a node's text may contain more than standard output can show.
        print(json.dumps(text.build_document(compared), indent=2, allow_nan=False))
    else:
        print("\n".join(text.format_comparison(compared)))
    return COMPARED if compared.is_compared else NOTHING_COMPARED
