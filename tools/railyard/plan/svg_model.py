"""What the drawing of a plan holds: nodes alike folded into boxes, boxes on the same leaves into bands."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import fold_names
from netaddr import IPAddress, IPNetwork

# Nodes that share a box, and boxes that share a band, agree in these.
_BAND_KEYS = ("leaf", "subnet", "subnet6", "gateway", "gateway6")
_BOX_KEYS = ("netdev", "hca", "pci", "vlan", "mtu", "rate_gbps", "shares_wire_with")
# Up to so many bands are all drawn; of more, those that are alike become one.
_BANDS_APART_MAX = 4
_BANDS_MAX = 12
_BOXES_MAX = 8

# ClusterShell has operators (`a&b` is the intersection), so such names are not folded.
_FOLDABLE = re.compile(r"[A-Za-z0-9_./:-]+")

Rail = Mapping[str, Any]


@dataclass
class Box:
    """Nodes whose rails differ in nothing but their addresses."""

    names: list[str]
    ports: list[Rail | None]
    """One per rail of the drawing, of the first node; None where these nodes have no such rail."""
    addresses: list[list[str]]
    """Per rail, the nodes' bare addresses, IPv6 after IPv4."""
    kinds: int = 1
    """More than 1 where unlike nodes had to be put together."""

    @property
    def label(self) -> str:
        """The nodes' folded name."""
        return folded(self.names)


@dataclass
class Leaf:
    """A switch and what is known of it.

    Attributes:
        name: as in the inventory.
        down_gbps: the rates of all ports that are patched to it, in 10^9 bit/s; None where one is unknown.
        up_gbps: the rates of all its uplinks; None where the inventory does not say.
        down_links: how many ports are patched to it.
        up_links: how many uplinks it has, all as fast as those ports; None where only rates are known.
        sets: how many sets of boxes hang on it; the rates are those of all of them together.
    """

    name: str
    down_gbps: float | None = 0.0
    up_gbps: float | None = None
    down_links: int = 0
    up_links: int | None = None
    sets: int = 0

    @property
    def oversubscription(self) -> float | None:
        """How much more can come from the nodes than fits through the uplinks; None where it is not known."""
        if self.up_links:
            return self.down_links / self.up_links
        return None if self.down_gbps is None or not self.up_gbps else self.down_gbps / self.up_gbps


@dataclass(frozen=True)
class Spines:
    """Switches above all leaves: how many, and how many links each leaf has to all of them together."""

    count: int
    links_per_leaf: int


@dataclass
class Band:
    """Boxes that hang on the same leaves and subnets; several such sets, where these are alike."""

    links: list[list[Rail | None]]
    """Per rail of the drawing, one rail of each set that was folded into this band."""
    boxes: list[Box]
    units: list[str] = field(default_factory=list)
    nvlink_domains: list[str] = field(default_factory=list)

    @property
    def copies(self) -> int:
        """How many sets were folded into this band."""
        return len(self.links[0]) if self.links else 1


@dataclass
class Drawing:
    """All that is drawn, in its order."""

    plan: Mapping[str, Any]
    rails: list[str]
    bands: list[Band]
    leaves: dict[str, Leaf]
    left_out: list[str]
    """Nodes of bands that are too many to be drawn."""
    spines: Spines | None = None

    @property
    def pair(self) -> bool:
        """Whether two nodes are cabled to each other."""
        facing = len(self.bands) == 1 and [len(box.names) for box in self.bands[0].boxes] == [1, 1]
        return facing and self.plan["cabling"] == "back_to_back"


