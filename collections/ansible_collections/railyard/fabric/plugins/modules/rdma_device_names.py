#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Thin: what the names are and what waits is decided in module_utils/rdma/device_names.py."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rdma_device_names
short_description: Plan the names of a node's RDMA devices, and rename the unused ones
version_added: "0.3.0"
description:
  - Returns the udev rules that give the RDMA devices the requested names from the next boot on. To
    write them is the business of M(railyard.fabric.managed_files).
  - With O(rename) it renames the devices that no program has open. What cannot be renamed now is in
    RV(waiting), as M(railyard.fabric.pending) takes it.
  - Where the names cannot be had (InfiniBand, two rails on one device, a rail without a PCI address) it fails
    before anything is changed, and names all rails concerned.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
  - railyard.fabric.attributes.full
options:
  mode:
    description:
      - V(keep), the distribution's rule. V(kernel), the kernel's names.
      - V(rail), C(roce_p1_rail0) and so on for the devices of the rails, the kernel's names for all others.
    type: str
    choices: [keep, kernel, rail]
    required: true
  rails:
    description: The node's rails as planned.
    type: list
    elements: dict
    required: true
  rename:
    description: Whether devices are renamed. Otherwise nothing is changed.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Plan the names
  railyard.fabric.rdma_device_names:
    mode: rail
    rails: "{{ rails }}"
  register: names
"""

RETURN = r"""
path:
  description: Where the rules belong.
  returned: success
  type: str
  sample: /etc/udev/rules.d/60-rdma-persistent-naming.rules
rules:
  description: The text of the rules file; null for none.
  returned: success
  type: str
  sample: |
    ACTION=="add", SUBSYSTEM=="infiniband", PROGRAM="rdma_rename %k NAME_KERNEL"
is_ours:
  description: Whether the node has that file, written by Railyard.
  returned: success
  type: bool
  sample: false
renames:
  description: Devices that nothing uses, and the names that they get, or with O(rename) got.
  returned: success
  type: list
  elements: dict
  sample: [{device: mlx5_0, name: roce_p1_rail0}]
waiting:
  description: What waits for a boot.
  returned: success
  type: list
  elements: dict
  sample: [{what: give mlx5_1 the name roce_p1_rail1, why: ib_write_bw has it open, needs: reboot}]
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.railyard.fabric.plugins.module_utils import module_end
from ansible_collections.railyard.fabric.plugins.module_utils.facts import netdev, rdma_port
from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import Reader
from ansible_collections.railyard.fabric.plugins.module_utils.rdma import device_names
from ansible_collections.railyard.fabric.plugins.module_utils.state import baseline

ROOT = "/"


def hold(module: AnsibleModule) -> dict[str, t.Any]:
    """Do what the parameters ask; return the result."""
    reader = Reader()
    facts = {"netdevs": netdev.read_netdevs(reader, None), "hcas": rdma_port.read_hcas(reader)}
    ours = baseline.is_ours(ROOT, device_names.RULES)
    plan = device_names.plan(
        module.params["mode"], module.params["rails"], facts, device_names.users(ROOT), ours
    )
    renames = plan.renames if module.params["rename"] else []
    if not module.check_mode:
        for one in renames:
            command = [module.get_bin_path("rdma", required=True), "dev", "set", one.device, "name", one.name]
            module.run_command(command, check_rc=True)
    return {
        "changed": bool(renames),
        "path": device_names.RULES,
        "rules": plan.rules,
        "is_ours": ours,
        "renames": [one._asdict() for one in plan.renames],
        "waiting": plan.waiting,
        "diff": module_end.diff(
            "RDMA devices",
            "".join(f"{one.device}\n" for one in renames),
            "".join(f"{one.name}\n" for one in renames),
        ),
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "mode": {"type": "str", "choices": list(device_names.MODES), "required": True},
            "rails": {"type": "list", "elements": "dict", "required": True},
            "rename": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    module_end.end(module, hold, device_names.NamesError)


if __name__ == "__main__":
    main()
