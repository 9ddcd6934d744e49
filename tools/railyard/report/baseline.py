"""`railyard baseline save RUN -i INV`: save a passing run's figures as the reference for later runs."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.load import cluster_name
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import baseline, folder

from railyard.base.errors import UserError
from railyard.report.rebuild import find


def save(run: str, inventory: list[str], reports_dir: Path) -> int:
    """Judge a run again, write its figures beside the inventory, replacing those of before, and return 0.

    Args:
        run: as `rebuild.find` takes it.
        inventory: inventory sources; the first one's folder gets the file.
        reports_dir: the folder of all clusters' runs.

    Raises:
        UserError: there is no such run, it did not pass (with its own exit status), is another cluster's, or
            has nothing that a baseline would judge.
        RunFolderError, JudgeError, PolicyError: the run cannot be read or judged, or the file not be written.
    """
    path, place, cluster = find(run, reports_dir), baseline.home(inventory), cluster_name(inventory)
    judged = rejudge.judge_folder(path)
    if judged.exit_status:
        why = judged.incomplete or "not all planned tests are proven and good"
        raise UserError(
            f"{run} cannot be a baseline: {why}", "save a run that ends with 0", judged.exit_status
        )
    document = rejudge.build_baseline(path)
    if place is None or document["cluster"] != cluster:
        raise UserError(
            f"{run} is of cluster {document['cluster']}, the inventory {' '.join(inventory)} of {cluster}",
            "name the inventory that the run was made with (-i)",
        )
    if not document["classes"]:
        raise UserError(f"{run} has a source for all its limits", "it needs no baseline")
    folder.RunFolder(place).write(baseline.FILE, folder.pretty(document))
    with suppress(OSError):  # in a folder of another user, the owner keeps the run
        (path / baseline.SAVED).touch()
    links = sum(len(one["links"]) for one in document["classes"])
    print(f"{place / baseline.FILE}: {links} numbers of run {document['run']}")
    return 0
