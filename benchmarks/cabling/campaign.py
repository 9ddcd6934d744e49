"""Every cabling fault singly, ten pairs of them, and ten healthy runs, on four nodes with two rails each.

    railyard lab up --topology benchmarks/cabling/topology.yml
    railyard provision -i benchmarks/cabling/inventory
    python benchmarks/cabling/campaign.py            # goes on where it was stopped
    python benchmarks/cabling/campaign.py --table    # what has been found so far

Each case makes its faults with `railyard lab fault`, validates, looks for each fault in the run folder (read
with nothing of Railyard's own code), heals, and appends a line to results.jsonl. A case that is not good is
repeated by the next call, up to three runs in all. `--bond` is the case of a bond, which needs two VMs
(topology-bond.yml, inventory-bond); it is made in the same way.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import yaml

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULTS = HERE / "results.jsonl"
RAILYARD = Path(sys.executable).parent / "railyard"
NODES = ("gpuserver1", "gpuserver2", "gpuserver3", "gpuserver4")
HEALTHY_RUNS = 10
# What is not good after so many runs is no matter of a busy machine.
MOST_RUNS = 3
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


BOND = "bond gpuserver1/rail1"


class Case(NamedTuple):
    """Faults that are there at once; `number` tells runs of the healthy lab apart."""

    name: str
    faults: tuple[str, ...]
    number: int = 1


CABLES = (
    *(Case(fault, (fault,)) for fault in SINGLE),
    *(Case(" + ".join(pair), pair) for pair in PAIRS),
    *(Case("healthy", (), number) for number in range(1, HEALTHY_RUNS + 1)),
)
BONDS = (Case(BOND, (BOND,)),)


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
        "slow_rail": (("rail_slow",), lambda one: between(one) and said(f"{node} {rail}")(one)),
        "bond": (("lag_member",), lambda one: at(one) and said(node, rail)(one)),
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


@dataclass(frozen=True)
class Lab:
    """The lab of a campaign, and the inventory that says what it is to be."""

    topology: Path
    inventory: Path

    def run(self, *words: str) -> str:
        """Run a command of the lab; one that fails ends the campaign."""
        done = railyard("lab", *words, "--topology", str(self.topology))
        if done.returncode:
            raise SystemExit(f"railyard lab {' '.join(words)}: {done.stdout}{done.stderr}")
        return done.stdout

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Hold the lab alone: a second campaign would heal the faults of the first.

        The kernel lets go when this process ends, however it ends.
        """
        file = ROOT / ".lab" / ".locks" / f"{self.topology.stem}-campaign.lock"
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("w", encoding="utf-8") as handle:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise SystemExit("another campaign works on this lab; wait for it to end") from None
            yield

    def heal(self) -> None:
        """Undo all faults, and see that the lab is this topology's, whole, and as fast as it says.

        An earlier lab of the same name, or a node that a case has left down, would be measured otherwise.
        """
        self.run("heal", "--all")
        found = json.loads(self.run("status", "--json"))
        declared = yaml.safe_load(self.topology.read_text(encoding="utf-8"))
        wanted = [rail.get("rate_gbps") for rail in declared["rails"]]
        wrong = [
            f"{name}: {node['condition']}, rails shaped to {rates} Gbit/s instead of {wanted}"
            for name, node in found["nodes"].items()
            for rates in [[rail["rate_gbps"] for rail in node["rails"]]]
            if node["condition"] != "running" or rates != wanted
        ]
        if Path(found["topology"]) != self.topology or set(found["nodes"]) != set(declared["nodes"]):
            wrong.append("it is a lab of another topology")
        if wrong or not found["up"]:
            raise SystemExit(
                f"lab {found['name']} is not as its topology says: {'; '.join(wrong) or 'not up'}; call "
                f"`railyard lab up --topology {self.topology.relative_to(ROOT)}`, then provision"
            )

    def faults(self) -> set[str]:
        """Return the faults that are there."""
        found = json.loads(self.run("status", "--json"))["faults"]
        return {f"{one['kind']} {one['target']}" for one in found}

    def run_folders(self) -> list[Path]:
        """Return the run folders that there are, the oldest first."""
        folder = ROOT / "reports" / "cabling" / self.inventory.name
        return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def measure(lab: Lab, case: Case) -> dict[str, Any]:
    """Make the faults of a case, validate, heal, and return the line of the results."""
    begun, faults = time.monotonic(), case.faults
    before = lab.run_folders()
    try:
        for fault in faults:
            lab.run("fault", *fault.split(" "), "--rate-gbps", str(SLOW_RATE_GBPS))
        done = railyard("validate", "-i", str(lab.inventory))
        there = lab.faults()
    finally:
        lab.heal()
    made = [path for path in lab.run_folders() if path not in before]
    if not made or not (made[-1] / "verdicts.jsonl").exists():
        raise SystemExit(f"{case.name}: nothing was judged: {done.stdout}{done.stderr}")
    if there != set(faults):
        raise SystemExit(f"{case.name}: at its end the lab's faults were {sorted(there)}; it does not count")
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
        "case": case.name,
        "faults": list(faults),
        "repeat": case.number,
        "at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "commit": commit.stdout.strip(),
        "wall_s": round(time.monotonic() - begun, 1),
        "load": round(os.getloadavg()[1], 1),
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


