"""Outputs that Railyard did not measure, as a run folder: the notes' table corrected, and never proven."""

from __future__ import annotations

import json
import os
import re
import shutil
from pathlib import Path

import pytest
from railyard.base.errors import UserError
from railyard.base.paths import repo_root
from railyard.report import compare, parse, rebuild
from support.programs import railyard
from tools.report.test_run_schemas import wrong

#: What the owner of the notes' pair kept of his tools' words: excerpts, of one rail and one direction.
KEPT = repo_root() / "docs/examples/back_to_back"
WAY = "gpuserver1/gpuserver2/rail1"
SHARED = Path(os.environ.get("RAILYARD_CORPUS", repo_root().parent / "shared/corpus")).parent
NOTES = SHARED / "sources/gpu-cluster-notes.md"
WRITE_GBPS = 4554.47 * 2**20 * 8 / 1e9
PING = """PING 10.0.0.2 (10.0.0.2) 56(84) bytes of data.
64 bytes from 10.0.0.2: icmp_seq=1 ttl=64 time=0.150 ms

--- 10.0.0.2 ping statistics ---
1 packets transmitted, 1 received, 0% packet loss, time 0ms
rtt min/avg/max/mdev = 0.150/0.150/0.150/0.000 ms
"""
#: These are not measured: the pair behind a switch, within what a cut-through switch adds.
SWITCHED = {
    "ib_write_bw": ("4554.51            4554.47", "4553.90            4553.80"),
    "ib_write_lat": ("0.81           0.85               0.93", "1.28           1.33               1.42"),
    "iperf3": ("31.9 GBytes  27.4", "32.1 GBytes  27.6"),
    "sockperf": ("21.622", "22.310"),
}


def outputs(folder: Path, changes: dict[str, tuple[str, str]] | None = None, **files: str) -> Path:
    """Copy the notes' outputs, each with a text replaced, and write others beside them."""
    shutil.copytree(KEPT, folder)
    for tool, (old, new) in (changes or {}).items():
        path = folder / WAY / f"{tool}.txt"
        text = path.read_text()
        assert old in text
        path.write_text(text.replace(old, new))
    for tool, text in files.items():
        (folder / WAY / f"{tool}.txt").write_text(text)
    return folder


def run_of(folder: Path, tmp_path: Path, capsys, layout: str = "v100-pair") -> Path:
    inventory = [str(repo_root() / "inventories" / layout)]
    assert parse.as_run(str(folder), inventory, tmp_path / "reports") == 0
    return Path(capsys.readouterr().out.strip())


def print_comparison(capsys, *runs: Path) -> list[str]:
    assert compare.run(*map(str, runs), runs[0]) == 0
    return [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]


@pytest.fixture
def pair(tmp_path, capsys):
    before = run_of(outputs(tmp_path / "before", ping=PING), tmp_path, capsys)
    after = outputs(tmp_path / "after", SWITCHED, ping=PING.replace("0.150", "0.152"))
    return before, run_of(after, tmp_path, capsys, "v100-pair-switched")


def test_the_notes_template_is_filled(pair, capsys):
    lines = print_comparison(capsys, *pair)
    at = next(number for number, line in enumerate(lines) if line.startswith("Results "))
    assert lines[at : at + 6] == [
        "Results A: back to back B: switched difference",
        "RDMA write bandwidth 38.2 Gbit/s 38.2 Gbit/s -0.0 %: no significant difference",
        "One-way RDMA write latency 0.850 µs 1.33 µs +56.5 %: worse",
        "TCP bandwidth 27.4 Gbit/s 27.6 Gbit/s +0.7 %: no significant difference",
        "One-way TCP latency 21.6 µs 22.3 µs +3.2 %: no significant difference",
        "Ping round trip 150 µs 152 µs +1.3 %: no significant difference",
    ]


def test_tcp_against_rdma_and_what_the_notes_made_of_it_is_corrected(pair, capsys):
    text = " ".join(print_comparison(capsys, *pair))
    gbps = f"27.4 ({27.4 / 40:.1%}) {WRITE_GBPS:.1f} ({WRITE_GBPS / 40:.1%})".replace("%", " %")
    assert f"{gbps} {WRITE_GBPS / 27.4:.2f} times faster" in text, "95.5 % of 40, 39.4 % more than TCP"
    assert f"21.6 0.850 {21.622 / 0.85:.1f} times faster" in text
    for said in (
        "A: it is made of outputs of tools that Railyard did not run, so nothing is proven",
        "ib_write_bw: its MB/sec are 2^20 bytes/s: 4554.47 are 38.2 Gbit/s, not 36.4",
        "two such runs one after the other are no sum of both ports",
        "iperf3: the number of streams is unknown; one is what a core does",
        "sockperf: its median, 21.622 µs, is compared with the other's, not its average, 21.928",
        "sockperf: half a round trip, of messages of an unknown size (14 bytes by default)",
        "ib_write_lat: half a round trip, of messages of 2 bytes",
        "ping: a whole round trip",
    ):
        assert said in text, said


