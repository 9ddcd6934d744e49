#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Thin: whose a device is and what to do is decided in module_utils/rdma/soft_roce.py."""

from __future__ import annotations

DOCUMENTATION = r"""
module: soft_roce
short_description: Manage the Soft-RoCE devices of a node
version_added: "0.2.0"
description:
  - Makes Soft-RoCE (rxe) devices on netdevs, all in one call, and removes those that it made and that are no
    longer wanted.
  - Devices that others made are left alone, and named in RV(foreign). One that is wanted and there already is
    taken as it is, and left when it is no longer wanted; after the next boot it is this module's.
  - Changes the running kernel only. To have the devices again after a reboot is the business of the udev rule
    that a role writes.
  - If something blocks it (no module for the running kernel, no such netdev, a name that is taken)
    it fails before anything is changed, and names all of it.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
  - railyard.fabric.attributes.full
options:
  devices:
    description: The devices that the node is to have. An empty list removes all that the module made.
    type: list
    elements: dict
    required: true
    suboptions:
      device:
        description: Name of the RDMA device.
        type: str
        required: true
      netdev:
        description: Its netdev. A netdev can have one.
        type: str
        required: true
  record:
    description: The record of which devices were wanted, and which of them existed before.
    type: path
    required: true
"""

EXAMPLES = r"""
- name: Have two Soft-RoCE devices
  railyard.fabric.soft_roce:
    devices:
      - device: rxe0
        netdev: ens6
      - device: rxe1
        netdev: ens6d1
    record: /var/lib/railyard/soft_roce.json

- name: Remove them
  railyard.fabric.soft_roce:
    devices: []
    record: /var/lib/railyard/soft_roce.json
"""

RETURN = r"""
made:
  description: Devices that were made, or in check mode would be.
  returned: success
  type: list
  elements: str
  sample: [rxe0, rxe1]
removed:
  description: Devices that were removed, or in check mode would be.
  returned: success
  type: list
  elements: str
  sample: []
foreign:
  description: Soft-RoCE devices that others made; they are left alone.
  returned: success
  type: list
  elements: dict
  sample: [{"device": "rxe9", "netdev": "eth1"}]
"""

import os
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.railyard.fabric.plugins.module_utils import module_end
from ansible_collections.railyard.fabric.plugins.module_utils.rdma import soft_roce

ROOT = "/"


def check_kernel() -> None:
    """Raise SoftRoceError where the running kernel cannot have a device, or is not this machine's own."""
    if soft_roce.in_container(ROOT):
        raise soft_roce.SoftRoceError(
            "this is a container: a Soft-RoCE device would be made in the kernel of its host. Fix: declare "
            "fabric.node_class container and transport tcp, or use a virtual machine"
        )
    missing = soft_roce.missing_module(ROOT, os.uname().release)
    if missing is not None:
        raise soft_roce.SoftRoceError(missing)


def run_rdma(module: AnsibleModule, *words: str) -> None:
    """Run `rdma link`; it loads the kernel's module when it needs it."""
    argv = [module.get_bin_path("rdma", required=True, opt_dirs=["/sbin", "/usr/sbin"]), "link", *words]
    code, _out, error = module.run_command(argv)
    if code != 0:
        said = error.strip() or f"exit status {code}"
        message = f"rdma link {' '.join(words)}: {said}; the kernel's log may say more (dmesg)"
        raise soft_roce.SoftRoceError(message)


def apply(module: AnsibleModule, plan: soft_roce.Plan, recorded: list[dict[str, t.Any]], path: str) -> None:
    """Carry out the plan. The record is written first, so that an interrupted run knows its devices."""
    soft_roce.store_record(path, plan.record + [entry for entry in recorded if entry not in plan.record])
    for one in plan.delete:
        run_rdma(module, "delete", one.device)
    for one in plan.add:
        run_rdma(module, "add", one.device, "type", "rxe", "netdev", one.netdev)
    soft_roce.store_record(path, plan.record)


def make_diff(plan: soft_roce.Plan, wanted: list[soft_roce.Wanted]) -> dict[str, str]:
    """Return the diff of the devices that are this module's or wanted."""
    stay = [one for one in wanted if one not in plan.add]
    return module_end.diff(
        "Soft-RoCE devices",
        "".join(f"{one.device} on {one.netdev}\n" for one in sorted(stay + plan.delete)),
        "".join(f"{one.device} on {one.netdev}\n" for one in sorted(wanted)),
    )


def hold(module: AnsibleModule) -> dict[str, t.Any]:
    """Do what the parameters ask; return the result."""
    wanted = soft_roce.check_devices(module.params["devices"])
    path = module.params["record"]
    recorded = soft_roce.load_record(path)
    if wanted:
        check_kernel()
    plan = soft_roce.plan(wanted, soft_roce.read_devices(ROOT), soft_roce.netdevs(ROOT), recorded)
    changed = bool(plan.delete or plan.add) or plan.record != recorded
    if changed and not module.check_mode:
        apply(module, plan, recorded, path)
    return {
        "changed": changed,
        "diff": make_diff(plan, wanted),
        "made": [one.device for one in plan.add],
        "removed": [one.device for one in plan.delete],
        "foreign": [one._asdict() for one in plan.foreign],
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "devices": {
                "type": "list",
                "elements": "dict",
                "required": True,
                "options": {
                    "device": {"type": "str", "required": True},
                    "netdev": {"type": "str", "required": True},
                },
            },
            "record": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    module_end.end(module, hold, soft_roce.SoftRoceError)


if __name__ == "__main__":
    main()
