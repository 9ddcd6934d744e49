# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""A thousand nodes with eight rails take seconds, and the time grows with their number."""

from __future__ import annotations

import time

from ansible_collections.railyard.fabric.plugins.module_utils.records import bare_node
from railyard.discover.diff import differences
from railyard.discover.files import render
from railyard.discover.model import Named
from railyard.discover.survey import survey
from railyard.new_inventory import command
from railyard.plan import view
from support.discover import nodes

RAILS = 8


def cluster(count):
    names = [f"ens{rail}" for rail in range(RAILS)]
    found = []
    for number in range(1, count + 1):
        ports = [
            {"netdev": name, "pci": f"0000:{16 + rail:02x}:00.0", "leaf": f"leaf{rail}"}
            for rail, name in enumerate(names)
        ]
        if number % 100 == 7:  # a card in another slot
            ports[3] = {"netdev": "ens30", "pci": "0000:77:00.0", "leaf": "leaf3"}
        found.append(nodes.made_up(f"gpu{number:04}", ports))
    networks = [[(one["key"], one["ports"][rail + 1]["netdev"]) for one in found] for rail in range(RAILS)]
    nodes.wire(found, networks, most=64)
    return {one["key"]: bare_node.read(one) for one in found}


def timed(bare):
    named = {name: Named(name, name) for name in bare}
    begin = time.process_time()
    files = render(survey(bare, named))
    return files, time.process_time() - begin


def test_time_is_linear_in_nodes(tmp_path):
    _small, first_s = timed(cluster(128))
    bare = cluster(1024)
    files, second_s = timed(bare)
    assert second_s < 30
    # Eight times the nodes; quadratic would be 64 times.
    assert second_s < 24 * max(first_s, 0.1)
    command.write(tmp_path / "inventory", files)
    plan, problems = view.plan_or_problems([str(tmp_path / "inventory")])
    assert problems == []
    assert len(plan["nodes"]) == 1024
    begin = time.process_time()
    assert differences(plan, bare, files["discovered.txt"]) == []
    assert time.process_time() - begin < 30
