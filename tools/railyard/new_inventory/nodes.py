"""Who the nodes of a new inventory are: names, scalable units, indexes, and where Ansible reaches them."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from ansible_collections.railyard.fabric.plugins.module_utils.rails import plan
from ClusterShell.NodeSet import RESOLVER_NOGROUP, NodeSet, NodeSetException
from ClusterShell.RangeSet import RangeSet, RangeSetException

from railyard.base.options import Wrong

NODES_MAX = 16384
GROUP = "gpu_nodes"
_RESERVED: set[str | None] = {"all", "ungrouped", "localhost", GROUP}
_HOST = re.compile(r"(?=.{1,253}$)[A-Za-z0-9]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9])?")
# Directory services have names as ops@example.org and EXAMPLE\\ops; braces would be an expression to Ansible.
_USER = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.@\\-]*\$?")
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
    ansible_user: str | None = None
    bmc_address: str | None = None

    @property
    def number(self) -> int | None:
        """The index that its addresses are computed from."""
        return plan.node_number(self.name, self.node_index)


def is_host_name(text: str) -> bool:
    """Tell whether a text can be the name of a host in an inventory."""
    return bool(_HOST.fullmatch(text)) and all(len(label) <= 63 for label in text.split("."))


def is_login_name(text: str) -> bool:
    """Tell whether a text can be the name of the user to log in as."""
    return bool(_USER.fullmatch(text))


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
        return [], [("--nodes", f"{text!r} is not a valid node range: {error}", _NODES_FIX)]
    if not names:
        return [], [("--nodes", f"{text!r} names no node", _NODES_FIX)]
    if len(names) > NODES_MAX:
        return [], [("--nodes", f"{text!r} stands for more than {NODES_MAX} names", _NODES_FIX)]
    return in_units(names, nodes_per_unit, "--nodes")


def in_units(
    names: Sequence[str], nodes_per_unit: int | None, place: str
) -> tuple[list[NewNode], list[Wrong]]:
    """Return nodes of these names, each in its scalable unit, and what is wrong with the names.

    Args:
        names: in the order of hosts.yml.
        nodes_per_unit: as for `unfold`.
        place: where the names were given.
    """
    units: list[str | None] = [None] * len(names)
    if nodes_per_unit is not None and nodes_per_unit > 0:
        units = [f"su{index // nodes_per_unit + 1}" for index in range(len(names))]
    wrong = [
        (place, f"{name!r} is no name of a host", "write letters, digits, `-`, `_` and `.`")
        for name in names
        if not is_host_name(name)
    ]
    taken = _RESERVED.union(units)
    wrong += [
        (place, f"{name!r} means something else to Ansible here", "give the node another name")
        for name in names
        if name in taken
    ]
    return [NewNode(name, unit) for name, unit in zip(names, units, strict=True)], wrong


def is_free_name(text: str) -> bool:
    """Tell whether a text can be the name of a node: a host's name that means nothing else to Ansible."""
    return is_host_name(text) and text not in _RESERVED


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


def in_typed_order(text: str) -> list[str]:
    """Return names that are folded or listed with commas, in the order in which they are written.

    Raises:
        ValueError, RangeSetException: the text is no list of names.
    """
    return [name for part in re.split(r",(?![^\[]*\])", text) for name in _unfolded(part)]


def _unfolded(part: str) -> list[str]:
    """Return the names of `ens[7,5]` in its order; a NodeSet would sort them onto other ports."""
    head, bracket, rest = part.strip().partition("[")
    if not bracket:
        if not head or re.search(r"[\s\]]", head):
            raise ValueError(f"{part!r} is no name")
        return [head]
    inside, closing, tail = rest.partition("]")
    if not closing or re.search("[0-9]{6}", inside):
        raise ValueError(f"{part!r} has a bracket that is not closed, or too large a number")
    numbers = [number for item in inside.split(",") for number in RangeSet(item).striter()]
    return [head + number + ending for number in numbers for ending in (_unfolded(tail) if tail else [""])]


