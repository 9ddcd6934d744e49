# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw client by server on each rail as inline SVG. Deterministic.

All cells of a state are one path, in which neighbours are one run: a thousand nodes with eight rails are
33,000 cells at most, of some 20 bytes in the worst case, and five elements per rail for the browser. A PNG
would be smaller, but it follows neither dark mode nor print; an element for each cell makes pages
that laptops scroll badly. A state is shown as a pattern, one tile per cell: its shape identifies it without
colour.
"""

from __future__ import annotations

from html import escape

from ansible_collections.railyard.fabric.plugins.plugin_utils.present import wording
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.meetings import (
    STATES,
    Meetings,
    RailMatrix,
)

# Greatest side of a matrix and of a cell, in units of the drawing (pixels where there is room).
_SIDE, _CELL = 440, 34
_LEFT, _TOP, _RIGHT = 132, 16, 6
_FONT = 13
_LONGEST = 17
#: The shape in a cell, in a square of ten units: drawn over the state's colour.
_SHAPES = {
    "fail": '<path d="M3 3L7 7M7 3L3 7"/>',
    "unmeasured": '<path d="M3.5 4Q3.5 2.5 5 2.5T6.5 4Q6.5 5 5 5.6V6.2M5 7.2V8"/>',
    "met_suspect": '<path d="M5 3L7.4 7H2.6Z"/>',
    "pass": "",
    "recorded": '<circle cx="5" cy="5" r="1.6"/>',
}


def patterns() -> str:
    """Return the patterns that fill the matrices; needed once per page."""
    tiles = "".join(
        f'<pattern id="cell-{_css(state)}" width="10" height="10" patternUnits="userSpaceOnUse">'
        f'<rect class="dot {_css(state)}" x=".4" y=".4" width="9.2" height="9.2"/>'
        f'<g class="shape {_css(state)}">{shape}</g></pattern>'
        for state, shape in _SHAPES.items()
    )
    hidden = 'class="tiles" width="0" height="0" aria-hidden="true" focusable="false"'
    return f"<svg {hidden}><defs>{tiles}</defs></svg>"


def draw(meetings: Meetings, matrix: RailMatrix) -> str:
    """Draw a matrix; a table beside it lists suspects and pairs as text."""
    size = len(meetings.lines)
    cell = min(_SIDE / size, _CELL)
    side = round(cell * size, 1)
    width, height = _LEFT + side + _RIGHT, _TOP + side + _RIGHT
    label = f"Client by server on {', '.join(matrix.rails)}; the table below has the suspects and the pairs"
    parts = [
        f'<svg class="picture heat" xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
        f'style="max-width: {width * 1.15:.0f}px" role="img" focusable="false" aria-label="{escape(label)}">'
    ]
    parts += [_name(meetings.lines[line], line, cell, "suspect") for line in sorted(matrix.suspects)]
    parts += [
        f'<path class="mark" d="M{_LEFT + (line + 0.5) * cell:.1f} {_TOP - 3}l-5 -8h10z"/>'
        for line in sorted(matrix.suspects)
    ]
    parts += [
        _name(meetings.lines[line], line, cell, "small") for line in _labelled(size, cell, matrix.suspects)
    ]
    parts.append(f'<rect class="frame" x="{_LEFT}" y="{_TOP}" width="{side:g}" height="{side:g}"/>')
    parts.append(f'<g transform="translate({_LEFT} {_TOP}) scale({cell / 10:.4f})">')
    parts += [
        f'<path fill="url(#cell-{_css(state)})" d="{path}"/>'
        for number, state in enumerate(STATES)
        if state and (path := _path(matrix.cells, size, number))
    ]
    parts.append("</g></svg>")
    return "".join(parts)


def _path(cells: bytes, size: int, state: int) -> str:
    """Return the outline of all cells of a state; neighbours in a row are one run."""
    wanted = bytes([state])
    found = []
    for row in range(size):
        mine = cells[row * size : (row + 1) * size]
        start = mine.find(wanted)
        while start >= 0:
            end = start
            while end < size and mine[end] == state:
                end += 1
            wide = 10 * (end - start)
            found.append(f"M{10 * start} {10 * row}h{wide}v10h-{wide}z")
            start = mine.find(wanted, end)
    return "".join(found)


def _labelled(size: int, cell: float, suspects: frozenset[int]) -> list[int]:
    """Return the lines that have room for a name: as many as fit, and none beside a suspect's."""
    step = max(1, -(-int(_FONT + 1) // int(cell))) if cell >= 1 else size
    near = {line + away for line in suspects for away in range(1 - step, step)}
    return [line for line in range(0, size, step) if line not in near and line not in suspects]


def _name(name: str, line: int, cell: float, css: str) -> str:
    name = name if len(name) <= _LONGEST else f"{name[: _LONGEST - 1]}\u2026"
    text = f"{wording.outcome('fail').symbol} {name}" if css == "suspect" else name
    y = _TOP + (line + 0.5) * cell + 4
    return f'<text class="{css}" x="{_LEFT - 6}" y="{y:.1f}" text-anchor="end">{escape(text)}</text>'


def _css(state: str) -> str:
    return state.replace("_", "-")
