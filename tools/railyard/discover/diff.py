"""What differs between an inventory and its nodes: for `railyard discover --diff`. Pure."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import natural
from ansible_collections.railyard.fabric.plugins.module_utils.rails import bind
from ansible_collections.railyard.fabric.plugins.module_utils.records import facts as facts_record
from ansible_collections.railyard.fabric.plugins.module_utils.records import reader
from ansible_collections.railyard.fabric.plugins.module_utils.records.bare_node import BareNode

from railyard.discover import found as found_file
from railyard.discover import hearing, order
from railyard.discover.found import FoundPort
from railyard.discover.ports import Port, ports_of, short

_MISSING = "missing"


@dataclass(frozen=True)
class Difference:
    """One difference between an inventory and a node.

    `rail` is None where it is the node's; `what` is the thing: port, card, RDMA device, cable, rate ….
    """

    node: str
    rail: str | None
    what: str
    was: str
    now: str

    def text(self) -> str:
        """Return it as one line."""
        where = f"{self.node} {self.rail}" if self.rail else self.node
        return f"{where}: {self.what}: was {self.was}, is {self.now}"


def differences(
    plan: Mapping[str, Any], nodes: Mapping[str, BareNode], found: str | None = None
) -> list[Difference]:
    """Return what changed since the inventory was written, in the order of nodes and rails.

    Args:
        plan: the inventory's plan.
        nodes: name in the inventory → what the node says; nodes that did not answer are left out.
        found: the text of `discovered.txt` where the inventory has it. Without it a swapped card, a renamed
            RDMA device and a new port are seen only where the inventory names the card's MAC or device.
    """
    before: dict[str, list[FoundPort]] = defaultdict(list)
    for one in found_file.read(found or ""):
        before[one.node].append(one)
    has_file = bool(before)
    planned = {name: plan["nodes"][name] for name in sorted(nodes, key=natural) if name in plan["nodes"]}
    ports = {name: ports_of(name, nodes[name]) for name in planned}
    bound = {name: bind.bind(node["rails"], nodes[name]["facts"]) for name, node in planned.items()}
    rails = {
        name: {rail: _port(one, ports[name]) for rail, one in of_node.items()}
        for name, of_node in bound.items()
    }
    heard = order.domains(nodes)
    listened = hearing.listening(nodes)
    moved = _strayed_cables(planned, rails, heard, listened) | _moved_cables(rails, heard)
    changed: list[Difference] = []
    for name, node in planned.items():
        was = {one.rail: one for one in before[name] if one.rail}
        for rail in node["rails"]:
            port, of_file = rails[name][rail["name"]], was.get(rail["name"])
            if port is None and bound[name][rail["name"]].netdev is not None:
                changed += _of_bond(name, rail, ports[name])
                continue
            changed += _of_rail(name, rail, port or _same_place(of_file, ports[name]), of_file, moved)
        changed += _of_gpus(name, node.get("gpus"), nodes[name])
        if has_file and not before[name]:
            changed.append(Difference(name, None, f"node in {found_file.FILE}", _MISSING, "there"))
        changed += _other_ports(name, ports[name], before[name])
        changed += _new_ports(name, ports[name], [one for one in rails[name].values() if one], before[name])
    return changed


def _port(bound: bind.Bound, ports: Sequence[Port]) -> Port | None:
    """Return the port that a rail is bound to, None where it is not there."""
    netdev = (bound.netdev or {}).get("netdev")
    hca = ((bound.hca or bound.renamed) or {}).get("hca")
    if netdev is not None:
        # A VLAN's port is the one below it; a bond has none of its own.
        names = (netdev, netdev.rpartition(".")[0]) if bound.rail.get("vlan") else (netdev,)
        return next((port for port in ports if port.netdev in names), None)
    return next((port for port in ports if port.hca == hca), None) if hca is not None else None


def _of_rail(
    name: str, rail: Mapping[str, Any], port: Port | None, was: FoundPort | None, moved: Mapping[Port, str]
) -> Iterator[Difference]:
    selector = next((key for key in ("netdev", "mac", "pci", "hca") if rail.get(key)), "port")
    text = f"{selector} {rail.get(selector)}"
    if port is None:
        yield Difference(name, rail["name"], "port", text, _MISSING)
        return
    if selector == "netdev" and port.netdev != str(rail["netdev"]):
        yield Difference(name, rail["name"], "port", text, port.label)
    if was is not None:
        yield from _of_card(name, rail, port, was)
    named = rail.get("hca") or (was.rdma if was is not None else None)
    if named is not None and port.hca != named:
        yield Difference(name, rail["name"], "RDMA device", named, port.hca or _MISSING)
    if port in moved:
        yield Difference(name, rail["name"], "cable", f"on the network of {rail['name']}", moved[port])
    elif rail.get("leaf") and port.leaf is not None and port.leaf != rail["leaf"]:
        yield Difference(name, rail["name"], "cable", f"at switch {rail['leaf']}", f"at switch {port.leaf}")
    yield from _of_rate(name, rail, port)


def _of_bond(name: str, rail: Mapping[str, Any], ports: Sequence[Port]) -> Iterator[Difference]:
    """Yield the ports of a rail's bond that are gone, or have no link."""
    found = {port.netdev: port for port in ports}
    for netdev in (rail.get("bond") or {}).get("ports", ()):
        if netdev not in found:
            yield Difference(name, rail["name"], "port", f"netdev {netdev}", _MISSING)
        elif not found[netdev].is_up:
            yield Difference(name, rail["name"], f"link of {netdev}", "up", "down")


