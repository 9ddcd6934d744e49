# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Decide which run folders are still needed. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from ansible_collections.railyard.fabric.plugins.plugin_utils.continuous.own_history import GOOD_RUNS
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.node_results import RunResult


def needed(names: Sequence[str], runs: Iterable[RunResult], keep: int, since_s: float) -> set[str]:
    """Return the runs that stay.

    These are the newest ones, those of the last days, those that cannot be read, each node's last five good
    runs, with which it is compared, and its newest two runs, by which it may be drained.

    Args:
        names: run ids, newest first.
        runs: those that can be read, newest first.
        keep: so many of the newest stay.
        since_s: younger ones stay, Unix time.
    """
    runs = list(runs)
    readable = {run.run for run in runs}
    stay = {*names[:keep], *(name for name in names if name not in readable or _begun_s(name) >= since_s)}
    good: dict[str, int] = {}
    seen: dict[str, int] = {}
    for run in runs:
        for node, one in run.nodes.items():
            seen[node] = seen.get(node, 0) + 1
            if one.is_good:
                good[node] = good.get(node, 0) + 1
            if seen[node] <= 2 or (one.is_good and good[node] <= GOOD_RUNS):
                stay.add(run.run)
    return stay


def _begun_s(run: str) -> float:
    return datetime.strptime(run.partition("-")[0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC).timestamp()
