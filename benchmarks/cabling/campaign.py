"""Every cabling fault singly, ten pairs of them, and ten healthy runs, on four nodes with two rails each.

    railyard lab up --topology benchmarks/cabling/topology.yml
    railyard provision -i benchmarks/cabling/inventory
    python benchmarks/cabling/campaign.py            # goes on where it was stopped
    python benchmarks/cabling/campaign.py --table    # what has been found so far

Each case makes its faults with `railyard lab fault`, validates, looks for each fault in the run folder (read
with nothing of Railyard's own code), heals, and appends a line to results.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULTS = HERE / "results.jsonl"
RAILYARD = Path(sys.executable).parent / "railyard"
TOPOLOGY, INVENTORY = HERE / "topology.yml", HERE / "inventory"
NODES = ("gpuserver1", "gpuserver2", "gpuserver3", "gpuserver4")
HEALTHY_RUNS = 10
# A fifth of what the rails are shaped to.
SLOW_RATE_GBPS = 0.01

Verdict = dict[str, Any]
SINGLE = (
    "swap gpuserver2/rail0/rail1",
    "miswire gpuserver3/rail0/rail1",
    "miswire gpuserver1/rail1/gpuserver4",
    "join_rails rail0/rail1",
    "path_mtu gpuserver2/rail1",
    "path_mtu_one_way gpuserver3/rail0",
    "duplicate_address gpuserver4/rail0",
    "arp_flux gpuserver2/rail0",
    "reply_by_other_rail gpuserver3/rail1",
    "slow_rail gpuserver1/rail1",
    "wrong_leaf gpuserver4/rail1/leaf9",
)
PAIRS = (
    ("swap gpuserver2/rail0/rail1", "path_mtu gpuserver4/rail1"),
    ("swap gpuserver2/rail0/rail1", "arp_flux gpuserver3/rail0"),
    ("miswire gpuserver3/rail0/rail1", "duplicate_address gpuserver1/rail1"),
    ("miswire gpuserver3/rail0/rail1", "slow_rail gpuserver1/rail1"),
    ("reply_by_other_rail gpuserver1/rail0", "path_mtu_one_way gpuserver2/rail1"),
    ("arp_flux gpuserver4/rail1", "wrong_leaf gpuserver2/rail0/leaf9"),
    ("duplicate_address gpuserver4/rail0", "slow_rail gpuserver2/rail1"),
    ("miswire gpuserver1/rail1/gpuserver4", "path_mtu gpuserver2/rail0"),
    ("swap gpuserver1/rail0/rail1", "miswire gpuserver3/rail0/rail1"),
    ("join_rails rail0/rail1", "wrong_leaf gpuserver3/rail0/leaf9"),
)


def names(fault: str, failing: list[Verdict]) -> list[Verdict]:
    """Return the failing verdicts that name a fault: its kind by the cause, its node, rail and peer."""
    kind, target = fault.split(" ")
    words = target.split("/")
    node, rail, *rest = words if kind != "join_rails" else ("", *words)

    def at(one: Verdict) -> bool:
        return bool(one["node"] == node and one["rail"] == rail)

    def between(one: Verdict) -> bool:
        return node in (one["node"], one["peer"]) and one["rail"] == rail

    def said(*texts: str) -> Callable[[Verdict], bool]:
        return lambda one: all(text in str(one["cause"]) for text in texts)

    wanted: dict[str, tuple[tuple[str, ...], Callable[[Verdict], bool]]] = {
        "swap": (("rails_swapped",), lambda one: said(node, rail, *rest)(one) and one["node"] == node),
        "miswire": (
            ("wrong_peer", "rail_isolated")
            if rest and rest[0] in NODES
            else ("rail_crossed", "rails_swapped"),
            lambda one: at(one) and said(node, rail, *rest)(one),
        ),
        "join_rails": (("rails_joined",), lambda one: one["check"] == "cabling" and said(rail, *rest)(one)),
        "path_mtu": (("path_mtu_small", "tool_failed", "lost_packets"), between),
        "path_mtu_one_way": (
            ("path_mtu_small",),
            lambda one: one["check"] == "path_mtu_one_way" and one["peer"] == node and one["rail"] == rail,
        ),
        "duplicate_address": (("address_in_use", "address_duplicate"), said(node, rail)),
        "arp_flux": (("arp_flux",), said(f"{node} {rail}")),
        "reply_by_other_rail": (("reply_other_rail",), lambda one: at(one) and said(node, rail)(one)),
        "slow_rail": (("below_floor",), between),
        "wrong_leaf": (("wrong_leaf",), lambda one: at(one) and said(*rest)(one)),
    }
    causes, where = wanted[kind]
    return [one for one in failing if one["cause_class"] in causes and where(one)]


def railyard(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command line as its user does."""
    environment = {**os.environ, "RAILYARD_REPORTS_DIR": str(ROOT / "reports" / "cabling"), "COLUMNS": "140"}
    return subprocess.run(
        [str(RAILYARD), *words],
        cwd=ROOT, env=environment, text=True, capture_output=True, stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip


def lab(*words: str) -> None:
    """Run a command of the lab; a fault that cannot be made ends the campaign."""
    done = railyard("lab", *words, "--topology", str(TOPOLOGY))
    if done.returncode:
        raise SystemExit(f"railyard lab {' '.join(words)}: {done.stdout}{done.stderr}")


def run_folders() -> list[Path]:
    """Return the run folders that there are, the oldest first."""
    folder = ROOT / "reports" / "cabling" / INVENTORY.name
    return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def measure(case: str, faults: tuple[str, ...], repeat: int) -> dict[str, Any]:
    """Make the faults of a case, validate, heal, and return the line of the results."""
    begun = time.monotonic()
    before = run_folders()
    try:
        for fault in faults:
            lab("fault", *fault.split(" "), "--rate-gbps", str(SLOW_RATE_GBPS))
        done = railyard("validate", "-i", str(INVENTORY))
    finally:
        lab("heal", "--all")
    made = [path for path in run_folders() if path not in before]
    if not made:
        raise SystemExit(f"{case}: nothing was measured: {done.stdout}{done.stderr}")
    folder = made[-1]
    verdicts = [json.loads(line) for line in (folder / "verdicts.jsonl").read_text().splitlines()]
    rows = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    failing = [one for one in verdicts if one["outcome"] == "fail"]
    unexplained = [
        one["id"]
        for one in verdicts
        if one["outcome"] in ("fail", "unmeasured") and not (one["cause"] and one["next"])
    ]
    found = {fault: names(fault, failing) for fault in faults}
    not_good = [one for one in verdicts if one["outcome"] in ("fail", "unmeasured")]
    good = all(found.values()) and not unexplained if faults else not not_good and done.returncode == 0
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True, capture_output=True, check=False
    )
    return {
        "case": case,
        "faults": list(faults),
        "repeat": repeat,
        "at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "commit": commit.stdout.strip(),
        "wall_s": round(time.monotonic() - begun, 1),
        "exit_status": done.returncode,
        "good": good,
        "outcomes": {
            outcome: sum(one["outcome"] == outcome for one in verdicts)
            for outcome in ("pass", "recorded", "fail", "unmeasured")
        },
        "found": {fault: sorted({one["cause"] for one in ones})[:3] for fault, ones in found.items()},
        "failing": sorted({f"{one['check']} {one['cause_class']}" for one in failing}),
        "not_good": [f"{one['check']} {one['node']} {one['rail']}: {one['cause']}" for one in not_good][:5]
        if not faults
        else [],
        "unexplained": unexplained,
        "beacon_s": max(
            (row["metrics"]["listened_s"] for row in rows if row["check"] == "cabling" and row["metrics"]),
            default=None,
        ),
    }