def arrange(plan: Mapping[str, Any], uplinks: Mapping[str, float], spines: Spines | None = None) -> Drawing:
    """Fold a plan for drawing; linear in its nodes.

    Args:
        plan: from `build_plan`.
        uplinks: leaf → rate of all its uplinks together, in 10^9 bit/s.
        spines: what is above the leaves, where it is known; then links are shown, not rates.
    """
    nodes = {
        name: {**node, "rails": [_as_shared(rail) for rail in node["rails"]]}
        for name, node in plan["nodes"].items()
    }
    rails = list(dict.fromkeys(rail["name"] for node in nodes.values() for rail in node["rails"]))
    leaves = _leaves(nodes.values(), uplinks, spines)
    bands: dict[tuple[Any, ...], Band] = {}
    for (links, _ports, _apart), names in kinds(plan, rails).items():
        key = next((known for known in bands if _agree(known, links)), None)
        box = _box(nodes, rails, names)
        units = [
            str(nodes[name]["scalable_unit"]) for name in names if nodes[name]["scalable_unit"] is not None
        ]
        band = bands.pop(key) if key is not None else Band([[None] for _rail in rails], [])
        for index, port in enumerate(box.ports):
            band.links[index][0] = band.links[index][0] or port
        band.boxes.append(box)
        band.units = list(dict.fromkeys([*band.units, *units]))
        domains = [nodes[name]["nvlink_domain"] for name in names if nodes[name].get("nvlink_domain")]
        band.nvlink_domains = list(dict.fromkeys([*band.nvlink_domains, *domains]))
        bands[_joined(key, links)] = band
    place = {name: index for index, name in enumerate(nodes)}
    ordered = sorted(bands.values(), key=lambda band: place[band.boxes[0].names[0]])
    for band in ordered:
        for name in {rails[0]["leaf"] for rails in band.links if rails[0] and rails[0]["leaf"]}:
            leaves[name].sets += 1
    drawn = _fold_alike(ordered, leaves) if len(ordered) > _BANDS_APART_MAX else ordered
    for band in drawn:
        _fold_boxes(band)
    left_out = [name for band in drawn[_BANDS_MAX:] for box in band.boxes for name in box.names]
    return Drawing(plan, rails, drawn[:_BANDS_MAX], leaves, left_out, spines)


def kinds(plan: Mapping[str, Any], rails: Sequence[str]) -> dict[tuple[Any, ...], list[str]]:
    """Return links, ports, apart → the nodes that agree in them: only names and addresses differ."""
    found: dict[tuple[Any, ...], list[str]] = {}
    for name, node in plan["nodes"].items():
        by_name = {rail["name"]: _as_shared(rail) for rail in node["rails"]}
        links = tuple(_values(by_name.get(rail), _BAND_KEYS) for rail in rails)
        ports = tuple(_values(by_name.get(rail), _BOX_KEYS) for rail in rails)
        # Two nodes on one cable are not folded: the cable would go from a box to itself.
        apart = name if plan["cabling"] == "back_to_back" else None
        found.setdefault((links, ports, apart), []).append(name)
    return found


def _as_shared(rail: Rail) -> Rail:
    """Return a rail with the network that all nodes of its leaf are in, where each has a part of it."""
    parts = [family for family in ("", "6") if rail.get(f"divided_subnet{family}")]
    if not parts:
        return rail
    shared = {f"subnet{family}": rail[f"divided_subnet{family}"] for family in parts}
    return {**rail, **shared, **{f"gateway{family}": None for family in parts}}


def bond_of(rail: Rail) -> str:
    """Write what a rail that is a bond consists of: `802.3ad of 2 ports`."""
    return f"{rail['bond']['mode']} of {len(rail['bond']['ports'])} ports"


def part_of(rail: Rail, family: str) -> str | None:
    """Write how long a node's part of a rail's subnet is: `a /31 for each node`; None where it is shared."""
    address = rail[f"address{family}"]
    divided = rail.get(f"divided_subnet{family}")
    return f"a /{address.split('/', 1)[1]} for each node" if divided and address else None


def _leaves(
    nodes: Iterable[Mapping[str, Any]], uplinks: Mapping[str, float], spines: Spines | None
) -> dict[str, Leaf]:
    leaves: dict[str, Leaf] = {}
    for node in nodes:
        for rail in node["rails"]:
            if rail["leaf"] is None:
                continue
            name, up_links = rail["leaf"], None if spines is None else spines.links_per_leaf
            leaf = leaves.setdefault(name, Leaf(name, up_gbps=uplinks.get(name), up_links=up_links))
            leaf.down_links += 1
            known = leaf.down_gbps is not None and rail["rate_gbps"] is not None
            leaf.down_gbps = leaf.down_gbps + rail["rate_gbps"] if known else None
    return leaves


def _values(rail: Rail | None, keys: Sequence[str]) -> tuple[Any, ...] | None:
    return None if rail is None else tuple(rail.get(key) for key in keys)


def _agree(one: Sequence[Any], other: Sequence[Any]) -> bool:
    """Tell whether two sets of links are the same wherever both have a rail, and share one at least."""
    both = [(a, b) for a, b in zip(one, other, strict=True) if a is not None and b is not None]
    return bool(both) and all(a == b for a, b in both)


