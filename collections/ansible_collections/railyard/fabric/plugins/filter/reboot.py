# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What playbooks/reboot.yml asks before a reboot, and compares after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.reboot import compare, guard


class FilterModule:
    """What Ansible asks for the filters of this file."""

    def filters(self) -> dict[str, Callable[..., Any]]:
        """Return the filters by name."""
        return {
            "reboot_announcement": guard.announcement,
            "reboot_differences": compare.differences,
            "reboot_kernel_change": compare.kernel_change,
            "reboot_kernel_unexpected": compare.unexpected_kernel,
            "reboot_refusals": guard.refusals,
        }
