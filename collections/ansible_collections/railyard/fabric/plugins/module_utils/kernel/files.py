# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read values of kernel files, and check whether root may write them here."""

from __future__ import annotations

import os

from .. import node_files


def read(path: str) -> str | None:
    """Return the text without its newline, None when it is absent or cannot be read (an offline CPU)."""
    text = node_files.read_text(path)
    return None if text is None else text.strip()


def read_settable(path: str) -> str | None:
    """Return the value; None also where it is read-only.

    Newer kernels show net.core.rmem_max and similar values in every network namespace; only the first may set
    them. What a container shares with its host is mounted read-only.
    """
    try:
        may_be_set = os.stat(path).st_mode & 0o222 and not os.statvfs(path).f_flag & os.ST_RDONLY
    except OSError:
        return None
    return read(path) if may_be_set else None
