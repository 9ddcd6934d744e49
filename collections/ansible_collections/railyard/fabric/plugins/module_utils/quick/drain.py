# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Drain a node in Slurm after a quick check that found errors, and resume it. Running jobs are never ended.

A drain by another user or program is left unchanged; only a drain of the quick check is resumed.
"""

from __future__ import annotations

import socket

from .. import bounded
from ..state import slurm
from .found import GOOD, WRONG, Found, reason

#: The beginning of the reason by which the quick check recognizes its own drain.
REASON = slurm.own_reason("quick check:")
_EACH_S = 4.5
_ITEM, _CAUSE = "slurm", "slurm_unreachable"


def tell(found: Found, drain: bool, resume: bool, name: str | None = None) -> None:
    """Drain a node with errors, or resume it if all is good; report what was done.

    Args:
        found: the findings; takes what was done in Slurm.
        drain: whether to drain a node with errors.
        resume: whether to end a drain of an earlier quick check.
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
        SlurmError: Slurm rejects it.
        ToolError: Slurm does not answer.
    """
    ended = bounded.ask(["scontrol", "update", f"NodeName={node}", *words], _EACH_S)
    if ended.status != 0:
        raise slurm.SlurmError(f"scontrol update: {ended.text.strip() or ended.status}")
