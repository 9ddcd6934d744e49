"""`railyard plan --svg`: the plan as a drawing. The same inventory gives the same bytes.

Nodes are below, leaves above, a rail is a line from one to the other with its subnet on it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from railyard.plan import svg_model, svg_parts
from railyard.plan.svg_parts import CHARACTER, STYLE, STYLE_DARK, safe
from railyard.plan.svg_words import NO_RAIL, above, describe, headline, named, rate, ways

_MARGIN, _GUTTER = 24, 84
_LINE = 16
_RAIL_COLOURS = (
    ("#1f6fb2", "#64b1ec"),
    ("#b85000", "#ff9a5c"),
    ("#00795a", "#35c496"),
    ("#8a3fb0", "#c79af0"),
    ("#c0303b", "#ff8088"),
    ("#0f7c8a", "#4cc5d3"),
    ("#8a5a12", "#e0b060"),
    ("#56616d", "#a7b3bf"),
)


def draw(
    plan: Mapping[str, Any], uplinks: Mapping[str, float], spines: svg_model.Spines | None = None
) -> str:
    """Draw a plan.

    Args:
        plan: from `build_plan`.
        uplinks: leaf → rate of all its uplinks together, in 10^9 bit/s; leaves that are not in it get no
            oversubscription.
        spines: what is above the leaves, where it is known.

    Returns:
        An SVG document.
    """
    return _Sheet(svg_model.arrange(plan, uplinks, spines)).document()


def uplinks_of(fabrics: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return what fabrics say of their leaves' uplinks: leaf → 10^9 bit/s."""
    distinct = {id(fabric): fabric for fabric in fabrics}.values()
    return {
        str(name): leaf["uplink_gbps"]
        for fabric in distinct
        for name, leaf in (fabric.get("leaves") or {}).items()
        if leaf.get("uplink_gbps") is not None
    }


