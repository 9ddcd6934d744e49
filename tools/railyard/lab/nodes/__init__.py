"""What the lab knows of a node, whatever it is made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Condition = Literal["absent", "stopped", "running", "hung"]


@dataclass(frozen=True)
class NodeState:
    """What was found of a node.

    Attributes:
        condition: `hung` is a node that is there and does nothing.
        pid: the process on this host that is the node (a container's process 1, a VM's QEMU); 0: it is off.
        made_of: what it was made from, to be compared with `made_of` of its kind.
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
