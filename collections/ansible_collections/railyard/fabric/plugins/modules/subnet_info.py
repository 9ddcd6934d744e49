#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Thin: the commands are in module_utils/subnet/commands.py, and are run by run.py beside it."""

from __future__ import annotations

DOCUMENTATION = r"""
module: subnet_info
short_description: Read an InfiniBand subnet from one node
version_added: "0.4.0"
description:
  - Runs a fixed list of commands of C(infiniband-diags). They read every switch, adapter, port and link
    of the subnet that a port of this node belongs to, its error counters and its subnet managers.
  - Changes nothing. No counter is reset, and no key of the subnet manager is used.
  - Needs root or access to C(/dev/infiniband/umad*), an active InfiniBand port, and the package
    C(infiniband-diags).
  - A command has 60 seconds and all commands together have 300. What does not end in time is part of the
    result, with C(rc) null.
  - Returns text. What it means is decided on the controller by C(railyard fabric).
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
options:
  device:
    description:
      - RDMA device to read from, such as V(mlx5_0). Without it the tools take the first active port.
    type: str
  port:
    description:
      - Port of O(device).
    type: int
  partitions:
    description:
      - Read the P_Key table of each adapter port, too. That is one command a port, eight at a time.
    type: bool
    default: false
  interval_s:
    description:
      - Seconds between two readings of the error counters. V(0) reads them once.
    type: float
    default: 60
  paths:
    description:
      - Pairs of GUIDs of adapter ports, at most 32. The path between the two ports of a pair is read from the
        forwarding tables of the switches by C(ibtracert), both ways.
      - A pair is left out if a port of it is not in the subnet.
    type: list
    elements: list
    default: []
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
- name: Read the subnet of the first active port
  railyard.fabric.subnet_info:
    interval_s: 0
  register: subnet

- name: Read the subnet of a chosen port, with partitions
  railyard.fabric.subnet_info:
    device: mlx5_0
    port: 1
    partitions: true

- name: Read the subnet and the path between two ports
  railyard.fabric.subnet_info:
    paths:
      - ["0x9c63c00300033240", "0x9c63c00300034bf8"]
"""

RETURN = r"""
capture:
  description: What ran, and what it printed.
  returned: success
  type: dict
  contains:
    schema:
      description: Version of this structure.
      type: int
      sample: 1
    device:
      description: The RDMA device that was named; null for the tools' own choice.
      type: str
      sample: mlx5_0
    port:
      description: Its port.
      type: int
      sample: 1
    started_at_s:
      description: When the reading began, in seconds since the epoch.
      type: float
      sample: 1795812000.5
    commands:
      description: The commands, in the order of the files of a capture.
      type: list
      elements: dict
      contains:
        argv:
          description: Program and arguments.
          type: list
          elements: str
          sample: [ibnetdiscover, -p]
        file:
          description: Name of the file of a capture that has the output.
          type: str
          sample: ibnetdiscover.txt
        stdout:
          description: What it printed, at most 32 MiB.
          type: str
          sample: ""
        stderr:
          description: What it printed to standard error, at most 1 MiB.
          type: str
          sample: ""
        rc:
          description: Exit status; null where its time was over.
          type: int
          sample: 0
        started_at_s:
          description: When it was started, in seconds since the epoch.
          type: float
          sample: 1795812000.5
        seconds:
          description: How long it took.
          type: float
          sample: 0.43
"""

import re
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.railyard.fabric.plugins.module_utils import module_end
from ansible_collections.railyard.fabric.plugins.module_utils.subnet import commands, run
from ansible_collections.railyard.fabric.plugins.module_utils.subnet.commands import Port


class OptionError(Exception):
    """An option has a value that it cannot have."""


def read(module: AnsibleModule) -> dict[str, t.Any]:
    """Return the result."""
    device, port = module.params["device"], module.params["port"]
    interval_s = module.params["interval_s"]
    if device is not None and not re.fullmatch(r"\w[\w.-]{0,63}", device, re.ASCII):
        raise OptionError(f"device is {device[:64]!a}. Give the name of an RDMA device, such as mlx5_0")
    if port is not None and not 1 <= port <= 254:
        raise OptionError(f"port is {port}. Give a port from 1 to 254")
    if not 0 <= interval_s <= 3600:
        raise OptionError(f"interval_s is {interval_s:g}. Give seconds from 0 to 3600")
    pairs = _read_pairs(module.params["paths"])
    found = run.read_subnet(Port(device, port), module.params["partitions"], interval_s, pairs)
    return {"changed": False, "capture": run.as_document(found)}


def _read_pairs(paths: list[list[t.Any]]) -> list[tuple[str, str]]:
    if len(paths) > commands.MOST_PATHS:
        raise OptionError(f"paths has {len(paths)} pairs. Give at most {commands.MOST_PATHS}")
    for pair in paths:
        if len(pair) != 2 or not all(re.fullmatch("0x[0-9a-f]{16}", str(guid), re.ASCII) for guid in pair):
            raise OptionError(
                f"paths has {str(pair)[:100]!a}. Give two GUIDs of ports, such as 0x9c63c00300033240"
            )
    return [(str(one), str(other)) for one, other in paths]


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "device": {"type": "str"},
            "port": {"type": "int"},
            "partitions": {"type": "bool", "default": False},
            "interval_s": {"type": "float", "default": 60},
            "paths": {"type": "list", "elements": "list", "default": []},
        },
        required_by={"port": "device"},
        supports_check_mode=True,
    )
    module_end.end(module, read, run.MissingToolsError, OptionError)


if __name__ == "__main__":
    main()
