#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Thin: what is read is decided in module_utils/discover/node.py, beacons are in background.py beside it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: bare_node_info
short_description: Read a node that has no inventory yet, and find which ports share a network
version_added: "0.3.0"
description:
  - Reads the facts of a node and, of each port, its card, RDMA device and wire; default routes, the address
    of this SSH connection, the BMC's address and the NVLink domain.
  - With O(start_beacons=true) it starts a process that sends small broadcast frames (EtherType 0x88B5, no IP)
    on all Ethernet ports and hears those of other nodes. With O(collect_beacons=true) a later task fetches
    what was heard and ends that process.
  - Installs nothing and writes no file. Python 3.9 and iproute2 are enough on the node. Without root the
    facts are read all the same, and no beacons are sent.
  - Ends within a minute, whatever hangs.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
attributes:
  check_mode:
    support: full
    details: Ports that are down are not raised in check mode.
  diff_mode:
    support: N/A
    details: The module changes nothing, so that there is no difference to show.
  idempotent:
    support: full
options:
  key:
    description: What the controller calls the node, 253 bytes at most. The node's beacons carry it.
    type: str
    required: true
  start_beacons:
    description:
      - Read the node, and start the process that sends and hears beacons.
      - Where it runs already for the same O(run), O(secret) and O(key), it goes on.
    type: bool
    default: false
  collect_beacons:
    description: Return what the ports heard, and end the process. The node is not read again.
    type: bool
    default: false
  run:
    description: Identity of this discovery, the same on all nodes. Needed for beacons.
    type: str
  secret:
    description: The beacons are signed with it, the same on all nodes. Needed for beacons.
    type: str
  link_up:
    description:
      - Raise ports that are administratively down while beacons are sent. The process puts them down again
        when it ends, also after a signal and after O(longest_s).
    type: bool
    default: false
  longest_s:
    description: Time after which the process ends, in seconds.
    type: int
    default: 300
"""

EXAMPLES = r"""
- name: Read the node and start the beacons
  railyard.fabric.bare_node_info:
    key: "{{ inventory_hostname }}"
    start_beacons: true
    run: 3f2a9c0d
    secret: "{{ discovery_secret }}"
  register: node

- name: Let all nodes listen
  ansible.builtin.pause:
    seconds: 6

- name: Fetch what the ports heard
  railyard.fabric.bare_node_info:
    key: "{{ inventory_hostname }}"
    collect_beacons: true
    run: 3f2a9c0d
    secret: "{{ discovery_secret }}"
  register: heard
"""

RETURN = r"""
bare_node:
  description: The node. A value that the node does not report is null.
  returned: without O(collect_beacons=true)
  type: dict
  contains:
    schema:
      description: Version of this structure.
      type: int
      sample: 1
    key:
      description: As O(key).
      type: str
      sample: gpu001
    hostname:
      description: What the node calls itself.
      type: str
      sample: gpu001
    product:
      description: Maker and product by DMI, or the model of the device tree.
      type: str
      sample: NVIDIA DGXH100
    default_route:
      description: Netdevs of the default routes.
      type: list
      elements: str
      sample: [eno1]
    login_address:
      description: The node's own address of this SSH connection, also with sudo.
      type: str
      sample: 198.51.100.11
    bmc_address:
      description: The BMC's address, where ipmitool is installed and answers within seconds.
      type: str
      sample: 198.51.100.111
    nvlink_domain:
      description: Cluster UUID and clique of the GPUs' fabric; null where NVLinks end in the node.
      type: str
      sample: 9c6f5af3-53bf-49b5-a436-b66766c413c3.4026
    facts:
      description: As M(railyard.fabric.rail_info) returns them, with O(key) as C(node).
      type: dict
      sample: {}
    ports:
      description: One entry per physical port, and per RDMA port without netdev.
      type: list
      elements: dict
      contains:
        netdev:
          description: Name; null for an RDMA port without netdev (EFA, InfiniBand without IPoIB).
          type: str
          sample: ens6d1
        hca:
          description: RDMA device and port.
          type: str
          sample: mlx4_0:2
        pci:
          description: PCI address.
          type: str
          sample: "0000:06:00.0"
        dev_port:
          description: Which port of its PCI function it is, from 0.
          type: int
          sample: 1
        pci_id:
          description: Vendor and device.
          type: str
          sample: "15b3:1003"
        model:
          description: Name and part number of the card, from its vital product data.
          type: str
          sample: ConnectX-3 VPI adapter card (MCX354A-FCCT)
        serial:
          description: Serial number of the card.
          type: str
          sample: MT1234X56789
        firmware:
          description: Firmware version.
          type: str
          sample: 2.42.5000
        physical_port:
          description: The same for two functions on one wire.
          type: str
          sample: 98039b0300aabbcc p0
        is_virtual_function:
          description: Whether it is an SR-IOV virtual function of another.
          type: bool
          sample: false
        neighbours:
          description: Switch ports at the other end, as lldpd knows them.
          type: list
          elements: dict
          sample: [{switch: leaf1, chassis: "02:00:00:00:0f:01", port: Ethernet1}]
    beacons:
      description: Null; a later task with O(collect_beacons=true) has them.
      type: list
      elements: dict
      sample: null
    idle_functions:
      description: Network functions of the PCI bus with neither netdev nor RDMA device, and their driver.
      type: list
      elements: dict
      sample: [{pci: "0000:41:00.0", pci_id: "15b3:1021", driver: vfio-pci}]
