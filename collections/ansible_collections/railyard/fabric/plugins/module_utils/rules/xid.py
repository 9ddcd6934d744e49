# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Which XIDs are the GPU's, and which the application's. Pure.

By the immediate action of NVIDIA's "Analyzing Xid Errors with the Xid Catalog" (docs.nvidia.com/deploy/
xid-errors): what asks to reset the GPU, to restart the node, or to follow a workflow for hardware is
critical. XIDs that require to restart the application (13, 31, 43, 45; 94, a contained error) or nothing (63,
a row that is remapped; 92) are reported; their effects show in the GPU's memory. 154 has the action for
another XID. A number that is not in the catalogue is reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from ..records.facts import Xid

_RESET, _RESTART, _WORKFLOW = "reset the GPU", "restart the node", "follow NVIDIA's workflow for it"
CRITICAL: Mapping[int, str] = {
    46: _RESET,
    48: _RESET,
    62: _RESET,
    64: _RESET,
    74: _WORKFLOW,
    79: _RESTART,
    95: _RESET,
    109: _RESET,
    110: _RESET,
    119: _RESET,
    120: _RESET,
    136: _RESET,
    140: _RESET,
    143: _RESET,
    151: _RESTART,
    154: "recover it as it says",
    155: _RESET,
    156: _RESET,
    158: _RESET,
}
#: Of NVLink 5 and its network; their driver says of each whether it is fatal, as it does of a switch's SXIDs.
SAID_TO_BE_FATAL = range(144, 151)
_SAID = 80


def sort_out(seen: Iterable[Xid]) -> tuple[list[tuple[str, str]], Counter[str]]:
    """Part what the kernel's log says of GPUs and switches.

    Args:
        seen: as `kernel_log.Log.seen` has it.

    Returns:
        Place and words of what is critical, and how often each other XID was written.
    """
    critical: list[tuple[str, str]] = []
    told: Counter[str] = Counter()
    for one in seen:
        kind, number, times = one["kind"], one["xid"], one["count"]
        action = CRITICAL.get(number) if kind == "XID" else None
        if one["fatal"] and (kind == "SXID" or number in SAID_TO_BE_FATAL):
            action = "fatal"
        if action is None:
            told[f"{kind} {number}"] += times
            continue
        said = f"{kind} {number} ({action}), {times} times, last: {one['said'][:_SAID]}"
        critical.append((one["pci"], said))
    return critical, told
