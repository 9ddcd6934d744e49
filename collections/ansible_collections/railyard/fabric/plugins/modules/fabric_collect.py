#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin fabric_collect, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_collect
short_description: Fetch what a node measured
version_added: "0.1.0"
description:
  - Ends what is left of the run on the node, fetches its packed results to C(raw/<node>.tar.gz), and
    appends its rows
    to C(results.jsonl). Only complete rows that this node wrote for its ends of this run's tests are kept.
  - The archive is fetched as a file. It is readable for the connecting user only, and for that time only.
  - When the rows are safe, the node is cleared of the run.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
options:
  folder:
    description: The run folder, as M(railyard.fabric.fabric_open) returns it.
    type: path
    required: true
  keep:
    description: Leave the run's results on the node.
    type: bool
    default: false
  launcher:
    description: How the run was started; see M(railyard.fabric.fabric_run).
    type: str
    choices: [systemd, direct]
    default: systemd
attributes:
  check_mode:
    support: none
    details: There is no run in check mode.
  diff_mode:
    support: N/A
    details: It changes nothing on a node that could be shown as a difference.
  idempotent:
    support: full
    details: Rows that are in the folder already are not appended again.
"""

EXAMPLES = r"""
- name: Open the run folder
  railyard.fabric.fabric_open:
    reports_dir: "{{ playbook_dir }}/../reports"
  register: opened
  run_once: true

- name: Fetch what each node measured
  railyard.fabric.fabric_collect:
    folder: "{{ opened.folder }}"
  register: collected
  ignore_errors: true
  ignore_unreachable: true
"""

RETURN = r"""
rows:
  description: Rows that were new in the folder.
  returned: success
  type: int
  sample: 24
archive:
  description: The archive, relative to the run folder; null when the node holds nothing of the run.
  returned: success
  type: str
  sample: raw/gpuserver1.tar.gz
notes:
  description: What was left out, and why.
  returned: success
  type: list
  elements: str
  sample: []
"""
