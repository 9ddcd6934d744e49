# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tests of how files of a node are read that need not be there."""

from __future__ import annotations

import hashlib
from pathlib import Path

from ansible_collections.railyard.fabric.plugins.module_utils import node_files


def test_what_is_there_is_read(tmp_path: Path) -> None:
    (tmp_path / "b").write_bytes(b" 0x4\xff\n")
    (tmp_path / "a").touch()
    assert node_files.read_text(str(tmp_path / "b"), 2) == " 0"
    assert node_files.read_word(str(tmp_path / "b")) == "0x4\ufffd"
    assert node_files.list_names(str(tmp_path)) == ["a", "b"]
    assert node_files.sha256_of(str(tmp_path / "b")) == hashlib.sha256(b" 0x4\xff\n").hexdigest()


def test_what_is_not_there_is_no_error(tmp_path: Path) -> None:
    missing = str(tmp_path / "missing")
    assert node_files.read_text(missing) is None
    assert node_files.read_word(missing) == ""
    assert node_files.list_names(missing) == []
    assert node_files.sha256_of(missing) is None
    assert node_files.list_modules(str(tmp_path), "6.8.0") == []


def test_the_modules_are_those_depmod_knows(tmp_path: Path) -> None:
    folder = tmp_path / "lib/modules/6.8.0"
    folder.mkdir(parents=True)
    (folder / "modules.dep").write_text("kernel/a.ko.zst: kernel/b.ko.zst\nkernel/b.ko.zst:\n")
    assert node_files.list_modules(str(tmp_path), "6.8.0") == ["kernel/a.ko.zst", "kernel/b.ko.zst"]
