"""Time and weigh DuckDB and polars on rows as JSON Lines, each question in a process of its own.

python benchmarks/judge/engines.py FILE...      # in an environment that has both; FILE is a results.jsonl

Prints CPU seconds, wall seconds and peak MiB: of count and mean by check, and of eleven columns as Parquet.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

THREADS = 2
PLAIN = ("id", "end", "host", "check", "rail", "started", "status", "proof")
COUNTERS = [f"{way}_{what}" for way in ("rx", "tx") for what in ("bytes", "packets")]
COUNTERS += [f"port_{way}_{what}" for way in ("rcv", "xmit") for what in ("data", "packets")]
# Runs Engine(FILES).QUESTION(), and prints CPU seconds, wall seconds and peak KiB.
_CHILD = """
import json, resource, sys, time
sys.path.insert(0, sys.argv[1])
import engines
cpu, wall = time.process_time(), time.monotonic()
engines.QUESTIONS[sys.argv[2]](json.loads(sys.argv[3]), sys.argv[4])
cpu, wall = time.process_time() - cpu, time.monotonic() - wall
print(cpu, wall, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def _duckdb(files: list[str]) -> object:
    import duckdb

    columns = {
        **dict.fromkeys(PLAIN, "VARCHAR"),
        "metrics": "JSON",
        "counters": "JSON",
        "window_s": "DOUBLE[]",
    }
    engine = duckdb.connect(config={"threads": THREADS, "memory_limit": "1GB"})
    engine.execute("SET enable_progress_bar = false")  # it is printed to standard output
    return engine.read_json(files, format="newline_delimited", columns=columns, maximum_object_size=1 << 24)


def duckdb_count(files: list[str], _target: str) -> None:
    """Count and average by check."""
    rates = "avg(CAST(metrics->>'bandwidth_gbps' AS DOUBLE))"
    _duckdb(files).aggregate(f'"check", count(*), {rates}').fetchall()


def duckdb_parquet(files: list[str], target: str) -> None:
    """Write the columns."""
    _duckdb(files).write_parquet(target)


def _polars(files: list[str]) -> object:
    os.environ["POLARS_MAX_THREADS"] = str(THREADS)
    import polars

    metrics = polars.Struct({"bandwidth_gbps": polars.Float64, "latency_p50_us": polars.Float64})
    counters = polars.Struct(dict.fromkeys(COUNTERS, polars.List(polars.Int64)))
    nested = {"metrics": metrics, "counters": counters, "window_s": polars.List(polars.Float64)}
    return polars.scan_ndjson(files, schema={**dict.fromkeys(PLAIN, polars.String), **nested})


def polars_count(files: list[str], _target: str) -> None:
    """Count and average by check."""
    rows = _polars(files)
    import polars

    rates = polars.col("metrics").struct.field("bandwidth_gbps").mean()
    rows.group_by("check").agg(polars.len(), rates).collect(engine="streaming")


def polars_parquet(files: list[str], target: str) -> None:
    """Write the columns."""
    _polars(files).sink_parquet(target)


QUESTIONS: dict[str, Callable[[list[str], str], None]] = {
    one.__name__: one for one in (duckdb_count, polars_count, duckdb_parquet, polars_parquet)
}


def main() -> None:
    """Ask each engine each question of the files named."""
    files = [os.path.abspath(name) for name in sys.argv[1:]]
    for name in QUESTIONS:
        with tempfile.TemporaryDirectory() as place:
            given = [str(Path(__file__).parent), name, json.dumps(files), f"{place}/rows.parquet"]
            done = subprocess.run(
                [sys.executable, "-c", _CHILD, *given], capture_output=True, text=True, check=True
            )
        cpu, wall, peak_kib = map(float, done.stdout.split())
        print(f"{name:16} CPU {cpu:.1f} s, wall {wall:.1f} s, peak {peak_kib / 1024:.0f} MiB", flush=True)


if __name__ == "__main__":
    main()
