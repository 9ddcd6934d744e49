# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Document what filters take that join a node's rails with what the node has."""

from __future__ import annotations


class ModuleDocFragment:
    """Document what filters take that join a node's rails with what the node has, each option once."""

    DOCUMENTATION = r"""
options:
  _input:
    description: The node's rails as planned.
    type: list
    elements: dict
    required: true
  facts:
    description: RV(railyard.fabric.rail_info#module:rail_info) of the node.
    type: dict
    required: true
"""
