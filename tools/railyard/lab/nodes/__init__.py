"""What the lab asks of a node, whatever it is made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from railyard.lab.apt import AptSettings
from railyard.lab.seed import Content
from railyard.lab.topology import Image, Node

Condition = Literal["absent", "stopped", "running", "hung"]


@dataclass(frozen=True)
class NodeState:
    """What was found of a node.

    Attributes:
        condition: `hung` is a node that is there and does nothing.
        pid: the process on this host that is the node (a container's process 1, a VM's QEMU); 0: it is off.
        made_of: what it was made from, to be compared with `NodeKind.made_of`.
        checkout: the checkout whose `lab up` made it.
    """

    condition: Condition
    pid: int = 0
    made_of: str = ""
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
    """A way to make the nodes of one lab. Each method is safe to repeat."""

    # How long a node may take from power on to a systemd at rest.
    boot_deadline_s: float
    # Faults that make no sense on such a node, and why.
    no_faults: Mapping[str, str]

    def ensure_image(self, image: Image, settings: AptSettings, say: Callable[[str], None]) -> str:
        """Return the name of the image that nodes are made from, building it first where it is missing."""

    def remove_unused_images(self) -> list[str]:
        """Remove the images that no node is made of; return their names."""

    def states(self) -> dict[str, NodeState]:
        """Return what there is of this lab by node name; an absent node is left out."""

    def made_of(self, node: Node, image: str) -> str:
        """Return what a node would be made of today; another one found in its place is outdated."""

    def create(self, node: Node, image: str, content: Content, links: list[Link]) -> None:
        """Make a node that does not run yet, with its own files laid over its root."""

    def start(self, node: Node, links: list[Link]) -> None:
        """Power it on, with its cables plugged in: rails down and bare."""

    def plug_in(self, node: Node, links: list[Link]) -> list[str]:
        """Repair the cables of a running node; return the netdevs that were created again."""

    def carries(self, node: Node, content: Content) -> bool:
        """Return whether these files of the node's own are on it as they should be."""

    def reseed(self, node: Node, content: Content, links: list[Link]) -> None:
        """Lay files over the root of a node that runs; it answers with them when it is ready again."""

    def as_root(self, node: Node, *command: str) -> list[str]:
        """Return the argv that runs the node's own `command` as its root."""

    def set_carrier(self, link: Link, node: Node, *, up: bool) -> None:
        """Pull a cable, or put it back; a cable that is not there stays away."""

    def shape(self, node: Node, link: Link, rate_gbps: float | None) -> None:
        """Slow a cable down in both directions, each where it is sent; None takes the limit away."""

    def rate_gbps(self, node: Node, link: Link) -> float | None:
        """Return the rate that the node's sending is shaped to, or None."""

    def freeze(self, name: str) -> None:
        """Stop everything that runs on it; its plug and cables stay in."""

    def thaw(self, name: str) -> None:
        """Let it go on."""

    def kill(self, name: str) -> None:
        """Pull the plug; its file system stays."""

    def remove(self, names: list[str]) -> None:
        """Remove nodes by name, whatever state they are in."""

    def last_output(self, name: str) -> str:
        """Return the end of the output of a node that does not come up, or ""."""

    def watch(self, name: str) -> Callable[[], str]:
        """Return a function that tells where a node's boot is stuck since now; "" while it goes on."""
