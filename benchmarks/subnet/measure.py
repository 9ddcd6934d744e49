"""Time and weigh the reading and judging of InfiniBand subnets that ibsim simulates.

    python benchmarks/subnet/measure.py [--sizes 64 960 1920] [--rails 8]

The reading runs as on a node, the judging as on the controller, each in a process of its own. A line for each
size in results.jsonl, with the machine. The simulator answers at once; real switches take longer.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "tools"), str(ROOT / "collections")]

from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet import captures
from support import simulated
from support.simulated import Cluster, Subnet


def weigh(work: Callable[[], Any]) -> dict[str, float]:
    """Run something in a process of its own; return its time and its peak of memory."""
    began = time.monotonic()
    pid = os.fork()
    if pid == 0:
        status = 1
        try:
            work()
            status = 0
        finally:
            os._exit(status)
    _pid, status, used = os.wait4(pid, 0)
    if status:
        raise SystemExit(f"what was measured ended with status {status}")
    return {
        "wall_s": round(time.monotonic() - began, 2),
        "cpu_s": round(used.ru_utime + used.ru_stime, 2),
        "peak_mib": round(used.ru_maxrss / 1024),
    }


def read(subnet: Subnet, folder: Path, *, partitions: bool) -> None:
    """Read a subnet, its counters twice without a pause, as `railyard fabric` does on the node."""
    captures.write(simulated.read(subnet, partitions=partitions, interval_s=0.1), str(folder))


def judge(inventory: Path, capture: Path, folder: Path) -> None:
    """Judge a capture by the command, with page and drawing."""
    program = "import sys; from railyard.cli import main; sys.argv[0] = 'railyard'; main()"
    words = ["fabric", "-i", str(inventory), "--from", str(capture), "--svg", str(folder / "fabric.svg")]
    environment = {
        **os.environ,
        "RAILYARD_REPORTS_DIR": str(folder / "reports"),
        "PYTHONPATH": f"{ROOT / 'tools'}:{ROOT / 'collections'}",
    }
    os.execve(sys.executable, [sys.executable, "-c", program, *words], environment)  # noqa: S606 - an argv list, no shell


def measure(adapters: int, rails: int, folder: Path) -> dict[str, Any]:
    """Measure one size."""
    declared = (("partitions", {"0x7fff": {"members": "all"}}),)
    # 40-port switches: 20 nodes below a leaf, as many uplinks.
    nodes = adapters // rails
    cluster = Cluster(nodes=nodes, rails=rails, units=max(1, nodes // 20), spines=4, more=declared)
    (folder / "hosts.yml").write_text(cluster.text(), encoding="utf-8")
    net = cluster.net()
    began = time.monotonic()
    with simulated.simulate(net, folder / "sim") as subnet:
        up_s = time.monotonic() - began
        reading = weigh(lambda: read(subnet, folder / "links", partitions=False))
        with_partitions = weigh(lambda: read(subnet, folder / "capture", partitions=True))
    judging = weigh(lambda: judge(folder / "hosts.yml", folder / "capture", folder))
    return {
        "adapters": len(net.adapters()),
        "switches": len(net.switches()),
        "links": len(net.cables),
        "simulator_up_s": round(up_s, 1),
        "read": reading,
        "read_with_partitions": with_partitions,
        "judge": judging,
        "capture_mb": round(sum(one.stat().st_size for one in (folder / "capture").iterdir()) / 1e6, 1),
        "svg_kb": round((folder / "fabric.svg").stat().st_size / 1e3),
    }


def main() -> None:
    """Measure the given sizes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sizes", type=int, nargs="+", default=[64, 960, 1920], help="adapters")
    parser.add_argument("--rails", type=int, default=8)
    options = parser.parse_args()
    machine = {"cpus": os.cpu_count(), "system": f"{platform.system()} {platform.machine()}"}
    for size in options.sizes:
        with tempfile.TemporaryDirectory() as folder:
            found = measure(size, options.rails, Path(folder))
        line = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            **found,
            "machine": {**machine, "python": platform.python_version(), "load": round(os.getloadavg()[0], 1)},
        }
        print(json.dumps(line), flush=True)
        with (HERE / "results.jsonl").open("a", encoding="utf-8") as results:
            results.write(json.dumps(line) + "\n")


if __name__ == "__main__":
    main()
