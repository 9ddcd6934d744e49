"""One lab with the hands to work on it: its cables, and waiting for a node."""

from __future__ import annotations

import socket
import time
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from railyard.errors import BAD_INPUT
from railyard.lab import host, keys, naming, network, state, topology
from railyard.lab.nodes import Link, NodeKind
from railyard.lab.nodes.container import ContainerKind
from railyard.lab.process import LabError, run
from railyard.lab.topology import Node, Topology

_BOOT_DEADLINE_S = 90.0


@dataclass(frozen=True)
class Lab:
    """A lab that is up or being brought up, with the hands to work on it."""

    topology: Topology
    network: network.LabNetwork
    kind: NodeKind
    keys: keys.Keys

    @classmethod
    def of(cls, topology: Topology) -> Lab:
        """Return the lab of a topology; looks at nothing and makes nothing."""
        return cls(
            topology,
            network.LabNetwork(topology),
            ContainerKind(topology.name, host.probe()),
            keys.Keys(naming.lab_dir(topology.name) / "ssh"),
        )

    @property
    def name(self) -> str:
        """The lab's name."""
        return self.topology.name


def open_lab(name: str | None = None, file: Path | None = None) -> Lab:
    """Return the lab that was brought up under `name` (default: the one of the default topology).

    Raises:
        LabError: there is no such lab, or no telling what its topology was.
    """
    if file is not None or name is None:
        return Lab.of(topology.load(file or topology.default_file(), name))
    record = state.load(name)
    if record is not None and record.topology:
        return Lab.of(topology.load(Path(record.topology), name))
    default = topology.load(topology.default_file())
    if default.name == name:
        return Lab.of(default)
    raise LabError(
        f"nothing is known of lab {name}" + (", its state file is torn" if record else ""),
        "name its topology file with --topology",
        BAD_INPUT,
    )


def plug_in(lab: Lab, node: Node, pid: int) -> list[str]:
    """Plug in the cables of a running node that are missing or down; return the netdevs made."""
    outer = lab.network.links()
    inner = network.links_of(lab.kind.in_network(pid, "ip"))
    made: list[Link] = []
    for link in lab.network.node_links(node):
        if link.outer in outer and link.netdev in inner:
            lab.network.batch(
                [f"link set {link.outer} master {link.bridge} mtu {link.mtu_bytes} up"]
                if outer[link.outer].get("master") != link.bridge or "UP" not in outer[link.outer]["flags"]
                else []
            )
            continue
        network.remove_link(["ip", "-n", lab.network.name], link.outer)
        network.remove_link(lab.kind.in_network(pid, "ip"), link.netdev)
        made.append(link)
    lab.network.batch(line for link in made for line in lab.kind.link_commands(pid, link))
    for position in range(len(lab.topology.rails)):
        shape_rail(lab, node, pid, position, lab.topology.rails[position].rate_gbps)
    return [link.netdev for link in made]


def shape_rail(lab: Lab, node: Node, pid: int, rail_position: int, rate_gbps: float | None) -> None:
    """Shape both directions of a node's leg, each where it is sent."""
    rail = lab.topology.rails[rail_position]
    network.shape(["tc", "-n", lab.network.name], naming.leg(node.position, rail_position), rate_gbps)
    network.shape(lab.kind.in_network(pid, "tc"), rail.netdev, rate_gbps)


def await_ready(lab: Lab, node: Node, interrupted: Event) -> None:
    """Wait until the node answers SSH with its own host key, lets us be root, and systemd has come to rest.

    Raises:
        LabError: not within a minute and a half, or with failed units, which the message names.
    """
    deadline = time.monotonic() + _BOOT_DEADLINE_S
    said = "no answer on port 22"
    while time.monotonic() < deadline:
        if interrupted.is_set():
            raise LabError(f"{node.name}: interrupted while it was starting")
        if not _ssh_answers(str(node.address)):
            time.sleep(0.1)
            continue
        answer = run(
            lab.keys.ssh_argv(node, "sudo", "-n", "systemctl", "is-system-running", "--wait"),
            check=False,
            timeout_s=_BOOT_DEADLINE_S,
        )
        said = (answer.stdout + answer.stderr).strip()
        if answer.stdout.strip() == "running":
            return
        if answer.stdout.strip() == "degraded":
            units = run(
                lab.keys.ssh_argv(node, "systemctl", "--failed", "--no-legend", "--plain"), check=False
            ).stdout.strip()
            raise LabError(f"{node.name}: systemd came up with failed units:\n    {units}")
        time.sleep(0.5)  # "System is booting up": logins are not open yet
    raise LabError(f"{node.name} ({node.address}): not ready after {_BOOT_DEADLINE_S:g} s: {said}")


def _ssh_answers(address: str) -> bool:
    try:
        with socket.create_connection((address, 22), timeout=1) as connection:
            connection.settimeout(2)
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False