class _Sheet:
    """The drawing while it is made: what is drawn goes from top to bottom."""

    def __init__(self, drawing: svg_model.Drawing) -> None:
        self._drawing = drawing
        count = len(drawing.rails)
        self._column = 420 if count == 1 else 250 if count == 2 else 190 if count <= 4 else 156
        # A few columns are no room for the heading.
        self._width = max(2 * _MARGIN + _GUTTER + self._column * count, 620)
        self._parts: list[str] = []
        self._y = 0.0

    def document(self) -> str:
        """Return the whole document."""
        drawing = self._drawing
        self._text(_MARGIN, 40, "title", str(drawing.plan["cluster"]), 50)
        self._text(_MARGIN, 62, "faint", headline(drawing), int((self._width - 2 * _MARGIN) / CHARACTER))
        self._y = 78.0
        if drawing.spines is not None:
            self._spines(drawing.spines)
        for band in drawing.bands:
            self._band(band)
        if drawing.left_out:
            text = f"and {len(drawing.left_out)} nodes on other leaves: {svg_model.folded(drawing.left_out)}"
            self._text(_MARGIN, self._y + 20, "faint", text, int((self._width - 2 * _MARGIN) / CHARACTER))
            self._y += 32
        height = self._y + _MARGIN - 8
        light, dark = (
            "".join(f".r{index}{{stroke:{one}}}.p{index}{{fill:{one}}}" for index, one in enumerate(ground))
            for ground in zip(*_RAIL_COLOURS, strict=True)
        )
        lines = [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{self._width:g}" height="{height:g}" '
            f'viewBox="0 0 {self._width:g} {height:g}" role="img" aria-labelledby="plan-title plan-desc">',
            f'<title id="plan-title">{safe("Plan of " + str(drawing.plan["cluster"]))}</title>',
            f'<desc id="plan-desc">{safe(describe(drawing))}</desc>',
            f"<style>{STYLE}{light}\n@media (prefers-color-scheme: dark){{{STYLE_DARK}{dark}}}</style>",
            f'<rect class="ground" width="{self._width:g}" height="{height:g}"/>',
            *self._parts,
            "</svg>",
        ]
        return "\n".join(lines) + "\n"

    def _spines(self, spines: svg_model.Spines) -> None:
        self._y += 14
        width = self._column * len(self._drawing.rails) - 12
        self._rect("leaf", self._x(0) - self._column / 2 + 6, self._y, width, 32, spines.count)
        self._caption("spines", self._y + 20)
        text = above(spines, len(self._drawing.leaves))
        self._text(self._x(0) - self._column / 2 + 20, self._y + 20, "", text, int(width / CHARACTER) - 4)
        self._y += 32

    def _band(self, band: svg_model.Band) -> None:
        if band.units or band.nvlink_domains or band.copies > 1:
            self._y += 24
            self._text(_MARGIN, self._y, "name", _band_title(band), int(self._width / CHARACTER) - 8)
        self._y += 14 if band.copies == 1 else 22
        boxes = list(band.boxes)
        lines_at = self._y
        # Lines lie below everything else: their place is kept.
        place = len(self._parts)
        if self._drawing.pair:
            self._box(boxes.pop(0), band, above=True)
            lines_at = self._y
            self._y += 44
        else:
            self._leaves(band)
        subnets_at = self._y
        self._subnets(band)
        names_at = self._y
        # The cards of a stack stand out above the first.
        self._y += 44 if band.copies == 1 else 54
        ends = [lines_at] * len(self._drawing.rails)
        for box in boxes:
            for index, port in enumerate(box.ports):
                if port is not None:
                    ends[index] = self._y
            self._box(box, band)
            self._y += 14
        for index, links in enumerate(band.links):
            rail = next((link for link in links if link), None)
            if rail is None:
                continue
            x = self._x(index)
            bare = not _leaf_of(links) and not self._drawing.pair
            start = subnets_at if bare and _networks_of(links) else lines_at
            line = f'<path class="line {_colour("r", index)}" d="M{x:g} {start:g}V{ends[index]:g}"/>'
            self._parts.insert(place, line)
            self._text(x + 8, names_at + 20, "name", str(rail["name"]), self._room(0.5))
            if rail["rate_gbps"] is not None:
                self._text(x + 8, names_at + 36, "faint", rate(rail["rate_gbps"]), self._room(0.5))
        self._caption("rails", names_at + 26)

    def _leaves(self, band: svg_model.Band) -> None:
        names = [_leaf_of(links) for links in band.links]
        if not any(names):
            return
        known = [
            self._drawing.leaves[links[0]["leaf"]] for links in band.links if links[0] and links[0]["leaf"]
        ]
        height = 78 if any(leaf.oversubscription is not None for leaf in known) else 32
        self._caption("leaves", self._y + height / 2 + 4)
        for leaf_name, beside in groupby(range(len(names)), key=names.__getitem__):
            index, *others = beside
            link = band.links[index][0]
            if leaf_name and link:
                x = self._x(index) - self._column / 2 + 6
                width = self._column * (1 + len(others)) - 12
                self._rect("leaf", x, self._y, width, height, band.copies)
                middle, room = x + width / 2, int(width / CHARACTER)
                leaf = self._drawing.leaves[link["leaf"]]
                # It is drawn more than once, with the rates of all that hangs on it.
                name = leaf_name + (" (shared)" if leaf.sets > 1 else "")
                self._text(middle, self._y + 20, "name", name, room, "middle")
                for row, text in enumerate(ways(leaf) or ()):
                    css = "" if row == 2 else "faint"
                    self._text(middle, self._y + 37 + row * _LINE, css, text, room, "middle")
        self._y += height + 18

    def _subnets(self, band: svg_model.Band) -> None:
        rows = max((len(_networks_of(links)) for links in band.links), default=0)
        if not rows:
            return
        height = rows * _LINE + 10
        self._caption("subnets", self._y + height / 2 + 4)
        for index, links in enumerate(band.links):
            texts = _networks_of(links)
            if not texts:
                continue
            x, width = self._x(index), self._column - 12
            self._rect("net", x - width / 2, self._y, width, height, 1, 12)
            for row, text in enumerate(texts):
                css = "faint" if text.startswith(("via", "a gateway", "a /")) else ""
                self._text(x, self._y + 18 + row * _LINE, css, text, int(width / CHARACTER), "middle")
        self._y += height

    def _box(self, box: svg_model.Box, band: svg_model.Band, *, above: bool = False) -> None:
        columns = [_port_lines(box, index) for index in range(len(box.ports))]
        rows = max(len(texts) for texts in columns)
        height = rows * _LINE + 14 + 34
        x, width = _MARGIN + _GUTTER, self._column * len(box.ports)
        self._rect("node", x, self._y, width, height, band.copies)
        # The ports are where the rails end.
        name_y, rule_y = (
            (self._y + 22, self._y + 34) if above else (self._y + height - 12, self._y + height - 34)
        )
        ports_y = rule_y + 18 if above else self._y + 20
        edge = self._y + height if above else self._y
        self._parts.append(f'<path class="rule" d="M{x:g} {rule_y:g}H{x + width:g}"/>')
        count = f"{len(box.names)} nodes"
        if band.copies > 1 and len(box.names) > band.copies:
            count = f"{band.copies} \u00d7 {len(box.names) // band.copies} nodes"
        title = box.label if len(box.names) == 1 else f"{box.label}: {count}"
        if box.kinds > 1:
            title += f" of {box.kinds} kinds, ports of {box.names[0]}"
        self._text(x + 14, name_y, "name", title, int((width - 28) / CHARACTER))
        self._caption("nodes" if len(box.names) > 1 else "node", name_y)
        for index, texts in enumerate(columns):
            middle = self._x(index)
            if box.ports[index] is not None:
                dot = f'<circle class="{_colour("p", index)}" cx="{middle:g}" cy="{edge:g}" r="5"/>'
                self._parts.append(dot)
            for row, (css, text) in enumerate(texts):
                self._text(middle, ports_y + row * _LINE, css, text, self._room(1), "middle")
        self._y += height

    def _x(self, index: int) -> float:
        """Return the middle of a rail's column."""
        return _MARGIN + _GUTTER + self._column * (index + 0.5)

    def _room(self, share: float) -> int:
        """Return how many characters a share of a column takes."""
        return int((self._column * share - 6) / CHARACTER)

    def _caption(self, text: str, y: float) -> None:
        self._text(_MARGIN, y, "faint", text, 12)

    def _rect(
        self, css: str, x: float, y: float, width: float, height: float, copies: int, radius: float = 8
    ) -> None:
        for behind in (8, 4, 0) if copies > 1 else (0,):
            place = f'x="{x + behind:g}" y="{y - behind:g}" width="{width:g}" height="{height:g}"'
            self._parts.append(f'<rect class="{css}" {place} rx="{radius:g}"/>')

    def _text(self, x: float, y: float, css: str, text: str, longest: int, anchor: str = "start") -> None:
        self._parts.append(svg_parts.write_text(x, y, css, text, longest, anchor))


