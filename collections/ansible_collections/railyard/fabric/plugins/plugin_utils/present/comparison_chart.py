# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw TCP beside RDMA as bars, a pair for each rail and direction. Deterministic, as the other charts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.present import charts, comparison_text
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.comparison import Compared, Row, three
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.comparison_text import KEYS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Beyond this many rails and directions: those where RDMA does worst.
_SHOWN = 8
_PANELS = (("bandwidth", "Gbit/s"), ("latency", "µs"))
_HEADINGS = {"bandwidth": "Bandwidth", "latency": "Latency, one way: shorter is better"}


def draw(compared: Compared) -> charts.Chart | None:
    """Draw what was compared; nothing where there is no number at all."""
    panels = []
    for what, unit in _PANELS:
        rows = [row for row in compared.rows if "rdma" in row["asked"][what]]
        if any(value is not None for row in rows for value in row[KEYS[what]].values()):
            shown = rows if len(rows) <= _SHOWN else _worst(rows, what)
            panels.append((what, unit, shown, len(rows)))
    if not panels:
        return None
    caption = f"Bandwidth: {compared.bandwidth_of}. Latency: {compared.latency_of}."
    return charts.Chart("TCP against RDMA", caption, _svg(panels))


def _worst(rows: Sequence[Row], what: str) -> list[Row]:
    """Return the rows where RDMA does worst; rows without a comparison are in the table only."""
    known = [row for row in rows if row[f"{what}_ratio"] is not None]
    return comparison_text.worst_first(known or rows, what)[:_SHOWN]


def _svg(panels: Sequence[tuple[str, str, Sequence[Row], int]]) -> str:
    heights = [0.75 + 0.56 * len(shown) for _what, _unit, shown, _total in panels]

    def fill(figure: Figure, grid: Any) -> None:
        for at, (what, unit, shown, total) in enumerate(panels):
            more = f"; {len(shown)} of {total}, worst first" if total > len(shown) else ""
            _panel(figure.add_subplot(grid[at]), _HEADINGS[what] + more, shown, what, unit)

    return charts.draw_panels("compared", "Bars of TCP against RDMA, test by test", heights, 0.3, 0.3, fill)


def _panel(axes: Axes, title: str, shown: Sequence[Row], what: str, unit: str) -> None:
    values = [value for row in shown for value in row[KEYS[what]].values() if value is not None]
    charts.clear_axes(axes, title, max(values, default=1.0))
    for position, row in enumerate(shown):
        for transport, offset in (("tcp", -0.2), ("rdma", 0.2)):
            value = row[KEYS[what]][transport]
            axes.barh(
                position + offset,
                value or 0.0,
                height=0.34,
                color=charts.COLOUR[transport],
                edgecolor=charts.COLOUR["paper"],
                hatch="//" if transport == "rdma" else "",
            )
            text = comparison_text.cell(row, what, transport) if value is None else f"{three(value)} {unit}"
            charts.write_label(axes, f"{transport.upper()} {text}", (value or 0.0, position + offset), 9)
    labels = [comparison_text.place(row, 34) for row in shown]
    axes.set_yticks(range(len(shown)), labels, color=charts.COLOUR["ink"])
    axes.set_ylim(len(shown) - 0.4, -0.6)
