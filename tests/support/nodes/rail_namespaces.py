"""Two nodes and their rails as network namespaces: real interfaces, addresses and counters.

Every node is a namespace, every rail a bridge in a namespace of its own; all of it goes when the block ends.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

COLLECTIONS = Path(__file__).resolve().parents[3] / "collections"
RUNNER = "ansible_collections.railyard.fabric.plugins.module_utils.runner.main"
RUN = "20261121T101500Z-3f2a"
SECRET = "0123456789abcdef" * 4
POLICY: dict[str, Any] = {
    "iperf3_duration_s": 1,
    "iperf3_streams": 2,
    "iperf3_omit_s": 1,
    "sockperf_duration_s": 1,
    "sockperf_message_bytes": 64,
    "ping_count": 10,
    "ping_interval_s": 0.02,
    "path_mtu_probes": 5,
    "rdma_tests": ["ib_write_bw", "ib_write_lat"],
    "bidirectional": False,
    "rdma_duration_s": 3,
    "rdma_margin_s": 1,
    "rdma_latency_s": 1,
    "rdma_message_bytes": 65536,
    "rdma_qps": 1,
    "numa_pinning": True,
    "numa_unpinned": False,
    "rendezvous_timeout_s": 4,
    "first_rendezvous_timeout_s": 6,
    "idle_bytes_per_s": 200000,
    "allow_busy": False,
    "busy_bytes_per_s": 5000000,
    "lease_s": 90,
    "base_port": 18600,
    "floors": {},
}
NODES = ("gpuserver1", "gpuserver2")
NETDEVS = {"rail0": "ens6", "rail1": "ens6d1"}

# The part of the runner that comes before the tests: order, folder, seconds to wait before and after.
LISTEN = """
import json, sys, threading, time
from ansible_collections.railyard.fabric.plugins.module_utils.runner import cabling as runner_cabling
from ansible_collections.railyard.fabric.plugins.module_utils.runner import launcher as units
from ansible_collections.railyard.fabric.plugins.module_utils.runner.context import RunContext
from ansible_collections.railyard.fabric.plugins.module_utils.runner.eta import Pace
from ansible_collections.railyard.fabric.plugins.module_utils.runner.record import Record
order = json.load(open(sys.argv[1]))
time.sleep(float(sys.argv[3]))
launcher = units.launcher("direct", order["run"], order["node"])
run_context = RunContext(order, Record(sys.argv[2], order, 0, Pace({}, [])), launcher, threading.Event())
cables = runner_cabling.Cabling(run_context)
begun = time.monotonic()
cables.settle()
print(time.monotonic() - begun)
time.sleep(float(sys.argv[4]))
# A whole run lasts longer than its slowest node takes to start.
deadline = time.monotonic() + (float(sys.argv[5]) if len(sys.argv) > 5 else 0)
while time.monotonic() < deadline and any(ear.is_alive() and not ear.heard_all for ear in cables._ears):
    time.sleep(0.1)
cables.close()
"""


def why_not() -> str | None:
    """Return why namespaces cannot be used here, None when they can."""
    if os.geteuid() != 0:
        return "needs root to make network namespaces"
    missing = [tool for tool in ("ip", "iperf3", "sockperf", "ping", "setpriv") if not shutil.which(tool)]
    if missing:
        return f"needs the tools {', '.join(missing)}"
    # Another part of the tests may try at this moment.
    name = f"ry-try{os.getpid():x}"
    tried = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)
    return f"this machine makes no network namespaces: {tried.stderr.strip()}" if tried.returncode else None


def ip(*words: str) -> str:
    return subprocess.run(["ip", *words], check=True, capture_output=True, text=True).stdout


class Rails:
    """The namespaces of one test."""

    def __init__(self, mark: str, family: int) -> None:
        self.mark = mark
        self.family = family
        self.names: list[str] = []

    def namespace(self, node: str) -> str:
        return f"ry{self.mark}-{node}"

    def make(self, node: str) -> str:
        name = self.namespace(node)
        ip("netns", "add", name)
        self.names.append(name)
        ip("-n", name, "link", "set", "lo", "up")
        return name

    def plug(self, node: str, netdev: str, rail: int, address: str, mtu: int = 9000) -> None:
        """Give a node a leg on a rail's bridge."""
        switch, leg = self.namespace("switch"), f"{node[-6:]}{rail}"
        name = self.namespace(node)
        made = ["link", "add", netdev, "netns", name, "mtu", str(mtu), "type", "veth"]
        ip(*made, "peer", "name", leg, "netns", switch, "mtu", str(mtu))
        ip("-n", switch, "link", "set", leg, "master", f"rail{rail}", "up")
        ip("-n", name, "addr", "add", address, "dev", netdev, *(["nodad"] if ":" in address else []))
        ip("-n", name, "link", "set", netdev, "up")

    def address(self, node: int, rail: int) -> str:
        return f"fd00:{rail + 1}::{node}/64" if self.family == 6 else f"10.0.{1 - rail}.{node}/24"

    def inside(self, node: str, *argv: str) -> list[str]:
        return ["ip", "netns", "exec", self.namespace(node), *argv]

    def remove(self) -> None:
        """End everything that runs in the namespaces and take them away."""
        for name in self.names:
            for pid in subprocess.run(
                ["ip", "netns", "pids", name], capture_output=True, text=True, check=False
            ).stdout.split():
                subprocess.run(["kill", "-9", pid], capture_output=True, check=False)
            subprocess.run(["ip", "netns", "del", name], capture_output=True, check=False)

    def processes(self, node: str) -> list[str]:
        """Return the command lines of everything that runs in a node."""
        pids = ip("netns", "pids", self.namespace(node)).split()
        found = [Path(f"/proc/{pid}/cmdline") for pid in pids]
        return [path.read_bytes().replace(b"\0", b" ").decode() for path in found if path.exists()]


