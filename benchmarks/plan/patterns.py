"""Calculate what measuring takes: pattern auto and all pairs with the fewest tests, at several sizes.

Usage: .venv/bin/python benchmarks/plan/patterns.py [--nodes 32 33 64 231 232 1000] [--rails 8]
No node is queried and nothing is measured: it is the model that `railyard plan` prints, one JSON line for
each size and way, with the CPU seconds that the calculation took and the machine that did it.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
import time
from pathlib import Path
from typing import Any

_REPO = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(_REPO / "collections"))

from ansible_collections.railyard.fabric.plugins.plugin_utils.ask import cost, pattern, requests
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy

_WAYS = ("auto", "sweep")


def order_of(nodes: int, rails: int) -> dict[str, Any]:
    """Return the common part of a test schedule of so many nodes, of RoCE at 400 Gbit/s."""
    each = [
        {"name": f"rail{k}", "netdev": f"ens{k}", "subnet": f"10.{k}.0.0/16", "rate_gbps": 400}
        for k in range(rails)
    ]
    fabric = {"transport": "roce", "mtu": 9000, "rails": each}
    names = [f"gpu{number:05d}" for number in range(1, nodes + 1)]
    plan = {"nodes": {name: {"node_index": number} for number, name in enumerate(names, 1)}}
    return requests.work_order("", plan, dict.fromkeys(names, fabric), policy.merge(None), names)


def main() -> None:
    """Print a line for each size and way."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nodes", type=int, nargs="+", default=[32, 33, 64, 231, 232, 1000])
    parser.add_argument("--rails", type=int, default=8)
    options = parser.parse_args()
    machine = f"Python {platform.python_version()}, {os.cpu_count()} CPUs, {platform.machine()}"
    for nodes in options.nodes:
        made = order_of(nodes, options.rails)
        for way in _WAYS:
            begun_s = time.process_time()
            found = cost.estimate_order(pattern.by_policy(made, cost.WAYS[way]))
            line = {
                "nodes": nodes,
                "rails": options.rails,
                "way": way,
                "minutes": round(found.duration_s / 60, 1),
                "rounds": found.rounds,
                "pairs": found.pairs,
                "of_pairs": found.of_pairs,
                "rows": found.rows,
                "result_mb": round(found.result_bytes / 1e6, 1),
                "cpu_s": round(time.process_time() - begun_s, 2),
                "machine": machine,
            }
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
