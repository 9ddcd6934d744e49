"""Spoil network changes on a lab's nodes, again and again, and see that each node is back in time.

    railyard lab up --topology benchmarks/recovery/topology-container.yml
    .venv/bin/python benchmarks/recovery/campaign.py --kind container --each 20

Every recovery is a line of results.jsonl, written when it is over: what was interrupted goes on with what is
missing. `--table` prints the table of the README from that file alone.
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
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(ROOT / "tools"), str(HERE)]

import failures  # type: ignore[import-not-found]
import yaml
from railyard.lab import wiring
from railyard.lab.process import run

RESULTS = HERE / "results.jsonl"
# Design: lab containers 20 s; lab VMs 90 s, after a reset counted from the guest's first SSH answer.
DEADLINE_S = {"container": 20, "vm": 90}
_WATCH_EVERY_S = {"container": 0.3, "vm": 2.0}
_WATCH_DIR = "/run/railyard-recovery"
_NEW_MTU_BYTES = 9000
_MISSED_MOST = 3
_CONVERGE_TURNS = 5


class Campaign:
    """One lab, its nodes all equal, and an inventory for each run."""

    def __init__(self, lab: wiring.Lab, kind: str):
        self.lab, self.kind = lab, kind
        self.folder = ROOT / ".lab" / lab.name / "recovery"
        self.nodes = [
            failures.Node(node.name, position, str(node.address), kind, self._hands(node))
            for position, node in enumerate(lab.topology.nodes)
            if node.kind == kind
        ]

    def _hands(self, node: Any) -> failures.As:
        def root(*command: str) -> str:
            return run(self.lab.kind(node).as_root(node, *command), timeout_s=120).stdout

        return root

    def inventory(
        self, mtu_bytes: int | None, variables: dict[str, Any], *, in_management: bool = False
    ) -> Path:
        """Write the inventory of one run."""
        keys = self.lab.keys
        rails = [
            {"name": rail.name, "netdev": rail.netdev, "subnet": str(rail.subnet)}
            for rail in self.lab.topology.rails
        ]
        if in_management:
            rails[0]["subnet"] = str(list(self.lab.topology.management.subnet.subnets())[1])
        fabric: dict[str, Any] = {"transport": "tcp", "node_class": "container", "cabling": "switched"}
        fabric.update(rails=rails, frontend={"netdev": self.lab.topology.management.netdev})
        if mtu_bytes:
            fabric["mtu"] = mtu_bytes
        hosts = {node.name: {"ansible_host": node.address} for node in self.nodes}
        common = {
            "ansible_user": "railyard",
            "ansible_python_interpreter": "/usr/bin/python3",
            "ansible_ssh_private_key_file": str(keys.private),
            "ansible_ssh_common_args": f"-o UserKnownHostsFile={keys.known_hosts} -o ConnectTimeout=10 "
            "-o StrictHostKeyChecking=yes -o IdentitiesOnly=yes",
            "rail_network_rollback_after_s": DEADLINE_S[self.kind],
            "fabric": fabric,
            **variables,
        }
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / "hosts.yml"
        path.write_text(yaml.safe_dump({"gpu_nodes": {"hosts": hosts, "vars": common}}), encoding="utf-8")
        return path

    def start(self, inventory: Path) -> subprocess.Popen[str]:
        """Start network.yml in a process group of its own, so that all of it can be killed."""
        ansible = Path(sys.executable).parent / "ansible-playbook"
        environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
        # A node whose other end was killed must not be reached over what that one left behind.
        # A busy machine is no failure of this list.
        environment["ANSIBLE_TIMEOUT"] = "60"
        environment["ANSIBLE_SSH_CONTROL_PATH_DIR"] = str(self.folder / "cp")
        argv = [str(ansible), "-i", str(inventory), "playbooks/network.yml"]
        # All at once: what one node survives must not keep the others from it.
        argv += ["-e", "railyard_network_batch=100%"]
        # A round may lead to what the check refuses (an inventory without MTU): what is tried is the node.
        argv += ["-e", "railyard_inventory_checked=true"]
        return subprocess.Popen(
            argv,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def all(self, work: Any) -> list[Any]:
        """Do something on all nodes at once."""
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            return list(pool.map(work, self.nodes))

    def converge(self, mtu_bytes: int | None) -> None:
        """Bring all nodes to the state from which a round starts."""
        for _turn in range(_CONVERGE_TURNS):
            process = self.start(self.inventory(mtu_bytes, {}))
            said, _ = process.communicate()
            if not process.returncode:
                break
        else:
            raise SystemExit(f"the nodes cannot be brought to where a round starts:\n{said}")
        if mtu_bytes is None:
            # A file without an MTU leaves the one that an earlier round's file had set.
            for rail in self.lab.topology.rails:
                self.all(
                    lambda node, dev=rail.netdev: node.root("ip", "link", "set", "dev", dev, "mtu", "1500")
                )

    def watch(self, node: failures.Node) -> None:
        """Start the witness on a node."""
        source = (HERE / "node_watch.py").read_text(encoding="utf-8")
        node.root("mkdir", "-p", _WATCH_DIR)
        node.root("rm", "-f", f"{_WATCH_DIR}/log")
        program = "import sys; open(sys.argv[1], 'w').write(sys.argv[2])"
        node.root("python3", "-c", program, f"{_WATCH_DIR}/watch.py", source)
        every_s = str(_WATCH_EVERY_S[self.kind])
        words = ["python3", f"{_WATCH_DIR}/watch.py", "watch", f"{_WATCH_DIR}/log", every_s]
        node.root("systemd-run", "--quiet", "--collect", "--unit=recovery-watch", *words)

    def probe(self, node: failures.Node) -> dict[str, Any]:
        """Look at a node's network once."""
        return dict(json.loads(node.root("python3", f"{_WATCH_DIR}/watch.py", "probe")))

    def log(self, node: failures.Node) -> list[dict[str, Any]]:
        """Stop the witness and return what it saw, its own clock's end last."""
        node.root("systemctl", "stop", "recovery-watch.service")
        lines = node.root("cat", f"{_WATCH_DIR}/log").splitlines()
        return [json.loads(line) for line in lines]

    def reset(self, node: failures.Node) -> None:
        """Pull the plug of a container, press a VM's reset button."""
        place = self.lab.topology.node(node.name)
        hands: Any = self.lab.kind(place)
        if self.kind == "vm":
            hands.reset(node.name)
        else:
            hands.kill(node.name)
            wiring.start(self.lab, place)


