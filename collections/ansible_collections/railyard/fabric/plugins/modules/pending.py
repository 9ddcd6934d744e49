#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Thin: what an item is and when it is answered is decided in module_utils/state/pending.py."""

from __future__ import annotations

DOCUMENTATION = r"""
module: pending
short_description: Record the actions on a node that wait for a reboot, a module restart or your confirmation
version_added: "0.3.0"
description:
  - A role that may not act without confirmation records here what is pending, in one file per topic below
    C(/var/lib/railyard/waits); playbooks/drivers.yml ends with the list, playbooks/reboot.yml completes it.
  - Any later boot completes what waits for a reboot or a restart of modules, unless it announces a kernel
    and that kernel does not run.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
  - railyard.fabric.attributes.full
options:
  state:
    description:
      - V(present) makes O(items) what waits under O(topic).
      - V(read) changes nothing.
      - V(booted) removes, in all topics, what a boot has answered.
    type: str
    choices: [present, read, booted]
    default: present
  topic:
    description: Whose list it is, usually the role's name. Required with O(state=present).
    type: str
  items:
    description: What waits. An empty list removes the topic's file. Required with O(state=present).
    type: list
    elements: dict
    suboptions:
      what:
        description: What to do.
        type: str
        required: true
      why:
        description: Why it could not be done yet.
        type: str
        required: true
      needs:
        description: V(reboot), V(module_restart), or V(consent:VARIABLE) with the variable that confirms it.
        type: str
        required: true
      kernel:
        description: The kernel release that is installed and waits to be booted; only with C(needs=reboot).
        type: str
notes:
  - An item that waits for a boot and is recorded again after one is written again, which is a change.
"""

EXAMPLES = r"""
- name: Say that the driver waits for a reboot
  railyard.fabric.pending:
    topic: nvidia_driver
    items:
      - what: load NVIDIA driver 580.95.05
        why: version 570.86.15 is loaded and a GPU is in use
        needs: reboot

- name: Nothing waits any more
  railyard.fabric.pending:
    topic: nvidia_driver
    items: []

- name: Read what waits
  railyard.fabric.pending:
    state: read
"""

RETURN = r"""
waits:
  description: What waits on this node, all topics; in check mode what would.
  returned: success
  type: list
  elements: dict
  sample:
    - topic: nvidia_driver
      what: load NVIDIA driver 580.95.05
      why: version 570.86.15 is loaded and a GPU is in use
      needs: reboot
ansible_facts:
  description: The same as fact C(railyard_waits), for the list at the end of a play.
  returned: success
  type: dict
  sample: {"railyard_waits": []}
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.railyard.fabric.plugins.module_utils import module_end
from ansible_collections.railyard.fabric.plugins.module_utils.state import pending

ROOT = "/"


def hold(module: AnsibleModule) -> dict[str, t.Any]:
    """Do what the parameters ask; return the result."""
    wanted: dict[str, t.Any] = module.params
    now = pending.read_now(ROOT)
    topic = pending.check_topic(wanted["topic"]) if wanted["state"] == "present" else None
    before = pending.load(ROOT, but=topic)
    after = dict(before)
    if topic is not None:
        after[topic] = pending.stamped(wanted["items"], now)
    elif wanted["state"] == "booted":
        after = pending.unanswered(before, now)
    changed = [one for one, items in after.items() if items != before.get(one, [])]
    if not module.check_mode:
        for one in changed:
            pending.store(ROOT, one, after[one])
    waiting = pending.listed(pending.unanswered(after, now))
    return {
        "changed": bool(changed),
        "diff": module_end.diff("what waits", pending.text(before), pending.text(after)),
        "waits": waiting,
        "ansible_facts": {"railyard_waits": waiting},
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "read", "booted"], "default": "present"},
            "topic": {"type": "str"},
            "items": {
                "type": "list",
                "elements": "dict",
                "options": {
                    "what": {"type": "str", "required": True},
                    "why": {"type": "str", "required": True},
                    "needs": {"type": "str", "required": True},
                    "kernel": {"type": "str"},
                },
            },
        },
        required_if=[("state", "present", ["topic", "items"])],
        supports_check_mode=True,
    )
    module_end.end(module, hold, pending.WaitsError)


if __name__ == "__main__":
    main()
