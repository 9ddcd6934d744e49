"""Test `railyard lint-nccl` on public files, which PUBLIC_FILES.md lists with what each must show."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl import env_file
from ansible_collections.railyard.fabric.plugins.plugin_utils.nccl.lint import lint
from railyard.base import paths

_ROOT = paths.repo_root()
FOLDER = Path(os.environ.get("RAILYARD_PUBLIC_FILES", _ROOT.parent / "shared" / "public-scripts"))
_LIST = (_ROOT / "tests" / "tools" / "nccl" / "PUBLIC_FILES.md").read_text()


def _rows() -> dict[str, tuple[int, str]]:
    """Return number of settings, and errors and unknown, of each file of the list."""
    found: dict[str, tuple[int, str]] = {}
    repository = ""
    for line in _LIST.splitlines():
        if heading := re.fullmatch(r"### (\S+) @ [0-9a-f]{40}", line):
            repository = heading[1].replace("/", "+", 1)
        elif row := re.fullmatch(r"\| (\S+) \| (\d+) \| \d \| (.*?) *\| .*", line):
            found[f"{repository}/{row[1]}"] = (int(row[2]), row[3])
    return found


ROWS = _rows()


def test_the_list_is_long_enough() -> None:
    assert len(ROWS) > 50


@pytest.mark.skipif(not FOLDER.is_dir(), reason=f"{FOLDER} is not there: see PUBLIC_FILES.md")
@pytest.mark.parametrize("name", ROWS)
def test_a_public_file(name: str) -> None:
    file = FOLDER / name
    if not file.exists():
        pytest.skip(f"{file} is not there: PUBLIC_FILES.md says where it is from")
    found = env_file.read(file.read_text(errors="replace"), name)
    reported = [
        f"{one.line} {one.variable or one.code} {one.severity}"
        for one in lint(found)
        if one.severity in ("error", "unknown")
    ]
    assert (len(found.settings), "; ".join(reported)) == ROWS[name]
