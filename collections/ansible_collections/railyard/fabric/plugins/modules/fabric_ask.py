#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin fabric_ask, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_ask
short_description: Write the test plan of a measuring run
version_added: "0.1.0"
description:
  - Writes C(asked.jsonl), one line for each planned test, and C(work_order.json), the part of the test
    schedules that all nodes share. Both follow from the plan, the facts and the policy.
  - Nodes without facts stay planned, and are C(absent) in the test schedule, so that no node waits for them.
  - The manifest keeps the number and hash of the planned tests, so that a line lost later is noticed.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
options:
  folder:
    description: The run folder, as M(railyard.fabric.fabric_open) returns it.
    type: path
    required: true
  rails:
    description: Ask these rails only. Omitted, all.
    type: list
    elements: str
attributes:
  check_mode:
    support: none
    details: There is no run folder in check mode.
  diff_mode:
    support: N/A
    details: It changes nothing on a node that could be shown as a difference.
  idempotent:
    support: full
    details: The same plan, facts and policy give the same bytes.
"""

EXAMPLES = r"""
- name: Open the run folder
  railyard.fabric.fabric_open:
    reports_dir: "{{ playbook_dir }}/../reports"
  register: opened
  run_once: true

- name: Write the test plan
  railyard.fabric.fabric_ask:
    folder: "{{ opened.folder }}"
  run_once: true
"""

RETURN = r"""
asked:
  description: Number of planned tests.
  returned: success
  type: int
  sample: 38
absent:
  description: Nodes that did not answer.
  returned: success
  type: list
  elements: str
  sample: []
"""
