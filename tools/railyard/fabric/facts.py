"""The facts of a cluster's newest run: by them, adapters are recognized by GUID in place of their names."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.records import facts as facts_record
from ansible_collections.railyard.fabric.plugins.module_utils.records.reader import RefusedError
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder, RunFolderError

_MOST_RUNS = 20


def load_facts(cluster: Path) -> Mapping[str, Mapping[str, Any]]:
    """Return node -> its facts in the newest run that has any; those that cannot be used are left out."""
    if not cluster.is_dir():
        return {}
    names = sorted((one.name for one in cluster.iterdir() if run_folder.is_run_id(one.name)), reverse=True)
    for name in names[:_MOST_RUNS]:
        try:
            rows, _torn = RunFolder(cluster / name).rows(run_folder.FACTS)
        except RunFolderError:
            continue
        found: dict[str, Mapping[str, Any]] = {}
        for row in rows:
            try:
                facts = facts_record.read(row)
            except RefusedError:
                continue
            found[facts["node"]] = dict(facts)
        if found:
            return found
    return {}
