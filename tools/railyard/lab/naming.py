"""What the lab's things are called on this host.

Every name holds the lab's name (which has no dash), so that `down` finds all of a lab without any record of
it and never takes another lab's things.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from railyard.base.paths import repo_root
from railyard.lab.topology import Node

MANAGEMENT_BRIDGE = "mgmt"
LABEL_LAB = "railyard.lab"
LABEL_CHECKOUT = "railyard.checkout"
LABEL_NODE = "railyard.node"
LABEL_RECIPE = "railyard.recipe"


def lab_root() -> Path:
    """Return the folder that holds one folder of state per lab (git-ignored)."""
    return repo_root() / ".lab"


def lab_dir(lab: str) -> Path:
    """Return the folder of one lab: keys, state, the nodes' own sysfs trees."""
    return lab_root() / lab


def on_host(lab: str, node: str) -> str:
    """Return what a node (its container, its QEMU) is called on this host."""
    return f"railyard-{lab}-{node}"


def node_dir(lab: str, node: str) -> Path:
    """Return the folder of one node's files on this host."""
    return lab_dir(lab) / "nodes" / node


def vm_images() -> Path:
    """Return the folder of the VM images, one folder per recipe; labs come and go, it stays."""
    return lab_root() / ".images"


def namespace(lab: str) -> str:
    """Return the name of the network namespace that holds the lab's bridges."""
    return f"railyard-{lab}"


def stranger_namespace(lab: str, rail_position: int, node_position: int) -> str:
    """Return the name of the namespace where a duplicate address lives."""
    return f"railyard-{lab}-stranger-{node_position}-{rail_position}"


def controller_link(lab: str) -> str:
    """Return the name of this host's link into the lab; 15 characters at most."""
    return f"ry-{lab}"


def rail_bridge(rail_position: int) -> str:
    """Return the bridge of a rail, inside the lab's namespace."""
    return f"rail{rail_position}"


def leg(node_position: int, rail_position: int | None) -> str:
    """Return the lab's end of a node's link; None is management."""
    return f"n{node_position}-mgmt" if rail_position is None else f"n{node_position}-rail{rail_position}"


def stranger_leg(node_position: int, rail_position: int) -> str:
    """Return the lab's end of the link to a rival host."""
    return f"x{node_position}-rail{rail_position}"


def mac(lab: str, node: Node | str, link: str) -> str:
    """Return a locally administered unicast MAC that is always the same for a lab, node and link."""
    name = node if isinstance(node, str) else node.name
    digest = hashlib.sha256(f"{lab}/{name}/{link}".encode()).digest()
    return ":".join(f"{byte:02x}" for byte in (0x02, *digest[:5]))
