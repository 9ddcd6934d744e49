"""What `railyard discover` prints at its end: rails, oddities, what is not known, and which nodes failed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean_line, named
from rich.console import Console
from rich.table import Table
from rich.text import Text

from railyard.discover.diff import Difference
from railyard.discover.model import Method, Question, Rail, Survey
from railyard.discover.text import folded

_SHOWN_MAX = 100
# More nodes with one reason are folded.
_EACH_MAX = 3
_METHODS: dict[Method, str] = {
    "lldp": "LLDP",
    "beacons": "beacons",
    "slot": "PCI slot",
    "position": "position",
    "pci": "PCI address",
}


def rails(found: Survey, out: Console) -> None:
    """Print a row for each rail: its port, rate, switch, how many nodes have it, and how that was found."""
    count = len(found.nodes)
    nodes = "1 node" if count == 1 else f"{count} nodes"
    kinds = ", ".join(filter(None, (found.transport, found.node_class, found.cabling)))
    frontend = f", frontend {found.frontend}" if found.frontend else ""
    out.print()
    out.print(Text(clean_line(f"{nodes}, {len(found.rails)} rails, {kinds}{frontend}"), style="bold"))
    table = Table(box=None, pad_edge=False, header_style="dim", padding=(0, 2, 0, 0))
    for title in ("rail", "port", "PCI address", "Gbit/s", "nodes", "leaf", "found by"):
        table.add_column(title, overflow="fold", justify="right" if title == "Gbit/s" else "left")
    for rail in found.rails:
        table.add_row(*(Text(clean_line(cell)) for cell in _cells(rail, count)))
    if found.rails:
        out.print(table)
        out.print(f"Order of the rails: by {_METHODS[found.ordered_by]}.")


def _cells(rail: Rail, nodes: int) -> Iterable[str]:
    addresses = list(dict.fromkeys(port.pci or "" for port in rail.ports.values()))
    leaves = list(dict.fromkeys(rail.leaves.values()))
    return (
        rail.name,
        rail.value if rail.selector == "netdev" and rail.value else f"{rail.selector} {rail.value or '?'}",
        addresses[0] if len(addresses) == 1 else "several",
        "?" if rail.rate_gbps is None else f"{rail.rate_gbps:g}",
        str(nodes) if len(rail.ports) == nodes else f"{len(rail.ports)} of {nodes}",
        named(leaves, most=1) if leaves else "",
        _METHODS[rail.joined_by],
    )


def questions(open_: Sequence[Question], out: Console) -> None:
    """Print what only a person can decide, with numbered candidates."""
    for question in open_:
        out.print(Text(f"\n? {clean_line(question.text)}", style="bold"))
        for number, candidate in enumerate(question.candidates, start=1):
            out.print(Text(f"  {number}. {clean_line(candidate)}"))


def differences(found: Sequence[Difference], out: Console) -> None:
    """Print a line for each difference, then how many there are."""
    for one in found[:_SHOWN_MAX]:
        out.print(Text(clean_line(one.text()), style="yellow"))
    if (more := len(found) - _SHOWN_MAX) > 0:
        out.print(f"… and {more} more")
    out.print("No difference." if not found else f"{len(found)} difference{'s' if len(found) > 1 else ''}.")


def failures(failed: Mapping[str, str], out: Console) -> None:
    """Print which nodes could not be read, why, and what to do; many with one reason on one line."""
    if failed:
        out.print()
    alike: dict[str, list[str]] = {}
    for key, reason in failed.items():
        alike.setdefault(reason.partition(". Fix: ")[0], []).append(key)
    for what, keys in alike.items():
        if len(keys) <= _EACH_MAX:
            lines = [f"{key}: {failed[key]}" for key in keys]
        else:
            # The fix names the first one's address.
            fix = failed[keys[0]].partition(". Fix: ")[2]
            lines = [f"{len(keys)} nodes ({folded(keys)}): {what}. Fix, for {keys[0]}: {fix}"]
        for line in lines:
            out.print(Text(f"✗ {clean_line(line)}", style="red"))


def listed(title: str, texts: Sequence[str], out: Console, style: str = "") -> None:
    """Print a title and a line for each text; of very many the first, and how many more there are."""
    if not texts:
        return
    out.print(Text(f"\n{title}", style="bold"))
    for text in texts[:_SHOWN_MAX]:
        out.print(Text(f"  {clean_line(text)}", style=style))
    if (more := len(texts) - _SHOWN_MAX) > 0:
        out.print(f"  … and {more} more")
