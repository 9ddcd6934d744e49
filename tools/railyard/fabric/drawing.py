"""The drawing of a subnet: switches above, a card for each unit below, faults in color.

The same input gives the same bytes. Hosts are counts, and the links between switches are drawn, one line a
pair, while they are few. A fault leads to its finding on the page.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

from ansible_collections.railyard.fabric.plugins.module_utils.records.subnet import Reading
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.model import Finding, Judgement
from ansible_collections.railyard.fabric.plugins.plugin_utils.subnet.run_file import PathRecord

from railyard.fabric import drawing_model
from railyard.fabric.drawing_model import Card, Fault, Switch
from railyard.plan.svg_parts import CHARACTER, CHARACTER_BOLD, STYLE, STYLE_DARK, safe, write_text

#: The widest drawing, and the least width that its own heading needs.
WIDTH, _LEAST = 1000, 640
_MARGIN, _GAP, _PAD = 24, 10, 14
_CHIP_HEIGHT, _NARROW, _WIDE = 58, 92, 178
_HOSTS_HEIGHT, _ROW = 34, 17
#: Faults of one card that are named in it; the others are counted.
_NAMED_IN_CARD = 6
_PORTS_NAMED = 3
_ENDS = 2
_OWN_STYLE = """
.link{stroke:#aab5c1;stroke-width:1.2;fill:none}.fail{stroke:#c0303b}.warn{stroke:#b85000}
.fault{stroke-width:3;fill:none}.tfail,.twarn{font-weight:600;paint-order:stroke;stroke:#fff;stroke-width:3px}.tfail{fill:#a8202c}.twarn{fill:#964200}
.way{stroke:#c0303b;stroke-width:5;stroke-opacity:.7;fill:none}
.missing{stroke-dasharray:5 4;fill:none}a:hover .fault,a:focus .fault{stroke-width:6}
"""
_OWN_STYLE_DARK = """
.link{stroke:#4b5968}.way,.fail{stroke:#ff8088}.warn{stroke:#ff9a5c}.tfail,.twarn{stroke:#0e1319}.tfail{fill:#ff8088}.twarn{fill:#ff9a5c}
"""


def draw(
    title: str,
    headline: str,
    reading: Reading,
    judgement: Judgement,
    numbered: Sequence[tuple[int, Finding]],
    page: str = "",
    paths: Sequence[PathRecord] = (),
) -> str:
    """Draw a subnet.

    Args:
        title: the cluster's name.
        headline: what came of it, in a sentence.
        reading: the subnet.
        judgement: what was decided about it.
        numbered: its findings with the numbers of their anchors.
        page: the page that has the anchors, where the drawing is a file of its own.
        paths: the paths of slow pairs.

    Returns:
        An SVG document.
    """
    return _Sheet(drawing_model.arrange(reading, judgement, numbered), page, paths).document(title, headline)


class _Sheet:
    def __init__(self, drawing: drawing_model.Drawing, page: str, paths: Sequence[PathRecord]) -> None:
        self._drawing, self._page, self._ways = drawing, page, paths
        self._parts: list[str] = []
        #: Grounds of cards: below the lines, which are below everything else.
        self._backs: list[str] = []
        self._y = 0.0
        #: Switch -> middle of its box, its top and its bottom.
        self._place: dict[str, tuple[float, float, float]] = {}
        #: Leaf -> where the hosts below it begin.
        self._hosts_at: dict[str, float] = {}
        switches = [*(one for card in drawing.cards for one in card.leaves), *chain(*drawing.tiers)]
        self._names = {switch.guid: switch.name for switch in switches}
        longest = max(map(len, self._names.values()), default=0)
        self._chip = min(max(longest * CHARACTER_BOLD + 16, _NARROW), _WIDE)
        self._rows = self._card_rows()
        self._width = self._needed_width()
        #: Numbers of the faults that cards show.
        self._drawn: set[int] = set()
        #: With several rows, faults are marked at the switches alone.
        self._marked = self._faults_by_switch() if len(self._rows) > 1 else {}

    def document(self, title: str, headline: str) -> str:
        room = int((self._width - 2 * _MARGIN) / CHARACTER)
        self._y = 18.0
        if self._page:
            # On the page itself, both are above it.
            self._text(_MARGIN, 40, "title", title, 50)
            self._text(_MARGIN, 62, "faint", headline, room)
            self._y = 80.0
        for tier in self._drawing.tiers:
            self._tier(tier)
        # Lines to a second row would cross the first.
        self._has_lines = bool(self._drawing.links) and len(self._rows) == 1
        self._y += 70 if self._has_lines else 20
        if self._drawing.between and not self._has_lines:
            self._text(_MARGIN, self._y, "faint", self._drawing.between, room)
            self._y += 16
        self._cards()
        if self._drawing.left_out:
            self._text(
                _MARGIN, self._y + 8, "faint", f"{self._drawing.left_out} more findings are not drawn.", room
            )
            self._y += 24
        height = self._y + _MARGIN
        size = f'width="{self._width:g}" height="{height:g}" viewBox="0 0 {self._width:g} {height:g}"'
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" '
            'aria-labelledby="fabric-title fabric-desc">',
            f'<title id="fabric-title">{safe("Fabric of " + title)}</title>',
            f'<desc id="fabric-desc">{safe(headline)}</desc>',
            f"<style>{STYLE}{_OWN_STYLE}"
            f"@media (prefers-color-scheme: dark){{{STYLE_DARK}{_OWN_STYLE_DARK}}}</style>",
            f'<rect class="ground" width="{self._width:g}" height="{height:g}"/>',
            *self._backs,
            *self._links(),
            *self._paths(),
            *self._parts,
            *self._faults_between_switches(),
            "</svg>",
        ]
        return "\n".join(lines) + "\n"

    def _needed_width(self) -> float:
        rows = [sum(width + 2 * _GAP for _card, _columns, width in row) - 2 * _GAP for row in self._rows]
        tiers = [len(tier) * (self._chip + _GAP) - _GAP for tier in self._drawing.tiers]
        needed = max([*rows, *tiers], default=0.0) + 2 * _MARGIN
        # Also room for the numbers of ports beside the outermost lines.
        return min(max(needed + 2 * _PAD, _LEAST if self._page else 0.0), WIDTH)

    def _tier(self, switches: Sequence[Switch]) -> None:
        each = max(int((WIDTH - 2 * _MARGIN + _GAP) / (self._chip + _GAP)), 1)
        for start in range(0, len(switches), each):
            row = switches[start : start + each]
            x = (self._width - len(row) * (self._chip + _GAP) + _GAP) / 2
            height = 48 if any(switch.lines or switch.guid in self._marked for switch in row) else 34
            for switch in row:
                self._chip_of(switch, x, self._y, height)
                x += self._chip + _GAP
            self._y += height + _GAP
        self._y += 30

    def _card_rows(self) -> list[list[tuple[Card, int, float]]]:
        """Place cards beside each other while there is room, then below: card, columns of leaves, width."""
        rows: list[list[tuple[Card, int, float]]] = []
        room = 0.0
        for card in self._drawing.cards:
            columns, width = self._card_size(card)
            if not rows or width > room:
                rows.append([])
                room = WIDTH - 2 * _MARGIN
            rows[-1].append((card, columns, width))
            room -= width + 2 * _GAP
        return rows

    def _cards(self) -> None:
        """Draw the cards, each row in the middle."""
        for row in self._rows:
            x = (self._width - sum(width + 2 * _GAP for _card, _columns, width in row) + 2 * _GAP) / 2
            heights = []
            for card, columns, width in row:
                heights.append(self._card(card, x, columns, width))
                x += width + 2 * _GAP
            self._y += max(heights) + 2 * _GAP

    def _card_size(self, card: Card) -> tuple[int, float]:
        most = max(int((WIDTH - 2 * _MARGIN - 2 * _PAD + _GAP) / (self._chip + _GAP)), 1)
        columns = min(max(len(card.leaves), 1), most)
        width = max(columns * (self._chip + _GAP) - _GAP + 2 * _PAD, 300.0)
        return columns, width

    def _card(self, card: Card, x: float, columns: int, width: float) -> float:
        """Draw a card and return its height."""
        top, room = self._y, int((width - 2 * _PAD) / CHARACTER)
        y = top + _PAD
        for start in range(0, len(card.leaves), columns):
            for column, leaf in enumerate(card.leaves[start : start + columns]):
                self._chip_of(leaf, x + _PAD + column * (self._chip + _GAP), y, _CHIP_HEIGHT)
            y += _CHIP_HEIGHT + _GAP
        y += 14
        mine = self._faults_of(card)
        self._drawn.update(fault.number for fault in mine)
        named = mine[:_NAMED_IN_CARD]
        hosts = f"{len(card.nodes)} hosts" if len(card.nodes) != 1 else "1 host"
        height = _HOSTS_HEIGHT + _ROW * (len(named) + (1 if len(mine) > len(named) else 0))
        hosts_at = y
        self._rect("node", x + _PAD, y, width - 2 * _PAD, height)
        self._text(x + 2 * _PAD, y + 21, "name", card.title, room - len(hosts) - 8)
        self._text(x + width - 2 * _PAD, y + 21, "faint", hosts, 12, "end")
        for row, fault in enumerate(named, 1):
            line = write_text(
                x + 2 * _PAD,
                y + 21 + row * _ROW,
                _text_class(fault.severity),
                self._name_fault(fault),
                room - 4,
            )
            self._parts.append(self._linked(fault, line))
        if len(mine) > len(named):
            more = f"and {len(mine) - len(named)} more"
            self._text(x + 2 * _PAD, y + 21 + (len(named) + 1) * _ROW, "faint", more, room)
        y += height
        if card.shared:
            self._text(x + _PAD, y + 16, "faint", f"also on {', '.join(card.shared)}", room)
            y += 18
        total = y + _PAD - top
        place = f'x="{x:g}" y="{top:g}" width="{width:g}" height="{total:g}"'
        self._backs.append(f'<rect class="net" {place} rx="10"/>')
        self._down_links(card, mine, hosts_at)
        return total

    def _down_links(self, card: Card, faults: Sequence[Fault], hosts_at: float) -> None:
        """Draw a line from each leaf of the last row to the hosts, and the faults of each leaf."""
        by_leaf: dict[str, list[Fault]] = {}
        for fault in faults:
            for end in fault.ends:
                if end.is_switch and self._is_in_card(fault):
                    by_leaf.setdefault(end.guid, []).append(fault)
        healthy = []
        for leaf in card.leaves:
            middle, _top, bottom = self._place[leaf.guid]
            self._hosts_at[leaf.guid] = hosts_at
            bad = by_leaf.get(leaf.guid)
            if not bad:
                if hosts_at - bottom < 2 * _GAP + 14:
                    healthy.append(f"M{middle:g} {bottom:g}V{hosts_at:g}")
                continue
            numbers = sorted({end.number for one in bad for end in one.ends if end.guid == leaf.guid})
            label = _ports(numbers)
            css = f"fault {_line_class(bad[0].severity)}"
            line = f'<path class="{css}" d="M{middle:g} {bottom:g}V{hosts_at:g}"/>'
            text = write_text(middle + 5, bottom + 14, _text_class(bad[0].severity), label, 16)
            self._parts.append(self._linked(bad[0], line + text))
        if healthy:
            self._parts.append(f'<path class="link" d="{"".join(healthy)}"/>')

    def _links(self) -> list[str]:
        """Draw a line for each pair of switches that are joined."""
        segments = []
        for lower, higher in self._drawing.links if self._has_lines else ():
            if lower in self._place and higher in self._place:
                (x, top, _), (x2, _, bottom) = self._place[lower], self._place[higher]
                segments.append(f"M{x:g} {top:g}L{x2:g} {bottom:g}")
        return [f'<path class="link" d="{"".join(segments)}"/>'] if segments else []

    def _paths(self) -> list[str]:
        """Draw the links that the paths of slow pairs take; with several rows of cards only below leaves."""
        segments: dict[str, None] = {}
        taken = (link for path in self._ways for way in path["ways"] for link in way["links"])
        for link in taken:
            ends = [end for end in (link["out"]["guid"], link["into"]["guid"]) if end in self._place]
            if len(ends) == _ENDS and len(self._rows) == 1:
                upper, lower = sorted(ends, key=lambda guid: (self._place[guid][1], guid))
                (x, _top, start), (x2, stop, _bottom) = self._place[upper], self._place[lower]
                segments[f"M{x:g} {start:g}L{x2:g} {stop:g}"] = None
            elif len(ends) == 1 and ends[0] in self._hosts_at:
                x, _top, bottom = self._place[ends[0]]
                segments[f"M{x:g} {bottom:g}V{self._hosts_at[ends[0]]:g}"] = None
        return [f'<path class="way" d="{"".join(segments)}"/>'] if segments else []

    def _faults_between_switches(self) -> list[str]:
        """Draw the faults whose ends are switches: a line between two, a mark at one or at more."""
        drawn: list[str] = []
        for fault in self._drawing.faults:
            ports: dict[str, list[int]] = {}
            for end in fault.ends:
                if end.is_switch and end.guid in self._place:
                    ports.setdefault(end.guid, []).append(end.number)
            if self._marked.keys() & ports.keys() and not self._is_in_card(fault):
                continue
            if not ports or fault.number in self._drawn:
                continue
            if len(ports) == _ENDS:
                drawn.append(self._linked(fault, self._fault_line(fault, ports)))
            else:
                marks = (self._mark(fault, guid, numbers) for guid, numbers in ports.items())
                drawn.append(self._linked(fault, "".join(marks)))
        return drawn

    def _fault_line(self, fault: Fault, ports: Mapping[str, Sequence[int]]) -> str:
        upper, lower = sorted(ports, key=lambda guid: self._place[guid][1])
        (x, _top, start), (x2, stop, bottom) = self._place[upper], self._place[lower]
        words = _text_class(fault.severity)
        if stop > start:
            path, at = f"M{x:g} {start:g}L{x2:g} {stop:g}", stop - 6
        else:
            # Two switches of one row are joined by a bow below them.
            low = max(start, bottom) + 26
            path, at = f"M{x:g} {start:g}C{x:g} {low:g} {x2:g} {low:g} {x2:g} {bottom:g}", bottom + 13
        return (
            f'<path class="fault {_line_class(fault.severity)}" d="{path}"/>'
            + write_text(x + 5, start + 13, words, _ports(ports[upper]), 16)
            + write_text(x2 + 5, at, words, _ports(ports[lower]), 16)
        )

    def _mark(self, fault: Fault, guid: str, numbers: Sequence[int]) -> str:
        """Draw a stub above a switch's box, with its ports."""
        x, top, _bottom = self._place[guid]
        return f'<path class="fault {_line_class(fault.severity)}" d="M{x:g} {top:g}v-12"/>' + write_text(
            x + 5, top - 4, _text_class(fault.severity), _ports(numbers), 16
        )

    def _faults_of(self, card: Card) -> list[Fault]:
        """Return the faults of a card's nodes, or of its leaves' ports towards adapters."""
        leaves, nodes = {leaf.guid for leaf in card.leaves}, frozenset(card.nodes)
        found = []
        for fault in self._drawing.faults:
            if not self._is_in_card(fault) and not self._marked:
                continue
            at_leaf = any(end.is_switch and end.guid in leaves for end in fault.ends)
            at_node = fault.node is not None and fault.node in nodes
            if at_node or (at_leaf and (fault.node is None or not self._has_card(fault.node))):
                found.append(fault)
        return found

    def _faults_by_switch(self) -> dict[str, list[tuple[Fault, int]]]:
        """Return the ports of each switch that faults between switches concern."""
        found: dict[str, list[tuple[Fault, int]]] = {}
        for fault in self._drawing.faults:
            for end in fault.ends if not self._is_in_card(fault) else ():
                if end.is_switch:
                    found.setdefault(end.guid, []).append((fault, end.number))
        return found

    def _is_in_card(self, fault: Fault) -> bool:
        """Tell whether a fault is about an adapter's link, which a card shows."""
        return fault.node is not None or any(not end.is_switch for end in fault.ends)

    def _has_card(self, node: str) -> bool:
        return any(node in card.nodes for card in self._drawing.cards)

    def _name_fault(self, fault: Fault) -> str:
        """Return node, rail and ports; the rest is on the page."""
        where = [
            f"{self._names.get(end.guid, end.guid)} port {end.number}" for end in fault.ends if end.is_switch
        ]
        if not self._is_in_card(fault):
            return (
                " to ".join(where) if len(where) <= _ENDS else f"{where[0]} and {len(where) - 1} more ports"
            )
        who = " ".join(filter(None, (fault.node, fault.rail))) or "an adapter"
        return f"{who}: {', '.join(where)}" if where else who

    def _linked(self, fault: Fault, inside: str) -> str:
        address = safe(f"{self._page}#finding-{fault.number}")
        return f'<a href="{address}"><title>{safe(fault.text)}</title>{inside}</a>'

    def _chip_of(self, switch: Switch, x: float, y: float, height: float) -> None:
        middle, room = x + self._chip / 2, int(self._chip / CHARACTER)
        self._place[switch.guid] = (middle, y, y + height)
        self._rect("leaf missing" if switch.is_missing else "leaf", x, y, self._chip, height)
        self._text(middle, y + 20, "name", switch.name, room, "middle")
        lines = [("faint", line) for line in switch.lines]
        if marked := self._marked.get(switch.guid):
            fault = marked[0][0]
            numbers = sorted({number for _fault, number in marked})
            lines = [*lines[:1], (_text_class(fault.severity), _ports(numbers))]
            place = f'x="{x:g}" y="{y:g}" width="{self._chip:g}" height="{height:g}"'
            edge = f'<rect class="fault {_line_class(fault.severity)}" {place} rx="6"/>'
            self._parts.append(self._linked(fault, edge))
        for row, (css, line) in enumerate(lines):
            self._text(middle, y + 35 + 15 * row, css, line, room, "middle")

    def _rect(self, css: str, x: float, y: float, width: float, height: float) -> None:
        self._parts.append(
            f'<rect class="{css}" x="{x:g}" y="{y:g}" width="{width:g}" height="{height:g}" rx="6"/>'
        )

    def _text(self, x: float, y: float, css: str, text: str, longest: int, anchor: str = "start") -> None:
        self._parts.append(write_text(x, y, css, text, longest, anchor))


def _ports(numbers: Sequence[int]) -> str:
    shown = ", ".join(map(str, numbers[:_PORTS_NAMED]))
    more = f" +{len(numbers) - _PORTS_NAMED}" if len(numbers) > _PORTS_NAMED else ""
    return f"port{'s' if len(numbers) > 1 else ''} {shown}{more}"


def _line_class(severity: str) -> str:
    return "fail" if severity == "fail" else "warn"


def _text_class(severity: str) -> str:
    return f"t{_line_class(severity)}"
