# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Document what filters take that look at a node's GPUs and driver."""

from __future__ import annotations


class ModuleDocFragment:
    """Document what filters take that look at a node's GPUs and driver, each option once."""

    DOCUMENTATION = r"""
options:
  _input:
    description: The node's GPUs and driver, as RV(railyard.fabric.gpu_info#module:gpu_info) has them.
    type: dict
    required: true
"""
