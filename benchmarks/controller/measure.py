"""What the controller spends on a run: CPU seconds and memory, by the number of nodes. No node is touched.

    python benchmarks/controller/measure.py 16 64 256 1024

validate.yml from the inventory to the report, with the real preflight, schedule and judge. The nodes are
stand-ins: the actions that would reach them answer at once with canned replies, so what ssh costs is not in
it, and all planned tests stay unmeasured. One line each in results.jsonl.
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
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
COLLECTION = ROOT / "collections" / "ansible_collections" / "railyard" / "fabric"
RAILS = [
    {
        "name": f"rail{k}",
        "netdev": f"ens{k}",
        "hca": f"mlx5_{k}:1",
        "subnet": f"10.{k}.0.0/16",
        "rate_gbps": 400,
    }
    for k in range(8)
]
STAND_INS = ("inspect", "stage", "run", "watch", "collect")
STAND_IN = """
from pathlib import Path
from ansible.plugins.action import ActionBase


class ActionModule(ActionBase):
    def run(self, tmp=None, task_vars=None):
        return {"changed": False, **getattr(self, Path(__file__).stem)(task_vars["inventory_hostname"])}

    def fabric_inspect(self, node):
        with Path(self._task.args["folder"], "facts.jsonl").open("a") as stream:
            stream.write('{"node": "%s"}\\n' % node)
        return {"inspected": True}

    def fabric_stage(self, node):
        return {"program_sha256": "00", "controller": "me", "lease_s": 90, "deadline_s": 2400}

    def fabric_run(self, node):
        return {"unit": "railyard-runner"}

    def fabric_watch(self, node):
        return {"done": True, "finished_tests": 9, "total_tests": 9}

    def fabric_collect(self, node):
        return {"rows": 0}
"""


def prepare(place: Path, nodes: int) -> list[str]:
    """Lay out inventory, playbook and a collection with stand-ins; return the command."""
    plugins = place / "collections" / "ansible_collections" / "railyard" / "fabric" / "plugins"
    (plugins / "action").mkdir(parents=True)
    for kind in ("module_utils", "modules", "plugin_utils", "filter", "doc_fragments", "callback"):
        (plugins / kind).symlink_to(COLLECTION / "plugins" / kind)
    for action in (COLLECTION / "plugins" / "action").glob("*.py"):
        (plugins / "action" / action.name).symlink_to(action)
    for name in STAND_INS:
        (plugins / "action" / f"fabric_{name}.py").unlink(missing_ok=True)
        (plugins / "action" / f"fabric_{name}.py").write_text(STAND_IN, encoding="utf-8")
    hosts = {
        f"gpu{number:04d}": {"ansible_host": f"192.0.{2 + number // 250}.{1 + number % 250}"}
        for number in range(1, nodes + 1)
    }
    fabric = {"transport": "roce", "mtu": 9000, "rails": RAILS}
    inventory = {"gpu_nodes": {"hosts": hosts, "vars": {"fabric": fabric}}}
    (place / "hosts.yml").write_text(yaml.safe_dump(inventory), encoding="utf-8")
    playbook = [{"import_playbook": str(ROOT / "playbooks" / "validate.yml")}]
    (place / "site.yml").write_text(yaml.safe_dump(playbook), encoding="utf-8")
    program = Path(sys.executable).parent / "ansible-playbook"
    reports = f"railyard_reports_dir={place / 'reports'}"
    return [str(program), "-i", str(place / "hosts.yml"), str(place / "site.yml"), "-e", reports]


def measure(nodes: int) -> dict[str, Any]:
    """Run once and return its line."""
    with tempfile.TemporaryDirectory() as place:
        command = prepare(Path(place), nodes)
        environment = {
            **os.environ,
            "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg"),
            "ANSIBLE_COLLECTIONS_PATH": str(Path(place, "collections")),
        }
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        done = subprocess.run(
            command, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, check=False
        )
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        folders = [found.parent for found in Path(place, "reports").glob("*/*/verdicts.jsonl")]
        if not folders:
            raise RuntimeError(done.stdout.decode()[-2000:])
        (folder,) = folders
        return {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "nodes": nodes,
            "rails": len(RAILS),
            "asked": sum(1 for _line in (folder / "asked.jsonl").open("rb")),
            "cpu_s": round(used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime, 1),
            "largest_process_mib": used.ru_maxrss // 1024,
            "folder_mib": round(sum(one.stat().st_size for one in folder.rglob("*")) / 2**20, 1),
            "machine": {
                "cpus": os.cpu_count(),
                "arch": platform.machine(),
                "python": platform.python_version(),
            },
        }


def main() -> None:
    """Run for each number of nodes, and append each line as it comes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("nodes", type=int, nargs="+")
    for nodes in parser.parse_args().nodes:
        line = measure(nodes)
        with (HERE / "results.jsonl").open("a", encoding="utf-8") as results:
            results.write(json.dumps(line) + "\n")
        print(json.dumps(line, indent=1), flush=True)


if __name__ == "__main__":
    main()
