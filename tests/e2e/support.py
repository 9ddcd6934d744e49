"""The lab as its user sees it: an inventory, two nodes by ssh, the railyard command, the run folders."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
RATE_GBPS = 1.0
NODES = ("gpuserver1", "gpuserver2")


def run(*argv: str, timeout: float = 240, **options: object) -> subprocess.CompletedProcess[str]:
    """Run a command of the checkout and return its output; standard error goes with standard output."""
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


def needs_root() -> None:
    """Skip where there can be no lab."""
    if os.geteuid() != 0:
        pytest.skip("the lab needs root")


class Cluster:
    """The lab as a user sees it: an inventory, two nodes by ssh, the railyard command."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.lab_name = name
        self.inventory = folder / name
        self.topology = folder / "topology.yml"
        self.reports = folder / "reports"
        self.log = folder / "railyard.log"

    @property
    def fabric_file(self) -> Path:
        return self.inventory / "group_vars" / "all" / "fabric.yml"

    def railyard(self, *argv: str, timeout: float = 600) -> subprocess.CompletedProcess[str]:
        done = run(BIN / "railyard", *argv, timeout=timeout, env=self.environment())
        with self.log.open("a", encoding="utf-8") as log:
            log.write(f"\n$ railyard {' '.join(map(str, argv))}\n{done.stdout}\n[exit {done.returncode}]\n")
        return done

    def print_json(self, verb: str) -> tuple[int, dict[str, Any], str]:
        """Run a verb with --json; return its exit status, the object, and the messages for people."""
        argv = [BIN / "railyard", verb, "-i", self.inventory, "--json"]
        done = subprocess.run(
            argv, env=self.environment(), cwd=ROOT, text=True, capture_output=True, timeout=600, check=False
        )
        return done.returncode, json.loads(done.stdout), done.stderr

    def environment(self) -> dict[str, str]:
        return {**os.environ, "RAILYARD_REPORTS_DIR": str(self.reports), "COLUMNS": "140"}

    def validate(self, *ansible_args: str, verb: str = "validate") -> tuple[int, Run, str]:
        done = self.railyard(
            verb, "-i", str(self.inventory), *(("--", *ansible_args) if ansible_args else ())
        )
        return done.returncode, self.newest(), done.stdout

    def playbook(
        self, path: str | Path, *argv: str, timeout: float = 900
    ) -> subprocess.CompletedProcess[str]:
        """Run a playbook as anybody would, with plain ansible-playbook."""
        environment = {**os.environ, "ANSIBLE_CONFIG": str(ROOT / "ansible.cfg")}
        return run(
            BIN / "ansible-playbook", "-i", self.inventory, path, *argv, timeout=timeout, env=environment
        )

    def lab(self, *argv: str) -> subprocess.CompletedProcess[str]:
        done = self.railyard("lab", *argv, "--topology", str(self.topology))
        assert done.returncode == 0, done.stdout
        return done

    @contextlib.contextmanager
    def up(self, timeout: float = 600) -> Iterator[None]:
        """Have the lab up, and take it down again; its last words are what a failed test is understood by."""
        try:
            done = self.railyard("lab", "up", "--topology", str(self.topology), timeout=timeout)
            assert done.returncode == 0, done.stdout
            yield
        finally:
            print(self.railyard("lab", "down", "--topology", str(self.topology)).stdout)
            print(self.log.read_text(encoding="utf-8")[-12000:])

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

    def ssh(self, node: str, *command: str, check: bool = True, timeout: float = 60) -> str:
        done = run(*self._reach(node), *command, timeout=timeout)
        assert not check or done.returncode == 0, f"{node}: {command}: {done.stdout}"
        return done.stdout

    def send(self, node: str, data: bytes, command: str) -> None:
        """Give data to a command on a node."""
        subprocess.run([*self._reach(node), command], input=data, check=True, timeout=120)

    def _reach(self, node: str) -> list[str]:
        state = ROOT / ".lab" / self.lab_name / "ssh"
        hosts = yaml.safe_load((self.inventory / "hosts.yml").read_text(encoding="utf-8"))
        [address] = [
            group["hosts"][node]["ansible_host"] for group in hosts.values() if node in group["hosts"]
        ]
        options = {
            "UserKnownHostsFile": state / "known_hosts",
            "StrictHostKeyChecking": "yes",
            "ConnectTimeout": 10,
            "ControlPath": "none",
            "BatchMode": "yes",
        }
        flags = [word for key, value in options.items() for word in ("-o", f"{key}={value}")]
        return ["ssh", "-i", str(state / "id_ed25519"), *flags, f"railyard@{address}"]

    def put(self, node: str, path: str, text: str) -> None:
        """Write an executable file on a node as root."""
        # Quoted for the one shell that ssh starts there; the text is the test's own.
        data = base64.b64encode(text.encode()).decode()
        self.ssh(node, f"echo {data} | base64 -d | sudo tee {path} >/dev/null && sudo chmod 755 {path}")

    def exec_requests(self, node: str) -> int:
        """How many SSH exec requests this node's sshd has served since it started (this look not counted)."""
        text = self.ssh(node, "sudo", "journalctl", "--unit", "ssh", "--no-pager", "--output", "cat")
        return sum("Starting session: command" in line for line in text.splitlines()) - 1

    def processes(self, node: str) -> list[str]:
        """What of a run is alive on the node: the runner, its tools, their units."""
        names = ("iperf3", "sockperf", "fio", "smartctl", "runner.pyz")
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

    def rows(self) -> list[dict]:
        """Return the result rows in full, as users are given them: those of a sweep are packed."""
        told = run(BIN / "railyard", "export", self.path)
        assert told.returncode == 0, told.stdout
        return [json.loads(line) for line in told.stdout.splitlines()]

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
        # What looked slow was measured again: a busy machine's latency, say.
        last = max((r["attempt"] for r in mine), default=1)
        mine = [r for r in mine if r["attempt"] == last]
        assert sorted((r["end"], r["status"], r["proof"]) for r in mine) == [
            ("client", "measured", "proven"),
            ("server", "measured", "proven"),
        ], (check, node, rail, [r.get("error") or r.get("proof_reason") for r in mine])
        assert tool is None or {r["tool"] for r in mine} == {tool}, (check, node, rail)


