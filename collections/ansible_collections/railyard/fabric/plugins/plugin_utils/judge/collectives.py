# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a test of all nodes together says, and when it can be believed. Pure.

busbw is what a rank's wire carries each way in a ring, so that it is bounded by the rails' rate above. Below
nothing bounds what torch makes of a wire; but the rails of one run are alike, and one that falls far behind
the others of its own job is slow.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import ALL_RAILS
from ansible_collections.railyard.fabric.plugins.module_utils.collective import operations
from ansible_collections.railyard.fabric.plugins.module_utils.collective.sweep import WARM_UP
from ansible_collections.railyard.fabric.plugins.module_utils.measure import torch_job
from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import PASS, RECORDED
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import (
    is_number,
    is_texts,
    is_whole,
)
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.bounds import Bounds, end_rate
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.draft import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.row_numbers import window_s

Row = Mapping[str, Any]
ELSEWHERE, OPERATIONS = torch_job.ELSEWHERE, torch_job.OPERATIONS
#: What a job that all nodes came to must not end with.
FAILURES = ("collective_failed", "collective_wrong")
HAS_TO_END = "a job that all nodes came to has to end, with the right numbers"
#: Below so much of the best of its own job a rail is slow: far more than a busy processor sets them apart.
_SLOW = 0.6
_GOOD = (PASS, RECORDED)
# What is said with five digits.
_DIGITS = 1e-3


def doubt(row: Row, policy: Mapping[str, Any]) -> str | None:
    """Tell why a row's own account or the rails' counters do not bear its numbers out, or None."""
    said, counters, window = row.get("collective"), row.get("counters"), window_s(row)
    if not isinstance(said, Mapping) or not isinstance(counters, Mapping) or window is None:
        return "it brings no account of the job, or no counters"
    if wrong := next(_wrong(row, said, policy), None):
        return wrong
    spans = {}
    for name, span in counters.items():
        if not isinstance(span, list) or len(span) != 2:
            return f"{name} is {span!r}"
        spans[name] = [one if is_whole(one) else None for one in span]
    lasted_s, idle = window[1] - window[0], float(policy["idle_bytes_per_s"])
    return torch_job.doubt(str(row["check"]), spans, said, lasted_s, idle)


def _wrong(row: Row, said: Row, policy: Mapping[str, Any]) -> Iterator[str]:
    """Yield in what a job's account contradicts what was asked, or itself."""
    rails, ranks, nodes, moved = (said.get(key) for key in ("rails", "ranks", "nodes", "moved_bytes"))
    subject = row.get("subject")
    if not is_texts(rails) or not rails or (subject != ALL_RAILS and rails != [subject]):
        yield f"it ran over {rails!r}, asked was {subject}"
    if said.get("backend") != policy["collective_backend"]:
        yield f"its backend is {said.get('backend')!r}"
    if not (is_whole(ranks) and is_whole(nodes) and 2 <= nodes <= ranks and is_number(moved) and moved > 0):
        yield f"nodes, ranks and moved_bytes are {nodes!r}, {ranks!r}, {moved!r}"
        return
    most = said.get("most_bytes", moved)
    if not is_number(most) or not moved <= most <= 3 * moved:
        yield f"most_bytes is {most!r}"
    if row["check"] not in OPERATIONS:
        return
    name, processes = OPERATIONS[row["check"]], said.get("processes")
    if name == operations.ALLTOALL and not _can_be(processes, ranks, nodes, policy):
        yield f"its processes are {processes!r}, of {ranks} on {nodes} nodes"
        return
    sizes = said.get("sizes")
    if not isinstance(sizes, list) or not sizes or not all(map(_is_point, sizes)):
        yield f"sizes is {sizes!r}"
        return
    factor, metrics = operations.wire_factor(name, ranks), row["metrics"]
    sent = sum((one["iterations"] + WARM_UP) * one["size_bytes"] for one in sizes)
    sent *= operations.rails_factor(name, ranks, processes or 1)
    if abs(sent - moved) > _DIGITS * sent:
        yield f"its sizes make {sent:.0f} bytes, moved_bytes is {moved}"
    last = sizes[-1]
    follows = last["size_bytes"] * factor / last["time_us"] / 1e3
    if (
        abs(follows - metrics["busbw_GBps"]) > _DIGITS * follows
        or metrics["size_bytes"] != last["size_bytes"]
    ):
        yield f"busbw_GBps is {metrics['busbw_GBps']!r}, by size and time {follows:.5g}"
    window = window_s(row) or (0.0, 0.0)
    # The median of many is at most twice their mean.
    busy_s = sum(one["iterations"] * one["time_us"] for one in sizes) / 2e6
    if busy_s > window[1] - window[0]:
        yield f"its operations take {busy_s:.3g} s at least, the job lasted {window[1] - window[0]:.3g}"


