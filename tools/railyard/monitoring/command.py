"""`railyard monitoring`: target files, and all files for a Prometheus that a site already has."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from railyard.base import paths
from railyard.base.errors import BAD_INPUT, UserError
from railyard.base.whole_file import unwritable, whole_file

# Ansible reads its configuration when it is imported; without it, it would read other files as inventories.
os.environ.setdefault("ANSIBLE_CONFIG", str(paths.repo_root() / "ansible.cfg"))

from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import load
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory.model import Inventory
from ansible_collections.railyard.fabric.plugins.plugin_utils.monitoring import checks, export, targets
from ansible_collections.railyard.fabric.plugins.plugin_utils.monitoring.rules import RulesError

from railyard.plan import view

# The user of Prometheus reads them.
_MODE = 0o644
_CHECK_LIMIT_S = 60
_ADDRESS = re.compile(r"\S+:[0-9]{1,5}")


def write_targets(sources: Sequence[str], output: str, gpus: bool) -> int:
    """Write the targets of node_exporter or dcgm-exporter for Prometheus; `-` is standard output.

    Returns:
        0, or 2 where the inventory has problems, which are then on standard error.

    Raises:
        UserError: the file cannot be written.
    """
    inventory = _inventory(sources)
    if inventory is None:
        return BAD_INPUT
    nodes = targets.nodes_to_scrape(inventory, only_ours=False)
    job = "railyard-gpu" if gpus else "railyard-node"
    text = targets.to_json(targets.target_files(inventory.cluster, nodes)[job])
    if output == "-":
        sys.stdout.write(text)
    else:
        _write(Path(output), text)
    return 0


def write_export(sources: Sequence[str], folder: Path, wanted: export.Wanted) -> int:
    """Write all files for a Prometheus of the site, and have promtool check them where it is installed.

    Returns:
        0; 2 where the inventory has problems, or promtool refuses the files.

    Raises:
        UserError: an option is wrong, or a file cannot be written.
    """
    _check_options(wanted)
    inventory = _inventory(sources)
    if inventory is None:
        return BAD_INPUT
    wanted = wanted._replace(
        overrides=_of_site(inventory, "monitoring_rule_overrides"),
        thresholds=_of_site(inventory, "monitoring_thresholds"),
    )
    try:
        files = export.files(inventory, wanted)
    except RulesError as error:
        raise UserError(str(error), "correct monitoring_rule_overrides or monitoring_thresholds") from error
    for name, text in files.items():
        _write(folder / name, text)
    begin = folder / "README.md"
    print(f"{len(files)} files for {len(inventory.nodes)} nodes are in {folder}; begin with {begin}")
    return _check(folder, files, wanted)


def _check_options(wanted: export.Wanted) -> None:
    if wanted.form not in export.FORMS:
        raise UserError(f"--format {wanted.form} is not known", f"choose one of {', '.join(export.FORMS)}")
    if not wanted.installed_at.startswith("/"):
        raise UserError(
            f"--installed-at {wanted.installed_at} is no absolute path", f"as {export.INSTALLED_AT}"
        )
    for target in wanted.runs:
        if not _ADDRESS.fullmatch(target):
            raise UserError(f"--runs-target {target} is no address and port", "as 192.168.0.9:9100")
    try:
        re.compile(wanted.job or "")
    except re.error as error:
        raise UserError(
            f"--job {wanted.job} is no regular expression: {error}", "as 'node|node-exporter'"
        ) from error


def _of_site(inventory: Inventory, variable: str) -> Mapping[str, Any]:
    """Return what the inventory changes of the rules, of the first monitoring host that says so."""
    values = (one.variables.get(variable) for one in inventory.monitors)
    return next((value for value in values if value), {})


def _inventory(sources: Sequence[str]) -> Inventory | None:
    inventory = load.load(list(sources))
    problems = load.validate(inventory) or checks.check(inventory, export=True)
    if problems:
        view.print_problems(problems)
        return None
    return inventory


def _write(path: Path, text: str) -> None:
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise unwritable(path.parent, error) from error
    with whole_file(path, _MODE) as stream:
        stream.write(text.encode())


def _check(folder: Path, files: dict[str, str], wanted: export.Wanted) -> int:
    """Have promtool check rules and jobs as they are in the folder; what is not there checks nothing."""
    promtool = shutil.which("promtool")
    if promtool is None:
        print("promtool is not on this machine, so nothing was checked. README.md has the commands.")
        return 0
    if wanted.form != "rules":
        print("The operator checks the rules when they are applied; promtool does not read its objects.")
        return 0
    with tempfile.TemporaryDirectory() as scratch:
        config = Path(scratch, "prometheus.yml")
        text = export.checked_configuration(files, wanted.installed_at, str(folder.absolute()))
        config.write_text(text, encoding="utf-8")
        argv = [promtool, "check", "config", str(config)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=_CHECK_LIMIT_S, check=False)
    if done.returncode != 0:
        raise UserError(
            f"promtool refuses the files in {folder}: {(done.stdout + done.stderr).strip()}",
            "a newer promtool may know what this one does not (keep_firing_for came with 2.42)",
        )
    print("promtool check config: rules and jobs are good.")
    return 0