def test_no_judge_passes_it_whatever_its_files_say(pair, tmp_path, capsys):
    run, _after = pair
    files = {name: run / name for name in ("manifest.json", "results.jsonl", "verdicts.jsonl")}
    for forged in (False, True):
        if forged:
            rows = [json.loads(line) for line in files["results.jsonl"].open()]
            both = [row | {"end": end, "proof": "proven"} for row in rows for end in ("client", "server")]
            files["results.jsonl"].write_text("".join(json.dumps(row) + "\n" for row in both))
            manifest = json.loads(files["manifest.json"].read_text())
            del manifest["imported"]
            files["manifest.json"].write_text(json.dumps(manifest))
        assert rebuild.judge(str(run), tmp_path) == 3
        verdicts = [json.loads(line) for line in files["verdicts.jsonl"].open()]
        assert {one["outcome"] for one in verdicts} == {"unmeasured"}, forged
        # No node was contacted, so none of them is unreachable.
        assert forged or {one["cause_class"] for one in verdicts} == {"imported"}
        assert forged or "so nothing is proven" in capsys.readouterr().out


def test_not_even_a_complete_healthy_run_that_says_so_of_itself(tmp_path, capsys):
    from support.runs.run_builder import build_run

    for number, manifest in enumerate(({}, {"imported": "garbage"})):
        run = build_run(tmp_path / str(number) / "lab" / "20261121T101500Z-3f2a", manifest=manifest)
        assert rebuild.judge(str(run), tmp_path) == (3 if manifest else 0)


def test_an_excerpt_is_not_like_what_states_more(pair, tmp_path, capsys):
    begun = "                    RDMA_Write BW Test\n Dual-port       : OFF\t\tDevice         : mlx4_0\n"
    begun += " Number of qps   : 1\t\tTransport type : IB\n Mtu             : 2048[B]\n" + "-" * 87 + "\n"
    kept = (KEPT / WAY / "ib_write_bw.txt").read_text()
    other = run_of(outputs(tmp_path / "whole", ib_write_bw=begun + kept), tmp_path, capsys)
    rows = json.loads("".join((other / "results.jsonl").open().readlines()[:1]))
    assert (rows["qps"], rows["active_mtu_bytes"]) == (1, 2048)
    lines = print_comparison(capsys, pair[0], other)
    differs = "ib_write_bw qps unknown / 1, active_mtu_bytes unknown / 2048: 1 row not compared"
    assert differs in lines


def test_what_is_written_keeps_its_schema_and_the_outputs(pair):
    for run in pair:
        documents = {name: json.loads((run / f"{name}.json").read_text()) for name in ("manifest", "plan")}
        assert wrong("manifest", documents["manifest"]) == []
        assert not (run / ".secret").exists()
        for name in ("asked", "result"):
            stored = run / {"asked": "asked.jsonl", "result": "results.jsonl"}[name]
            rows = [json.loads(line) for line in stored.open()]
            assert [wrong(name, row) for row in rows] == [[]] * len(rows)
        assert len(documents["manifest"]["imported"]) == 5
        assert (run / "raw" / WAY / "ping.txt").read_text().startswith("PING")


@pytest.mark.parametrize(
    ("place", "text", "words"),
    [
        (f"{WAY}/ib_write_bandwidth.txt", "", "no test is called ib_write_bandwidth; one of: ib_read_bw"),
        (
            "gpuserver1/gpuserver3/rail1/iperf3.txt",
            "",
            "plans no tcp_bandwidth for gpuserver1/gpuserver3",
        ),
        (f"{WAY}/ib_read_lat.txt", "", "plans no rdma_read_latency for"),
        ("iperf3.txt", "", "plans no tcp_bandwidth for"),
        (f"{WAY}/ping.txt", "hello\n", "line 1"),
        (f"{WAY}/iperf3.txt", '{"error": "unable to connect: Connection refused"}\n', "Connection refused"),
        (f"{WAY}/ib_write_bw.txt", (KEPT / WAY / "ib_write_lat.txt").read_text(), "RDMA write bandwidth"),
        (
            f"{WAY}/ib_write_lat.txt",
            (KEPT / WAY / "ib_write_lat.txt").read_text() + "4       1000          0.81       0.85   0.93\n",
            "of one message size",
        ),
        (
            f"{WAY}/sockperf.txt",
            (KEPT / WAY / "sockperf.txt").read_text().replace("avg-latency", "avg-rtt"),
            "it is not one-way latency",
        ),
    ],
)
def test_what_is_no_output_of_the_inventory_is_refused_and_leaves_no_folder(tmp_path, place, text, words):
    folder = outputs(tmp_path / "outputs")
    (folder / place).parent.mkdir(parents=True, exist_ok=True)
    (folder / place).write_text(text)
    with pytest.raises(UserError, match=re.escape(words)):
        parse.as_run(str(folder), [str(repo_root() / "inventories/v100-pair")], tmp_path / "reports")
    assert not (tmp_path / "reports").exists()


def test_the_command_line(tmp_path):
    inventory = ("-i", str(repo_root() / "inventories/v100-pair"), "--reports-dir", str(tmp_path))
    done = railyard("parse", "run", str(KEPT), *inventory)
    assert (done.returncode, Path(done.stdout.strip()).parent) == (0, tmp_path / "v100-pair"), done.stderr
    for argv in (("parse", "run", str(KEPT)), ("parse", "run", str(tmp_path / "none"), *inventory)):
        assert railyard(*argv).returncode == 2


@pytest.mark.skipif(not NOTES.exists(), reason="shared/ is not beside this checkout")
def test_the_kept_outputs_are_the_notes_own():
    notes = NOTES.read_text(encoding="utf-8", errors="replace")
    kept = sorted(KEPT.glob("**/*.txt"))
    assert len(kept) == 4
    assert [path.name for path in kept if f"```\n{path.read_text()}```" not in notes] == []