def cases() -> list[tuple[str, tuple[str, ...], int]]:
    """Return every case with its faults and number."""
    listed: list[tuple[str, tuple[str, ...], int]] = [(fault, (fault,), 1) for fault in SINGLE]
    listed += [(" + ".join(pair), pair, 1) for pair in PAIRS]
    return listed + [("healthy", (), number) for number in range(1, HEALTHY_RUNS + 1)]


def done_already() -> list[dict[str, Any]]:
    """Return the lines of the results so far."""
    text = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def table(results: list[dict[str, Any]]) -> str:
    """Return the results as Markdown; of a case that was run again, the last."""
    last = {(one["case"], one["repeat"]): one for one in results}
    lines = ["| case | good | exit | what was said first |", "|---|---|---|---|"]
    healthy = [one for (case, _number), one in last.items() if case == "healthy"]
    for case, faults, number in cases():
        one = last.get((case, number))
        if faults and one is not None:
            said = "; ".join(next(iter(causes), "**not found**") for causes in one["found"].values())
            lines.append(f"| {case} | {'yes' if one['good'] else 'NO'} | {one['exit_status']} | {said} |")
    if healthy:
        good = sum(one["good"] for one in healthy)
        lines.append(f"| healthy, {len(healthy)} runs | {good} of {len(healthy)} | 0 | no finding |")
    return "\n".join(lines)


def main() -> int:
    """Run what is left of the campaign, or print its table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--table", action="store_true", help="print the results so far and measure nothing")
    parser.add_argument("--only", default="", help="only cases whose name holds this text")
    parser.add_argument("--until", help="begin no case after this time of day (HH:MM, UTC)")
    options = parser.parse_args()
    results = done_already()
    if options.table:
        print(table(results))
        return 0
    good = {(one["case"], one["repeat"]) for one in results if one["good"]}
    for case, faults, number in cases():
        if (case, number) in good or options.only not in case:
            continue
        if options.until and datetime.now(UTC).strftime("%H:%M") >= options.until:
            break
        one = measure(case, faults, number)
        with RESULTS.open("a", encoding="utf-8") as handle:
            handle.write(json.dumps(one) + "\n")
        print(f"{case} {number}: {'good' if one['good'] else 'NOT GOOD'} ({one['wall_s']} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
