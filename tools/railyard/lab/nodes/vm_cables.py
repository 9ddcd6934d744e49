"""A VM's cables in the lab's namespace: tap, bridge of two ports, veth to the rail's bridge.

    QEMU ─ n0-rail0-tap ═ n0-rail0-br ═ n0-rail0-in ─── n0-rail0 ═ rail0

The bridge in between gives each direction an end that sends, so that both can be shaped outside the guest,
where no reboot undoes it: the tap sends to the node, `-in` sends what comes from it.
"""

from __future__ import annotations

from railyard.lab.network import BRIDGE, Namespace
from railyard.lab.nodes import Link
from railyard.lab.nodes.vm_argv import tap


def senders(link: Link) -> tuple[str, str]:
    """Return the links by which a cable sends to the node, and away from it."""
    return tap(link), f"{link.outer}-in"


def commands(link: Link, there: set[str]) -> list[str]:
    """Return the lines of `ip -batch` that make one cable whole.

    Args:
        link: the cable.
        there: names of the links that there are.
    """
    to_node, from_node = senders(link)
    bridge, mtu = f"{link.outer}-br", link.mtu_bytes
    lines = []
    if from_node not in there:
        lines.append(
            f"link add {link.outer} address {link.outer_mac} mtu {mtu}"
            f" type veth peer name {from_node} mtu {mtu}"
        )
    if bridge not in there:
        lines.append(f"link add {bridge} {BRIDGE}")
    if to_node not in there:
        lines.append(f"tuntap add dev {to_node} mode tap")
    lines += [f"link set {end} mtu {mtu} master {bridge} up" for end in (to_node, from_node)]
    return [*lines, f"link set {bridge} mtu {mtu} up", f"link set {link.outer} master {link.bridge} up"]


def make(namespace: Namespace, links: list[Link]) -> list[str]:
    """Make the cables, or what is missing of them; return the netdevs whose cable had to be made."""
    there = set(namespace.links())
    for link in links:
        if link.outer in there and senders(link)[1] not in there:  # a container's, of before
            namespace.remove_link(link.outer)
    namespace.batch(line for link in links for line in commands(link, there))
    return [link.netdev for link in links if not {link.outer, *senders(link)} <= there]


def unplugged(namespace: Namespace, links: list[Link]) -> bool:
    """Return whether a tap has no QEMU at its other end (it has no carrier then)."""
    there = namespace.links()
    return any("LOWER_UP" not in there[tap(link)]["flags"] for link in links)


def remove(namespace: Namespace, position: int) -> None:
    """Remove all cables of the node at a place of the topology."""
    for name in sorted(namespace.links()):
        if name.startswith(f"n{position}-") and name.rpartition("-")[2] in ("tap", "br", "in"):
            namespace.remove_link(name)
