#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Thin: cards are read in module_utils/rdma/hardware.py, provider in rdma_provider_choice.py."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rdma_driver_info
short_description: Report the RDMA cards of a node, their driver, and the providers that support them
version_added: "0.3.0"
description:
  - Reads the PCI bus, the modules of the running kernel and dpkg, and decides whether the wanted
    provider of the RDMA stack fits. Changes nothing.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
options:
  provider:
    description: The provider that is wanted; V(auto) takes the one that serves all cards.
    type: str
    choices: [doca, mlnx_ofed, inbox, auto]
    default: auto
  version:
    description: The version of the vendor's metapackage that is wanted; not every card is served by each.
    type: str
    default: ""
  repository_uris:
    description: >-
      Where the vendor's repository is; one whose address names another release or architecture is refused.
      Empty, the vendor's own where that follows from version and node.
    type: list
    elements: str
    default: []
  repository_suites:
    description: Its suites.
    type: list
    elements: str
    default: [./]
  firmware_wanted:
    description: The firmware that each generation of cards is to have.
    type: dict
    default: {}
  secure_boot_key_enrolled:
    description: Whether the key that DKMS signs modules with is enrolled, so that Secure Boot loads them.
    type: bool
    default: false
  remove_allow:
    description: Packages of another stack that may be removed or replaced.
    type: list
    elements: str
    default: []
  firmware_images:
    description: By the PSID of a board the image that it is to have, each C(version), C(file), C(sha256).
    type: dict
    default: {}
  allow_firmware_update:
    description: Whether firmware may be written; otherwise it waits for confirmation.
    type: bool
    default: false
  waits_topic:
    description: The topic of M(railyard.fabric.pending) whose list is returned as RV(waiting).
    type: str
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
- name: Find the provider that the NICs can use
  railyard.fabric.rdma_driver_info:
    provider: auto
    firmware_wanted:
      ConnectX-7: 28.43.2026
"""

RETURN = r"""
cards:
  description: >-
    The network functions of the vendor's cards: V(pci), V(pci_id), V(generation), V(driver), V(firmware),
    V(psid).
  returned: success
  type: list
  elements: dict
  sample: [{"pci": "0000:17:00.0", "pci_id": "15b3:1021", "generation": "ConnectX-7", "driver": "mlx5_core",
            "firmware": "28.43.2026", "psid": "MT_0000000838"}]
modules:
  description: >-
    The driver's modules, V(loaded) with a version or V(inbox), V(on_disk) V(vendor) or V(inbox),
    V(version_on_disk) of a vendor's.
  returned: success
  type: list
  elements: dict
  sample: [{"name": "mlx5_core", "loaded": "inbox", "on_disk": "inbox", "version_on_disk": null}]
pending:
  description: Why the modules that run are not those that a boot would load; null when they are.
  returned: success
  type: str
  sample: mlx5_core inbox is loaded, 25.10-1.2.8 is installed for the running kernel
without_driver:
  description: >-
    The kernels that a boot would leave without a vendor's driver for the cards: V(kernel),
    V(has_headers), V(why).
  returned: success
  type: list
  elements: dict
  sample: []
stack:
  description: The vendor's stack that is installed, and the version of each package by which it is known.
  returned: success
  type: dict
  sample: {"name": "doca", "versions": {"doca-ofed": "3.2.0"}}
conflicts:
  description: Packages of another stack, which must not be installed together with the provider's.
  returned: success
  type: list
  elements: str
  sample: [mlnx-ofed-all]
provider:
  description: The provider, chosen or as wanted.
  returned: success
  type: str
  sample: doca
