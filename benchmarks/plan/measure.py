"""Time and weigh `railyard plan` on generated inventories, one fresh process per size.

Usage: .venv/bin/python benchmarks/plan/measure.py [--nodes 1024 2048 4096] [--rails 8] [--repeat 3]
Prints a Markdown table and the ratio of each size to the one before; CPU seconds say more than wall seconds
on a machine that others use.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

_REPO = Path(__file__).resolve().parents[2]
# What `railyard plan --json` does, then CPU seconds and resident peak (KiB) of the process that did it.
_CHILD = """
import resource, sys
sys.path.insert(0, sys.argv[1])
from railyard.plan import view as plan_view
status = plan_view.run([sys.argv[2]], True)
usage = resource.getrusage(resource.RUSAGE_SELF)
print(usage.ru_utime + usage.ru_stime, usage.ru_maxrss, file=sys.stderr)
sys.exit(status)
"""


def write_inventory(folder: Path, nodes: int, rails: int) -> None:
    """Write a computed fabric and a hosts.yml that lists every node with its management address."""
    variables = folder / "group_vars" / "all"
    variables.mkdir(parents=True)
    (variables / "fabric.yml").write_text(
        f"fabric:\n  transport: roce\n  mtu: 9000\n  rail_count: {rails}\n  supernet: 10.0.0.0/12\n"
        "  rail_prefix: 16\n  netdev_pattern: ens{rail}f0\n  hca_pattern: mlx5_{rail}:1\n  rate_gbps: 400\n"
        "  gateway: last\n"
    )
    lines = ["gpu_nodes:", "  hosts:"]
    for number in range(1, nodes + 1):
        management = f"172.16.{number // 256}.{number % 256}"
        lines += [f"    gpu{number:05d}:", f"      ansible_host: {management}"]
    (folder / "hosts.yml").write_text("\n".join(lines) + "\n")


def measure(folder: Path) -> tuple[float, float, float]:
    """Return (wall seconds, CPU seconds, peak resident MiB) of one plan in a process of its own.

    Raises:
        RuntimeError: the plan failed.
    """
    env = {**os.environ, "ANSIBLE_CONFIG": str(_REPO / "ansible.cfg")}
    argv = [sys.executable, "-c", _CHILD, str(_REPO / "tools"), str(folder)]
    start = time.monotonic()
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False)
    seconds = time.monotonic() - start
    if done.returncode != 0:
        raise RuntimeError(done.stderr[-2000:])
    cpu_seconds, peak_kib = done.stderr.split()[-2:]
    return seconds, float(cpu_seconds), int(peak_kib) / 1024


def main() -> None:
    """Measure each size and print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=[1024, 2048, 4096])
    parser.add_argument("--rails", type=int, default=8)
    parser.add_argument("--repeat", type=int, default=3, help="the best of so many is shown")
    options = parser.parse_args()
    core = version("ansible-core")
    machine = f"{os.cpu_count()} CPUs, {platform.machine()}"
    print(f"Python {platform.python_version()}, ansible-core {core}, {machine}\n")
    print(
        "| nodes | rails | wall s | CPU s | ratio | peak MiB | ratio |\n|---:|---:|---:|---:|---:|---:|---:|"
    )
    before: tuple[float, float] | None = None
    for nodes in options.nodes:
        with tempfile.TemporaryDirectory() as folder:
            inventory = Path(folder) / f"bench{nodes}"
            write_inventory(inventory, nodes, options.rails)
            runs = [measure(inventory) for _ in range(options.repeat)]
        wall, cpu, mebibytes = (min(run[column] for run in runs) for column in range(3))
        ratios = ["", ""]
        if before is not None:
            ratios = [f"{cpu / before[0]:.2f}", f"{mebibytes / before[1]:.2f}"]
        row = (nodes, options.rails, f"{wall:.2f}", f"{cpu:.2f}", ratios[0], f"{mebibytes:.0f}", ratios[1])
        print("| " + " | ".join(str(cell) for cell in row) + " |", flush=True)
        before = (cpu, mebibytes)


if __name__ == "__main__":
    main()
