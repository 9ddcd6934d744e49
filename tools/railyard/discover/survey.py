"""Decide from what bare nodes report what their cluster is: rails, networks, frontend, GPUs. Pure."""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ansible_collections.railyard.fabric.plugins.module_utils.facts.sysfs import natural
from ansible_collections.railyard.fabric.plugins.module_utils.records import facts as facts_record
from ansible_collections.railyard.fabric.plugins.module_utils.records import reader
from ansible_collections.railyard.fabric.plugins.module_utils.records.bare_node import BareNode
from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import values

from railyard.discover import addresses, binding, hearing, oddities, order, rails
from railyard.discover.model import Named, Node, Options, Question, Rail, Survey
from railyard.discover.ports import PORTS_MAX, Port, literal, ports_of, short
from railyard.discover.text import by_text, folded, most_common
from railyard.new_inventory import nodes as new_nodes

__all__ = ["Named", "Options", "Question", "Survey", "survey"]

_TRANSPORTS = {"ethernet": "roce", "infiniband": "infiniband", "efa": "efa"}
#: Machine names of hypervisors and clouds; `.metal` are physical servers.
_GUEST = re.compile(
    r"kvm|qemu|standard pc|virtual|vmware|bochs|hvm domu|openstack|google compute engine|"
    r"[a-z][a-z0-9-]*\.\w*xlarge",
    re.IGNORECASE,
)
#: pci.ids: what a guest sees of ConnectX cards is a virtual function, whose device id tells.
_GUEST_CARDS = re.compile(r"15b3:(1004|1014|1016|1018|101a|101c|101e)|1d0f:efa[0-9a-f]")
_BACK_TO_BACK_NODES = 2


def survey(
    nodes: Mapping[str, BareNode], named: Mapping[str, Named], options: Options | None = None
) -> Survey:
    """Decide what the cluster is.

    Args:
        nodes: key → what the node says.
        named: key → what the user called it; those without an answer are reported.
        options: the user's options beside the nodes.
    """
    wanted = options or Options()
    found = Survey({})
    bare = _named(found, nodes, named)
    if not bare:
        if not found.questions:
            found.questions.append(Question(None, "no node answered"))
        return found
    ports = {name: ports_of(name, one) for name, one in bare.items()}
    usable = _without_ways_in(found, bare, ports, wanted.answers.get("frontend"))
    choice = rails.choose(bare, usable, wanted.answers.get("rails"))
    if choice.question is not None:
        found.questions.append(choice.question)
    found.assumed += choice.assumed
    heard = order.domains(bare)
    aligned = _find_rails(found, bare, choice, usable, heard)
    if not found.rails:
        found.questions.append(_no_rails(usable))
        return found
    everyone = dict(bare)
    _leave_out(found, bare)
    binding.bind(found, ports)
    _describe(found)
    binding.mark_absent(found)
    found.cabling = _cabling(found, heard)
    oddities.of_rails(found, aligned, usable, everyone)
    found.oddities += oddities.of_choice(found.rails, usable, choice)
    hearing.add(found, aligned, everyone, heard, hearing.listening(everyone))
    found.oddities += oddities.of_names(everyone)
    addresses.plan(found, everyone, wanted.keep_addresses)
    addresses.find_networks(found, bare)
    _find_gpus(found, bare)
    of_rails = {(port.node, port.slot) for rail in found.rails for port in rail.ports.values()}
    found.others = {
        name: [port for port in ports[name] if (name, port.slot) not in of_rails] for name in found.nodes
    }
    return found


