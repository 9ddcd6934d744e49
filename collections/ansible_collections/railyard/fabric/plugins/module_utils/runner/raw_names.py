# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Names of raw tool outputs on a node, in its archive and in the run folder."""

from __future__ import annotations


def archive_name(node: str, confirms: bool) -> str:
    """Return the name of a node's archive in the run folder, of the first or the confirming schedule."""
    return f"{node}.confirm.tar.gz" if confirms else f"{node}.tar.gz"


def raw_name(identity: object, end: object, attempt: object = 1) -> str:
    """Return the file name of a tool's output at one end of a test, also inside the archive."""
    return f"{identity}.{end}.txt" if attempt == 1 else f"{identity}.{end}.{attempt}.txt"