repository_uris:
  description: Where its repository is, as requested or the vendor's own; empty where neither is known.
  returned: success
  type: list
  elements: str
  sample: [https://linux.mellanox.com/public/repo/doca/3.2.0/ubuntu24.04/x86_64]
refusals:
  description: Why the provider cannot be had; each ends with what to do.
  returned: success
  type: list
  elements: str
  sample: []
findings:
  description: What has to be known before the act, among it firmware that differs.
  returned: success
  type: list
  elements: str
  sample: []
firmware_plan:
  description: >-
    The cards that run another firmware than their board's image has: V(pci), V(psid), V(running), V(version),
    V(file), V(sha256).
  returned: success
  type: list
  elements: dict
  sample: []
firmware_waits:
  description: What of it waits for a boot or for confirmation, for M(railyard.fabric.pending).
  returned: success
  type: list
  elements: dict
  sample: []
waiting:
  description: >-
    What is kept under O(waits_topic), as M(railyard.fabric.pending) takes it; null where it has to be written
    anew, since the node has booted or the file cannot be read.
  returned: with O(waits_topic)
  type: list
  elements: dict
  sample: []
restart:
  description: >-
    What blocks a restart of the vendor's unit: V(refusals) (storage in use, modules that are
    not known here), V(busy) (what jobs and daemons use), the modules to V(unload) before it, and those of
    them to V(reload) after it.
  returned: success
  type: dict
  sample: {"refusals": [], "busy": [], "unload": [nvidia_peermem], "reload": [nvidia_peermem]}
peermem:
  description: >-
    Whether nvidia-peermem is V(wanted) (loaded, or at boot), and the kernels for which it is V(unfit), built
    for another RDMA stack than the vendor's that is there: V(kernel), V(module) and V(version) of DKMS,
    V(why).
  returned: success
  type: dict
  sample: {"wanted": false, "unfit": []}
kernel:
  description: The running kernel.
  returned: success
  type: str
  sample: 6.8.0-60-generic
next_kernel:
  description: The kernel that boots next; null if it is not known.
  returned: success
  type: str
  sample: 6.8.0-61-generic
headers_missing:
  description: Headers that are not there of the running kernel and of the one that boots next.
  returned: success
  type: list
  elements: str
  sample: [linux-headers-6.8.0-61-generic]
has_headers:
  description: Whether the headers of the running kernel are installed.
  returned: success
  type: bool
  sample: true
kernel_packages:
  description: Installed packages that would install another kernel.
  returned: success
  type: list
  elements: str
  sample: [linux-headers-generic, linux-image-generic]
kernel_packages_free:
  description: Those of RV(kernel_packages) that are not on hold.
  returned: success
  type: list
  elements: str
  sample: [linux-headers-generic, linux-image-generic]
headers_to_follow:
  description: Headers that would follow the kernel's packages, and are not installed.
  returned: success
  type: list
  elements: str
  sample: [linux-headers-generic]
secure_boot:
  description: Whether Secure Boot is on; null if it is not known.
  returned: success
  type: bool
  sample: false
"""

import os
import sys
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.railyard.fabric.plugins.module_utils.apt import vendor_repository
from ansible_collections.railyard.fabric.plugins.module_utils.facts import host
from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import Reader
from ansible_collections.railyard.fabric.plugins.module_utils.kernel import headers, next_boot, peermem
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.node import apt_get
from ansible_collections.railyard.fabric.plugins.module_utils.rdma import (
    driver,
    firmware,
    hardware,
    holders,
    provider,
)
from ansible_collections.railyard.fabric.plugins.module_utils.state import pending

WAITS_ROOT = "/"


def read_packages(module: AnsibleModule) -> tuple[dict[str, apt_get.Package], str | None]:
    """Ask dpkg for all packages and the node's architecture; none where there is no dpkg."""
    if module.get_bin_path("dpkg-query") is None:
        return {}, None
    native = module.run_command(["dpkg", "--print-architecture"])[1].strip()
    out = module.run_command(["dpkg-query", "--show", f"--showformat={apt_get.DPKG_QUERY_FORMAT}"])[1]
    return apt_get.parse_packages(out, native), native


def run_quietly(module: AnsibleModule, argv: t.Sequence[str]) -> str | None:
    """Run a program that reads only; None where it is not there or fails."""
    if module.get_bin_path(argv[0]) is None:
        return None
    code, out, _error = module.run_command(list(argv))
    return str(out) if code == 0 else None


