"""A lab of many container nodes for a benchmark: its topology, its inventory, and the command line on it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(sys.executable).parent
RATE_GBPS = 0.05
RAILS = (("rail0", "ens6", "10.0.1."), ("rail1", "ens6d1", "10.0.0."))
MANAGEMENT = "198.18.9."


class Lab:
    """A lab of so many nodes, its topology and inventory in a folder of the checkout's .lab/.

    Attributes:
        name: the lab's.
        nodes: the nodes' names.
        folder: where its files are; `topology`, `inventory` and `reports` lie in it.
    """

    def __init__(self, name: str, nodes: int) -> None:
        self.name = name
        self.nodes = [f"gpu{number:02d}" for number in range(1, nodes + 1)]
        self.folder = ROOT / ".lab" / "benchmark" / self.name
        self.topology, self.inventory = self.folder / "topology.yml", self.folder / self.name
        self.reports = self.folder / "reports"

    @contextmanager
    def up(self) -> Iterator[None]:
        """Write its files and bring it up, and take it down at the end."""
        self._write()
        try:
            self.railyard("lab", "up", "--topology", str(self.topology))
            yield
        finally:
            self.railyard("lab", "down", "--topology", str(self.topology))

    def provision(self) -> str:
        """Provision all nodes at once and return the output."""
        batches = ("-e", "railyard_network_batch=100%", "-e", "railyard_driver_batch=100%")
        return self.railyard("provision", "-i", str(self.inventory), "--", *batches).stdout

    def railyard(self, *words: str, good: tuple[int, ...] = (0,)) -> subprocess.CompletedProcess[str]:
        """Run the command line as its user does; another exit status than a good one ends the benchmark."""
        done = subprocess.run(
            [str(BIN / "railyard"), *words], cwd=ROOT, text=True, stdin=subprocess.DEVNULL,
            env={**os.environ, "RAILYARD_REPORTS_DIR": str(self.reports), "COLUMNS": "140"},
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
        )  # fmt: skip
        if done.returncode not in good:
            raise SystemExit(f"railyard {' '.join(words)} ended with {done.returncode}:\n{done.stdout}")
        return done

    def ssh(self, node: str, *command: str) -> str:
        """Run a command on a node, over a connection of its own, and return its output."""
        keys, address = ROOT / ".lab" / self.name / "ssh", f"{MANAGEMENT}{self.nodes.index(node) + 1}"
        known = f"UserKnownHostsFile={keys / 'known_hosts'}"
        options = [f"-o{one}" for one in (known, "StrictHostKeyChecking=yes", "ControlPath=none")]
        argv = [
            "ssh",
            "-F",
            "none",
            "-i",
            str(keys / "id_ed25519"),
            *options,
            f"railyard@{address}",
            *command,
        ]
        done = subprocess.run(argv, check=True, text=True, capture_output=True)
        return done.stdout

    def _write(self) -> None:
        variables = self.inventory / "group_vars" / "all"
        variables.mkdir(parents=True, exist_ok=True)
        built_in = ROOT / "tools" / "railyard" / "lab" / "topology-container.yml"
        topology = yaml.safe_load(built_in.read_text(encoding="utf-8").replace("198.18.0.", MANAGEMENT))
        topology |= {
            "name": self.name,
            "nodes": {
                name: {"kind": "container", "address": f"{MANAGEMENT}{number}"}
                for number, name in enumerate(self.nodes, 1)
            },
            "rails": [
                {"name": rail, "netdev": netdev, "subnet": f"{subnet}0/24", "rate_gbps": RATE_GBPS}
                for rail, netdev, subnet in RAILS
            ],
        }
        keys = ROOT / ".lab" / self.name / "ssh"
        hosts = {name: {"ansible_host": node["address"]} for name, node in topology["nodes"].items()}
        fabric = {
            "transport": "tcp", "node_class": "container", "mtu": 9000, "cabling": "switched",
            "rails": topology["rails"], "frontend": {"netdev": "enp5s0"},
        }  # fmt: skip
        connection = {
            "ansible_user": "railyard",
            "ansible_python_interpreter": "/usr/bin/python3",
            "ansible_ssh_private_key_file": str(keys / "id_ed25519"),
            "ansible_ssh_common_args": f"-o UserKnownHostsFile={keys / 'known_hosts'} "
            "-o StrictHostKeyChecking=yes -o IdentitiesOnly=yes -o ConnectTimeout=10",
        }
        for file, content in (
            (self.topology, topology),
            (self.inventory / "hosts.yml", {"gpu_nodes": {"hosts": hosts}}),
            (variables / "fabric.yml", {"fabric": fabric}),
            (variables / "connection.yml", connection),
        ):
            file.write_text(yaml.safe_dump(content, sort_keys=False), encoding="utf-8")