@contextmanager
def two_nodes(family: int = 4) -> Iterator[Rails]:
    rails = Rails(f"{os.getpid():x}", family)
    try:
        switch = rails.make("switch")
        for rail in range(2):
            ip("-n", switch, "link", "add", f"rail{rail}", "type", "bridge")
            ip("-n", switch, "link", "set", f"rail{rail}", "mtu", "9000", "up")
        for number, node in enumerate(NODES, 1):
            rails.make(node)
            for rail, netdev in enumerate(NETDEVS.values()):
                rails.plug(node, netdev, rail, rails.address(number, rail))
        yield rails
    finally:
        rails.remove()


@contextmanager
def two_nodes_without_rails() -> Iterator[Rails]:
    """Two nodes on a management network alone: 192.168.0.1 and .2 on eth0."""
    rails = Rails(f"{os.getpid():x}", 4)
    try:
        switch = rails.make("switch")
        ip("-n", switch, "link", "add", "rail0", "type", "bridge")
        ip("-n", switch, "link", "set", "rail0", "up")
        for number, node in enumerate(NODES, 1):
            rails.make(node)
            rails.plug(node, "eth0", 0, f"192.168.0.{number}/24", mtu=1500)
        yield rails
    finally:
        rails.remove()


def order(family: int = 4, **changes: Any) -> dict[str, Any]:
    key = "subnet6" if family == 6 else "subnet"
    subnets = ("fd00:1::/64", "fd00:2::/64") if family == 6 else ("10.0.1.0/24", "10.0.0.0/24")
    fabric = {
        "transport": "tcp",
        "node_class": "container",
        "mtu": 9000,
        "cabling": "back_to_back",
        "rails": [
            {"name": name, "netdev": netdev, key: subnet}
            for (name, netdev), subnet in zip(NETDEVS.items(), subnets, strict=True)
        ],
    }
    roster = [
        {"name": node, "node_index": number, "scalable_unit": None, "rail_overrides": {}, "fabric": 0}
        for number, node in enumerate(NODES, 1)
    ]
    common: dict[str, Any] = {
        "schema": 1,
        "run": RUN,
        "fabrics": [fabric],
        "roster": roster,
        "absent": [],
        "pattern": "all_pairs",
        "seed": 0,
        "policy": dict(POLICY),
        "rails": None,
    }
    policy = {**common["policy"], **changes.pop("policy", {})}
    return {**common, **changes, "policy": policy}


class Runner:
    """A runner that was started in a node."""

    def __init__(
        self,
        rails: Rails,
        folder: Path,
        node: str,
        common: dict[str, Any],
        secret: str = SECRET,
        python: str = sys.executable,
        path: str | None = None,
        arguments: tuple[str, ...] = (),
        own: dict[str, Any] | None = None,
        classes: Path | None = None,
    ) -> None:
        self.node = node
        self.folder = folder / node
        self.folder.mkdir(parents=True, exist_ok=True)
        order_file = self.folder / "work_order.json"
        order_file.write_text(
            json.dumps(
                {**common, "node": node, "secret": secret, **(own or {"netdevs": NETDEVS, "hcas": {}})}
            )
        )
        environment = {**os.environ, "PYTHONPATH": str(COLLECTIONS), "PYTHONDONTWRITEBYTECODE": "1"}
        if path is not None:
            environment["PATH"] = path
        program = [
            python,
            "-m",
            RUNNER,
            str(order_file),
            "--folder",
            str(self.folder),
            "--launcher",
            "direct",
        ]
        self.log = open(self.folder / "runner.log", "wb")  # noqa: SIM115 - open as long as the process
        self.process = subprocess.Popen(
            rails.inside(node, *(_instead_of_sysfs(classes) if classes else ()), *program, *arguments),
            env=environment,
            stdout=self.log,
            stderr=self.log,
            cwd=self.folder,
        )

    def wait(self, timeout: float = 120) -> int:
        try:
            return self.process.wait(timeout=timeout)
        finally:
            self.log.close()

    def rows(self) -> list[dict[str, Any]]:
        path = self.folder / "results.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def status(self) -> dict[str, Any]:
        loaded: dict[str, Any] = json.loads((self.folder / "status.json").read_text())
        return loaded


def _instead_of_sysfs(classes: Path) -> list[str]:
    """Return the words that give a program another /sys/class, in which `net` is the kernel's own."""
    mounts = 'mount --bind /sys/class/net "$1/net" && mount --rbind "$1" /sys/class && shift && exec "$@"'
    return ["sh", "-c", mounts, "sh", str(classes)]


def measure(rails: Rails, folder: Path, common: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """Run both nodes to the end and return their rows."""
    runners = [Runner(rails, folder, node, common) for node in NODES]
    for runner in runners:
        runner.wait()
    return {runner.node: runner.rows() for runner in runners}
