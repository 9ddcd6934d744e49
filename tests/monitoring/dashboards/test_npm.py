# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A package of npm is unpacked where its archive is the listed one, and nothing of it otherwise."""

from __future__ import annotations

import base64
import hashlib
import tarfile
from pathlib import Path

import pytest
from support.monitoring import npm


def test_an_archive_of_another_digest_is_refused(tmp_path: Path) -> None:
    source, archives, modules = tmp_path / "package", tmp_path / "archives", tmp_path / "node_modules"
    for folder in (source, archives):
        folder.mkdir()
    (source / "index.js").write_text("module.exports = 1;\n", encoding="utf-8")
    archive = archives / "scope-made-1.0.0.tgz"
    with tarfile.open(archive, "w:gz") as packed:
        packed.add(source, "package")
    digest = "sha512-" + base64.b64encode(hashlib.sha512(archive.read_bytes()).digest()).decode()
    listed = {"@scope/made@1.0.0": digest}
    npm.unpack(listed, archives, modules)
    assert [path.name for path in (modules / "@scope/made").iterdir()] == ["index.js"]
    archive.write_bytes(archive.read_bytes() + b"\0")
    with pytest.raises(AssertionError, match=r"no fetched archive of @scope/made@1\.0\.0 has the digest"):
        npm.unpack(listed, archives, tmp_path / "other")
    assert not (tmp_path / "other").exists()
