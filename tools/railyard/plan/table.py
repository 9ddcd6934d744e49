"""The plan as tables: nodes that are alike are folded into one row a rail, and no name or address is cut."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.inventory import plan as fabric_plan
from ansible_collections.railyard.fabric.plugins.plugin_utils.plain_text import clean
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from railyard.base import output
from railyard.plan import svg_model

# Up to a screen of rows a node is easier to find than to unfold.
_ROWS_UNFOLDED_MAX = 24
# Nodes that all differ fold to nothing, and a row for each rail of thousands is no help.
_ROWS_MAX = 128
_NO_TERMINAL_COLUMNS, _ANY_COLUMNS = 200, 10**5

_COLUMNS = (
    "netdev",
    "mac",
    "pci",
    "hca",
    "address",
    "address6",
    "gateway",
    "gateway6",
    "mtu",
    "vlan",
    "rate_gbps",
    "shares_wire_with",
    "bond",
)
# Of a leaf that routes to a network of each node the gateways differ as the addresses do.
_ADDRESSES = ("address", "address6", "gateway", "gateway6")
_TITLES = {
    "mtu": "MTU (bytes)",
    "rate_gbps": "Gbit/s",
    "shares_wire_with": "one wire with",
    "bond": "bond of",
}
_NUMBERS = ("MTU (bytes)", "Gbit/s")
# Columns that leave the table first where it is too wide: what they say when it is the same for all rails.
_SAID_ONCE = {"MTU (bytes)": "MTU {} bytes", "Gbit/s": "{} Gbit/s", "vlan": "VLAN {}"}


@dataclass(frozen=True)
class Row:
    """One line of a table.

    Attributes:
        nodes: the folded names of the nodes that it is about.
        cells: title → text.
    """

    nodes: str
    cells: Mapping[str, str]


def console() -> Console:
    """Return where tables are printed: the width of a pipe is unknown."""
    columns = None if sys.stdout.isatty() else _NO_TERMINAL_COLUMNS
    return output.console(width=columns, outlives_reader=False)


def print_plan(plan: Mapping[str, Any], every_row: bool) -> None:
    """Print the rails of all nodes, and what is beside them.

    Args:
        plan: from `build_plan`.
        every_row: a row for each rail of each node, however many.
    """
    nodes: Mapping[str, Any] = plan["nodes"]
    apart = every_row or sum(len(node["rails"]) for node in nodes.values()) <= _ROWS_UNFOLDED_MAX
    rails = list(dict.fromkeys(rail["name"] for node in nodes.values() for rail in node["rails"]))
    kinds = [[name] for name in nodes] if apart else list(svg_model.kinds(plan, rails).values())
    rows = [row for names in kinds for row in _rail_rows(nodes, names)]
    used = [title for title in rows[0].cells if any(row.cells[title] != "-" for row in rows)] if rows else []
    if used:
        _print(_cut(_with(rows, used), every_row), "index")
    for line in [*_nvlink_lines(nodes), *_lacking_lines(nodes)]:
        console().print(line)
    beside = list(_network_rows(nodes, kinds))
    if beside:
        _print(_cut(beside, every_row))
    if len(kinds) < len(nodes):
        console().print("Nodes that are alike are folded; --all prints a row for each rail of each node.")


def _cut(rows: list[Row], every_row: bool) -> list[Row]:
    if every_row or len(rows) <= _ROWS_MAX:
        return rows
    console().print(f"The first {_ROWS_MAX} of {len(rows)} rows; --all prints all of them.")
    return rows[:_ROWS_MAX]


def _rail_rows(nodes: Mapping[str, Any], names: Sequence[str]) -> Iterator[Row]:
    """Yield a row for each rail of nodes that are alike."""
    label, index = svg_model.folded(names), _numbers(nodes[name]["node_index"] for name in names)
    by_name = [{rail["name"]: rail for rail in nodes[name]["rails"]} for name in names]
    for first in nodes[names[0]]["rails"]:
        rails = [one[first["name"]] for one in by_name]
        cells = {"index": index, "rail": first["name"]}
        for column in _COLUMNS:
            values = [rail.get(column) for rail in rails]
            joined = _addresses(values) if column in _ADDRESSES else _one(values)
            cells[_TITLES.get(column, column)] = joined
        yield Row(label, cells)


def _network_rows(nodes: Mapping[str, Any], kinds: Iterable[Sequence[str]]) -> Iterator[Row]:
    """Yield a row for each network beside the rails: those of nodes that are alike together."""
    for names in kinds:
        alike: dict[tuple[str, ...], dict[str, str]] = {}
        for name in names:
            for network, netdev, address, mtu, written in _beside(nodes[name]):
                alike.setdefault((network, netdev, mtu, written), {})[name] = address
        for (network, netdev, mtu, written), addresses in alike.items():
            cells = {"network": network, "netdev": netdev, "address": _addresses(list(addresses.values()))}
            yield Row(svg_model.folded(addresses), {**cells, "MTU (bytes)": mtu, "written by": written})


def _beside(node: Mapping[str, Any]) -> list[tuple[str, str, str, str, str]]:
    """Return what a node has beside its rails: network, interface, address, MTU, and who writes it."""
    rows = []
    for network in node["networks"]:
        netdev = network["netdev"]
        if netdev is not None and network["vlan"] is not None:
            netdev = f"{netdev}.{network['vlan']}"
        address = node["bmc_address"] if network["bmc"] else network["address"]
        if address is not None:
            written = "Railyard" if network["manage"] else "others"
            rows.append((network["name"], _text(netdev), str(address), _text(network["mtu"]), written))
    if node["bmc_address"] is not None and not any(network["bmc"] for network in node["networks"]):
        rows.append(("bmc", "-", str(node["bmc_address"]), "-", "others"))
    return rows


def _lacking_lines(nodes: Mapping[str, Any]) -> list[Text]:
    """Return of each rail which nodes lack it."""
    return [
        Text(clean(f"{rail}: not on {svg_model.folded(names)} (rail_overrides: absent)"))
        for rail, names in fabric_plan.list_absent_rails(nodes).items()
    ]


def _nvlink_lines(nodes: Mapping[str, Any]) -> list[Text]:
    """Return of each NVLink domain which nodes are in it."""
    domains: dict[str, list[str]] = {}
    for name, node in nodes.items():
        if node.get("nvlink_domain"):
            domains.setdefault(node["nvlink_domain"], []).append(name)
    return [
        Text(clean(f"NVLink domain {domain}: {len(names)} nodes, {svg_model.folded(names)}"))
        for domain, names in domains.items()
    ]


def _one(values: Sequence[Any]) -> str:
    return _text(values[0]) if all(value == values[0] for value in values) else "differs"


def _addresses(texts: Sequence[str | None]) -> str:
    """Write the first and last of many addresses as the drawing does, with their prefix length."""
    given = list(dict.fromkeys(text for text in texts if text is not None))
    if len(given) < 2:
        return _text(given[0]) if given else "-"
    lengths = {text.partition("/")[2] for text in given}
    spans = [
        " ".join(svg_model.span((text.partition("/")[0] for text in given), version)) for version in (4, 6)
    ]
    length = f"/{lengths.pop()}" if len(lengths) == 1 and lengths != {""} else ""
    return " ".join(span + length for span in spans if span)


def _numbers(values: Iterable[Any]) -> str:
    """Write the least and the greatest of many numbers."""
    known = sorted({value for value in values if value is not None})
    if len(known) < 2:
        return _text(known[0]) if known else "-"
    joint = "\u2013" if known[-1] - known[0] == len(known) - 1 else "…"
    return f"{known[0]}{joint}{known[-1]}"


def _text(value: Any) -> str:
    if isinstance(value, Mapping):  # a bond
        return f"{', '.join(value['ports'])} ({value['mode']})"
    return "-" if value is None else str(value)


def _print(rows: Sequence[Row], *of_nodes: str) -> None:
    """Print rows in the first of these forms that fits the terminal, else in the last one, as wide as it is.

    All columns; without columns of equal values, which are above the table; the nodes above their rows.

    Args:
        rows: those of the same nodes one after another.
        of_nodes: the columns about the nodes, which only the first row of a node has.
    """
    if _fits(table := _node_table(rows, of_nodes)):
        print_uncut(table)
        return
    once = {title: rows[0].cells[title] for title in _SAID_ONCE if len(rows) > 1 and title in rows[0].cells}
    once = {
        title: text
        for title, text in once.items()
        if text != "-" and all(row.cells[title] == text for row in rows)
    }
    rows = _with(rows, [title for title in rows[0].cells if title not in once])
    if once:
        said = ", ".join(_SAID_ONCE[title].format(text) for title, text in once.items())
        console().print(f"In all rows: {said}")
    if _fits(table := _node_table(rows, of_nodes)):
        print_uncut(table)
        return
    titles = [title for title in rows[0].cells if title not in of_nodes]
    widths = {title: max(len(title), *(len(row.cells[title]) for row in rows)) for title in titles}
    for nodes, group in _sections(rows):
        about = "".join(f", {title} {group[0].cells[title]}" for title in of_nodes if title in group[0].cells)
        console().print(Text(f"{nodes}{about}", style="bold"))
        table = _table(titles, widths)
        for row in group:
            table.add_row(*(row.cells[title] for title in titles))
        print_uncut(table)


def _with(rows: Sequence[Row], titles: Sequence[str]) -> list[Row]:
    return [replace(row, cells={title: row.cells[title] for title in titles}) for row in rows]


def _sections(rows: Iterable[Row]) -> list[tuple[str, list[Row]]]:
    sections: list[tuple[str, list[Row]]] = []
    for row in rows:
        if not sections or sections[-1][0] != row.nodes:
            sections.append((row.nodes, []))
        sections[-1][1].append(row)
    return sections


def _node_table(rows: Sequence[Row], of_nodes: Sequence[str]) -> Table:
    titles = list(rows[0].cells)
    table = _table(["node", *titles])
    for nodes, group in _sections(rows):
        for position, row in enumerate(group):
            cells = ("" if position and title in of_nodes else row.cells[title] for title in titles)
            table.add_row("" if position else nodes, *cells, end_section=row is group[-1])
    return table


def _table(titles: Iterable[str], widths: Mapping[str, int] | None = None) -> Table:
    table = Table(box=box.SIMPLE_HEAD)
    for title in titles:
        width = (widths or {}).get(title)
        table.add_column(
            title, justify="right" if title in _NUMBERS else "left", no_wrap=True, min_width=width
        )
    return table


def _fits(table: Table) -> bool:
    return _columns(table) <= console().width


def print_uncut(table: Table) -> None:
    """Print a table in its full width: a narrower terminal breaks the lines and cuts nothing."""
    output.console(width=max(console().width, _columns(table)), outlives_reader=False).print(table)


def _columns(table: Table) -> int:
    out = console()
    return out.measure(table, options=out.options.update(width=_ANY_COLUMNS)).maximum
