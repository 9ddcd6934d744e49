# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What installing drivers would do to a node, by apt's own simulations, and what it needs afterwards."""

from __future__ import annotations

import re
import typing as t

from ..parsers.node.apt_get import Move
from .plan import Wish

# A new kernel runs after a boot only; a new version of a loaded module after its restart or a boot.
_KERNEL = re.compile(r"linux-image-\d")
_DRIVER = re.compile(
    r".*-dkms\Z|nvidia-dkms-|nvidia-(?:open-)?kernel-|linux-modules-nvidia-|mlnx-ofed-kernel-"
)


class Planned(t.NamedTuple):
    """The result of one role's request.

    Attributes:
        specs: What apt is requested to install.
        moves: What it would do.
        problem: Why it cannot plan it; None when it can.
        refused: Why the role will not do it.
    """

    specs: list[str]
    moves: list[Move]
    problem: str | None
    refused: list[str]


def wish_of(request: t.Mapping[str, t.Any]) -> Wish:
    """Return a role's request as a wish; missing keys are empty."""
    names, hold, unhold, conflicts, allowed = (
        list(request.get(key) or ()) for key in ("packages", "hold", "unhold", "conflicts", "remove_allow")
    )
    pins = {name: str(version) for name, version in (request.get("pins") or {}).items()}
    return Wish(names, pins, hold, unhold, conflicts, allowed)


def put_together(planned: t.Sequence[Planned], notes: t.Sequence[str] = ()) -> dict[str, t.Any]:
    """Return one plan of the plans of several roles; what two of them bring is named once.

    Args:
        planned: The result of each role's request.
        notes: What a role does not do, and why; empty where there is nothing to say.
    """
    moves: dict[str, Move] = {}
    for one in planned:
        for move in one.moves:
            moves.setdefault(move.name.partition(":")[0], move)
    install = [
        {"name": name, "from": move.before, "to": move.after}
        for name, move in moves.items()
        if move.after is not None
    ]
    remove = sorted(name for name, move in moves.items() if move.after is None)
    return {
        "missing": list(dict.fromkeys(spec for one in planned for spec in one.specs)),
        "install": install,
        "remove": remove,
        "problem": " | ".join(one.problem for one in planned if one.problem) or None,
        "refused": list(dict.fromkeys(said for one in planned for said in one.refused)),
        "needs": needs(install, remove),
        "notes": [note for note in notes if note],
    }


def needs(install: t.Sequence[t.Mapping[str, t.Any]], remove: t.Sequence[str]) -> list[str]:
    """Say what the transaction needs afterwards to take effect.

    Args:
        install: `{"name", "from", "to"}` each; `from` is None where the package is not there.
        remove: What goes.
    """
    said = []
    kernels = [one["name"] for one in install if _KERNEL.match(one["name"])]
    if kernels:
        said.append(f"a reboot, since {', '.join(kernels)} is installed")
    moved = [one["name"] for one in install if one["from"] and _DRIVER.match(one["name"])]
    if moved:
        said.append(f"a restart of its modules or a reboot, since {', '.join(moved)} changes its version")
    gone = [name for name in remove if _DRIVER.match(name)]
    if gone:
        said.append(f"a restart of its modules or a reboot, since {', '.join(gone)} goes")
    return said
