# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Judge tests of all nodes together (collectives and training), and check that their rows agree. Pure.

busbw is the bandwidth of a rank's link in each direction of a ring, so the rails' rate is its ceiling. There
is no reference for a floor of torch; but the rails of one run are comparable, and a rail that falls far
behind the others of its job is slow.
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
#: Errors with which a job that all nodes joined fails.
FAILURES = ("collective_failed", "collective_wrong")
HAS_TO_END = "a job that all nodes joined must end with correct results"
_GOOD_OUTCOMES = (PASS, RECORDED)
# Relative precision of numbers with five digits.
_DIGITS = 1e-3
#: Efficiency is rounded to a tenth, and the samples that it is calculated from to a hundredth.
_EFFICIENCY_PERCENT = 0.2
#: Ranks together are not faster than each alone. Noise in a measurement of some seconds is less than half of
#: it.
_MOST_PERCENT = 150.0
#: Keys with the same value on all nodes of a job.
_COMMON_KEYS = (
    *("backend", "nodes", "ranks", "call", "sizes", "left_out_bytes"),
    *("steps", "gradient_bytes", "loss_first", "loss_last"),
)


def find_contradiction(row: Row, policy: Policy) -> str | None:
    """Return why a row is inconsistent or the rails' counters do not confirm its results, or None."""
    job, window = row["collective"], row["window_s"]
    if wrong := next(_list_contradictions(row, job, policy), None):
        return wrong
    lasted_s, idle = window[1] - window[0], float(policy["idle_bytes_per_s"])
    return torch_job.doubt(str(row["check"]), row["counters"], job, lasted_s, idle)


def _list_contradictions(row: Row, job: Row, policy: Policy) -> Iterator[str]:
    """Yield how a job contradicts the plan, or itself."""
    rails, ranks, nodes, moved = (job[key] for key in ("rails", "ranks", "nodes", "moved_bytes"))
    subject, processes, metrics = row["subject"], job["processes"], row["metrics"]
    if subject != ALL_RAILS and rails != [subject]:
        yield f"it ran over {', '.join(rails)}, planned was {subject}"
    if job["backend"] != policy["collective_backend"]:
        yield f"its backend is {job['backend']!r}"
    # With gloo a node has one process.
    most_processes = 1 if policy["collective_backend"] == "gloo" else ranks - nodes + 1
    if nodes > ranks or processes > most_processes:
        yield f"its processes are {processes}, of {ranks} on {nodes} nodes"
    if row["check"] not in OPERATIONS:
        yield from _list_training_contradictions(job, metrics)
        return
    name, sizes = OPERATIONS[row["check"]], job["sizes"]
    asked = [
        size
        for size in sizes_up_to(int(policy["collective_most_bytes"]))
        if size >= operations.least_bytes(name, ranks)
    ]
    if len(sizes) + len(job["left_out_bytes"]) != max(len(asked), 1):
        reported = f"{len(sizes)} sizes and {len(job['left_out_bytes'])} that were left out"
        yield f"it reports {reported}, planned were {len(asked)}"
    for one, other in pairwise(sizes):
        if one["size_bytes"] >= other["size_bytes"]:
            yield f"{other['size_bytes']} bytes come after {one['size_bytes']}"
    factor = operations.wire_factor(name, ranks)
    sent = sum((one["iterations"] + WARM_UP) * one["size_bytes"] for one in sizes)
    sent *= operations.rails_factor(name, ranks, processes)
    if abs(sent - moved) > _DIGITS * sent:
        yield f"its sizes add up to {sent:.0f} bytes, moved_bytes is {moved}"
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


def _list_training_contradictions(job: Row, metrics: Row) -> Iterator[str]:
    """Yield how a training job's numbers contradict each other."""
    if not job["moved_bytes"] <= job["most_bytes"] <= 3 * job["moved_bytes"]:
        yield f"most_bytes is {job['most_bytes']}, moved_bytes {job['moved_bytes']}"
    if job["loss_last"] >= job["loss_first"]:
        yield f"the loss went from {job['loss_first']:g} to {job['loss_last']:g}"
    alone = metrics["alone_samples_per_s"] * job["ranks"]
    follows = 100 * metrics["samples_per_s"] / alone if alone > 0 else 0.0
    if abs(follows - metrics["efficiency_percent"]) > _EFFICIENCY_PERCENT + _DIGITS * follows:
        yield f"efficiency_percent is {metrics['efficiency_percent']:g}, by its samples {follows:.4g}"
    if follows > _MOST_PERCENT:
        yield f"efficiency_percent is {metrics['efficiency_percent']:g}, more than ranks can reach together"


