# Copyright: Railyard contributors
# GNU General Public License v3.0+ (see LICENSE or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Bars of bandwidth and latency as inline SVG. Deterministic: the same report gives the same bytes."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

from ansible_collections.railyard.fabric.plugins.plugin_utils.arrays import Floats, np
from ansible_collections.railyard.fabric.plugins.plugin_utils.checks.policy import is_number
from ansible_collections.railyard.fabric.plugins.plugin_utils.present import wording
from ansible_collections.railyard.fabric.plugins.plugin_utils.present.measurement import (
    Measurement,
    PassedTests,
    badness,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Beyond this many bars of one check: the worst, and how all of them are spread.
_BARS_SHOWN = 16
_WORST_SHOWN = 8
_BINS = 24

# Stand-ins that become CSS variables afterwards, so that one drawing serves light, dark and paper.
_CSS = (
    "ink", "faint", "line", "pass", "fail", "unmeasured", "recorded", "not_applicable", "paper", "tcp", "rdma"
)  # fmt: skip
COLOUR = {name: f"#0102{number:02x}" for number, name in enumerate(_CSS, start=3)}
# What matplotlib would write into a drawing that depends on the day.
_METADATA = ("Date", "Creator", "Format", "Type")
_HATCH = {"fail": "////", "unmeasured": "....", "recorded": "", "pass": "", "not_applicable": ""}


@dataclass(frozen=True)
class Chart:
    """A title, a caption, and one drawing or several as inline SVG."""

    title: str
    caption: str
    svg: str


def draw(measurements: Sequence[Measurement], passed: Sequence[PassedTests] = ()) -> list[Chart]:
    """Draw bandwidth and latency between nodes, each where something was measured.

    The rate that a link reports is not drawn: it is no measured bandwidth.

    Args:
        measurements: of the run, except those of `passed`.
        passed: those of a large run that clearly pass.
    """
    charts = []
    measurements = [measurement for measurement in measurements if measurement.peer]
    bandwidth = _group_by_check(measurements, passed, "_gbps")
    if bandwidth:
        caption = "Received rate. A tick marks the floor below which a test fails, where a source gives one."
        charts.append(Chart("Bandwidth", caption, _bars(bandwidth, "Gbit/s", "bandwidth")))
    latency = _group_by_check(measurements, passed, "_us")
    if latency:
        caption = (
            "Average; shorter is better. The thin line ends at the 99th percentile (sockperf, perftest) or "
            "the slowest reply (ping). One way and round trip are not to be compared."
        )
        charts.append(Chart("Latency", caption, _bars(latency, "µs", "latency")))
    return charts


def _settings(name: str) -> AbstractContextManager[None]:
    """Return matplotlib's defaults without the user's settings, and what makes the bytes reproducible."""
    import matplotlib as mpl

    settings = {
        # Text stays text: it can be searched and scaled. No mathematics: a `$` in a name is a `$`.
        "svg.fonttype": "none",
        "svg.hashsalt": f"railyard-{name}",
        "text.parse_math": False,
        "font.size": 10.0,
        "hatch.linewidth": 0.7,
    }
    context: AbstractContextManager[None] = mpl.rc_context({**mpl.rcParamsDefault, **settings})
    return context


def draw_panels(
    name: str,
    label: str,
    heights: Sequence[float],
    left: float,
    hspace: float,
    fill: Callable[[Figure, Any], None],
) -> str:
    """Draw panels below each other and return them as a part of a page.

    Args:
        name: the drawing's name, unique in the page.
        label: what it shows, for screen readers.
        heights: of the panels, in inches.
        left: left edge of the panels, as a share of the width.
        hspace: room between them, as a share of their height.
        fill: draws the panels, given the figure and its grid.
    """
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    height = sum(heights) + 0.3
    out = io.BytesIO()
    with _settings(name):
        figure = Figure(figsize=(9.2, height))
        FigureCanvasSVG(figure)
        grid = figure.add_gridspec(
            len(heights), 1, height_ratios=heights, left=left, right=0.93, hspace=hspace
        )
        grid.update(top=1 - 0.36 / height, bottom=0.36 / height)
        fill(figure, grid)
        figure.savefig(out, format="svg", transparent=True, metadata=dict.fromkeys(_METADATA))
    return _inline(out.getvalue().decode("utf-8"), name, f"{label}; a table below has the same numbers")


class _OfCheck(NamedTuple):
    """The measurements of one check; those of a large run that clearly pass in groups."""

    single: Sequence[Measurement]
    passed: Sequence[PassedTests]

    @property
    def total(self) -> int:
        """How many there are."""
        return len(self.single) + sum(map(len, self.passed))

    def values(self, outcome: str) -> list[float | Floats]:
        """Return the main numbers with an outcome, singly and as columns."""
        single = [item.value for item in self.single if item.outcome == outcome and item.value is not None]
        return [*single, *(tests.values for tests in self.passed if tests.first.outcome == outcome)]


def _group_by_check(
    measurements: Sequence[Measurement], passed: Sequence[PassedTests], suffix: str
) -> dict[str, _OfCheck]:
    """Group the measurements of checks whose main number has this unit, unmeasured ones included."""
    examples = [*measurements, *(tests.first for tests in passed)]
    of_unit = {item.check for item in examples if (item.metric or "").endswith(suffix)}
    return {
        check: _OfCheck(
            [item for item in measurements if item.check == check and item.outcome != "not_applicable"],
            [tests for tests in passed if tests.first.check == check],
        )
        for check in sorted(of_unit, key=wording.check_order)
    }


def _bars(checks: dict[str, _OfCheck], unit: str, name: str) -> str:
    """Return a drawing per check, each with an axis of its own; a printed page can break between them."""
    return "".join(_bars_of_check(check, found, unit, name) for check, found in checks.items())


def _bars_of_check(check: str, found: _OfCheck, unit: str, name: str) -> str:
    many = found.total > _BARS_SHOWN
    shown = [*found.single, *(item for tests in found.passed for item in tests.worst(_WORST_SHOWN))]
    shown = sorted(shown, key=badness)[:_WORST_SHOWN] if many else shown
    reach = [max((0.0, *_reach(item))) for item in (*found.single, *shown) if item.value is not None]
    most = max([*reach, *(float(np.nanmax(tests.values)) for tests in found.passed)], default=0.0) or 1.0
    title = wording.heading(check)
    heights = [0.62 + 0.27 * len(shown)]
    if many:
        title += f": the {len(shown)} worst of {found.total}"
        heights.append(1.5)

    def fill(figure: Figure, grid: Any) -> None:
        _panel(figure.add_subplot(grid[0]), title, shown, unit, most)
        if many:
            _spread(figure.add_subplot(grid[1]), found, unit, most)

    label = f"Bars of {name} in {unit}: {wording.check_title(check)}"
    return draw_panels(f"{name}-{check}", label, heights, 0.27, 0.6, fill)


def _panel(axes: Axes, title: str, shown: Sequence[Measurement], unit: str, most: float) -> None:
    clear_axes(axes, title, most)
    positions = range(len(shown))
    for position, item in zip(positions, shown, strict=True):
        outcome = wording.outcome(item.outcome)
        colour = COLOUR[outcome.name]
        value = item.value or 0.0
        axes.barh(
            position, value, height=0.62, color=colour, edgecolor=COLOUR["paper"], hatch=_HATCH[outcome.name]
        )
        tail = _tail(item)
        if tail is not None and tail > value:
            axes.plot([value, tail], [position, position], color=colour, linewidth=1.2, solid_capstyle="butt")
            axes.plot([tail, tail], [position - 0.16, position + 0.16], color=colour, linewidth=1.2)
        floor = _floor(item)
        if floor is not None:
            axes.plot([floor, floor], [position - 0.42, position + 0.42], color=COLOUR["ink"], linewidth=1.6)
        if item.value is None:
            text = f"{outcome.symbol} {outcome.word}"
        else:
            text = f"{outcome.symbol} {wording.number(item.value)} {unit}"
            if outcome.name in ("fail", "unmeasured"):
                text += f" ({outcome.word})"
        write_label(axes, text, (max([0.0, *_reach(item)]), position))
    axes.set_yticks(list(positions), [_place(item) for item in shown], color=COLOUR["ink"])
    axes.set_ylim(len(shown) - 0.4, -0.6)


def _spread(axes: Axes, spread: _OfCheck, unit: str, most: float) -> None:
    clear_axes(axes, f"Distribution of all {spread.total}", most)
    by_outcome = {name: spread.values(name) for name in wording.OUTCOMES}
    present = {name: np.hstack(values) for name, values in by_outcome.items() if values}
    if present:
        axes.hist(
            list(present.values()),
            bins=_BINS,
            range=(0.0, most),
            stacked=True,
            color=[COLOUR[name] for name in present],
        )
    axes.set_ylabel("lines", color=COLOUR["faint"], fontsize=9)
    axes.tick_params(axis="y", colors=COLOUR["faint"], labelsize=8)
    axes.set_xlabel(unit, color=COLOUR["faint"], fontsize=9)


def clear_axes(axes: Axes, title: str, most: float) -> None:
    """Remove box and ticks; keep the title and the grid."""
    axes.set_facecolor("none")
    axes.set_xlim(0, most * 1.22)
    axes.set_title(title, loc="left", fontsize=10.5, fontweight="bold", color=COLOUR["ink"], pad=7)
    axes.grid(axis="x", color=COLOUR["line"], linewidth=0.8)
    axes.set_axisbelow(True)
    for spine in axes.spines.values():
        spine.set_visible(False)
    axes.tick_params(axis="x", length=0, colors=COLOUR["faint"], labelsize=8)
    axes.tick_params(axis="y", length=0)


def write_label(axes: Axes, text: str, place: tuple[float, float], size: float = 10.0) -> None:
    """Write a label to the right of a point."""
    axes.annotate(
        text, place, xytext=(6, 0), textcoords="offset points",
        va="center", fontsize=size, color=COLOUR["ink"], annotation_clip=False,
    )  # fmt: skip


def _place(item: Measurement) -> str:
    where = f"{item.node} → {item.peer}" if item.peer else item.node
    return f"{where}  {item.rail or 'all rails'}"


def _tail(item: Measurement) -> float | None:
    """Return where the thin line ends: the 99th percentile, or the slowest ping."""
    for metric in ("latency_p99_us", "rtt_max_us"):
        value: Any = item.observed.get(metric)
        if is_number(value):
            return float(value)
    return None


def _floor(item: Measurement) -> float | None:
    """Return the floor of the main number."""
    floor: Any = item.floor.get(item.metric or "")
    return float(floor) if is_number(floor) else None


def _reach(item: Measurement) -> list[float]:
    """Return the numbers that are drawn for a measurement."""
    return [number for number in (item.value, _tail(item), _floor(item)) if number is not None]


def _inline(svg: str, name: str, label: str) -> str:
    """Turn matplotlib's document into a part of a page: no prolog, unique ids, the page's colours."""
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.S)
    for size in ("width", "height"):
        svg = re.sub(rf'(<svg\b[^>]*?) {size}="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'\b(id="|href="#|url\(#)', rf"\1{name}-", svg)
    svg = re.sub(r"font: (?:(bold) )?([0-9.]+px) [^;\"]*", _font, svg)
    for name, stand_in in COLOUR.items():
        svg = svg.replace(stand_in, f"var(--{name.replace('_', '-')})")
    attributes = f'role="img" aria-label="{escape(label)}" focusable="false"'
    return svg.replace("<svg ", f'<svg class="chart" {attributes} ', 1).strip()


def _font(match: re.Match[str]) -> str:
    weight = "font-weight: 600; " if match[1] else ""
    return f"{weight}font-size: {match[2]}"
