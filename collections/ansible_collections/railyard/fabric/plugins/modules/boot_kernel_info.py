#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Thin: what the boot loader and depmod know is read in module_utils/kernel/next_boot.py."""

from __future__ import annotations

DOCUMENTATION = r"""
module: boot_kernel_info
short_description: Report which kernel a node boots next, and which out-of-tree drivers it has for it
version_added: "0.3.0"
description:
  - Reads GRUB's menu, default and saved choice (among it what C(grub-reboot) left); where there is no GRUB,
    the newest kernel of C(/boot) is assumed, and this is reported.
  - Reads, for the running kernel and the next one, which modules depmod knows that are not the kernel's own,
    as DKMS and the vendors install them.
  - Changes nothing.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
options:
  root:
    description: Where the node's files are.
    type: path
    default: /
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Find the kernel that boots next
  railyard.fabric.boot_kernel_info:
  register: boot

- name: Stop where it would lack a driver
  ansible.builtin.assert:
    that: boot.boot_kernel | railyard.fabric.reboot_refusals | length == 0
"""

RETURN = r"""
boot_kernel:
  description: The kernels and their modules.
  returned: success
  type: dict
  contains:
    running:
      description: The running kernel's release.
      type: str
      sample: 6.1.0-56-amd64
    next:
      description: The release of the kernel that boots next; null if it is not known.
      type: str
      sample: 6.1.0-57-amd64
    told_by:
      description: V(grub), V(newest) where it is assumed, or null.
      type: str
      sample: grub
    modules:
      description: >-
        The running kernel's modules on disk that are not its own. One in the kernel's own folder, as a
        distribution's prebuilt driver is, counts where it is loaded.
      type: list
      elements: str
      sample: [nvidia, nvidia_drm]
    next_modules:
      description: The next kernel's modules on disk that are not its own.
      type: list
      elements: str
      sample: [nvidia, nvidia_drm]
    next_has_headers:
      description: Whether modules can be built for the next kernel.
      type: bool
      sample: true
"""

import os

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import Reader
from ansible_collections.railyard.fabric.plugins.module_utils.kernel import next_boot


def main() -> None:
    """Run the module."""
    module = AnsibleModule(argument_spec={"root": {"type": "path", "default": "/"}}, supports_check_mode=True)
    root = module.params["root"]
    reader = Reader(*(os.path.join(root, name) for name in ("sys", "proc", "etc")))
    running = reader.text(reader.proc("sys", "kernel", "osrelease")) or os.uname().release
    module.exit_json(changed=False, boot_kernel=next_boot.look(root, running))


if __name__ == "__main__":
    main()
