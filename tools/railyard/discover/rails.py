"""Which ports are rails: one kind of port, RDMA capable, that most nodes have, and never the way in."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ansible_collections.railyard.fabric.plugins.module_utils.records.bare_node import BareNode

from railyard.discover.model import Question
from railyard.discover.ports import Port, beside_gpus
from railyard.discover.text import most_common


@dataclass(frozen=True)
class Kind:
    """Ports that could be rails together: of one layer, model and speed, beside a GPU or not."""

    rdma: int
    layer: str
    model: str
    gbps: float | None
    is_beside_gpu: bool


@dataclass
class Choice:
    """The ports that are rails, by node, and what could not be decided.

    `of_other_models` has a node and a sentence, where its rails are of another model than most nodes'.
    """

    kind: Kind | None = None
    ports: dict[str, list[Port]] = field(default_factory=dict)
    question: Question | None = None
    assumed: list[str] = field(default_factory=list)
    of_other_models: list[tuple[str, str]] = field(default_factory=list)


def ways_in(bare: BareNode) -> tuple[str | None, set[str]]:
    """Return a node's frontend, and all netdevs that no rail may be: it, default routes, what is below."""
    address = bare["login_address"]
    rows = {one["netdev"]: one for one in bare["facts"]["netdevs"]}
    by_login = [
        name
        for name, one in rows.items()
        if any(text.partition("/")[0] == address for text in (*one["addresses"], *one["addresses6"]))
    ]
    routes = [name for name in bare["default_route"] if name in rows]
    frontend = by_login[0] if by_login else routes[0] if len(routes) == 1 else None
    taken = {*by_login, *routes, *([frontend] if frontend else [])}
    # A VLAN's port, and the members of a bond or bridge, carry what goes over it.
    taken |= {name.rpartition(".")[0] for name in taken if "." in name}
    for _level in range(2):
        # A VLAN has its port's MAC address, whatever its name.
        macs = {rows[name]["mac"] for name in taken if name in rows and rows[name]["kind"] == "vlan"} - {None}
        taken |= {name for name, one in rows.items() if one["mac"] in macs}
        taken |= {name for name, one in rows.items() if one["master"] in taken}
        taken |= {name.rpartition(".")[0] for name in taken if "." in name}
    return frontend, taken - {""}


def choose(bare: Mapping[str, BareNode], ports: Mapping[str, Sequence[Port]], answer: str | None) -> Choice:
    """Choose the ports that are rails.

    The kind whose ports carry most together on an average node is taken: RDMA by hardware before RDMA by
    software before none, ports that share a PCIe switch with a GPU before others. Where another kind of as
    fast ports is there as well, a person must choose.

    Args:
        bare: node → what it says.
        ports: node → those of its ports that may be rails.
        answer: the candidate that the user chose; None without a question.
    """
    up = {name: [port for port in found if port.is_up] for name, found in ports.items()}
    # Virtual functions are rails where a host has nothing else, as a guest sees them.
    up = {
        name: [port for port in found if not port.is_virtual_function] or found for name, found in up.items()
    }
    speeds = _speeds(up)
    has_split = _are_split_by_gpus(bare, up)
    kinds: dict[Kind, dict[str, list[Port]]] = defaultdict(dict)
    for name, found in up.items():
        for port in found:
            gbps = speeds[port.model, port.slot]
            kind = Kind(port.rdma, port.layer, port.model, gbps, port.is_beside_gpu and has_split)
            kinds[kind].setdefault(name, []).append(port)
    if not kinds:
        return Choice(ports={name: [] for name in ports})

    def score(kind: Kind) -> tuple[object, ...]:
        count = sum(map(len, kinds[kind].values()))
        total = round((kind.gbps or 0.0) * count, 3)
        return (kind.rdma, kind.is_beside_gpu, total, count, kind.layer, kind.model, kind.gbps or 0.0)

    best = max(kinds, key=score)
    labels = {_label(kind, kinds[kind]): kind for kind in kinds if kind.rdma == best.rdma}
    choice = Choice()
    if answer in labels:
        best = labels[answer]
    else:
        rivals = [kind for kind in kinds if _is_rival(kind, best, kinds, len(ports))]
        if rivals:
            candidates = [best, *sorted(rivals, key=score, reverse=True)]
            texts = tuple(_label(kind, kinds[kind]) for kind in candidates)
            choice.question = Question("rails", "which ports are the rails", texts)
    choice.kind = best
    choice.ports = {name: kinds[best].get(name, []) for name in ports}
    for name in [name for name, found in choice.ports.items() if not found]:
        alike = [kind for kind in kinds if name in kinds[kind] and _is_alike(kind, best)]
        if alike:
            own = max(alike, key=lambda kind: (kind.is_beside_gpu, score(kind)))
            choice.ports[name] = kinds[own][name]
            text = (
                f"the rails are {_label(own, {name: choice.ports[name]})}, and {_label(best, kinds[best])} on"
            )
            choice.of_other_models.append((name, f"{text} other nodes. Check that these are meant"))
    if any(kind != best and _is_elsewhere(kind, best) for kind in kinds):
        text = "rails are the ports that share a PCIe switch with a GPU; other ports of their kind are not"
        choice.assumed.append(text)
    return choice