def back_after_s(rows: Sequence[dict[str, Any]]) -> float | None:
    """Return how long after its change was staged a node was as before, for good; None: it is not.

    Args:
        rows: the witness's, the first one from before the change.
    """
    before = rows[0]["digest"]
    staged = next((row["at_s"] for row in rows if row["pending"]), None)
    if rows[-1]["digest"] != before or rows[-1]["pending"]:
        return None
    if staged is None:
        return 0.0
    back = rows[-1]["at_s"]
    for row in reversed(rows):
        if row["digest"] != before:
            break
        back = row["at_s"]
    return round(float(max(0.0, back - staged)), 1)


def _until(condition: Any, patience_s: float, every_s: float = 0.2) -> bool:
    end = time.monotonic() + patience_s
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(every_s)
    return False


def _answers(campaign: Campaign, node: failures.Node) -> bool:
    argv = campaign.lab.keys.ssh_argv(campaign.lab.topology.node(node.name), "true")
    return bool(run(argv, check=False, timeout_s=30).returncode == 0)


def _there(node: failures.Node, name: str) -> bool:
    # The campaign's own words; a file that is not there is an answer, and no failure of the command.
    found: str = node.root("sh", "-c", f"test -e {failures.STATE}/{name} && echo yes || true")
    return found.strip() == "yes"


def _confirmed_token(node: failures.Node) -> str | None:
    """Return which change was the last one that a controller confirmed; only a live one does that."""
    # As in `_there`: before the first confirmation there is no file, and that is an answer.
    text = node.root("sh", "-c", f"cat {failures.STATE}/confirmed.json 2>/dev/null || true")
    return str(json.loads(text)["token"]) if text.strip() else None


