# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Document what filters take that plan a node from the fabric."""

from __future__ import annotations


class ModuleDocFragment:
    """Document what filters take that plan a node from the fabric, each option once."""

    DOCUMENTATION = r"""
options:
  _input:
    description: The inventory's C(fabric).
    type: dict
    required: true
  name:
    description: The node's inventory name.
    type: str
    required: true
  node_index:
    description: The node's index; if not set, the number that ends its name.
    type: int
"""
