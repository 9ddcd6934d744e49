# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What tests/end_state reads of a node, made of a machine's data: no code of the product has a part in it."""

from __future__ import annotations

import json
from typing import Any

from support.machines.tree import Tree

_MODULES = ("ib_uverbs", "ib_umad", "rdma_ucm")


def make_reading(tree: Tree, nccl_conf: str) -> dict[str, Any]:
    """Return the reading of a node on which all roles have run.

    Args:
        tree: the node.
        nccl_conf: what role nccl_profile wrote.
    """
    node = tree.node
    ports = [
        (name, number, port) for name, device in node.rdma.items() for number, port in device.ports.items()
    ]
    return {
        "addresses": json.loads(tree.ip_json()),
        "netdevs": {name: {"pci": one.pci, "port": one.port} for name, one in node.netdevs.items()},
        "hcas": {f"{name}:{number}": port.netdev for name, number, port in ports if port.netdev},
        "rdma_links": [
            {
                "ifname": name,
                "port": int(number),
                "state": port.state.partition(": ")[2],
                **({"netdev": port.netdev} if port.netdev and port.link_layer == "Ethernet" else {}),
            }
            for name, number, port in ports
        ],
        "rdma_devices": {
            name: {"is_software": one.pci is None, "pci_id": _ids(tree, one.pci), "pci": one.pci}
            for name, one in node.rdma.items()
        },
        "gids": [
            {"device": name, "port": number, "index": str(index), "gid": gid, "type": kind}
            for name, number, _port in ports
            for index, gid, kind, _netdev in tree.gids(name, number)
        ],
        "pkeys": [
            {"device": name, "port": number, "index": str(index), "pkey": key}
            for name, number, port in ports
            for index, key in enumerate(port.pkeys)
        ],
        "modules": list(_MODULES),
        "modules_at_boot": list(_MODULES),
        "openibd_enabled": False,
        "udev_rules": [],
        "nccl": {"/etc/nccl.conf": {"text": nccl_conf, "mode": 0o644, "owner": "root"}},
    }


def _ids(tree: Tree, pci: str | None) -> str:
    function = tree.node.pci.get(pci or "")
    return "0x{}:0x{}".format(*function.ids.split(":")) if function else ":"
