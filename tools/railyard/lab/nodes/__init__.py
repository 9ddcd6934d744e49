"""What the lab asks of a node, whatever it is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

from railyard.lab.topology import Node

Condition = Literal["absent", "stopped", "running", "hung"]


@dataclass(frozen=True)
class NodeState:
    """What was found of a node; `pid` is a process in its network namespace (0: it does not run)."""

    condition: Condition
    pid: int = 0
    image: str = ""
    checkout: str = ""


@dataclass(frozen=True)
class Link:
    """One cable from a bridge of the lab to a node."""

    bridge: str
    outer: str
    outer_mac: str
    netdev: str
    mac: str
    mtu_bytes: int


class NodeKind(Protocol):
    """A way to make nodes. Each method is safe to repeat."""

    def states(self) -> dict[str, NodeState]:
        """Return what there is of this lab by node name; an absent node is left out."""

    def create(self, node: Node, image: str, seed: bytes) -> None:
        """Make a node that does not run yet, with the tar `seed` laid over its root."""

    def start(self, name: str) -> int:
        """Power it on and return its process id."""

    def reseed(self, name: str, seed: bytes) -> None:
        """Lay a tar over the root of a node that exists."""

    def link_commands(self, node_pid: int, link: Link) -> list[str]:
        """Return lines for `ip -batch`, run in the lab's namespace, that plug one cable in."""

    def in_network(self, node_pid: int, *command: str) -> list[str]:
        """Return the argv that runs this host's `command` in the node's network namespace."""

    def inside(self, node_pid: int, *command: str) -> list[str]:
        """Return the argv that runs the node's own `command` as its root."""

    def freeze(self, name: str) -> None:
        """Stop everything that runs on it, while its kernel still answers."""

    def thaw(self, name: str) -> None:
        """Let it go on."""

    def kill(self, name: str) -> None:
        """Pull the plug; its file system stays."""

    def remove(self, names: list[str]) -> None:
        """Remove nodes by name, whatever state they are in."""