def _joined(one: Sequence[Any] | None, other: tuple[Any, ...]) -> tuple[Any, ...]:
    return other if one is None else tuple(a if a is not None else b for a, b in zip(one, other, strict=True))


def _box(nodes: Mapping[str, Any], rails: Sequence[str], names: list[str]) -> Box:
    first = {rail["name"]: rail for rail in nodes[names[0]]["rails"]}
    addresses: dict[str, list[str]] = {rail: [] for rail in rails}
    for family in ("address", "address6"):
        for name in names:
            for rail in nodes[name]["rails"]:
                if rail[family] is not None:
                    addresses[rail["name"]].append(rail[family].split("/", 1)[0])
    return Box(names, [first.get(rail) for rail in rails], [addresses[rail] for rail in rails])


def _fold_alike(bands: Sequence[Band], leaves: Mapping[str, Leaf]) -> list[Band]:
    """Make one band of those that differ in names and addresses alone."""
    alike: dict[tuple[Any, ...], Band] = {}
    for band in bands:
        links = tuple(_likeness(rails[0], leaves) for rails in band.links)
        # Equal leaves side by side look different from leaves of their own.
        names = [rails[0]["leaf"] if rails[0] else None for rails in band.links]
        pattern = tuple(names.index(name) for name in names)
        boxes = tuple(
            (len(box.names), tuple(_values(port, _BOX_KEYS) for port in box.ports)) for box in band.boxes
        )
        known = alike.setdefault((links, pattern, boxes), band)
        if known is band:
            continue
        known.units = list(dict.fromkeys([*known.units, *band.units]))
        known.nvlink_domains = list(dict.fromkeys([*known.nvlink_domains, *band.nvlink_domains]))
        for mine, theirs in zip(known.links, band.links, strict=True):
            mine += theirs
        for mine_box, their_box in zip(known.boxes, band.boxes, strict=True):
            _absorb(mine_box, their_box)
    return list(alike.values())


def _likeness(rail: Rail | None, leaves: Mapping[str, Leaf]) -> tuple[Any, ...] | None:
    if rail is None:
        return None
    leaf = leaves.get(rail["leaf"] or "")
    lengths = [rail[key] and rail[key].split("/", 1)[1] for key in ("subnet", "subnet6")]
    return (*lengths, rail["gateway"] is None, leaf and (leaf.down_gbps, leaf.up_gbps))


def _fold_boxes(band: Band) -> None:
    """Put what is beyond the most boxes together, and say so."""
    rest = band.boxes[_BOXES_MAX - 1 :]
    if len(rest) < 2:
        return
    for other in rest[1:]:
        _absorb(rest[0], other)
    rest[0].kinds = len(rest)
    del band.boxes[_BOXES_MAX:]


def _absorb(box: Box, other: Box) -> None:
    box.names += other.names
    for mine, theirs in zip(box.addresses, other.addresses, strict=True):
        mine += theirs
    box.ports = [mine or theirs for mine, theirs in zip(box.ports, other.ports, strict=True)]


def folded(names: Iterable[str]) -> str:
    """Fold names of nodes, units or leaves to one text, as `gpu[001-032]`."""
    distinct = list(dict.fromkeys(names))
    if len(distinct) == 1 or not all(_FOLDABLE.fullmatch(name) for name in distinct):
        return ", ".join(distinct)
    return fold_names(distinct)


def span(addresses: Iterable[str], version: int) -> list[str]:
    """Write the first and last of many addresses of one family: `10.0.1.1 … .32`, or on two lines."""
    found = sorted(address for text in addresses if (address := IPAddress(text)).version == version)
    if not found:
        return []
    first, last = str(found[0]), str(found[-1])
    if first == last:
        return [first]
    separator = "." if version == 4 else ":"
    head = first.rpartition(separator)[0] + separator
    joint = "\u2013" if int(found[-1]) - int(found[0]) == len(found) - 1 else "…"
    if last.startswith(head):
        return [f"{first} {joint} {separator}{last[len(head) :]}"]
    return [first, f"{joint} {last}"]


def networks(texts: Iterable[str | None]) -> list[str]:
    """Write one network, or the first and last of several on two lines."""
    found = sorted({text for text in texts if text}, key=IPNetwork)
    return found if len(found) < 2 else [found[0], f"… {found[-1]}"]
