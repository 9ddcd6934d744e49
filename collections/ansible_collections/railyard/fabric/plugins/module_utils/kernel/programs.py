# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Install modules of this package on the node as programs, for a unit or a udev rule to run."""

from __future__ import annotations

import os
import types
import typing as t

from .. import atomic_files, node_files


def hold(
    path: str | None, module: types.ModuleType, wanted: bool, check_mode: bool
) -> list[dict[str, t.Any]]:
    """Install a module as a program, or remove it.

    Args:
        path: Where; None changes nothing.
        module: The module, which imports the standard library alone.
        wanted: Whether to install it.
        check_mode: Report what would change, and change nothing.

    Returns:
        The diff; empty when it is so already.
    """
    if path is None:
        return []
    # Ansible ships module_utils inside a zip file, so the source comes from the loader, not from the disk.
    loader: t.Any = module.__loader__
    after = str(loader.get_source(module.__name__)) if wanted else ""
    before = node_files.read_text(path) or ""
    if before == after:
        return []
    if not check_mode and wanted:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        atomic_files.write_file(path, after, mode=0o644)
    elif not check_mode:
        os.remove(path)
    return [{"before_header": path, "after_header": path, "before": before, "after": after}]
