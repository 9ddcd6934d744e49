#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Documentation of the action plugin of the same name; nothing runs on the node under this name."""

from __future__ import annotations

DOCUMENTATION = r"""
module: fabric_watch
short_description: Look how far a measuring run is, and renew its lease
version_added: "0.1.0"
description:
  - Tells how far the run is that M(railyard.fabric.fabric_run) has started on the node under systemd.
  - Renews the run's lease on the node. When nobody looks, the runner stops itself.
  - Starts no Python on the node, so that looking does not disturb what is being measured.
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
"""

EXAMPLES = r"""
- name: See how far it is
  railyard.fabric.fabric_watch:
    run: "{{ opened.run }}"
  register: progress
"""

RETURN = r"""
done:
  description: Whether no more rows will come.
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
left_s:
  description: Seconds that the tests to come should take, by the times that they are asked to measure for
    and the pace so far; null before the runner has said anything.
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