def reach(
    nodes: Sequence[NewNode], pattern: str | None, typed: str = ""
) -> tuple[list[NewNode], list[Wrong]]:
    """Give each node its `ansible_host`.

    Args:
        nodes: their order decides where a first address is counted up from.
        pattern: text with `{name}` or `{index}`, a list of one address or name a node, or the first node's IP
            address; None to write none.
        typed: the nodes as the user wrote them, in whose order a list is.
    """
    addresses, wrong = _one_for_each("--ansible-host", nodes, pattern, typed)
    return [replace(node, ansible_host=addresses.get(node.name)) for node in nodes], wrong


def add_bmcs(
    nodes: Sequence[NewNode], pattern: str | None, typed: str = ""
) -> tuple[list[NewNode], list[Wrong]]:
    """Give each node its `bmc_address`, and say where it is the one by which a node is reached.

    Args:
        nodes: with their `ansible_host`.
        pattern: as for `reach`.
        typed: as for `reach`.
    """
    addresses, wrong = _one_for_each("--bmc-address", nodes, pattern, typed)
    owners = {address: name for name, address in addresses.items()}
    for node in nodes:
        if node.ansible_host in owners and not wrong:
            what = (
                f"{node.ansible_host} of {node.name} is the address of the BMC of {owners[node.ansible_host]}"
            )
            fix = "give each node's address, as 192.168.1.73,192.168.1.71 in the order of --nodes"
            return list(nodes), [("--ansible-host", what, fix)]
    return [replace(node, bmc_address=addresses.get(node.name)) for node in nodes], wrong


def is_counted_up(pattern: str | None) -> bool:
    """Tell whether a pattern is the first node's address alone, from which the others' are counted up."""
    return pattern is not None and _ip(pattern) is not None


def _one_for_each(
    option: str, nodes: Sequence[NewNode], pattern: str | None, typed: str
) -> tuple[dict[str, str], list[Wrong]]:
    """Return node -> its address, and what is wrong with the pattern that gives them."""
    fix = "write '{name}.example.org', '10.1.0.{index}', a list with commas, or the first node's address"
    if pattern is None:
        return {}, []
    unknown = sorted(set(_PLACEHOLDER.findall(pattern)) - {"{name}", "{index}"})
    if unknown:
        return {}, [(option, f"{pattern!r}: {', '.join(unknown)} is not known", fix)]
    names = [node.name for node in nodes]
    if "," in pattern or "[" in pattern:
        try:
            listed = in_typed_order(pattern)
        except (ValueError, RangeSetException) as error:
            return {}, [(option, str(error), fix)]
        if len(listed) != len(nodes):
            return {}, [
                (option, f"{pattern!r} is {len(listed)} for {len(nodes)} nodes", "give one for each node")
            ]
        names = _as_typed(names, typed)
        addresses = [one if _is_reachable(one) else None for one in listed]
    else:
        addresses = list(_addresses(nodes, pattern))
    if None in addresses:
        name = names[addresses.index(None)]
        return {}, [(option, f"{pattern!r} gives {name} no address or name of a host", fix)]
    if len(set(addresses)) < len(nodes):
        return {}, [(option, f"{pattern!r} gives several nodes the same address", fix)]
    return {name: where for name, where in zip(names, addresses, strict=True) if where is not None}, []


def _as_typed(names: list[str], typed: str) -> list[str]:
    """Return the names in the order in which the user wrote them; sorted where he computed with sets."""
    try:
        written = list(dict.fromkeys(in_typed_order(typed)))
    except (ValueError, RangeSetException):
        return names
    return written if sorted(written) == sorted(names) else names


def _addresses(nodes: Sequence[NewNode], pattern: str) -> Iterator[str | None]:
    first = _ip(pattern)
    for place, node in enumerate(nodes):
        if first is not None:
            yield _ip_text(first, place)
        elif "{index}" in pattern and node.number is None:
            yield None
        else:
            text = pattern.replace("{name}", node.name).replace("{index}", str(node.number))
            yield text if _is_reachable(text) else None


def _is_reachable(text: str) -> bool:
    # 10.1.0.300 would pass for a name.
    like_address = re.fullmatch(r"[0-9.]+", text) or ":" in text
    return _ip(text) is not None if like_address else bool(_HOST.fullmatch(text))


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