def check_agreement(
    asked: Sequence[AskedLine], found: Sequence[Answer], rows: Mapping[str, Sequence[Row]]
) -> None:
    """Reject the rows of a job that contradict those of its other nodes; changed in place.

    All ranks decide together, and each time is that of the slowest, so all nodes report the same ranks, sizes
    and times. If they do not, the majority counts.

    Args:
        asked: the planned tests.
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
        accounts = [{key: row["collective"].get(key) for key in _COMMON_KEYS} for row, _answer in members]
        texts = [json.dumps(account) for account in accounts]
        common, many = Counter(texts).most_common(1)[0]
        usual = accounts[texts.index(common)] if 2 * many > len(texts) else None
        for (row, answer), account in zip(members, accounts, strict=True):
            where = f"{row['host']}: "
            if account["nodes"] != nodes[job]:
                detail = f"{where}its job had {account['nodes']} nodes, {nodes[job]} were planned"
                answer.unknown("not_borne_out", detail)
            elif len(set(texts)) > 1 and account != usual:
                other = usual or next(one for one in accounts if one != account)
                key = next(key for key in _COMMON_KEYS if account[key] != other[key])
                whose = (
                    f"{many} of the job's {len(texts)} nodes report"
                    if usual
                    else "another node of the job reports"
                )
                answer.unknown("not_borne_out", f"{where}{key} is not what {whose}")


def find_bounds(row: Row, rails: Mapping[str, Bound]) -> Bounds:
    """Return the ceiling of an operation's busbw: the bandwidth of the node's rails together.

    In an all-reduce each node sends (N-1)/N of its reduced data twice, while busbw uses 2(n-1)/n for n ranks.
    In an all-gather each node receives as much once. In an all-to-all its rails carry the blocks of each
    process.
    """
    job = row["collective"]
    rates = [
        find_end_rate(rails[rail]) if rail in rails else (None, f"{rail} is not known")
        for rail in job["rails"]
    ]
    unknown = next((basis for gbps, basis in rates if gbps is None), None)
    if unknown is not None:
        return Bounds(basis=unknown)
    nodes, ranks = job["nodes"], job["ranks"]
    gbps = sum(gbps for gbps, _basis in rates if gbps is not None)
    name = OPERATIONS[row["check"]]
    least = operations.wire_factor(name, nodes)
    if name == operations.ALLTOALL:
        least = operations.rails_factor(name, ranks, job["processes"])
    most = gbps / 8 * operations.wire_factor(name, ranks) / least
    basis = f"{' and '.join(dict.fromkeys(basis for _gbps, basis in rates))}, the ceiling of busbw"
    return Bounds({}, {"busbw_GBps": most}, f"{basis}; no published reference for torch")


def fail_slow_rails(asked: Sequence[AskedLine], found: Sequence[Answer]) -> None:
    """Fail rails whose all-reduce is far slower than that of the node's best rail with the same rate.

    Args:
        asked: the planned tests.
        found: their answers, in the same order; those of slow rails are changed.
    """
    alike: dict[tuple[str, float], list[tuple[str, Answer]]] = {}
    for line, answer in zip(asked, found, strict=True):
        most = answer.ceiling.get("busbw_GBps")
        alone = line["check"] == "collective_allreduce" and line.get("subject") != ALL_RAILS
        if alone and most and answer.outcome in _GOOD_OUTCOMES:
            alike.setdefault((str(line["node"]), float(most)), []).append((str(line["subject"]), answer))
    for (node, _most), rails in alike.items():
        best = max((answer.observed["busbw_GBps"], rail) for rail, answer in rails)
        for rail, answer in rails:
            seen = answer.observed["busbw_GBps"]
            if outliers.behind(seen, best[0], outliers.RAIL_OF_JOB):
                detail = f"{node} {rail}: {seen:g} GB/s, {best[1]} has {best[0]:g}"
                answer.failed("collective_slow_rail", detail, answer.proof)
