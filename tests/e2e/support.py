"""The lab as its user sees it: an inventory, two nodes by ssh, the railyard command, the run folders."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
RATE_GBPS = 1.0
NODES = ("gpuserver1", "gpuserver2")

# A short policy: the tests are about verdicts, not about precise figures.
POLICY = {
    "iperf3_duration_s": 2,
    "iperf3_omit_s": 0,
    "sockperf_duration_s": 1,
    "ping_count": 10,
    "rendezvous_timeout_s": 4,
    "first_rendezvous_timeout_s": 20,
    "lease_s": 25,
}


def run(*argv: str, timeout: float = 240, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command of the checkout and give back its output; standard error goes with standard output."""
    return subprocess.run(
        [str(word) for word in argv],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        timeout=timeout,
        check=False,
        **options,  # type: ignore[call-overload]
    )


class Cluster:
    """The lab as a user sees it: an inventory, two nodes by ssh, the railyard command."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.lab_name = name
        self.inventory = folder / name
        self.topology = folder / "topology.yml"
        self.reports = folder / "reports"
        self.log = folder / "railyard.log"

    def railyard(self, *argv: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
        done = run(BIN / "railyard", *argv, timeout=timeout, env=self.environment())
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"\n$ railyard {' '.join(map(str, argv))}\n{done.stdout}\n[exit {done.returncode}]\n")
        return done

    def environment(self) -> dict[str, str]:
        return {**os.environ, "RAILYARD_REPORTS_DIR": str(self.reports), "COLUMNS": "140"}

    def validate(self, *ansible_args: str) -> tuple[int, Run, str]:
        done = self.railyard(
            "validate", "-i", str(self.inventory), *(("--", *ansible_args) if ansible_args else ())
        )
        return done.returncode, self.newest(), done.stdout

    def lab(self, *argv: str) -> subprocess.CompletedProcess[str]:
        done = self.railyard("lab", *argv, "--topology", str(self.topology))
        assert done.returncode == 0, done.stdout
        return done

    def newest(self) -> Run:
        folders = sorted(path for path in (self.reports / self.name).iterdir() if path.is_dir())
        return Run(folders[-1])

    def start(self, *argv: str) -> subprocess.Popen[str]:
        """Start railyard in a process group of its own, as a terminal does, so that it can be sent Ctrl-C."""
        return subprocess.Popen(
            [str(BIN / "railyard"), *argv],
            cwd=ROOT,
            env=self.environment(),
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )

    def ssh(self, node: str, *command: str, check: bool = True) -> str:
        state = ROOT / ".lab" / self.lab_name / "ssh"
        hosts = yaml.safe_load((self.inventory / "hosts.yml").read_text(encoding="utf-8"))
        address = hosts["gpu_nodes"]["hosts"][node]["ansible_host"]
        options = {
            "UserKnownHostsFile": state / "known_hosts",
            "StrictHostKeyChecking": "yes",
            "ConnectTimeout": 10,
            "ControlPath": "none",
            "BatchMode": "yes",
        }
        flags = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
        target = f"railyard@{address}"
        done = run("ssh", "-i", state / "id_ed25519", *flags, target, *command, timeout=60)
        assert not check or done.returncode == 0, f"{node}: {command}: {done.stdout}"
        return done.stdout

    def exec_requests(self, node: str) -> int:
        """How many SSH exec requests this node's sshd has served since it started (this look not counted)."""
        text = self.ssh(node, "sudo", "journalctl", "--unit", "ssh", "--no-pager", "--output", "cat")
        return sum("Starting session: command" in line for line in text.splitlines()) - 1

    def processes(self, node: str) -> list[str]:
        """What of a run is alive on the node: the runner, its tools, their units."""
        names = ("iperf3", "sockperf", "runner.pyz")
        lines = self.ssh(node, "ps", "-eo", "args").splitlines()
        found = [line for line in lines if any(name in line for name in names)]
        units = self.ssh(node, "systemctl", "list-units", "--no-legend", "--plain", "--all", "railyard-*")
        # UNIT LOAD ACTIVE SUB DESCRIPTION; what is described as running need not run.
        return found + [line for line in units.splitlines() if line.split()[3:4] == ["running"]]


