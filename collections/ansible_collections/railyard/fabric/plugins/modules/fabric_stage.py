#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name; nothing runs on the node under this name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_stage
short_description: Stage a run's test schedule and the runner on a node
version_added: "0.1.0"
description:
  - Takes the node's lease for the run, and writes the node's test schedule there with mode 0600.
  - Builds the runner, a zip of standard-library Python; the same sources give the same bytes.
  - Uploads it only when the node does not have it yet.
  - Reads the order's common part, the node's facts and the secret from the run folder.
  - The secret is never in a variable.
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
options:
  folder:
    description: The run folder on the controller, as M(railyard.fabric.fabric_open) returns it.
    type: path
    required: true
  launcher:
    description: As in M(railyard.fabric.fabric_run).
    type: str
    choices: [systemd, direct]
    default: systemd
"""

EXAMPLES = r"""
- name: Lay order and runner ready
  railyard.fabric.fabric_stage:
    folder: "{{ opened.folder }}"
  register: staged
"""

RETURN = r"""
program_sha256:
  description: The runner's hash, for O(railyard.fabric.fabric_run#module:program_sha256).
  returned: success
  type: str
  sample: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
uploaded:
  description: Whether the runner had to be uploaded.
  returned: success
  type: bool
  sample: false
controller:
  description: The name under which the lease is held.
  returned: success
  type: str
  sample: me@controller
lease_s:
  description: Seconds that the lease is valid without a call of M(railyard.fabric.fabric_watch).
  returned: success
  type: int
  sample: 90
deadline_s:
  description: Seconds after which the run on the node is certainly over, by its test schedule.
  returned: success
  type: int
  sample: 512
"""
