"""Two nodes and their rails as network namespaces: real interfaces, addresses and counters.

Every node is a namespace, every rail a bridge in a namespace of its own; all of it goes when the block ends.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.railyard.fabric.plugins.module_utils.schedule import policy_keys
from ansible_collections.railyard.fabric.plugins.plugin_utils.run import folder as run_folder
from ansible_collections.railyard.fabric.plugins.plugin_utils.run.folder import RunFolder

Row = dict[str, Any]
COLLECTIONS = Path(__file__).resolve().parents[3] / "collections"
RUNNER = "ansible_collections.railyard.fabric.plugins.module_utils.runner.main"
RUN = "20261121T101500Z-3f2a"
SECRET = "0123456789abcdef" * 4
POLICY: Row = {
    **{name: key.default for name, key in policy_keys.KEYS.items() if key.to_node},
    "iperf3_duration_s": 1,
    "iperf3_streams": 2,
    "sockperf_duration_s": 1,
    "bidirectional": False,
    "rdma_duration_s": 3,
    "rdma_latency_s": 1,
    "rdma_qps": 1,
    # What is shown of a fault is shown by the first attempt.
    "confirm": 0,
    "rendezvous_timeout_s": 4,
    "first_rendezvous_timeout_s": 6,
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
cables.start()
print(time.monotonic() - begun)
time.sleep(float(sys.argv[4]))
# A whole run lasts longer than its slowest node takes to start.
deadline = time.monotonic() + (float(sys.argv[5]) if len(sys.argv) > 5 else 0)
while time.monotonic() < deadline and any(ear.is_alive() and not ear.heard_all for ear in cables._beacons):
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


REASON = why_not()
#: What a file of tests that need namespaces is marked with.
MARKS = [
    pytest.mark.lab,
    pytest.mark.skipif(REASON is not None, reason=REASON or "namespaces can be used"),
]


def environment() -> dict[str, str]:
    """Return the environment of a program that imports the collection."""
    return {**os.environ, "PYTHONPATH": str(COLLECTIONS), "PYTHONDONTWRITEBYTECODE": "1"}


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

    def python(self, node: str, code: str, *words: str, **options: Any) -> subprocess.Popen[Any]:
        """Start a program of Python in a node."""
        argv = self.inside(node, sys.executable, "-c", code, *words)
        return subprocess.Popen(argv, env=environment(), **options)

    def sysctl(self, node: str, *settings: str) -> None:
        subprocess.run(self.inside(node, "sysctl", "-q", "-w", *settings), check=True)

    def move(self, node: str, rail: int, bridge: str) -> None:
        """Plug a leg into another bridge of the switch."""
        ip("-n", self.namespace("switch"), "link", "set", f"{node[-6:]}{rail}", "master", bridge)

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
def two_nodes(
    family: int = 4, nodes: Sequence[str] = NODES, management: bool = False, arp_ignore: bool = False
) -> Iterator[Rails]:
    """Make the nodes, two by default, with their rails.

    Args:
        family: of the rails' addresses, 4 or 6.
        nodes: their names.
        management: they have a management network in place of the rails: 192.168.0.1 and so on, on eth0.
        arp_ignore: they answer for an address on its own rail alone.
    """
    rails = Rails(f"{os.getpid():x}", family)
    netdevs, mtu = (["eth0"], 1500) if management else ([*NETDEVS.values()], 9000)
    try:
        switch = rails.make("switch")
        for rail in range(len(netdevs)):
            ip("-n", switch, "link", "add", f"rail{rail}", "type", "bridge")
            ip("-n", switch, "link", "set", f"rail{rail}", "mtu", str(mtu), "up")
        for number, node in enumerate(nodes, 1):
            rails.make(node)
            for rail, netdev in enumerate(netdevs):
                address = f"192.168.0.{number}/24" if management else rails.address(number, rail)
                rails.plug(node, netdev, rail, address, mtu)
                if arp_ignore:
                    rails.sysctl(node, f"net.ipv4.conf.{netdev}.arp_ignore=1")
        yield rails
    finally:
        rails.remove()


def entries(nodes: Sequence[str]) -> list[Row]:
    """Return the roster of a test schedule."""
    return [
        {"name": node, "node_index": number, "scalable_unit": None, "rail_overrides": {}, "fabric": 0}
        for number, node in enumerate(nodes, 1)
    ]


def order(family: int = 4, **changes: Any) -> Row:
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
    common: Row = {
        "schema": 1,
        "run": RUN,
        "fabrics": [fabric],
        "roster": entries(NODES),
        "absent": [],
        "pattern": "all_pairs",
        "seed": 0,
        "policy": dict(POLICY),
        "rails": None,
    }
    policy = {**common["policy"], **changes.pop("policy", {})}
    return {**common, **changes, "policy": policy}


def write_order(folder: Path, node: str, common: Row, **own: Any) -> Path:
    """Write a node's test schedule into its folder."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "work_order.json"
    own = {"node": node, "secret": SECRET, "netdevs": NETDEVS, "hcas": {}, **own}
    file.write_text(json.dumps({**common, **own}))
    return file


