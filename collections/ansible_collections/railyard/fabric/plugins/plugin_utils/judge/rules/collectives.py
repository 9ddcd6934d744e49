# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What a test of all nodes together says, and when it can be believed. Pure.

busbw is what a rank's wire carries each way in a ring, so that it is bounded by the rails' rate above. Below
nothing bounds what torch makes of a wire; but the rails of one run are alike, and one that falls far behind
the others of its own job is slow.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from ansible_collections.railyard.fabric.plugins.module_utils.catalogue.tests import ALL_RAILS
from ansible_collections.railyard.fabric.plugins.module_utils.collective import operations
from ansible_collections.railyard.fabric.plugins.module_utils.collective.sweep import WARM_UP, sizes_up_to
from ansible_collections.railyard.fabric.plugins.module_utils.measure import outliers, torch_job
from ansible_collections.railyard.fabric.plugins.module_utils.rails.bind import Bound
from ansible_collections.railyard.fabric.plugins.module_utils.records.asked import AskedLine
from ansible_collections.railyard.fabric.plugins.plugin_utils.bounds.bounds import Bounds, find_end_rate
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import PASS, RECORDED
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import Policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.outcome.answer import Answer
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.documents import Row

ELSEWHERE, OPERATIONS = torch_job.ELSEWHERE, torch_job.OPERATIONS
#: What a job that all nodes came to must not end with.
FAILURES = ("collective_failed", "collective_wrong")
HAS_TO_END = "a job that all nodes came to has to end, with the right numbers"
_GOOD = (PASS, RECORDED)
# What is said with five digits.
_DIGITS = 1e-3
#: Efficiency is rounded to a tenth, and so are the samples that it follows from, to a hundredth.
_EFFICIENCY_PERCENT = 0.2
#: Ranks together are no faster than each alone. Noise, of a measurement of some seconds, is no half of it.
_MOST_PERCENT = 150.0
#: What all nodes of a job tell alike.
_TOLD_ALIKE = (
    *("backend", "nodes", "ranks", "call", "sizes", "left_out_bytes"),
    *("steps", "gradient_bytes", "loss_first", "loss_last"),
)


def doubt(row: Row, policy: Policy) -> str | None:
    """Tell why a row's own account or the rails' counters do not bear its numbers out, or None."""
    said, window = row["collective"], row["window_s"]
    if wrong := next(_wrong(row, said, policy), None):
        return wrong
    lasted_s, idle = window[1] - window[0], float(policy["idle_bytes_per_s"])
    return torch_job.doubt(str(row["check"]), row["counters"], said, lasted_s, idle)


def _wrong(row: Row, said: Row, policy: Policy) -> Iterator[str]:
    """Yield in what a job's account contradicts what was asked, or itself."""
    rails, ranks, nodes, moved = (said[key] for key in ("rails", "ranks", "nodes", "moved_bytes"))
    subject, processes, metrics = row["subject"], said["processes"], row["metrics"]
    if subject != ALL_RAILS and rails != [subject]:
        yield f"it ran over {', '.join(rails)}, asked was {subject}"
    if said["backend"] != policy["collective_backend"]:
        yield f"its backend is {said['backend']!r}"
    # Of gloo a node has one process.
    most_processes = 1 if policy["collective_backend"] == "gloo" else ranks - nodes + 1
    if nodes > ranks or processes > most_processes:
        yield f"its processes are {processes}, of {ranks} on {nodes} nodes"
    if row["check"] not in OPERATIONS:
        yield from _wrong_training(said, metrics)
        return
    name, sizes = OPERATIONS[row["check"]], said["sizes"]
    asked = [
        size
        for size in sizes_up_to(int(policy["collective_most_bytes"]))
        if size >= operations.least_bytes(name, ranks)
    ]
    if len(sizes) + len(said["left_out_bytes"]) != max(len(asked), 1):
        told = f"{len(sizes)} sizes and {len(said['left_out_bytes'])} that were left out"
        yield f"it tells of {told}, asked were {len(asked)}"
    for one, other in pairwise(sizes):
        if one["size_bytes"] >= other["size_bytes"]:
            yield f"{other['size_bytes']} bytes come after {one['size_bytes']}"
    factor = operations.wire_factor(name, ranks)
    sent = sum((one["iterations"] + WARM_UP) * one["size_bytes"] for one in sizes)
    sent *= operations.rails_factor(name, ranks, processes)
    if abs(sent - moved) > _DIGITS * sent:
        yield f"its sizes make {sent:.0f} bytes, moved_bytes is {moved}"
    last = sizes[-1]
    follows = last["size_bytes"] * factor / last["time_us"] / 1e3
    if (
        abs(follows - metrics["busbw_GBps"]) > _DIGITS * follows
        or metrics["size_bytes"] != last["size_bytes"]
    ):
        yield f"busbw_GBps is {metrics['busbw_GBps']!r}, by size and time {follows:.5g}"
    window = row["window_s"]
    # The median of many is at most twice their mean.
    busy_s = sum(one["iterations"] * one["time_us"] for one in sizes) / 2e6
    if busy_s > window[1] - window[0]:
        yield f"its operations take {busy_s:.3g} s at least, the job lasted {window[1] - window[0]:.3g}"


