#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Thin: how GPUs and their driver are read is decided in module_utils/gpu/facts.py."""

from __future__ import annotations

DOCUMENTATION = r"""
module: gpu_info
short_description: Read the NVIDIA GPUs and driver of a node in one call
version_added: "0.2.0"
description:
  - Reads the GPUs from PCI, the driver that is loaded, the drivers that are installed for each kernel, and
    what affects its installation (Nouveau, Secure Boot, kernel headers, packages, archives, disk space).
  - What is set on a GPU (MIG, ECC, power limit, clocks) is read back through C(nvidia-smi), which is only
    queried if the driver is loaded already, since it would load it.
  - Loads and changes nothing.
  - A file that cannot be read gives null and a line in C(gpu_info.warnings), never a failure.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
options:
  waits_topic:
    description: The topic of M(railyard.fabric.pending) whose list is returned as RV(waiting).
    type: str
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
- name: Read GPUs and driver
  railyard.fabric.gpu_info:
  register: node

- name: Say that a reboot is pending
  ansible.builtin.debug:
    msg: "{{ node.gpu_info.driver.pending_why }}"
  when: node.gpu_info.driver.pending
"""

RETURN = r"""
waiting:
  description: >-
    What is kept under O(waits_topic), as M(railyard.fabric.pending) takes it; null where it has to be written
    anew, since the node has booted or the file cannot be read.
  returned: with O(waits_topic)
  type: list
  elements: dict
  sample: []
gpu_info:
  description: The node's GPUs and driver. An unknown value is null.
  returned: always
  type: dict
  contains:
    schema:
      description: Version of this structure.
      type: int
      sample: 1
    os:
      description: Distribution, from os-release, C(id) and C(version).
      type: dict
      sample: {"id": "debian", "version": "12"}
    architecture:
      description: Architecture of the node's packages, as dpkg names it; null without dpkg.
      type: str
      sample: arm64
    kernel:
      description: Release of the running kernel.
      type: str
      sample: 6.1.0-28-amd64
    next_kernel:
      description: The kernel that boots next; null if it is not known.
      type: str
      sample: 6.1.0-28-amd64
    kernels:
      description: Kernels whose modules or headers are installed.
      type: list
      elements: dict
      sample: [{"kernel": "6.1.0-28-amd64", "headers": true}]
    headers_missing:
      description: Headers that are not there of the running kernel and of the one that boots next.
      type: list
      elements: str
      sample: []
    gpus:
      description: NVIDIA's display controllers, by PCI address.
      type: list
      elements: dict
      contains:
        pci:
          description: PCI address.
          type: str
          sample: "0000:17:00.0"
        pci_id:
          description: Vendor and device.
          type: str
          sample: "10de:1db1"
        generation:
          description: Architecture; null for a device that the table of generations does not know.
          type: str
          sample: Volta
        flavours:
          description: Kernel modules that drive it, C(open) and C(proprietary).
          type: list
          elements: str
          sample: [proprietary]
        switches_behind_bridge:
          description: Whether it sits on a baseboard whose NVSwitches have no PCI function of their own.
          type: bool
          sample: false
        name:
          description: Product name; null while no driver of NVIDIA's is loaded.
          type: str
          sample: Tesla V100-SXM2-16GB
        uuid:
          description: UUID, likewise.
          type: str
          sample: GPU-0a1b2c3d-0000-1111-2222-333344445555
        numa_node:
          description: NUMA node that it is attached to.
          type: int
          sample: 0
        bound_driver:
          description: Kernel driver that holds it, as C(nvidia), C(nouveau) or C(vfio-pci).
          type: str
          sample: nvidia
        settings:
          description: What is set on it, as nvidia-smi reads it back; null while the driver is not loaded.
          type: dict
          sample:
            persistence: true
            mig: {current: null, pending: null}
            ecc: {current: true, pending: true}
            power_limit_w: 300.0
            power_default_w: 300.0
            power_max_w: 300.0
            graphics_clock_mhz: 1312
            memory_clock_mhz: 877
            graphics_clock_max_mhz: 1530
            memory_clock_max_mhz: 877
    generations:
      description: Generations present in the node.
      type: list
      elements: str
      sample: [Volta]
    nvswitches:
      description: PCI addresses of NVSwitches.
      type: list
      elements: str
      sample: []
    nvswitch:
      description: Whether there are NVSwitches that need the Fabric Manager.
      type: bool
      sample: false
    umad:
      description: >-
        Whether ib_umad is loaded, through which the Fabric Manager reaches NVSwitches behind a bridge.
      type: bool
      sample: false
    driver:
      description: The kernel module.
      type: dict
      contains:
        installed:
          description: >-
            Core modules that depmod knows, each with C(kernel), C(path), C(version), C(flavour), C(signer).
          type: list
          elements: dict
          sample: []
        loaded:
          description: Version of the loaded module.
          type: str
          sample: 535.183.01
        loaded_flavour:
          description: C(open) or C(proprietary).
          type: str
          sample: proprietary
        pending:
          description: Whether the next boot would have another driver than the one that is loaded.
          type: bool
          sample: false
        pending_why:
          description: The same as text; null when nothing is pending.
          type: str
          sample: null
        stack:
          description: >-
            Loaded modules of the driver in the order of unloading, each with its C(name) and whether it is
            C(used) by a process or the console.
          type: list
          elements: dict
          sample: [{"name": "nvidia_uvm", "used": false}, {"name": "nvidia", "used": false}]
    services:
      description: >-
        Services of the driver that systemd knows, whether each is C(active), and if it starts C(at_boot).
      type: dict
      sample: {"nvidia-persistenced": {"active": true, "at_boot": true}}
    persistence_exec_start:
      description: >-
        The command of the persistence daemon's packaged unit without C(--no-persistence-mode), where the unit
        has that option; null elsewhere.
      type: str
      sample: /usr/bin/nvidia-persistenced --user nvidia-persistenced --verbose
    peermem:
      description: >-
        Whether nvidia-peermem is C(wanted) (loaded, or at boot), and the kernels for which it is C(unfit),
        built for another RDMA stack than the vendor's that is there; C(kernel), C(module) and C(version) of
        DKMS, C(why).
      type: dict
      sample: {"wanted": false, "unfit": []}
    nouveau:
      description: Whether Nouveau is loaded.
      type: bool
      sample: false
    secure_boot:
      description: Whether the kernel was booted with Secure Boot; null where EFI does not say.
      type: bool
      sample: false
    packages:
      description: >-
        Installed packages of drivers, CUDA, kernels and DKMS, by name; C(version), C(held), and where there
        is an archive of somebody else's the C(archive) that it came from (V(ppa), V(vendor)) and the newest
        version that others have, C(offered).
      type: dict
      sample:
        nvidia-kernel-dkms: {version: 535.183.01-1~deb12u1, held: false, archive: null, offered: null}
    archives:
      description: >-
        Sources of apt with a separate driver; C(file), C(kind), whether it is C(ours), whether it is C(alone)
        in its file, and its C(sites).
      type: list
      elements: dict
      sample: []
    run_installer:
      description: Traces of NVIDIA's own installer, C(files) that no package brought and its C(log).
      type: dict
      sample: {"files": [], "log": null}
    dkms:
      description: What DKMS has built, each with C(module), C(version), C(kernel).
      type: list
      elements: dict
      sample: []
    free_bytes:
      description: Room where an installation needs it, by folder.
      type: dict
      sample: {"/usr": 21474836480}
    persistence_daemon:
      description: Whether nvidia-persistenced runs.
      type: bool
      sample: true
    warnings:
      description: What could not be read, one sentence each.
      type: list
      elements: str
      sample: []
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.railyard.fabric.plugins.module_utils.facts import tools
from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import Reader
from ansible_collections.railyard.fabric.plugins.module_utils.gpu import facts
from ansible_collections.railyard.fabric.plugins.module_utils.state import pending

WAITS_ROOT = "/"
# Beside PATH: where images of virtual machines mount the driver's tools, which is on no PATH of sudo.
_FOLDERS = ["/sbin", "/usr/sbin", "/usr/local/nvidia/bin"]


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec={"waits_topic": {"type": "str"}}, supports_check_mode=True)
    topic = module.params["waits_topic"]
    waiting = {} if topic is None else {"waiting": pending.standing(WAITS_ROOT, topic)}
    module.exit_json(
        changed=False, gpu_info=facts.collect(Reader(), tools.runner(module, _FOLDERS)), **waiting
    )


if __name__ == "__main__":
    main()
