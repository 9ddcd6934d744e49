# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read files and folders of a node of which it is ordinary that they are not there, or cannot be read."""

from __future__ import annotations

import hashlib
import os


def read_text(path: str, most_characters: int = -1) -> str | None:
    """Return a file's text, or its beginning; None where it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace") as handle:
            return handle.read(most_characters)
    except OSError:
        return None


def read_word(path: str, most_characters: int = -1) -> str:
    """Return a file's text without the white space around it; empty where it cannot be read."""
    return (read_text(path, most_characters) or "").strip()


def list_names(folder: str) -> list[str]:
    """Return the names in a folder in their order; none where it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


def list_modules(root: str, kernel: str) -> list[str]:
    """Return the files of a kernel's modules that depmod knows, below `root`/lib/modules/`kernel`."""
    known = read_text(os.path.join(root, "lib/modules", kernel, "modules.dep")) or ""
    return [line.partition(":")[0].strip() for line in known.splitlines()]


def sha256_of(path: str) -> str | None:
    """Return the SHA-256 of a file in hexadecimal digits; None where it cannot be read."""
    digest = hashlib.sha256()
    try:
        with open(path, "rb") as handle:
            for piece in iter(lambda: handle.read(1 << 20), b""):
                digest.update(piece)
    except OSError:
        return None
    return digest.hexdigest()
