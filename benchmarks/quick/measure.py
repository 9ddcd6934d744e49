"""What a look of railyard-quick costs a node: wall and CPU seconds, bytes of its line and its files.

    python benchmarks/quick/measure.py [--python /usr/bin/python3] [--looks 20] dgx-h100

The packed program looks at the first node of a machine of tests/machines: a tree of files, with stand-ins for
nvidia-smi and ip. Its GID and P_Key tables are filled up to the 256 and 128 entries of an mlx5 port. What no
tree answers is not in it: the ioctls of libibverbs and of `ethtool -S`, and the time that the real nvidia-smi
takes. A line for each machine in results.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "collections"), str(ROOT / "tests"), str(ROOT / "tools")]

from ansible_collections.railyard.fabric.plugins.module_utils import program
from support.machines import pair

#: An mlx5 port's tables, as benchmarks/node_metrics has them.
TABLES = {"gids": (256, "0000:0000:0000:0000:0000:0000:0000:0000"), "pkeys": (128, "0x0000")}


def fill_tables(root: Path) -> None:
    """Give each RDMA port tables of a real port's size; an empty entry's GID is zero."""
    for port in root.glob("sys/class/infiniband/*/ports/*"):
        for name, (entries, empty) in TABLES.items():
            for number in range(entries):
                file = port / name / str(number)
                if not file.exists():
                    file.parent.mkdir(exist_ok=True)
                    file.write_text(f"{empty}\n")


def make_node(machine: str, folder: Path) -> pair.NodeOn:
    """Make a machine's first node, and write what it is expected to be."""
    node = next(iter(pair.Pair(pair.read(machine), folder).nodes.values()))
    fill_tables(node.tree.root)
    wanted = {
        "schema": 1, "node": node.name, "transport": node.plan["transport"],
        "node_class": node.plan["node_class"], "rails": node.plan["rails"],
        "governor": node.tree.node.governor or "", "gpus": node.plan.get("gpus"),
    }  # fmt: skip
    (folder / "quick.json").write_text(json.dumps(wanted))
    return node


def measure(python: str, machine: str, looks: int) -> dict[str, object]:
    """Look so many times, and return what it cost."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folder = Path(name)
        node = make_node(machine, folder)
        packed, kept = folder / "railyard-quick", folder / "kept"
        packed.write_bytes(program.build("quick.main", program.loaded))
        kept.mkdir()
        argv = [python, "-I", str(packed), "--expect", str(folder / "quick.json"), "--as", "timer"]
        argv += ["--folder", str(kept), "--root", str(node.tree.root)]
        environment = {**os.environ, "PATH": f"{node.bin}:/usr/bin:/bin"}
        cpu_s, wall_s = [], []
        for _look in range(looks):
            before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
            done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu_s.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
            wall_s.append(time.monotonic() - began)
        if done.returncode not in (0, 1, 3):
            raise SystemExit(f"railyard-quick ended with {done.returncode}: {done.stderr}")
        kept_bytes = sum(file.stat().st_size for file in kept.iterdir())
    version = subprocess.run([python, "-V"], capture_output=True, text=True, check=True).stdout.split()[1]
    middle = looks // 2
    return {
        "when": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "python": version,
        "machine": f"{os.cpu_count()} x {platform.machine()}",
        "load": round(os.getloadavg()[0], 1),
        "node": machine,
        "rails": len(node.plan["rails"]),
        "looks": looks,
        "status": done.returncode,
        "line": done.stdout.strip(),
        "wall_s": round(sorted(wall_s)[middle], 3),
        "longest_wall_s": round(max(wall_s), 3),
        "cpu_s": round(sorted(cpu_s)[middle], 3),
        "most_cpu_s": round(max(cpu_s), 3),
        "cpu_s_an_hour": round(sorted(cpu_s)[middle] * 12, 1),
        "kept_bytes": kept_bytes,
    }


def main() -> None:
    """Measure, and add a line for each machine."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("machines", nargs="+")
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("--looks", type=int, default=20)
    asked = parser.parse_args()
    with (HERE / "results.jsonl").open("a", encoding="utf-8") as file:
        for machine in asked.machines:
            line = json.dumps(measure(asked.python, machine, asked.looks))
            print(line)
            file.write(line + "\n")


if __name__ == "__main__":
    main()
