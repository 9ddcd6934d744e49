"""Every fault that the lab can make, singly and some in pairs, and healthy runs: is each found, and named?

    railyard lab up --topology benchmarks/faults/topology-containers.yml
    railyard provision -i benchmarks/faults/inventory-containers
    python benchmarks/faults/campaign.py             # goes on where it was stopped
    python benchmarks/faults/campaign.py --table     # what has been found so far
    python benchmarks/faults/campaign.py --docs      # writes docs/faults.md and README.md's table from it

`--lab vms` is the lab of two VMs (RDMA beside TCP, bonds), made in the same way. Each case makes its faults
with `railyard lab fault`, validates, looks for each fault in the run folder (read with nothing of Railyard's
own code), heals, and appends a line to results.jsonl. A case that is not good is repeated by the next call,
up to three runs in all; `--since DATE` runs again what was last run before.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from ansible_collections.railyard.fabric.plugins.module_utils import owner_lock
from fault_cases import CASES, Case, exit_status, made, named
from fault_tables import documentation, is_of, table

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULTS = HERE / "results.jsonl"
RAILYARD = Path(sys.executable).parent / "railyard"
# What is not good after so many runs is no matter of a busy machine.
MOST_RUNS = 3
# A fifth of what the containers' rails are shaped to, and half of the VMs'. Soft-RoCE sends half a megabyte
# ahead; a rail that is much slower has no room for that, and its test would report loss instead.
SLOW_RATE_GBPS = {"containers": 0.01, "vms": 0.05}


def railyard(*words: str) -> subprocess.CompletedProcess[str]:
    """Run the command line as its user does."""
    environment = {**os.environ, "RAILYARD_REPORTS_DIR": str(ROOT / "reports" / "faults"), "COLUMNS": "140"}
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
        with contextlib.ExitStack() as held:
            try:
                held.enter_context(owner_lock.held(file, patience_s=0))
            except owner_lock.LockedError as error:
                raise SystemExit(f"another campaign works on this lab; wait for it to end: {error}") from None
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
        folder = ROOT / "reports" / "faults" / self.inventory.name
        return sorted(path for path in folder.iterdir() if path.is_dir()) if folder.is_dir() else []


def measure(lab: Lab, case: Case) -> dict[str, Any]:
    """Make the faults of a case, validate, heal, and return the line of the results."""
    begun = time.monotonic()
    making = [one for fault in case.faults for one in made(fault, case.lab)]
    before = lab.run_folders()
    try:
        for fault in making:
            lab.run("fault", *fault.split(" "), "--rate-gbps", str(SLOW_RATE_GBPS[case.lab]))
        # Only the switch of this fault speaks LLDP; required elsewhere, its absence would be reported.
        leaves = [str(HERE / "leaves")] if "wrong_leaf" in case.name else []
        inventories = [word for one in (str(lab.inventory), *leaves) for word in ("-i", one)]
        done = railyard("validate", *inventories)
        there = lab.faults()
    finally:
        lab.heal()
    folders = [path for path in lab.run_folders() if path not in before]
    if not folders or not (folders[-1] / "verdicts.jsonl").exists():
        raise SystemExit(f"{case.name}: nothing was judged: {done.stdout}{done.stderr}")
    if there != set(making):
        raise SystemExit(f"{case.name}: at its end the lab's faults were {sorted(there)}; it does not count")
    verdicts = [json.loads(line) for line in (folders[-1] / "verdicts.jsonl").read_text().splitlines()]
    not_good = [one for one in verdicts if one["outcome"] in ("fail", "unmeasured")]
    unexplained = [one["id"] for one in not_good if not (one["cause"] and one["next"])]
    found = {fault: named(case.lab, fault, verdicts, done.stdout) for fault in case.faults}
    as_wanted = done.returncode == exit_status(case) and not unexplained
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True, capture_output=True, check=False
    )
    return {
        "lab": case.lab,
        "case": case.name,
        "faults": list(case.faults),
        "repeat": case.number,
        "at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "commit": commit.stdout.strip(),
        "wall_s": round(time.monotonic() - begun, 1),
        "load": round(os.getloadavg()[1], 1),
        "exit_status": done.returncode,
        "good": as_wanted and (all(found.values()) if case.faults else not not_good),
        "outcomes": {
            outcome: sum(one["outcome"] == outcome for one in verdicts)
            for outcome in ("pass", "recorded", "fail", "unmeasured")
        },
        "found": {fault: sorted({one["cause"] for one in ones})[:3] for fault, ones in found.items()},
        "causes": {fault: sorted({one["cause_class"] for one in ones}) for fault, ones in found.items()},
        "failing": sorted({f"{one['check']} {one['cause_class']}" for one in not_good}),
        "not_good": []
        if case.faults
        else [f"{one['check']} {one['node']} {one['rail']}: {one['cause']}" for one in not_good][:5],
        "unexplained": unexplained,
    }


def done_already() -> list[dict[str, Any]]:
    """Return the lines of the results so far."""
    text = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def pages(results: list[dict[str, Any]]) -> dict[Path, str]:
    """Return docs/faults.md, made of the results, and README.md with its table, which is at its end."""
    readme = HERE / "README.md"
    before, heading, _table = readme.read_text(encoding="utf-8").partition("## Whole runs\n")
    return {
        ROOT / "docs" / "faults.md": documentation(results),
        readme: f"{before}{heading}\n{table(results)}\n",
    }


def left(lab: str, results: list[dict[str, Any]], since: str = "") -> list[Case]:
    """Return a lab's cases that were not run since a day, then those that were not good and may run again."""
    late = [one for one in results if one["at"] >= since]
    runs = {case: [one for one in late if is_of(one, case)] for case in CASES if case.lab == lab}
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
    parser.add_argument("--docs", action="store_true", help="write the pages and measure nothing")
    parser.add_argument("--lab", choices=sorted(SLOW_RATE_GBPS), default="containers")
    parser.add_argument(
        "--since", default="", help="run again what was last run before this day (YYYY-MM-DD)"
    )
    parser.add_argument("--only", default="", help="only cases whose name holds this text")
    parser.add_argument("--until", help="begin no case after this time of day (HH:MM, UTC)")
    parser.add_argument("--most", type=int, help="run so many cases at most")
    options = parser.parse_args()
    if options.table:
        print(table(done_already()))
        return 0
    if options.docs:
        for file, text in pages(done_already()).items():
            file.write_text(text, encoding="utf-8")
        return 0
    lab = Lab(HERE / f"topology-{options.lab}.yml", HERE / f"inventory-{options.lab}")
    signal.signal(signal.SIGTERM, stop)
    with lab.alone():
        lab.heal()
        ready = left(options.lab, done_already(), options.since)
        wanted = [case for case in ready if options.only in case.name]
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