def _named(found: Survey, nodes: Mapping[str, BareNode], named: Mapping[str, Named]) -> dict[str, BareNode]:
    """Give the nodes their names; return name → what the node says, in the order of names."""
    by_name: dict[str, list[str]] = defaultdict(list)
    boots: dict[str, list[str]] = defaultdict(list)
    for key in sorted(named, key=natural):
        if key not in nodes:
            found.not_known.append(f"{short(key)}: it did not answer, and the inventory has no entry for it")
            continue
        # Capitals do not tell hosts apart.
        by_name[named[key].name.lower()].append(key)
        if (boot := nodes[key]["facts"]["boot_id"]) is not None:
            boots[boot].append(key)
    for keys in boots.values():
        if len(keys) > 1:
            texts = ", ".join(str(short(key)) for key in keys)
            found.questions.append(
                Question(None, f"{texts}: they are one machine (one boot id): name it once")
            )
    bare: dict[str, BareNode] = {}
    for lowered in sorted(by_name, key=natural):
        first, *others = by_name[lowered]
        name = named[first].name
        texts = ", ".join(str(short(key)) for key in by_name[lowered])
        if not _is_host_name(name):
            text = (
                f"{texts}: {short(name)!r} cannot be a host's name: give it one, as `NAME "
                "ADDRESS` in --hosts-from"
            )
            found.questions.append(Question(None, text))
        elif others:
            text = f"{texts}: all are called {name}: give each a name, as `NAME ADDRESS` in --hosts-from"
            found.questions.append(Question(None, text))
        else:
            one = nodes[first]
            found.nodes[name] = Node(
                name, named[first], hostname=short(one["hostname"]), product=short(one["product"])
            )
            bare[name] = one
    for name, one in bare.items():
        count = max(len(one["facts"]["netdevs"]), len(one["facts"]["hcas"]))
        if count > PORTS_MAX:
            found.oddities.append(
                f"{name}: it reports {count} ports; only the first {PORTS_MAX} are looked at"
            )
    return bare


def _is_host_name(name: str) -> bool:
    unfolded, wrong = new_nodes.unfold(name, None)
    return not wrong and [node.name for node in unfolded] == [name]


def _without_ways_in(
    found: Survey, bare: Mapping[str, BareNode], ports: Mapping[str, Sequence[Port]], answer: str | None
) -> dict[str, list[Port]]:
    """Find the frontend; return each node's ports without it and what is below it."""
    frontends: dict[str, str | None] = {}
    usable = {}
    for name, one in bare.items():
        frontend, taken = rails.ways_in(one)
        frontends[name] = frontend or answer
        closed = taken | ({answer} if answer is not None else set())
        usable[name] = [port for port in ports[name] if port.netdev not in closed]
    unclear = [name for name, frontend in frontends.items() if frontend is None]
    if unclear:
        rows = [row for row in bare[unclear[0]]["facts"]["netdevs"] if values.netdev(row["netdev"]) is None]
        # IPv6 gives each port with a link an address; those that others can route to come first.
        candidates = {
            row["netdev"]
            for row in rows
            if row["addresses"] or any(not text.startswith("fe80:") for text in row["addresses6"])
        } or {row["netdev"] for row in rows if row["addresses6"]}
        text = (
            f"{folded(unclear)}: by which interface are they reached? No default route and no address tells"
        )
        found.questions.append(Question("frontend", text, tuple(sorted(candidates, key=natural))))
    names = Counter(frontends.values())
    usual = most_common(name for name in frontends.values() if values.netdev(name) is None)
    if len(names) == 1:
        found.frontend = usual
    elif usual is not None:
        others = [name for name, frontend in frontends.items() if frontend != usual]
        found.oddities.append(
            f"{folded(others)}: the frontend is not {usual} as on the others, so none is written. Rename the "
            "interface, or give the nodes a `fabric` of their own"
        )
    return usable


