# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Read a node's state in Slurm, and whether Railyard drained it.

Read from the text of `scontrol show node`: the one form that all versions have, Debian 12's 22.05 too.
"""

from __future__ import annotations

import re
import typing as t

#: The beginning of each reason of Railyard; a drain with another reason is left unchanged.
OWN_REASON = "Railyard: "

_STATE = re.compile(r"(?m)^\s*State=(\S+)")
# Its own line; the text may hold anything, and ends with who gave it and when.
_REASON = re.compile(r"(?m)^\s*Reason=(.*?)(?: \[[^\[\]@\s]+@[^\[\]\s]+\])?\s*$")
_CPUS = re.compile(r"(?m)^\s*CPUAlloc=(\d+)")
#: `*` not responding, `~` `#` `!` `%` power down or up, `$` maintenance, `@` `^` reboot, `-` planned.
MARKS = "*~#!%$@^-"
_BUSY = ("ALLOCATED", "MIXED", "DRAINING", "COMPLETING")
_DRAINED = ("DRAIN", "DRAINED", "DRAINING")


class SlurmError(Exception):
    """Slurm failed or gave an invalid answer; the message has the reason and the fix."""


class Node(t.NamedTuple):
    """A node as Slurm sees it.

    Attributes:
        state: As printed: `IDLE+DRAIN`.
        reason: Why it is drained or down; empty without one.
        is_drained: Whether no new job comes to it.
        is_busy: Whether a job runs on it, or ends.
    """

    state: str
    reason: str
    is_drained: bool
    is_busy: bool

    @property
    def is_ours(self) -> bool:
        """Tell whether Railyard drained it."""
        return self.is_drained and self.reason.startswith(OWN_REASON)


def parse_node(text: str) -> Node:
    """Read what `scontrol show node NAME` prints.

    Raises:
        SlurmError: There is no state in it.
    """
    state = _STATE.search(text)
    if state is None:
        raise SlurmError(f"scontrol says nothing of the node's state: {text.strip()[:200]!r}")
    words = [word.rstrip(MARKS) for word in state.group(1).split("+")]
    reason = _REASON.search(text)
    allocated = _CPUS.search(text)
    return Node(
        state.group(1),
        reason.group(1) if reason else "",
        any(word in _DRAINED for word in words),
        any(word in _BUSY for word in words) or (allocated is not None and int(allocated.group(1)) > 0),
    )


def is_unknown(code: int, out: str, name: str) -> bool:
    """Tell whether scontrol knows its cluster, and no such node in it."""
    return code != 0 and f"Node {name} not found" in out


def own_reason(text: str) -> str:
    """Return a reason by which Railyard knows its drain again."""
    return OWN_REASON + " ".join(text.split())