def rows_of(folder: Path) -> list[Row]:
    """Return what a runner wrote into its folder."""
    return RunFolder(folder).rows(run_folder.RESULTS)[0]


def listen(
    rails: Rails, folder: Path, common: Row, late_s: float = 0.0, stay_s: float = 0.0, hear_s: float = 0.0
) -> tuple[list[Row], list[float]]:
    """Let the nodes of a test schedule do what comes before the tests; return rows and how long each settled.

    Args:
        rails: the namespaces.
        folder: holds a folder per node.
        common: the common part of the test schedule.
        late_s: seconds that each node starts after the one before.
        stay_s: seconds that each stays in any case.
        hear_s: seconds that each stays at most until it has heard all.
    """
    nodes = [str(entry["name"]) for entry in common["roster"]]
    started = []
    for place, node in enumerate(nodes):
        file = write_order(folder / node, node, common)
        words = [str(file), str(file.parent), *(str(seconds) for seconds in (late_s * place, stay_s, hear_s))]
        started.append(rails.python(node, LISTEN, *words, stdout=subprocess.PIPE, text=True))
    settled_s = [float(process.communicate(timeout=60)[0]) for process in started]
    assert [process.returncode for process in started] == [0] * len(nodes)
    return [row for node in nodes for row in rows_of(folder / node)], settled_s


def write_tool(folder: Path, name: str, script: str) -> str:
    """Put a tool of this name into a folder; return a PATH that has it before the real one."""
    folder.mkdir(exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return f"{folder}:{os.environ['PATH']}"


class Runner:
    """A runner that was started in a node."""

    def __init__(
        self,
        rails: Rails,
        folder: Path,
        node: str,
        common: Row,
        path: str | None = None,
        arguments: tuple[str, ...] = (),
        own: Mapping[str, Any] | None = None,
        classes: Path | None = None,
        before: Path | None = None,
    ) -> None:
        self.node = node
        self.folder = folder / node
        file = write_order(self.folder, node, common, **(own or {}))
        program = [sys.executable, "-m", RUNNER, str(file), "--folder", str(self.folder)]
        program += ["--launcher", "direct", *arguments]
        self.log = open(self.folder / "runner.log", "wb")  # noqa: SIM115 - open as long as the process
        self.process = subprocess.Popen(
            rails.inside(node, *(_instead_of_sysfs(classes) if classes else ()), *program),
            env={
                **environment(),
                **({"PATH": path} if path else {}),
                # A folder whose sitecustomize.py is run first.
                **({"PYTHONPATH": f"{before}:{environment()['PYTHONPATH']}"} if before else {}),
            },
            stdout=self.log,
            stderr=self.log,
            cwd=self.folder,
        )

    def wait(self, timeout: float = 120) -> int:
        try:
            return self.process.wait(timeout=timeout)
        finally:
            self.log.close()

    def rows(self) -> list[Row]:
        return rows_of(self.folder)

    def status(self) -> Row:
        loaded: Row = json.loads((self.folder / "status.json").read_text())
        return loaded


def _instead_of_sysfs(classes: Path) -> list[str]:
    """Return the words that give a program another /sys/class, in which `net` is the kernel's own."""
    mounts = 'mount --bind /sys/class/net "$1/net" && mount --rbind "$1" /sys/class && shift && exec "$@"'
    return ["sh", "-c", mounts, "sh", str(classes)]


def both(
    rails: Rails, folder: Path, common: Row, first: Row | None = None, second: Row | None = None
) -> list[Runner]:
    """Start the runners of two nodes; `first` and `second` are what is particular to one."""
    words = zip(NODES, (first or {}, second or {}), strict=True)
    return [Runner(rails, folder, node, common, **more) for node, more in words]


def ended(runners: list[Runner], timeout: float = 120) -> dict[str, list[Row]]:
    """Wait for runners to end and return their rows."""
    for runner in runners:
        runner.wait(timeout)
    return {runner.node: runner.rows() for runner in runners}


def measure(rails: Rails, folder: Path, common: Row, **particular: Row) -> dict[str, list[Row]]:
    """Run both nodes to the end and return their rows; see `both`."""
    return ended(both(rails, folder, common, **particular))


def not_proven(rows: list[Row]) -> list[tuple[Any, ...]]:
    """Return which rows were not measured and proven, and why."""
    return [
        (row["id"], row["check"], row["error"], row["proof_reason"])
        for row in rows
        if (row["status"], row["proof"]) != ("measured", "proven")
    ]


def classes(rows: list[Row]) -> set[str | None]:
    """Return the classes of the rows' errors, with None where one has none."""
    return {row["error"]["class"] if row["error"] else None for row in rows}
