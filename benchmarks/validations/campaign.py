"""A healthy lab, validated again and again: does every run end with 0?

    python benchmarks/validations/campaign.py 10               # so many runs more, on the lab that is up
    python benchmarks/validations/campaign.py 10 --busy        # beside a busy loop on one core

A line for each run in results.jsonl: kind of lab, whether something else was busy, exit status, seconds, and
of each verdict that is neither pass nor recorded its check, node, rail and cause.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
INVENTORY = ROOT / "inventories" / "lab"
GOOD = ("pass", "recorded", "not_applicable")


def kind_of_lab() -> str:
    """Return `container` or `vm`, as the lab that is up generated its inventory."""
    generated = INVENTORY / "group_vars" / "gpu_nodes" / "generated.yml"
    return "container" if "node_class: container" in generated.read_text(encoding="utf-8") else "vm"


def validate() -> dict[str, object]:
    """Validate once and return the line of the run."""
    began, load = time.monotonic(), os.getloadavg()[0]
    done = subprocess.run(
        [Path(sys.executable).parent / "railyard", "validate", "-i", INVENTORY],
        cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False,
    )  # fmt: skip
    took_s = time.monotonic() - began
    folder = max((ROOT / "reports" / "lab").iterdir())
    lines = (folder / "verdicts.jsonl").read_text(encoding="utf-8").splitlines()
    bad = [one for one in map(json.loads, lines) if one["outcome"] not in GOOD]
    keys = ("check", "tool", "node", "rail", "outcome", "cause_class", "cause")
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
        "bad": [{key: one[key] for key in keys} for one in bad],
    }


def main() -> None:
    """Run, and append each line as it comes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("runs", type=int)
    parser.add_argument("--busy", action="store_true")
    given = parser.parse_args()
    loop = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if given.busy else None
    try:
        for _ in range(given.runs):
            line = {"busy": given.busy, **validate()}
            with (HERE / "results.jsonl").open("a", encoding="utf-8") as results:
                results.write(json.dumps(line) + "\n")
            print(json.dumps(line), flush=True)
    finally:
        if loop is not None:
            loop.kill()


if __name__ == "__main__":
    main()