def _of_card(name: str, rail: Mapping[str, Any] | None, port: Port, was: FoundPort) -> Iterator[Difference]:
    of_rail = rail["name"] if rail is not None else None
    now = found_file.of_port(port, None)
    where = "" if of_rail else f" of {port.label}"
    # Virtual functions have another MAC address after each boot.
    is_certain = rail is not None or (was.serial is not None and port.serial is not None)
    if is_certain and _is_other_card(was, port):
        yield Difference(name, of_rail, f"card{where}", _card(was), _card(now))
    elif was.firmware and now.firmware and was.firmware != " ".join(now.firmware.split()):
        yield Difference(name, of_rail, f"firmware{where}", was.firmware, now.firmware)
    if rail is None:
        return
    if was.pci and port.pci and was.pci != port.pci:
        yield Difference(name, of_rail, "PCI address", was.pci, port.pci)
    # What the inventory plans is no change.
    if was.mtu and now.mtu and now.mtu not in (was.mtu, str(rail.get("mtu"))):
        yield Difference(name, of_rail, "MTU", was.mtu, now.mtu)


def _same_place(was: FoundPort | None, ports: Sequence[Port]) -> Port | None:
    """Return the port that a rail's line of the file means, whatever it is called now."""
    if was is None:
        return None
    same = [port for port in ports if was.mac is not None and port.mac == was.mac]
    same = same or [port for port in ports if was.pci is not None and port.pci == was.pci]
    return same[0] if len(same) == 1 else None


def _other_ports(name: str, ports: Sequence[Port], before: Sequence[FoundPort]) -> Iterator[Difference]:
    """Yield ports that are no rails and have another card, or are gone."""
    in_slot = {(port.pci, port.netdev): port for port in ports}
    macs = {port.mac for port in ports}
    for one in before:
        if one.rail is not None or one.pci is None:
            continue
        port = in_slot.get((one.pci, one.netdev))
        if port is not None:
            yield from _of_card(name, None, port, one)
        elif one.mac is None or one.mac not in macs:
            label = f"{one.netdev or one.rdma or 'a port'} ({one.pci})"
            yield Difference(name, None, "port", label, _MISSING)


def _of_rate(name: str, rail: Mapping[str, Any], port: Port) -> Iterator[Difference]:
    rate_gbps = rail.get("rate_gbps")
    if not port.is_up:
        was = f"{rate_gbps:g} Gbit/s" if rate_gbps else "up"
        yield Difference(name, rail["name"], "link", was, "down")
    elif rate_gbps and port.active_gbps is not None and port.active_gbps != rate_gbps:
        yield Difference(name, rail["name"], "rate", f"{rate_gbps:g} Gbit/s", f"{port.active_gbps:g} Gbit/s")


def _is_other_card(was: FoundPort, port: Port) -> bool:
    if was.serial is not None and port.serial is not None:
        return was.serial != port.serial
    return was.mac is not None and port.mac is not None and was.mac != port.mac


