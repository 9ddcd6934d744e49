# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Document what filters take that compare a node before and after a reboot."""

from __future__ import annotations


class ModuleDocFragment:
    """Document what filters take that compare a node before and after a reboot, each option once."""

    DOCUMENTATION = r"""
options:
  _input:
    description: What was read before, as P(railyard.fabric.reboot_differences#filter) takes it.
    type: dict
    required: true
  after:
    description: The same, read after the reboot.
    type: dict
    required: true
"""
