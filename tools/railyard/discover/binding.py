"""What names each rail's port in the inventory: what is equal on all nodes, else what differs least."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from railyard.discover.model import Question, Rail, Survey
from railyard.discover.ports import Port

#: What `rail_overrides` has in the place of a mapping where a node lacks a rail (docs/inventory.md).
ABSENT = "absent"
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
                survey.nodes[name].overrides[rail.name] = {rail.selector: value}


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


def mark_absent(survey: Survey) -> None:
    """Write to nodes' overrides which rails they lack; of a wire's two functions both are there, or none."""
    partners = {rail.shares_wire_with: rail.name for rail in survey.rails if rail.shares_wire_with}
    partners |= {name: other for other, name in partners.items()}
    having = {rail.name: rail.ports.keys() for rail in survey.rails}
    for rail in survey.rails:
        for name in survey.nodes.keys() - rail.ports.keys():
            if name not in having.get(partners.get(rail.name, ""), ()):
                survey.nodes[name].overrides[rail.name] = ABSENT
