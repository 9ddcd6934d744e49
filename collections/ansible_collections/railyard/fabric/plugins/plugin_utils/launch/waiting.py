# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Choose the pauses between two looks at a measuring node, and when to stop waiting for it.

Each look renews the node's lease, and takes something from the test under way where node or controller is
slow: so there are few, and the last comes when the tests should be done, by their times and the pace so far.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

#: The runner has not reported anything before the first look.
_FIRST_S = 5.0
#: How long one look may take where the lease is the usual one; a site with slow nodes has a longer lease.
_LOOK_S, _LOOKS_IN_LEASE = 45.0, 4
#: What a look that fails and the one after it take beyond that.
_LATE_S = 15.0

Look = Mapping[str, Any]


class MissedError(Exception):
    """A look that came to nothing."""


def look_limit_s(lease_s: float) -> float:
    """Return how long a node has to answer one look: a slow one, whose lease is longer, has longer."""
    return max(_LOOK_S, lease_s / _LOOKS_IN_LEASE)


def until_done(
    look: Callable[[], Look],
    sleep: Callable[[float], object],
    now: Callable[[], float],
    lease_s: float,
    deadline_s: float,
    tell: Callable[[str], object],
    warn: Callable[[Sequence[str]], object],
) -> Look:
    """Look at a node until it is done, or its progress is unknown.

    Args:
        look: looks once; returns what `runner.progress.read` returns.
        sleep: waits so many seconds.
        now: a clock that is never set, in seconds.
        lease_s: the node stops by itself when it is not looked at for so long.
        deadline_s: after so long it is certainly done, by the controller's calculation; what the node reports
            of its time only brings a look forward.
        tell: takes a line of progress each time that it changes.
        warn: takes the node's rails that look bad so far, each time that there are others.

    Returns:
        The last look; `done` is false where the deadline has passed.

    Raises:
        MissedError: two looks in a row came to nothing.
    """
    # Not so long that a look which fails and the one after it could come too late for the lease.
    longest_s = max(lease_s - look_limit_s(lease_s) - _LATE_S, lease_s / 3)
    over = now() + deadline_s
    pause_s, misses, shown = _FIRST_S, 0, ""
    warned: Sequence[str] = []
    while True:
        sleep(min(pause_s, longest_s))
        try:
            seen = look()
        except MissedError:
            misses += 1
            if misses > 1:
                raise
            pause_s = _FIRST_S
            continue
        misses = 0
        if (line := progress_line(seen)) != shown:
            shown = line
            tell(line)
        if seen["suspects"] and seen["suspects"] != warned:
            warned = seen["suspects"]
            warn(warned)
        if seen["done"] or now() > over:
            return seen
        left_s = seen["left_s"]
        pause_s = _FIRST_S if left_s is None else max(_FIRST_S, left_s + 2.0)


def progress_line(seen: Look) -> str:
    """Return a line about a node's progress; `railyard.base.progress` reads its numbers back."""
    line = f"measuring: {seen['finished_tests']} of {seen['total_tests']} tests done"
    if seen["meetings"] > 1:
        line += f", {seen['round']} of {seen['rounds']} rounds, {seen['met']} of {seen['meetings']} pairs"
    left_s = seen["left_s"]
    if left_s is not None and left_s >= 5 and not seen["done"]:
        line += f", about {round(left_s / 60)} min left" if left_s >= 90 else f", about {left_s:.0f} s left"
    return f"{line}, {seen['current']}" if seen["current"] else line
