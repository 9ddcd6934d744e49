#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Thin: what is looked at and what is wrong is decided in module_utils/quick/look.py."""

from __future__ import annotations

DOCUMENTATION = r"""
module: quick_check
short_description: Check a node quickly, as its own health check does
version_added: "0.3.0"
description:
  - Holds the rails (link, rate, address, MTU, RDMA port, GID, RDMA MTU), their error counters since the last
    look by the same name, the CPU governor and the GPUs against what is expected. Nothing is sent.
  - Ends within half a minute, whatever hangs, and reports what hung.
  - Fails where something is wrong, or is expected and could not be checked. RV(line) is the reason.
  - Keeps error counters and findings in C(/var/lib/railyard/quick), for the next call; not in check mode.
  - A problem stays reported, also after a reboot, until a check of the same item is good; of
    XIDs only those since the last call are.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: N/A
    details: The module changes nothing that is configured, so that there is no difference to show.
  idempotent:
    support: full
options:
  expect:
    description:
      - The expected state, as in C(/etc/railyard/quick.json). C(schema) (1), C(node), C(transport),
        C(node_class), C(rails) (as the filter P(railyard.fabric.node_rails#filter) gives them), C(governor)
        (empty for none) and C(gpus) (as C(expected_gpus), null if not declared).
    type: dict
    required: true
  name:
    description: Name of the check. Error counters are compared with the last check of this name.
    type: str
    default: validate
  loopback:
    description: Whether each HCA is tested with itself by C(ib_write_bw), which is load on its slot.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Run the quick check
  railyard.fabric.quick_check:
    expect:
      schema: 1
      node: "{{ inventory_hostname }}"
      transport: tcp
      node_class: hardware
      rails: "{{ fabric | railyard.fabric.node_rails(inventory_hostname) }}"
      governor: performance
      gpus: {count: 8, model: H100}
"""

RETURN = r"""
status:
  description: 0 good, 1 something is wrong, 3 something expected could not be checked.
  returned: always
  type: int
  sample: 1
line:
  description: What was found, in one line.
  returned: always
  type: str
  sample: "railyard quick: gpu001: WRONG: mtu_differs: rail3 (ens9) has 1500, the plan's is 9000"
wrong:
  description: What is not as it should be; begins with the cause that docs/troubleshooting.md has, if any.
  returned: always
  type: list
  elements: str
  sample: ["mtu_differs: rail3 (ens9) has 1500, the plan's is 9000"]
unknown:
  description: What is expected and could not be checked.
  returned: always
  type: list
  elements: str
  sample: []
told:
  description: What else is worth saying.
  returned: always
  type: list
  elements: str
  sample: [first look at the error counters]
good:
  description: What was checked and is good.
  returned: always
  type: list
  elements: str
  sample: [8 GPUs]
findings:
  description: >-
    RV(wrong) and RV(unknown) as objects with C(cause), C(rail) (empty where it is of no rail), C(is_wrong)
    and C(text).
  returned: always
  type: list
  elements: dict
  sample:
    - {cause: mtu_differs, rail: rail3, is_wrong: true, text: "mtu_differs: rail3 (ens9) has 1500"}
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.railyard.fabric.plugins.module_utils.quick import expectation, last_look
from ansible_collections.railyard.fabric.plugins.module_utils.quick.look import How, bounded_look


def hold(params: t.Mapping[str, t.Any], keep: bool) -> dict[str, t.Any]:
    """Run the check, and return the module's result.

    Raises:
        ValueError: the parameters are none.
    """
    expected = expectation.parse(params["expect"])
    how = How(last_look.check_name(params["name"]), keep=keep, loopback=params["loopback"])
    found = bounded_look(expected, how)
    return {"status": found.status, "line": found.line(expected.node), **found.document()}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "expect": {"type": "dict", "required": True},
            "name": {"type": "str", "default": "validate"},
            "loopback": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    try:
        result = hold(module.params, not module.check_mode)
    except ValueError as error:
        module.fail_json(msg=f"quick_check: {error}")
    if result["status"] != 0:
        module.fail_json(msg=result["line"], **result)
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
