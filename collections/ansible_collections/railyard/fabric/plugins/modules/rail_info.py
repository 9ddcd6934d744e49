#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Thin: how a node is read is decided in module_utils/facts/node.py and the readers that it puts together."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rail_info
short_description: Read all rails of a node in one call
version_added: "0.1.0"
description:
  - Reads netdevs, RDMA ports, addresses and what else affects tests of the rails of a node, in one call,
    from sysfs, procfs and C(ip -j addr), and the versions of the benchmark tools.
  - The MTU of an RDMA port, which sysfs lacks, is read through libibverbs if it is installed.
  - Loads and changes nothing.
  - A file that cannot be read gives null and a line in C(rail_info.warnings), never a failure.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
options:
  netdevs:
    description:
      - Names of the netdevs to read. One that does not exist gives a warning and no entry.
      - Omitted, all are read but the loopback and the host's ends of containers (veth below a bridge).
    type: list
    elements: str
  optics:
    description:
      - Read the modules of ports that have a link too, with C(ethtool -m), C(ethtool -I --show-fec) and,
        where it is installed, C(mlxlink) or C(mstlink). This needs root and takes up to some seconds.
    type: bool
    default: false
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
- name: Read all rails and the frontend
  railyard.fabric.rail_info:
  register: node

- name: Read two rails
  railyard.fabric.rail_info:
    netdevs: [ens6, ens6d1]
  register: node
