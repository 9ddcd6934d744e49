#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Thin: the library is looked for in module_utils/facts/nccl_plugin.py."""

from __future__ import annotations

DOCUMENTATION = r"""
module: nccl_plugin_info
short_description: Check whether a node's dynamic loader finds the library of an NCCL network plugin
version_added: "0.3.0"
description:
  - Reads the loader's cache (C(ldconfig -p)), or a path, and the file's header.
  - Loads nothing, changes nothing.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
options:
  library:
    description:
      - A library's name or path, or the suffix of one, as C(NCCL_NET_PLUGIN) takes it (V(ofi) is
        C(libnccl-net-ofi.so)).
    type: str
    default: libnccl-net.so
attributes:
  check_mode:
    support: full
  diff_mode:
    support: none
  idempotent:
    support: full
"""

EXAMPLES = r"""
- name: Find the network plugin of NCCL
  railyard.fabric.nccl_plugin_info:
    library: ofi
  register: plugin
"""

RETURN = r"""
path:
  description: Where the library is; null where the loader does not find it, or could not load it.
  returned: success
  type: str
  sample: /opt/amazon/ofi-nccl/lib/libnccl-net-ofi.so
problem:
  description: What is wrong, and what to do; null where nothing is.
  returned: success
  type: str
  sample: /opt/x/libnccl-net.so is no shared library; install the plugin for this machine
"""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.railyard.fabric.plugins.module_utils.facts import nccl_plugin


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={"library": {"type": "str", "default": nccl_plugin.DEFAULT}}, supports_check_mode=True
    )
    ldconfig = module.get_bin_path("ldconfig", opt_dirs=["/sbin", "/usr/sbin"])
    cache = module.run_command([ldconfig, "-p"])[1] if ldconfig else ""
    found = nccl_plugin.find(module.params["library"], cache)
    module.exit_json(changed=False, **found._asdict())


if __name__ == "__main__":
    main()
