"""A healthy peer that is held up for a moment: is it called at fault?

    python benchmarks/held_peer/campaign.py            # root; goes on where it was stopped
    python benchmarks/held_peer/campaign.py --table    # what has been found so far

Two nodes of network namespaces, real runners, real tools, the real judge. The second node (its processes and
its cable) is stopped by SIGSTOP for 0.1, 0.5 and 0.8 s at a ping, an ARP question or a beacon, each time at
another one; iperf3's server is stopped across the end of `--omit` on rails shaped to 0.2 Gbit/s. Each case 20
times, a line each in results.jsonl.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RESULTS = HERE / "results.jsonl"
sys.path[:0] = [str(ROOT / "tests"), str(ROOT / "collections")]

# Found by the path that was set just above, hence the waivers of E402.
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import cable_checks, rounds
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks import policy
from ansible_collections.railyard.fabric.plugins.plugin_utils.judge.verdict import verdict
from railyard.lab.network import tbf_arguments
from support.nodes import rail_namespaces as lab

HOLDS_S = (0.1, 0.5, 0.8)
REPEATS = 20
RATE_GBPS = 0.2
GOOD = {"pass", "recorded"}
BOOT_ID = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
# How many such frames a run has: the hold is at each of them in turn.
FRAMES = {"icmp": 30, "arp": 4, "beacon": 8}
CHECKS = {"icmp": ("path_mtu", "ping_rtt"), "iperf3": ("tcp_bandwidth",)}

# The runner with the tests of some checks alone: folder, checks.
RUN = """
import sys
from ansible_collections.railyard.fabric.plugins.module_utils.runner import main as runner
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import rounds as schedule
schedule.TESTS = tuple(one for one in schedule.TESTS if one.name in sys.argv[2].split(","))
folder = sys.argv[1]
sys.argv = ["runner", folder + "/work_order.json", "--folder", folder, "--launcher", "direct"]
sys.exit(runner.main())
"""


class Case(NamedTuple):
    """The peer is held up so long at a frame of this kind, or in iperf3."""

    kind: str
    held_s: float


CASES = (*(Case(kind, held_s) for kind in FRAMES for held_s in HOLDS_S), Case("iperf3", 0.8))


def order(case: Case) -> dict[str, Any]:
    """Return the common part of the test schedule."""
    common = lab.order(rails=["rail0"], policy=policy.merge({"bidirectional": False}))
    common["fabrics"][0]["rails"] = common["fabrics"][0]["rails"][:1]
    if case.kind == "iperf3":
        common["fabrics"][0]["rails"][0]["rate_gbps"] = RATE_GBPS
    return common


def start(rails: lab.Rails, folder: Path, case: Case) -> list[subprocess.Popen[bytes]]:
    """Start both nodes: the beacon's phase alone, or the runner with the case's tests."""
    started = []
    for node in lab.NODES:
        (folder / node).mkdir()
        own = {"node": node, "secret": lab.SECRET, "netdevs": lab.NETDEVS, "hcas": {}}
        file = folder / node / "work_order.json"
        file.write_text(json.dumps({**order(case), **own}))
        program = [lab.LISTEN, str(file), str(folder / node), "0", "0", "12"]
        if case.kind in CHECKS:
            program = [RUN, str(folder / node), ",".join(CHECKS[case.kind])]
        environment = {**os.environ, "PYTHONPATH": str(lab.COLLECTIONS), "PYTHONDONTWRITEBYTECODE": "1"}
        with (folder / node / "runner.log").open("wb") as log:
            argv = rails.inside(node, sys.executable, "-c", *program)
            started.append(subprocess.Popen(argv, env=environment, stdout=log, stderr=log))
    return started


@contextmanager
def wire(rails: lab.Rails, case: Case, number: int) -> Iterator[Callable[[], bool]]:
    """Put the cable in between; yields what holds the second node up once the cable has stopped itself."""
    if case.kind not in FRAMES:
        for node in lab.NODES:
            argv = ["tc", "-n", rails.namespace("switch"), "qdisc", "replace", "dev", f"{node[-6:]}0", "root"]
            subprocess.run([*argv, *tbf_arguments(RATE_GBPS)], check=True)
        yield lambda: hold_server(rails, case.held_s, stopped)
        return
    ends = [f"{node[-6:]}0" for node in lab.NODES]
    for end in ends:
        lab.ip("-n", rails.namespace("switch"), "link", "set", end, "nomaster")
    at = str(1 + number % FRAMES[case.kind])
    argv = rails.inside("switch", sys.executable, str(HERE / "wire.py"), *ends, case.kind, at)
    with subprocess.Popen(argv, stdout=subprocess.PIPE) as process:
        try:
            if process.stdout:
                process.stdout.readline()  # it says when it is ready
            yield lambda: hold_node(rails, process.pid, case.held_s)
        finally:
            process.kill()


stopped: set[int] = set()


def tell(pids: list[int], number: signal.Signals) -> None:
    """Send a signal to those that are still there."""
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, number)


def hold_node(rails: lab.Rails, cable: int, held_s: float) -> bool:
    """Hold the second node up for so long if its cable has stopped; tell whether it had."""
    pid, status = os.waitpid(cable, os.WNOHANG | os.WUNTRACED)
    if not pid or not os.WIFSTOPPED(status):
        return False
    node = [int(word) for word in lab.ip("netns", "pids", rails.namespace(lab.NODES[1])).split()]
    tell(node, signal.SIGSTOP)
    time.sleep(held_s)
    tell([*node, cable], signal.SIGCONT)
    return True


def hold_server(rails: lab.Rails, held_s: float, done: set[int]) -> bool:
    """Hold each iperf3 server up across the end of the omitted second; tell whether one was."""
    for node in lab.NODES:
        for word in lab.ip("netns", "pids", rails.namespace(node)).split():
            words = Path(f"/proc/{word}/cmdline").read_bytes() if Path(f"/proc/{word}").exists() else b""
            if int(word) in done or not words.startswith(b"iperf3\0-c"):
                continue
            done.add(int(word))
            time.sleep(0.4)
            peer = lab.NODES[1 - lab.NODES.index(node)]
            held = [int(one) for one in lab.ip("netns", "pids", rails.namespace(peer)).split()]
            held = [pid for pid in held if b"iperf3\0-s" in Path(f"/proc/{pid}/cmdline").read_bytes()]
            tell(held, signal.SIGSTOP)
            time.sleep(held_s)
            tell(held, signal.SIGCONT)
            return bool(held)
    return False


def judge(folder: Path, case: Case) -> list[dict[str, Any]]:
    """Return the verdicts of what the two nodes wrote."""
    common = order(case)
    texts = [(folder / node / "results.jsonl").read_text() for node in lab.NODES]
    rows = [json.loads(line) for text in texts for line in text.splitlines()]
    nodes = {
        str(entry["name"]): {"transport": "tcp", "rails": rounds.node_rails(common, entry)}
        for entry in common["roster"]
    }
    facts = [
        {"schema": 1, "run": lab.RUN, "node": node, "boot_id": BOOT_ID, "tools": {"iperf3": "3.12"},
         "netdevs": [{"netdev": name, "driver_class": "software"} for name in lab.NETDEVS.values()]}
        for node in lab.NODES
    ]  # fmt: skip
    if case.kind in CHECKS:
        asked = [one for one in rounds.asked_tests(common) if one["check"] in CHECKS[case.kind]]
        # The numbers of what was left out are not those of the runner.
        asked = [{**one, "id": f"m{number:05d}"} for number, one in enumerate(asked)]
    else:
        asked = list(cable_checks.asked_lines(common))
    manifest = {"schema": 1, "run": lab.RUN, "policy": common["policy"]}
    found = verdict.judge(manifest, {"schema": 1, "nodes": nodes}, asked, facts, rows)
    for one in found:
        one["said"] = [row["metrics"] for row in rows if row["id"] == one["id"]]
    return found


def measure(case: Case, number: int) -> dict[str, Any]:
    """Run a case once and return its line of the results."""
    begun, holds = time.monotonic(), 0
    stopped.clear()
    with tempfile.TemporaryDirectory() as name, lab.two_nodes() as rails, wire(rails, case, number) as hold:
        folder = Path(name)
        started = start(rails, folder, case)
        while any(process.poll() is None for process in started):
            if time.monotonic() - begun > 120:
                raise SystemExit(f"{case}: the runners did not end")
            holds += hold()
            time.sleep(0.005)
        verdicts = judge(folder, case)
    commit = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, text=True, capture_output=True, check=False
    )
    not_good = [one for one in verdicts if one["outcome"] not in GOOD]
    said = [one["bandwidth_gbps"] for two in verdicts for one in two["said"] if "bandwidth_gbps" in one]
    judged = [(one["observed"] or {}).get("bandwidth_gbps", 0.0) for one in verdicts]
    return {
        **case._asdict(),
        "repeat": number,
        "at": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "commit": commit.stdout.strip(),
        "load": round(os.getloadavg()[0], 1),
        "holds": holds,
        "good": not not_good and bool(verdicts),
        "outcomes": dict(Counter(one["outcome"] for one in verdicts)),
        "not_good": [f"{one['outcome']} {one['check']}: {one['cause']}" for one in not_good],
        "iperf3_gbps": max(said, default=None),
        "judged_gbps": max(judged) if said else None,
    }


def done_already() -> list[dict[str, Any]]:
    """Return the lines of the results so far."""
    text = RESULTS.read_text(encoding="utf-8") if RESULTS.exists() else ""
    return [json.loads(line) for line in text.splitlines()]


def table(results: list[dict[str, Any]]) -> str:
    """Return the results as Markdown."""
    lines = ["| held at | for | runs | held | all pass or recorded | load | otherwise |",
             "|---|---:|---:|---:|---:|---:|---|"]  # fmt: skip
    for case in CASES:
        ones = [one for one in results if (one["kind"], one["held_s"]) == case]
        if ones:
            loads = [one["load"] for one in ones]
            said = "; ".join(text for one in ones for text in one["not_good"][:1]) or "nothing"
            held, good = sum(one["holds"] > 0 for one in ones), sum(one["good"] for one in ones)
            row = (
                case.kind,
                f"{case.held_s} s",
                len(ones),
                held,
                good,
                f"{min(loads)} to {max(loads)}",
                said,
            )
            lines.append(f"| {' | '.join(map(str, row))} |")
    return "\n".join(lines)


def main() -> int:
    """Run what is left of the campaign, or print its table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--table", action="store_true", help="print the results so far and measure nothing")
    parser.add_argument("--only", default="", help="only this kind: icmp, arp, beacon, iperf3")
    parser.add_argument("--until", help="begin no run after this time of day (HH:MM, UTC)")
    parser.add_argument("--dry-run", action="store_true", help="print the line and do not keep it")
    options = parser.parse_args()
    if options.table:
        print(table(done_already()))
        return 0
    if reason := lab.why_not():
        raise SystemExit(reason)
    ran = {(one["kind"], one["held_s"], one["repeat"]) for one in done_already()}
    for number in range(REPEATS):
        for case in CASES:
            if (*case, number) in ran or options.only not in ("", case.kind):
                continue
            if options.until and datetime.now(UTC).strftime("%H:%M") >= options.until:
                return 0
            one = measure(case, number)
            if options.dry_run:
                print(json.dumps(one))
                continue
            with RESULTS.open("a", encoding="utf-8") as handle:
                handle.write(json.dumps(one) + "\n")
            print(case.kind, case.held_s, number, one["outcomes"], *one["not_good"][:1], flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
