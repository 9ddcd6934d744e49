#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""Documentation of the action plugin of the same name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: preflight
short_description: Refuse a wrong inventory before any node is touched
version_added: 0.1.0
description:
  - Checks C(fabric) and the host variables of all hosts in group C(gpu_nodes), as C(railyard plan) does.
  - Where monitoring is turned on, its variables are checked too, of nodes and of group C(monitoring).
  - All problems are reported at once, each with file (or variable), host, rail and what to write instead.
  - Runs on the controller and opens no connection. Use it with C(run_once).
  - The hosts outside the limit are checked as well, since an address must be free among all of them.
options:
  known_tags:
    description:
      - The tags of all plays. Another one behind C(--tags), and one behind C(--skip-tags) that is nearly one
        of these, is a problem. Without this option tags are not checked.
    type: list
    elements: str
  roles:
    description:
      - Roles that will run on each host of C(gpu_nodes) within the limit. Their variables are checked by
        their C(meta/argument_specs.yml), as each role does where it is run alone. A value that needs facts of
        the node is not checked, since there are none yet.
      - Role C(monitoring) runs on the hosts of group C(monitoring), and is checked for these.
    type: list
    elements: str
    default: []
    version_added: "0.3.0"
  measures:
    description:
      - Whether the playbook measures as well. The cost is then reported, and above half an hour it is a
        problem unless variable C(railyard_allow_long) is true. Not so where tags leave the measurement out.
    type: bool
    default: false
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
notes:
  - C(fabric), C(node_index), C(scalable_unit) and C(rail_overrides) must come from the inventory. Given as
    extra variables, or changed by the play, they are refused, since the plan would not see them; so are extra
    variables that are nearly called as one of Railyard's.
  - Variables C(railyard_pattern), C(railyard_questions), C(railyard_lease_s) and C(railyard_slurm_job) lie
    over the keys of C(fabric_policy) that are called so, for this run alone.
  - Variable C(railyard_time_factor), by which the time limits of tasks are multiplied, must be a number from
    1 to 100.
"""

EXAMPLES = r"""
- name: Check before changing anything
  railyard.fabric.preflight:
  run_once: true
"""

RETURN = r"""
nodes:
  description: How many hosts of C(gpu_nodes) are within the limit.
  returned: always
  type: int
  sample: 2
problems:
  description: What is wrong, empty when the inventory is sound.
  returned: always
  type: list
  elements: dict
  contains:
    file:
      description: File and line, or the variable if no file is known.
      type: str
      sample: inventories/lab/group_vars/all/fabric.yml:7
    host:
      description: The host, or several folded into one name, or null.
      type: str
      sample: gpu[001-004]
    rail:
      description: The rail, or null.
      type: str
      sample: rail0
    message:
      description: What is wrong, the variable first.
      type: str
      sample: "fabric.rails[0].subnet: the rail has no subnet"
    fix:
      description: What to write instead.
      type: str
      sample: "add `subnet: 10.0.1.0/24`"
"""
