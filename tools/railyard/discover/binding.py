"""What names each rail's port in the inventory: what is equal on all nodes, else what differs least."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from railyard.discover.model import Question, Rail, Survey
from railyard.discover.ports import Port

_WITHOUT_NETDEV = ("infiniband", "efa")


def bind(survey: Survey, ports: Mapping[str, Sequence[Port]]) -> None:
    """Choose each rail's selector and value, and write what differs to the nodes' overrides.

    Args:
        survey: its rails have their ports.
        ports: all ports of each node: two at one PCI address (ConnectX-3) cannot be named by it.
    """
    at_address = Counter((name, port.pci) for name, found in ports.items() for port in found if port.pci)
    can = {rail.name: _possible(rail, survey.transport, at_address) for rail in survey.rails}
    preferred = _preferred(survey)
    used: set[tuple[str, str]] = set()
    for rail in survey.rails:
        for selector in (one for one in preferred if one in can[rail.name]):
            counts = Counter(str(getattr(port, selector)) for port in rail.ports.values())
            free = [value for value in counts if (selector, value) not in used]
            if free:
                rail.selector, rail.value = selector, min(free, key=lambda value: (-counts[value], value))
                break
        if rail.value is None:
            text = f"{rail.name}: nothing names its port on all nodes: rename the interfaces, as ens1"
            survey.questions.append(Question(None, text))
            continue
        used.add((rail.selector, rail.value))
        for name, port in rail.ports.items():
            value = str(getattr(port, rail.selector))
            if value != rail.value:
                survey.nodes[name].overrides.setdefault(rail.name, {})[rail.selector] = value
    _refuse_taken(survey)


def _possible(rail: Rail, transport: str, at_address: Mapping[tuple[str, str], int]) -> set[str]:
    """Return the selectors that name the rail's port on all of its nodes."""
    found = list(rail.ports.items())
    can = {
        "netdev": transport != "efa" and all(port.netdev is not None for _name, port in found),
        "pci": all(at_address.get((name, port.pci or "")) == 1 for name, port in found),
        "mac": transport != "efa" and all(port.mac is not None for _name, port in found),
        "hca": all(port.hca is not None for _name, port in found),
    }
    return {selector for selector, is_possible in can.items() if is_possible}


def _preferred(survey: Survey) -> list[str]:
    """Return the selectors, first the one that needs the fewest overrides over all rails, `hca` last."""
    differing: Counter[str] = Counter()
    for rail in survey.rails:
        for selector in ("netdev", "pci"):
            counts = Counter(getattr(port, selector) for port in rail.ports.values())
            differing[selector] += len(rail.ports) - max(counts.values(), default=0)
    ports = sum(len(rail.ports) for rail in survey.rails)
    # Names that differ on many nodes follow from no rule, and the next reboot may give others.
    has_usual_names = survey.transport not in _WITHOUT_NETDEV and 2 * differing["netdev"] < ports
    first = "netdev" if has_usual_names else "pci"
    usual = sorted(("netdev", "pci"), key=lambda one: (differing[one], one != first))
    return [*usual, "mac", "hca"]


def _refuse_taken(survey: Survey) -> None:
    """Ask where a node lacks a rail, and the port that the rail has elsewhere is another rail's here."""
    for name, node in survey.nodes.items():
        own = {
            (rail.selector, node.overrides.get(rail.name, {}).get(rail.selector, rail.value)): rail.name
            for rail in survey.rails
            if name in rail.ports
        }
        for rail in survey.rails:
            other = own.get((rail.selector, rail.value))
            if name not in rail.ports and other is not None:
                text = f"{name}: no port is {rail.name}, and its {rail.value} elsewhere is {other} here"
                survey.questions.append(Question(None, f"{text}: give the ports one name on all nodes"))
