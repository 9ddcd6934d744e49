"""One lab with the hands to work on it: its cables, and waiting for a node."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from railyard.base.errors import BAD_INPUT
from railyard.lab import host, keys, naming, network, state, topology
from railyard.lab.nodes import Link, NodeState
from railyard.lab.nodes.container import ContainerKind
from railyard.lab.nodes.vm import VmKind
from railyard.lab.process import LabError, run
from railyard.lab.topology import Node, Topology

#: What makes the nodes of one lab. Each method is safe to repeat; both classes have the same ones.
NodeKind = ContainerKind | VmKind
_WORD_EVERY_S = 10.0
_BANNER_S = 20.0


@dataclass(frozen=True)
class Lab:
    """A lab that is up or being brought up, with the hands to work on it."""

    topology: Topology
    network: network.LabNetwork
    kinds: Mapping[str, NodeKind]
    keys: keys.Keys

    @classmethod
    def from_topology(cls, topology: Topology) -> Lab:
        """Return the lab of a topology; looks at nothing and makes nothing."""
        return cls(
            topology,
            network.LabNetwork(topology),
            kinds_of(topology.name),
            keys.Keys(naming.lab_dir(topology.name) / "ssh"),
        )

    @property
    def name(self) -> str:
        """The lab's name."""
        return self.topology.name

    def kind(self, node: Node) -> NodeKind:
        """Return the hands that work on a node."""
        return self.kinds[node.kind]

    def states(self) -> dict[str, NodeState]:
        """Return the existing nodes of the topology, each in the form that the topology wants."""
        found = {kind: self.kinds[kind].states() for kind in self.topology.kinds}
        return {
            node.name: found[node.kind][node.name]
            for node in self.topology.nodes
            if node.name in found[node.kind]
        }


def kinds_of(lab: str) -> dict[str, NodeKind]:
    """Return all kinds of node that a lab may have, by the lab's name alone."""
    return {"container": ContainerKind(lab, host.probe()), "vm": VmKind(lab)}


def open_lab(name: str | None = None, file: Path | None = None) -> Lab:
    """Return the lab that was brought up under `name` (default: the built-in lab's), by any topology.

    Raises:
        LabError: there is no such lab, or no telling what its topology was.
    """
    if file is not None:
        return Lab.from_topology(topology.load(file, name))
    default = topology.load(topology.default_file())
    name = name or default.name
    record = state.load(name)
    if record is not None and record.topology:
        return Lab.from_topology(topology.load(Path(record.topology), name))
    if default.name == name:
        return Lab.from_topology(default)
    raise LabError(
        f"nothing is known of lab {name}" + (", its state file is torn" if record else ""),
        "name its topology file with --topology",
        BAD_INPUT,
    )


def plug_in(lab: Lab, node: Node) -> list[str]:
    """Plug in the cables of a running node that are missing or down; return the netdevs made."""
    made = lab.kind(node).plug_in(node, lab.network.node_links(node))
    shape_rails(lab, node)
    return made


def start(lab: Lab, node: Node) -> None:
    """Power a node on, its rails shaped as the topology says."""
    lab.kind(node).start(node, lab.network.node_links(node))
    shape_rails(lab, node)


def shape_rails(lab: Lab, node: Node) -> None:
    """Give each rail of a node the rate that the topology declares."""
    for position, rail in enumerate(lab.topology.rails):
        lab.kind(node).shape(node, rail_link(lab, node, position), rail.rate_gbps)


def rail_link(lab: Lab, node: Node, rail_position: int) -> Link:
    """Return the cable of a node's rail."""
    return lab.network.node_links(node)[1 + rail_position]


def await_ready(
    lab: Lab,
    node: Node,
    interrupted: Event,
    say: Callable[[str], None] | None = None,
    patience: float | None = None,
) -> None:
    """Wait until the node answers SSH with its own host key, lets us be root, and systemd has come to rest.

    Args:
        lab: the node's lab.
        node: the node.
        interrupted: ends the waiting when it is set.
        say: takes a line now and then.
        patience: by how much the deadline is longer than on a machine of the usual speed; None: as measured
            when the lab came up.

    Raises:
        LabError: not within the time that its kind may take, or switched off or stuck meanwhile (with the end
            of its console), or with failed units, which the message names.
    """
    kind, began = lab.kind(node), time.monotonic()
    limit_s = kind.boot_deadline_s * (state.time_factor(lab.name) if patience is None else patience)
    deadline, next_word = began + limit_s, began + _WORD_EVERY_S
    said = "no answer on port 22"
    dead_end = kind.watch(node.name)
    while time.monotonic() < deadline:
        if interrupted.is_set():
            raise LabError(f"{node.name}: interrupted while it was starting")
        if time.monotonic() >= next_word:
            next_word += _WORD_EVERY_S
            if not kind.states().get(node.name, NodeState("absent")).pid:
                raise LabError(f"{node.name} went off while it was starting", kind.last_output(node.name))
            stands_at = dead_end()
            if stands_at:
                raise LabError(
                    f"{node.name} does not come up: its console is stuck at {stands_at!r}",
                    kind.last_output(node.name),
                )
            if say is not None:
                waited_s = time.monotonic() - began
                say(f"{node.name} ({node.kind}) is booting, {waited_s:.0f} s so far: {said}")
        if not _ssh_answers(str(node.address)):
            time.sleep(0.2)
            continue
        said = "SSH answers, services are starting"
        answer = run(
            lab.keys.ssh_argv(node, "sudo", "-n", "systemctl", "is-system-running", "--wait"),
            check=False,
            timeout_s=limit_s,
        )
        if answer.stdout.strip() == "running":
            return
        if answer.stdout.strip() == "degraded":
            units = run(
                lab.keys.ssh_argv(node, "systemctl", "--failed", "--no-legend", "--plain"), check=False
            ).stdout.strip()
            raise LabError(f"{node.name}: systemd came up with failed units:\n    {units}")
        said = (answer.stdout + answer.stderr).strip() or said
        time.sleep(0.5)  # "System is booting up": logins are not open yet
    raise LabError(
        f"{node.name} ({node.address}): not ready after {limit_s:.0f} s: {said}",
        kind.last_output(node.name),
    )


def _ssh_answers(address: str) -> bool:
    """Return whether an sshd says that it is one; patient, since each try costs a slow node a process."""
    try:
        with socket.create_connection((address, 22), timeout=1) as connection:
            connection.settimeout(_BANNER_S)
            return connection.recv(4) == b"SSH-"
    except OSError:
        return False