def spoil(campaign: Campaign, name: str, round_number: int) -> list[dict[str, Any]]:
    """Run one round of a failure on all nodes; returns a row for each."""
    failure, deadline_s = failures.KINDS[name], DEADLINE_S[campaign.kind]
    campaign.converge(failure.mtu_bytes)
    campaign.all(lambda node: failure.make(node, round_number))
    started = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    campaign.all(campaign.watch)
    before = dict(zip([node.name for node in campaign.nodes], campaign.all(campaign.probe), strict=True))
    earlier = dict(zip(before, campaign.all(_confirmed_token), strict=True))
    inventory = campaign.inventory(
        _NEW_MTU_BYTES, dict(failure.variables), in_management=failure.in_management
    )
    process = campaign.start(inventory)
    rows = []
    if failure.killed:
        rows = _killed(campaign, failure, process, before)
    said, _ = process.communicate()
    if not failure.killed:
        campaign.all(lambda node: _until(lambda: not _in_flight(node), deadline_s + 20))
    if not rows:
        rows = campaign.all(lambda node: _row(campaign, node, before[node.name]))
    if failure.killed:
        # A machine too busy let the controller confirm on this node while the others were still being staged.
        for row, confirmed in zip(rows, campaign.all(_confirmed_token), strict=True):
            row["spoiled"] = row["spoiled"] and confirmed in (None, earlier[row["node"]])
    for row in rows:
        row.update(schema=1, node_kind=campaign.kind, mishap=name, round=round_number, started=started)
        row["deadline_s"] = deadline_s
        row["refused"] = not row["spoiled"] and "nothing was changed" in said
        row["load_average"] = os.getloadavg()[0]
        in_time = row["back_after_s"] is not None and row["back_after_s"] <= deadline_s
        row["recovered"] = row["equal"] and row["ssh"] and in_time
        if not row["recovered"]:
            row["said"] = said.replace(f"{ROOT}/", "")[-3000:]
    campaign.all(failure.heal)
    return rows


def _in_flight(node: failures.Node) -> bool:
    return _there(node, "pending.json") or _there(node, "rolling_back.json")


def _killed(
    campaign: Campaign, failure: failures.Failure, process: subprocess.Popen[str], before: dict[str, Any]
) -> list[dict[str, Any]]:
    """Kill the controller once the change is staged on all nodes; press reset where that is the failure."""
    started = {node.name: False for node in campaign.nodes}

    def staged(node: failures.Node) -> bool:
        started[node.name] = started[node.name] or _there(node, "pending.json")
        return started[node.name]

    # Ansible that ended of itself, on a machine too busy for this, has staged all that it will.
    _until(lambda: all(campaign.all(staged)) or process.poll() is not None, 240, 0.1)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    if not failure.reset:
        campaign.all(lambda node: _until(lambda: not _in_flight(node), DEADLINE_S[campaign.kind] + 60))
        return []
    return campaign.all(lambda node: _after_reset(campaign, node, before[node.name]))


def _applied(node: failures.Node) -> bool:
    """Say whether the pending change, and not an earlier one, has been applied."""
    found = f"$(grep -o 'token.*' {failures.STATE}/pending.json | cut -c 10-25)"
    # As in `_there`; the token is the node's own, read there.
    command = f'grep -q "{found}" {failures.STATE}/applied.json && echo yes || true'
    return bool(node.root("sh", "-c", command).strip() == "yes")


def _after_reset(campaign: Campaign, node: failures.Node, before: dict[str, Any]) -> dict[str, Any]:
    caught = _until(lambda: _applied(node), DEADLINE_S[campaign.kind] / 2) and _there(node, "pending.json")
    changed = caught and campaign.probe(node) != before
    campaign.reset(node)
    time.sleep(1 if campaign.kind == "container" else 5)
    answered = _until(lambda: _answers(campaign, node), 600)
    first_answer = time.monotonic()
    source = (HERE / "node_watch.py").read_text(encoding="utf-8")
    now: dict[str, Any] = {}

    def as_before() -> bool:
        nonlocal now
        now = json.loads(node.root("python3", "-c", source, "probe"))
        return now == before and not _in_flight(node)

    equal = answered and _until(as_before, DEADLINE_S[campaign.kind] + 30, 0.5)
    return {
        "node": node.name,
        "back_after_s": round(time.monotonic() - first_answer, 1),
        "equal": equal,
        "spoiled": changed,
        "ssh": answered,
        "differences": [] if equal else [key for key in before if before[key] != now.get(key)],
    }