def _find_rails(
    found: Survey,
    bare: Mapping[str, BareNode],
    choice: rails.Choice,
    usable: Mapping[str, Sequence[Port]],
    heard: order.Places,
) -> order.Aligned:
    layer = choice.kind.layer if choice.kind is not None else "ethernet"
    found.transport = _TRANSPORTS[layer] if choice.kind is not None and choice.kind.rdma else "tcp"
    chosen = {name: [one for one in ports if one.master is None] for name, ports in choice.ports.items()}
    in_slots = {
        (port.node, port.slot): port
        for ports in usable.values()
        for port in ports
        if port.layer == layer and port.master is None and not port.is_virtual_function
    }
    # Where LLDP shows one of the nodes, the cable goes straight to it.
    own = {*found.nodes, *(node.hostname for node in found.nodes.values())}
    switches = order.leaves(port for ports in usable.values() for port in ports if port.leaf not in own)
    listened = hearing.listening(bare)
    aligned = order.align(chosen, lambda name, slot: in_slots.get((name, slot)), heard, switches, listened)
    found.ordered_by = aligned.ordered_by
    for index, ports in enumerate(aligned.rails):
        found.rails.append(Rail(f"rail{index}", ports, aligned.joined_by))
    units = set(aligned.units.values())
    if len(units) > 1:
        for name, number in aligned.units.items():
            found.nodes[name].unit = f"su{number + 1}"
        found.assumed.append(
            f"nodes that share no network are {len(units)} scalable units, and their leaves route"
        )
    for rail in found.rails:
        for unit in sorted({node.unit for node in found.nodes.values()}, key=str):
            leaf = most_common(
                port.leaf
                for name, port in rail.ports.items()
                if found.nodes[name].unit == unit and port.leaf not in own
            )
            if leaf is not None:
                rail.leaves[unit] = leaf
    return aligned


def _leave_out(found: Survey, bare: dict[str, BareNode]) -> None:
    """Leave nodes out that have no rail at all."""
    having = {name for rail in found.rails for name in rail.ports}
    for name in [name for name in found.nodes if name not in having]:
        found.not_known.append(
            f"{name}: it has no port that could be a rail, and the inventory has no entry for it. Check its "
            "cards and drivers (`lspci -D -k`), then discover again"
        )
        del found.nodes[name], bare[name]


def _no_rails(usable: Mapping[str, Sequence[Port]]) -> Question:
    down = {name for name, ports in usable.items() if any(port.is_admin_down for port in ports)}
    text = "no port with a link is left for the rails beside the frontend"
    if down:
        what = f"{text}: those of {folded(down)} are administratively down. Discover with --link-up"
        return Question(None, f"{what}, or raise them")
    return Question(None, f"{text}: check cables and drivers (`ip -br link`, `lspci -D -k`)")


def _cabling(found: Survey, heard: order.Places) -> str | None:
    """Tell how two nodes are cabled: without a switch where none is heard and each rail joins the two."""
    if len(found.nodes) != _BACK_TO_BACK_NODES or found.transport not in ("roce", "tcp"):
        return None
    wires: dict[object, set[str]] = defaultdict(set)
    partners = {rail.shares_wire_with: rail.name for rail in found.rails if rail.shares_wire_with}
    for rail in found.rails:
        wire = partners.get(rail.name, rail.name)
        for port in rail.ports.values():
            wires[heard.get((port.node, port.netdev or ""))].add(wire)
    of_rails = {(port.node, port.netdev) for rail in found.rails for port in rail.ports.values()}
    others = any(heard[one] in wires for one in heard.keys() - of_rails)
    if None in wires or others or any(len(rails_on_it) > 1 for rails_on_it in wires.values()):
        return None
    if not wires or any(rail.leaves for rail in found.rails):
        return None
    found.assumed.append(
        "the two nodes are cabled back to back: each rail joins them, and no switch announced itself (LLDP)"
    )
    return "back_to_back"