def _card(one: FoundPort) -> str:
    parts = [one.card, f"serial {one.serial}" if one.serial else None, f"MAC {one.mac}" if one.mac else None]
    return ", ".join(part for part in parts if part) or "another card"


def _of_gpus(name: str, expected: Mapping[str, Any] | None, bare: BareNode) -> Iterator[Difference]:
    if expected is None:
        return
    try:
        gpus = facts_record.read_gpus(bare["facts"])
    except reader.RefusedError:
        return
    listed = len(gpus["rows"]) if gpus["rows"] else len(gpus["pci"])
    if listed != expected["count"]:
        yield Difference(name, None, "GPUs", str(expected["count"]), str(listed))
    models = sorted({str(short(row.get("name"))) for row in gpus["rows"] if short(row.get("name"))})
    model = expected.get("model")
    if model and models and not all(model.lower() in one.lower() for one in models):
        yield Difference(name, None, "GPU model", model, ", ".join(models))


def _new_ports(
    name: str, ports: Sequence[Port], rails: Sequence[Port], before: Sequence[FoundPort]
) -> Iterator[Difference]:
    """Yield ports with a link that are new: in no line of the file, or without the file of a rail's model."""
    slots, names = {(one.pci, one.netdev) for one in before}, {one.mac for one in before if one.mac}
    models = {port.model for port in rails}
    for port in ports:
        if port in rails or not port.is_up or port.is_virtual_function or (not before and port.master):
            continue
        known = (port.pci, port.netdev) in slots or port.mac in names
        if (not known) if before else (port.rdma > 0 and port.model in models):
            yield Difference(name, None, "port", "not there", port.label)


def _moved_cables(rails: Mapping[str, Mapping[str, Port | None]], places: order.Places) -> dict[Port, str]:
    """Return port → where its cable is now, for ports on the network that another rail has on most nodes."""
    seen: dict[str, Counter[object]] = defaultdict(Counter)
    on: dict[Port, tuple[str, object]] = {}
    for of_node in rails.values():
        for rail, port in of_node.items():
            place = places.get((port.node, port.netdev or "")) if port is not None else None
            if port is not None and place is not None:
                seen[rail][place] += 1
                on[port] = (rail, place)
    homes = {
        rail: {place for place, n in counted.items() if n == max(counted.values())}
        for rail, counted in seen.items()
    }
    moved = {}
    for port, (rail, place) in on.items():
        others = [other for other in sorted(seen, key=natural) if other != rail and seen[other][place]]
        if not others:
            continue
        here, there = seen[rail][place], max(seen[other][place] for other in others)
        # Between two nodes there is no most: each end of a cable that joins two rails is named.
        is_away = place not in homes[rail] or (len(rails) == 2 and here < 2 and there < 2)
        if is_away:
            other = max(others, key=lambda one: seen[one][place])
            moved[port] = f"on the network of {other}"
    return moved


def _strayed_cables(
    planned: Mapping[str, Mapping[str, Any]],
    rails: Mapping[str, Mapping[str, Port | None]],
    places: order.Places,
    listened: Collection[tuple[str, str]],
) -> dict[Port, str]:
    """Return port → where its cable is, for ports that listened and are not on the network of their rail.

    Nodes of other scalable units have networks of their own. Where no rail of a unit has a network that most
    of its ports share, as between ports with a routed network each, nothing is moved.
    """
    groups: dict[tuple[object, str], list[Port]] = defaultdict(list)
    for name, of_node in rails.items():
        for rail, port in of_node.items():
            if port is not None and port.is_up and (name, port.netdev or "") in listened:
                groups[planned[name].get("scalable_unit"), rail].append(port)
    homes: dict[tuple[object, str], object] = {}
    for key, ports in groups.items():
        counted = Counter(places.get((port.node, port.netdev or "")) for port in ports)
        homes[key] = next((one for one, n in counted.items() if one is not None and 2 * n > len(ports)), None)
    strayed = {}
    for (unit, rail), ports in groups.items():
        has_homes = any(home is not None for (of_unit, _rail), home in homes.items() if of_unit == unit)
        for port in ports if has_homes and len(ports) > 1 else ():
            place, home = places.get((port.node, port.netdev or "")), homes[unit, rail]
            if place is None:
                strayed[port] = "on a network without another node"
            elif home is not None and place != home:
                strayed[port] = "on another network"
    return strayed
