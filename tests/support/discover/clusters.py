# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Small clusters of equal nodes for the rules of discovery, and how to read what was found."""

from __future__ import annotations

import yaml
from railyard.discover.files import render
from railyard.new_inventory import command

from support.discover import nodes

TWO = ["0000:18:00.0", "0000:40:00.0"]


def cluster(count=2, slots=TWO, wired=True, switched=False, **ports):
    """Return equal nodes gpu1, gpu2, … with a port ens1, ens2, … in each slot; `ports` is of every port."""
    found = [
        nodes.made_up(
            f"gpu{number}",
            [{"netdev": f"ens{place}", "pci": slot, **ports} for place, slot in enumerate(slots, 1)],
        )
        for number in range(1, count + 1)
    ]
    if wired:
        netdevs = [f"ens{place}" for place in range(1, len(slots) + 1)]
        nodes.wire(found, [[(one["key"], netdev) for one in found] for netdev in netdevs])
    for one in found if switched else ():
        for place, _slot in enumerate(slots, 1):
            port(one, f"ens{place}")["neighbours"] = [{"switch": f"leaf{place}", "chassis": "x", "port": "1"}]
    return found


def port(node, netdev):
    return next(one for one in node["ports"] if one["netdev"] == netdev)


def row(node, netdev):
    return next(one for one in node["facts"]["netdevs"] if one["netdev"] == netdev)


def hca(node, netdev):
    return next(one for one in node["facts"]["hcas"] if one["netdev"] == netdev)


def names(found):
    return [rail.value for rail in found.rails]


def written(tmp_path, found):
    """Write the inventory, which preflight checks, and return its fabric."""
    files = render(found)
    command.write(tmp_path / "inventory", files)
    return yaml.safe_load(files["group_vars/all/fabric.yml"])["fabric"]


def of_groups(files):
    """Return of each group beside gpu_nodes its nodes and the values of its variables."""
    hosts = yaml.safe_load(files["hosts.yml"])
    return {
        (tuple(group["hosts"]), tuple(map(str, yaml.safe_load(files[f"group_vars/{name}.yml"]).values())))
        for name, group in hosts.items()
        if name != "gpu_nodes"
    }


def mentions(found, *words):
    """Return whether one sentence has all of the words."""
    texts = [*found.oddities, *found.not_known, *found.assumed, *(one.text for one in found.questions)]
    return any(all(word in text for word in words) for text in texts)
