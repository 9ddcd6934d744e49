#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin fabric_open, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_open
short_description: Open the folder of a measuring run
version_added: "0.1.0"
description:
  - Makes C(<reports_dir>/<cluster>/<run>/) with the run's manifest and plan, or finds that of an earlier run.
  - The plan covers the nodes of the play, C(--limit) included.
  - Refuses a wrong inventory, a folder that exists and one that cannot be written. No node is touched.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
options:
  reports_dir:
    description:
      - Folder of all clusters' runs; it is made when it is not there.
      - Without it, E(RAILYARD_REPORTS_DIR) on the controller; else C(reports/) of the checkout that the
        collection is part of, or of the current folder where the collection is installed.
    type: path
  run:
    description: Id of the run, as C(20261121T101500Z-3f2a). Omitted, a new run gets a new one.
    type: str
  existing:
    description: Find the folder of the run O(run) instead of making one.
    type: bool
    default: false
attributes:
  check_mode:
    support: partial
    details: Makes no folder and returns none; there is nothing to measure then.
  diff_mode:
    support: N/A
    details: It changes nothing on a node that could be shown as a difference.
  idempotent:
    support: none
    details: Every run has a separate folder.
notes:
  - Variables C(railyard_pattern), C(railyard_questions), C(railyard_lease_s) and C(railyard_slurm_job) lie
    over the keys of C(fabric_policy) that are called so, for this run alone.
"""

EXAMPLES = r"""
- name: Open the run folder
  railyard.fabric.fabric_open:
    reports_dir: /srv/railyard/reports
  register: opened
  run_once: true

- name: Find the folder of a run that was cut off
  railyard.fabric.fabric_open:
    run: 20261121T101500Z-3f2a
    existing: true
  register: opened
  run_once: true
"""

RETURN = r"""
run:
  description: Id of the run.
  returned: success, but not in check mode
  type: str
  sample: 20261121T101500Z-3f2a
nodes:
  description: The nodes that an earlier run covers.
  returned: with O(existing=true)
  type: list
  elements: str
  sample: [gpuserver1, gpuserver2]
waits:
  description: C(lease_s) and C(deadline_s) of an earlier run, as M(railyard.fabric.fabric_stage) returns
    them.
  returned: with O(existing=true)
  type: dict
  sample: {lease_s: 90, deadline_s: 512}
folder:
  description: The run folder.
  returned: success, but not in check mode
  type: str
  sample: /home/me/railyard/reports/lab/20261121T101500Z-3f2a
"""
