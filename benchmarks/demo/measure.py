#!/usr/bin/env python3
"""Time `make demo` of a commit in a fresh clone, and show where the time goes.

    benchmarks/demo/measure.py [--busy N] [--lab container] [COMMIT]

Takes root, and the lab named `lab` must be down. With --busy, N processes that only loop run beside it.
"""

from __future__ import annotations

import argparse
import multiprocessing
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

REPO = Path(__file__).resolve().parents[2]
# A phase begins with the first line that its pattern matches. Phases of set-up may overlap in newer commits.
PHASES = (
    ("set-up", r"==> 1/3"),
    ("image", r"building the (VMs'|containers') image"),
    ("boot", r"network ready"),
    ("drivers and RDMA stack", r"==> 3/3"),
    ("rails", r"▸ Configure the rails"),
    ("QoS and tuning", r"▸ Set the QoS"),
    ("NCCL profile", r"▸ Write the NCCL profile"),
    ("benchmark tools", r"▸ Install the benchmark tools"),
    ("measuring", r"▸ Measure and judge"),
)
# Printed as they are: what was measured and proven, and how the demo ended.
SHOWN = re.compile(
    r"Exit status|checks measured|speed of the nodes|The demo took|This machine is|What to do next"
)


@contextmanager
def busy(number: int) -> Iterator[None]:
    """Keep so many processes looping."""
    loops = [multiprocessing.Process(target=_loop, daemon=True) for _ in range(number)]
    for loop in loops:
        loop.start()
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()


def _loop() -> None:
    while True:
        pass


def run(clone: Path, lab: str) -> tuple[int, float, dict[str, float]]:
    """Run the demo; return its exit status, the seconds it took and when each phase began."""
    began, at_s = time.monotonic(), {}
    argv = ["make", "demo", *([f"LAB={lab}"] if lab else [])]
    with subprocess.Popen(
        argv, cwd=clone, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as demo:
        for line in demo.stdout or ():
            now_s = time.monotonic() - began
            for phase, pattern in PHASES:
                if phase not in at_s and re.search(pattern, line):
                    at_s[phase] = now_s
            if SHOWN.search(line):
                print(f"  {now_s:6.1f} s  {line.strip()}", flush=True)
    return demo.returncode, time.monotonic() - began, at_s


def main() -> int:
    """Time one demo and print a table; the exit status is the demo's."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--busy", type=int, default=0, metavar="N")
    parser.add_argument("--lab", default="", choices=["", "container"])
    parser.add_argument("commit", nargs="?", default="HEAD")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="railyard-demo-") as folder:
        Path(folder).chmod(0o755)  # apt's own user has to reach the image that is being built
        clone = Path(folder) / "railyard"
        subprocess.run(["git", "clone", "-q", str(REPO), str(clone)], check=True)
        subprocess.run(["git", "checkout", "-q", options.commit], cwd=clone, check=True)
        name = subprocess.run(
            ["git", "log", "-1", "--format=%h"], cwd=clone, check=True, capture_output=True, text=True
        ).stdout.strip()
        try:
            with busy(options.busy):
                status, whole_s, at_s = run(clone, options.lab)
        finally:
            subprocess.run(["make", "demo-down"], cwd=clone, check=False, capture_output=True)
    print(f"\n| {name}, {options.busy} busy loops: exit status {status} | s |\n|---|---:|")
    begun = sorted(at_s.items(), key=lambda one: one[1])
    for (phase, begin_s), end_s in zip(begun, [*(at for _phase, at in begun[1:]), whole_s], strict=True):
        print(f"| {phase} | {end_s - begin_s:.0f} |")
    print(f"| all | {whole_s:.0f} |")
    return status


if __name__ == "__main__":
    sys.exit(main())
