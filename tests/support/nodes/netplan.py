# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the real netplan makes of files, below a root of the test's own."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest

from support.nodes.files import write

needs_netplan = pytest.mark.skipif(
    shutil.which("netplan") is None, reason="netplan.io is not installed on this machine"
)


def generate(root: Path, files: Mapping[str, str]) -> dict[str, str]:
    """Have netplan read files by their paths on a node, without a word; return networkd's, by name."""
    for path, text in files.items():
        write(root, path, text, 0o600)
    argv = ["netplan", "generate", "--root-dir", str(root)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return {path.name: path.read_text() for path in (root / "run/systemd/network").iterdir()}
