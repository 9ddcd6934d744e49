# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Files below the root of a fabricated node."""

from __future__ import annotations

from pathlib import Path


def write(root: Path, path: str, text: str = "", mode: int = 0o644) -> Path:
    """Write a file that the node has at `path`, with its folders."""
    file = root / path.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    file.chmod(mode)
    return file
