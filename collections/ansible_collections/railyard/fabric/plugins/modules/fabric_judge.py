#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin fabric_judge, which runs on the controller."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_judge
short_description: Judge a run
version_added: "0.1.0"
description:
  - Writes the run's end record and C(verdicts.jsonl), one verdict for each planned test.
  - Decided from the run folder alone. The same folder always gives the same verdicts.
  - Writes C(report.md), C(junit.xml), C(railyard.prom) and C(index.html) from them. Charts need matplotlib
    where Ansible runs; without it the page has its tables and a note. A report that cannot be written is
    reported, and changes no verdict.
  - Removes the run's secret.
  - Fails when something failed (exit status 1), or a planned test is unmeasured or the run is incomplete
    (3).
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
options:
  folder:
    description: The run folder, as M(railyard.fabric.fabric_open) returns it.
    type: path
    required: true
  reason:
    description: Content of the end record, unless there is one already.
    type: str
    choices: [completed, interrupted]
    default: completed
  judgement:
    description:
      - The digest of a judgement that M(railyard.fabric.fabric_confirm) or this module kept in the folder.
      - It is used in place of judging once more, if every file that is judged is as it was then.
    type: str
    default: ""
  keep:
    description: Keep the judgement in the folder for the caller of Ansible; C(railyard) removes it.
    type: bool
    default: false
attributes:
  check_mode:
    support: none
    details: There is no run in check mode.
  diff_mode:
    support: N/A
    details: It changes nothing on a node that could be shown as a difference.
  idempotent:
    support: full
    details: The same folder gives the same bytes.
"""

EXAMPLES = r"""
- name: Open the run folder
  railyard.fabric.fabric_open:
    reports_dir: "{{ playbook_dir }}/../reports"
  register: opened
  run_once: true

- name: Judge
  railyard.fabric.fabric_judge:
    folder: "{{ opened.folder }}"
  run_once: true
"""

RETURN = r"""
headline:
  description: The result in one line.
  returned: always, when the folder could be judged
  type: str
  sample: "2 of 2 nodes good: all 38 checks measured and confirmed (…). 2 rails, RDMA over Ethernet."
lines:
  description: What a terminal shows.
  returned: always, when the folder could be judged
  type: list
  elements: str
  sample: ["gpuserver1 rail0: pass"]
counts:
  description: Number of verdicts of each outcome.
  returned: always, when the folder could be judged
  type: dict
  sample: {pass: 30, fail: 0, unmeasured: 0, not_applicable: 0, recorded: 8}
exit_status:
  description: What C(railyard) ends with, V(0), V(1) or V(3).
  returned: always, when the folder could be judged
  type: int
  sample: 0
judgement:
  description: With O(keep), the digest of what is kept. Empty where nothing is.
  returned: always, when the folder could be judged
  type: str
  sample: ""
"""
