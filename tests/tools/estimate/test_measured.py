"""`railyard estimate --from`: the bus bandwidth of nccl-tests at the bucket's size, a run's latencies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from railyard.base.errors import UserError
from railyard.estimate import arithmetic, command, measured
from railyard.estimate.job import Job
from support.runs.fake_run import RUN
from support.runs.run_builder import build_run

MIB, GIB = 2**20, 2**30
# Size and algbw in GB/s; on 8 GPUs busbw is 2 x 7/8 = 1.75 times that: 14, 28 and 140 GB/s.
ROWS = ((MIB, 8.0), (4 * MIB, 16.0), (4 * GIB, 80.0))


def nccl_tests(
    name: str = "all_reduce", gpus: int = 8, nodes: int = 1, factor: float = 1.75, end: bool = True
) -> str:
    """Write what nccl-tests prints, by its format."""
    columns = "time algbw busbw #wrong"
    lines = [f"# Collective test starting: {name}_perf"] if name else []
    lines.append("# nThread 1 nGpus 1 minBytes 1048576 maxBytes 4294967296 step: 4(factor) warmup iters: 5")
    lines += [
        f"#  Rank {rank} Group 0 Pid {100 + rank} on gpu{rank * nodes // gpus} device {rank} [0x07] A100"
        for rank in range(gpus)
    ]
    lines.append(f"# size count type redop root {columns} {columns}")
    for size, algbw in ROWS:
        side = f"{size / algbw / 1e3:.2f} {algbw:.2f} {algbw * factor:.2f} 0"
        lines.append(f"  {size} {size // 4} float sum -1 {side} {side}")
    mean = factor * sum(algbw for _size, algbw in ROWS) / len(ROWS)
    lines += ["# Out of bounds values : 0 OK", f"# Avg bus bandwidth    : {mean:.4f} "] if end else []
    return "\n".join(lines) + "\n"


def job(nodes: int = 1, **more: Any) -> Job:
    """Make a job of 8 GPUs whose gradients are 4 GiB: 2^30 parameters of 4 bytes."""
    links = {"intra_node_gbytes": 300.0, "inter_node_gbps": 200.0}
    return Job(**{"params": GIB, "nodes": nodes, "gpus": 8 // nodes, **links, **more})


def read(place: Path, wanted: Job) -> measured.Measured:
    return measured.read(str(place), place.parent, wanted)


def written(place: Path, text: str) -> Path:
    place.write_text(text, encoding="utf-8")
    return place


def test_one_message_against_a_thousand(tmp_path: Path) -> None:
    wanted = job(bucket_mbytes=4 * MIB / 1e6)
    found = command.estimate(wanted, read(written(tmp_path / "nccl.txt", nccl_tests()), wanted))
    at_once, in_buckets = (found["measured"][way] for way in ("at_once", "in_buckets"))
    assert (at_once["messages"], at_once["busbw_GBps"]) == (1, 140)
    assert at_once["s"] == pytest.approx(0.0536871, abs=1e-6)  # 1.75 x 4.294967 / 140
    assert (in_buckets["messages"], in_buckets["busbw_GBps"]) == (1024, 28)
    assert in_buckets["s"] == pytest.approx(5 * at_once["s"])
    assert (found["measured_s"], found["exposed_of"]) == (in_buckets["s"], "measured_s")
    assert found["exact_s"] == pytest.approx(0.0250540, abs=1e-6)  # at the given 300 GB/s


def test_exposed_is_what_the_buckets_take_beyond_compute(tmp_path: Path) -> None:
    compute = {"seqlen": 1000, "global_batch": 10, "peak_tflops": 100.0, "mfu": 0.5}
    wanted = job(params=1e9, bucket_mbytes=4 * MIB / 1e6, **compute)
    found = command.estimate(wanted, read(written(tmp_path / "nccl.txt", nccl_tests()), wanted))
    # 3 x 2 x 1e9 x 10,000 operations by 8 x 50e12; 1.75 x 4 / 28 s less that.
    assert found["compute_s"] == pytest.approx(0.15)
    assert found["exposed_s"] == pytest.approx(0.1)


CURVE = ((MIB, 14.0), (4 * MIB, 28.0))


@pytest.mark.parametrize(
    ("size_bytes", "busbw"),
    [
        (MIB, 14),
        (2 * MIB, 21),  # half way from 1 to 4 by the logarithm
        (4 * MIB, 28),
        (GIB, 28),  # as at the largest: too low if anything
        (MIB - 1, None),  # latency has more of it there: not known
    ],
)
def test_between_the_measured_sizes(size_bytes: int, busbw: float | None) -> None:
    assert arithmetic.busbw_at(CURVE, size_bytes) == (None if busbw is None else pytest.approx(busbw))


def test_a_bucket_below_all_measured_sizes_tells_nothing(tmp_path: Path) -> None:
    # Of 8 GB, and 4.295 GB is the largest that was measured.
    wanted = job(params=2e9, bucket_mbytes=0.5)
    found = command.estimate(wanted, read(written(tmp_path / "nccl.txt", nccl_tests()), wanted))
    assert found["measured"]["in_buckets"]["s"] is None
    assert (found["measured_s"], found["exposed_of"]) == (None, "exact_s")
    assert found["measured"]["at_once"]["busbw_GBps"] == 140
    assert [words in " ".join(found["notes"]) for words in ("of 500 kB", "4.295 GB is the largest")] == [
        True
    ] * 2


@pytest.mark.parametrize(
    ("text", "nodes", "said"),
    [
        # The network is not in a measurement within a node, nor the node in one over the network.
        (nccl_tests(nodes=1), 4, "cannot stand for 4 nodes"),
        (nccl_tests(nodes=2), 1, "cannot stand for 1 nodes"),
        (nccl_tests("all_gather", factor=0.875), 1, "it is no all_reduce"),
        (nccl_tests(end=False), 1, "the lines behind the table are missing"),
        ("hello\n", 1, "no banner or table of nccl-tests"),
        # Unnamed, on two GPUs: of a reduce-scatter half goes over the links; a broadcast reduces nothing.
        (nccl_tests("", gpus=2, factor=0.5), 1, "it is no all_reduce"),
        (nccl_tests("", gpus=2, factor=1.0).replace(" sum ", " none "), 1, "it is no all_reduce"),
    ],
)
def test_a_test_that_cannot_represent_the_job_is_refused(
    tmp_path: Path, text: str, nodes: int, said: str
) -> None:
    with pytest.raises(UserError, match=said):
        read(written(tmp_path / "nccl.txt", text), job(nodes))


def test_an_older_table_does_not_name_its_collective(tmp_path: Path) -> None:
    found = read(written(tmp_path / "nccl.txt", nccl_tests("")), job())
    assert found.busbw is not None
    assert (found.busbw.curve[0], found.notes) == ((MIB, 14e9), [])
    # On two GPUs it could be a reduce: taken, and reported.
    two = read(written(tmp_path / "two.txt", nccl_tests("", gpus=2, factor=1.0)), job(gpus=2))
    assert two.busbw is not None
    assert ["does not say its collective" in note for note in two.notes] == [True]


def test_of_a_folder_the_test_closest_to_the_job_is_used(tmp_path: Path) -> None:
    for name, nodes in (("one.txt", 1), ("two.txt", 2), ("four.txt", 4)):
        written(tmp_path / name, nccl_tests(nodes=nodes))
    written(tmp_path / "notes.md", "# two nodes\n")
    found = read(tmp_path, job(2))
    assert found.busbw is not None
    assert (Path(found.busbw.source).name, found.notes) == ("two.txt", [])
    (tmp_path / "two.txt").unlink()
    [note] = read(tmp_path, job(2)).notes
    assert "8 GPUs in 4 nodes" in note
    written(tmp_path / "again.txt", nccl_tests(nodes=4))
    with pytest.raises(UserError, match="2 tests could be meant"):
        read(tmp_path, job(2))


def test_an_empty_folder_and_no_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the folder is empty"):
        read(tmp_path, job())
    with pytest.raises(UserError, match="is no run folder"):
        read(tmp_path / "none", job())


def test_a_run_tells_what_latency_costs_and_that_it_has_no_bus_bandwidth(tmp_path: Path) -> None:
    folder = build_run(tmp_path / "lab" / RUN, rdma=True)
    # 1,024 buckets of 4 MiB; compute 3 x 2 x 2^30 x 1000 x 20 / (8 x 50e12) = 0.322123 s hides 0.025 s.
    wanted = job(bucket_mbytes=4 * MIB / 1e6, seqlen=1000, global_batch=20, peak_tflops=100.0, mfu=0.5)
    # As a path, and as the cluster's latest run.
    assert read(folder.parent, wanted).latencies == measured.read("lab", tmp_path, wanted).latencies
    found = command.estimate(wanted, read(folder, wanted))
    assert (found["measured"], found["measured_s"]) == (None, None)
    assert any("a run measures no collective" in note for note in found["notes"])
    cost = found["latency_cost"]
    # The run's medians are 21 us by TCP and 5 by RDMA: 16 us more, each time.
    assert (cost["tcp_us"], cost["rdma_us"]) == (21, 5)
    assert [one["cost_s"] for one in cost["per_second"]] == pytest.approx([0.0016, 0.016, 0.16])
    # 1,024 in 0.322123 s are 3,178.9 a second.
    assert cost["of_job"]["cost_s"] == pytest.approx(0.0508629, abs=1e-6)
    assert any("software" in note for note in found["notes"])


def test_the_measurement_as_text(tmp_path: Path, capsys: Any) -> None:
    file, folder = written(tmp_path / "nccl.txt", nccl_tests()), build_run(tmp_path / "lab" / RUN, rdma=True)
    for source in (file, folder):
        wanted = job(bucket_mbytes=4 * MIB / 1e6)
        assert command.run(wanted, str(source), tmp_path, as_json=False) == 0
    rows = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "1 x 4.295 GB 0.0537 s at the 140 GB/s measured" in rows
    assert "1,024 x 4.194 MB 0.268 s at the 28.0 GB/s measured" in rows
    assert "1000 syncs 16.0 ms" in rows


def test_a_run_without_rdma_tells_no_cost_of_latency(tmp_path: Path) -> None:
    found = command.estimate(job(), read(build_run(tmp_path / "lab" / RUN), job()))
    assert found["latency_cost"] is None
    assert any("what latency costs is not known" in note for note in found["notes"])
