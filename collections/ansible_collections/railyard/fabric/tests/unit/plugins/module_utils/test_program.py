# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The runner as it is uploaded: the same bytes every time, whole, run by the oldest Python of nodes."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils import program
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import orders

RUNNER = "runner.main"


def test_the_same_sources_give_the_same_bytes() -> None:
    first = program.build(RUNNER, program.loaded)
    # The controller reads files, a node asks the loader that Ansible gave it.
    assert first == orders.program()[0] == program.build(RUNNER, program.loaded)

    def changed(name: str) -> str | None:
        source = program.loaded(name)
        return f"{source}\n# changed\n" if name == "measure.proof" else source

    assert program.build(RUNNER, changed) != first


def test_it_holds_what_the_runner_imports_and_nothing_else() -> None:
    names = set(program.needed(RUNNER, program.loaded))
    assert {
        "runner.main",
        "rails.plan",
        "schedule.rounds",
        "parsers.common",
        "parsers.iperf3.output",
    } <= names
    assert not [
        name
        for name in names
        if name.startswith(("netplan", "facts.netdev", "facts.node", "parsers.gpu.dcgmi"))
    ]
    with zipfile.ZipFile(BytesIO(program.build(RUNNER, program.loaded))) as packed:
        assert packed.testzip() is None
        text = "\n".join(packed.read(name).decode() for name in packed.namelist())
    for line in text.splitlines():
        assert not line.startswith(("import ansible", "from ansible.", "from ansible import"))


def test_a_missing_module_is_reported() -> None:
    with pytest.raises(ValueError, match="gone"):
        program.build("gone", {}.get)


def test_relative_imports_are_followed() -> None:
    sources = {
        "a.b": "from . import c\nfrom ..d.e import f\nfrom .. import g, absent\nfrom ... import other\n",
        "a.c": f"from {program.PACKAGE} import h\n",
        **dict.fromkeys(("d.e", "d.other", "g", "h", "other"), ""),
    }
    assert program.needed("a.b", sources.get).keys() == {"a.b", "a.c", "d.e", "g", "h"}


def test_it_runs_by_itself_and_says_what_is_wrong_with_an_order(tmp_path: Path) -> None:
    packed = tmp_path / "runner.pyz"
    packed.write_bytes(program.build(RUNNER, program.loaded))
    order = tmp_path / "order.json"
    order.write_text("{}")
    oldest = sorted(Path.home().glob(".pyenv/versions/3.9.*/bin/python"))
    for python in [sys.executable, *map(str, oldest)]:
        argv = [python, "-I", str(packed), str(order), "--folder", str(tmp_path), "--launcher", "direct"]
        done = subprocess.run(argv, capture_output=True, text=True, check=False, cwd="/")
        assert done.returncode == 2, done.stderr
        assert f"runner: {order}: key 'schema' is missing" in done.stderr


def test_the_oldest_python_is_tried_where_it_is_found() -> None:
    if not sorted(Path.home().glob(".pyenv/versions/3.9.*/bin/python")):
        pytest.skip("no Python 3.9 under ~/.pyenv: the runner was tried with this Python only")
