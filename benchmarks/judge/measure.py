"""Time and weigh the judgement of sound run folders, one fresh process per size; a line of JSON for each.

.venv/bin/python benchmarks/judge/measure.py [--nodes 4 8 16] [--rails 8] [--sweep | --one-test] [--repeat 2]
    [--code CHECKOUT] [--folder FOLDER]

With --code the judge of another checkout judges the same rows, in full: both must have one digest.
CPU seconds say more than wall seconds on a machine that others use.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import sound_run

HERE = Path(__file__).parent

# Judges the folder argv[1] and writes its report; prints CPU seconds of both, wall seconds, peak KiB after
# each, how many verdicts, and their SHA-256.
_CHILD = """
import hashlib, pathlib, sys, time
if sys.argv[2]:
    sys.path.insert(0, sys.argv[2])
    import one_test
try:
    from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge
except ImportError:  # a checkout of before its rooms
    from ansible_collections.railyard.fabric.plugins.plugin_utils.judge import rejudge
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import documents, model
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder
def peak():
    # Not ru_maxrss, which includes the process that built the folder and began this one.
    return int(next(one.split()[1] for one in open("/proc/self/status") if one.startswith("VmHWM")))
path = pathlib.Path(sys.argv[1])
cpu, wall = time.process_time(), time.monotonic()
judged = rejudge.judge_folder(path)
judge_s, judge_kib = time.process_time() - cpu, peak()
rejudge.write(path, judged)
documents.write_report(path, model.read(path, judged))
report_s, wall, report_kib = time.process_time() - cpu - judge_s, time.monotonic() - wall, peak()
digest = hashlib.sha256()
for one in judged.verdicts:
    digest.update(folder.line(one).encode() + b"\\n")
print(judge_s, report_s, wall, judge_kib, report_kib, len(judged.verdicts), digest.hexdigest())
"""


def measure(folder: Path, code: Path, one_test: bool = False) -> dict[str, Any]:
    """Judge a folder in a process of its own, by the code of a checkout.

    Raises:
        RuntimeError: it was not judged.
    """
    env = {**os.environ, "PYTHONPATH": str(code / "collections")}
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, str(folder), str(HERE) if one_test else ""],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    judge_s, report_s, wall, judge_kib, report_kib, verdicts, digest = done.stdout.split()
    return {
        "cpu_s": round(float(judge_s), 2),
        "report_s": round(float(report_s), 2),
        "wall_s": round(float(wall), 2),
        "peak_mib": int(judge_kib) >> 10,
        "report_mib": int(report_kib) >> 10,
        "verdicts": int(verdicts),
        "verdicts_sha256": digest,
    }


def main() -> None:
    """Measure each size with this checkout's judge, and with another one's."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=[4, 8, 16])
    parser.add_argument("--rails", type=int, default=8)
    parser.add_argument("--sweep", action="store_true", help="ask what a sweep asks, not every test")
    parser.add_argument(
        "--one-test", action="store_true", help="ask the bandwidth of all rails at once alone"
    )
    parser.add_argument(
        "--folder", type=Path, help="keep the run below this folder, and use one that is there"
    )
    parser.add_argument("--repeat", type=int, default=2, help="the fastest run by CPU time is reported")
    parser.add_argument("--code", type=Path, help="a checkout of another commit")
    options = parser.parse_args()
    machine = f"{os.cpu_count()} CPUs, {platform.machine()}, Python {platform.python_version()}"
    codes = {"here": sound_run.ROOT, **({"other": options.code} if options.code else {})}
    rules = {"questions": "together"} if options.sweep or options.one_test else {}
    if options.one_test:
        importlib.import_module("one_test")
    for nodes in options.nodes:
        for name, code in codes.items():
            with tempfile.TemporaryDirectory() as place:
                folder = (options.folder or Path(place)) / "made" / sound_run.RUN
                # Another checkout may know no packed rows.
                packed = None if name == "here" else False
                if not folder.exists():
                    sound_run.build(folder, nodes, options.rails, rules=rules, packed=packed)
                size = (folder / "results.jsonl").stat().st_size
                runs = [measure(folder, code, options.one_test) for _ in range(options.repeat)]
                best = min(runs, key=lambda one: float(one["cpu_s"]))
                told = {
                    "machine": machine,
                    "code": name,
                    "nodes": nodes,
                    "rails": options.rails,
                    "sweep": options.sweep,
                    "one_test": options.one_test,
                }
                print(json.dumps({**told, "results_mb": round(size / 1e6, 1), **best}), flush=True)


if __name__ == "__main__":
    main()
