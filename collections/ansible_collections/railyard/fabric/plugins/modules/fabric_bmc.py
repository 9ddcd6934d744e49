#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin fabric_bmc, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_bmc
short_description: Check that the nodes' BMCs answer
version_added: "0.1.0"
description:
  - Opens a TCP connection to the BMC of every node whose inventory has C(bmc_address), from the controller
    and without logging in, and once more, 10 s later, where nothing was heard.
  - Writes a row of C(results.jsonl) for each; M(railyard.fabric.fabric_judge) makes the verdicts of them.
  - C(fabric_policy.bmc_check) enables it, C(fabric_policy.bmc_tcp_ports) are the ports,
    C(fabric_policy.bmc_timeout_s) for how long.
  - Many BMCs are checked at a time, so that a thousand silent ones take less than three minutes.
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
    support: N/A
    details: It only sends queries.
"""

EXAMPLES = r"""
- name: Check that the BMCs answer
  railyard.fabric.fabric_bmc:
    folder: "{{ opened.folder }}"
  run_once: true
"""

RETURN = r"""
asked:
  description: Number of BMCs that were checked.
  returned: success
  type: int
  sample: 4
answered:
  description: Number of those that answered.
  returned: success
  type: int
  sample: 3
silent:
  description: Nodes whose BMC did not answer.
  returned: success
  type: list
  elements: str
  sample: [gpu2]
"""
