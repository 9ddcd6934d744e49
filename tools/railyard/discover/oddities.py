"""Sentences about what a person should look at: which node, what is odd, and what to do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import natural
from ansible_collections.railyard.fabric.plugins.module_utils.records.bare_node import BareNode

from railyard.discover.addresses import network_of
from railyard.discover.model import Rail, Survey
from railyard.discover.order import Aligned
from railyard.discover.ports import Port, short
from railyard.discover.rails import Choice
from railyard.discover.text import by_text, folded, most_common

#: A node, and a sentence that is true of it.
_Odd = tuple[str, str]
#: More sentences of one sort are counted, not printed.
_MOST = 50


def of_names(bare: Mapping[str, BareNode]) -> list[str]:
    """Return nodes that call themselves by one name."""
    owners: dict[str, list[str]] = defaultdict(list)
    for name, one in bare.items():
        if (hostname := short(one["hostname"])) is not None:
            owners[hostname].append(name)
    return [
        f"{folded(names)}: they have the same host name, {hostname}. Set another with "
        "`hostnamectl hostname` on all but one"
        for hostname, names in sorted(owners.items())
        if len(names) > 1
    ]


def of_rails(
    survey: Survey, aligned: Aligned, ports: Mapping[str, Sequence[Port]], bare: Mapping[str, BareNode]
) -> None:
    """Add what is odd about the rails, and what of them is not known."""
    found = [
        *_limited(_crossed(survey.rails, aligned)),
        *_crossed_pair(survey.rails),
        *_limited(by_text(_strayed(survey.rails, aligned))),
        *_limited(by_text(_missing(survey))),
        *_limited(_differences(survey.rails)),
        *_limited(_rates(survey.rails)),
        *_limited(by_text(_down(survey.rails))),
        *_limited(by_text(_virtual(survey.rails, ports))),
        *_limited(by_text(_idle(bare))),
        *_limited(by_text(_members(ports))),
        *_limited(_fabrics(survey.rails)),
    ]
    survey.oddities += found
    if aligned.alone:
        survey.oddities.append(
            f"{folded(aligned.alone)}: no other node was heard on any rail. Check the "
            "cables and the VLANs of the switch ports"
        )
    survey.not_known += _limited(f"cabling of {text}" for text in by_text(_unread(survey, ports, bare)))


def of_choice(rails: Sequence[Rail], ports: Mapping[str, Sequence[Port]], choice: Choice) -> list[str]:
    """Return what is odd about which ports were taken for rails."""
    return [
        *_limited(by_text(choice.of_other_models)),
        *_limited(by_text(_left_over(rails, ports, choice))),
        *_addressed(rails),
    ]


def _left_over(rails: Sequence[Rail], ports: Mapping[str, Sequence[Port]], choice: Choice) -> Iterator[_Odd]:
    """Yield ports with a link that are of the rails' model and no rails."""
    kind, of_rails = choice.kind, {port for rail in rails for port in rail.ports.values()}
    for name, found in ports.items():
        for port in found:
            if kind is None or port in of_rails or not port.is_up or port.is_virtual_function:
                continue
            is_alike = (port.rdma, port.layer, port.model) == (kind.rdma, kind.layer, kind.model)
            # Members of a bond have a sentence of their own, and ports away from the GPUs too.
            if is_alike and port.master is None and (port.is_beside_gpu or not kind.is_beside_gpu):
                speed = f" at {port.active_gbps:g} Gbit/s" if port.active_gbps is not None else ""
                text = (
                    f"{port.label} is of the rails' model and has a link{speed}, but is not taken for a rail"
                )
                yield name, f"{text}. Where it should be one, compare its speed and cable"


def _addressed(rails: Sequence[Rail]) -> list[str]:
    """Name rails whose ports have addresses where other rails have none: they may serve storage."""
    having: dict[str, str] = {}
    for rail in rails:
        found = [text for port in rail.ports.values() for text in port.addresses[:1] if network_of(text)]
        if 2 * len(found) > len(rail.ports):
            having[rail.name] = found[0]
    lacking = [rail.name for rail in rails if not any(port.addresses for port in rail.ports.values())]
    if not lacking:
        return []
    return [
        f"{rail.name} ({next(iter(rail.ports.values())).label}) has addresses, as {having[rail.name]}, and "
        f"{', '.join(lacking)} {'has' if len(lacking) == 1 else 'have'} none. Where it serves storage, "
        "remove it from `fabric.rails`: Railyard gives rails new addresses"
        for rail in rails
        if rail.name in having
    ]


def _limited(sentences: Iterable[str]) -> list[str]:
    texts = list(sentences)
    more = [f"and {len(texts) - _MOST} more of this sort"] if len(texts) > _MOST else []
    return [*texts[:_MOST], *more]


