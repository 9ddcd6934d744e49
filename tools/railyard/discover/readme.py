"""README.md of a discovered inventory: what was found, by what, and what is left to check."""

from __future__ import annotations

import re

from railyard.discover.model import Method, Rail, Survey
from railyard.new_inventory.files import summarise_nodes
from railyard.new_inventory.nodes import NewNode

_JOINED: dict[Method, str] = {
    "lldp": "their switches announce themselves by LLDP",
    "beacons": "they heard each other's beacons",
    "slot": "they sit in the same slot",
    "position": "they have the same place in the order of PCI addresses",
}
_ORDERED: dict[Method, str] = {"lldp": "the names of their switches (LLDP)", "pci": "their PCI addresses"}
_MARKED = re.compile(r"([\\`*_{}\[\]<>#|])")


def readme(survey: Survey) -> str:
    """Return the text; the same survey gives the same bytes."""
    nodes = [NewNode(name) for name in survey.nodes]
    count = "1 rail" if len(survey.rails) == 1 else f"{len(survey.rails)} rails"
    lines = [
        "# Discovered inventory",
        "",
        f"{summarise_nodes(nodes)}, with {count}; transport `{survey.transport}`"
        + (f", MTU {survey.mtu}." if survey.mtu is not None else "."),
        "Written by `railyard discover` from what the nodes report. Edit it as you like.",
        "`discovered.txt` lists each port. `railyard discover --diff -i` with this folder "
        "shows what changed since.",
        "",
        "| Rail | Port | Subnet | Gbit/s | Switch | RDMA device |",
        "|---|---|---|---|---|---|",
        *(_row(rail) for rail in survey.rails),
        "",
        "## What was found by what",
        "",
        f"- Ports of different nodes are one rail because {_joined(survey)}.",
        f"- Rails are in the order of {_ORDERED.get(survey.ordered_by, 'their PCI addresses')}.",
        "- Frontend: "
        + (
            f"`{survey.frontend}`, by the address of the SSH connection or the default route."
            if survey.frontend
            else "not written, since it is not the same on all nodes."
        ),
    ]
    for title, texts in (
        ("Check what was assumed", survey.assumed),
        ("Look at", survey.oddities),
        ("Not known", survey.not_known),
    ):
        if texts:
            lines += ["", f"## {title}", "", *(f"- {_escaped(text)}." for text in texts)]
    lines += ["", "Next: `railyard plan -i` with this folder, `--svg FILE` for a drawing.", ""]
    return "\n".join(lines)


def _joined(survey: Survey) -> str:
    return _JOINED.get(survey.rails[0].joined_by, _JOINED["slot"]) if survey.rails else _JOINED["slot"]


def _row(rail: Rail) -> str:
    subnets = rail.keys.get("subnet") or ", ".join(rail.keys.get("subnets", {}).values()) or "none"
    rate = f"{rail.rate_gbps:g}" if rail.rate_gbps is not None else "not known"
    leaves = ", ".join(dict.fromkeys(rail.leaves.values())) or "not known"
    devices = {port.hca or "none" for port in rail.ports.values()}
    hca = devices.pop() if len(devices) == 1 else "differs between nodes"
    cells = (rail.name, f"{rail.selector} {rail.value}", subnets, rate, leaves, hca)
    return f"| {' | '.join(_escaped(cell) for cell in cells)} |"


def _escaped(text: str) -> str:
    """Return a text that Markdown shows as it is."""
    return _MARKED.sub(r"\\\1", text)
