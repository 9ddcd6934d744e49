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
    used: set[tuple[str, str]] = set()
    for rail in survey.rails:
        choices = _choices(rail, survey.transport, at_address)
        if not choices:
            survey.questions.append(
                Question(
                    None,
                    f"{rail.name}: nothing names its port on all nodes: name the interfaces "
                    "that lack a sound name",
                )
            )
            continue
        for selector in choices:
            values = {name: str(getattr(port, selector)) for name, port in rail.ports.items()}
            counts = Counter(values.values())
            free = [value for value in counts if (selector, value) not in used]
            if free:
                rail.selector = selector
                rail.value = min(free, key=lambda value: (-counts[value], value))
                break
        used.add((rail.selector, str(rail.value)))
        for name, port in rail.ports.items():
            value = str(getattr(port, rail.selector))
            if value != rail.value:
                survey.nodes[name].overrides.setdefault(rail.name, {})[rail.selector] = value


def _choices(rail: Rail, transport: str, at_address: Mapping[tuple[str, str], int]) -> list[str]:
    """Return the selectors that name the rail's port on all nodes, the best one first."""
    found = list(rail.ports.items())
    can = {
        "netdev": transport != "efa" and all(port.netdev is not None for _name, port in found),
        "pci": all(at_address.get((name, port.pci or "")) == 1 for name, port in found),
        "mac": transport != "efa" and all(port.mac is not None for _name, port in found),
        "hca": all(port.hca is not None for _name, port in found),
    }
    differing = {
        selector: len(found)
        - max(Counter(getattr(port, selector) for _name, port in found).values(), default=0)
        for selector in can
    }
    # Names that differ on many nodes follow from no rule, and the next reboot may give others.
    has_usual_name = transport not in _WITHOUT_NETDEV and 2 * differing["netdev"] < len(found)
    first = "netdev" if has_usual_name else "pci"
    usual = sorted(
        (one for one in ("netdev", "pci") if can[one]), key=lambda one: (differing[one], one != first)
    )
    return [
        *usual,
        *(one for one in ("mac",) if can[one]),
        *(["hca"] if can["hca"] and not (usual or can["mac"]) else []),
    ]
