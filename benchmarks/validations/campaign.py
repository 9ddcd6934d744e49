"""A healthy lab, validated again and again: does every run end with 0?

    python benchmarks/validations/campaign.py 10            # so many runs more, on the lab that is up
    python benchmarks/validations/campaign.py 10 --busy     # beside a busy loop on one core
    python benchmarks/validations/campaign.py 10 --beside "unit tests"    # recorded in its lines
    python benchmarks/validations/campaign.py --judge       # all by the rules of today; README.md's table

A line for each run in results.jsonl: kind of lab, whether something else was busy, exit status, seconds. Its
folder, without pages and the nodes' archives, is kept in runs/, so that the rules of a later day can be tried
on what was measured.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tarfile
import tempfile
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULTS = HERE / "results.jsonl"
RUNS = HERE / "runs"
INVENTORY = ROOT / "inventories" / "lab"
RAILYARD = Path(sys.executable).parent / "railyard"
# What a run is judged from.
KEPT = ("asked.jsonl", "facts.jsonl", "manifest.json", "obstacles.jsonl", "plan.json", "results.jsonl",
        "work_order.json")  # fmt: skip
GOOD = ("pass", "recorded", "not_applicable")


def kind_of_lab() -> str:
    """Return `container` or `vm`, as the lab that is up generated its inventory."""
    generated = INVENTORY / "group_vars" / "gpu_nodes" / "generated.yml"
    return "container" if "node_class: container" in generated.read_text(encoding="utf-8") else "vm"


def keep(folder: Path) -> None:
    """Pack what a run is judged from; the paths of this machine, in the manifest's argv, are left out."""
    RUNS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        packed = Path(scratch) / folder.name
        packed.mkdir()
        for name in KEPT:
            if (folder / name).exists():
                text = (folder / name).read_text(encoding="utf-8").replace(f"{ROOT}/", "")
                (packed / name).write_text(text, encoding="utf-8")
        with tarfile.open(RUNS / "part", "w:xz") as archive:
            archive.add(packed, folder.name)
        (RUNS / "part").replace(RUNS / f"{folder.name}.tar.xz")


def not_good(folder: Path) -> list[dict[str, Any]]:
    """Return of each verdict that is neither pass nor recorded its check, node, rail and cause."""
    keys = ("check", "tool", "node", "rail", "outcome", "cause_class", "cause")
    lines = (folder / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()
    return [{key: one[key] for key in keys} for one in map(json.loads, lines) if one["outcome"] not in GOOD]


def validate() -> dict[str, object]:
    """Validate once, keep the run, and return its line."""
    began, load = time.monotonic(), os.getloadavg()[0]
    done = subprocess.run(
        [RAILYARD, "validate", "-i", INVENTORY],
        cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    took_s = time.monotonic() - began
    folder = max(path for path in (ROOT / "reports" / "lab").iterdir() if path.is_dir())
    keep(folder)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "commit": commit.stdout.strip(),
        "kind": kind_of_lab(),
        "run": folder.name,
        "exit_status": done.returncode,
        "took_s": round(took_s),
        "load": round(load, 1),
        "bad": not_good(folder),
    }


def judged(archive: Path) -> tuple[int, list[dict[str, Any]]]:
    """Return the exit status of a kept run by the rules of today, and what is not good of it."""
    with tempfile.TemporaryDirectory() as scratch:
        with tarfile.open(archive) as packed:
            packed.extractall(scratch, filter="data")
        (folder,) = Path(scratch).iterdir()
        done = subprocess.run([RAILYARD, "judge", folder], capture_output=True, check=False)
        return done.returncode, not_good(folder)


def table(results: list[dict[str, Any]]) -> str:
    """Return the table of the kept runs, as they ended and as they are judged today."""
    groups: dict[tuple[str, str], list[tuple[dict[str, Any], int, list[dict[str, Any]]]]] = {}
    for one in results:
        archive = RUNS / f"{one['run']}.tar.xz"
        if archive.exists():
            beside = one.get("beside") or ("a busy loop" if one["busy"] else "nothing")
            groups.setdefault((one["kind"], beside), []).append((one, *judged(archive)))
    lines = ["| lab | beside it | runs | ended with 0, 3, 1 | today 0, 3, 1 | why not 0, today |",
             "|---|---|---:|---|---|---|"]  # fmt: skip
    for (kind, beside), ones in sorted(groups.items()):
        then, now = (
            ", ".join(str(Counter(statuses)[status]) for status in (0, 3, 1))
            for statuses in ([one["exit_status"] for one, _, _ in ones], [status for _, status, _ in ones])
        )
        causes = Counter(f"{bad['check']}: `{bad['cause_class']}`" for _, _, every in ones for bad in every)
        why = ", ".join(f"{cause} ({count})" for cause, count in causes.most_common()) or "nothing"
        lines.append(f"| {kind} | {beside} | {len(ones)} | {then} | {now} | {why} |")
    return "\n".join(lines)


def main() -> None:
    """Run, and append each line as it comes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", type=int, nargs="?", default=0)
    parser.add_argument("--busy", action="store_true")
    parser.add_argument("--beside", help="what else the machine is doing, for the record")
    parser.add_argument("--judge", action="store_true")
    given = parser.parse_args()
    loop = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if given.busy else None
    try:
        for _ in range(given.runs):
            beside = " and ".join(
                word for word in ("a busy loop" if given.busy else "", given.beside) if word
            )
            line = {"busy": given.busy, **({"beside": beside} if beside else {}), **validate()}
            with RESULTS.open("a", encoding="utf-8") as results:
                results.write(json.dumps(line) + "\n")
            print(json.dumps(line), flush=True)
    finally:
        if loop is not None:
            loop.kill()
    if given.judge:
        readme = HERE / "README.md"
        before, heading, _ = readme.read_text(encoding="utf-8").partition("## So far\n")
        found = table([json.loads(line) for line in RESULTS.read_text(encoding="utf-8").splitlines()])
        readme.write_text(f"{before}{heading}\n{found}\n", encoding="utf-8")
        print(found)


if __name__ == "__main__":
    main()