def _wrong_training(said: Row, metrics: Row) -> Iterator[str]:
    """Yield in what a training job's numbers contradict each other."""
    if not said["moved_bytes"] <= said["most_bytes"] <= 3 * said["moved_bytes"]:
        yield f"most_bytes is {said['most_bytes']}, moved_bytes {said['moved_bytes']}"
    if said["loss_last"] >= said["loss_first"]:
        yield f"the loss went from {said['loss_first']:g} to {said['loss_last']:g}"
    alone = metrics["alone_samples_per_s"] * said["ranks"]
    follows = 100 * metrics["samples_per_s"] / alone if alone > 0 else 0.0
    if abs(follows - metrics["efficiency_percent"]) > _EFFICIENCY_PERCENT + _DIGITS * follows:
        yield f"efficiency_percent is {metrics['efficiency_percent']:g}, by its samples {follows:.4g}"
    if follows > _MOST_PERCENT:
        yield f"efficiency_percent is {metrics['efficiency_percent']:g}, more than ranks can reach together"


def agree(asked: Sequence[AskedLine], found: Sequence[Answer], rows: Mapping[str, Sequence[Row]]) -> None:
    """Take back the rows of a job that contradict those of its other nodes; changed in place.

    Every decision of a job is made by all ranks together, and each time is that of the slowest: all nodes
    tell of the same ranks, sizes and times. Where they do not, what more than half of them tell counts.

    Args:
        asked: the asked lines.
        found: their answers, in the same order.
        rows: id -> its rows.
    """
    jobs: dict[tuple[str, str], list[tuple[Row, Answer]]] = {}
    nodes: Counter[tuple[str, str]] = Counter()
    for line, answer in zip(asked, found, strict=True):
        if str(line["tool"]).startswith("torch_"):
            job = str(line["check"]), str(line.get("subject"))
            nodes[job] += 1
            if answer.proof == "proven":
                jobs.setdefault(job, []).append((rows[str(line["id"])][0], answer))
    for job, members in jobs.items():
        accounts = [{key: row["collective"].get(key) for key in _TOLD_ALIKE} for row, _answer in members]
        told = [json.dumps(account) for account in accounts]
        common, many = Counter(told).most_common(1)[0]
        usual = accounts[told.index(common)] if 2 * many > len(told) else None
        for (row, answer), account in zip(members, accounts, strict=True):
            where = f"{row['host']}: "
            if account["nodes"] != nodes[job]:
                answer.unknown(
                    "not_borne_out", f"{where}its job had {account['nodes']} nodes, {nodes[job]} were asked"
                )
            elif len(set(told)) > 1 and account != usual:
                other = usual or next(one for one in accounts if one != account)
                key = next(key for key in _TOLD_ALIKE if account[key] != other[key])
                whose = (
                    f"{many} of the job's {len(told)} nodes report"
                    if usual
                    else "another node of the job reports"
                )
                answer.unknown("not_borne_out", f"{where}{key} is not what {whose}")


def bounds(row: Row, rails: Mapping[str, Bound]) -> Bounds:
    """Return the ceiling of an operation's busbw: what the node's rails carry together.

    Each node has to send (N-1)/N of what it reduced within, twice; busbw reckons with 2(n-1)/n of n ranks. Of
    an all-gather it has to get as much once. Of an all-to-all its rails carry the blocks of each of its
    processes.
    """
    said = row["collective"]
    rates = [
        find_end_rate(rails[rail]) if rail in rails else (None, f"{rail} is not known")
        for rail in said["rails"]
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


def compare(asked: Sequence[AskedLine], found: Sequence[Answer]) -> None:
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
        best = max((answer.observed["busbw_GBps"], rail) for rail, answer in rails)
        for rail, answer in rails:
            seen = answer.observed["busbw_GBps"]
            if outliers.behind(seen, best[0], outliers.RAIL_OF_JOB):
                detail = f"{node} {rail}: {seen:g} GB/s, {best[1]} has {best[0]:g}"
                proof = answer.proof
                answer.failed("collective_slow_rail", detail).proof = proof
