#!/usr/bin/python
# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Thin: text and tables are decided in module_utils/rdma/opensm_partitions.py, applied in opensm_apply.py."""

from __future__ import annotations

DOCUMENTATION = r"""
module: opensm_partitions
short_description: Write opensm's partitions, and prove by log and P_Key tables that they are in effect
version_added: "0.4.0"
description:
  - opensm that finds an error in its partition file drops it and makes every port a full member of the
    default partition, with exit status 0. This module writes the file, starts opensm anew, reads what it logs
    of this start, and reads the P_Key tables of the nodes' ports back until they are as meant.
  - Where opensm refuses the file, the old one is restored, opensm is started with it, and the module fails
    with what opensm logged.
  - A table that is not as meant within O(limit_s) is a failure that names node and rail; the file stays.
    Ports that do not answer are in RV(unread).
  - A file that is as wanted is not written again, but its tables are read.
author:
  - Railyard contributors (@railyard)
extends_documentation_fragment:
  - railyard.fabric.attributes
  - railyard.fabric.attributes.full
options:
  state:
    description:
      - V(absent) brings back the file that was there before this module, and starts opensm with it. A file
        that somebody has changed since stays.
    type: str
    choices: [present, absent]
    default: present
  partitions:
    description: P_Keys and their partitions, as C(fabric.partitions) of an inventory has them.
    type: dict
    default: {}
  ports:
    description: >-
      For each node its rails with the GUIDs of their ports, as P(railyard.fabric.port_guids#filter) has them.
    type: dict
    default: {}
  managers:
    description: GUIDs of the ports that opensm serves on this node.
    type: list
    elements: str
    default: []
  unit:
    description: The systemd unit that starts opensm for all of these ports.
    type: str
    required: true
  restart:
    description: With O(state=absent), whether opensm is started anew. Not where it is removed next.
    type: bool
    default: true
  mtu_4096:
    description: Whether IPoIB's broadcast groups have an MTU of 4096 bytes, as opposed to 2048.
    type: bool
    default: false
  path:
    description: opensm's partition file.
    type: path
    default: /etc/opensm/partitions.conf
  log:
    description: opensm's log file, with C({guid}) in place of the port's GUID.
    type: path
    default: /var/log/opensm.{guid}.log
  record:
    description: Where it is kept what the file was before.
    type: path
    required: true
  limit_s:
    description: How long opensm and the tables may take, in seconds.
    type: int
    default: 120
"""

EXAMPLES = r"""
- name: Have two partitions
  railyard.fabric.opensm_partitions:
    partitions:
      "0x7fff": {name: Default, members: all}
      "0x0010": {name: storage, members: {all: limited, gpu01: full}}
    ports:
      gpu01: {rail0: "0x506b4b0300a1b2c3"}
    managers: ["0x506b4b0300a1b2c3"]
    unit: opensm.service
    record: /var/lib/railyard/opensm_partitions.json
"""

RETURN = r"""
unread:
  description: Ports whose tables could not be read, such as those of a node that is off.
  returned: success
  type: list
  elements: str
  sample: [gpu07 rail0 (0x506b4b0300a1b2c3)]
left:
  description: With O(state=absent), whether the file was left as somebody has changed it.
  returned: success
  type: bool
  sample: false
"""

import os
import subprocess
import typing as t

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.railyard.fabric.plugins.module_utils import (
    atomic_files,
    bounded,
    module_end,
    node_files,
)
from ansible_collections.railyard.fabric.plugins.module_utils.facts import rdma_port
from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import Reader
from ansible_collections.railyard.fabric.plugins.module_utils.rdma import opensm_apply, opensm_partitions
from ansible_collections.railyard.fabric.plugins.module_utils.records.guid import normalize_guid

_QUERY_S = 10
_RESTART_S = 90


def ask(argv: t.Sequence[str]) -> str | None:
    """Run a program that only reads; None where it failed."""
    try:
        ended = bounded.ask(argv, _QUERY_S, stderr=subprocess.DEVNULL)
    except bounded.ToolError:
        return None
    return ended.text if ended.status == 0 else None


