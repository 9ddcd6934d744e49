#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Thin: what makes a node busy is decided in module_utils/runner/busy.py."""

from __future__ import annotations

DOCUMENTATION = r"""
module: busy_info
short_description: Report whether a job runs on this node
version_added: "0.4.0"
description:
  - Reports GPU processes and steps of Slurm jobs, by the rule by which a run refuses to measure a busy node.
  - Changes nothing and sends nothing.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: N/A
    details: The module changes nothing, so that there is no difference to show.
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Check whether a job runs
  railyard.fabric.busy_info:
  register: busy
"""

RETURN = r"""
state:
  description: V(idle), V(busy), or V(unknown) where nvidia-smi is there and does not answer.
  returned: success
  type: str
  sample: busy
why:
  description: What keeps the node busy, or why it is not known; empty if it is idle.
  returned: success
  type: str
  sample: "GPU processes run on gpu001: 4242 python3"
"""

import socket

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.railyard.fabric.plugins.module_utils.runner import busy


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec={}, supports_check_mode=True)
    state, why = busy.look(socket.gethostname().split(".", maxsplit=1)[0])
    module.exit_json(changed=False, state=state, why=why)


if __name__ == "__main__":
    main()