def look(module: AnsibleModule) -> dict[str, t.Any]:
    """Read the node and decide; return the result."""
    p = module.params
    root = p["root"]
    reader = Reader(*(os.path.join(root, name) for name in ("sys", "proc", "etc")))
    kernel = reader.text(reader.proc("sys", "kernel", "osrelease")) or os.uname().release
    boots_next = next_boot.next_kernel(root).kernel
    cards = hardware.read_cards(reader)
    needed = hardware.needed_modules(cards)
    packages, architecture = read_packages(module)
    system = host.os_release(reader)
    modules = driver.read_modules(root, reader, kernel, lambda argv: run_quietly(module, argv))
    node = provider.Node(
        kernel,
        (sys.version_info[0], sys.version_info[1]),
        headers.are_there(root, kernel),
        driver.secure_boot(reader),
        p["secure_boot_key_enrolled"],
        vendor_repository.Node(system["id"], system["version"], architecture),
    )
    choice = provider.choose(
        p["provider"], p["version"], cards, node, p["repository_uris"], p["repository_suites"]
    )
    stack, names = driver.installed_stack(packages)
    versions = {name: packages[name].version for name in names}
    wanted = {generation: str(version) for generation, version in p["firmware_wanted"].items()}
    bad_images = firmware.check_images(p["firmware_images"])
    planned = [] if bad_images else firmware.plan(cards, p["firmware_images"])
    kernel_packages = driver.kernel_metapackages(packages)
    return {
        "changed": False,
        "cards": [card._asdict() for card in cards],
        "modules": [one._asdict() for one in modules],
        "pending": driver.pending(modules, needed),
        "without_driver": driver.without_driver(driver.read_kernels(root, needed), kernel, boots_next),
        "stack": {"name": stack, "versions": versions},
        "conflicts": driver.to_remove(choice.provider, stack, names),
        "provider": choice.provider,
        "repository_uris": p["repository_uris"]
        or vendor_repository.own_uris(choice.provider, p["version"], node.system),
        "refusals": choice.refusals
        + driver.refuse_stack(choice.provider, stack, versions, p["remove_allow"])
        + bad_images,
        "findings": choice.findings + driver.firmware_differs(cards, wanted),
        "firmware_plan": planned,
        "firmware_waits": firmware.waits(planned, p["allow_firmware_update"]),
        "restart": holders.plan(holders.read(reader))._asdict(),
        "peermem": peermem.facts(reader, root, lambda argv: run_quietly(module, argv)),
        "kernel": kernel,
        "next_kernel": boots_next,
        "has_headers": node.has_headers,
        "headers_missing": headers.missing(root, (kernel, boots_next)),
        "kernel_packages": kernel_packages,
        "headers_to_follow": driver.headers_to_follow(packages),
        "kernel_packages_free": [name for name in kernel_packages if packages[name].want != "hold"],
        "secure_boot": node.secure_boot,
    }


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "provider": {"type": "str", "choices": ["doca", "mlnx_ofed", "inbox", "auto"], "default": "auto"},
            "version": {"type": "str", "default": ""},
            "repository_uris": {"type": "list", "elements": "str", "default": []},
            "repository_suites": {"type": "list", "elements": "str", "default": ["./"]},
            "firmware_wanted": {"type": "dict", "default": {}},
            "secure_boot_key_enrolled": {"type": "bool", "default": False, "no_log": False},
            "remove_allow": {"type": "list", "elements": "str", "default": []},
            "firmware_images": {"type": "dict", "default": {}},
            "allow_firmware_update": {"type": "bool", "default": False},
            "waits_topic": {"type": "str"},
            "root": {"type": "path", "default": "/"},
        },
        supports_check_mode=True,
    )
    topic = module.params["waits_topic"]
    waiting = {} if topic is None else {"waiting": pending.standing(WAITS_ROOT, topic)}
    module.exit_json(**look(module), **waiting)


if __name__ == "__main__":
    main()