beacons:
  description: What each Ethernet port heard.
  returned: with O(collect_beacons=true)
  type: list
  elements: dict
  contains:
    netdev:
      description: Name.
      type: str
      sample: ens6
    senders:
      description: Whose beacons it heard, also those of other ports of the same node.
      type: list
      elements: dict
      sample: [{key: gpu002, netdev: ens6, mac: "02:00:00:00:00:02"}]
    strangers:
      description: Frames of other discoveries or runs.
      type: int
      sample: 0
    raised:
      description: Whether it was down and was set up for the check.
      type: bool
      sample: false
    error:
      description: Why it neither sent nor heard; null where it did.
      type: str
      sample: it has no carrier
    speed_mbps:
      description: What the link of a port that was raised runs at, in Mbit/s.
      type: int
      sample: 400000
    neighbours:
      description: Switch ports seen by LLDP during the check; a switch sends every 30 seconds by default.
      type: list
      elements: dict
      sample: []
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.railyard.fabric.plugins.module_utils import bounded
from ansible_collections.railyard.fabric.plugins.module_utils.discover import background, beacons, node
from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import Reader
from ansible_collections.railyard.fabric.plugins.module_utils.records.bare_node import BareNode

_MOST_KEY_BYTES = 253


class ReadError(Exception):
    """The node could not be read; the text has the reason."""


def hold(params: t.Mapping[str, t.Any], check_mode: bool) -> dict[str, t.Any]:
    """Do what the parameters ask, and return the module's result.

    Raises:
        ReadError: the node, or a parameter, could not be read.
        CollectError: there are no beacons to be fetched.
        OSError: the process could not be started.
    """
    key = params["key"]
    if not 0 < len(key.encode()) <= _MOST_KEY_BYTES or min(key) < " ":
        raise ReadError(f"key {key[:40]!a}: write 1 to {_MOST_KEY_BYTES} bytes without control characters")
    discovery = background.Discovery(params["run"] or "", params["secret"] or "", key)
    if params["collect_beacons"]:
        return {"beacons": background.collect(discovery)}
    found, why = bounded.call(lambda at: node.collect(key, Reader(), at), node.LIMIT_S)
    if found is None:
        raise ReadError(f"the facts of the node could not be read: {why}")
    if params["start_beacons"]:
        ports = beacons.wanted(t.cast(BareNode, found), params["link_up"] and not check_mode)
        background.start(discovery, ports, params["longest_s"])
    return {"bare_node": found}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "key": {"type": "str", "required": True, "no_log": False},
            "start_beacons": {"type": "bool", "default": False},
            "collect_beacons": {"type": "bool", "default": False},
            "run": {"type": "str"},
            "secret": {"type": "str", "no_log": True},
            "link_up": {"type": "bool", "default": False},
            "longest_s": {"type": "int", "default": 300},
        },
        mutually_exclusive=[("start_beacons", "collect_beacons")],
        required_if=[
            ("start_beacons", True, ("run", "secret")),
            ("collect_beacons", True, ("run", "secret")),
        ],
        supports_check_mode=True,
    )
    try:
        result = hold(module.params, module.check_mode)
    except (ReadError, background.CollectError, OSError) as error:
        module.fail_json(msg=f"bare_node_info: {error}")
    module.exit_json(changed=False, **result)


if __name__ == "__main__":
    main()