def _crossed(rails: Sequence[Rail], aligned: Aligned) -> Iterator[str]:
    """Yield both ends of crossed cables: two ports on each other's networks, else one alone."""
    rail_of = {port: rail for rail in rails for port in rail.ports.values()}
    on = {port: rails[index] for port, index in aligned.crossed.items()}
    in_order = sorted(on, key=lambda port: (natural(port.node), port.sort_key))
    partner: dict[Port, Port] = {}
    for is_one_node in (True, False):
        waiting: dict[tuple[str, str, str], list[Port]] = defaultdict(list)
        for port in (one for one in in_order if one not in partner):
            node = port.node if is_one_node else ""
            others = waiting[node, on[port].name, rail_of[port].name]
            if others:
                other = others.pop(0)
                partner |= {port: other, other: port}
            else:
                waiting[node, rail_of[port].name, on[port].name].append(port)
    place = {port: number for number, port in enumerate(in_order)}
    for port in in_order:
        own, there = rail_of[port], on[port]
        peer = next((one for one in there.ports.values() if one.node != port.node and one not in on), None)
        beside = f", with {peer.node} {peer.label}" if peer is not None else ""
        what = f"{port.node} {port.label} of {own.name} is on the network of {there.name}{beside}"
        swapped = partner.get(port)
        if swapped is None:
            yield f"crossed cable: {what}. Move its cable to the network of {own.name}"
        elif place[port] < place[swapped]:
            end = f"{swapped.node} {swapped.label} of {there.name} is on that of {own.name}"
            yield f"crossed cables: {what}, and {end}. Swap the two cables"


def _strayed(rails: Sequence[Rail], aligned: Aligned) -> Iterator[_Odd]:
    """Yield ports with a link that are on no rail's network, where their rail's other ports are on one."""
    rail_of = {port: rail for rail in rails for port in rail.ports.values()}
    for port in aligned.strayed:
        what = f"{rail_of[port].name} ({port.label}) is not on one network with this rail's other ports"
        yield port.node, f"{what}. Check where its cable ends, and the VLAN of its switch port"


def _crossed_pair(rails: Sequence[Rail]) -> list[str]:
    """Name the cables between two equal nodes that join different ports: the rails follow the cables."""
    joined = [
        sorted(rail.ports.values(), key=lambda port: port.node) for rail in rails if len(rail.ports) == 2
    ]
    nodes = {port.node for pair in joined for port in pair}
    slots = [{pair[side].slot for pair in joined} for side in (0, 1)]
    if len(nodes) != 2 or any(rail.joined_by != "beacons" for rail in rails) or slots[0] != slots[1]:
        return []
    return [
        f"crossed cable: {one.node} {one.label} is cabled to {other.node} {other.label}, "
        f"and {rail.name} follows it. "
        "Where equal ports are to be joined, swap the cables at one node and discover again"
        for rail, (one, other) in zip(rails, joined, strict=False)
        if one.slot != other.slot
    ]


def _missing(survey: Survey) -> Iterator[_Odd]:
    lacking: dict[str, list[str]] = defaultdict(list)
    for rail in survey.rails:
        for name in survey.nodes.keys() - rail.ports.keys():
            lacking[name].append(rail.name)
    for name, rails in lacking.items():
        has = len(survey.rails) - len(rails)
        yield (
            name,
            f"{has} of {len(survey.rails)} rails have a port here, and {', '.join(rails)} "
            f"{'has' if len(rails) == 1 else 'have'} none. Where there should be one, check card and "
            "driver (`lspci -D -k`), and that this node is not reached by it, then discover again",
        )


def _differences(rails: Sequence[Rail]) -> Iterator[str]:
    """Yield rails whose port on a few nodes sits elsewhere or is another card."""
    for rail in rails:
        slot = most_common(port.slot for port in rail.ports.values())
        card = most_common(port.card for port in rail.ports.values())
        usual = next((port for port in rail.ports.values() if port.slot == slot), None)
        places: list[_Odd] = []
        cards: list[_Odd] = []
        agreeing = sum(port.slot == slot for port in rail.ports.values())
        for name, port in rail.ports.items():
            # Of two nodes none is the usual one: `_crossed_pair` names both.
            is_usual = agreeing > 1 and 2 * agreeing >= len(rail.ports)
            if usual is not None and port.slot != slot and is_usual:
                others = "on most nodes" if 2 * agreeing > len(rail.ports) else "on as many others"
                places.append((name, f"{rail.name} is {port.label}, {others} {usual.label}"))
            if port.card is not None and card is not None and port.card != card:
                others = _others(card, (one.card for one in rail.ports.values()))
                cards.append((name, f"{rail.name} has card {port.card}, {others} have {card}"))
        yield from by_text(places)
        yield from by_text(cards)


