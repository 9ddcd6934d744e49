# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The runner as it is uploaded: the same bytes every time, whole, run by the oldest Python of nodes."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import program as runner_zipapp

MODULE_UTILS = Path(runner_zipapp.__file__).parents[1] / "module_utils"


def test_the_same_sources_give_the_same_bytes(tmp_path: Path) -> None:
    copy = tmp_path / "elsewhere"
    shutil.copytree(MODULE_UTILS, copy, ignore=shutil.ignore_patterns("__pycache__"))
    first, second = runner_zipapp.build(MODULE_UTILS), runner_zipapp.build(copy)
    assert first == second
    (copy / "proof.py").write_text((copy / "proof.py").read_text() + "\n# changed\n")
    assert runner_zipapp.build(copy).sha256 != first.sha256


def test_it_holds_what_the_runner_imports_and_nothing_else() -> None:
    names = runner_zipapp.needed(MODULE_UTILS)
    assert {"runner.py", "rails.py", "schedule.py", "parsers/__init__.py", "parsers/iperf3.py"} <= set(names)
    assert not [name for name in names if name.startswith(("netplan", "sysfs_netdev", "host_facts"))]
    with zipfile.ZipFile(BytesIO(runner_zipapp.build(MODULE_UTILS).data)) as packed:
        assert packed.testzip() is None
        text = "\n".join(packed.read(name).decode() for name in packed.namelist())
    for line in text.splitlines():
        assert not line.startswith(("import ansible", "from ansible.", "from ansible import"))


def test_it_runs_by_itself_and_says_what_is_wrong_with_an_order(tmp_path: Path) -> None:
    program = tmp_path / "runner.pyz"
    program.write_bytes(runner_zipapp.build(MODULE_UTILS).data)
    order = tmp_path / "order.json"
    order.write_text("{}")
    oldest = sorted(Path.home().glob(".pyenv/versions/3.9.*/bin/python"))
    for python in [sys.executable, *map(str, oldest)]:
        argv = [python, "-I", str(program), str(order), "--folder", str(tmp_path), "--launcher", "direct"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd="/")
        assert done.returncode == 2, done.stderr
        assert f"runner: {order}: key 'schema' is missing" in done.stderr


def test_the_oldest_python_is_tried_where_it_is_found() -> None:
    if not sorted(Path.home().glob(".pyenv/versions/3.9.*/bin/python")):
        pytest.skip("no Python 3.9 under ~/.pyenv: the runner was tried with this Python only")
