"""How many tasks a provision that changes nothing has for a node, and who checks the roles' variables.

Read from the playbooks and roles. A task that is skipped costs the controller nearly as much as one that
runs; tests/e2e counts both in a lab. Here each task counts for which no include has to be run, which is the
same where nothing is to be changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from railyard.base import paths

REPO = paths.repo_root()
PLAYBOOKS = REPO / "playbooks"
MOST_TASKS = 22
# What runs once for all nodes is the first one's.
MOST_TASKS_ONCE = 12
STEPS = ("drivers", "network", "qos", "tuning", "nccl", "tools", "monitoring")

# They run on other hosts than the nodes.
OF_MONITORS = ["monitoring", "bmc_exporter"]
OTHERS = ["Uninstall on monitoring hosts and controller that are not nodes"]

Task = dict[str, Any]


def read(file: Path) -> list[Task]:
    found = yaml.safe_load(file.read_text(encoding="utf-8"))
    assert isinstance(found, list), file
    return found


def expand(tasks: list[Task], folder: Path, *, once: bool = False) -> Iterator[tuple[str, bool]]:
    """Yield the tasks that Ansible has before it runs any: name, and whether it runs once for all nodes."""
    for task in tasks:
        alone = once or bool(task.get("run_once"))
        imported = task.get("ansible.builtin.import_role")
        if "never" in task.get("tags", ()):
            continue
        if "ansible.builtin.import_tasks" in task:
            file = folder / task["ansible.builtin.import_tasks"]
            yield from expand(read(file), folder, once=alone)
        elif imported:
            role = REPO / "roles" / imported["name"]
            entry = Path(imported.get("tasks_from", "main")).stem
            specs = yaml.safe_load((role / "meta/argument_specs.yml").read_text())["argument_specs"]
            if entry in specs and imported.get("rolespec_validate", True):
                yield f"{role.name}: validate the variables", alone
            yield from expand(read(role / "tasks" / f"{entry}.yml"), role / "tasks", once=alone)
        elif "block" in task:
            yield from expand(task["block"], folder, once=alone)
        else:
            yield task["name"], alone


def plays(playbook: str) -> Iterator[Task]:
    """Yield a playbook's plays for nodes, those of imported playbooks too."""
    for play in read(PLAYBOOKS / playbook):
        if "import_playbook" in play:
            yield from plays(play["import_playbook"])
        elif play["hosts"] == "gpu_nodes":
            yield play


def tasks_of(playbook: str) -> list[tuple[str, bool]]:
    found = []
    for play in plays(playbook):
        assert "roles" not in play, f"{playbook}: a role that is imported as a task costs fewer tasks"
        for part in ("pre_tasks", "tasks"):
            found += list(expand(play.get(part, []), PLAYBOOKS))
    return found


def test_a_provision_that_changes_nothing_has_few_tasks() -> None:
    each = [name for name, once in tasks_of("provision.yml") if not once]
    once = [name for name, once in tasks_of("provision.yml") if once]
    assert 0 < len(each) <= MOST_TASKS, each
    assert 0 < len(once) <= MOST_TASKS_ONCE, once


@pytest.mark.parametrize("step", STEPS)
def test_a_role_that_does_not_check_its_variables_has_them_checked_by_its_playbook(step: str) -> None:
    parts = [
        task
        for play in plays(f"{step}.yml")
        for part in ("pre_tasks", "tasks")
        for task in play.get(part, [])
    ]
    [checked] = [task["vars"]["railyard_roles"] for task in parts if "railyard_roles" in task.get("vars", {})]
    imported = [
        task["ansible.builtin.import_role"] for task in parts if "ansible.builtin.import_role" in task
    ]
    of_nodes = [role for role in checked if role not in OF_MONITORS]
    assert of_nodes == [role["name"] for role in imported if role.get("rolespec_validate") is False]


def test_preflight_checks_the_variables_of_all_roles_of_a_provision() -> None:
    roles = [
        task["ansible.builtin.import_role"]["name"]
        for play in plays("provision.yml")
        for task in play.get("tasks", [])
        if task.get("ansible.builtin.import_role", {}).get("rolespec_validate") is False
    ]
    [checked] = [play["vars"]["railyard_roles"] for play in plays("preflight.yml") if "vars" in play]
    assert checked == [*roles, *OF_MONITORS]


def test_uninstall_removes_what_provision_brings_to_hosts_that_are_no_nodes() -> None:
    """In each play that returns such hosts, as the state that removes it, and node_metrics on nodes."""
    wanted = {(f"{role}_state", "absent") for role in (*OF_MONITORS, "continuous_validation")}
    for name in ("Uninstall, batch by batch", *OTHERS):
        [play] = [one for one in read(PLAYBOOKS / "uninstall.yml") if one["name"] == name]
        found = {
            state
            for task in play["tasks"]
            if "ansible.builtin.include_role" in task
            for state in task.get("vars", {}).items()
        }
        assert wanted <= found, name
        assert (("node_metrics_state", "absent") in found) == (name not in OTHERS)
