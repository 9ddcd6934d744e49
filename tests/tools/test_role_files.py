"""A role's files go to the node by managed_files, in one request."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import yaml
from railyard.base import paths

ROLES = paths.repo_root() / "roles"
WRITES = ("template", "lineinfile", "blockinfile")


def tasks_in(tasks: list[dict[str, Any]] | None) -> Iterator[dict[str, Any]]:
    """Yield all tasks of a file, those of blocks too."""
    for task in tasks or []:
        yield task
        for part in ("block", "rescue", "always"):
            yield from tasks_in(task.get(part))


def test_no_role_writes_a_file_by_itself() -> None:
    files = sorted(ROLES.glob("*/tasks/*.yml"))
    assert files
    found = []
    for file in files:
        for task in tasks_in(yaml.safe_load(file.read_text(encoding="utf-8"))):
            modules = [name.removeprefix("ansible.builtin.") for name in task]
            # A file of the controller's, which may be large, is no template: `copy` with `src`.
            copies = (task.get("ansible.builtin.copy") or {}).get("content") is not None
            if copies or any(name in WRITES for name in modules):
                found.append(f"{file.relative_to(ROLES)}: {task.get('name')}")
    assert found == [], "use railyard.fabric.managed_files, which writes all files of a role in one request"