def _row(campaign: Campaign, node: failures.Node, before: dict[str, Any]) -> dict[str, Any]:
    time.sleep(_WATCH_EVERY_S[campaign.kind] * 3)
    now, rows = campaign.probe(node), campaign.log(node)
    back = back_after_s(rows)
    return {
        "node": node.name,
        "back_after_s": back,
        "equal": now == before and back is not None,
        "spoiled": len({row["digest"] for row in rows}) > 1,
        "ssh": _answers(campaign, node),
        "differences": [key for key in before if before[key] != now.get(key)],
    }


def read_rows() -> list[dict[str, Any]]:
    """Return the recoveries so far; a torn last line is dropped."""
    rows = []
    for line in RESULTS.read_text(encoding="utf-8").splitlines() if RESULTS.exists() else []:
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def table(rows: Sequence[dict[str, Any]]) -> str:
    """Return the README's table."""
    lines = [
        "| nodes | failure | recoveries | as before, in time | deadline s | back after s: median | longest |",
        "|---|---|---:|---:|---:|---:|---:|",
    ]
    for kind in DEADLINE_S:
        for name, failure in failures.KINDS.items():
            own = [row for row in rows if (row["node_kind"], row["mishap"]) == (kind, name)]
            if not own:
                continue
            good = [row for row in own if row["recovered"]]
            took_s = sorted(row["back_after_s"] for row in good) or [float("nan")]
            lines.append(
                f"| {kind} | {failure.says} | {len(own)} | {len(good)} | {DEADLINE_S[kind]} | "
                f"{took_s[len(took_s) // 2]:.1f} | {took_s[-1]:.1f} |"
            )
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, or print the table."""
    parser = argparse.ArgumentParser(description="spoil network changes on lab nodes and time the recoveries")
    parser.add_argument("--name", default="recovery", help="the lab's name")
    parser.add_argument("--kind", choices=sorted(DEADLINE_S), default="container")
    parser.add_argument("--each", type=int, default=20, help="recoveries wanted of each failure")
    parser.add_argument("--only", action="append", choices=sorted(failures.KINDS), help="only these failures")
    parser.add_argument("--busy", type=float, default=8, help="wait while the load average is above this")
    parser.add_argument("--table", action="store_true", help="print the table and end")
    arguments = parser.parse_args()
    if arguments.table:
        print(table(read_rows()))
        return
    campaign = Campaign(wiring.open_lab(arguments.name), arguments.kind)
    if not campaign.nodes:
        raise SystemExit(f"lab {arguments.name} has no node of kind {arguments.kind}")
    for name in arguments.only or failures.KINDS:
        missed = 0
        while True:
            done = [row for row in read_rows() if (row["node_kind"], row["mishap"]) == (arguments.kind, name)]
            if len(done) >= arguments.each:
                break
            round_number = 1 + max((row["round"] for row in done), default=0) + missed
            # Nodes that share a starved machine miss their deadlines whatever they do.
            while os.getloadavg()[0] > arguments.busy:
                time.sleep(5)
            # A node on which nothing had gone wrong by then has not recovered from anything.
            rows = [row for row in spoil(campaign, name, round_number) if row["spoiled"] or row["refused"]]
            missed = 0 if rows else missed + 1
            if missed == _MISSED_MOST:
                raise SystemExit(
                    f"{name}: {missed} rounds in a row in which nothing went wrong; a busy machine?"
                )
            with RESULTS.open("a", encoding="utf-8") as handle:
                handle.writelines(json.dumps(row, sort_keys=True) + "\n" for row in rows)
            for row in rows:
                word = "back" if row["recovered"] else "NOT BACK"
                print(f"{name} round {round_number} {row['node']}: {word} after {row['back_after_s']} s")


if __name__ == "__main__":
    main()