def _leaf_of(links: Sequence[svg_model.Rail | None]) -> str:
    """Return the folded name of the leaves that one rail of a band hangs on."""
    return svg_model.folded(str(link["leaf"]) for link in links if link and link["leaf"])


def _networks_of(links: Sequence[svg_model.Rail | None]) -> list[str]:
    rails = [link for link in links if link]
    lines = [
        text for key in ("subnet", "subnet6") for text in svg_model.networks(rail[key] for rail in rails)
    ]
    told = (svg_model.part_of(rail, family) for rail in rails[:1] for family in ("", "6"))
    lines += [text for text in told if text]
    gateways = [rail[key] for rail in rails for key in ("gateway", "gateway6") if rail[key]]
    if len(rails) > 1:
        return lines + (["a gateway each"] if gateways else [])
    return lines + [f"via {gateway}" for gateway in gateways]


def _port_lines(box: svg_model.Box, index: int) -> list[tuple[str, str]]:
    """Return the lines of text at a port, each with its class."""
    port = box.ports[index]
    if port is None:
        return [("faint", NO_RAIL)]
    device = port["netdev"] or port["hca"] or port["mac"] or port["pci"] or port["name"]
    lines = [("name", str(device) + (f".{port['vlan']}" if port["vlan"] else ""))]
    if port["netdev"] and port["hca"]:
        lines.append(("faint", str(port["hca"])))
    if port.get("bond"):
        lines.append(("faint", svg_model.bond_of(port)))
    if port.get("shares_wire_with"):
        lines.append(("faint", f"one wire with {port['shares_wire_with']}"))
    return lines + [
        ("", text) for version in (4, 6) for text in svg_model.span(box.addresses[index], version)
    ]


def _band_title(band: svg_model.Band) -> str:
    names = named(band)
    if band.copies == 1:
        return names
    return f"{band.copies} alike" + (f": {names}" if names else "")


def _colour(kind: str, index: int) -> str:
    return f"{kind}{index % len(_RAIL_COLOURS)}"