def make_opensm(params: t.Mapping[str, t.Any]) -> opensm_apply.Opensm:
    """Return the opensm of this node, with the devices of its ports as sysfs has them."""
    names = {normalize_guid(row.get("port_guid")): row["hca"] for row in rdma_port.read_hcas(Reader())}
    ports = []
    for guid in params["managers"]:
        device, _colon, number = str(names.get(normalize_guid(guid)) or "").partition(":")
        local = opensm_apply.LocalPort(normalize_guid(guid) or guid)
        ports.append(local._replace(device=device, number=int(number)) if number.isdigit() else local)

    def restart() -> str:
        argv = ["systemctl", "restart", params["unit"]]
        try:
            ended = bounded.ask(argv, _RESTART_S)
        except bounded.ToolError as error:
            return str(error)
        return f"{' '.join(argv)}: {ended.text.strip() or ended.status}" if ended.status != 0 else ""

    logs = tuple(params["log"].replace("{guid}", guid) for guid in params["managers"])
    return opensm_apply.Opensm(tuple(ports), logs, restart, ask)


def make_diff(path: str, before: str | None, after: str | None) -> dict[str, str]:
    """Return the diff of the file; what is not UTF-8 of a site's own file is shown as such."""
    shown = [
        (one or "").encode("utf-8", "surrogateescape").decode(errors="replace") for one in (before, after)
    ]
    return module_end.diff(path, *shown)


def hold_absent(module: AnsibleModule) -> dict[str, t.Any]:
    """Bring back what was there before; return the result."""
    params = module.params
    record = opensm_apply.load_record(params["record"])
    if record is None:
        return {"changed": False, "unread": [], "left": False}
    text = opensm_apply.read_file(params["path"])
    left = not opensm_apply.is_ours(text, record)
    if not module.check_mode:
        opensm = make_opensm(params) if params["restart"] else None
        opensm_apply.remove(params["path"], params["record"], record, opensm)
    after = text if left else record["before"]
    diff = make_diff(params["path"], text, after)
    return {"changed": True, "unread": [], "left": left, "diff": diff}


def hold(module: AnsibleModule) -> dict[str, t.Any]:
    """Do what the parameters ask; return the result."""
    params = module.params
    if params["state"] == "absent":
        return hold_absent(module)
    both = opensm_partitions.allows_both(
        node_files.read_text(os.path.join(os.path.dirname(params["path"]), "opensm.conf"))
    )
    intent = opensm_partitions.read_intent(params["partitions"], params["ports"], params["managers"], both)
    text = opensm_partitions.render(intent, params["mtu_4096"])
    before = opensm_apply.read_file(params["path"])
    result: dict[str, t.Any] = {
        "changed": before != text,
        "unread": [],
        "left": False,
        "diff": make_diff(params["path"], before, text),
    }
    if module.check_mode:
        return result
    known = opensm_apply.load_record(params["record"])
    # Before the file: a run that is cut off must know what was there.
    record = opensm_apply.make_record(before, text, known)
    if record != known:
        atomic_files.store_record(params["record"], record)
    try:
        applied = opensm_apply.apply(params["path"], text, intent, make_opensm(params), params["limit_s"])
    except opensm_partitions.PartitionsError:
        if opensm_apply.read_file(params["path"]) == before != text:
            opensm_apply.restore_record(params["record"], known)
        raise
    return {**result, "changed": applied.changed, "unread": list(applied.unread)}


def main() -> None:
    """Run the module."""
    module = AnsibleModule(
        argument_spec={
            "state": {"type": "str", "choices": ["present", "absent"], "default": "present"},
            "partitions": {"type": "dict", "default": {}},
            "ports": {"type": "dict", "default": {}},
            "managers": {"type": "list", "elements": "str", "default": []},
            "unit": {"type": "str", "required": True},
            "restart": {"type": "bool", "default": True},
            "mtu_4096": {"type": "bool", "default": False},
            "path": {"type": "path", "default": "/etc/opensm/partitions.conf"},
            "log": {"type": "path", "default": "/var/log/opensm.{guid}.log"},
            "record": {"type": "path", "required": True},
            "limit_s": {"type": "int", "default": 120},
        },
        supports_check_mode=True,
    )
    module_end.end(module, hold, opensm_partitions.PartitionsError)


if __name__ == "__main__":
    main()
