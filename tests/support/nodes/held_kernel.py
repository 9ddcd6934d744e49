# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Kernel settings held on a made-up node, as the module kernel_settings does it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.kernel import originals, settings


def hold(root: Path, record: Any, wanted: settings.Wanted) -> tuple[Any, list[settings.Write]]:
    """Write what differs and what goes back; return the record, and what was written."""
    state = settings.read(str(root), wanted, record)
    held = settings.held(state, wanted, record)
    kept, released = originals.split(record, held, wanted.sections(), state)
    writes = settings.plan(state, held, released)
    settings.apply(str(root), writes)
    return originals.merged(kept, held, state), writes
