"""Every lock of the tree goes through `owner_lock`, where its mode and its time limit are."""

from __future__ import annotations

import re

from railyard.base.paths import repo_root

THE_PLACE = "owner_lock.py"
SOURCES = ("collections/ansible_collections/railyard/fabric/plugins", "tools", "roles", "benchmarks")


def test_no_other_file_locks_by_itself():
    found = [
        str(path)
        for source in SOURCES
        for path in (repo_root() / source).rglob("*.py")
        if path.name != THE_PLACE
        and re.search(r"\bfcntl\.(?:flock|lockf)\b|\bF_(?:OFD_)?SETLKW?\b", path.read_text("utf-8"))
    ]
    assert found == []


def test_there_is_such_a_place():
    path = repo_root() / SOURCES[0] / "module_utils" / THE_PLACE
    assert "fcntl.flock" in path.read_text("utf-8")