def _describe(found: Survey) -> None:
    """Find rates, shared wires and the node class."""
    ports = [port for rail in found.rails for port in rail.ports.values()]
    for rail in found.rails:
        rail.rate_gbps = most_common(port.active_gbps for port in rail.ports.values())
    _find_wires(found)
    slower = {
        f"{rail.rate_gbps:g} Gbit/s, and its cards can do {most:g}"
        for rail in found.rails
        if rail.rate_gbps
        and (most := max((port.max_gbps or 0 for port in rail.ports.values()), default=0)) > rail.rate_gbps
    }
    found.assumed += [f"each rail's rate is what its link runs at: {text}" for text in sorted(slower)]
    if all(port.kind == "veth" for port in ports):
        found.node_class = "container"
    elif (
        all(port.driver_class == "virtual" for port in ports)
        or any(_GUEST_CARDS.fullmatch(port.model) and not port.is_virtual_function for port in ports)
        or any(
            _GUEST.search(node.product or "") and ".metal" not in (node.product or "")
            for node in found.nodes.values()
        )
    ):
        found.node_class = "virtual"
    if found.transport == "roce" and all(port.rdma == 1 for port in ports):
        devices = [
            (rail.value, {str(port.hca).partition(":")[0] for port in rail.ports.values()})
            for rail in found.rails
        ]
        if all(rail.selector == "netdev" for rail in found.rails) and all(
            len(one) == 1 for _netdev, one in devices
        ):
            found.soft_roce = [{"device": one.pop(), "netdev": str(netdev)} for netdev, one in devices]


def _find_wires(found: Survey) -> None:
    """Find rails whose ports are two PCI functions on one wire, on all nodes where that is known."""
    pairs: Counter[tuple[int, int]] = Counter()
    for name in found.nodes:
        seen: dict[tuple[str, str | None], int] = {}
        for index, rail in enumerate(found.rails):
            port = rail.ports.get(name)
            if port is None or port.wire is None:
                continue
            other = seen.setdefault((port.wire, port.serial), index)
            if other != index:
                pairs[other, index] += 1
    for (one, other), count in sorted(pairs.items()):
        first, second = found.rails[one], found.rails[other]
        if 2 * count > len(found.nodes) and first.shares_wire_with is None:
            first.shares_wire_with = second.name
            rate = most_common(rail.rate_gbps for rail in (first, second))
            first.rate_gbps = second.rate_gbps = rate


def _find_gpus(found: Survey, bare: Mapping[str, BareNode]) -> None:
    unread: list[tuple[str, str]] = []
    for name, one in bare.items():
        node = found.nodes[name]
        node.nvlink_domain = literal(one["nvlink_domain"])
        try:
            gpus = facts_record.read_gpus(one["facts"])
        except reader.RefusedError as refused:
            unread.append((name, f"the GPUs: {short(str(refused))}"))
            continue
        if not gpus["pci"]:
            node.gpus = {"count": 0}
            continue
        why = gpus["errors"].get("rows")
        if why is not None and why["class"] != "absent":
            unread.append((name, f"the GPUs' model: {short(why['message'])}"))
        models = {literal(row.get("name")) for row in gpus["rows"]} - {None}
        expected: dict[str, Any] = {"count": min(len(gpus["pci"]), 64)}
        if len(models) == 1 and values.word(80)(model := models.pop()) is None:
            expected["model"] = model
        node.gpus = expected
        if len(gpus["rows"]) < len(gpus["pci"]) and gpus["rows"]:
            found.oddities.append(
                f"{name}: nvidia-smi lists {len(gpus['rows'])} of {len(gpus['pci'])} GPUs. "
                "See `dmesg` for the others"
            )
    found.not_known += by_text(unread)
    found.oddities += by_text(_find_lost_gpus(found))


def _find_lost_gpus(found: Survey) -> Iterator[tuple[str, str]]:
    """Yield nodes with fewer GPUs than others; a GPU that may be lost stays expected."""
    usual = most_common(json.dumps(node.gpus, sort_keys=True) for node in found.nodes.values() if node.gpus)
    most = json.loads(usual) if usual is not None else {"count": 0}
    for name, node in found.nodes.items():
        if node.gpus is None or node.gpus["count"] >= most["count"]:
            continue
        count, model = node.gpus["count"], node.gpus.get("model")
        text = f"GPUs on the PCI bus: {count}, others have {most['count']}"
        if count and model in (None, most.get("model")):
            node.gpus = None
            text += "; the inventory expects as many here. If fewer are right, give it `expected_gpus`"
        yield name, text
