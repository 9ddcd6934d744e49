#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin fabric_confirm, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_confirm
short_description: Plan further tests of the suspects of a run
version_added: "0.1.0"
description:
  - Reads what all nodes measured. Where a node, a rail of a node or the path of a pair may be slow and too
    few of its tests show it, it writes a second test schedule, C(confirm_order.json). In it suspects meet
    nodes that are known to be good, and a pair meets again.
  - What that order asks is added to C(asked.jsonl) and judged as everything else.
  - If the run was judged for this and no node measures further, the run ends, and the judgement is kept in
    the folder for M(railyard.fabric.fabric_judge).
  - Nothing further is planned with fewer than three nodes, with C(fabric_policy.confirm) 0, or where most
    verdicts of the suspect are good.
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
    support: none
    details: There is no run folder in check mode.
  diff_mode:
    support: N/A
    details: It changes nothing on a node that could be shown as a difference.
  idempotent:
    support: full
    details: A run has one second order; it is not made again.
"""

EXAMPLES = r"""
- name: Plan further tests of the suspects
  railyard.fabric.fabric_confirm:
    folder: "{{ opened.folder }}"
  register: confirm
  run_once: true
"""

RETURN = r"""
nodes:
  description: Nodes that measure further. Empty for most runs.
  returned: success
  type: list
  elements: str
  sample: [gpuserver1, gpuserver4]
rounds:
  description: Number of rounds of the second order.
  returned: success
  type: int
  sample: 3
judgement:
  description: The digest of the judgement that is kept. Empty where the folder has to be judged again.
  returned: success
  type: str
  sample: ""
"""
