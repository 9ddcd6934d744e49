# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw nodes and rails, coloured by verdict: two nodes as they are cabled, more as a grid."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.present import summary, wording
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.measurement import Measurement
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.model import RailRow, Report

_WIDTH = 920
_LANE = 92
_CELL, _CELL_GAP = 34, 6
#: The rates shown beside a rail, and their names where there are two.
_RATES = {"tcp_bandwidth": "TCP", "rdma_bandwidth": "RDMA", "rdma_send_bandwidth": "RDMA"}
#: So many pixels for the names of a row's nodes, and so many characters in them.
_NAME_WIDTH, _NAME_LENGTH = 250, 27


def draw(report: Report) -> str:
    """Return the picture as inline SVG; a table below it has the same data."""
    nodes = list(report.plan.get("nodes") or {})
    if len(nodes) == 2 and report.rails:
        return _pair(report, nodes[0], nodes[1])
    return _grid(report)


def _pair(report: Report, left: str, right: str) -> str:
    """Draw two boxes, and between them a lane per rail with both directions."""
    outcome_of = {
        (row.nodes[0], rail): state
        for row in report.rows
        for rail, state in zip(report.rails, row.outcomes, strict=True)
    }
    height = 56 + _LANE * len(report.rails)
    box_width, top = 210, 44
    parts = [_open(_WIDTH, height + 16)]
    for name, x in ((left, 10), (right, _WIDTH - 10 - box_width)):
        parts.append(
            f'<rect x="{x}" y="10" width="{box_width}" height="{height - 6}" rx="10" class="box"/>'
            + _text(x + box_width / 2, 32, "name", "middle", name, 24)
        )
    for index, rail in enumerate(report.rails):
        y = top + index * _LANE + _LANE / 2
        parts.append(_text(_WIDTH / 2, y - 30, "name", "middle", rail, 30))
        for name, x, anchor, dot in (
            (left, box_width - 6, "end", 10 + box_width),
            (right, _WIDTH - box_width + 6, "start", _WIDTH - 10 - box_width),
        ):
            details = _rail_of(report.plan, name, rail)
            state = outcome_of.get((name, rail), "not_applicable")
            parts.append(_port(dot, y, state))
            if state == "absent":
                parts.append(_text(x, y + 4, "small", anchor, wording.outcome(state).word, 26))
                continue
            address = details.get("address") or details.get("address6") or "no address"
            parts.append(_text(x, y - 3, "port", anchor, str(details.get("netdev") or rail), 22))
            parts.append(_text(x, y + 13, "small", anchor, str(address), 26))
        start, end = 10 + box_width + 16, _WIDTH - 10 - box_width - 16
        parts.append(_lane(report.measurements, left, right, rail, start, end, y - 12))
        parts.append(_lane(report.measurements, right, left, rail, end, start, y + 14))
    parts.append("</svg>")
    return "".join(parts)


def _lane(
    measurements: Sequence[Measurement], node: str, peer: str, rail: str, start: float, end: float, y: float
) -> str:
    """Draw an arrow for one direction of a rail, with its rate."""
    mine = [item for item in measurements if (item.node, item.peer, item.rail) == (node, peer, rail)]
    state = wording.outcome(summary.worst(item.outcome for item in mine) if mine else "not_applicable")
    by_name = {
        _RATES[item.check]: item for item in reversed(mine) if item.check in _RATES and item.value is not None
    }
    # At most two numbers on an arrow: of several RDMA tests the first.
    rates = [item for item in mine if item in by_name.values()]
    text = f"{state.symbol} {state.word}"
    if rates:
        # Each rate keeps its own verdict; the check that made the lane worse is named beside it.
        # Where RDMA is planned, a single rate is named, too.
        named = len(rates) > 1 or any(item.check.startswith("rdma") for item in mine)
        text = ", ".join(_rate(item, named=named) for item in rates)
        worst = {item.outcome for item in rates}
        other = next((item for item in mine if item.outcome == state.name), rates[0])
        if state.name in ("fail", "unmeasured") and state.name not in worst:
            text += f", {state.symbol} {wording.check_title(other.check)}"
    forward = 1 if end > start else -1
    tip = f"{end:g},{y:g} {end - 9 * forward:g},{y - 5:g} {end - 9 * forward:g},{y + 5:g}"
    dash = ' stroke-dasharray="7 5"' if state.name in ("fail", "unmeasured") else ""
    middle, width = (start + end) / 2, 7.9 * len(text) + 18
    css = _css(state.name)
    return (
        f'<line x1="{start:g}" y1="{y:g}" x2="{end - 8 * forward:g}" y2="{y:g}" class="lane {css}"{dash}/>'
        f'<polygon points="{tip}" class="tip {css}"/>'
        f'<rect x="{middle - width / 2:g}" y="{y - 10:g}" width="{width:g}" height="20" class="gap"/>'
        + _text(middle, y + 4.5, "rate", "middle", text)
    )


