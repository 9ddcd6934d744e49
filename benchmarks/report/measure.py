"""Time and weigh the report of runs of many nodes, its judgement apart; a line of JSON for each size.

.venv/bin/python benchmarks/report/measure.py [--code CHECKOUT] [--keep FOLDER] [SIZE ...]

A SIZE is NODESxRAILS:PATTERN[:stand-in][:slow]; without any 4x8, 8x8 and 16x8 of all_pairs are measured.
A plain size is judged from all its rows. `stand-in` writes no rows: each verdict is that of a sound run of
four nodes with the same check, at its own place, so that sizes can be weighed without judging them. `slow`
lets whatever meets rail1 of the third node fail, and one pair by itself. With --code the same folders and
verdicts are given to another checkout's report. CPU seconds say more than wall seconds on a busy machine.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import platform
import subprocess
import sys
import tempfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any
from unittest import mock

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "collections"), str(ROOT / "benchmarks" / "judge")]

import sound_run
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import rejudge
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder

SIZES = ("4x8:all_pairs", "8x8:all_pairs", "16x8:all_pairs")
MADE = ("index.html", "report.md", "junit.xml", "railyard.prom")
SLOW = ("gpu0003", "rail1")
APART = ({"gpu0001", "gpu0004"}, "rail0")

# Writes the report of folder argv[1] with the verdicts of argv[2]; prints CPU seconds, without and with what
# it takes to load the code, and peak KiB.
_CHILD = """
import pickle, re, sys, time
from pathlib import Path
begun = time.process_time()
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import documents, model
import matplotlib.backends.backend_svg, matplotlib.figure
judged = pickle.loads(Path(sys.argv[2]).read_bytes())
loaded = time.process_time()
documents.write_report(Path(sys.argv[1]), model.read(sys.argv[1], judged))
ended = time.process_time()
# Not getrusage: its peak is the parent's too, who judged.
peak = re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]
print(ended - loaded, ended - begun, peak)
"""


def measure(folder: Path, verdicts: Path, code: Path) -> dict[str, Any]:
    """Write a folder's report in a process of its own, by the code of a checkout.

    Raises:
        RuntimeError: it was not written.
    """
    env = {**os.environ, "PYTHONPATH": str(code / "collections")}
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, str(folder), str(verdicts)],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise RuntimeError(done.stderr[-2000:])
    cpu, with_load, peak_kib = done.stdout.split()
    return {
        "cpu_s": round(float(cpu), 2),
        "with_load_s": round(float(with_load), 2),
        "peak_mib": int(peak_kib) >> 10,
        **{name: (folder / name).stat().st_size for name in MADE},
    }


def build(folder: Path, size: str) -> rejudge.Judged:
    """Write the run folder of a size, and return its verdicts."""
    wide, pattern, *rest = size.split(":")
    nodes, rails = map(int, wide.split("x"))
    stand_in = "stand-in" in rest
    # Rows that nothing reads are not drawn either: with a thousand nodes they take longer than all the rest.
    with mock.patch.object(sound_run, "_write_rows", _no_rows) if stand_in else nullcontext():
        sound_run.build(folder, nodes, rails, rules={"pattern": pattern})
    judged = _stand_in(folder, rails) if stand_in else rejudge.judge_folder(folder)
    if "slow" in rest:
        for one in judged.verdicts:
            _slow(one)
        judged.exit_status = 1
    return judged


def _no_rows(target: Path, fleet: Any, *_more: object) -> dict[str, int]:
    target.write_bytes(b"")
    return dict.fromkeys(fleet.names, 0)


def _stand_in(folder: Path, rails: int) -> rejudge.Judged:
    """Return a verdict for each planned test, after those of a sound run of four nodes."""
    with tempfile.TemporaryDirectory() as place:
        small = sound_run.build(Path(place) / "made" / sound_run.RUN, 4, rails)
        judged = rejudge.judge_folder(small)
    like: dict[str, list[dict[str, Any]]] = {}
    for one in judged.verdicts:
        like.setdefault(one["check"], []).append(one)
    own = ("id", "check", "node", "peer", "rail", "direction")
    asked = run_folder.RunFolder(folder).rows(run_folder.ASKED)[0]
    judged.verdicts = [
        {**like[line["check"]][number % len(like[line["check"]])], **{key: line[key] for key in own}}
        for number, line in enumerate(asked)
        if line["check"] in like
    ]
    return judged


def _slow(one: dict[str, Any]) -> None:
    ends = {one["node"], one["peer"]}
    if one["peer"] is None or not (
        (SLOW[0] in ends and one["rail"] == SLOW[1]) or (ends, one["rail"]) == APART
    ):
        return
    metric = next((name for name in one["observed"] if name.endswith("_gbps")), None)
    if metric:
        one.update(
            outcome="fail",
            observed={**one["observed"], metric: 31.0},
            cause_class="rail_slow",
            cause=f"slow: {' '.join(sorted(ends)) if (ends, one['rail']) == APART else ' '.join(SLOW)}",
            next="Look at its cable.",
        )


def main() -> None:
    """Measure each size with this checkout's report, and with another one's."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sizes", nargs="*", metavar="SIZE")
    parser.add_argument("--code", type=Path, help="a checkout of another commit")
    parser.add_argument("--keep", type=Path, help="where the folders are left, to look at the pages")
    options = parser.parse_args()
    machine = f"{os.cpu_count()} CPUs, {platform.machine()}, Python {platform.python_version()}"
    codes = {**({"other": options.code} if options.code else {}), "here": ROOT}
    for size in options.sizes or SIZES:
        with tempfile.TemporaryDirectory() as place:
            folder = (options.keep or Path(place)) / size.replace(":", "-") / sound_run.RUN
            judged, verdicts = build(folder, size), Path(place) / "verdicts.pickle"
            verdicts.write_bytes(pickle.dumps(judged))
            for name, code in codes.items():
                told = {"machine": machine, "code": name, "size": size, "verdicts": len(judged.verdicts)}
                print(json.dumps({**told, **measure(folder, verdicts, code)}), flush=True)


if __name__ == "__main__":
    main()
