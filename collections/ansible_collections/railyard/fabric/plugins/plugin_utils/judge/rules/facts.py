# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge link, address and MTU of each rail from the node's facts. Pure."""

from __future__ import annotations

from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine
from ansible_collections.railyard.fabric.plugins.module_utils.rules import link
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.facts import BoundFacts
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row


def judge(asked: AskedLine, rail: Row, fleet: BoundFacts) -> Answer:
    """Judge a facts check.

    Args:
        asked: the planned test; its check is link, address or mtu.
        rail: the plan's rail.
        fleet: all facts.
    """
    node, check = str(asked["node"]), str(asked["check"])
    if left_out := link.left_out(check, rail, fleet.transports.get(node)):
        return Answer.from_ruling(left_out)
    if nothing := fleet.unknown(node):
        return nothing
    bound = fleet.bound[node][str(rail["name"])]
    answer = Answer.from_ruling(link.rule(check, node, bound, fleet.classes[node], fleet.owners))
    share = fleet.shares[node].get(str(rail["name"]))
    if check == "link" and share is not None:
        answer.basis += f"; {node}: {share.basis}"
    return answer
