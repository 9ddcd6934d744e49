"""Time and weigh what is calculated from an inventory before a node is touched, on generated inventories.

    python benchmarks/plan/measure.py [--nodes 1000 4096 10000] [--rails 8] [--unit 32] [--repeat 3]

Every step in a fresh process; the best of the repeats. A line for each size in results.jsonl, with the
machine. CPU seconds say more than wall seconds on a machine that others use. No node is touched.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
ENVIRONMENT = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}

#: What `railyard plan --json` does.
PLAN = """
import sys
sys.path.insert(0, sys.argv[1])
from railyard.plan import view
sys.exit(view.run([sys.argv[2]], True))
"""
#: What preflight calculates (load, validate, cost), then what a measurement prepares, step by step.
STEPS = """
import json, resource, sys, tempfile, time
sys.path.insert(0, sys.argv[1])
import railyard.cli
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import work_order
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import load
from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import cost, own_orders, requests
from ansible_collections.railyard.fabric.plugins.plugin_utils.launch import orders
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import action_base
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder

seconds = {}


def timed(name, call):
    start = time.process_time()
    result = call()
    seconds[name] = round(time.process_time() - start, 3)
    return result


inventory = timed("load_s", lambda: load.load([sys.argv[2]]))
problems = timed("validate_s", lambda: load.validate(inventory))
assert not problems, problems
timed("cost_s", lambda: cost.estimate_inventory(inventory))
plan, manifest = timed("open_s", lambda: action_base.start_documents(inventory))
folder = run_folder.create(tempfile.mkdtemp(dir=sys.argv[3]), "bench", None, manifest)
folder.write(run_folder.PLAN, run_folder.pretty(plan))
nodes = {node.name: node.fabric for node in inventory.selected_nodes()}
order = timed(
    "work_order_s",
    lambda: requests.work_order(folder.name, plan, nodes, manifest["policy"], list(nodes)),
)
lines = timed("asked_s", lambda: requests.asked_lines(plan, order))


def keep():
    folder.write(run_folder.ASKED, "".join(run_folder.line(line) + "\\n" for line in lines))
    folder.write(run_folder.WORK_ORDER, run_folder.pretty(order))
    own_orders.keep(folder, plan, [], order)


timed("write_s", keep)
folder.secret()
name = list(nodes)[len(nodes) // 2]
own = timed("order_of_one_node_s", lambda: orders.Orders(folder).build(name))
seconds |= {
    "tests": sum(line["peer"] is not None for line in lines),
    "asked_mb": round((folder.path / run_folder.ASKED).stat().st_size / 1e6, 1),
    "order_bytes": len(work_order.dump(own)),
    "order_bytes_sent": len(work_order.pack(own)),
    "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
}
print(json.dumps(seconds))
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


def write_units(folder: Path, nodes: int, rails: int, unit: int) -> dict[str, float]:
    """Write an inventory of scalable units by `railyard new-inventory`; return what that took.

    Each rail has a leaf and a subnet in each unit, and each node a route to the other units.
    """
    railyard = str(Path(sys.executable).parent / "railyard")
    argv = [railyard, "new-inventory", str(folder), "--nodes", f"gpu[00001-{nodes:05d}]"]
    argv += ["--rails", str(rails), "--transport", "roce", "--nodes-per-unit", str(unit)]
    argv += ["--supernet", "10.0.0.0/8", "--netdev", "ens{rail}f0", "--leaf", "leaf-{unit}-{rail}"]
    argv += ["--rate-gbps", "400", "--ansible-host", "172.16.0.1"]
    return measured(argv)[0]


def measured(argv: list[str]) -> tuple[dict[str, float], str]:
    """Return `wall_s`, `cpu_s` and `peak_mib` of a process and those that it starts, and its output.

    Raises:
        RuntimeError: it failed.
    """
    start = time.monotonic()
    with tempfile.TemporaryFile("w+") as said:
        child = subprocess.Popen(argv, cwd=ROOT, env=ENVIRONMENT, stdout=said)
        _pid, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        output = said.read()
    if child.returncode != 0:
        raise RuntimeError(output[-2000:])
    return {
        "wall_s": round(time.monotonic() - start, 2),
        "cpu_s": round(used.ru_utime + used.ru_stime, 2),
        "peak_mib": used.ru_maxrss // 1024,
    }, output


def best(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the least of each number."""
    return {key: min(run[key] for run in runs) for key in runs[0]}


def measure(nodes: int, rails: int, repeat: int, unit: int | None) -> dict[str, Any]:
    """Return the line of one size."""
    with tempfile.TemporaryDirectory() as place:
        inventory = Path(place) / f"bench{nodes}"
        made = {}
        if unit is None:
            write_inventory(inventory, nodes, rails)
        else:
            made = {"unit": unit, "new_inventory": write_units(inventory, nodes, rails, unit)}
        words = [sys.executable, "-c"], [str(ROOT / "tools"), str(inventory), place]
        playbook = [str(Path(sys.executable).parent / "ansible-playbook"), "-i", str(inventory)]
        playbook += [str(ROOT / "playbooks" / "preflight.yml")]
        plans, steps, whole, without = [], [], [], []
        for _time in range(repeat):
            plans.append(measured([*words[0], PLAN, *words[1]])[0])
            steps.append(json.loads(measured([*words[0], STEPS, *words[1]])[1].splitlines()[-1]))
            whole.append(measured(playbook)[0])
            # Everything but the action: Ansible itself, and its own loading of the inventory.
            without.append(measured([*playbook, "-e", "railyard_inventory_checked=true"])[0])
    preflight = best(whole)
    preflight["of_it_the_action_cpu_s"] = round(preflight["cpu_s"] - best(without)["cpu_s"], 2)
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "nodes": nodes,
        "rails": rails,
        **made,
        "plan": best(plans),
        "preflight_playbook": preflight,
        "steps": best(steps),
        "machine": {
            "cpus": os.cpu_count(),
            "system": f"{platform.system()} {platform.machine()}",
            "python": platform.python_version(),
            "ansible_core": version("ansible-core"),
            "load": round(os.getloadavg()[0], 1),
        },
    }


def main() -> None:
    """Measure each size."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=[1000, 4096, 10000])
    parser.add_argument("--rails", type=int, default=8)
    parser.add_argument("--unit", type=int, help="nodes in a scalable unit; left out: none")
    parser.add_argument("--repeat", type=int, default=3, help="the best of so many is kept")
    options = parser.parse_args()
    for nodes in options.nodes:
        line = json.dumps(measure(nodes, options.rails, options.repeat, options.unit))
        print(line, flush=True)
        with (HERE / "results.jsonl").open("a", encoding="utf-8") as stream:
            stream.write(f"{line}\n")


if __name__ == "__main__":
    main()
