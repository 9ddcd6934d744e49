"""Who the nodes of a new inventory are: names, scalable units, indexes, and where Ansible reaches them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ansible_collections.railyard.fabric.plugins.module_utils.rails import plan
from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException

from railyard.base.options import Wrong

NODES_MAX = 16384
GROUP = "gpu_nodes"
_RESERVED: set[str | None] = {"all", "ungrouped", "localhost", GROUP}
_HOST = re.compile(r"(?=.{1,253}$)[A-Za-z0-9]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9])?")
_PART = re.compile(r"(?:\[[^\]]*\]|[^,!&^\[\]])+")
_RANGE = re.compile(r"([0-9]+)-([0-9]+)(?:/([0-9]+))?")
_PLACEHOLDER = re.compile(r"\{[^}]*\}|[{}]")
_NODES_FIX = "write them as 'gpu[001-032]' or 'gpu1,gpu2', in quotes"


@dataclass(frozen=True)
class NewNode:
    """One node as hosts.yml will name it; None where its line says nothing."""

    name: str
    scalable_unit: str | None = None
    node_index: int | None = None
    ansible_host: str | None = None

    @property
    def number(self) -> int | None:
        """The index that its addresses are computed from."""
        return plan.node_number(self.name, self.node_index)


def unfold(text: str, nodes_per_unit: int | None) -> tuple[list[NewNode], list[Wrong]]:
    """Return the nodes that a folded name stands for, sorted, each in its scalable unit.

    Args:
        text: what `--nodes` says; ClusterShell's syntax without its groups.
        nodes_per_unit: how many consecutive nodes make a unit, or None for a fabric without units.
    """
    if max((_width(part) for part in _PART.findall(text)), default=0) > NODES_MAX:
        return [], [("--nodes", f"{text!r} stands for more than {NODES_MAX} names", _NODES_FIX)]
    try:
        names = list(NodeSet(text, resolver=RESOLVER_NOGROUP))
    except NodeSetException as error:
        return [], [("--nodes", f"{text!r} cannot be unfolded: {error}", _NODES_FIX)]
    if not names:
        return [], [("--nodes", f"{text!r} names no node", _NODES_FIX)]
    if len(names) > NODES_MAX:
        return [], [("--nodes", f"{text!r} stands for more than {NODES_MAX} names", _NODES_FIX)]
    units: list[str | None] = [None] * len(names)
    if nodes_per_unit is not None and nodes_per_unit > 0:
        units = [f"su{place // nodes_per_unit + 1}" for place in range(len(names))]
    wrong = [
        ("--nodes", f"{name!r} is no name of a host", "write letters, digits, `-`, `_` and `.`")
        for name in names
        if not _HOST.fullmatch(name) or any(len(label) > 63 for label in name.split("."))
    ]
    taken = _RESERVED.union(units)
    wrong += [
        ("--nodes", f"{name!r} means something else to Ansible here", "give the node another name")
        for name in names
        if name in taken
    ]
    return [NewNode(name, unit) for name, unit in zip(names, units, strict=True)], wrong


def _width(part: str) -> int:
    """Return how many names a part stands for at most, without making them."""
    width = 1
    for inside in re.findall(r"\[([^\]]*)\]", part):
        width *= sum(_range_width(item) for item in inside.split(","))
    return width


def _range_width(item: str) -> int:
    match = _RANGE.fullmatch(item.strip())
    if match is None:
        return 1
    step = int(match.group(3) or 1) or 1
    return max(1, (int(match.group(2)) - int(match.group(1))) // step + 1)


def number(
    nodes: list[NewNode], lowest: int, highest: int, host_offset: int | None
) -> tuple[list[NewNode], int]:
    """Choose each node's number so that its addresses are free ones, and what is added to it in each subnet.

    The number that ends the name is taken where it can be: it says which node an address belongs to, and
    stays when nodes are added. Where names end in no number, share one, or need more room than there is, the
    nodes are counted from 1 within their scalable unit, and hosts.yml says so.

    Args:
        nodes: from `unfold`.
        lowest: the lowest free address of a subnet, counted from the network's own.
        highest: the highest one.
        host_offset: what the user wants to be added to each number; None to choose.
    """
    numbers = [node.number for node in nodes]
    known = [one for one in numbers if one is not None]
    own = {(node.scalable_unit, one) for node, one in zip(nodes, numbers, strict=True)}
    if len(known) == len(nodes) == len(own):
        low, high = min(known), max(known)
        for offset in (0, lowest - low) if host_offset is None else (host_offset,):
            if lowest <= low + offset and high + offset <= highest:
                return nodes, offset
    counts: dict[str | None, int] = {}
    counted = []
    for node in nodes:
        counts[node.scalable_unit] = counts.get(node.scalable_unit, 0) + 1
        counted.append(replace(node, node_index=counts[node.scalable_unit]))
    return counted, lowest - 1 if host_offset is None else host_offset


def reach(nodes: Sequence[NewNode], pattern: str | None) -> tuple[list[NewNode], list[Wrong]]:
    """Give each node its `ansible_host`.

    Args:
        nodes: their order decides where a first address is counted up from.
        pattern: text with `{name}` or `{index}`, or the first node's IP address; None to write none.
    """
    option, fix = (
        "--ansible-host",
        "write '{name}.example.org', '10.1.0.{index}', or the first node's address",
    )
    if pattern is None:
        return list(nodes), []
    unknown = sorted(set(_PLACEHOLDER.findall(pattern)) - {"{name}", "{index}"})
    if unknown:
        return list(nodes), [(option, f"{pattern!r}: {', '.join(unknown)} is not known", fix)]
    addresses = list(_addresses(nodes, pattern))
    wrong: list[Wrong] = []
    if None in addresses:
        node = nodes[addresses.index(None)]
        wrong.append((option, f"{pattern!r} gives {node.name} no address or name of a host", fix))
    elif len(set(addresses)) < len(nodes):
        wrong.append((option, f"{pattern!r} gives several nodes the same address", fix))
    reached = [replace(node, ansible_host=where) for node, where in zip(nodes, addresses, strict=True)]
    return reached, wrong


def _addresses(nodes: Sequence[NewNode], pattern: str) -> Iterator[str | None]:
    first = _ip(pattern)
    for place, node in enumerate(nodes):
        if first is not None:
            yield _ip_text(first, place)
        elif "{index}" in pattern and node.number is None:
            yield None
        else:
            text = pattern.replace("{name}", node.name).replace("{index}", str(node.number))
            # 10.1.0.300 would pass for a name.
            like_address = re.fullmatch(r"[0-9.]+", text) or ":" in text
            sound = _ip(text) is not None if like_address else _HOST.fullmatch(text)
            yield text if sound else None


def _ip(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(text)
    except ValueError:
        return None


def _ip_text(first: ipaddress.IPv4Address | ipaddress.IPv6Address, place: int) -> str | None:
    try:
        return str(first + place)
    except ipaddress.AddressValueError:
        return None
