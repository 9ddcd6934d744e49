#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Thin: what mstflint says is read in module_utils/parsers/hca/mstflint.py, judged in rdma_firmware.py."""

from __future__ import annotations

DOCUMENTATION = r"""
module: rdma_firmware_info
short_description: Report the firmware in the flash of RDMA cards, and whether an image is for them
version_added: "0.3.0"
description:
  - Asks mstflint for the flash of each card that is planned, and for the image that it is to get. Changes
    nothing.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
options:
  plan:
    description:
      - What M(railyard.fabric.rdma_driver_info) returned as C(firmware_plan).
    type: list
    elements: dict
    required: true
  folder:
    description: Where the images lie on the node, each C(PSID.bin).
    type: path
    required: true
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Read the firmware in flash
  railyard.fabric.rdma_firmware_info:
    plan:
      - pci: "0000:17:00.0"
        psid: MT_0000000838
        version: 28.43.2026
        file: firmware/fw-ConnectX7.bin
        sha256: 5891b5b522d5df086d0ff0b110fbd9d21bb4fc7163af34d08286a2e846f6be03
    folder: /var/lib/railyard/firmware
"""

RETURN = r"""
burn:
  description: The cards whose flash has another firmware than the image, V(image) its path on the node.
  returned: success
  type: list
  elements: dict
  sample: [{"pci": "0000:17:00.0", "flashed": "28.39.1002", "version": "28.43.2026",
            "image": "/var/lib/railyard/firmware/MT_0000000838.bin"}]
refusals:
  description: Why an image must not be burnt; each ends with what to do.
  returned: success
  type: list
  elements: str
  sample: []
"""

import hashlib
import os
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.railyard.fabric.plugins.module_utils.parsers.hca import mstflint
from ansible_collections.railyard.fabric.plugins.module_utils.rdma import firmware


def query(module: AnsibleModule, *words: str) -> mstflint.Flash:
    """Ask mstflint; fails the module where it does not answer."""
    argv = ["mstflint", *words, "query"]
    code, out, error = module.run_command(argv)
    if code != 0:
        module.fail_json(
            msg=f"`{' '.join(argv)}` failed: {(error or out).strip()[-300:]}. Fix: what it says; another "
            "tool of the vendor's may use the card"
        )
    return mstflint.parse_query(out)


def look(module: AnsibleModule) -> dict[str, t.Any]:
    """Return the result."""
    burn, refusals = [], []
    for one in module.params["plan"]:
        path = os.path.join(module.params["folder"], one["psid"] + ".bin")
        with open(path, "rb") as file:
            digest = hashlib.sha256(file.read()).hexdigest()
        flash, image = query(module, "-d", one["pci"]), query(module, "-i", path)
        refusal = firmware.refuse_image(one, digest, image, flash)
        if refusal is not None:
            refusals.append(refusal)
        elif flash.version != one["version"]:
            burn.append({**one, "flashed": flash.version, "image": path})
    return {"changed": False, "burn": burn, "refusals": refusals}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "plan": {"type": "list", "elements": "dict", "required": True},
            "folder": {"type": "path", "required": True},
        },
        supports_check_mode=True,
    )
    try:
        result = look(module)
    except OSError as error:
        module.fail_json(msg=f"an image cannot be read: {error}. Fix: run again, which copies it")
    module.exit_json(**result)


if __name__ == "__main__":
    main()
