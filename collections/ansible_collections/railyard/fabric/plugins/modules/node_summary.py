#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_summary
short_description: Report once what all nodes of a play reported
version_added: "0.3.0"
description:
  - Reads a fact of each host of the play and prints it, hosts that say the same folded into one name.
  - Runs on the controller and opens no connection. Use it with C(run_once).
  - A host without the fact is listed as not contacted.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
options:
  fact:
    description: Which fact; each has its own text.
    type: str
    required: true
    choices: [railyard_driver_plan, railyard_uninstall_plan, railyard_waits, roce_qos_plan]
  heading:
    description: The line above.
    type: str
    required: true
  nothing:
    description: The line if no host has anything to report.
    type: str
    required: true
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Report pending actions
  railyard.fabric.node_summary:
    fact: railyard_waits
    heading: "What waits for your confirmation:"
    nothing: Nothing waits.
  run_once: true
"""

RETURN = r"""
lines:
  description: What was printed, without the heading.
  returned: always
  type: list
  elements: str
  sample: ["gpu[001-004]:", "  nvidia_driver: load driver 580: 570 is loaded"]
"""