def _speeds(up: Mapping[str, Sequence[Port]]) -> dict[tuple[str, str], float | None]:
    """Return (model, slot) → the speed of most nodes there, so that a slow node is of their kind."""
    seen: dict[tuple[str, str], list[float | None]] = defaultdict(list)
    for found in up.values():
        for port in found:
            seen[port.model, port.slot].append(port.active_gbps)
    return {key: most_common(speeds) for key, speeds in seen.items()}


def _are_split_by_gpus(bare: Mapping[str, BareNode], up: Mapping[str, Sequence[Port]]) -> bool:
    """Tell whether on most nodes each GPU has a port beside it, so that ports elsewhere serve others."""
    counts = Counter(
        sum(port.is_beside_gpu for port in found) >= beside_gpus(bare[name])[0] > 0
        for name, found in up.items()
    )
    return counts[True] > counts[False]


def _is_rival(kind: Kind, best: Kind, kinds: Mapping[Kind, Mapping[str, Sequence[Port]]], nodes: int) -> bool:
    if kind == best or (kind.rdma, kind.is_beside_gpu) != (best.rdma, best.is_beside_gpu):
        return False
    if best.rdma == 0 and best.gbps is None:
        return False
    # A card that was swapped on one node is no second kind.
    is_common = 2 * len(kinds[kind]) > nodes
    return is_common and (kind.gbps or 0.0) >= (best.gbps or 0.0)


def _is_alike(kind: Kind, best: Kind) -> bool:
    """Tell whether a node without a port of the best kind may have its rails on this one: another model."""
    is_as_fast = 2 * (kind.gbps or 0.0) >= (best.gbps or 0.0)
    return (kind.rdma, kind.layer) == (best.rdma, best.layer) and kind.model != best.model and is_as_fast


def _is_elsewhere(kind: Kind, best: Kind) -> bool:
    return best.is_beside_gpu and replace(kind, is_beside_gpu=True) == best


def _label(kind: Kind, ports: Mapping[str, Sequence[Port]]) -> str:
    """Return a candidate as text: `8 x 400 Gbit/s ibp24s0 to ibp220s0 (MT4129)`."""
    most = most_common(len(found) for found in ports.values()) or 0
    first = next(ports[name] for name in sorted(ports) if len(ports[name]) == most)
    names = [port.netdev or port.hca or port.pci or "?" for port in first]
    ends = names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
    speed = f"{kind.gbps:g} Gbit/s " if kind.gbps is not None else ""
    return f"{most} x {speed}{ends} ({first[0].card or kind.model})"