def write_lab(cluster: Cluster, subnet: str, kind: str, nodes: int = 2) -> None:
    """Write topology and inventory of a lab of bare nodes, as the built-in one but for name and addresses.

    Args:
        cluster: whose `topology` and `inventory` are written, for a lab of its `lab_name`.
        subnet: the first three bytes of the management network, with their dots.
        kind: of the nodes, "container" (plain TCP) or "vm" (Soft-RoCE).
        nodes: how many, gpuserver1 and so on.
    """
    addresses = {f"gpuserver{number}": f"{subnet}{number}" for number in range(1, nodes + 1)}
    built_in = ROOT / "tools/railyard/lab" / ("topology.yml" if kind == "vm" else f"topology-{kind}.yml")
    topology = yaml.safe_load(built_in.read_text(encoding="utf-8").replace("198.18.0.", subnet))
    topology |= {
        "name": cluster.lab_name,
        "nodes": {name: {"kind": kind, "address": address} for name, address in addresses.items()},
    }
    cluster.topology.write_text(yaml.safe_dump(topology, sort_keys=False), encoding="utf-8")
    # What `lab up` generated for the demo's lab would speak for that lab.
    ignored = shutil.ignore_patterns("generated.yml")
    shutil.copytree(ROOT / "inventories" / "lab", cluster.inventory, ignore=ignored)
    connection = cluster.inventory / "group_vars" / "all" / "connection.yml"
    text = connection.read_text(encoding="utf-8")
    keys = ("{{ inventory_dir }}/../../.lab/lab/", f"{ROOT}/.lab/{cluster.lab_name}/")
    connection.write_text(text.replace(*keys), encoding="utf-8")
    with edited(cluster.inventory / "hosts.yml") as hosts:
        hosts["gpu_nodes"]["hosts"] = {name: {"ansible_host": at} for name, at in addresses.items()}
    if kind == "container":
        with edited(cluster.fabric_file) as variables:
            variables["fabric"] |= {"transport": "tcp", "node_class": "container"}
            variables.pop("rdma_stack_provider")
            variables.pop("rdma_stack_soft_roce_devices")


@contextlib.contextmanager
def edited(path: Path) -> Iterator[dict]:
    """Give the mapping that a YAML file holds, to be changed; it is written back."""
    content = yaml.safe_load(path.read_text(encoding="utf-8"))
    yield content
    path.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")


def wait_for_rows(cluster: Cluster, node: str, at_least: int, seconds: float = 90) -> None:
    """Wait until a run on the node has appended so many rows."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        text = cluster.ssh(
            node, "sudo sh -c 'cat /var/lib/railyard/runs/*/results.jsonl 2>/dev/null | wc -l'"
        )
        if text.strip().isdigit() and int(text) >= at_least:
            return
        time.sleep(1)
    raise AssertionError(f"no {at_least} rows on {node} within {seconds} s")


def left_after(cluster: Cluster, node: str, seconds: float) -> list[str]:
    """What of a run is still alive on the node after so many seconds; returns as soon as there is nothing."""
    until = time.monotonic() + seconds
    while (left := cluster.processes(node)) and time.monotonic() < until:
        time.sleep(1)
    return left


def interrupt(process: subprocess.Popen[str], how: signal.Signals, timeout: float) -> tuple[int, str]:
    """Send a signal as the terminal does (to the whole group), then wait."""
    os.killpg(process.pid, how)
    out, _ = process.communicate(timeout=timeout)
    return process.returncode, out
