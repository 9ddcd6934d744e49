# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Each machine of the gallery is discovered as its own inventory describes it."""

from __future__ import annotations

import copy
import tempfile
from pathlib import Path

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.rails import bind
from ansible_collections.railyard.fabric.plugins.module_utils.records import bare_node
from railyard.discover.diff import differences
from railyard.discover.files import render
from railyard.new_inventory import command
from railyard.plan import view
from support.discover import nodes
from support.machines import pair


@pytest.mark.parametrize("name", pair.names())
def test_a_machine_is_discovered_as_its_inventory_describes_it(name):
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        made = pair.Pair(pair.read(name), Path(folder))
        bare = _bare(made)
        survey = nodes.discovered(bare)
        assert (survey.questions, survey.oddities) == ([], [])
        target = Path(folder) / "discovered"
        files = render(survey)
        command.write(target, files)
        plan, problems = view.plan_or_problems([str(target)])
        assert problems == []
        read = {one["key"]: bare_node.read(copy.deepcopy(one)) for one in bare}
        assert differences(plan, read, files["discovered.txt"]) == []
        assert differences(plan, read) == []
        _check_ports(made, {one["key"]: one for one in bare}, plan)
        _check_declared(made, plan)


def _bare(made):
    """Return two nodes, or four of a machine that has switches, cabled as its inventory declares."""
    planned = next(iter(made.plan["nodes"].values()))["rails"]
    found = [nodes.of_machine(node, name, place) for place, (name, node) in enumerate(made.nodes.items(), 1)]
    if made.plan["cabling"] == "switched":
        for number in (3, 4):
            one = copy.deepcopy(found[number - 3])
            one |= {"key": f"node{number}", "hostname": f"node{number}"}
            one["facts"] |= {"node": f"node{number}", "boot_id": f"boot{number}"}
            found.append(one)
    # Rails on one wire are in one network.
    wires = {rail.get("shares_wire_with"): rail["name"] for rail in planned if rail.get("shares_wire_with")}
    networks = {}
    for rail in planned:
        if rail["netdev"]:
            wire = min(rail["name"], wires.get(rail["name"], rail["name"]))
            networks.setdefault(wire, []).extend((one["key"], rail["netdev"]) for one in found)
        for one in found if rail["leaf"] and rail["netdev"] else ():
            port = next(port for port in one["ports"] if port["netdev"] == rail["netdev"])
            port["neighbours"] = [{"switch": rail["leaf"], "chassis": "02:00:00:00:00:01", "port": "Eth1"}]
    nodes.wire(found, networks.values())
    return found


def _check_ports(made, bare, plan):
    """Check that the rails are bound to the same ports, in the same order."""
    for name, own in made.plan["nodes"].items():
        wanted, is_bound = (
            {
                rail: ((one.netdev or {}).get("netdev"), (one.hca or {}).get("hca"))
                for rail, one in bind.bind(rails, bare[name]["facts"]).items()
            }
            for rails in (own["rails"], plan["nodes"][name]["rails"])
        )
        # InfiniBand's netdev is not read where the inventory names the port by its PCI address alone.
        assert {rail: hca for rail, (_netdev, hca) in is_bound.items()} == made.machine.expected.hcas
        assert {rail: netdev for rail, (netdev, _hca) in is_bound.items()} == {
            rail: netdev for rail, (netdev, _hca) in wanted.items()
        }


def _check_declared(made, plan):
    """Check that what is declared of rails and nodes is the same."""
    for key in ("transport", "node_class", "cabling"):
        assert plan[key] == made.plan[key]
    for name, own in made.plan["nodes"].items():
        found = plan["nodes"][name]
        assert found["frontend"]["netdev"] == own["frontend"]["netdev"]
        for rail, wanted in zip(found["rails"], own["rails"], strict=True):
            assert rail["rate_gbps"] == wanted["rate_gbps"]
            assert rail.get("shares_wire_with") == wanted.get("shares_wire_with")
            # No switch of InfiniBand announces itself by LLDP.
            assert rail["leaf"] == (wanted["leaf"] if made.plan["transport"] == "roce" else None)
        gpus, wanted_gpus = found.get("gpus"), own.get("gpus")
        if wanted_gpus is None:
            # Some machines' sources say nothing of their GPUs.
            assert (gpus or {"count": made.machine.expected.gpus})["count"] == made.machine.expected.gpus
        else:
            assert gpus["count"] == wanted_gpus["count"]
            assert (wanted_gpus.get("model") or "") in gpus["model"]
