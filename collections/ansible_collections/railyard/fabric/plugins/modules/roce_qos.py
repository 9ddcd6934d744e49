#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Thin: what is wanted is decided in module_utils/qos/settings.py, the rest in {apply,node,tools}.py."""

from __future__ import annotations

DOCUMENTATION = r"""
module: roce_qos
short_description: Set the RoCE QoS of all ports of a node
version_added: "0.3.0"
description:
  - Has each port trust DSCP, hold the priority of RoCE lossless by PFC, take part in ECN, mark congestion
    notification packets (CNP), and give RoCE traffic its class; all ports in one call.
  - Trust, PFC and buffers are set by C(mlnx_qos), C(dcb) or the vendor driver's sysfs, the first of these
    that the node has (RV(tool)); ECN, CNP and traffic class by sysfs, debugfs and configfs.
  - A port of the mlx4 driver (ConnectX-3, RoCE v1) has flow control alone, either global pause or PFC by the
    driver's options, which a reboot has to take; what waits for it is in RV(ports[].waits_for_reboot).
  - Whatever was set is read back; a value that does not read back as it was set is a failure, whatever the
    tool reported.
  - If the node has no way to set something requested, or something else blocks it, it fails
    before anything is changed, and names all of it. A file that is there and cannot be opened, as Secure Boot
    has it with debugfs, is no way.
  - Where a port refuses a value all the same, the values that all ports had before are set again.
  - Keeps what was done, and a program that does it again, in O(folder). To start that when a device comes is
    the business of the udev rules that a role writes.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
  - railyard.fabric.attributes.full
options:
  rails:
    description: The rails as planned; other keys are allowed and ignored.
    type: list
    elements: dict
    required: true
  dscp:
    description: DSCP of RoCE packets, 0 to 63. Their traffic class follows (26 gives 106, with ECN's ECT(0)).
    type: int
    default: 26
  priority:
    description: Priority of RoCE packets, 0 to 7.
    type: int
    default: 3
  pfc:
    description: Whether that priority is lossless. With V(false) PFC is off on all of them.
    type: bool
    default: true
  cnp_dscp:
    description: DSCP of congestion notification packets, 0 to 63.
    type: int
    default: 48
  cnp_priority:
    description: Priority of congestion notification packets, 0 to 7.
    type: int
    default: 6
  buffers_bytes:
    description: Size of each of the eight receive buffers, in bytes. Omitted, the driver chooses.
    type: list
    elements: int
  buffer_of_priority:
    description: Receive buffer, 0 to 7, of each of the eight priorities. Omitted, the driver chooses.
    type: list
    elements: int
  not_asked:
    description:
      - What the site declares that its drivers have no way to set. The kernel's own mlx5 driver has none for
        V(ecn) (its firmware decides) and V(traffic_class) (applications mark their traffic).
    type: list
    elements: str
    choices: [ecn, cnp, traffic_class, connection_manager_tos]
    default: []
  mlx4_flow_control:
    description: What makes a port of the mlx4 driver lossless. Never both.
    type: str
    choices: [global_pause, pfc]
    default: global_pause
  modprobe_file:
    description: The file with the mlx4 driver's options that a role writes; another's other PFC is refused.
    type: path
    default: /etc/modprobe.d/60-railyard-mlx4.conf
  folder:
    description: Where the actions for the next boot, and the program that does them, are kept.
    type: path
    default: /var/lib/railyard/roce_qos
  root:
    description: Where the node's file system begins. For tests, which have no such card.
    type: path
    default: /
"""

EXAMPLES = r"""
- name: Have two ports lossless for RoCE
  railyard.fabric.roce_qos:
    rails:
      - {name: rail0, netdev: ens1f0np0}
      - {name: rail1, netdev: ens1f1np1}

- name: Have the same with the kernel's own driver
  railyard.fabric.roce_qos:
    rails:
      - {name: rail0, pci: "0000:3b:00.0"}
    not_asked: [ecn, traffic_class]
"""

RETURN = r"""
tool:
  description: What set trust, PFC and buffers; null if there are only mlx4 ports.
  returned: success
  type: str
  sample: mlnx_qos
ports:
  description: One entry per rail.
  returned: success
  type: list
  elements: dict
  contains:
    rail:
      description: Its name.
      type: str
      sample: rail0
    netdev:
      description: Its netdev.
      type: str
      sample: ens1f0np0
    device:
      description: Its RDMA device; empty without one.
      type: str
      sample: mlx5_0
    driver:
      description: The kernel driver.
      type: str
      sample: mlx5_core
    changed:
      description: Settings that were changed, or in check mode would be.
      type: list
      elements: str
      sample: [pfc, trust]
    waits_for_reboot:
      description: Settings that only a driver loaded anew takes, and that the running one has otherwise.
      type: list
      elements: str
      sample: []
    settings:
      description: What the port has; outside check mode read back after the change.
      type: dict
      sample: {pfc: [0, 0, 0, 1, 0, 0, 0, 0], trust: dscp}
module_options:
  description: The line that O(modprobe_file) must have; empty for none.
  returned: success
  type: str
  sample: ""
rival:
  description: A service that sets the same values on this node; null for none known.
  returned: success
  type: str
  sample: lldpad
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.railyard.fabric.plugins.module_utils.qos import apply
from ansible_collections.railyard.fabric.plugins.module_utils.qos.settings import QosError
from ansible_collections.railyard.fabric.plugins.module_utils.qos.tools import Answer


def runner(module: AnsibleModule) -> t.Any:
    """Return a function that runs a program of the node."""

    def run(argv: t.Sequence[str]) -> Answer:
        path = module.get_bin_path(argv[0])
        if path is None:
            return Answer(127, "", f"the node has no {argv[0]}. Fix: install it")
        return Answer(*module.run_command([path, *argv[1:]], errors="surrogate_then_replace"))

    return run


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "rails": {"type": "list", "elements": "dict", "required": True},
            "dscp": {"type": "int", "default": 26},
            "priority": {"type": "int", "default": 3},
            "pfc": {"type": "bool", "default": True},
            "cnp_dscp": {"type": "int", "default": 48},
            "cnp_priority": {"type": "int", "default": 6},
            "buffers_bytes": {"type": "list", "elements": "int"},
            "buffer_of_priority": {"type": "list", "elements": "int"},
            "not_asked": {
                "type": "list",
                "elements": "str",
                "choices": ["ecn", "cnp", "traffic_class", "connection_manager_tos"],
                "default": [],
            },
            "mlx4_flow_control": {
                "type": "str",
                "choices": ["global_pause", "pfc"],
                "default": "global_pause",
            },
            "modprobe_file": {"type": "path", "default": "/etc/modprobe.d/60-railyard-mlx4.conf"},
            "folder": {"type": "path", "default": "/var/lib/railyard/roce_qos"},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    module.run_command_environ_update = {"LC_ALL": "C"}
    try:
        result = apply.hold(module.params, runner(module), module.get_bin_path, check_mode=module.check_mode)
    except (QosError, OSError) as error:
        module.fail_json(msg=str(error))
    module.exit_json(**result)


if __name__ == "__main__":
    main()
