#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Thin: which exporter is used is decided in module_utils/metrics/exporters.py."""

from __future__ import annotations

DOCUMENTATION = r"""
module: node_exporter_info
short_description: Find the node_exporter of a node, or whether role node_metrics can install one
version_added: "0.3.0"
description:
  - A node_exporter that runs already is kept as it is; its folder of textfiles is read from its command line.
  - Without one, checks that the address and port are free and that the address is no rail's.
  - Fails with the reason and the fix where neither is possible. Changes nothing.
  - With O(state=brought) it returns instead what the role has set up here, for its removal.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
attributes:
  check_mode:
    support: full
  diff_mode:
    support: N/A
    details: The module changes nothing, so that there is no difference to show.
  idempotent:
    support: full
options:
  state:
    description:
      - V(chosen) finds out which exporter is used, or can be brought.
      - V(brought) reads the units of the role that exist.
    type: str
    choices: [chosen, brought]
    default: chosen
  listen:
    description: The IP address that an exporter of the role's listens on. Required with O(state=chosen).
    type: str
  port:
    description: Its port. Required with O(state=chosen).
    type: int
  rail_addresses:
    description: Addresses of the node's rails, with or without prefix length. O(listen) must be none of them.
    type: list
    elements: str
    default: []
  textfile_folder:
    description: The folder of textfiles that an exporter which is there reads. Without it, it is found.
    type: path
  secured:
    description: Whether TLS or a password is wanted, which an exporter that is there does not get.
    type: bool
    default: false
"""

EXAMPLES = r"""
- name: Find the installed node_exporter
  railyard.fabric.node_exporter_info:
    listen: 198.51.100.11
    port: 9100
    rail_addresses: [10.0.1.1/24]
  register: exporter

- name: Read what the role has set up
  railyard.fabric.node_exporter_info:
    state: brought
  register: brought
"""

RETURN = r"""
own:
  description: >-
    Whether the role installs and configures the distribution's node_exporter; with O(state=brought), whether
    it did.
  returned: success
  type: bool
  sample: true
metrics_files:
  description: Files that the role's writer writes.
  returned: with O(state=brought)
  type: list
  elements: str
  sample: [/var/lib/prometheus/node-exporter/railyard_node.prom]
textfile_folder:
  description: The folder whose C(*.prom) files the exporter reads.
  returned: with O(state=chosen)
  type: str
  sample: /var/lib/prometheus/node-exporter
socket:
  description: Whether the role's exporter can be given its socket by systemd (C(--web.systemd-socket)).
  returned: with O(state=chosen)
  type: bool
  sample: true
has_user:
  description: Whether the system user C(prometheus) is there, which the package makes and does not remove.
  returned: with O(state=chosen)
  type: bool
  sample: false
notes:
  description: What is worth knowing of an exporter that is kept.
  returned: with O(state=chosen)
  type: list
  elements: str
  sample: []
"""

import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.railyard.fabric.plugins.module_utils import module_end
from ansible_collections.railyard.fabric.plugins.module_utils.metrics import exporters
from ansible_collections.railyard.fabric.plugins.module_utils.state import baseline

ROOT = "/"
ARGUMENTS: dict[str, t.Any] = {
    "state": {"type": "str", "choices": ["chosen", "brought"], "default": "chosen"},
    "listen": {"type": "str"},
    "port": {"type": "int"},
    "rail_addresses": {"type": "list", "elements": "str", "default": []},
    "textfile_folder": {"type": "path"},
    "secured": {"type": "bool", "default": False},
}


def hold(module: AnsibleModule) -> dict[str, t.Any]:
    """Read the node's state; return the result."""
    if module.params["state"] == "brought":
        brought = exporters.read_brought(ROOT)
        return {"changed": False, "own": brought.own, "metrics_files": list(brought.metrics_files)}
    return {"changed": False, **exporters.choose(ROOT, exporters.read_wanted(module.params))}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec=ARGUMENTS,
        supports_check_mode=True,
        required_if=[("state", "chosen", ["listen", "port"])],
    )
    module_end.end(module, hold, exporters.ExporterError, baseline.OriginalsError)


if __name__ == "__main__":
    main()
