# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages of the npm registry that tests use, fetched once for each list of them.

A folder's packages.json maps what `npm pack` is called with (`NAME@VERSION`, or `FOLDER@npm:NAME@VERSION`) to
the digest of that archive as registries publish it (`npm view NAME@VERSION dist.integrity`). It lists what is
loaded and no more: `npm ci` would want a lock file of all that Grafana's packages depend on, maps included.
"""

from __future__ import annotations

import base64
import fcntl
import hashlib
import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest
from railyard.base import paths

_PLACE = paths.repo_root() / ".cache/npm"


def fetch(folder: Path) -> Path:
    """Return where the packages are that a folder's packages.json lists, or skip the test."""
    if not shutil.which("npm") or not shutil.which("node"):
        pytest.skip("npm is not here: Grafana's own code comes from its registry")
    place = _PLACE / folder.name
    listed = (folder / "packages.json").read_text(encoding="utf-8")
    stamp = place / "fetched.json"
    _PLACE.mkdir(parents=True, exist_ok=True)
    with (_PLACE / "lock").open("w") as held, tempfile.TemporaryDirectory() as archives:
        # Workers of pytest-xdist want it at the same time.
        fcntl.flock(held, fcntl.LOCK_EX)
        if not stamp.exists() or stamp.read_text(encoding="utf-8") != listed:
            argv = ["npm", "pack", "--ignore-scripts", "--pack-destination", archives, *json.loads(listed)]
            done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=900)
            if done.returncode:
                pytest.skip(f"npm cannot fetch {folder.name}: {done.stderr.strip()[-300:]}")
            shutil.rmtree(place, ignore_errors=True)
            unpack(json.loads(listed), Path(archives), place / "node_modules")
            stamp.write_text(listed, encoding="utf-8")
    return place


def unpack(listed: dict[str, str], archives: Path, modules: Path) -> None:
    """Unpack each listed package, whose archive must have the digest that the list gives."""
    found = {_digest(path): path for path in archives.iterdir()}
    for package, digest in listed.items():
        assert digest in found, (
            f"packages.json: no fetched archive of {package} has the digest {digest}: do not use it. "
            "Where you changed the version, write the new one's digest."
        )
        # The first @ may be that of the name's scope.
        target = modules / package[: package.index("@", 1)]
        with tempfile.TemporaryDirectory() as unpacked:
            subprocess.run(["tar", "-xf", found[digest], "-C", unpacked], check=True)
            (top,) = Path(unpacked).iterdir()
            shutil.copytree(top, target)


def _digest(path: Path) -> str:
    return f"sha512-{base64.b64encode(hashlib.sha512(path.read_bytes()).digest()).decode()}"
