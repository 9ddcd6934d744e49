#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name; nothing runs on the node under this name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_watch
short_description: Poll the progress of a measuring run, and renew its lease
version_added: "0.1.0"
description:
  - Returns the progress of the run that M(railyard.fabric.fabric_run) started on the node under systemd.
  - Renews the run's lease on the node. Without renewal the runner stops itself.
  - Starts no Python on the node, so that looking does not disturb what is being measured.
  - With O(wait) it polls until the run is done; the host uses one of Ansible's forks for that time.
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
  run:
    description: Id of the run, as C(20261121T101500Z-3f2a).
    type: str
    required: true
  wait:
    description: Poll until the run is done, or two polls in a row fail. Without it there is one query.
    type: dict
    suboptions:
      lease_s:
        description: As M(railyard.fabric.fabric_stage) returns it; the interval is as long as it allows.
        type: int
        required: true
      deadline_s:
        description: As M(railyard.fabric.fabric_stage) returns it; after that the module stops waiting.
        type: int
        required: true
  tell:
    description:
      - Say on the terminal how far this host is, whenever that is new.
      - Rails of a host that are slow or give no numbers with every peer so far are reported for every host.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: See how far it is
  railyard.fabric.fabric_watch:
    run: "{{ opened.run }}"
  register: progress

- name: Wait for the measurement
  railyard.fabric.fabric_watch:
    run: "{{ opened.run }}"
    wait:
      lease_s: "{{ staged.lease_s }}"
      deadline_s: "{{ staged.deadline_s }}"
    tell: "{{ inventory_hostname == ansible_play_hosts_all[0] }}"
"""

RETURN = r"""
done:
  description: Whether the run has ended.
  returned: success
  type: bool
  sample: false
running:
  description: Whether the runner runs.
  returned: success
  type: bool
  sample: true
finished_tests:
  description: Tests of this node's share that have a row.
  returned: success
  type: int
  sample: 7
total_tests:
  description: Tests of this node's share.
  returned: success
  type: int
  sample: 24
round:
  description: Rounds that are over for this node.
  returned: success
  type: int
  sample: 2
rounds:
  description: Rounds of the run in which this node meets somebody, up to the last of them.
  returned: success
  type: int
  sample: 7
met:
  description: Partners with whom this node's tests are over.
  returned: success
  type: int
  sample: 2
meetings:
  description: Partners that it is to meet.
  returned: success
  type: int
  sample: 7
suspects:
  description: Rails of this node that were slow, or gave no numbers though others did, with every partner
    so far, two at least.
  returned: success
  type: list
  elements: str
  sample: [rail3]
left_s:
  description: Seconds that the tests to come should take, by the times that they are planned to measure
    and the pace so far; null before the runner has reported anything.
  returned: success
  type: int
  sample: 40
current:
  description: What is being measured; null when nothing is.
  returned: success
  type: str
  sample: m00003 tcp_bandwidth gpuserver1 to gpuserver2 on rail0
reason:
  description: Why the run is done; null while it goes on.
  returned: success
  type: str
  sample: completed
lease_renewed:
  description: Whether the lease is still this run's.
  returned: success
  type: bool
  sample: true
"""
