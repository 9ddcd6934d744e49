"""What was measured and `--from` names: the bus bandwidth of nccl-tests, the latencies of a run."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import comparison
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder

from railyard.base.errors import UserError
from railyard.estimate.arithmetic import Curve
from railyard.estimate.job import Job
from railyard.report import parse, rebuild

_TOOL, _COLLECTIVE = "nccl-tests", "all_reduce"
# busbw by algbw. Only an all-reduce of three GPUs and more moves more than it is given; of two it is as a
# reduce, and of what else reduces it is one half. Rounding is far less than what lies between.
_MORE_THAN_GIVEN, _AS_MUCH_AS_GIVEN = 1.05, 0.95


class BusBandwidth(NamedTuple):
    """One all_reduce test: its file, on how many GPUs of how many nodes (None: not given), and its curve.

    `certain` is False where the output does not say its collective and a reduce of two GPUs would look alike.
    """

    source: str
    gpus: int | None
    nodes: int | None
    curve: Curve
    certain: bool


class Latencies(NamedTuple):
    """Medians of a run, one way, in microseconds; both transports over the same rails."""

    tcp_us: float
    rdma_us: float
    directions: int


@dataclass
class Measured:
    """The measured values, and notes on them; `busbw` or `latencies` is None where there is none."""

    busbw: BusBandwidth | None = None
    latencies: Latencies | None = None
    notes: list[str] = field(default_factory=list)


def read(source: str, reports_dir: Path, job: Job) -> Measured:
    """Read what `--from` names.

    Args:
        source: a file of nccl-tests' output, a folder of such files, or a run as `rebuild.find` takes it.
        reports_dir: the folder of all clusters' runs.
        job: what the numbers are to stand for.

    Raises:
        UserError: it is none of these, or holds no all-reduce that was measured whole and can stand for the
            job.
        RunFolderError, JudgeError, PolicyError: the run cannot be read or judged.
    """
    path = Path(source)
    if path.is_file():
        return _busbw([path], job)
    is_run = any(place for way in ("", "*/") for place in path.glob(f"{way}{run_folder.MANIFEST}"))
    if path.is_dir() and not is_run:
        return _busbw(sorted(file for file in path.iterdir() if file.is_file()), job)
    return _of_run(rebuild.find(source, reports_dir))


def _busbw(files: list[Path], job: Job) -> Measured:
    found, why_not = [], []
    for file in files:
        try:
            parsed = parse.read(_TOOL, str(file))
        except UserError as problem:
            why_not.append(str(problem))
            continue
        if not parsed["valid"]:
            why_not.append(f"{file}: {(parsed['error'] or {}).get('message', 'it is not whole')}")
            continue
        tests = [one for output in parsed["outputs"] if (one := _test(str(file), output)) is not None]
        found += tests
        if not tests:
            why_not.append(f"{file}: it is no {_COLLECTIVE}")
    if not found:
        raise UserError(
            "no bus bandwidth is measured there: " + ("; ".join(why_not[:3]) or "the folder is empty"),
            f"name the output of {_COLLECTIVE}_perf, a folder with it, or a run folder",
        )
    like = [one for one in found if one.nodes is None or (one.nodes == 1) == (job.nodes == 1)]
    if not like:
        others = ", ".join(f"{one.source} ({one.nodes})" for one in found[:3])
        raise UserError(
            f"what is measured there cannot stand for {job.nodes} nodes: within a node it says nothing of "
            f"the network, over the network nothing of a node; files and their nodes: {others}",
            f"run {_COLLECTIVE}_perf on as many nodes as --nodes says",
        )
    exact = [one for one in like if (one.gpus, one.nodes) == (job.ranks, job.nodes)]
    chosen = exact or like
    if len(chosen) > 1:
        places = ", ".join(dict.fromkeys(one.source for one in chosen))
        raise UserError(f"{len(chosen)} tests could be meant: {places}", "name a file that holds one of them")
    notes = [] if exact else [_unlike(chosen[0], job)]
    if not chosen[0].certain:
        notes.append(f"{chosen[0].source} does not say its collective and is taken for {_COLLECTIVE}")
    return Measured(busbw=chosen[0], notes=notes)


def _unlike(one: BusBandwidth, job: Job) -> str:
    if one.gpus is None or one.nodes is None:
        return f"{one.source} does not say on how many GPUs and nodes it was measured"
    return (
        f"the bus bandwidth is that of {one.gpus} GPUs in {one.nodes} nodes, the job has {job.ranks} in "
        f"{job.nodes}: on more it is seldom as high"
    )


def _test(source: str, output: Mapping[str, Any]) -> BusBandwidth | None:
    """Return what one output says of all-reduce; None for another collective."""
    sizes: dict[int, float] = {}
    ratio = 0.0
    for row in output["rows"]:
        # Gradients are reduced in place.
        side = row["in_place"] or row["out_of_place"]
        if side and row["bytes"] and side["busbw_GBps"] and side["algbw_GBps"]:
            rate = side["busbw_GBps"] * 1e9
            # Of a size that was measured more than once, what is sure.
            sizes[row["bytes"]] = min(rate, sizes.get(row["bytes"], rate))
            ratio = max(ratio, side["busbw_GBps"] / side["algbw_GBps"])
    # The tables of older versions do not say which collective they are of.
    named, reduces = output["collective"], all(row["redop"] for row in output["rows"])
    certain = named == _COLLECTIVE or (named is None and ratio > _MORE_THAN_GIVEN)
    if not sizes or not (certain or (named is None and reduces and ratio > _AS_MUCH_AS_GIVEN)):
        return None
    return BusBandwidth(source, output["gpus"], output["nodes"], sorted(sizes.items()), certain)


def _of_run(folder: Path) -> Measured:
    judged = rejudge.judge_folder(folder)
    run = run_folder.RunFolder(folder)
    plan = run.plan()
    both = [
        (row["latency_us"]["tcp"], row["latency_us"]["rdma"])
        for row in comparison.compare(plan, judged.verdicts)
        if None not in row["latency_us"].values()
    ]
    measured = Measured(
        notes=[f"no bus bandwidth is measured in {folder}: a run measures no collective; nccl-tests does"]
    )
    if not both:
        measured.notes.append(
            f"{folder} has no rail with a proven latency of TCP and of RDMA: what latency costs is not known"
        )
        return measured
    tcp_us, rdma_us = (statistics.median(one) for one in zip(*both, strict=True))
    measured.latencies = Latencies(tcp_us, rdma_us, len(both))
    if comparison.rdma_class(plan, run.rows(run_folder.FACTS)[0]) in ("software", "mixed"):
        measured.notes.append("the run's RDMA is software: its latency says nothing of hardware")
    return measured
