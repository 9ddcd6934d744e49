# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Packages of the npm registry that tests use, fetched once for each lock file."""

from __future__ import annotations

import fcntl
import shutil
import subprocess
from pathlib import Path

import pytest
from railyard.base import paths

_PLACE = paths.repo_root() / ".cache/npm"


def fetch(folder: Path) -> Path:
    """Return where the packages are that a folder's package-lock.json names, or skip the test."""
    if not shutil.which("npm") or not shutil.which("node"):
        pytest.skip("npm is not here: Grafana's own code comes from its registry")
    place = _PLACE / folder.name
    lock = (folder / "package-lock.json").read_text(encoding="utf-8")
    stamp = place / "fetched.lock"
    place.mkdir(parents=True, exist_ok=True)
    with (_PLACE / "lock").open("w") as held:
        # Workers of pytest-xdist want it at the same time.
        fcntl.flock(held, fcntl.LOCK_EX)
        return _fetch(folder, place, stamp, lock)


def _fetch(folder: Path, place: Path, stamp: Path, lock: str) -> Path:
    if not stamp.exists() or stamp.read_text(encoding="utf-8") != lock:
        for name in ("package.json", "package-lock.json"):
            shutil.copy(folder / name, place / name)
        argv = ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"]
        done = subprocess.run(argv, cwd=place, capture_output=True, text=True, check=False, timeout=900)
        if done.returncode:
            pytest.skip(f"npm cannot fetch {folder.name}: {done.stderr.strip()[-300:]}")
        stamp.write_text(lock, encoding="utf-8")
    return place
