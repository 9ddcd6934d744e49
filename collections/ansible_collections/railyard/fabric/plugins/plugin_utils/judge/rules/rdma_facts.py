# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge a rail's RDMA port, GID, RDMA MTU and P_Keys from the node's facts. Pure."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine
from ansible_collections.railyard.fabric.plugins.module_utils.rules import rdma
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.facts import BoundFacts
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row


def judge(asked: AskedLine, rail: Row, fleet: BoundFacts) -> Answer:
    """Judge an RDMA facts check.

    Args:
        asked: the planned test; its check is one of `rules.rdma.CHECKS`.
        rail: the plan's rail.
        fleet: all facts.
    """
    node, check = str(asked["node"]), str(asked["check"])
    transport = fleet.transports.get(node, "")
    if transport not in rdma.CHECKS:
        answer = Answer(basis="RDMA is checked on nodes that declare it")
        return answer.unknown("rdma_unknown", f"{node}: the plan declares {transport or 'no transport'}")
    if nothing := fleet.unknown(node):
        return nothing
    bound = fleet.bound[node][str(rail["name"])]
    ports = fleet.ports.get(node, ())
    mine = rdma.Node(node, transport, fleet.classes.get(node), ports, fleet.fastest, fleet.pkeys)
    return Answer.from_ruling(rdma.rule(check, mine, bound))
