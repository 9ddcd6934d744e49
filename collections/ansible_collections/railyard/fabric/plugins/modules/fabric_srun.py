#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name; nothing runs on the node under this name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_srun
short_description: Inspect or measure all nodes of a Slurm allocation by srun
version_added: "0.1.0"
description:
  - Takes the place of the actions that reach the nodes by SSH. One C(srun) starts a program on every node of
    the allocation that this process is in; program, test schedule, facts and results pass by its standard
    input and output.
  - The program is root there, or becomes so by C(sudo -n); a node where it does not is named, and what to do.
  - Runner and tools are in the step's control group, so that C(scancel) and the job's time limit end them.
  - Nodes that are not in the allocation are unreachable to the run.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
attributes:
  check_mode:
    support: none
  diff_mode:
    support: none
  idempotent:
    support: N/A
    details: Each call inspects or measures anew.
options:
  folder:
    description: The run folder on the controller, as M(railyard.fabric.fabric_open) returns it.
    type: path
    required: true
  state:
    description:
      - V(inspected) reads the nodes' facts into the run folder.
      - V(measured) runs the test schedule and fetches what each node measured.
    type: str
    choices: [inspected, measured]
    required: true
  part_of_node:
    description: Accept an allocation of some of a node's processors, which O(state=inspected) refuses.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Inspect the nodes
  railyard.fabric.fabric_srun:
    folder: "{{ opened.folder }}"
    state: inspected
  run_once: true
"""

RETURN = r"""
nodes:
  description: The nodes that did their part.
  returned: success
  type: list
  elements: str
  sample: [gpuserver1, gpuserver2]
failed_nodes:
  description: Why each of the others did not.
  returned: success
  type: dict
  sample: {gpuserver3: it is not in allocation 614}
"""