"""

RETURN = r"""
rail_info:
  description: The node's facts. An unknown value is null.
  returned: always
  type: dict
  contains:
    schema:
      description: Version of this structure.
      type: int
      sample: 1
    boot_id:
      description: Random identity of this boot.
      type: str
      sample: 8a1f3f0e-5a39-4b0c-9e0c-5d5d1b2f8a11
    collected:
      description: When the facts were read, UTC.
      type: str
      sample: "2026-11-21T10:15:00.000Z"
    kernel:
      description: Kernel release.
      type: str
      sample: 6.1.0-28-amd64
    python:
      description: Version of the Python that ran the module.
      type: str
      sample: 3.11.2
    os:
      description: Distribution, from os-release.
      type: dict
      contains:
        id:
          description: Its short name.
          type: str
          sample: debian
        version:
          description: Its version; null for a rolling distribution.
          type: str
          sample: "12"
    netdevs:
      description: One entry per netdev.
      type: list
      elements: dict
      contains:
        netdev:
          description: Name.
          type: str
          sample: ens6
        kind:
          description: C(physical), C(veth), C(bond), C(bridge), C(vlan), C(ipoib), else C(virtual).
          type: str
          sample: physical
        master:
          description: Bond or bridge that the netdev belongs to.
          type: str
          sample: bond0
        carrier:
          description: Whether there is a link; null while the netdev is administratively down.
          type: bool
          sample: true
        operstate:
          description: The kernel's operational state.
          type: str
          sample: up
        admin_up:
          description: Whether the netdev is set up.
          type: bool
          sample: true
        speed_mbps:
          description: From the driver; with C(driver_class) C(software) or C(virtual) it means nothing.
          type: int
          sample: 40000
        speed_max_mbps:
          description: The fastest link mode that the port supports; null for software and virtual links.
          type: int
          sample: 56000
        mtu_bytes:
          description: MTU.
          type: int
          sample: 9000
        mtu_max_bytes:
          description: The largest MTU that the driver takes; null where it states none.
          type: int
          sample: 9978
        ipoib_mode:
          description: C(datagram) or C(connected) of an IPoIB netdev, which bounds its MTU; else null.
          type: str
          sample: datagram
        mac:
          description: Present hardware address, 20 bytes long for IPoIB.
          type: str
          sample: "02:00:00:00:00:01"
        permanent_mac:
          description: Hardware address that the device was made with.
          type: str
          sample: "02:00:00:00:00:01"
        addresses:
          description: IPv4 addresses with prefix length.
          type: list
          elements: str
          sample: [10.0.1.1/24]
        addresses6:
          description: IPv6 addresses with prefix length.
          type: list
          elements: str
          sample: [fe80::1/64]
        driver:
          description: Kernel driver, for a software link its kind.
          type: str
          sample: mlx4_core
        driver_class:
          description:
            - C(hardware) for a bus device, C(virtual) for a hypervisor's (virtio, vmxnet3, hv_netvsc),
              C(software) for a link that the kernel makes. A bond or VLAN is what its weakest member is.
          type: str
          sample: hardware
        pci:
          description: PCI address.
          type: str
          sample: "0000:06:00.0"
        pci_link:
          description:
            - Speed in GT/s and lanes of its PCI Express link, as trained and as card and slot can do at most.
              Each is null if it is not reported, and absent where there is no such link.
          type: dict
          sample: {speed_gts: 16.0, width: 16.0, max_speed_gts: 16.0, max_width: 16.0}
        pci_path:
          description:
            - The PCI Express links from the device up to the root complex, its own first. Of each the
              address of the C(port) above it, its speed in GT/s and its lanes as trained and as both ends can
              do at most, and whether a hypervisor made it (C(virtual)), so that its values say nothing.
          type: list
          elements: dict
          sample:
            - port: "0000:17:00.0"
              speed_gts: 32.0
              width: 16.0
              max_speed_gts: 32.0
              max_width: 16.0
              virtual: false
        numa_node:
          description: NUMA node; null where the firmware does not say.
          type: int
          sample: 0
        hca:
          description: RDMA device and port of the netdev.
          type: str
          sample: mlx4_0:1
        counters:
          description: Bytes, packets, errors and drops, received and sent, by the kernel's names.
          type: dict
          sample: {rx_bytes: 0, tx_bytes: 0}
        qos_counters:
          description:
            - Counters of PFC (pause frames of a priority, drops), ECN and CNP by the kernel's names,
              durations in microseconds. Empty for a link that is no card, and for a driver that has none.
          type: dict
          sample: {rx_prio3_pause: 0, tx_prio3_pause: 0, np_cnp_sent: 0, rp_cnp_handled: 0}
        optics:
          description:
            - What was read of the port's module; only with O(optics=true), and null without a link or module.
            - C(module) is the output of C(ethtool -m) (identifier, vendor, part number, copper or optical,
              temperature, power of each lane in dBm, alarms with reading and limit), C(fec) that of
              C(ethtool --show-fec), C(link) that of C(mlxlink) (the same, and bit error ratios before and
              after FEC). Each is null where it was not read; C(unread) is the reason.
          type: dict
          sample: {module: null, fec: {active: [RS]}, link: null, unread: {module: "ethtool: not found"}}
    hcas:
      description: One entry per RDMA port; empty without RDMA.
      type: list
      elements: dict
      contains:
        hca:
          description: Device and port.
          type: str
          sample: mlx4_0:1
        device:
          description: Device.
          type: str
          sample: mlx4_0
        port:
          description: Port number.
          type: int
          sample: 1
        link_layer:
          description: C(Ethernet) or C(InfiniBand).
          type: str
          sample: Ethernet
        state:
          description: Logical state.
          type: str
          sample: ACTIVE
        physical_state:
          description: Physical state.
          type: str
          sample: LinkUp
        rate_gbps:
          description: Rate; of a port that is down it means nothing.
          type: float
          sample: 40.0
        width:
          description: Lanes.
          type: str
          sample: 4X
        active_mtu_bytes:
          description: Current MTU of the port from libibverbs; null without that library.
          type: int
          sample: 4096
        max_mtu_bytes:
          description: Largest MTU of the port from libibverbs; null without that library.
          type: int
          sample: 4096
        lid:
          description: Local identifier, 0 on Ethernet.
          type: int
          sample: 0
        sm_lid:
          description: Local identifier of the subnet manager; 0 on InfiniBand means that none has been seen.
          type: int
          sample: 0
        port_guid:
          description: GUID of a port of InfiniBand or EFA, from its first GID; null on Ethernet.
          type: str
          sample: "0002:c903:0000:0002"
        pkeys:
          description: The entries of the P_Key table that are in use, each once.
          type: list
          elements: str
          sample: ["0xffff"]
        pkey_indices:
          description: Each of them with the index of its first entry.
          type: dict
          sample: {"0xffff": 0}
        netdev:
          description: Netdev of the port.
          type: str
          sample: ens6
        node_type:
          description: C(CA) for InfiniBand and RoCE, C(RNIC) for iWARP, or another name of the kernel's.
          type: str
          sample: CA
        driver:
          description: Kernel driver of the device; C(rxe) or C(siw) for software RDMA.
          type: str
          sample: mlx5_core
        driver_class:
          description: C(hardware) or C(software); a hypervisor's paravirtual device counts as software.
          type: str
          sample: hardware
        pci:
          description: PCI address; null for software RDMA.
          type: str
          sample: "0000:06:00.0"
        pci_path:
          description:
            - The PCI Express links from the device up to the root complex, its own first. Of each the
              address of the C(port) above it, its speed in GT/s and its lanes as trained and as both ends can
              do at most, and whether a hypervisor made it (C(virtual)), so that its values say nothing.
          type: list
          elements: dict
          sample:
            - port: "0000:17:00.0"
              speed_gts: 32.0
              width: 16.0
              max_speed_gts: 32.0
              max_width: 16.0
              virtual: false
        numa_node:
          description: NUMA node; null for software RDMA and where the firmware does not say.
          type: int
          sample: 0
        firmware:
          description: Firmware version.
          type: str
          sample: 2.42.5000
        node_guid:
          description: GUID of the device.
          type: str
          sample: "0002:c903:0000:0001"
        board_id:
          description: Board identity.
          type: str
          sample: MT_1090120019
        hca_type:
          description: The driver's name for the kind of card.
          type: str
          sample: MT4129
        optics:
          description: As of a netdev, of a port that has none; only with O(optics=true).
          type: dict
          sample: {module: null, fec: null, link: null, unread: {link: "mlxlink or mstlink: not found"}}
        dpu_mode:
          description:
            - Who manages a BlueField's embedded switch, its own Arm system (C(dpu)) or the host (C(nic)).
            - Null for any other device, and where the kernel does not report it, as on InfiniBand ports.
          type: str
          sample: nic
        gids:
          description: The entries of the GID table that are in use.
          type: list
          elements: dict
          contains:
            index:
              description: Index, as for C(-x) of perftest.
              type: int
              sample: 1
            gid:
              description: The GID.
              type: str
              sample: "0000:0000:0000:0000:0000:ffff:0a00:0101"
            type:
              description: C(IB), C(RoCE v1) or C(RoCE v2).
              type: str
              sample: RoCE v2
            netdev:
              description: Netdev of the entry.
              type: str
              sample: ens6
            address:
              description: IP address of a RoCE GID.
              type: str
              sample: 10.0.1.1
        counters:
          description: The port's counters by their kernel names; C(port_xmit_data) counts 4-byte words.
          type: dict
          sample: {port_xmit_data: 0}
        hw_counters:
          description: The driver's counters by their kernel names.
          type: dict
          sample: {out_of_sequence: 0}
    cpu:
      description: CPU frequency governors.
      type: dict
      contains:
        governors:
          description: Number of CPUs by governor.
          type: dict
          sample: {performance: 8}
        governor_available:
          description: Whether the kernel offers governors at all.
          type: bool
          sample: true
    gpus:
      description:
        - How the node's NVIDIA GPUs are. nvidia-smi may take 25 seconds at most, and only where its
          driver is loaded.
      type: dict
      contains:
        pci:
          description: PCI addresses of the GPUs on the bus.
          type: list
          elements: str
          sample: ["0000:17:00.0"]
        pci_paths:
          description: Of each GPU its links up to the root complex, as C(pci_path) of a netdev.
          type: dict
          sample: {"0000:18:00.0": []}
        driver:
          description: Version of the module that is loaded; null without one.
          type: str
          sample: 550.54.15
        rows:
          description: Each GPU by the field names of nvidia-smi; C(aer_correctable) is the kernel's.
          type: list
          elements: dict
          sample: [{pci: "0000:17:00.0", name: NVIDIA H100 80GB HBM3, "pcie.link.width.current": 16}]
        nvlink:
          description: Of each GPU with NVLinks how many are active, their speeds and their errors.
          type: list
          elements: dict
          sample: [{gpu: 0, active: 18, inactive: [], speeds_gbytes_per_s: [26.562], errors: null}]
        topology:
          description: How GPUs are joined, as C(nvidia-smi topo -m) calls it; null if it is not reported.
          type: dict
          sample: {GPU0: {GPU1: NV18}}
        near:
          description:
            - Of each network card the nearest GPUs, below one port of the root (C(switch)), below one root
              complex (C(root)), on one NUMA node (C(numa_node)), or none of these (C(far)).
          type: list
          elements: dict
          sample: [{nic: "0000:18:00.0", by: switch, gpus: ["0000:17:00.0"]}]
        xids:
          description: XIDs of GPUs and SXIDs of switches in the kernel's log; null where it cannot be read.
          type: dict
          sample: {first: 0, next: 4711, since_s: 0.0, seen: []}
        errors:
          description: Part to why it has no answer, C(class) and C(message).
          type: dict
          sample: {}
    memlock_bytes:
      description: Limit of locked memory of the session that ran the module, -1 for unlimited.
      type: int
      sample: -1
    tools:
      description: Version of each benchmark tool; null for one that is absent.
      type: dict
      sample: {iperf3: "3.12", sockperf: "3.7", ping: "20221126", perftest: null}
    warnings:
      description: What could not be read, one sentence each.
      type: list
      elements: str
      sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.railyard.fabric.plugins.module_utils.facts import gpus, node, optics, tools
from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import Reader


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "netdevs": {"type": "list", "elements": "str"},
            "optics": {"type": "bool", "default": False},
        },
        supports_check_mode=True,
    )
    ask_optics = gpus.by_the_clock(optics.LIMIT_S) if module.params["optics"] else None
    found = node.collect(Reader(), tools.runner(module), module.params["netdevs"], ask_optics=ask_optics)
    module.exit_json(changed=False, rail_info=found)


if __name__ == "__main__":
    main()