def _can_be(processes: object, ranks: int, nodes: int, policy: Mapping[str, Any]) -> bool:
    """Tell whether a node can have so many of a job's processes; of gloo it has one."""
    most = 1 if policy["collective_backend"] == "gloo" else ranks - nodes + 1
    return is_whole(processes) and 1 <= processes <= most


def _is_point(one: object) -> bool:
    if not isinstance(one, Mapping):
        return False
    numbers = [one.get(key) for key in ("size_bytes", "iterations", "time_us")]
    return all(is_number(number) and number > 0 for number in numbers)


def bounds(row: Row, rails: Mapping[str, Bound]) -> Bounds:
    """Return the ceiling of an operation's busbw: what the node's rails carry together.

    Each node has to send (N-1)/N of what it reduced within, twice; busbw reckons with 2(n-1)/n of n ranks. Of
    an all-gather it has to get as much once. Of an all-to-all its rails carry the blocks of each of its
    processes.
    """
    said = row["collective"]
    rates = [
        end_rate(rails[rail]) if rail in rails else (None, f"{rail} is not known") for rail in said["rails"]
    ]
    unknown = next((basis for gbps, basis in rates if gbps is None), None)
    if unknown is not None:
        return Bounds(basis=unknown)
    nodes, ranks = said["nodes"], said["ranks"]
    gbps = sum(gbps for gbps, _basis in rates if gbps is not None)
    name = OPERATIONS[row["check"]]
    least = operations.wire_factor(name, nodes)
    if name == operations.ALLTOALL:
        least = operations.rails_factor(name, ranks, said["processes"])
    most = gbps / 8 * operations.wire_factor(name, ranks) / least
    basis = f"{' and '.join(dict.fromkeys(basis for _gbps, basis in rates))}, which busbw cannot pass"
    return Bounds({}, {"busbw_GBps": most}, f"{basis}; no authority says how much of it torch has to reach")


def compare(asked: Sequence[Row], found: Sequence[Answer]) -> None:
    """Fail the rails whose all-reduce falls far behind that of the best one that is declared alike.

    Args:
        asked: the asked lines.
        found: their answers, in the same order; those of slow rails are changed.
    """
    alike: dict[tuple[str, float], list[tuple[str, Answer]]] = {}
    for line, answer in zip(asked, found, strict=True):
        most = answer.ceiling.get("busbw_GBps")
        alone = line["check"] == "collective_allreduce" and line.get("subject") != ALL_RAILS
        if alone and most and answer.outcome in _GOOD:
            alike.setdefault((str(line["node"]), float(most)), []).append((str(line["subject"]), answer))
    for (node, _most), rails in alike.items():
        best, least = max((answer.observed["busbw_GBps"], rail) for rail, answer in rails), _SLOW
        for rail, answer in rails:
            seen = answer.observed["busbw_GBps"]
            if seen < least * best[0]:
                detail = f"{node} {rail}: {seen:g} GB/s, {best[1]} has {best[0]:g}"
                proof = answer.proof
                answer.failed("collective_slow_rail", detail).proof = proof
