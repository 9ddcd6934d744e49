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

#: Both ports of the card and the way in, word for word as the notes of the first cluster have it.
NOTES = """network:
  version: 2
  ethernets:
    enp5s0:
      dhcp4: true
    enp6s0:
      dhcp4: true
      optional: true
    ens6:
      dhcp4: false
      addresses:
        - 10.0.1.1/24
      mtu: 9000
      optional: true
    ens6d1:
      dhcp4: false
      addresses:
        - 10.0.0.1/24
      mtu: 9000
      optional: true
"""


def generate(root: Path, files: Mapping[str, str]) -> dict[str, str]:
    """Have netplan read files by their paths on a node, without a word; return networkd's, by name."""
    for path, text in files.items():
        write(root, path, text, 0o600)
    argv = ["netplan", "generate", "--root-dir", str(root)]
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return {path.name: path.read_text() for path in (root / "run/systemd/network").iterdir()}