def _others(usual: object, values: Iterable[object]) -> str:
    """Return who has the usual value: most nodes, or as many as have another one."""
    found = [value for value in values if value is not None]
    return "most nodes" if 2 * found.count(usual) > len(found) else "other nodes"


def _rates(rails: Sequence[Rail]) -> Iterator[str]:
    for rail in rails:
        others = _others(rail.rate_gbps, (one.active_gbps for one in rail.ports.values()))
        yield from by_text(
            (
                name,
                f"{rail.name} ({port.label}) runs at {port.active_gbps:g} Gbit/s, {others} at "
                f"{rail.rate_gbps:g}. Check cable, module and switch port",
            )
            for name, port in rail.ports.items()
            if port.active_gbps is not None and rail.rate_gbps and port.active_gbps < rail.rate_gbps
        )


def _down(rails: Sequence[Rail]) -> Iterator[_Odd]:
    for rail in rails:
        for name, port in rail.ports.items():
            what = f"{rail.name} ({port.label})"
            if not port.is_up and not port.is_admin_down:
                yield name, f"{what} has no carrier. Plug in its cable, or replace it"
            elif port.layer == "infiniband" and port.state in ("INIT", "ARMED"):
                yield name, f"{what} is {port.state}. Start the subnet manager"


def _virtual(rails: Sequence[Rail], ports: Mapping[str, Sequence[Port]]) -> Iterator[_Odd]:
    of_rails = {port for rail in rails for port in rail.ports.values()}
    for name, found in ports.items():
        functions = [port for port in found if port.is_virtual_function and port not in of_rails]
        if functions:
            yield (
                name,
                f"{len(functions)} ports are virtual functions (SR-IOV), the first is {functions[0].label}. "
                "Rails are physical functions: remove them with `echo 0 > "
                "/sys/class/net/DEVICE/device/sriov_numvfs`, or name the ports by hand",
            )


def _idle(bare: Mapping[str, BareNode]) -> Iterator[_Odd]:
    """Yield network cards that a driver has which gives them to a virtual machine, or none."""
    for name, one in bare.items():
        for function in one.get("idle_functions") or []:
            card = f"{function['pci']} ({short(function['pci_id']) or 'a network card'})"
            driver = short(function["driver"])
            fix = f"Bind it to its network driver: `driverctl unset-override {function['pci']}`"
            what = f"has driver {driver} loaded" if driver else "has no driver loaded"
            yield name, f"{card} {what}, so it is no port. {fix}"


def _members(ports: Mapping[str, Sequence[Port]]) -> Iterator[_Odd]:
    for name, found in ports.items():
        for port in found:
            if port.master is not None and port.rdma:
                yield name, f"{port.label} is a member of {port.master}, so it is not taken for a rail"


def _fabrics(rails: Sequence[Rail]) -> Iterator[str]:
    """Yield InfiniBand ports in another subnet, or under another manager, than on most nodes."""
    for rail in rails:
        up = {name: port for name, port in rail.ports.items() if port.state == "ACTIVE" and port.prefix}
        usual = most_common(_fabric(port) for port in up.values())
        yield from by_text(
            (
                name,
                f"{rail.name} ({port.label}) is in {fabric}, on most nodes in {usual}. Check its cable",
            )
            for name, port in up.items()
            if (fabric := _fabric(port)) != usual
        )


def _fabric(port: Port) -> str:
    return f"InfiniBand subnet {port.prefix} with its subnet manager at LID {port.sm_lid}"


def _unread(
    survey: Survey, ports: Mapping[str, Sequence[Port]], bare: Mapping[str, BareNode]
) -> Iterator[_Odd]:
    """Yield ports whose cabling could not be read, and why: those that are administratively down first."""
    of_rails = {(port.node, port.netdev) for rail in survey.rails for port in rail.ports.values()}
    for name, found in ports.items():
        for port in found:
            if port.is_admin_down and (port.rdma or survey.transport == "tcp"):
                why = "administratively down: `--link-up` raises it for the time of the reading"
                yield name, f"{port.label} is {why}"
        up = {port.netdev for port in found if port.is_up}
        for heard in bare[name]["beacons"] or []:
            is_read = heard["error"] is None or heard["netdev"] not in up
            if not is_read and (name, heard["netdev"]) in of_rails and survey.transport in ("roce", "tcp"):
                yield name, f"{short(heard['netdev'])} heard no other port: {short(heard['error'])}"
