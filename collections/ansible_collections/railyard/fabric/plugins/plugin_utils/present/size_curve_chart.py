# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Draw the bandwidth of the collectives by size. Deterministic, as the other charts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.catalogue import CHECKS
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import charts
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.size_curves import Curve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKERS = "os^vDP*X"


def draw(curves: tuple[Curve, ...]) -> charts.Chart | None:
    """Draw the curves, one panel per operation; None where there are none."""
    if not curves:
        return None
    caption = (
        "Bus bandwidth (busbw) by the size that is reduced, gathered or exchanged in "
        "one call. Where the line is still rising, larger sizes would be faster."
    )

    panels: dict[str, list[Curve]] = {}
    for curve in curves:
        panels.setdefault(curve.check, []).append(curve)

    def fill(figure: Figure, grid: Any) -> None:
        for place, (check, lines) in enumerate(panels.items()):
            axes = figure.add_subplot(grid[place])
            charts.clear_axes(axes, CHECKS[check].title.capitalize(), 1.0)
            _panel(axes, lines)

    svg = charts.draw_panels("curves", "Lines of collectives by size", [2.6] * len(panels), 0.1, 0.3, fill)
    return charts.Chart("Collectives by size", caption, svg)


def _panel(axes: Axes, curves: list[Curve]) -> None:
    most = max(busbw for curve in curves for _size, busbw in curve.points)
    for curve, marker in zip(curves, _MARKERS * 2, strict=False):
        sizes, rates = zip(*curve.points, strict=True)
        axes.plot(sizes, rates, marker=marker, color=charts.COLOUR["rdma"], linewidth=1.4)
        charts.write_label(axes, curve.subject, (sizes[-1], rates[-1]))
    axes.set_xscale("log", base=4)
    ticks = sorted({size for curve in curves for size, _busbw in curve.points})
    axes.set_xticks(ticks, [size_text(size) for size in ticks])
    axes.set_xlim(ticks[0] * 0.7, ticks[-1] * 4)
    axes.set_ylim(0, most * 1.15 or 1.0)
    axes.tick_params(axis="y", colors=charts.COLOUR["faint"], labelsize=8)
    axes.set_ylabel("GB/s", color=charts.COLOUR["faint"], fontsize=9)


def size_text(size_bytes: float) -> str:
    """Return a size with a binary prefix, such as `64 KiB`."""
    for unit in ("bytes", "KiB", "MiB"):
        if size_bytes < 1024:
            return f"{size_bytes:.4g} {unit}"
        size_bytes /= 1024
    return f"{size_bytes:.4g} GiB"