def done_already() -> list[dict[str, Any]]:
    """Return the lines of the results so far."""
    text = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def table(results: list[dict[str, Any]]) -> str:
    """Return the results as Markdown: of a case that was run again the last run, and how many there were."""
    ran = {case: [one for one in results if is_of(one, case)] for case in (*CABLES, *BONDS)}
    lines = ["| case | good | runs | load | exit | what was said first |", "|---|---|---:|---:|---:|---|"]
    for case, ones in ran.items():
        if case.faults and ones:
            one = ones[-1]
            said = "; ".join(next(iter(causes), "**not found**") for causes in one["found"].values())
            good, load = "yes" if one["good"] else "NO", one.get("load", "")
            lines.append(f"| {case.name} | {good} | {len(ones)} | {load} | {one['exit_status']} | {said} |")
    healthy = [ones for case, ones in ran.items() if not case.faults and ones]
    if healthy:
        good_runs = sum(ones[-1]["good"] for ones in healthy)
        loads = [ones[-1].get("load", 0.0) for ones in healthy]
        said = "; ".join(text for ones in healthy for text in ones[-1]["not_good"][:1]) or "no finding"
        exits = ", ".join(sorted({str(ones[-1]["exit_status"]) for ones in healthy}))
        lines.append(
            f"| healthy, {len(healthy)} times | {good_runs} of {len(healthy)} | {sum(map(len, healthy))} "
            f"| {min(loads)} to {max(loads)} | {exits} | {said} |"
        )
    return "\n".join(lines)


def is_of(line: dict[str, Any], case: Case) -> bool:
    """Tell whether a line of the results is of a case."""
    return (line["case"], line["repeat"]) == (case.name, case.number)


def left(cases: tuple[Case, ...], results: list[dict[str, Any]]) -> list[Case]:
    """Return the cases that were never run, then those that were not good and may be repeated."""
    runs = {case: [one for one in results if is_of(one, case)] for case in cases}
    not_good = [
        case
        for case, ones in runs.items()
        if 0 < len(ones) < MOST_RUNS and not any(one["good"] for one in ones)
    ]
    return [case for case, ones in runs.items() if not ones] + not_good


def stop(_number: int, _frame: object) -> None:
    """End in such a way that the faults of the case are healed."""
    raise KeyboardInterrupt


def main() -> int:
    """Run what is left of the campaign, or print its table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--table", action="store_true", help="print the results so far and measure nothing")
    parser.add_argument("--bond", action="store_true", help="the case of a bond, in the lab of VMs")
    parser.add_argument("--only", default="", help="only cases whose name holds this text")
    parser.add_argument("--until", help="begin no case after this time of day (HH:MM, UTC)")
    parser.add_argument("--most", type=int, help="run so many cases at most")
    options = parser.parse_args()
    if options.table:
        print(table(done_already()))
        return 0
    name, cases = ("-bond", BONDS) if options.bond else ("", CABLES)
    lab = Lab(HERE / f"topology{name}.yml", HERE / f"inventory{name}")
    signal.signal(signal.SIGTERM, stop)
    with lab.alone():
        lab.heal()
        wanted = [case for case in left(cases, done_already()) if options.only in case.name]
        for case in wanted[: options.most]:
            if options.until and datetime.now(UTC).strftime("%H:%M") >= options.until:
                break
            one = measure(lab, case)
            with RESULTS.open("a", encoding="utf-8") as handle:
                handle.write(json.dumps(one) + "\n")
            said = "good" if one["good"] else "NOT GOOD"
            print(f"{case.name} {case.number}: {said} ({one['wall_s']} s)", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
