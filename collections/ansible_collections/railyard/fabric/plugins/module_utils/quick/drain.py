# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Tell Slurm what a quick look found: a node that is wrong gets no new job. Running jobs are never ended.

Somebody else's drain is left as it is, before and after; what is resumed is what a quick look drained.
"""

from __future__ import annotations

import socket

from ansible_collections.railyard.fabric.plugins.module_utils import bounded
from ansible_collections.railyard.fabric.plugins.module_utils.quick.found import GOOD, WRONG, Found, reason
from ansible_collections.railyard.fabric.plugins.module_utils.state import slurm

#: How reasons begin by which a quick look knows its own drain.
REASON = slurm.own_reason("quick check:")
_EACH_S = 4.5
_ITEM, _CAUSE = "slurm", "slurm_unreachable"


def tell(found: Found, drain: bool, resume: bool, name: str | None = None) -> None:
    """Drain a node that is wrong, end such a drain where all is good; say what was done.

    Args:
        found: what was found; takes what became of it in Slurm.
        drain: whether a node that is wrong is drained.
        resume: whether a drain of an earlier look may be ended.
        name: the node's name in Slurm; by default the first part of its host name.
    """
    if not {GOOD: resume, WRONG: drain}.get(found.status, False):
        return
    node = name or socket.gethostname().split(".", maxsplit=1)[0]
    try:
        shown = bounded.ask(["scontrol", "show", "node", node], _EACH_S)
        if slurm.is_unknown(shown.status, shown.text, node):
            found.add_unknown(f"Slurm knows no node {node}", _ITEM, _CAUSE)
            return
        if shown.status != 0:
            raise slurm.SlurmError(f"scontrol show node {node}: {shown.text.strip() or shown.status}")
        state = slurm.parse_node(shown.text)
        if found.status == WRONG and state.is_drained:
            found.told.append("drained in Slurm already")
        elif found.status == WRONG:
            _update(node, "State=DRAIN", f"Reason={REASON} {reason(found)}")
            found.told.append("drained in Slurm")
        elif state.is_drained and state.reason.startswith(REASON):
            _update(node, "State=RESUME")
            found.told.append("resumed in Slurm")
    except (bounded.ToolError, slurm.SlurmError) as error:
        found.add_unknown(f"Slurm does not know of it: {error}", _ITEM, _CAUSE)


def _update(node: str, *words: str) -> None:
    """Change the node.

    Raises:
        SlurmError: Slurm does not take it.
        ToolError: it does not answer.
    """
    ended = bounded.ask(["scontrol", "update", f"NodeName={node}", *words], _EACH_S)
    if ended.status != 0:
        raise slurm.SlurmError(f"scontrol update: {ended.text.strip() or ended.status}")
