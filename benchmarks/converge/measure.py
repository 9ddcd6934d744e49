"""What provisioning many nodes takes: the first run and one that changes nothing.

    python benchmarks/converge/measure.py 2 8 16 32     # a lab of each size is made, used, and taken down

Bare container nodes on one machine, all in one batch. Wall time of both runs, the exec requests that a node's
sshd served meanwhile, and how long `ansible -m ping` of all nodes takes: a run's time over its requests
times that says what is not the connection's own. A line for each size in results.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "sweep")]

from lab import BIN, ROOT, Lab

_PINGS = 3


def requests(lab: Lab, node: str) -> int:
    """Return the exec requests that a node has served so far, this one not counted."""
    journal = lab.ssh(node, "sudo", "journalctl", "--unit", "ssh", "--no-pager", "--output", "cat")
    return journal.count("Starting session: command") - 1


def provision(lab: Lab, node: str) -> dict[str, Any]:
    """Provision all nodes; `node` is the one whose requests are counted."""
    before, began = requests(lab, node), time.monotonic()
    said = lab.provision()
    took_s = time.monotonic() - began
    # Of more than a dozen hosts the recap says how many changed; of fewer what.
    many = re.search(r"changed on ([0-9]+) of", said)
    changed = int(many[1]) if many else len(re.findall(r"changed=[1-9]", said))
    # One of the requests since then was the count before.
    return {
        "took_s": round(took_s, 1),
        "requests_of_a_node": requests(lab, node) - before - 1,
        "nodes_changed": changed,
    }


def ping_s(lab: Lab) -> float:
    """Return the seconds of the quickest `ansible -m ping` of all nodes, over connections that are open."""
    found = []
    for _turn in range(_PINGS):
        began = time.monotonic()
        subprocess.run(
            [str(BIN / "ansible"), "-i", str(lab.inventory), "-m", "ping", "all"],
            cwd=ROOT, env={**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")},
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=True,
        )  # fmt: skip
        found.append(time.monotonic() - began)
    return min(found)


def measure(nodes: int) -> dict[str, Any]:
    """Return the line of a lab of so many nodes."""
    lab = Lab(f"converge{nodes}", nodes)
    with lab.up():
        found = {"first": provision(lab, lab.nodes[-1]), "nothing_to_do": provision(lab, lab.nodes[-1])}
        one_s = ping_s(lab)
    for run in found.values():
        run["pings"] = round(run["took_s"] / (one_s * run["requests_of_a_node"]), 2)
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "nodes": nodes,
        **found,
        "ping_all_s": round(one_s, 2),
        "load": round(os.getloadavg()[0], 1),
        "machine": {"cpus": os.cpu_count(), "arch": platform.machine(), "python": platform.python_version()},
    }


def main() -> None:
    """Measure each size and append its line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("nodes", type=int, nargs="+")
    for nodes in parser.parse_args().nodes:
        line = measure(nodes)
        with (HERE / "results.jsonl").open("a", encoding="utf-8") as results:
            results.write(json.dumps(line) + "\n")
        print(json.dumps(line))


if __name__ == "__main__":
    main()
