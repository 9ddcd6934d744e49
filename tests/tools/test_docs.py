"""What the documents point at is there: a map with a wrong street is worse than none."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from railyard.base.paths import repo_root

ROOT = repo_root()
PLUGINS = ROOT / "collections/ansible_collections/railyard/fabric/plugins"
DOCUMENTS = (
    "README.md",
    "CONTRIBUTING.md",
    "docs/architecture.md",
    "docs/inventory.md",
    "docs/layouts.md",
    "docs/parse.md",
)


def named_paths(text: str) -> set[str]:
    """Return what stands in backticks and looks like a path of this tree."""
    found = re.findall(r"`([\w./-]+/[\w./-]*|[\w-]+\.(?:py|yml|md))`", text)
    return {one for one in found if not one.startswith(("/", "http")) and "<" not in one}


def where(path: str) -> list[Path]:
    """Return the places that a written path may mean."""
    if path.startswith("F/"):
        return [PLUGINS / path[2:]]
    # Inside a run folder, a role or the collection the documents name files shortly.
    return [ROOT / path, PLUGINS / path, PLUGINS / "module_utils" / path]


# Names of things that a run or a user makes.
MADE = re.compile(
    r"^(reports/|raw/|inventories/mine|\.venv|group_vars/|plugins/|expected/)|\.jsonl$|^(hosts|fabric)\.yml$|^report\.md$"
)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_path_in_a_document_exists(document: str) -> None:
    paths = named_paths((ROOT / document).read_text(encoding="utf-8"))
    missing = [
        path for path in paths if not MADE.search(path) and not any(one.exists() for one in where(path))
    ]
    assert missing == []


def test_the_map_names_the_three_places_that_a_reader_asks_for() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    for idea, path, name in (
        ("a rail's address is computed", "module_utils/rails/plan.py", "def plan_node("),
        ("netplan is rendered", "module_utils/netplan/render.py", "def render("),
        ("a verdict is decided", "plugin_utils/judge/verdict.py", "def judge("),
    ):
        assert re.search(rf"\| {re.escape(idea)} \| `F/{re.escape(path)}`", text), idea
        assert name in (PLUGINS / path).read_text(encoding="utf-8")


@pytest.mark.parametrize("pins", ["3.11", "3.11-develop", "3.12", "3.12-develop"])
def test_each_pin_has_the_hashes_of_its_files_and_names_no_index(pins):
    text = (ROOT / f"requirements/python{pins}.txt").read_text(encoding="utf-8")
    lines = [line for line in text.replace("\\\n", " ").splitlines() if not line.startswith("#")]
    assert len(lines) > 20
    assert [
        line for line in lines if not re.fullmatch(r"\S+==\S+( +--hash=sha256:[0-9a-f]{64})+", line)
    ] == []
