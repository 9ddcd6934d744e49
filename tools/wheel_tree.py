"""Put playbooks, roles, the collection and the end-state tests, which the command uses, into a wheel.

setuptools calls it (pyproject.toml). An editable install uses the checkout itself and gets no copy.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from setuptools.command.build_py import build_py  # type: ignore[import-untyped]

#: Where it lies in the package; `railyard.TREE` finds it there.
NAME = "_tree"
#: As they lie in a checkout, so that a path is the same in both.
PARTS = (
    "ansible.cfg",
    "collections/ansible_collections/railyard",
    "docs/schema",
    "inventories",
    "LICENSE",
    "playbooks",
    "pyproject.toml",
    "roles",
    "site.yml",
    "tests/end_state",
)
# The collection's unit tests, what a lab wrote into its inventory, and what programs leave behind.
_LEFT_OUT = (
    "__pycache__",
    "*.pyc",
    "generated.yml",
    "fragments",
    "unit",
    "sanity",
    "output",
    ".*_cache",
    ".lab",
    ".ansible",
)


class BuildTree(build_py):  # type: ignore[misc] # setuptools ships no types
    """setuptools' own step, then the tree."""

    def run(self) -> None:
        """Copy the tree into the build folder."""
        super().run()
        if not self.editable_mode:
            copy_tree(Path(__file__).resolve().parents[1], Path(self.build_lib, "railyard", NAME))


def copy_tree(checkout: Path, target: Path) -> None:
    """Copy the parts of a checkout into a folder that is made anew."""
    shutil.rmtree(target, ignore_errors=True)
    for part in PARTS:
        source, place = checkout / part, target / part
        place.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.copytree(source, place, ignore=shutil.ignore_patterns(*_LEFT_OUT))
        else:
            shutil.copy2(source, place)
