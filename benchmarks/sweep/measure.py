"""A sweep of many container nodes: how long it takes, and what it names of several faults at once.

    python benchmarks/sweep/measure.py 16            # a lab of 16 nodes is made, used, and taken down
    python benchmarks/sweep/measure.py 8 --plain 6   # also six pairs by a plain loop of Ansible tasks

Two rails, shaped to 0.05 Gbit/s. Measured are a sweep of two of the nodes (how long one meeting takes), one
of all, and one of all with two slow NICs, one slow pair and one dead node. A line in results.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parents[1] / "collections")]

from ansible_collections.railyard.fabric.plugins.plugin_utils.present import summary
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder
from lab import BIN, RAILS, ROOT, Lab

SLOW_RATE_GBPS = 0.01
#: Where they are, of as many nodes as there are in the smallest lab.
FAULTS = ("slow_rail gpu03/rail1", "slow_rail gpu06/rail0", "slow_pair gpu02/rail0/gpu05", "node_gone gpu08")


def sweep(lab: Lab, *words: str, good: tuple[int, ...] = (0,)) -> dict[str, Any]:
    """Sweep, and return its exit status, how long it took in all and measuring, and what is not good."""
    began = time.monotonic()
    done = lab.railyard("sweep", "-i", str(lab.inventory), *words, good=good)
    took_s = time.monotonic() - began
    folder = max(path for path in (lab.reports / lab.name).iterdir() if path.is_dir())
    rows, _torn = RunFolder(folder).rows(run_folder.RESULTS)
    started = [datetime.fromisoformat(row["started"]) for row in rows if row.get("started") and row["peer"]]
    verdicts = _lines(folder / "verdicts.jsonl")
    return {
        "exit_status": done.returncode,
        "took_s": round(took_s, 1),
        "first_to_last_test_s": round((max(started) - min(started)).total_seconds(), 1),
        "rounds": 1 + max(line["round"] for line in _lines(folder / "asked.jsonl") if line["peer"]),
        "confirming_rounds": len(_second_order(folder).get("meetings", ())),
        "who_is_slow": summary.summarise(folder)["who_is_slow"],
        "outcomes": dict(Counter(one["outcome"] for one in verdicts)),
        "named": dict(
            Counter(
                f"{one['outcome']} {one['cause_class']}: {one['cause']}"[:200]
                for one in verdicts
                if one["outcome"] in ("fail", "unmeasured")
            )
        ),
    }


def _second_order(folder: Path) -> dict[str, Any]:
    file = folder / "confirm_order.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}


def _lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def plain_loop(lab: Lab, pairs: int) -> float:
    """Return the seconds that a plain loop takes for a pair: server, then client, each rail, each way."""
    tasks: list[dict[str, Any]] = []
    for number in range(pairs):
        ends = (number, len(lab.nodes) // 2 + number)
        for server, client in (ends, ends[::-1]):
            for _rail, _netdev, subnet in RAILS:
                address = f"{subnet}{server + 1}"
                serve = f"iperf3 -s -1 -D -B {address}"
                call = f"iperf3 -c {address} -P 4 -t 4 -O 1 -J"
                tasks += [
                    {"name": "Serve", "ansible.builtin.command": serve, "delegate_to": lab.nodes[server]},
                    {"name": "Measure", "ansible.builtin.command": call, "delegate_to": lab.nodes[client]},
                ]
    play = [{"hosts": lab.nodes[0], "gather_facts": False, "become": True, "tasks": tasks}]
    (lab.folder / "plain.yml").write_text(yaml.safe_dump(play, sort_keys=False), encoding="utf-8")
    began = time.monotonic()
    subprocess.run(
        [str(BIN / "ansible-playbook"), "-i", str(lab.inventory), str(lab.folder / "plain.yml")],
        cwd=ROOT, env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")},
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True,
    )  # fmt: skip
    return (time.monotonic() - began) / pairs


def measure(lab: Lab, pairs: int) -> dict[str, Any]:
    """Measure in a lab that is up and provisioned."""
    found: dict[str, Any] = {
        "two_nodes": sweep(lab, "--", "--limit", ",".join(lab.nodes[:2])),
        "healthy": sweep(lab),
    }
    if pairs:
        found["plain_loop_s_a_pair"] = round(plain_loop(lab, pairs), 1)
        found["plain_loop_pairs"] = pairs
    for fault in FAULTS:
        slow = ("--rate-gbps", str(SLOW_RATE_GBPS)) if fault.startswith("slow") else ()
        lab.railyard("lab", "fault", *fault.split(), *slow, "--topology", str(lab.topology))
    found["faulty"] = sweep(lab, good=(0, 1, 3))
    return found


def main() -> None:
    """Make the lab, measure, append the line, take the lab down."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("nodes", type=int, help="8 or more")
    parser.add_argument("--plain", type=int, default=0, metavar="PAIRS", help="by a plain loop as well")
    given = parser.parse_args()
    lab = Lab(f"sweep{given.nodes}", given.nodes)
    with lab.up():
        lab.provision()
        line = {
            "at": datetime.now(UTC).isoformat(timespec="seconds"),
            "nodes": given.nodes,
            "rails": len(RAILS),
            "faults": list(FAULTS),
            **measure(lab, given.plain),
            "load": round(os.getloadavg()[0], 1),
            "machine": {
                "cpus": os.cpu_count(),
                "arch": platform.machine(),
                "python": platform.python_version(),
            },
        }
        with (HERE / "results.jsonl").open("a", encoding="utf-8") as results:
            results.write(json.dumps(line) + "\n")
        print(json.dumps(line, indent=1))


if __name__ == "__main__":
    main()