def _rate(item: Measurement, *, named: bool) -> str:
    state = wording.outcome(item.outcome)
    text = f"{state.symbol} {_RATES[item.check]} " if named else f"{state.symbol} "
    text += wording.quantity(item.metric or "", item.value)
    return text + (f" ({state.word})" if state.name in ("fail", "unmeasured") else "")


def _port(x: float, y: float, state: str) -> str:
    shown = wording.outcome(state)
    return f'<circle cx="{x:g}" cy="{y:g}" r="11" class="dot {_css(shown.name)}"/>' + _text(
        x, y + 4.5, "symbol", "middle", shown.symbol
    )


def _grid(report: Report) -> str:
    """Draw a row per node, or per group of nodes with equal outcomes, and a cell per rail."""
    step = _CELL + _CELL_GAP
    height = 40 + step * max(len(report.rows), 1)
    width = max(_NAME_WIDTH + step * len(report.rails) + 120, 420)
    parts = [_open(width, height)]
    for column, rail in enumerate(report.rails):
        x = _NAME_WIDTH + column * step + _CELL / 2
        parts.append(_text(x, 22, "small", "middle", rail, 7))
    for index, row in enumerate(report.rows):
        y = 34 + index * step
        parts.append(_text(_NAME_WIDTH - 12, y + _CELL / 2 + 4, "port", "end", _row_label(row), _NAME_LENGTH))
        for column, state in enumerate(row.outcomes):
            shown = wording.outcome(state)
            x = _NAME_WIDTH + column * step
            place = f'x="{x:g}" y="{y:g}" width="{_CELL}" height="{_CELL}"'
            ring = " suspect" if row.is_suspect[column] else ""
            parts.append(f'<rect {place} rx="6" class="dot {_css(shown.name)}{ring}"/>')
            parts.append(_text(x + _CELL / 2, y + _CELL / 2 + 5, "symbol", "middle", shown.symbol))
        if len(row.nodes) > 1:
            x = _NAME_WIDTH + len(row.outcomes) * step + 4
            parts.append(_text(x, y + _CELL / 2 + 4, "small", "start", f"{len(row.nodes)} nodes"))
    parts.append("</svg>")
    return "".join(parts)


def _row_label(row: RailRow) -> str:
    """Return the nodes of a row; if there is no room for all, the first and how many more."""
    if len(row.label) <= _NAME_LENGTH or len(row.nodes) == 1:
        return row.label
    more = f" and {len(row.nodes) - 1} more"
    return _short(row.nodes[0], _NAME_LENGTH - len(more)) + more


def _open(width: float, height: float) -> str:
    return (
        f'<svg class="picture" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'style="max-width: {width:g}px" role="img" focusable="false" '
        'aria-label="Nodes and rails by verdict; the table below has the same as text">'
    )


def _text(x: float, y: float, css: str, anchor: str, text: str, longest: int = 60) -> str:
    """Draw one line of text, cut to the space; the only place where a name enters the drawing."""
    place = f'x="{x:g}" y="{y:g}" class="{css}" text-anchor="{anchor}"'
    return f"<text {place}>{escape(_short(text, longest))}</text>"


def _rail_of(plan: dict[str, Any], node: str, rail: str) -> dict[str, Any]:
    rails = (plan.get("nodes") or {}).get(node, {}).get("rails") or []
    return next((dict(item) for item in rails if item.get("name") == rail), {})


def _css(state: str) -> str:
    return state.replace("_", "-")


def _short(text: str, longest: int) -> str:
    """Cut a text in its middle: names of nodes often differ at their ends alone."""
    text = " ".join(text.split())
    if len(text) <= longest:
        return text
    kept = longest - 1
    return f"{text[: kept - kept // 2]}…{text[len(text) - kept // 2 :]}"
