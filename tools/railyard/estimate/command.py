"""`railyard estimate`: the time for a job's gradients, as text or as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean, clean_all
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.comparison import three
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.wording import count

from railyard.estimate import arithmetic
from railyard.estimate.job import Job
from railyard.estimate.measured import BusBandwidth, Latencies, Measured, read

# Of the notes on two servers, where the cost of latency is a table of these.
_SYNCS_PER_S = (100, 1000, 10_000)


def run(job: Job, source: str | None, reports_dir: Path, *, as_json: bool) -> int:
    """Print an estimate.

    Args:
        job: the training job.
        source: what `--from` names; None where it was not given.
        reports_dir: the folder of all clusters' runs.
        as_json: print one JSON object.

    Returns:
        0: an estimate says nothing of any cluster, so that it neither passes nor fails.

    Raises:
        UserError: the job makes no sense, or `source` holds nothing for it.
        RunFolderError, JudgeError, PolicyError: `source` is a run that cannot be read or judged.
    """
    job.check()
    measured = read(source, reports_dir, job) if source is not None else Measured()
    found = estimate(job, measured)
    print(json.dumps(found, indent=2, allow_nan=False) if as_json else "\n".join(_lines(job, found)))
    return 0


def estimate(job: Job, measured: Measured) -> dict[str, Any]:
    """Return what `--json` prints; every time is in seconds, null where something for it is not known."""
    nominal, computing_s = arithmetic.all_reduce(job), arithmetic.compute_s(job)
    notes = [*measured.notes]
    messages, measured_s = None, None
    if measured.busbw is not None:
        messages = _messages(job, measured.busbw)
        measured_s = messages["in_buckets"]["s"]
        least, most = (measured.busbw.curve[end][0] for end in (0, -1))
        if job.bucket_bytes < least:
            notes.append(f"a bucket of {_size(job.bucket_bytes)} is smaller than all that was measured")
        if job.gradient_bytes > most:
            notes.append(f"{_size(most)} is the largest that was measured: what is larger is taken as that")
    step = arithmetic.step(nominal.exact_s if measured_s is None else measured_s, computing_s)
    lacks = job.lacks_for_compute
    if lacks:
        notes.append(f"without {', '.join(lacks)} compute is not known, nor what it hides")
    if nominal.in_node_s is None:
        notes.append("without --intra-node-gbytes the hierarchical time is not known")
    step_s = None if computing_s is None or step.exposed_s is None else computing_s + step.exposed_s
    return {
        "gpus": job.ranks,
        "gradient_bytes": job.gradient_bytes,
        "rule_of_thumb_s": nominal.rule_of_thumb_s,
        "exact_s": nominal.exact_s,
        "hierarchical_s": nominal.hierarchical_s,
        "measured_s": measured_s,
        "compute_s": computing_s,
        "exposed_s": step.exposed_s,
        "exposed_of": "exact_s" if measured_s is None else "measured_s",
        "hidden": step.hidden,
        "scaling_efficiency": step.scaling_efficiency,
        "measured": messages,
        "latency_cost": _latency_cost(job, measured.latencies, step_s) if measured.latencies else None,
        "notes": clean_all(notes),
    }


def _messages(job: Job, busbw: BusBandwidth) -> dict[str, Any]:
    """Return what the gradients take at the measured rate, in one message and in buckets."""
    ways = {"at_once": (1, job.gradient_bytes), "in_buckets": (job.buckets, job.bucket_bytes)}
    told: dict[str, Any] = {"source": clean(busbw.source), "gpus": busbw.gpus, "nodes": busbw.nodes}
    for name, (messages, size_bytes) in ways.items():
        rate = arithmetic.busbw_at(busbw.curve, size_bytes)
        told[name] = {
            "messages": messages,
            "message_bytes": size_bytes,
            "busbw_GBps": rate and rate / 1e9,
            "s": rate and arithmetic.ring_factor(job.ranks) * job.gradient_bytes / rate,
        }
    return told


def _latency_cost(job: Job, latencies: Latencies, step_s: float | None) -> dict[str, Any]:
    """Return what TCP's latency costs beside RDMA's, for each second of training."""
    own = job.buckets / step_s if step_s else None
    each_s = (latencies.tcp_us - latencies.rdma_us) / 1e6
    return {
        "tcp_us": latencies.tcp_us,
        "rdma_us": latencies.rdma_us,
        "directions": latencies.directions,
        "per_second": [{"syncs_per_s": rate, "cost_s": rate * each_s} for rate in _SYNCS_PER_S],
        "of_job": own and {"syncs_per_s": own, "cost_s": own * each_s},
    }


def _lines(job: Job, found: dict[str, Any]) -> list[str]:
    head = (
        f"estimated: {job.params:g} parameters, {_size(job.gradient_bytes)} of gradients in {job.dtype}, "
        f"{count(job.ranks, 'GPU')} ({job.nodes} x {job.gpus})"
    )
    lines = [head, *_link_lines(job)]
    nominal = arithmetic.all_reduce(job)
    steps = None
    if nominal.hierarchical_s is not None:
        steps = f"in the nodes {_s(nominal.in_node_s)}, between them {_s(nominal.between_nodes_s)}"
    ring = f"2 x {job.ranks - 1}/{job.ranks} x the gradients"
    lines += [
        _row("rule of thumb", found["rule_of_thumb_s"], "2 x the gradients over the narrowest link"),
        _row("exact ring", found["exact_s"], ring),
        _row("hierarchical", found["hierarchical_s"], steps),
    ]
    if found["measured"]:
        lines.append(f"  measured by nccl-tests: {found['measured']['source']}")
        lines += [_message_row(found["measured"][way]) for way in ("at_once", "in_buckets")]
    of = "the exact ring" if found["exposed_of"] == "exact_s" else "the buckets"
    hidden = {True: "all is hidden behind compute", False: f"of {of}, not hidden behind compute", None: None}
    work = f"{arithmetic.passes(job)} x 2 x parameters x tokens, over all GPUs"
    lines += [
        _row("compute", found["compute_s"], work if found["compute_s"] is not None else None),
        _row("exposed", found["exposed_s"], hidden[found["hidden"]]),
    ]
    share = found["scaling_efficiency"]
    lines.append(f"  {'scaling efficiency':<20} " + ("not known" if share is None else f"{share:.3f}"))
    if found["latency_cost"]:
        lines += _latency_lines(found["latency_cost"])
    return lines + [f"note: {note}" for note in found["notes"]]


def _link_lines(job: Job) -> list[str]:
    reached = "" if job.efficiency == 1 else f", of which {100 * job.efficiency:g} % are reached"
    lines = []
    if job.nodes > 1 and job.inter_node_gbps is not None:
        whole = job.rails * job.inter_node_gbps
        lines.append(
            f"  between nodes: {job.rails} x {job.inter_node_gbps:g} Gbit/s = {whole:g} Gbit/s = "
            f"{whole / 8:g} GB/s a node{reached}"
        )
    if job.gpus > 1 and job.intra_node_gbytes is not None:
        lines.append(f"  in a node: {job.intra_node_gbytes:g} GB/s a GPU{reached}")
    return lines


def _message_row(way: dict[str, Any]) -> str:
    name = f"{way['messages']:,} x {_size(way['message_bytes'])}"
    rate = way["busbw_GBps"]
    return _row(name, way["s"], None if rate is None else f"at the {three(rate)} GB/s measured")


def _latency_lines(cost: dict[str, Any]) -> list[str]:
    verb = "costs" if cost["tcp_us"] >= cost["rdma_us"] else "saves"
    lines = [
        f"latency: TCP {three(cost['tcp_us'])} us, RDMA {three(cost['rdma_us'])} us (medians of "
        f"{cost['directions']} directions of rails, one way); TCP {verb} in each second"
    ]
    rows = [(one, "") for one in cost["per_second"]]
    rows += [(cost["of_job"], "  one for each bucket of this job")] if cost["of_job"] else []
    return lines + [
        f"  {three(one['syncs_per_s']):>8} syncs  {three(abs(1000 * one['cost_s']))} ms{what}"
        for one, what in rows
    ]


def _row(name: str, seconds: float | None, what: str | None) -> str:
    return f"  {name:<20} {_s(seconds):<12}{what or ''}".rstrip()


def _s(seconds: float | None) -> str:
    """Write a time with three digits."""
    return "not known" if seconds is None else f"{three(seconds)} s"


def _size(size_bytes: float) -> str:
    """Write a size in decimal units, as gradients and links are counted here."""
    for unit, factor in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if size_bytes >= factor:
            return f"{size_bytes / factor:.4g} {unit}"
    return f"{size_bytes:.4g} bytes"