class Run:
    """A run folder, read with nothing of Railyard's own code: the tests are a second opinion."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self, name: str) -> list[dict]:
        path = self.path / name
        return (
            [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            if path.exists()
            else []
        )

    @property
    def verdicts(self) -> list[dict]:
        return self.lines("verdicts.jsonl")

    def not_good(self) -> list[dict]:
        return [verdict for verdict in self.verdicts if verdict["outcome"] in ("fail", "unmeasured")]


def assert_proven(rows: list[dict], checks: Mapping[str, str | None], rails: Sequence[str]) -> None:
    """Assert that each line of the two nodes, both ways, was measured and proven at both ends.

    Args:
        rows: results.jsonl of a run.
        checks: the checks, each with the tool that must have measured it; None for whichever did.
        rails: names of the rails.
    """
    for (check, tool), (node, peer), rail in itertools.product(checks.items(), (NODES, NODES[::-1]), rails):
        mine = [r for r in rows if (r["check"], r["node"], r["peer"], r["rail"]) == (check, node, peer, rail)]
        assert sorted((r["end"], r["status"], r["proof"]) for r in mine) == [
            ("client", "measured", "proven"),
            ("server", "measured", "proven"),
        ], (check, node, rail, [r.get("error") or r.get("proof_reason") for r in mine])
        assert tool is None or {r["tool"] for r in mine} == {tool}, (check, node, rail)


def write_inventory(cluster: Cluster, subnet: str, suite: str = "bookworm") -> None:
    """Write the inventory of the test's lab: the built-in one on containers, renumbered, rails shaped."""
    built_in = ROOT / "inventories" / "lab"
    # What `lab up` generated for the demo's lab would speak for that lab.
    shutil.copytree(built_in, cluster.inventory, ignore=shutil.ignore_patterns("generated.yml"))
    everywhere = [path for path in cluster.inventory.rglob("*") if path.suffix in (".yml", ".yaml")]
    for path in everywhere:
        text = path.read_text(encoding="utf-8").replace("198.18.0.", subnet)
        text = text.replace("{{ inventory_dir }}/../../.lab/lab/", f"{ROOT}/.lab/{cluster.name}/")
        path.write_text(text, encoding="utf-8")
    built_in_topology = ROOT / "tools" / "railyard" / "lab" / "topology-container.yml"
    topology = yaml.safe_load(built_in_topology.read_text(encoding="utf-8").replace("198.18.0.", subnet))
    topology["name"] = cluster.name
    topology["image"]["suite"] = suite
    for rail in topology["rails"]:
        rail["rate_gbps"] = RATE_GBPS
    cluster.topology.write_text(yaml.safe_dump(topology, sort_keys=False), encoding="utf-8")
    fabric_file = cluster.inventory / "group_vars" / "all" / "fabric.yml"
    variables = yaml.safe_load(fabric_file.read_text(encoding="utf-8"))
    variables["fabric"] |= {"transport": "tcp", "node_class": "container"}
    variables.pop("rdma_stack_provider", None)
    for rail in variables["fabric"]["rails"]:
        rail.pop("hca", None)
        rail["rate_gbps"] = RATE_GBPS
    variables["fabric_policy"] = POLICY
    # Lab containers answer at once: a cut-off node need not wait the two minutes that real ones are given.
    variables["rail_network_rollback_after_s"] = 20
    fabric_file.write_text(yaml.safe_dump(variables, sort_keys=False), encoding="utf-8")


def interrupt(process: subprocess.Popen[str], how: signal.Signals, timeout: float) -> tuple[int, str]:
    """Send a signal as the terminal does (to the whole group), then wait."""
    os.killpg(process.pid, how)
    out, _ = process.communicate(timeout=timeout)
    return process.returncode, out
