# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""How the tools' own words are called on a node, in its archive and in the run folder."""

from __future__ import annotations


def archive_name(node: str, confirms: bool) -> str:
    """Return how the run folder calls a node's archive: that of its work order, or of the second one."""
    return f"{node}.confirm.tar.gz" if confirms else f"{node}.tar.gz"


def raw_name(identity: object, end: object, attempt: object = 1) -> str:
    """Return the name of the file with the tool's own words at an end of a test, also inside the archive."""
    return f"{identity}.{end}.txt" if attempt == 1 else f"{identity}.{end}.{attempt}.txt"
