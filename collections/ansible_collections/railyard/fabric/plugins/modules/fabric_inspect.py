#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin fabric_inspect, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_inspect
short_description: Read a node's facts into the run folder
version_added: "0.1.0"
description:
  - Runs M(railyard.fabric.rail_info) on the node and appends its row to C(facts.jsonl).
  - A node that cannot be reached is unreachable, as with any module. It stays in the test plan, and its
    checks are unmeasured.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
options:
  folder:
    description: The run folder, as M(railyard.fabric.fabric_open) returns it.
    type: path
    required: true
attributes:
  check_mode:
    support: full
    details: It reads only; the row is appended all the same, into a folder that exists.
  diff_mode:
    support: N/A
    details: It changes nothing on a node that could be shown as a difference.
  idempotent:
    support: full
    details: A row that is in the folder already is not appended again.
"""

EXAMPLES = r"""
- name: Open the run folder
  railyard.fabric.fabric_open:
    reports_dir: "{{ playbook_dir }}/../reports"
  register: opened
  run_once: true

- name: Inspect the nodes
  railyard.fabric.fabric_inspect:
    folder: "{{ opened.folder }}"
  register: inspected
  ignore_errors: true
  ignore_unreachable: true
"""

RETURN = r"""
inspected:
  description: That the node's facts are in the folder.
  returned: success
  type: bool
  sample: true
"""
