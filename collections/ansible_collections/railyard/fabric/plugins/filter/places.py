# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Where the controller keeps run folders, for roles that read them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.run import places


def reports_dir(named: str | None) -> str:
    """Return the folder of run folders on the controller; see reports_dir.yml."""
    return str(named or places.reports_dir())


class FilterModule:
    """What Ansible asks for the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {"reports_dir": reports_dir}
